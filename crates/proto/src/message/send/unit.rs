//! Unit of planning: a single message, or a group of neighbouring messages that share repair symbols
//! (`spec/protocol.md` \[message-12\]).

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

/// Identifies a symbol of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Symbol `esi` of the message with index `place` in the unit.
    Own { place: usize, esi: u32 },
    /// Repair symbol `esi` over all messages of the unit.
    Group { esi: u32 },
}

/// Delivery state of a message's own symbols.
#[derive(Debug)]
struct Progress {
    message: Outgoing,
    /// Own symbols that have arrived. At most K − 1 as long as the set of arrived symbols cannot be decoded.
    arrived: usize,
    /// Own symbols whose fate is unknown.
    unknown: usize,
    /// Ids of the own symbols that have arrived. Empty if K is 1.
    arrived_esis: Vec<u32>,
    last_sent: Time,
    next_esi: u32,
    /// The peer has proven that the message is complete.
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

/// Sort key of a unit that has symbols to send: later (`Owing`), or now (`Due`, by deadline).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Time of the next symbol.
    Owing(Time),
    /// Earliest departure deadline of the unit's messages.
    Due(Time),
}

/// Messages that are planned together.
#[derive(Debug)]
pub(super) struct Unit {
    kernel: Kernel,
    policy: Arc<Policy>,
    messages: Vec<Progress>,
    pub(super) closes_at: Time,
    /// Next timer, which fires even if no report comes.
    pub(super) wakes_at: Option<Time>,
    /// Sort key in the sending queues. `None` if there is no symbol to send.
    pub(super) place: Option<Place>,
    is_closed: bool,
    /// Ids of the repair symbols over all messages that have arrived.
    repairs_arrived: Vec<u32>,
    /// Number of repair symbols over all messages whose fate is unknown.
    repairs_unknown: usize,
    next_esi: u32,
    last_sent: Time,
    owed: VecDeque<What>,
    pub(super) next_at: Time,
    gap: Duration,
    /// Rows that repair symbols are computed from. Empty until the first repair symbol.
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

    // ---- messages ----

    /// Returns true if the unit takes another message with this id. Ids of a unit are consecutive.
    pub(super) fn takes(&self, now: Time, id: u32) -> bool {
        !self.is_closed && now < self.closes_at && self.holds(id.wrapping_sub(1))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Adds a message and queues its source symbols. Returns true if the unit is full.
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

    /// Returns true if the unit contains message `id`.
    pub(super) fn holds(&self, id: u32) -> bool {
        let count = self.messages.len() as u32;
        self.first_id().and_then(|first| id.checked_sub(first)).is_some_and(|place| place < count)
    }

    /// Closes the unit: no message joins any more. Queues the repair symbols that are sent in advance.
    pub(super) fn close(&mut self, now: Time, window: Window) {
        self.is_closed = true;
        self.next_esi = (self.messages.len() * self.messages.first().map_or(1, |first| first.message.k())) as u32;
        // If there are fewer messages than planned, reduce the repair symbols in proportion.
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

    /// Queues further symbols of the message, or of the group.
    fn owe(&mut self, symbols: usize) {
        for _ in 0..symbols {
            let what = if self.is_single() { self.next_own(0) } else { self.next_group() };
            self.owed.extend(what);
        }
    }

    fn next_own(&mut self, place: usize) -> Option<What> {
        let progress = self.messages.get_mut(place)?;
        // Symbol ids are limited. A reliable message that exhausts them starts again from 0.
        let esi = progress.next_esi % MESSAGE_SYMBOLS_MAX;
        progress.next_esi = esi + 1;
        Some(What::Own { place, esi })
    }

    fn next_group(&mut self) -> Option<What> {
        let esi = self.next_esi;
        self.next_esi += 1;
        (esi < MESSAGE_SYMBOLS_MAX).then_some(What::Group { esi })
    }

    // ---- sending ----

    /// Returns true if a symbol is queued, to be sent now or later.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Returns the next queued symbol that can still help a message. Discards useless ones before it.
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

    /// Returns the earliest departure deadline of the messages that may be incomplete at the peer.
    pub(super) fn urgency(&self) -> Time {
        let missing = self.messages.iter().filter(|progress| progress.is_missing());
        missing.map(|progress| progress.message.send_by).min().unwrap_or(Time::MAX)
    }

    /// Returns the segment of a symbol, and the length of its payload in bytes.
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

    /// Writes a symbol's payload. Returns false if the symbol does not exist.
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

    /// Discards the next symbol, which cannot be sent.
    pub(super) fn skip(&mut self) {
        self.owed.pop_front();
    }

    /// Records that a symbol was sent.
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

    // ---- arrivals and losses ----

    /// Records that a symbol has arrived or was lost.
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

    /// Records that the peer has proven to have message `id`.
    pub(super) fn on_proven(&mut self, id: u32) {
        if let Some(progress) = self.messages.iter_mut().find(|progress| progress.message.id == id) {
            progress.is_proven = true;
        }
    }

    /// Returns true if the unit is closed, no symbol is queued, and the fate of all sent symbols is known.
    pub(super) fn is_known(&self) -> bool {
        self.is_closed
            && self.owed.is_empty()
            && self.repairs_unknown == 0
            && self.messages.iter().all(|progress| progress.is_proven || progress.unknown == 0)
    }

    /// Returns true if nothing more can or need be sent: each message is proven or expired, or no report can trigger
    /// further symbols. Such a unit is removed; a later proof does not need it.
    pub(super) fn is_done(&self, now: Time, timing: Timing) -> bool {
        self.messages.iter().all(|progress| progress.is_proven || progress.message.is_over(now))
            || (self.is_closed && !self.is_reliable() && self.is_given_up(now, timing))
    }

    /// Returns true if all useful symbols have arrived, or the policy sends no symbol for the missing ones in any
    /// number of rounds.
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

    /// Plans the next round of symbols. Called when the fate of all symbols is known, or at the last moment that a
    /// symbol can leave.
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
            // The policy may give up a message, except a reliable one.
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

    /// Returns the number of symbols to send. `deficit` symbols are missing, `stake` messages are lost without them,
    /// and `rounds` remain, including this one. A policy for bursty losses may postpone a round. At the session's end
    /// such a round is sent now.
    fn planned(&self, timing: Timing, rounds: usize, (deficit, stake): (usize, usize)) -> usize {
        let last = if timing.is_ending { 1 } else { rounds };
        let mut symbols = (last..=rounds).rev().map(|left| self.policy.rounds.symbols(left, deficit, stake));
        symbols.find(|&symbols| symbols > 0).unwrap_or_default()
    }

    /// Limits the gap so that `symbols` symbols leave in time for message `place`.
    fn spread(&mut self, (now, window): (Time, Window), place: usize, symbols: usize) {
        let Some(progress) = self.messages.get(place).filter(|progress| !progress.message.is_reliable) else { return };
        let left = self.leaves_by(now, progress, window).since(now);
        self.gap = self.gap.min(left / u32::try_from(symbols.max(1)).unwrap_or(u32::MAX));
    }

    /// Returns true if repair symbols over all messages are useful. They carry the age of the first message, and expire
    /// with it. They are also useless if they would have to replace expired messages.
    fn may_be_repaired_together(&self, now: Time) -> bool {
        let first = self.messages.first().is_some_and(|first| !first.message.is_over(now + FINE));
        first && !self.messages.iter().any(|progress| progress.is_missing() && progress.message.is_over(now))
    }

    fn set_gap(&mut self, rounds: usize) {
        let gap_s = if rounds > 1 { 0.0 } else { self.policy.last_gap_s };
        self.gap = spread_gap(gap_s);
    }

    /// Returns the number of rounds that can still be sent for message `place`, including this one.
    fn rounds_left(&self, now: Time, place: usize, Timing { round, window, .. }: Timing) -> usize {
        let Some(progress) = self.messages.get(place) else { return 1 };
        if progress.message.is_reliable {
            return ROUNDS_MAX;
        }
        let left = self.leaves_by(now, progress, window).since(now);
        1 + (left.as_nanos() / round.as_nanos().max(1)).min(ROUNDS_MAX as u128 - 1) as usize
    }

    /// Returns the latest departure of a symbol for this message: before its deadline, and before the unit's ids are
    /// too old.
    fn leaves_by(&self, now: Time, progress: &Progress, window: Window) -> Time {
        progress.message.send_by.min(window.closes_at(now, self.first_id().unwrap_or_default()))
    }

    /// Returns the number of further repair symbols needed to decode the messages at the indices `missing`.
    fn deficit(&self, missing: &[usize]) -> usize {
        let deficit = missing.len().saturating_sub(self.repairs_arrived.len());
        // All coefficients of a repair symbol are nonzero, so that one repair symbol always decodes one missing
        // message.
        if deficit > 0 || missing.len() < 2 {
            return deficit;
        }
        let known = (0..self.messages.len()).filter(|place| !missing.contains(place)).map(|place| place as u32);
        let is_enough = suffice(self.kernel, self.messages.len(), known.chain(self.repairs_arrived.iter().copied()));
        usize::from(!is_enough)
    }

    /// Returns true if the messages have no deadline. All messages of a unit are of one kind.
    pub(super) fn is_reliable(&self) -> bool {
        self.messages.first().is_some_and(|progress| progress.message.is_reliable)
    }

    /// Marks unproven reliable messages as incomplete if the reports with their proofs seem lost. Another symbol of
    /// each makes the peer report it again (\[message-15\]).
    pub(super) fn ask_for_proofs(&mut self, now: Time, Timing { overdue, .. }: Timing) {
        let is_heard_of = self.repairs_unknown == 0 && self.messages.iter().all(|progress| progress.unknown == 0);
        if !self.is_reliable() || self.owes() || !is_heard_of || now < self.last_sent + overdue {
            return;
        }
        for progress in self.messages.iter_mut().filter(|progress| !progress.is_proven) {
            progress.arrived = progress.arrived.min(progress.message.k().saturating_sub(1));
        }
    }

    /// Returns the time at which to act without a report: to close the unit, or to use the last chance of a message
    /// that may be missing.
    pub(super) fn wake_at(&self, now: Time, Timing { overdue, datagram, window, .. }: Timing) -> Option<Time> {
        if !self.is_closed {
            return Some(self.closes_at);
        }
        let missing =
            || self.messages.iter().filter(|progress| progress.is_missing() && !progress.message.is_over(now));
        let count = missing().count();
        if self.is_reliable() {
            // All messages have arrived, but the report that proves it may have been lost.
            return (count == 0 || !self.owes()).then(|| self.last_sent + overdue);
        }
        let last_chance = missing().map(|progress| self.leaves_by(now, progress, window)).min()?;
        // Leave time for all symbols that may be sent at the last chance.
        let last_chance = last_chance - (datagram * self.policy.rounds.symbols(1, count, count) as u32 + FINE);
        // In a loss burst no datagram arrives, so that no report comes either.
        let is_heard_of = self.repairs_unknown == 0 && missing().all(|progress| progress.unknown == 0);
        Some(if self.owes() || is_heard_of { last_chance } else { last_chance.min(self.last_sent + overdue) })
    }
}
