//! Sending side of messages (`spec/protocol.md` §3.2): meets the caller's deadlines with the fewest datagrams.
//!
//! * [`outgoing`]: one message; [`waiting`]: queued messages; [`unit`]: a group of messages planned together,
//!   [`units`]: all groups; [`classes`]: plans per kind of message; [`window`]: the limit on ids ahead of an unfinished
//!   message.
//! * [`fates`]: loss or arrival of each datagram; [`bursts`]: loss rate and burst length.
//! * [`ledger`]: secrets with which the peer proves its receipts.

mod bursts;
mod classes;
mod fates;
mod ledger;
mod outgoing;
mod rank;
mod timing;
mod unit;
mod units;
mod waiting;
mod window;

use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::K_MAX;
use dfcp_time::Time;
use dfcp_wire::MESSAGE_BYTES_MAX;
use dfcp_wire::feedback::{LossRuns, MessageRuns, MessagesState};
use dfcp_wire::segment::{Message, MessageInfo};

use self::classes::{Classes, Conditions, Kind};
use self::fates::{Fates, Lost, Times, UnderWay};
use self::ledger::Ledger;
pub(crate) use self::ledger::Proven;
use self::outgoing::Outgoing;
use self::timing::Timing;
use self::unit::{Unit, What};
use self::units::Units;
use self::waiting::{Queued, Waiting};
use self::window::{IdPace, WINDOW_IDS, Window};
use super::rows::{grouped_bytes_max, symbol_bytes_max};
use super::{Deadline, MessageError};
use crate::error::PeerMisbehaved;
use crate::path::Path;
use crate::proof::SECRET_BYTES;
use crate::stats::SentMessages;

/// Time reserved for a symbol at the last moment: it may wait for other symbols, and for timers.
const MARGIN: Duration = Duration::from_micros(500);
/// Least slack before a missing report counts as a loss. Reports are at least 1 ms apart, even where the measured times
/// do not vary.
const OVERDUE_MIN: Duration = Duration::from_micros(1_500);
/// Planning horizon of a reliable message: long enough for all tabulated rounds.
const RELIABLE: Duration = Duration::from_secs(3600);

/// Path properties that the session passes to the sender of messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView {
    /// Minimum recent RTT; the smoothed RTT before there is one.
    pub(crate) rtt: Duration,
    pub(crate) smoothed_rtt: Duration,
    pub(crate) report_interval: Duration,
    /// Queueing delay of datagrams.
    pub(crate) queue: Duration,
    /// Transmission time of a datagram at the session's rate.
    pub(crate) datagram_time: Duration,
    /// Largest data size of a stream symbol that fits into a packet, bytes.
    pub(crate) symbol_size: usize,
}

impl PathView {
    /// Returns the view of a path whose packets hold `symbol_size` bytes of stream data.
    pub(crate) fn of(path: &Path, symbol_size: usize) -> Self {
        let (flight, rtt) = (path.flight(), path.rtt());
        Self {
            rtt: flight.least_rtt().unwrap_or_else(|| rtt.smoothed()),
            smoothed_rtt: rtt.smoothed(),
            report_interval: rtt.report_interval(),
            queue: flight.queue_delay().unwrap_or_default(),
            datagram_time: path.datagram_time(),
            symbol_size,
        }
    }
}

/// A symbol to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageSymbol {
    pub(crate) segment: Message,
    pub(crate) payload_bytes: usize,
    unit: u32,
    what: What,
    is_source: bool,
}

/// The sending side of a session's messages.
#[derive(Debug)]
pub(crate) struct SendMessages {
    kernel: Kernel,
    proofs: bool,
    /// Size of a reliable message's largest symbol, bytes. Packets of every size have room for it ([message-4]).
    reliable_symbol_max: usize,
    waiting: Waiting,
    /// A message was dropped because the estimated RTT exceeds its deadline, and no report has been requested since.
    is_hopeless: bool,
    /// Number and sending time of the last datagram that requested a report.
    asked: Option<(u64, Time)>,
    classes: Classes,
    /// Groups of messages that are not finished.
    units: Units,
    pace: IdPace,
    /// No message is begun before this time, because the fate of an old datagram is unknown ([message-8]).
    held_until: Option<Time>,
    /// The application sends no more messages, so that no group waits for another one.
    is_ending: bool,
    fates: Fates,
    /// Times from sending a datagram until its fate is known.
    fate_times: Times,
    /// Queueing delays.
    queue_times: Times,
    ledger: Ledger,
    stats: SentMessages,
}

impl SendMessages {
    /// Creates the sender. `base_symbol_size` is the data size of a stream symbol that fits into a packet of the least
    /// size, bytes.
    pub(crate) fn new(kernel: Kernel, proofs: bool, base_symbol_size: usize) -> Self {
        Self {
            kernel,
            proofs,
            reliable_symbol_max: symbol_bytes_max(base_symbol_size),
            waiting: Waiting::default(),
            is_hopeless: false,
            asked: None,
            classes: Classes::default(),
            units: Units::default(),
            pace: IdPace::default(),
            held_until: None,
            is_ending: false,
            fates: Fates::default(),
            fate_times: Times::default(),
            queue_times: Times::default(),
            ledger: Ledger::new(proofs),
            stats: SentMessages::default(),
        }
    }

    pub(crate) fn stats(&self) -> SentMessages {
        SentMessages { burst: Duration::from_secs_f64(self.fates.bursts.memory_s()), ..self.stats }
    }

    /// Returns true if the fate of a datagram is unknown, or a message waits.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.fates.is_empty() || !self.waiting.is_empty()
    }

    /// Returns true if a message waits, or can still be completed.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.waiting.is_empty() || !self.units.is_empty()
    }

    /// Announces that no more messages follow. The session ends once [`is_at_work`](Self::is_at_work) is false.
    pub(crate) fn end(&mut self, now: Time, path: &PathView) {
        if std::mem::replace(&mut self.is_ending, true) {
            return;
        }
        let timing = self.timing(now, path);
        for number in self.units.numbers() {
            let Some(unit) = self.units.get_mut(number) else { continue };
            if !unit.is_closed() {
                unit.close(now, timing.window);
            } else if unit.is_known() {
                unit.plan_round(now, timing);
            }
            self.units.queue(now, number);
            self.settle(now, number, timing, None);
        }
    }

    /// Returns true if a symbol can be sent as soon as the session permits.
    pub(crate) fn is_due(&self) -> bool {
        self.units.is_due()
    }

    /// Returns true if a message was dropped because the estimated RTT exceeds its deadline ([message-14]).
    pub(crate) fn is_hopeless(&self) -> bool {
        self.is_hopeless
    }

    /// Records that datagram `number` requests a report.
    pub(crate) fn on_asked(&mut self, now: Time, number: u64) {
        self.is_hopeless = false;
        self.asked = Some((number, now));
    }

    /// Returns the sending time of datagram `number`, if it was the last one to request a report.
    pub(crate) fn asked_at(&self, number: u64) -> Option<Time> {
        self.asked.filter(|&(asked, _)| asked == number).map(|(_, at)| at)
    }

    // ---- queueing ----

    /// Queues a message. `secret` draws the secrets of its symbols if there are proofs.
    ///
    /// # Errors
    /// The message is too long, or the queue is full.
    pub(crate) fn send(
        &mut self,
        now: Time,
        bytes: &[u8],
        deadline: Deadline,
        path: &PathView,
        mut secret: impl FnMut() -> u32,
    ) -> Result<(), MessageError> {
        let is_reliable = deadline.within.is_none();
        // Packets may become smaller for good, and a message that was begun cannot be cut anew.
        let symbol_max = if is_reliable { self.reliable_symbol_max } else { symbol_bytes_max(path.symbol_size) };
        let k = bytes.len().div_ceil(symbol_max.max(1)).max(1);
        if bytes.len() > MESSAGE_BYTES_MAX as usize || k > K_MAX {
            return Err(MessageError::TooLong { bytes: bytes.len() });
        }
        self.drop_expired(now);
        if !self.waiting.has_room(bytes.len()) {
            return Err(MessageError::Full);
        }
        let is_grouped = !is_reliable && bytes.len() <= grouped_bytes_max(path.symbol_size);
        let within = deadline.within.unwrap_or(RELIABLE);
        let kind = Kind { within, lost_max: deadline.lost_max(), k, may_be_grouped: is_grouped };
        let class = self.classes.on_message(now, kind);
        let (rows, symbol_bytes) = Outgoing::lay_out(bytes, k, self.proofs.then_some(&mut secret));
        // The least one-way delay is unknown without a common clock. Half of the least RTT stands for it ([message-7]).
        let left = within.saturating_sub(path.rtt / 2);
        let lifetime_us = match deadline.within {
            Some(_) => u32::try_from(left.as_micros()).unwrap_or(u32::MAX).min(Message::LIFETIME_UNLIMITED - 1),
            None => Message::LIFETIME_UNLIMITED,
        };
        let time = self.time_to_send(left);
        self.is_hopeless |= !is_reliable && time.is_zero() && !within.is_zero();
        let send_by = if is_reliable { Time::MAX } else { now + time };
        let info = MessageInfo { k: k as u16, length_bytes: bytes.len() as u32 };
        let message = Outgoing { id: 0, info, created: now, lifetime_us, send_by, is_reliable, rows, symbol_bytes };
        self.stats.accepted += 1;
        self.waiting.push(Queued { class, message, is_grouped });
        Ok(())
    }

    /// Returns the time in which a message must leave to arrive within `left`. The queueing delay counts for at most
    /// half of `left`: otherwise an outdated high delay would forbid the sending that shows it has passed.
    fn time_to_send(&self, left: Duration) -> Duration {
        let queue = self.queue_times.most(3.0).unwrap_or_default();
        left.saturating_sub(queue.min(left / 2) + MARGIN)
    }

    /// Drops queued messages whose deadline has passed.
    fn drop_expired(&mut self, now: Time) {
        self.stats.expired_unsent += self.waiting.drop_expired(now);
    }

    // ---- sending ----

    /// Returns the next symbol to send at `now`. The caller enforces the rate.
    pub(crate) fn next(&mut self, now: Time, path: &PathView) -> Option<MessageSymbol> {
        self.wake(now, path);
        loop {
            if let Some(symbol) = self.next_owed(now, path) {
                return Some(symbol);
            }
            if !self.begin_next(now, path) {
                return None;
            }
        }
    }

    /// Returns the next symbol of the group with the earliest deadline.
    fn next_owed(&mut self, now: Time, path: &PathView) -> Option<MessageSymbol> {
        let secret_bytes = if self.proofs { SECRET_BYTES } else { 0 };
        let payload_max = symbol_bytes_max(path.symbol_size) + secret_bytes;
        loop {
            let number = self.units.next_due(now)?;
            let unit = self.units.get_mut(number)?;
            let planned = unit.next(now).and_then(|what| Some((what, unit.segment(now, what, self.proofs)?)));
            match planned {
                Some((what, (segment, payload_bytes))) if payload_bytes <= payload_max => {
                    let is_source = matches!(segment.coverage, dfcp_wire::segment::Coverage::One(info) if segment.esi < info.k.into());
                    return Some(MessageSymbol { segment, payload_bytes, unit: number, what, is_source });
                }
                // The symbol is useless by now, or no longer fits, because packets have become smaller ([message-4]).
                _ => unit.skip(),
            }
            let owes = unit.owes();
            self.units.queue(now, number);
            if !owes {
                // A group that skipped its last symbols for lack of time must not plan them again now.
                self.settle(now, number, self.timing(now, path), Some(now));
            }
        }
    }

    /// Begins the next message. Returns false if none waits, or its id would run too far ahead.
    fn begin_next(&mut self, now: Time, path: &PathView) -> bool {
        self.drop_expired(now);
        let next_id = self.ledger.next_id();
        let Ok(id) = u32::try_from(next_id) else { return false };
        if self.waiting.is_empty() || !self.has_room_for_id(now, next_id, path) {
            return false;
        }
        let Some(Queued { class, mut message, is_grouped }) = self.waiting.pop() else { return false };
        message.id = id;
        self.ledger.begin(message.secrets(), message.k(), message.symbol_bytes);
        self.pace.on_begin(now, id);
        self.stats.begun += 1;
        let number = self.unit_for(now, class, is_grouped, &message, path);
        let timing = self.timing(now, path);
        if let Some(unit) = self.units.get_mut(number) {
            let is_last = unit.add(now, message);
            if is_last || self.is_ending {
                self.close(now, number, class);
            }
        }
        self.units.queue(now, number);
        let wake = self.units.get(number).and_then(|unit| unit.wake_at(now, timing));
        self.units.set_wake(number, wake);
        true
    }

    /// Returns true if the next message may be begun. Groups with a deadline that are too old are dropped, because only
    /// their target share is owed to them. Reliable ones block it, and so does an old datagram whose fate a report may
    /// still tell ([message-8]).
    fn has_room_for_id(&mut self, now: Time, next_id: u64, path: &PathView) -> bool {
        let overdue = self.timing(now, path).overdue;
        let until =
            self.fates.oldest().filter(|sent| next_id - sent.next_id >= WINDOW_IDS).map(|sent| sent.at + overdue);
        self.held_until = until.filter(|&until| now < until);
        if self.held_until.is_some() {
            return false;
        }
        while let Some((number, unit)) = self.units.first().filter(|&(number, _)| Window::is_behind(next_id, number)) {
            if unit.is_reliable() {
                return false;
            }
            self.units.remove(number);
        }
        true
    }

    /// Returns the number of the open group that takes the message, or of a new group.
    fn unit_for(&mut self, now: Time, class_at: usize, is_grouped: bool, message: &Outgoing, path: &PathView) -> u32 {
        let open = self.classes.get_mut(class_at).and_then(|class| class.open_unit);
        if let Some(number) = open.filter(|_| is_grouped)
            && self.units.get(number).is_some_and(|unit| unit.takes(now, message.id))
        {
            return number;
        }
        let within = message.send_by.since(message.created).min(self.window(now).lasts());
        let left = if message.is_reliable { RELIABLE } else { within };
        let conditions = Conditions {
            losses: self.fates.bursts.model(),
            time_s: left.as_secs_f64(),
            round_s: self.timing(now, path).round.as_secs_f64(),
            symbol_s: path.datagram_time.as_secs_f64(),
        };
        if let Some(class) = self.classes.get_mut(class_at) {
            let policy = class.next_policy(now, &conditions);
            class.open_unit = is_grouped.then_some(message.id);
            self.units.insert(message.id, Unit::new(now, self.kernel, policy));
        }
        message.id
    }

    /// Closes a group, so that no message joins it any more.
    fn close(&mut self, now: Time, number: u32, class: usize) {
        let window = self.window(now);
        if let Some(unit) = self.units.get_mut(number) {
            unit.close(now, window);
        }
        if let Some(class) = self.classes.get_mut(class)
            && class.open_unit == Some(number)
        {
            class.open_unit = None;
        }
    }

    /// Handles groups whose timer has expired: closes them, or plans a round of symbols that may be their last.
    fn wake(&mut self, now: Time, path: &PathView) {
        let timing = self.timing(now, path);
        while let Some((at, number)) = self.units.next_wake(now) {
            let Some(unit) = self.units.get_mut(number) else { continue };
            let wake = unit.wake_at(now, timing);
            if wake.is_some_and(|at| at > now) {
                // Symbols sent meanwhile have postponed this timer.
                self.units.set_wake(number, wake);
                continue;
            }
            if !unit.is_closed() {
                unit.close(now, timing.window);
            } else if !unit.owes() {
                unit.ask_for_proofs(now, timing);
                unit.plan_round(now, timing);
            }
            self.units.queue(now, number);
            self.settle(now, number, timing, Some(at));
        }
    }

    /// Writes a symbol's payload into `out`, whose length must be `payload_bytes`. Returns false if the symbol no
    /// longer exists.
    pub(crate) fn write(&mut self, symbol: &MessageSymbol, out: &mut [u8]) -> bool {
        let proofs = self.proofs;
        let is_written = self.units.get_mut(symbol.unit).is_some_and(|unit| unit.write(symbol.what, proofs, out));
        if let (true, false, Some(secret)) = (is_written, symbol.is_source, out.last_chunk()) {
            self.ledger.on_repair(symbol.segment.id, symbol.segment.esi, u32::from_be_bytes(*secret));
        }
        is_written
    }

    /// Records that a symbol was sent in datagram `number`.
    pub(crate) fn on_sent(&mut self, now: Time, symbol: &MessageSymbol, number: u64, path: &PathView) {
        self.stats.datagrams += 1;
        self.stats.source_symbols += u64::from(symbol.is_source);
        let timing = self.timing(now, path);
        if let Some(unit) = self.units.get_mut(symbol.unit) {
            unit.on_sent(now, symbol.what);
            let wake = (!unit.owes()).then(|| unit.wake_at(now, timing));
            self.units.queue(now, symbol.unit);
            if let Some(wake) = wake {
                self.units.set_wake(symbol.unit, wake);
            }
        }
        let next_id = self.ledger.next_id();
        self.fates.push(UnderWay { number, at: now, unit: symbol.unit, what: symbol.what, next_id });
    }

    /// Returns the time at which [`next`](Self::next) may return a symbol. `asked` is the time at which it last
    /// returned none.
    pub(crate) fn next_timeout(&self, asked: Time) -> Option<Time> {
        let held = self.held_until.filter(|_| !self.waiting.is_empty());
        [self.units.wakes_at(), self.units.owing_after(asked), held].into_iter().flatten().min()
    }

    // ---- reports ----

    /// Takes in a report on datagrams up to `highest`; `runs` lists the lost ones.
    pub(crate) fn on_report(&mut self, now: Time, highest: u64, runs: Option<LossRuns<'_>>, path: &PathView) {
        let Some(lost) = runs.map(|runs| Lost::read(highest, runs)) else { return };
        self.queue_times.sample(path.queue);
        let timing = self.timing(now, path);
        let mut touched = Vec::new();
        let mut is_first = true;
        while let Some((sent, has_arrived)) = self.fates.next(highest, &lost) {
            if has_arrived && is_first {
                // Sample the datagram that waited longest for this report.
                self.fate_times.sample(now.since(sent.at));
                is_first = false;
            }
            if let Some(unit) = self.units.get_mut(sent.unit) {
                unit.on_fate(sent.what, has_arrived);
                if touched.last() != Some(&sent.unit) {
                    touched.push(sent.unit);
                }
            }
        }
        self.fates.bursts.judge();
        for number in touched {
            let Some(unit) = self.units.get_mut(number) else { continue };
            if unit.is_known() {
                unit.plan_round(now, timing);
            }
            self.units.queue(now, number);
            self.settle(now, number, timing, None);
        }
    }

    /// Takes in a report's record of messages. Returns the newly proven symbols and messages.
    ///
    /// # Errors
    /// The record is false: it names messages or symbols that were not sent, or its proof is wrong.
    pub(crate) fn take_record(
        &mut self,
        now: Time,
        state: MessagesState,
        runs: &MessageRuns<'_>,
        path: &PathView,
    ) -> Result<Proven, PeerMisbehaved> {
        let mut complete = Vec::new();
        let proven = self.ledger.take(state, runs, |id| complete.push(id))?;
        self.stats.complete += proven.messages;
        let timing = self.timing(now, path);
        for id in complete {
            let Some(number) = self.units.holder(id) else { continue };
            if let Some(unit) = self.units.get_mut(number) {
                unit.on_proven(id);
                let is_done = unit.is_closed() && unit.is_done(now, timing);
                self.units.queue(now, number);
                if is_done {
                    self.units.remove(number);
                }
            }
        }
        Ok(proven)
    }

    // ---- groups ----

    fn timing(&self, now: Time, path: &PathView) -> Timing {
        let most = |deviations| self.fate_times.most(deviations).unwrap_or(path.smoothed_rtt + path.report_interval);
        let (window, is_ending) = (self.window(now), self.is_ending);
        Timing { round: most(2.0), overdue: most(4.0) + OVERDUE_MIN, datagram: path.datagram_time, window, is_ending }
    }

    fn window(&self, now: Time) -> Window {
        self.pace.window(now, self.ledger.next_id())
    }

    /// Removes a finished group. Otherwise sets its next timer, later than `after`.
    fn settle(&mut self, now: Time, number: u32, timing: Timing, after: Option<Time>) {
        if self.units.get(number).is_some_and(|unit| unit.is_done(now, timing)) {
            self.units.remove(number);
            return;
        }
        let at = self.units.get(number).and_then(|unit| unit.wake_at(now, timing));
        // A group whose last chance has passed gets one more timer, which removes it.
        let is_again = at.is_some_and(|at| after.is_some_and(|after| at <= after));
        self.units.set_wake(number, at.map(|at| if is_again { at.max(now) + Duration::from_millis(1) } else { at }));
    }
}

#[cfg(test)]
mod tests;
