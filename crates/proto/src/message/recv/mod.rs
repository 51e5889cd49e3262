//! What is received of messages (`spec/protocol.md` §3.2): each is delivered once and in time, or not at all.
//!
//! * [`clock`]: how old a message is when a datagram of it arrives.
//! * [`states`]: what is known of each id, and told in reports.
//! * [`partial`]: a message of which too few symbols have come.
//! * [`group`]: messages which are coded together.

mod clock;
mod group;
mod partial;
mod states;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Decoder};
use dfcp_time::Time;
use dfcp_wire::feedback::ReportWriter;
use dfcp_wire::segment::{Coverage, Message, MessageGroup, MessageInfo};

use self::clock::DelayClock;
use self::group::{Group, Known};
use self::partial::Partial;
use self::states::{Named, State, States};
use super::ReceivedMessage;
use super::rows::{RowHead, grouped_bytes_max, symbol_bytes_max};
use crate::error::Dropped;
use crate::limits::{MESSAGES_HELD_BYTES_MAX, MESSAGES_UNREAD_BYTES_MAX, MESSAGES_UNREAD_MAX};
use crate::proof::SECRET_BYTES;
use crate::stats::ReceivedMessages;
use crate::stream::recv::memory::ReceiveMemory;

/// What has come of a message is kept for as long after its lifetime, so that it counts as late and not as lost.
const GRACE: Duration = Duration::from_millis(100);
/// How long what has come of a reliable message is kept after its newest symbol.
const RELIABLE: Duration = Duration::from_secs(600);

/// The receiving side of a session's messages.
#[derive(Debug)]
pub(crate) struct RecvMessages {
    kernel: Kernel,
    proofs: bool,
    /// The most bytes of a stream's symbol.
    symbol_size: usize,
    clock: DelayClock,
    states: States,
    partial: BTreeMap<u32, Partial>,
    groups: VecDeque<Group>,
    known: VecDeque<Known>,
    /// What these three may come to hold.
    held_bytes: usize,
    unread: VecDeque<ReceivedMessage>,
    unread_bytes: usize,
    row: Vec<u8>,
    stats: ReceivedMessages,
}

/// Times of a message, or of the first of several, as its datagram at hand tells them.
#[derive(Clone, Copy)]
struct Arrival {
    now: Time,
    clock_us: u32,
    /// By how much the datagram was slower than the fastest lately.
    excess_us: u32,
}

impl Arrival {
    /// How old the message with this head is, less the least delay of the path.
    fn age_us(self, head: RowHead) -> u32 {
        self.clock_us.wrapping_sub(head.created_us).saturating_add(self.excess_us)
    }

    fn is_late(self, head: RowHead) -> bool {
        head.lifetime_us != Message::LIFETIME_UNLIMITED && self.age_us(head) > head.lifetime_us
    }

    /// When nothing of the message is of use any more, even to count it.
    fn until(self, head: RowHead) -> Time {
        if head.lifetime_us == Message::LIFETIME_UNLIMITED {
            return self.now + RELIABLE;
        }
        let left_us = head.lifetime_us.saturating_sub(self.age_us(head));
        self.now + Duration::from_micros(left_us.into()) + GRACE
    }
}

impl RecvMessages {
    /// `symbol_size` is the session's.
    pub(crate) fn new(kernel: Kernel, proofs: bool, symbol_size: usize) -> Self {
        Self {
            kernel,
            proofs,
            symbol_size,
            clock: DelayClock::default(),
            states: States::default(),
            partial: BTreeMap::new(),
            groups: VecDeque::new(),
            known: VecDeque::new(),
            held_bytes: 0,
            unread: VecDeque::new(),
            unread_bytes: 0,
            row: Vec::new(),
            stats: ReceivedMessages::default(),
        }
    }

    /// The next message which has come in time, oldest arrival first.
    pub(crate) fn read(&mut self) -> Option<ReceivedMessage> {
        let message = self.unread.pop_front()?;
        self.unread_bytes -= message.bytes.len();
        Some(message)
    }

    pub(crate) fn is_readable(&self) -> bool {
        !self.unread.is_empty()
    }

    pub(crate) fn stats(&self) -> ReceivedMessages {
        let gone = self.stats.in_time + self.stats.late + self.stats.unread;
        ReceivedMessages { lost: self.states.begun().saturating_sub(gone), ..self.stats }
    }

    /// Takes in a symbol, which came in the datagram numbered `number`.
    ///
    /// # Errors
    /// It has no place: its message is too old to be remembered, or it is not what its own segment says.
    pub(crate) fn push(
        &mut self,
        now: Time,
        number: u64,
        segment: &Message,
        payload: &[u8],
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        // Each message takes a datagram at least, so that ids are never ahead of numbers ([message-3]).
        let last = match segment.coverage {
            Coverage::One(_) => segment.id,
            Coverage::Several(group) => segment.id.saturating_add(u32::from(group.count) - 1),
        };
        if u64::from(last) > number {
            return Err(Dropped::Unexpected);
        }
        let excess_us = self.clock.on_datagram(now, segment.clock_us);
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
        // [message-2]
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
            let Some(bytes) = self.only_symbol(segment.esi, payload) else { return Err(Dropped::Unexpected) };
            self.complete_one(arrival, segment.id, head, bytes, memory);
            return Ok(());
        }
        let shape = BlockShape::new(info.k.into(), info.length_bytes as usize).map_err(|_| Dropped::Unexpected)?;
        self.push_partial(arrival, segment.id, segment.esi, (head, shape), payload, memory)
    }

    /// A message of one symbol, with its secret.
    fn only_symbol(&self, esi: u32, payload: &[u8]) -> Option<Vec<u8>> {
        if esi == 0 || payload.is_empty() {
            return Some(payload.to_vec());
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
        if !self.partial.contains_key(&id) {
            let bytes = Partial::bytes_max(shape, self.proofs);
            if !self.hold(bytes, memory) {
                return Err(Dropped::NoMemory);
            }
            let Some(partial) = Partial::new(self.kernel, shape, self.proofs, arrival.until(head)) else {
                self.let_go(bytes, memory);
                return Err(Dropped::Unexpected);
            };
            self.partial.insert(id, partial);
        }
        let Some(partial) = self.partial.get_mut(&id).filter(|partial| partial.shape() == shape) else {
            return Err(Dropped::Unexpected);
        };
        if head.lifetime_us == Message::LIFETIME_UNLIMITED {
            partial.until = arrival.until(head);
        }
        if !partial.push(esi, payload) {
            self.stats.symbols_in_vain += 1;
            return Ok(());
        }
        match partial.take() {
            Some((message, proof)) => {
                self.partial.remove(&id);
                self.let_go(Partial::bytes_max(shape, self.proofs), memory);
                self.deliver(arrival, id, head, message, proof);
            }
            None => self.states.set(id, State::Partial),
        }
        Ok(())
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
        let ids = segment.id..=segment.id + u32::from(count) - 1;
        // The last one first, as it makes room for all.
        let missing =
            ids.clone().rev().filter(|&id| matches!(self.states.get(id), Some(State::Empty | State::Partial)));
        if missing.count() == 0 {
            ids.for_each(|id| self.states.tell_again(id));
            self.stats.symbols_in_vain += 1;
            return Ok(());
        }
        let is = |group: &Group| group.is(segment.id, count, payload.len());
        let at = match self.groups.iter().position(is) {
            Some(at) => at,
            None => self.begin_group(arrival, segment, count, payload.len(), memory)?,
        };
        let Some(group) = self.groups.get_mut(at) else { return Err(Dropped::Unexpected) };
        let mut is_complete = group.push(segment.esi, payload);
        // What is known of its messages is put in only now, when it may help.
        if !is_complete {
            for known in self.known.iter().filter(|known| ids.contains(&known.id)) {
                is_complete |= group.add(known, self.proofs, &mut self.row);
            }
        }
        if is_complete {
            self.complete_group(arrival, at, memory);
        }
        Ok(())
    }

    fn begin_group(
        &mut self,
        arrival: Arrival,
        segment: &Message,
        count: u16,
        row_bytes: usize,
        memory: &mut ReceiveMemory,
    ) -> Result<usize, Dropped> {
        let bytes = Group::bytes_max(count, row_bytes);
        if !self.hold(bytes, memory) {
            return Err(Dropped::NoMemory);
        }
        // Its symbols tell the age of the first message, and end with its time.
        let until = arrival.until(head(segment, 0));
        let Some(group) = Group::new(self.kernel, segment.id, count, row_bytes, until) else {
            self.let_go(bytes, memory);
            return Err(Dropped::Unexpected);
        };
        self.groups.push_back(group);
        Ok(self.groups.len() - 1)
    }

    /// A message of one symbol is here: `bytes` are the message and its secret.
    fn complete_one(&mut self, arrival: Arrival, id: u32, head: RowHead, bytes: Vec<u8>, memory: &mut ReceiveMemory) {
        let length = head.length_bytes as usize;
        let proof =
            bytes.get(length..).and_then(|rest| rest.first_chunk()).map_or(0, |secret| u32::from_be_bytes(*secret));
        self.deliver(arrival, id, head, bytes.get(..length).unwrap_or_default().to_vec(), proof);
        if length > grouped_bytes_max(self.symbol_size) || head.lifetime_us == Message::LIFETIME_UNLIMITED {
            return;
        }
        let known = Known { id, head, until: arrival.until(head), bytes };
        let (proofs, row) = (self.proofs, &mut self.row);
        let mut helped = self.groups.iter_mut().enumerate().filter(|(_, group)| group.covers(id));
        let complete = helped.find_map(|(at, group)| group.add(&known, proofs, row).then_some(at));
        if let Some(at) = complete {
            self.complete_group(arrival, at, memory);
        }
        if self.hold(known.bytes.len(), memory) {
            self.known.push_back(known);
        }
    }

    /// All messages of a group are known.
    fn complete_group(&mut self, arrival: Arrival, at: usize, memory: &mut ReceiveMemory) {
        let Some(group) = self.groups.remove(at) else { return };
        self.let_go(group.held_bytes(), memory);
        for (id, head, message, secret) in group.messages(self.proofs) {
            if matches!(self.states.get(id), Some(State::Empty)) {
                self.deliver(arrival, id, head, message.to_vec(), secret);
            }
        }
    }

    /// All of a message is here.
    fn deliver(&mut self, arrival: Arrival, id: u32, head: RowHead, bytes: Vec<u8>, proof: u32) {
        self.states.set(id, State::Complete { proof });
        if arrival.is_late(head) {
            self.stats.late += 1;
            return;
        }
        while self.unread.len() >= MESSAGES_UNREAD_MAX || self.unread_bytes + bytes.len() > MESSAGES_UNREAD_BYTES_MAX {
            // The oldest is worth least.
            let Some(oldest) = self.unread.pop_front() else { break };
            self.unread_bytes -= oldest.bytes.len();
            self.stats.in_time -= 1;
            self.stats.unread += 1;
        }
        self.stats.in_time += 1;
        self.unread_bytes += bytes.len();
        let waited = Duration::from_micros(arrival.age_us(head).into());
        self.unread.push_back(ReceivedMessage { id, bytes, waited });
    }

    /// Takes room for what may come, of what is oldest if need be; `false` if there is none.
    fn hold(&mut self, bytes: usize, memory: &mut ReceiveMemory) -> bool {
        if bytes > MESSAGES_HELD_BYTES_MAX {
            return false;
        }
        while self.held_bytes + bytes > MESSAGES_HELD_BYTES_MAX {
            self.forget_oldest(memory);
        }
        let pays = memory.pay(bytes as u64);
        self.held_bytes += if pays { bytes } else { 0 };
        pays
    }

    fn let_go(&mut self, bytes: usize, memory: &mut ReceiveMemory) {
        self.held_bytes -= bytes;
        memory.give_back(bytes as u64);
    }

    /// Lets go of what is of no use any more.
    fn forget(&mut self, now: Time, memory: &mut ReceiveMemory) {
        while self.known.front().is_some_and(|known| known.until < now) {
            self.forget_known(memory);
        }
        while self.groups.front().is_some_and(|group| group.until < now) {
            self.forget_group(memory);
        }
        while let Some((&id, _)) = self.partial.first_key_value().filter(|(_, partial)| partial.until < now) {
            self.forget_partial(id, memory);
        }
    }

    /// Lets go of what is oldest: of known messages, which may not be needed, before that of which something is missing.
    fn forget_oldest(&mut self, memory: &mut ReceiveMemory) {
        if !self.known.is_empty() {
            self.forget_known(memory);
        } else if !self.groups.is_empty() {
            self.forget_group(memory);
        } else if let Some((&id, _)) = self.partial.first_key_value() {
            self.forget_partial(id, memory);
        } else {
            self.held_bytes = 0;
        }
    }

    fn forget_known(&mut self, memory: &mut ReceiveMemory) {
        if let Some(known) = self.known.pop_front() {
            self.let_go(known.bytes.len(), memory);
        }
    }

    fn forget_group(&mut self, memory: &mut ReceiveMemory) {
        if let Some(group) = self.groups.pop_front() {
            self.let_go(group.held_bytes(), memory);
        }
    }

    fn forget_partial(&mut self, id: u32, memory: &mut ReceiveMemory) {
        if let Some(partial) = self.partial.remove(&id) {
            self.let_go(Partial::bytes_max(partial.shape(), self.proofs), memory);
        }
    }

    fn secret_bytes(&self) -> usize {
        if self.proofs { SECRET_BYTES } else { 0 }
    }

    // ---- what the peer is told ----

    /// Whether reports owe the peer news of messages, whatever arrives.
    pub(crate) fn owes_news(&self) -> bool {
        self.states.is_owing()
    }

    /// Writes a report's record, into `room` bytes at most.
    pub(crate) fn write_record(&mut self, writer: &mut ReportWriter<'_>, room: usize) {
        let partial = &self.partial;
        self.states.write(writer, room, |id| {
            partial.get(&id).map(|partial| Named { bits: partial.bits(), proof: partial.secrets() })
        });
    }
}

fn head(segment: &Message, length_bytes: u32) -> RowHead {
    let created_us = segment.clock_us.wrapping_sub(segment.age_us);
    RowHead { length_bytes, created_us, lifetime_us: segment.lifetime_us }
}

#[cfg(test)]
mod tests;
