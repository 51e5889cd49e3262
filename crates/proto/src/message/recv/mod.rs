//! Receiving side of messages (`spec/protocol.md` §3.2): each message is delivered once and in time, or never.
//!
//! * [`clock`]: excess delay of datagrams, from which the age of a message follows.
//! * [`states`]: state of each message id, and the records of reports.
//! * [`store`]: bounded memory for decoding: incomplete messages ([`partial`]) and groups of messages coded together
//!   ([`group`]), both indexed by id ([`pending`]), and rows of complete messages ([`known`]).
//! * [`unread`]: delivered messages that the application has not read.
//!
//! The states of ids are part of the session's memory reserve. All other memory is charged to the session. The cost of
//! a datagram does not depend on the amount of stored data, except for the logarithm of the number of incomplete
//! messages.

mod clock;
mod group;
mod known;
mod partial;
mod pending;
mod states;
mod store;
mod unread;

use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Decoder};
use dfcp_time::Time;
use dfcp_wire::feedback::ReportWriter;
use dfcp_wire::segment::{Coverage, Message, MessageGroup, MessageInfo};

use self::clock::DelayClock;
pub(crate) use self::states::reserve_bytes;
use self::states::{Named, State, States};
use self::store::Store;
use self::unread::Unread;
use super::ReceivedMessage;
use super::rows::{RowHead, grouped_bytes_max, symbol_bytes_max};
use crate::error::Dropped;
use crate::proof::SECRET_BYTES;
use crate::stats::ReceivedMessages;
use crate::stream::recv::memory::ReceiveMemory;

/// Symbols of a message are kept this long after its deadline, so that a message completed then counts as late instead
/// of lost.
const GRACE: Duration = Duration::from_millis(100);
/// Symbols of a reliable message are kept this long after the last one arrived.
const RELIABLE: Duration = Duration::from_secs(600);

/// Receiving side of a session's messages.
#[derive(Debug)]
pub(crate) struct RecvMessages {
    kernel: Kernel,
    proofs: bool,
    /// Largest stream symbol of the session, bytes.
    symbol_size: usize,
    clock: DelayClock,
    states: States,
    store: Store,
    unread: Unread,
    row: Vec<u8>,
    stats: ReceivedMessages,
}

/// Times of an arriving datagram. They give the age of its message, or of the first message of its group.
#[derive(Clone, Copy)]
struct Arrival {
    now: Time,
    clock_us: u32,
    /// Excess of the datagram's one-way delay over the recent minimum, µs.
    excess_us: u32,
}

impl Arrival {
    /// Returns the age of the message with this head, less the path's minimum delay, µs.
    fn age_us(self, head: RowHead) -> u32 {
        self.clock_us.wrapping_sub(head.created_us).saturating_add(self.excess_us)
    }

    fn is_late(self, head: RowHead) -> bool {
        head.lifetime_us != Message::LIFETIME_UNLIMITED && self.age_us(head) > head.lifetime_us
    }

    /// Returns the time after which the message's symbols are discarded.
    fn until(self, head: RowHead) -> Time {
        if head.lifetime_us == Message::LIFETIME_UNLIMITED {
            return self.now + RELIABLE;
        }
        let left_us = head.lifetime_us.saturating_sub(self.age_us(head));
        self.now + Duration::from_micros(left_us.into()) + GRACE
    }
}

impl RecvMessages {
    /// Creates the receiving side. `symbol_size` is the session's largest stream symbol, bytes.
    pub(crate) fn new(kernel: Kernel, proofs: bool, symbol_size: usize) -> Self {
        Self {
            kernel,
            proofs,
            symbol_size,
            clock: DelayClock::default(),
            states: States::new(proofs),
            store: Store::new(kernel, proofs),
            unread: Unread::default(),
            row: Vec::new(),
            stats: ReceivedMessages::default(),
        }
    }

    /// Returns the next delivered message, in order of arrival.
    pub(crate) fn read(&mut self, memory: &mut ReceiveMemory) -> Option<ReceivedMessage> {
        self.unread.pop(memory)
    }

    pub(crate) fn is_readable(&self) -> bool {
        !self.unread.is_empty()
    }

    pub(crate) fn stats(&self) -> ReceivedMessages {
        let gone = self.stats.in_time + self.stats.late + self.stats.unread;
        ReceivedMessages { lost: self.states.begun().saturating_sub(gone), ..self.stats }
    }

    /// Takes in a symbol that arrived in datagram `number`.
    ///
    /// # Errors
    /// The symbol is dropped: its message is too old to be remembered, the segment is inconsistent, or there is no
    /// memory.
    pub(crate) fn push(
        &mut self,
        now: Time,
        number: u64,
        segment: &Message,
        payload: &[u8],
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        // Each message takes at least one datagram, so that no id can exceed the datagram's number ([message-3]).
        let last = match segment.coverage {
            Coverage::One(_) => segment.id,
            Coverage::Several(group) => segment.id.saturating_add(u32::from(group.count) - 1),
        };
        if u64::from(last) > number {
            return Err(Dropped::Unexpected);
        }
        let excess_us = self.clock.on_datagram(now, segment.clock_us);
        self.states.reach(last);
        self.forget(now, memory);
        let arrival = Arrival { now, clock_us: segment.clock_us, excess_us };
        match segment.coverage {
            Coverage::One(info) => self.push_one(arrival, segment, info, payload, memory),
            Coverage::Several(group) => self.push_group(arrival, segment, group, payload, memory),
        }
    }

    fn push_one(
        &mut self,
        arrival: Arrival,
        segment: &Message,
        info: MessageInfo,
        payload: &[u8],
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        // Symbol sizes follow from [message-2].
        let k = u32::from(info.k);
        let data_bytes = info.length_bytes.div_ceil(k) as usize;
        if data_bytes > symbol_bytes_max(self.symbol_size) || payload.len() != data_bytes + self.secret_bytes() {
            return Err(Dropped::Unexpected);
        }
        let head = head(segment, info.length_bytes);
        match self.states.get(segment.id) {
            None => return Err(Dropped::Unexpected),
            Some(State::Complete { .. }) => {
                self.states.tell_again(segment.id);
                self.stats.symbols_in_vain += 1;
                return Ok(());
            }
            Some(State::Empty | State::Partial) => {}
        }
        if k == 1 {
            if segment.esi == 0 {
                return self.complete_one(arrival, segment.id, head, payload, memory);
            }
            let Some(bytes) = self.only_symbol(segment.esi, payload) else { return Err(Dropped::Unexpected) };
            return self.complete_one(arrival, segment.id, head, &bytes, memory);
        }
        let shape = BlockShape::new(info.k.into(), info.length_bytes as usize).map_err(|_| Dropped::Unexpected)?;
        self.push_partial(arrival, segment.id, segment.esi, (head, shape), payload, memory)
    }

    /// Decodes a message of one symbol, with its secret, from a repair symbol.
    fn only_symbol(&self, esi: u32, payload: &[u8]) -> Option<Vec<u8>> {
        if payload.is_empty() {
            return Some(Vec::new());
        }
        let mut decoder = Decoder::new(self.kernel, BlockShape::new(1, payload.len()).ok()?);
        decoder.push(esi, payload).ok()?;
        decoder.into_block()
    }

    fn push_partial(
        &mut self,
        arrival: Arrival,
        id: u32,
        esi: u32,
        (head, shape): (RowHead, BlockShape),
        payload: &[u8],
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        if self.store.partial.get(id).is_none() {
            self.store.begin_partial(id, arrival.until(head), shape, memory)?;
        } else if head.lifetime_us == Message::LIFETIME_UNLIMITED {
            self.store.partial.set_until(id, arrival.until(head));
        }
        let Some(partial) = self.store.partial.get_mut(id).filter(|partial| partial.shape() == shape) else {
            return Err(Dropped::Unexpected);
        };
        if !partial.push(esi, payload) {
            self.stats.symbols_in_vain += 1;
            return Ok(());
        }
        let Some((message, proof)) = partial.take() else {
            self.states.set(id, State::Partial);
            return Ok(());
        };
        self.store.take_partial(id, memory);
        let is_taken = self.deliver(arrival, id, head, message, proof, memory);
        if is_taken.is_err() {
            // The decoder with all earlier symbols has been freed.
            self.states.set(id, State::Empty);
        }
        is_taken
    }

    fn push_group(
        &mut self,
        arrival: Arrival,
        segment: &Message,
        MessageGroup { count, source_symbols }: MessageGroup,
        payload: &[u8],
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        if count != source_symbols || payload.len() > symbol_bytes_max(self.symbol_size) + self.secret_bytes() {
            return Err(Dropped::Unexpected);
        }
        let first = segment.id;
        let mut ids = first..=first + u32::from(count) - 1;
        if !ids.clone().any(|id| matches!(self.states.get(id), Some(State::Empty | State::Partial))) {
            ids.for_each(|id| self.states.tell_again(id));
            self.stats.symbols_in_vain += 1;
            return Ok(());
        }
        let is_new = !self.store.groups.get(first).is_some_and(|group| group.is(first, count, payload.len()));
        if is_new {
            // Repair symbols carry the age of the group's first message, and expire with it.
            self.store.begin_group((first, count), payload.len(), arrival.until(head(segment, 0)), memory)?;
        }
        let Some(group) = self.store.groups.get_mut(first) else { return Err(Dropped::Unexpected) };
        let mut is_complete = group.push(segment.esi, payload);
        if is_new && !is_complete {
            // Add the messages of the group that are known already. Later ones are added when they complete.
            let (states, known) = (&self.states, &self.store.known);
            is_complete = ids.any(|id| {
                let row = states.place(id).and_then(|place| known.get(place));
                row.is_some_and(|row| group.add(id, row, &mut self.row))
            });
        }
        if is_complete {
            self.complete_group(arrival, first, memory);
        }
        Ok(())
    }

    /// Delivers a message of one symbol. `bytes` is the message followed by its secret.
    fn complete_one(
        &mut self,
        arrival: Arrival,
        id: u32,
        head: RowHead,
        bytes: &[u8],
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        let length = head.length_bytes as usize;
        let Some((message, secret)) = bytes.split_at_checked(length) else { return Err(Dropped::Unexpected) };
        let secret = secret.first_chunk().map_or(0, |secret| u32::from_be_bytes(*secret));
        self.deliver(arrival, id, head, message.to_vec(), secret, memory)?;
        if length > grouped_bytes_max(self.symbol_size) || head.lifetime_us == Message::LIFETIME_UNLIMITED {
            return Ok(());
        }
        if !self.store.pay_for_row(length, memory) {
            return Ok(());
        }
        let place = self.store.known.push(id, head, message, secret, arrival.until(head));
        self.states.set_place(id, place);
        let Store { groups, known, .. } = &mut self.store;
        let Some((first, group)) = groups.up_to(id).filter(|(_, group)| group.reaches(id)) else { return Ok(()) };
        if known.get(place).is_some_and(|row| group.add(id, row, &mut self.row)) {
            self.complete_group(arrival, first, memory);
        }
        Ok(())
    }

    /// Delivers the missing messages of a group that has been decoded.
    fn complete_group(&mut self, arrival: Arrival, first: u32, memory: &mut ReceiveMemory) {
        let Some(group) = self.store.take_group(first, memory) else { return };
        for (id, head, message, secret) in group.messages(self.proofs) {
            if matches!(self.states.get(id), Some(State::Empty)) {
                // Without memory the message counts as not received, so that the sender repairs it.
                let _no_memory = self.deliver(arrival, id, head, message.to_vec(), secret, memory);
            }
        }
    }

    /// Delivers a complete message if it is in time, and records its state.
    fn deliver(
        &mut self,
        arrival: Arrival,
        id: u32,
        head: RowHead,
        bytes: Vec<u8>,
        proof: u32,
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        if arrival.is_late(head) {
            self.stats.late += 1;
        } else {
            let gone = self.unread.make_room(bytes.len(), memory);
            self.stats.in_time -= gone;
            self.stats.unread += gone;
            let waited = Duration::from_micros(arrival.age_us(head).into());
            if !self.unread.push(ReceivedMessage { id, bytes, waited }, self.symbol_size, memory) {
                return Err(Dropped::NoMemory);
            }
            self.stats.in_time += 1;
        }
        self.states.set(id, State::Complete { proof });
        Ok(())
    }

    /// Frees stored data that is useless by now.
    pub(crate) fn forget(&mut self, now: Time, memory: &mut ReceiveMemory) {
        self.store.forget(now, self.states.first(), memory);
    }

    fn secret_bytes(&self) -> usize {
        if self.proofs { SECRET_BYTES } else { 0 }
    }

    // ---- reports ----

    /// Returns true if reports have news of messages, even if no further datagram arrives.
    pub(crate) fn owes_news(&self) -> bool {
        self.states.is_owing()
    }

    /// Writes the messages record of a report, in at most `room` bytes.
    pub(crate) fn write_record(&mut self, writer: &mut ReportWriter<'_>, room: usize) {
        let partial = &self.store.partial;
        self.states.write(writer, room, |id| {
            partial.get(id).map(|partial| Named { bits: partial.bits(), proof: partial.secrets() })
        });
    }
}

fn head(segment: &Message, length_bytes: u32) -> RowHead {
    let created_us = segment.clock_us.wrapping_sub(segment.age_us);
    RowHead { length_bytes, created_us, lifetime_us: segment.lifetime_us }
}

#[cfg(test)]
mod tests;
