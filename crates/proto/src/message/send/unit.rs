//! Messages which are planned together: one by itself, or a group of neighbours that repair symbols cover (`spec/protocol.md`
//! \[message-12\]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{Encoder, K_MAX};
use dfcp_time::Time;
use dfcp_wire::MESSAGE_SYMBOLS_MAX;
use dfcp_wire::segment::{Coverage, Message, MessageGroup};

use super::outgoing::Outgoing;
use super::rank::suffice;
use super::timing::{FINE, Timing, spread_gap};
use super::window::Window;
use crate::message::plan::Policy;
use crate::message::plan::rounds::ROUNDS_MAX;
use crate::message::rows::{group_shape, row_bytes};

/// A symbol of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Symbol `esi` of the message at this place.
    Own { place: usize, esi: u32 },
    /// A repair symbol over all messages.
    Group { esi: u32 },
}

/// Progress of a message's own symbols.
#[derive(Debug)]
struct Progress {
    message: Outgoing,
    /// Symbols of its own which have arrived, and whose fate is unknown. Never more have arrived than K - 1 before the message can be decoded.
    arrived: usize,
    unknown: usize,
    /// Ids of those that have arrived, if it takes several.
    arrived_esis: Vec<u32>,
    last_sent: Time,
    next_esi: u32,
    /// The peer has proven it.
    is_proven: bool,
}

impl Progress {
    fn is_missing(&self) -> bool {
        !self.is_proven && self.arrived < self.message.k()
    }

    fn on_arrival(&mut self, kernel: Kernel, esi: u32) {
        let k = self.message.k();
        self.arrived += 1;
        if k == 1 {
            return;
        }
        self.arrived_esis.push(esi);
        if self.arrived >= k && !suffice(kernel, k, self.arrived_esis.iter().copied()) {
            self.arrived = k - 1;
        }
    }
}

/// Place of a unit that owes symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Owing(Time),
    Due(Time),
}

/// Messages that are planned together.
#[derive(Debug)]
pub(super) struct Unit {
    kernel: Kernel,
    policy: Arc<Policy>,
    messages: Vec<Progress>,
    pub(super) closes_at: Time,
    /// Its next wake-up, even if no report comes.
    pub(super) wakes_at: Option<Time>,
    /// Its place among the units which owe symbols.
    pub(super) place: Option<Place>,
    is_closed: bool,
    /// Repair symbols over all that have arrived, and whose fate is unknown.
    repairs_arrived: Vec<u32>,
    repairs_unknown: usize,
    next_esi: u32,
    last_sent: Time,
    owed: VecDeque<What>,
    pub(super) next_at: Time,
    gap: Duration,
    /// Rows that repair symbols are made of; empty until the first one.
    rows: Vec<u8>,
    row_bytes: usize,
}

impl Unit {
    pub(super) fn new(now: Time, kernel: Kernel, policy: Arc<Policy>) -> Self {
        Self {
            kernel,
            closes_at: now + Duration::from_secs_f64(policy.close_s.clamp(0.0, 1e6)),
            policy,
            messages: Vec::new(),
            wakes_at: None,
            place: None,
            is_closed: false,
            repairs_arrived: Vec::new(),
            repairs_unknown: 0,
            next_esi: 0,
            last_sent: now,
            owed: VecDeque::new(),
            next_at: now,
            gap: Duration::ZERO,
            rows: Vec::new(),
            row_bytes: 0,
        }
    }

    // ---- its messages ----

    /// True if it takes another message, with this id: ids of a group are consecutive.
    pub(super) fn takes(&self, now: Time, id: u32) -> bool {
        !self.is_closed && now < self.closes_at && self.holds(id.wrapping_sub(1))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Takes in a message, whose source symbols are owed. Returns whether it is the last one.
    pub(super) fn add(&mut self, now: Time, message: Outgoing) -> bool {
        let place = self.messages.len();
        self.owed.extend((0..message.k() as u32).map(|esi| What::Own { place, esi }));
        let next_esi = message.k() as u32;
        let (arrived, unknown, arrived_esis, is_proven) = (0, 0, Vec::new(), false);
        self.messages.push(Progress { message, arrived, unknown, arrived_esis, last_sent: now, next_esi, is_proven });
        self.next_at = now;
        self.gap = Duration::ZERO;
        self.messages.len() >= self.policy.group.min(K_MAX)
    }

    fn is_single(&self) -> bool {
        self.messages.len() == 1
    }

    pub(super) fn first_id(&self) -> Option<u32> {
        self.messages.first().map(|progress| progress.message.id)
    }

    /// True if it has this message.
    pub(super) fn holds(&self, id: u32) -> bool {
        let count = self.messages.len() as u32;
        self.first_id().and_then(|first| id.checked_sub(first)).is_some_and(|place| place < count)
    }

    /// No message joins it any more: what is sent in advance follows.
    pub(super) fn close(&mut self, now: Time, window: Window) {
        self.is_closed = true;
        self.next_esi = (self.messages.len() * self.messages.first().map_or(1, |first| first.message.k())) as u32;
        // Of fewer messages than were expected, as large a part.
        let repairs = (self.policy.repairs * self.messages.len()).div_ceil(self.policy.group.max(1));
        self.gap = spread_gap(self.policy.repair_gap_s);
        let is_spread = !self.gap.is_zero();
        if is_spread {
            self.spread((now + FINE, window), 0, repairs);
        }
        if self.owed.is_empty() && is_spread {
            self.next_at = now + self.gap;
        }
        self.owe(repairs);
    }

    fn owe(&mut self, symbols: usize) {
        for _ in 0..symbols {
            let what = if self.is_single() { self.next_own(0) } else { self.next_group() };
            self.owed.extend(what);
        }
    }

    fn next_own(&mut self, place: usize) -> Option<What> {
        let progress = self.messages.get_mut(place)?;
        // A reliable message may need more than there are: then the first ones again.
        let esi = progress.next_esi % MESSAGE_SYMBOLS_MAX;
        progress.next_esi = esi + 1;
        Some(What::Own { place, esi })
    }

    fn next_group(&mut self) -> Option<What> {
        let esi = self.next_esi;
        self.next_esi += 1;
        (esi < MESSAGE_SYMBOLS_MAX).then_some(What::Group { esi })
    }

    // ---- what is sent ----

    /// True if it has a symbol to send now or later.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The next symbol, unless all that it could help has come or is over.
    pub(super) fn next(&mut self, now: Time) -> Option<What> {
        while let Some(&what) = self.owed.front() {
            let is_of_use = match what {
                What::Own { place, .. } => {
                    self.messages.get(place).is_some_and(|it| it.is_missing() && !it.message.is_over(now))
                }
                What::Group { .. } => {
                    self.may_be_repaired_together(now - FINE) && self.messages.iter().any(Progress::is_missing)
                }
            };
            if is_of_use {
                return Some(what);
            }
            self.owed.pop_front();
        }
        None
    }

    /// The deadline of the next symbol: the earliest of what may be missing.
    pub(super) fn urgency(&self) -> Time {
        let missing = self.messages.iter().filter(|progress| progress.is_missing());
        missing.map(|progress| progress.message.send_by).min().unwrap_or(Time::MAX)
    }

    /// The segment of a symbol, and its payload's bytes.
    pub(super) fn segment(&mut self, now: Time, what: What, proofs: bool) -> Option<(Message, usize)> {
        let place = if let What::Own { place, .. } = what { place } else { 0 };
        let message = &self.messages.get(place)?.message;
        let clock_us = (now.as_ns() / 1_000) as u32;
        let age_us = clock_us.wrapping_sub(message.created_us());
        let (id, lifetime_us) = (message.id, message.lifetime_us);
        let (esi, coverage, bytes) = match what {
            What::Own { esi, .. } => (esi, Coverage::One(message.info), message.symbol_bytes),
            What::Group { esi } => {
                let lengths = self.messages.iter().map(|it| row_bytes(it.message.info.length_bytes as usize, proofs));
                self.row_bytes = lengths.max()?;
                let count = self.messages.len() as u16;
                (esi, Coverage::Several(MessageGroup { count, source_symbols: count }), self.row_bytes)
            }
        };
        let segment = Message { id, esi, coverage, clock_us, age_us, lifetime_us };
        segment.check().is_ok().then_some((segment, bytes))
    }

    /// Writes a symbol's payload.
    pub(super) fn write(&mut self, what: What, proofs: bool, out: &mut [u8]) -> bool {
        let kernel = self.kernel;
        match what {
            What::Own { place, esi } => {
                self.messages.get(place).is_some_and(|progress| progress.message.write_symbol(kernel, esi, out))
            }
            What::Group { esi } => {
                if self.rows.is_empty() {
                    self.rows.resize(self.messages.len() * self.row_bytes, 0);
                    for (progress, row) in self.messages.iter().zip(self.rows.chunks_exact_mut(self.row_bytes)) {
                        progress.message.write_row(proofs, row);
                    }
                }
                let encoder = group_shape(self.messages.len(), self.row_bytes)
                    .and_then(|shape| Encoder::new(kernel, shape, &self.rows).ok());
                encoder.is_some_and(|encoder| encoder.write_symbol(esi, out).is_ok())
            }
        }
    }

    /// The next symbol cannot be sent.
    pub(super) fn skip(&mut self) {
        self.owed.pop_front();
    }

    /// A symbol has left.
    pub(super) fn on_sent(&mut self, now: Time, what: What) {
        self.owed.pop_front();
        self.last_sent = now;
        self.next_at = now + self.gap;
        match what {
            What::Own { place, .. } => {
                if let Some(progress) = self.messages.get_mut(place) {
                    progress.unknown += 1;
                    progress.last_sent = now;
                }
            }
            What::Group { .. } => self.repairs_unknown += 1,
        }
    }

    // ---- what becomes of it ----

    /// The fate of a symbol is known.
    pub(super) fn on_fate(&mut self, what: What, has_arrived: bool) {
        match what {
            What::Own { place, esi } => {
                let Some(progress) = self.messages.get_mut(place) else { return };
                progress.unknown = progress.unknown.saturating_sub(1);
                if has_arrived && progress.is_missing() {
                    progress.on_arrival(self.kernel, esi);
                }
            }
            What::Group { esi } => {
                self.repairs_unknown = self.repairs_unknown.saturating_sub(1);
                if has_arrived {
                    self.repairs_arrived.push(esi);
                }
            }
        }
    }

    /// The peer has proven that it has the message.
    pub(super) fn on_proven(&mut self, id: u32) {
        if let Some(progress) = self.messages.iter_mut().find(|progress| progress.message.id == id) {
            progress.is_proven = true;
        }
    }

    /// True if it is closed, the fate of all that was sent is known, and nothing is owed.
    pub(super) fn is_known(&self) -> bool {
        self.is_closed
            && self.owed.is_empty()
            && self.repairs_unknown == 0
            && self.messages.iter().all(|progress| progress.is_proven || progress.unknown == 0)
    }

    /// True if nothing more can or need be done for any of its messages: each is proven or over, or no report can make it send more. It
    /// then holds nothing back, and a proof that comes later needs no unit.
    pub(super) fn is_done(&self, now: Time, timing: Timing) -> bool {
        self.messages.iter().all(|progress| progress.is_proven || progress.message.is_over(now))
            || (self.is_closed && !self.is_reliable() && self.is_given_up(now, timing))
    }

    /// True if all has arrived that can be of use, or the policy sends nothing for the missing symbols, with any number of rounds.
    fn is_given_up(&self, now: Time, timing: Timing) -> bool {
        let missing = self.messages.iter().enumerate().filter(|(_, it)| it.is_missing() && !it.message.is_over(now));
        let missing: Vec<usize> = missing.map(|(place, _)| place).collect();
        let Some(&first) = missing.first() else { return true };
        let is_overdue = |sent: Time| now >= sent + timing.overdue;
        let is_known =
            |&place: &usize| self.messages.get(place).is_none_or(|it| it.unknown == 0 || is_overdue(it.last_sent));
        let are_repairs_known = self.repairs_unknown == 0 || is_overdue(self.last_sent);
        if self.owes() || !are_repairs_known || !missing.iter().all(is_known) {
            return false;
        }
        let sends = |place: usize, deficit: usize, stake: usize| {
            (1..=self.rounds_left(now, place, timing)).any(|left| self.policy.rounds.symbols(left, deficit, stake) > 0)
        };
        if self.is_single() {
            return self.messages.first().is_none_or(|it| !sends(0, it.message.k().saturating_sub(it.arrived), 1));
        }
        let is_together = self.may_be_repaired_together(now);
        let deficit = if is_together { self.deficit(&missing) } else { 0 };
        if is_together && (deficit == 0 || sends(first, deficit, missing.len())) {
            return deficit == 0;
        }
        !missing.iter().any(|&place| sends(place, 1, 1))
    }

    /// The fate of all is known, or it is the last moment to act without: plans what follows.
    pub(super) fn plan_round(&mut self, now: Time, timing: Timing) {
        let round = timing.round;
        let is_overdue = |sent: Time| now >= sent + round;
        let missing: Vec<usize> = self
            .messages
            .iter()
            .enumerate()
            .filter(|(_, progress)| progress.is_missing() && !progress.message.is_over(now))
            .filter(|(_, progress)| progress.unknown == 0 || is_overdue(progress.last_sent) || progress.message.k() > 1)
            .map(|(place, _)| place)
            .collect();
        let Some(&first) = missing.first() else { return };
        self.next_at = now;
        let rounds = self.rounds_left(now, first, timing);
        self.set_gap(rounds);
        if self.is_single() {
            let Some(progress) = self.messages.first() else { return };
            let deficit = progress.message.k().saturating_sub(progress.arrived);
            let under_way = if is_overdue(progress.last_sent) { 0 } else { progress.unknown };
            // A policy may give a message up, but not one that is reliable.
            let least = if progress.message.is_reliable { deficit } else { 0 };
            let symbols = self.planned(timing, rounds, (deficit, 1)).max(least).saturating_sub(under_way);
            self.spread((now, timing.window), first, symbols);
            return self.owe(symbols);
        }
        let under_way = if is_overdue(self.last_sent) { 0 } else { self.repairs_unknown };
        if self.may_be_repaired_together(now) {
            let deficit = self.deficit(&missing);
            let symbols = self.planned(timing, rounds, (deficit, missing.len())).saturating_sub(under_way);
            self.spread((now, timing.window), first, symbols);
            return self.owe(symbols);
        }
        for place in missing {
            let symbols = self.planned(timing, self.rounds_left(now, place, timing), (1, 1));
            for _ in under_way..symbols {
                let what = self.next_own(place);
                self.owed.extend(what);
            }
        }
        self.spread((now, timing.window), first, self.owed.len());
    }

    /// Number of symbols to send if `deficit` are missing, without which `stake` messages are lost, and `rounds` can be sent, with this
    /// one. At the session's end, a round that the policy would postpone, as with losses in bursts, is sent at once.
    fn planned(&self, timing: Timing, rounds: usize, (deficit, stake): (usize, usize)) -> usize {
        let last = if timing.is_ending { 1 } else { rounds };
        let mut symbols = (last..=rounds).rev().map(|left| self.policy.rounds.symbols(left, deficit, stake));
        symbols.find(|&symbols| symbols > 0).unwrap_or_default()
    }

    /// As many symbols have to leave in time for the message at this place.
    fn spread(&mut self, (now, window): (Time, Window), place: usize, symbols: usize) {
        let Some(progress) = self.messages.get(place).filter(|progress| !progress.message.is_reliable) else { return };
        let left = self.leaves_by(now, progress, window).since(now);
        self.gap = self.gap.min(left / u32::try_from(symbols.max(1)).unwrap_or(u32::MAX));
    }

    /// True if symbols over all messages serve: not if they had to make up for expired messages, too. They carry the age of the first
    /// message, so that they end with its time.
    fn may_be_repaired_together(&self, now: Time) -> bool {
        let first = self.messages.first().is_some_and(|first| !first.message.is_over(now + FINE));
        first && !self.messages.iter().any(|progress| progress.is_missing() && progress.message.is_over(now))
    }

    fn set_gap(&mut self, rounds: usize) {
        let gap_s = if rounds > 1 { 0.0 } else { self.policy.last_gap_s };
        self.gap = spread_gap(gap_s);
    }

    /// Number of rounds that can be sent for a message, with the one at hand.
    fn rounds_left(&self, now: Time, place: usize, Timing { round, window, .. }: Timing) -> usize {
        let Some(progress) = self.messages.get(place) else { return 1 };
        if progress.message.is_reliable {
            return ROUNDS_MAX;
        }
        let left = self.leaves_by(now, progress, window).since(now);
        1 + (left.as_nanos() / round.as_nanos().max(1)).min(ROUNDS_MAX as u128 - 1) as usize
    }

    /// Latest departure of a symbol that helps a message of it: there is time for it, and its unit is not behind the window.
    fn leaves_by(&self, now: Time, progress: &Progress, window: Window) -> Time {
        progress.message.send_by.min(window.closes_at(now, self.first_id().unwrap_or_default()))
    }

    /// Number of further repair symbols over all messages that it takes to decode those at these places.
    fn deficit(&self, missing: &[usize]) -> usize {
        let deficit = missing.len().saturating_sub(self.repairs_arrived.len());
        // One repair symbol has no zeros, so that it is always enough for one message.
        if deficit > 0 || missing.len() < 2 {
            return deficit;
        }
        let known = (0..self.messages.len()).filter(|place| !missing.contains(place)).map(|place| place as u32);
        let is_enough = suffice(self.kernel, self.messages.len(), known.chain(self.repairs_arrived.iter().copied()));
        usize::from(!is_enough)
    }

    /// True if its messages have no deadline; they are all of one kind.
    pub(super) fn is_reliable(&self) -> bool {
        self.messages.first().is_some_and(|progress| progress.message.is_reliable)
    }

    /// The reports which would have proven reliable messages may all have been lost. Another symbol of each makes the peer tell of it again
    /// (\[message-15\]).
    pub(super) fn ask_for_proofs(&mut self, now: Time, Timing { overdue, .. }: Timing) {
        let is_heard_of = self.repairs_unknown == 0 && self.messages.iter().all(|progress| progress.unknown == 0);
        if !self.is_reliable() || self.owes() || !is_heard_of || now < self.last_sent + overdue {
            return;
        }
        for progress in self.messages.iter_mut().filter(|progress| !progress.is_proven) {
            progress.arrived = progress.arrived.min(progress.message.k().saturating_sub(1));
        }
    }

    /// Time of its wake-up without a report: it is due to close, or a message that may be missing has its last chance.
    pub(super) fn wake_at(&self, now: Time, Timing { overdue, datagram, window, .. }: Timing) -> Option<Time> {
        if !self.is_closed {
            return Some(self.closes_at);
        }
        let missing =
            || self.messages.iter().filter(|progress| progress.is_missing() && !progress.message.is_over(now));
        let count = missing().count();
        if self.is_reliable() {
            // All have arrived, but what proves it may have been lost.
            return (count == 0 || !self.owes()).then(|| self.last_sent + overdue);
        }
        let last_chance = missing().map(|progress| self.leaves_by(now, progress, window)).min()?;
        // All that may then be sent has to leave in time.
        let last_chance = last_chance - (datagram * self.policy.rounds.symbols(1, count, count) as u32 + FINE);
        // In a burst of losses nothing arrives that a report would be about.
        let is_heard_of = self.repairs_unknown == 0 && missing().all(|progress| progress.unknown == 0);
        Some(if self.owes() || is_heard_of { last_chance } else { last_chance.min(self.last_sent + overdue) })
    }
}
