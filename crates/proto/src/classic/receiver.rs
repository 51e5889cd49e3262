//! The classic profile's receiver: *recv_queues* and the decode threshold (thesis §3.9, §3.10).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dfcp_fountain::raptor::{CountingDecoder, Decoder, GraphCache, SEGMENT_BYTES, SOURCE_BYTES, SegmentGraph, State};
use dfcp_time::Time;
use dfcp_wire::classic::{BlockLength, StateWords};

use crate::config::{Config, Content};
use crate::error::{Dropped, PeerMisbehaved};
use crate::limits;
use crate::shared::PushError;
use crate::shared::memory::MemoryReservation;
use crate::stats::ReceivedSymbols;

/// A lost ACK is repeated when further segments of its block arrive, at most this often per block: the thesis sends
/// one for every such segment, which on a long path would be thousands (`spec/protocol.md` \[classic-5\]).
const ACK_SPACING: Duration = Duration::from_millis(10);

/// What a segment of an open block takes: its bytes, and the graph of its neighbours, which may be shared with other
/// blocks but is counted as if it were not: a peer can see to it.
const SEGMENT_MEMORY_BYTES: u64 = 26 << 10;

/// What a block takes besides from the first attempt to decode it, if that has failed: the equations.
const EQUATIONS_MEMORY_BYTES: u64 = (1 << 20) + limits::CLASSIC_SEGMENTS_PER_BLOCK_MAX as u64 * (12 << 10);

/// What a decoded block takes.
const COMPLETE_MEMORY_BYTES: u64 = SOURCE_BYTES as u64 + 64;

/// What a cached graph takes.
const GRAPH_MEMORY_BYTES: u64 = 24 << 10;

/// Segments beyond the decode threshold with which the reserve lets a block be decoded: ε was never above 5 %.
const RESERVE_SEGMENTS: u64 = 16;

/// What any one block needs.
pub(crate) fn reserve_bytes(config: &Config) -> u64 {
    let segments = u64::from(config.classic.redundancy_bytes).div_ceil(SEGMENT_BYTES as u64) + RESERVE_SEGMENTS;
    segments * SEGMENT_MEMORY_BYTES + EQUATIONS_MEMORY_BYTES
}

#[derive(Debug)]
enum RecvQueue {
    Empty,
    /// `shared_bytes` is what the reservation has paid out of the shared part, `has_equations` whether also for these.
    Open {
        decoder: Box<Decoder>,
        length_bytes: u32,
        shared_bytes: u64,
        has_equations: bool,
    },
    Counting {
        counter: CountingDecoder,
        length_bytes: u32,
    },
    /// No block if its bytes were only counted: zeros are read then (\[classic-9\]).
    Complete {
        block: Option<Vec<u8>>,
        length_bytes: usize,
        shared_bytes: u64,
    },
}

/// Whether an open block takes more segments at all.
fn has_room(decoder: &Decoder) -> bool {
    decoder.received_bytes() < limits::CLASSIC_SEGMENTS_PER_BLOCK_MAX * SEGMENT_BYTES
}

#[derive(Debug)]
pub(crate) struct ClassicReceiver {
    peer_initial: State,
    graphs: GraphCache,
    /// Pays for what blocks take.
    reservation: MemoryReservation,
    /// The block which the reservation's reserve pays for.
    on_reserve: Option<u32>,
    redundancy_bytes: u32,
    decoding: bool,
    content: Content,
    window_blocks: u32,
    queues: VecDeque<RecvQueue>,
    /// The block of `queues[0]`: the oldest not wholly read.
    first_id: u32,
    next_needed: u32,
    read_offset: usize,
    end: Option<u32>,
    /// Blocks whose ACK is to be sent.
    acks: VecDeque<u32>,
    /// Recently acknowledged blocks and when.
    acked_at: VecDeque<(u32, Time)>,
    symbols: ReceivedSymbols,
    blocks_decoded: u64,
    bytes_read: u64,
}

impl ClassicReceiver {
    pub(crate) fn new(config: &Config, peer_initial: State) -> Self {
        Self {
            peer_initial,
            graphs: GraphCache::new(limits::CLASSIC_GRAPHS_MAX),
            reservation: MemoryReservation::default(),
            on_reserve: None,
            redundancy_bytes: config.classic.redundancy_bytes,
            decoding: config.classic.decoding && config.content == Content::Real,
            content: config.content,
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

    /// From now on, `reservation` pays for blocks.
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

    /// Takes in a data segment (thesis fig. 3.14). `Ok(true)` means that its block, whichever one of the window it is, is
    /// decoded now (\[classic-10\]).
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

    /// Bytes of a data segment's payload.
    fn payload_bytes(&self) -> usize {
        if self.content == Content::Elided { 0 } else { SEGMENT_BYTES }
    }

    /// Associates an empty recv_queue with the block if it has none.
    fn associate(&mut self, index: usize, block_id: u32, length_bytes: u32) {
        while self.queues.len() <= index {
            self.queues.push_back(RecvQueue::Empty);
        }
        if matches!(self.queues[index], RecvQueue::Empty) {
            self.queues[index] = if self.decoding {
                RecvQueue::Open {
                    decoder: Box::new(Decoder::new(self.peer_initial, block_id)),
                    length_bytes,
                    shared_bytes: 0,
                    has_equations: false,
                }
            } else {
                RecvQueue::Counting { counter: CountingDecoder::new(self.redundancy_bytes as usize), length_bytes }
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
            RecvQueue::Counting { length_bytes, .. } | RecvQueue::Open { length_bytes, .. }
                if *length_bytes != announced_bytes =>
            {
                Err(inconsistent)
            }
            RecvQueue::Counting { counter, .. } => {
                self.symbols.useful += 1;
                Ok(counter.push(SEGMENT_BYTES))
            }
            RecvQueue::Open { decoder, .. } if !has_room(decoder) => self.refuse(),
            RecvQueue::Open { .. } => self.collect_segment(index, block_id, state, payload),
        }
    }

    /// Stores a segment of an open block, and decodes if there are enough and memory for it (\[classic-3\]).
    fn collect_segment(
        &mut self,
        index: usize,
        block_id: u32,
        state: State,
        payload: &[u8],
    ) -> Result<bool, PushError> {
        let Some(shared) = self.pay(block_id, SEGMENT_MEMORY_BYTES) else { return self.refuse() };
        let graph = self.graph(state);
        let Some(RecvQueue::Open { decoder, shared_bytes, .. }) = self.queues.get_mut(index) else { return Ok(false) };
        let fresh = decoder
            .push(graph, payload)
            .map_err(|_| PushError::Misbehaved(PeerMisbehaved::InconsistentBlock { block_id }))?;
        if !fresh {
            self.reservation.give_back(shared);
            self.reservation.give_back_reserve(SEGMENT_MEMORY_BYTES - shared);
            self.symbols.duplicate += 1;
            return Ok(false);
        }
        *shared_bytes += shared;
        self.symbols.useful += 1;
        let enough = decoder.received_bytes() >= self.redundancy_bytes as usize;
        Ok(enough && self.decode(index, block_id))
    }

    /// Tries to decode a block; `false` also if there is no memory for it, until its next segment.
    fn decode(&mut self, index: usize, block_id: u32) -> bool {
        let has = matches!(self.queues.get(index), Some(RecvQueue::Open { has_equations: true, .. }));
        let paid = if has { Some(0) } else { self.pay(block_id, EQUATIONS_MEMORY_BYTES) };
        let (Some(paid), Some(RecvQueue::Open { decoder, shared_bytes, has_equations, .. })) =
            (paid, self.queues.get_mut(index))
        else {
            return false;
        };
        *shared_bytes += paid;
        *has_equations = true;
        decoder.decode()
    }

    /// Pays for what a block takes: out of what is shared, the returned bytes, or (0) out of the reserve, which is there for
    /// the block needed next alone.
    fn pay(&mut self, block_id: u32, bytes: u64) -> Option<u64> {
        if self.reservation.take(bytes) {
            return Some(bytes);
        }
        let entitled = block_id == self.next_needed && self.on_reserve.is_none_or(|id| id == block_id);
        if !entitled || !self.reservation.take_reserve(bytes) {
            return None;
        }
        self.on_reserve = Some(block_id);
        Some(0)
    }

    /// The graph of a state. The cache is paid for as it grows; when that fails, it begins anew.
    fn graph(&mut self, state: State) -> Arc<SegmentGraph> {
        let before = self.graphs.len();
        let graph = self.graphs.get(state);
        if self.graphs.len() > before && !self.reservation.take(GRAPH_MEMORY_BYTES) {
            self.reservation.give_back(before as u64 * GRAPH_MEMORY_BYTES);
            self.graphs = GraphCache::new(limits::CLASSIC_GRAPHS_MAX);
        }
        graph
    }

    fn refuse(&mut self) -> Result<bool, PushError> {
        self.symbols.refused += 1;
        Err(PushError::Dropped(Dropped::NoMemory))
    }

    fn complete(&mut self, index: usize) {
        let queue = std::mem::replace(&mut self.queues[index], RecvQueue::Empty);
        let (block, length_bytes, shared_bytes) = match queue {
            RecvQueue::Open { decoder, length_bytes, shared_bytes, .. } => {
                let mut block = decoder.into_source().unwrap_or_default();
                block.truncate(length_bytes as usize);
                (Some(block), length_bytes as usize, shared_bytes)
            }
            RecvQueue::Counting { length_bytes, .. } => (None, length_bytes as usize, 0),
            RecvQueue::Complete { block, length_bytes, shared_bytes } => (block, length_bytes, shared_bytes),
            RecvQueue::Empty => return,
        };
        // What a decoded block takes is less than its segments did; where the reserve has paid, that stays until it is read.
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

    /// Queues the block's ACK unless it was sent a moment ago.
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
        // Past this many nobody has taken them for long; the peer asks again.
        if self.acks.len() < limits::CLASSIC_WINDOW_BLOCKS_MAX as usize {
            self.acks.push_back(block_id);
        }
    }

    /// The next block to acknowledge.
    pub(crate) fn next_ack(&mut self) -> Option<u32> {
        self.acks.pop_front()
    }

    /// Whether an ACK waits.
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
