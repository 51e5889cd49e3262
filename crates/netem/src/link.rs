//! Link: combines queue, transmitter, impairments and packets in flight.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use crate::config::{LinkChange, LinkConfig};
use crate::error::{ConfigError, checked_rate};
use crate::flight::Flight;
use crate::loss::{Loss, LossProcess};
use crate::packet::Packet;
use crate::policer::TokenBucket;
use crate::queue::{DropCause, Queue};
use crate::random::{Random, Stream};
use crate::stats::{Count, LinkStats};
use crate::transmitter::Transmitter;

/// One direction of one hop, after the model described in the crate's documentation.
///
/// Usage: [`push`](Self::push) packets in; wait until [`next_time`](Self::next_time); [`pop`](Self::pop) until it
/// returns `None`. Time must not run backwards: an earlier time is treated as the latest one given.
#[derive(Clone, Debug)]
pub struct Link<P> {
    now: Time,
    transmitter: Transmitter<P>,
    flight: Flight<P>,
    queue: Queue<P>,
    held: Count,
    stats: LinkStats,
    policer: Option<Box<TokenBucket>>,
    /// Configured one-way delay, copied for fast access.
    delay: Duration,
    /// True if every sent packet arrives once, unchanged, exactly after the delay.
    is_clean: bool,
    /// True during an outage that a change has started.
    is_out: bool,
    /// Boxed to save cache: a simulator has hundreds of links, most of them without impairments.
    config: Box<LinkConfig>,
    impairments: Box<Impairments>,
}

/// State of the impairments of packets that leave the transmitter.
#[derive(Clone, Debug)]
struct Impairments {
    loss: LossProcess,
    jitter: Random,
    reorder: Random,
    duplicate: Random,
    corrupt: Random,
    /// Index of the first blackout that has not ended.
    blackout: usize,
}

impl Impairments {
    fn new(loss: Loss, seed: u64) -> Self {
        Self {
            loss: LossProcess::new(loss, seed),
            jitter: Random::new(seed, Stream::Jitter),
            reorder: Random::new(seed, Stream::Reorder),
            duplicate: Random::new(seed, Stream::Duplicate),
            corrupt: Random::new(seed, Stream::Corrupt),
            blackout: 0,
        }
    }
}

impl<P: Packet> Link<P> {
    /// Creates an idle link. `seed` determines all random events.
    ///
    /// # Errors
    /// Fails if a field of `config` is invalid: see [`ConfigError`].
    pub fn new(config: LinkConfig, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            now: Time::ZERO,
            queue: Queue::new(config.discipline.clone(), config.queue, config.rate_bps, seed)?,
            transmitter: Transmitter::new(checked_rate(config.rate_bps)?),
            flight: Flight::new(),
            held: Count::default(),
            stats: LinkStats::default(),
            policer: config.policer.map(|policer| Box::new(TokenBucket::new(policer))),
            delay: config.delay,
            is_clean: config.is_clean(),
            is_out: false,
            impairments: Box::new(Impairments::new(config.loss.clone(), seed)),
            config: Box::new(config),
        })
    }

    /// Offers a packet at `now`. Its fate shows in [`stats`](Self::stats) and [`pop`](Self::pop).
    pub fn push(&mut self, now: Time, packet: P) {
        self.advance(now);
        let size_bytes = packet.size_bytes();
        self.stats.offered.add(size_bytes);
        let is_policed = self.policer.as_mut().is_some_and(|policer| !policer.passes(self.now, size_bytes));
        if is_policed || self.held.bytes.saturating_add(u64::from(size_bytes)) > self.config.held_bytes_max {
            self.stats.queue_drops.add(size_bytes);
            return;
        }
        self.held.add(size_bytes);
        if self.transmitter.is_infinite() {
            self.depart(self.now, packet);
            return;
        }
        let mut on_drop = drop_counter(&mut self.stats, &mut self.held);
        if !self.transmitter.is_idle() {
            self.queue.push(self.now, packet, &mut on_drop);
        } else if let Some(packet) = self.queue.pass(self.now, packet, &mut on_drop) {
            self.transmitter.start(self.now, packet.size_bytes(), packet);
        }
    }

    /// Returns the earliest time at which [`pop`](Self::pop) may return a packet; `None` while the link is empty. If
    /// this packet turns out to be lost or delayed, `pop` returns `None`, and the next call returns a later time.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        let next_departure = self.transmitter.finish_time();
        let next_sent = next_departure.map(|finish| self.flight.in_order_arrival(finish + self.delay));
        match (next_sent, self.flight.next_arrival()) {
            (Some(sent), Some(arrival)) => Some(sent.min(arrival)),
            (sent, arrival) => sent.or(arrival),
        }
    }

    /// Returns a time at which to call [`pop`](Self::pop) to take several packets at once, if wake-ups are expensive:
    /// the last arrival within `patience` after the next one. A lone packet is not delayed.
    #[must_use]
    pub fn next_time_together(&self, patience: Duration) -> Option<Time> {
        let next = self.next_time()?;
        let end = next + patience;
        let together = self.flight.last_arrival_until(end).map_or(next, |last| last.max(next));
        if self.flight.has_arrival_after(end) {
            return Some(together);
        }
        // The packet being sent and packets queued behind it may also arrive before `end`. Queued packets are assumed
        // to have the size of the packet being sent: their exact times are unknown until they are sent.
        let sent = self.transmitter.finish_time().map(|finish| finish + self.delay);
        let Some(sent) = sent.filter(|&sent| sent <= end) else { return Some(together) };
        let each_ns = duration_ns(self.transmitter.job_duration());
        let fitting = (end - sent).as_nanos().checked_div(each_ns.into()).unwrap_or_default();
        let following = fitting.min(self.queue.len() as u128) as u64;
        Some(together.max(sent + Duration::from_nanos(each_ns * following)))
    }

    /// Returns the end of the current transmission; `None` while the transmitter is idle.
    #[must_use]
    pub fn sent_at(&self) -> Option<Time> {
        self.transmitter.finish_time()
    }

    /// Returns the next packet that has arrived by `now`, in order of arrival, FIFO among equals.
    pub fn pop(&mut self, now: Time) -> Option<P> {
        self.pop_with_arrival(now).map(|(_, packet)| packet)
    }

    /// Like [`pop`](Self::pop), but also returns the packet's arrival time, which shows how late the call is.
    pub fn pop_with_arrival(&mut self, now: Time) -> Option<(Time, P)> {
        self.advance(now);
        let (arrival, packet) = self.flight.pop(self.now)?;
        let size_bytes = packet.size_bytes();
        self.held.remove(size_bytes);
        self.stats.delivered.add(size_bytes);
        Some((arrival, packet))
    }

    /// Advances the link to `now` without removing packets, so that [`queue_len`](Self::queue_len) and
    /// [`stats`](Self::stats) are current. All other methods with a time do this, too.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some((finish, packet)) = self.transmitter.finish(self.now) {
            self.depart(finish, packet);
            let mut on_drop = drop_counter(&mut self.stats, &mut self.held);
            if let Some(next) = self.queue.pop(finish, &mut on_drop) {
                self.transmitter.continue_with(finish, next.size_bytes(), next);
            }
        }
    }

    /// Changes the rate from `now` on, also for the rest of the packet being sent.
    ///
    /// # Errors
    /// Fails if the rate is zero; the link is then unchanged.
    pub fn set_rate_bps(&mut self, now: Time, rate_bps: Option<u64>) -> Result<(), ConfigError> {
        let rate = checked_rate(rate_bps)?;
        self.advance(now);
        self.config.rate_bps = rate_bps;
        self.queue.set_rate_bps(self.now, rate_bps)?;
        self.transmitter.set_rate(self.now, rate);
        // Without a rate, all queued packets leave immediately.
        self.advance(now);
        Ok(())
    }

    /// Changes the delay of packets that leave the transmitter after `now`. With a shorter delay, they do not overtake
    /// packets in flight.
    pub fn set_delay(&mut self, now: Time, delay: Duration) {
        self.advance(now);
        self.config.delay = delay;
        self.delay = delay;
    }

    /// Changes the loss model of packets that leave the transmitter after `now`.
    ///
    /// # Errors
    /// Fails if the model is invalid; the link is then unchanged.
    pub fn set_loss(&mut self, now: Time, loss: Loss) -> Result<(), ConfigError> {
        loss.validate()?;
        self.advance(now);
        self.config.loss = loss.clone();
        self.is_clean = self.config.is_clean() && !self.is_out;
        self.impairments.loss.set(loss);
        Ok(())
    }

    /// Starts or ends an outage, independently of configured blackouts.
    pub fn set_outage(&mut self, now: Time, is_out: bool) {
        self.advance(now);
        self.is_out = is_out;
        self.is_clean = self.config.is_clean() && !is_out;
    }

    /// Applies all parts of a change at `now`.
    ///
    /// # Errors
    /// Fails if the new rate or loss model is invalid; the link is then unchanged.
    pub fn change(&mut self, now: Time, change: &LinkChange) -> Result<(), ConfigError> {
        checked_rate(change.rate_bps)?;
        change.loss.as_ref().map_or(Ok(()), Loss::validate)?;
        if change.rate_bps.is_some() {
            self.set_rate_bps(now, change.rate_bps)?;
        }
        if let Some(delay) = change.delay {
            self.set_delay(now, delay);
        }
        if let Some(loss) = &change.loss {
            self.set_loss(now, loss.clone())?;
        }
        if let Some(is_out) = change.outage {
            self.set_outage(now, is_out);
        }
        Ok(())
    }

    /// Returns the present configuration, including changes.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Returns true during an outage that a change has started.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// Returns the counters at the latest time given to the link.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        LinkStats { ce_marked: self.queue.ce_marked(), ..self.stats }
    }

    /// Returns the number of packets waiting for the transmitter at the latest time given to the link. The packet being
    /// sent is not counted.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of bytes waiting for the transmitter at the latest time given to the link.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Returns packets and bytes in the link: queued, being sent, and in flight.
    #[must_use]
    pub fn held(&self) -> Count {
        self.held
    }

    /// Applies the impairments to `packet`, whose transmission ended at `at`.
    fn depart(&mut self, at: Time, packet: P) {
        if self.is_clean {
            return self.flight.add_in_order(at + self.delay, packet);
        }
        let size_bytes = packet.size_bytes();
        if self.is_out || self.is_dark(at) {
            self.stats.blackout_drops.add(size_bytes);
            self.held.remove(size_bytes);
            return;
        }
        let Impairments { loss, jitter, reorder, duplicate, .. } = &mut *self.impairments;
        if loss.loses_next() {
            self.stats.lost.add(size_bytes);
            self.held.remove(size_bytes);
            return;
        }
        let copy = duplicate.chance(self.config.duplicate).then(|| packet.clone());
        let jitter = Duration::from_nanos(jitter.up_to(duration_ns(self.config.jitter)));
        let mut arrival = next_multiple(at + self.delay + jitter, self.config.batch);
        let held_back = reorder.chance(self.config.reorder);
        if held_back {
            arrival = self.flight.in_order_arrival(arrival) + self.config.reorder_delay;
            self.stats.reordered.add(size_bytes);
        }
        self.travel(arrival, held_back, packet);
        if let Some(copy) = copy {
            self.stats.duplicated.add(size_bytes);
            self.held.add(size_bytes);
            self.travel(arrival, held_back, copy);
        }
    }

    fn travel(&mut self, arrival: Time, held_back: bool, mut packet: P) {
        if self.impairments.corrupt.chance(self.config.corrupt) {
            packet.corrupt(self.impairments.corrupt.bits());
            self.stats.corrupted.add(packet.size_bytes());
        }
        if held_back {
            self.flight.add_held_back(arrival, packet);
        } else {
            self.flight.add_in_order(arrival, packet);
        }
    }

    /// Returns true if `at` is in a blackout. Departures are in chronological order, so past blackouts are never
    /// examined again.
    fn is_dark(&mut self, at: Time) -> bool {
        while let Some(&(start, end)) = self.config.blackouts.get(self.impairments.blackout) {
            if at < end {
                return at >= start;
            }
            self.impairments.blackout += 1;
        }
        false
    }
}

/// Returns the next multiple of `batch` from `at` on; `at` itself without batches.
fn next_multiple(at: Time, batch: Duration) -> Time {
    match duration_ns(batch) {
        0 => at,
        batch_ns => Time::from_ns(at.as_ns().div_ceil(batch_ns).saturating_mul(batch_ns)),
    }
}

/// Returns a callback that counts a packet dropped by the queue in `stats`, and removes it from `held`.
fn drop_counter<P: Packet>(stats: &mut LinkStats, held: &mut Count) -> impl FnMut(P, DropCause) {
    move |packet, cause| {
        let size_bytes = packet.size_bytes();
        held.remove(size_bytes);
        stats.queue_drops.add(size_bytes);
        if cause == DropCause::Early {
            stats.early_drops.add(size_bytes);
        }
    }
}

#[cfg(test)]
mod tests;
