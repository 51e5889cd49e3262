//! Sending side of messages (`spec/protocol.md` §3.2): the fewest datagrams with which as many come in time as the caller wants.
//!
//! * [`outgoing`]: one message; [`waiting`]: those which wait for their turn; [`unit`]: those which are planned together, [`units`]: all of these;
//!   [`classes`]: plans for messages of one kind; [`window`]: how far ids may run ahead.
//! * [`fates`]: what became of each datagram; [`bursts`]: whether losses come together.
//! * [`ledger`]: what the peer must know to prove what it has.

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

/// A symbol that leaves in the last moment may still wait for others, and for timers.
const MARGIN: Duration = Duration::from_micros(500);
/// Even where it always takes as long until a fate is known, so much more is no sign of a loss: a report is not sent within 1 ms of another.
const OVERDUE_MIN: Duration = Duration::from_micros(1_500);
/// Deadline that is planned for a reliable message: time for as many rounds as there are tables for.
const RELIABLE: Duration = Duration::from_secs(3600);

/// The session's view of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView {
    /// The least round trip lately, or what the handshake tells.
    pub(crate) rtt: Duration,
    pub(crate) smoothed_rtt: Duration,
    pub(crate) report_interval: Duration,
    /// Queueing delay of datagrams.
    pub(crate) queue: Duration,
    /// Time of a datagram at the session's rate.
    pub(crate) datagram_time: Duration,
    /// The most bytes of data in a stream's symbol that packets have room for.
    pub(crate) symbol_size: usize,
}

impl PathView {
    /// Of a path whose packets have room for `symbol_size` bytes of data of a stream.
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

/// A symbol which is to be sent.
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
    waiting: Waiting,
    /// A message had no time to be sent, by what is known of the path, and no report has been asked for since.
    is_hopeless: bool,
    /// Number and sending time of the last datagram that requested a report.
    asked: Option<(u64, Time)>,
    classes: Classes,
    /// Units that are not done.
    units: Units,
    pace: IdPace,
    /// No message is begun before that: the fate of too many is unknown.
    held_until: Option<Time>,
    /// No more messages are expected, so that no unit waits for one.
    is_ending: bool,
    fates: Fates,
    /// Times until the fate of a datagram is known, and queueing delays.
    fate_times: Times,
    queue_times: Times,
    ledger: Ledger,
    stats: SentMessages,
}

impl SendMessages {
    pub(crate) fn new(kernel: Kernel, proofs: bool) -> Self {
        Self {
            kernel,
            proofs,
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

    /// True if the fate of a datagram is unknown, or a message waits.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.fates.is_empty() || !self.waiting.is_empty()
    }

    /// True if there is a message for which anything can still be done.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.waiting.is_empty() || !self.units.is_empty()
    }

    /// The session is to end once nothing is at work.
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

    /// True if a symbol waits only for permission to be sent.
    pub(crate) fn is_due(&self) -> bool {
        self.units.is_due()
    }

    /// True if nothing is sent because the path seems to be too long for it.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.is_hopeless
    }

    /// A report has been asked for, by datagram `number`.
    pub(crate) fn on_asked(&mut self, now: Time, number: u64) {
        self.is_hopeless = false;
        self.asked = Some((number, now));
    }

    /// Time at which datagram `number` asked for a report, if it was the last to ask.
    pub(crate) fn asked_at(&self, number: u64) -> Option<Time> {
        self.asked.filter(|&(asked, _)| asked == number).map(|(_, at)| at)
    }

    // ---- handing over ----

    /// Takes a message; `secret` draws one where there are proofs.
    ///
    /// # Errors
    /// It is too long, or there is no room.
    pub(crate) fn send(
        &mut self,
        now: Time,
        bytes: &[u8],
        deadline: Deadline,
        path: &PathView,
        mut secret: impl FnMut() -> u32,
    ) -> Result<(), MessageError> {
        let symbol_max = symbol_bytes_max(path.symbol_size);
        let k = bytes.len().div_ceil(symbol_max.max(1)).max(1);
        if bytes.len() > MESSAGE_BYTES_MAX as usize || k > K_MAX {
            return Err(MessageError::TooLong { bytes: bytes.len() });
        }
        self.drop_expired(now);
        if !self.waiting.has_room(bytes.len()) {
            return Err(MessageError::Full);
        }
        let is_reliable = deadline.within.is_none();
        let is_grouped = !is_reliable && bytes.len() <= grouped_bytes_max(path.symbol_size);
        let within = deadline.within.unwrap_or(RELIABLE);
        let kind = Kind { within, lost_max: deadline.lost_max(), k, may_be_grouped: is_grouped };
        let class = self.classes.on_message(now, kind);
        let (rows, symbol_bytes) = Outgoing::lay_out(bytes, k, self.proofs.then_some(&mut secret));
        // Half of the least round trip is what no clock can tell ([message-7]).
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

    /// Time for which a message may still leave that must arrive within `left`. Queueing delay takes at most half of that: a delay which
    /// has passed would otherwise forbid the sending that shows that it has.
    fn time_to_send(&self, left: Duration) -> Duration {
        let queue = self.queue_times.most(3.0).unwrap_or_default();
        left.saturating_sub(queue.min(left / 2) + MARGIN)
    }

    /// Messages whose time is over before they were begun.
    fn drop_expired(&mut self, now: Time) {
        self.stats.expired_unsent += self.waiting.drop_expired(now);
    }

    // ---- sending ----

    /// The next symbol to send at `now`, without regard to the rate.
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

    /// The symbol of the unit whose message has the least time.
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
                // It is of no use any more, or packets have become smaller since ([message-4]).
                _ => unit.skip(),
            }
            let owes = unit.owes();
            self.units.queue(now, number);
            if !owes {
                // Symbols for which its time does not suffice are not planned again at once.
                self.settle(now, number, self.timing(now, path), Some(now));
            }
        }
    }

    /// Begins the next message; `false` if there is none, or ids would run too far ahead.
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

    /// True if the next message may be begun. Units with a lifetime that fall behind the window are dropped for it, as only their target is
    /// owed to them; reliable ones, and those whose fate will be known within a round trip, are kept ([message-8]).
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

    /// The open unit that takes the message, or a new one.
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

    /// Units whose time has come: they are closed, or send what may be their last.
    fn wake(&mut self, now: Time, path: &PathView) {
        let timing = self.timing(now, path);
        while let Some((at, number)) = self.units.next_wake(now) {
            let Some(unit) = self.units.get_mut(number) else { continue };
            let wake = unit.wake_at(now, timing);
            if wake.is_some_and(|at| at > now) {
                // The symbols that this wake-up was for have come meanwhile.
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

    /// Writes a symbol's payload; `out` has room for it, and no more.
    pub(crate) fn write(&mut self, symbol: &MessageSymbol, out: &mut [u8]) -> bool {
        let proofs = self.proofs;
        let is_written = self.units.get_mut(symbol.unit).is_some_and(|unit| unit.write(symbol.what, proofs, out));
        if let (true, false, Some(secret)) = (is_written, symbol.is_source, out.last_chunk()) {
            self.ledger.on_repair(symbol.segment.id, symbol.segment.esi, u32::from_be_bytes(*secret));
        }
        is_written
    }

    /// A symbol has left as datagram `number`.
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

    /// Time at which [`next`](Self::next) may have something; `asked` is when it last had nothing.
    pub(crate) fn next_timeout(&self, asked: Time) -> Option<Time> {
        let held = self.held_until.filter(|_| !self.waiting.is_empty());
        [self.units.wakes_at(), self.units.owing_after(asked), held].into_iter().flatten().min()
    }

    // ---- reports ----

    /// A report has come that names datagrams up to `highest`, which did not arrive where `runs` say so.
    pub(crate) fn on_report(&mut self, now: Time, highest: u64, runs: Option<LossRuns<'_>>, path: &PathView) {
        let Some(lost) = runs.map(|runs| Lost::read(highest, runs)) else { return };
        self.queue_times.sample(path.queue);
        let timing = self.timing(now, path);
        let mut touched = Vec::new();
        let mut is_first = true;
        while let Some((sent, has_arrived)) = self.fates.next(highest, &lost) {
            if has_arrived && is_first {
                // The one that waited longest for this report.
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

    /// Takes in what a report says of messages. Returns what it newly proves.
    ///
    /// # Errors
    /// It says what no correct peer says.
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

    // ---- units ----

    fn timing(&self, now: Time, path: &PathView) -> Timing {
        let most = |deviations| self.fate_times.most(deviations).unwrap_or(path.smoothed_rtt + path.report_interval);
        let (window, is_ending) = (self.window(now), self.is_ending);
        Timing { round: most(2.0), overdue: most(4.0) + OVERDUE_MIN, datagram: path.datagram_time, window, is_ending }
    }

    fn window(&self, now: Time) -> Window {
        self.pace.window(now, self.ledger.next_id())
    }

    /// Removes a unit that is done; otherwise its next wake-up is set, later than `after`.
    fn settle(&mut self, now: Time, number: u32, timing: Timing, after: Option<Time>) {
        if self.units.get(number).is_some_and(|unit| unit.is_done(now, timing)) {
            self.units.remove(number);
            return;
        }
        let at = self.units.get(number).and_then(|unit| unit.wake_at(now, timing));
        // After its last chance, a unit wakes once more to be removed.
        let is_again = at.is_some_and(|at| after.is_some_and(|after| at <= after));
        self.units.set_wake(number, at.map(|at| if is_again { at.max(now) + Duration::from_millis(1) } else { at }));
    }
}

#[cfg(test)]
mod tests;
