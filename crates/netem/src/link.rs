//! Link: wiring of queue, transmitter, impairments and flight.

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

/// One direction of one hop; the crate's documentation describes the model.
///
/// Usage: [`push`](Self::push) packets in; wait until [`next_time`](Self::next_time); [`pop`](Self::pop) until it returns `None`. Time must
/// not run backwards: an earlier instant counts as the latest one seen.
#[derive(Clone, Debug)]
pub struct Link<P> {
    now: Time,
    transmitter: Transmitter<P>,
    flight: Flight<P>,
    queue: Queue<P>,
    held: Count,
    stats: LinkStats,
    policer: Option<Box<TokenBucket>>,
    /// One-way delay of the configuration.
    delay: Duration,
    /// True if every sent packet arrives once, after the delay and unchanged.
    is_clean: bool,
    /// True during an outage started by a change.
    is_out: bool,
    /// Boxed: a simulator has hundreds of mostly clean links, and the cache is small.
    config: Box<LinkConfig>,
    impairments: Box<Impairments>,
}

/// Impairments of packets behind the transmitter.
#[derive(Clone, Debug)]
struct Impairments {
    loss: LossProcess,
    jitter: Random,
    reorder: Random,
    duplicate: Random,
    corrupt: Random,
    /// Index of the first blackout that is not over.
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
    /// Creates an idle link. `seed` determines every random event.
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

    /// Offers a packet at `now`. Its fate is visible in [`stats`](Self::stats) and [`pop`](Self::pop).
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

    /// Earliest time at which [`pop`](Self::pop) might return a packet; `None` while the link is empty. If that packet turns out to be lost
    /// or late, `pop` returns `None` and the next time is later.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        let next_departure = self.transmitter.finish_time();
        let next_sent = next_departure.map(|finish| self.flight.in_order_arrival(finish + self.delay));
        match (next_sent, self.flight.next_arrival()) {
            (Some(sent), Some(arrival)) => Some(sent.min(arrival)),
            (sent, arrival) => sent.or(arrival),
        }
    }

    /// Time to call [`pop`](Self::pop) so that packets arriving within `patience` of the next one are taken together, for callers with
    /// expensive wake-ups. A lone packet is not delayed.
    #[must_use]
    pub fn next_time_together(&self, patience: Duration) -> Option<Time> {
        let next = self.next_time()?;
        let end = next + patience;
        let together = self.flight.last_arrival_until(end).map_or(next, |last| last.max(next));
        if self.flight.has_arrival_after(end) {
            return Some(together);
        }
        // The packet being sent, and those queued behind it, may also arrive before `end`. Queued packets are assumed to have its size:
        // their own times are known only when they are sent.
        let sent = self.transmitter.finish_time().map(|finish| finish + self.delay);
        let Some(sent) = sent.filter(|&sent| sent <= end) else { return Some(together) };
        let each_ns = duration_ns(self.transmitter.job_duration());
        let fitting = (end - sent).as_nanos().checked_div(each_ns.into()).unwrap_or_default();
        let following = fitting.min(self.queue.len() as u128) as u64;
        Some(together.max(sent + Duration::from_nanos(each_ns * following)))
    }

    /// End of the current transmission; `None` while idle.
    #[must_use]
    pub fn sent_at(&self) -> Option<Time> {
        self.transmitter.finish_time()
    }

    /// Next packet that has arrived by `now`, in order of arrival, FIFO among equals.
    pub fn pop(&mut self, now: Time) -> Option<P> {
        self.pop_with_arrival(now).map(|(_, packet)| packet)
    }

    /// Next packet as by [`pop`](Self::pop), with its arrival time, which shows how late the caller is.
    pub fn pop_with_arrival(&mut self, now: Time) -> Option<(Time, P)> {
        self.advance(now);
        let (arrival, packet) = self.flight.pop(self.now)?;
        let size_bytes = packet.size_bytes();
        self.held.remove(size_bytes);
        self.stats.delivered.add(size_bytes);
        Some((arrival, packet))
    }

    /// Advances the link to `now` without taking packets out, so that [`queue_len`](Self::queue_len) and [`stats`](Self::stats) are
    /// current. Every other call with a time does this itself.
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

    /// Changes the rate from `now` on, also for the packet being sent.
    ///
    /// # Errors
    /// Fails if the rate is zero; the link is then unchanged.
    pub fn set_rate_bps(&mut self, now: Time, rate_bps: Option<u64>) -> Result<(), ConfigError> {
        let rate = checked_rate(rate_bps)?;
        self.advance(now);
        self.config.rate_bps = rate_bps;
        self.queue.set_rate_bps(self.now, rate_bps)?;
        self.transmitter.set_rate(self.now, rate);
        // Without a rate, all queued packets leave now.
        self.advance(now);
        Ok(())
    }

    /// Changes the delay of packets that leave the transmitter after `now`. With a shorter delay they still do not overtake packets in
    /// flight.
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

    /// Starts or ends an outage, independent of configured blackouts.
    pub fn set_outage(&mut self, now: Time, is_out: bool) {
        self.advance(now);
        self.is_out = is_out;
        self.is_clean = self.config.is_clean() && !is_out;
    }

    /// Applies a change at `now`.
    ///
    /// # Errors
    /// Fails if its rate or loss is invalid; the link is then unchanged.
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

    /// Current configuration.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// True during an outage started by a change.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// The counters, as of the latest time given to the link.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        LinkStats { ce_marked: self.queue.ce_marked(), ..self.stats }
    }

    /// Packets waiting for the transmitter (without the one being sent), as of the latest time given to the link.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes waiting for the transmitter, as of the latest time given to the link.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// All packets in the link: queued, being sent, in flight.
    #[must_use]
    pub fn held(&self) -> Count {
        self.held
    }

    /// Handles the end of `packet`'s transmission at `at`.
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

    /// True if `at` lies in a blackout. Departures are in order of time, so past blackouts are skipped for good.
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

/// Arrival of the batch that contains time `at`.
fn next_multiple(at: Time, batch: Duration) -> Time {
    match duration_ns(batch) {
        0 => at,
        batch_ns => Time::from_ns(at.as_ns().div_ceil(batch_ns).saturating_mul(batch_ns)),
    }
}

/// Callback that counts the queue's drops in both counters.
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
