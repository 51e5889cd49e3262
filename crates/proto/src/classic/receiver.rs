//! The classic profile's receiver: *recv_queues* and the decode threshold (thesis §3.9, §3.10).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dfcp_fountain::raptor::{CountingDecoder, Decoder, SEGMENT_BYTES, SOURCE_BYTES, SegmentGraph, State};
use dfcp_time::Time;
use dfcp_wire::classic::{BlockLength, StateWords};

use super::graphs::{GRAPH_MEMORY_BYTES, Graphs};
use crate::codec::Codec;
use crate::config::Config;
use crate::error::{Dropped, PeerMisbehaved};
use crate::limits;
use crate::shared::PushError;
use crate::shared::memory::MemoryReservation;
use crate::stats::ReceivedSymbols;

/// Minimum interval between ACKs of the same block. A lost ACK is repeated when further segments of its block arrive.
/// The thesis sends one ACK for every such segment, which on a long path would be thousands (`spec/protocol.md`
/// \[classic-5\]).
const ACK_SPACING: Duration = Duration::from_millis(10);

/// Memory of a segment of an open block, bytes. Its graph is charged by [`Graphs`].
const SEGMENT_MEMORY_BYTES: u64 = 1_536;

/// Memory of an open block besides its segments, bytes: its slot, and space reserved for the next segments. Memory for
/// decoding is not counted, since only one block is decoded at a time.
const OPEN_MEMORY_BYTES: u64 = 12 << 10;

/// Memory of a decoded block, bytes.
const COMPLETE_MEMORY_BYTES: u64 = SOURCE_BYTES as u64 + 64;

/// Segments beyond the decode threshold for which the reserve suffices. The overhead ε was never above 5 %.
const RESERVE_SEGMENTS: u64 = 16;

/// Memory that any one block needs until it is decoded, bytes.
pub(crate) fn reserve_bytes(config: &Config) -> u64 {
    let segments = u64::from(config.classic.redundancy_bytes).div_ceil(SEGMENT_BYTES as u64) + RESERVE_SEGMENTS;
    OPEN_MEMORY_BYTES + segments * (SEGMENT_MEMORY_BYTES + GRAPH_MEMORY_BYTES)
}

#[derive(Debug)]
enum RecvQueue {
    Empty,
    Open(OpenBlock),
    Counting {
        counter: CountingDecoder,
        length_bytes: u32,
    },
    /// `block` is `None` if bytes were only counted. Reading then returns zeros (\[classic-9\]).
    Complete {
        block: Option<Vec<u8>>,
        length_bytes: usize,
        shared_bytes: u64,
    },
}

#[derive(Debug)]
struct OpenBlock {
    decoder: Box<Decoder>,
    length_bytes: u32,
    /// Memory charged for the block, bytes.
    paid_bytes: u64,
    /// The part of `paid_bytes` that was not taken from the reserve, bytes.
    shared_bytes: u64,
}

impl OpenBlock {
    /// Returns true if the block may hold more segments.
    fn has_room(&self) -> bool {
        self.decoder.received_bytes() < limits::CLASSIC_SEGMENTS_PER_BLOCK_MAX * SEGMENT_BYTES
    }

    /// Memory still to be charged for one more segment, without its graph, bytes.
    fn due_bytes(&self) -> u64 {
        let segments = (self.decoder.received_bytes() / SEGMENT_BYTES) as u64 + 1;
        (OPEN_MEMORY_BYTES + segments * SEGMENT_MEMORY_BYTES).saturating_sub(self.paid_bytes)
    }
}

#[derive(Debug)]
pub(crate) struct ClassicReceiver {
    peer_initial: State,
    graphs: Graphs,
    /// Pays for the memory of blocks.
    reservation: MemoryReservation,
    /// The block that is paid from the reserve.
    on_reserve: Option<u32>,
    redundancy_bytes: u32,
    decoding: bool,
    codec: &'static dyn Codec,
    /// Payload of a data segment, bytes.
    payload_bytes: usize,
    window_blocks: u32,
    queues: VecDeque<RecvQueue>,
    /// Id of the block in `queues[0]`: the oldest block not completely read.
    first_id: u32,
    next_needed: u32,
    read_offset: usize,
    end: Option<u32>,
    /// Blocks whose ACK is to be sent.
    acks: VecDeque<u32>,
    /// Recently acknowledged blocks, and the times of their ACKs.
    acked_at: VecDeque<(u32, Time)>,
    symbols: ReceivedSymbols,
    blocks_decoded: u64,
    bytes_read: u64,
}

impl ClassicReceiver {
    pub(crate) fn new(config: &Config, peer_initial: State) -> Self {
        Self {
            peer_initial,
            graphs: Graphs::default(),
            reservation: MemoryReservation::default(),
            on_reserve: None,
            redundancy_bytes: config.classic.redundancy_bytes,
            decoding: config.classic.decoding,
            codec: config.codec,
            payload_bytes: config.codec.carried_bytes(SEGMENT_BYTES),
            window_blocks: config.blocks_in_window(),
            queues: VecDeque::new(),
            first_id: 0,
            next_needed: 0,
            read_offset: 0,
            end: None,
            acks: VecDeque::new(),
            acked_at: VecDeque::new(),
            symbols: ReceivedSymbols::default(),
            blocks_decoded: 0,
            bytes_read: 0,
        }
    }

    /// Charges blocks to `reservation` from now on.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.reservation = reservation;
    }

    pub(crate) fn set_redundancy_bytes(&mut self, redundancy_bytes: u32) {
        self.redundancy_bytes = redundancy_bytes;
    }

    pub(crate) fn set_window_blocks(&mut self, window_blocks: u32) {
        self.window_blocks = window_blocks;
    }

    pub(crate) fn set_decoding(&mut self, decoding: bool) {
        self.decoding = decoding;
    }

    /// Processes a data segment (thesis fig. 3.14). Returns `Ok(true)` if it completes its block, which may be any
    /// block of the window (\[classic-10\]).
    pub(crate) fn push(
        &mut self,
        now: Time,
        block_id: u32,
        state: StateWords,
        block_length: Option<BlockLength>,
        payload: &[u8],
    ) -> Result<bool, PushError> {
        if block_id < self.next_needed {
            self.symbols.late += 1;
            self.acknowledge(now, block_id);
            return Ok(false);
        }
        let beyond = self.end.is_some_and(|end| block_id >= end) || block_id == u32::MAX;
        if beyond || block_id - self.first_id >= self.window_blocks {
            self.symbols.refused += 1;
            return Err(PushError::Dropped(Dropped::OutsideWindow));
        }
        let length_bytes = block_length.map_or(SOURCE_BYTES as u32, BlockLength::bytes);
        let state = State::new(state[0], state[1], state[2]);
        let (Some(state), true) = (state, payload.len() == self.payload_bytes() && length_bytes <= SOURCE_BYTES as u32)
        else {
            self.symbols.refused += 1;
            return Err(PushError::Dropped(Dropped::Unexpected));
        };
        let index = (block_id - self.first_id) as usize;
        self.associate(index, block_id, length_bytes);
        let complete = self.collect(index, block_id, state, length_bytes, payload)?;
        if complete {
            self.complete(index);
        }
        if matches!(
            self.queues.get((block_id.wrapping_sub(self.first_id)) as usize),
            None | Some(RecvQueue::Complete { .. })
        ) {
            self.acknowledge(now, block_id);
        }
        Ok(complete)
    }

    /// Payload of a data segment, bytes.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Prepares the block's queue for receiving, if it is still empty.
    fn associate(&mut self, index: usize, block_id: u32, length_bytes: u32) {
        while self.queues.len() <= index {
            self.queues.push_back(RecvQueue::Empty);
        }
        if matches!(self.queues[index], RecvQueue::Empty) {
            let decodes = self.decoding.then(|| self.codec.classic_decoder(self.peer_initial, block_id));
            self.queues[index] = match decodes.flatten() {
                Some(decoder) => RecvQueue::Open(OpenBlock { decoder, length_bytes, paid_bytes: 0, shared_bytes: 0 }),
                None => {
                    RecvQueue::Counting { counter: CountingDecoder::new(self.redundancy_bytes as usize), length_bytes }
                }
            };
        }
    }

    fn collect(
        &mut self,
        index: usize,
        block_id: u32,
        state: State,
        announced_bytes: u32,
        payload: &[u8],
    ) -> Result<bool, PushError> {
        let inconsistent = PushError::Misbehaved(PeerMisbehaved::InconsistentBlock { block_id });
        match &mut self.queues[index] {
            RecvQueue::Empty => Ok(false),
            RecvQueue::Complete { .. } => {
                self.symbols.late += 1;
                Ok(false)
            }
            RecvQueue::Counting { length_bytes, .. } | RecvQueue::Open(OpenBlock { length_bytes, .. })
                if *length_bytes != announced_bytes =>
            {
                Err(inconsistent)
            }
            RecvQueue::Counting { counter, .. } => {
                self.symbols.useful += 1;
                Ok(counter.push(SEGMENT_BYTES))
            }
            RecvQueue::Open(open) if open.decoder.holds(state) => {
                self.symbols.duplicate += 1;
                Ok(false)
            }
            RecvQueue::Open(open) if !open.has_room() => self.refuse(),
            RecvQueue::Open(_) => self.collect_segment(index, block_id, state, payload),
        }
    }

    /// Stores a segment of an open block, and tries to decode once there are enough segments (\[classic-3\]).
    fn collect_segment(
        &mut self,
        index: usize,
        block_id: u32,
        state: State,
        payload: &[u8],
    ) -> Result<bool, PushError> {
        if !self.pay(index, block_id) {
            return self.refuse();
        }
        let Some(graph) = self.graph(block_id, state) else { return self.refuse() };
        let Some(RecvQueue::Open(open)) = self.queues.get_mut(index) else { return Ok(false) };
        open.decoder
            .push(graph, payload)
            .map_err(|_| PushError::Misbehaved(PeerMisbehaved::InconsistentBlock { block_id }))?;
        self.symbols.useful += 1;
        let enough = open.decoder.received_bytes() >= self.redundancy_bytes as usize;
        Ok(enough && open.decoder.decode())
    }

    /// Charges the memory for an open block's next segment.
    fn pay(&mut self, index: usize, block_id: u32) -> bool {
        let Some(RecvQueue::Open(open)) = self.queues.get(index) else { return false };
        let due_bytes = open.due_bytes();
        let shared_bytes = if self.reservation.take(due_bytes) {
            due_bytes
        } else if self.take_reserve(block_id, due_bytes) {
            0
        } else {
            return false;
        };
        if let Some(RecvQueue::Open(open)) = self.queues.get_mut(index) {
            open.paid_bytes += due_bytes;
            open.shared_bytes += shared_bytes;
        }
        true
    }

    /// Takes `bytes` from the reserve, which only the block needed next may use.
    fn take_reserve(&mut self, block_id: u32, bytes: u64) -> bool {
        let is_entitled = block_id == self.next_needed && self.on_reserve.is_none_or(|id| id == block_id);
        let is_taken = is_entitled && self.reservation.take_reserve(bytes);
        if is_taken {
            self.on_reserve = Some(block_id);
        }
        is_taken
    }

    /// Returns the graph of a state: a cached one, or one owned by the block if only the reserve can pay.
    fn graph(&mut self, block_id: u32, state: State) -> Option<Arc<SegmentGraph>> {
        self.graphs.get(state, &mut self.reservation).or_else(|| {
            let is_paid = self.take_reserve(block_id, GRAPH_MEMORY_BYTES);
            is_paid.then(|| Arc::new(SegmentGraph::new(state)))
        })
    }

    fn refuse(&mut self) -> Result<bool, PushError> {
        self.symbols.refused += 1;
        Err(PushError::Dropped(Dropped::NoMemory))
    }

    fn complete(&mut self, index: usize) {
        let queue = std::mem::replace(&mut self.queues[index], RecvQueue::Empty);
        let (block, length_bytes, shared_bytes) = match queue {
            RecvQueue::Open(OpenBlock { decoder, length_bytes, shared_bytes, .. }) => {
                let mut block = decoder.into_source().unwrap_or_default();
                self.graphs.on_released();
                block.truncate(length_bytes as usize);
                (Some(block), length_bytes as usize, shared_bytes)
            }
            RecvQueue::Counting { length_bytes, .. } => (None, length_bytes as usize, 0),
            RecvQueue::Complete { block, length_bytes, shared_bytes } => (block, length_bytes, shared_bytes),
            RecvQueue::Empty => return,
        };
        // A decoded block needs less memory than its segments. The part paid from the reserve stays until the block is
        // read.
        let kept = shared_bytes.min(COMPLETE_MEMORY_BYTES);
        self.reservation.give_back(shared_bytes - kept);
        let block_id = self.first_id + index as u32;
        if kept == COMPLETE_MEMORY_BYTES && self.on_reserve == Some(block_id) {
            self.release_reserve();
        }
        self.queues[index] = RecvQueue::Complete { block, length_bytes, shared_bytes: kept };
        self.blocks_decoded += 1;
        while let Some(RecvQueue::Complete { .. }) = self.queues.get((self.next_needed - self.first_id) as usize) {
            self.next_needed += 1;
        }
    }

    fn release_reserve(&mut self) {
        self.on_reserve = None;
        self.reservation.release_reserve();
    }

    /// Queues the block's ACK, unless one was sent within [`ACK_SPACING`].
    fn acknowledge(&mut self, now: Time, block_id: u32) {
        while self.acked_at.front().is_some_and(|&(_, at)| now.since(at) >= ACK_SPACING) {
            self.acked_at.pop_front();
        }
        if self.acked_at.iter().any(|&(id, _)| id == block_id) {
            return;
        }
        if self.acked_at.len() >= limits::CLASSIC_WINDOW_BLOCKS_MAX as usize {
            self.acked_at.pop_front();
        }
        self.acked_at.push_back((block_id, now));
        // Beyond this limit no ACK has been sent for a long time. The peer's further segments will request it again.
        if self.acks.len() < limits::CLASSIC_WINDOW_BLOCKS_MAX as usize {
            self.acks.push_back(block_id);
        }
    }

    /// Returns the next block to acknowledge.
    pub(crate) fn next_ack(&mut self) -> Option<u32> {
        self.acks.pop_front()
    }

    /// Returns true if an ACK is queued.
    pub(crate) fn has_ack(&self) -> bool {
        !self.acks.is_empty()
    }

    pub(crate) fn set_end(&mut self, end: u32) -> Result<(), PeerMisbehaved> {
        if let Some(earlier) = self.end.filter(|&earlier| earlier != end) {
            return Err(PeerMisbehaved::InconsistentEnd { earlier, later: end });
        }
        let known = self.first_id + self.queues.len() as u32;
        if end < known {
            return Err(PeerMisbehaved::InconsistentEnd { earlier: end, later: known });
        }
        self.end = Some(end);
        Ok(())
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_some_and(|end| self.next_needed >= end)
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.is_finished() && self.queues.is_empty()
    }

    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.queues.front(), Some(RecvQueue::Complete { .. }))
    }

    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        let mut copied = 0;
        while copied < out.len() {
            let Some(RecvQueue::Complete { block, length_bytes, shared_bytes }) = self.queues.front() else { break };
            let take = (length_bytes - self.read_offset).min(out.len() - copied);
            let into = &mut out[copied..copied + take];
            match block {
                Some(block) => into.copy_from_slice(&block[self.read_offset..self.read_offset + take]),
                None => into.fill(0),
            }
            copied += take;
            self.read_offset += take;
            if self.read_offset == *length_bytes {
                self.reservation.give_back(*shared_bytes);
                if self.on_reserve == Some(self.first_id) {
                    self.release_reserve();
                }
                self.queues.pop_front();
                self.first_id += 1;
                self.read_offset = 0;
            }
        }
        self.bytes_read += copied as u64;
        copied
    }

    pub(crate) fn symbols(&self) -> ReceivedSymbols {
        self.symbols
    }

    pub(crate) fn blocks_decoded(&self) -> u64 {
        self.blocks_decoded
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}

#[cfg(test)]
mod tests;
