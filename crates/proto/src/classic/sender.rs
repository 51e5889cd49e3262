//! The classic profile's sender: the documents' schedules for Raptor-coded blocks (thesis §3.8).

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_fountain::raptor::{
    Encoder, GraphCache, OfflineEncoder, POOL_STATES, SEGMENT_BYTES, SOURCE_BYTES, State, StatePool,
};
use dfcp_time::Time;
use dfcp_wire::classic::BlockLength;

use crate::classic::open_loop::OpenLoop;
use crate::codec::Codec;
use crate::config::{Config, Schedule};
use crate::limits;
use crate::path::rtt::RttEstimator;
use crate::shared::source::{Cut, Source};

/// Time that an open loop waits for the acknowledgement of a block before it sends ε·k more bytes: this many RTTs, and
/// at least the minimum below. Segments sent in vain cost at most ε (`spec/protocol.md` \[classic-2\]).
const OPEN_LOOP_PATIENCE_RTTS: u32 = 3;
const OPEN_LOOP_PATIENCE_MIN: Duration = Duration::from_millis(20);

/// Tolerated reordering. An acknowledged block has overtaken another block if its last segment was sent later by RTT /
/// `OVERTAKEN_RTT_PARTS`, and at least by `OVERTAKEN_MIN`.
const OVERTAKEN_RTT_PARTS: u32 = 8;
const OVERTAKEN_MIN: Duration = Duration::from_millis(1);

/// Flooding a silent peer stops after this time (or 8 RTTs) without an acknowledgement, once the segments sent would
/// decode every open block at 75 % loss. Then one segment is sent per probe interval (`spec/protocol.md`
/// \[classic-7\]).
const SILENCE_MIN: Duration = Duration::from_secs(2);
const SILENCE_SEGMENTS_PER_BLOCK: u64 = 4 * 48;
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// One block in the window: a *send_queue* (thesis §3.8.1).
#[derive(Debug)]
struct SendQueue {
    /// `None` once acknowledged, and for offline encoding, which repeats the first block's encoding.
    encoder: Option<Encoder>,
    acknowledged: bool,
    length_bytes: u32,
    /// Number of segments sent, and so the index of the next segment's state.
    segments: u32,
    /// Number of segments to send before waiting, in the open loop.
    quota: u32,
    last_sent: Time,
}

/// The contents of a classic data segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassicSegment {
    pub(crate) block_id: u32,
    pub(crate) state: State,
    pub(crate) index: u32,
    /// The block's true length, if it is padded.
    pub(crate) block_length: Option<BlockLength>,
}

/// Returns true if a block is acknowledged. The block must have been in the window.
fn is_acknowledged(queues: &VecDeque<SendQueue>, first_id: u32, id: u32) -> bool {
    id < first_id || queues.get((id - first_id) as usize).is_some_and(|queue| queue.acknowledged)
}

/// Time that an open loop waits for an acknowledgement.
fn patience(rtt: &RttEstimator) -> Duration {
    OPEN_LOOP_PATIENCE_MIN.max(rtt.smoothed() * OPEN_LOOP_PATIENCE_RTTS)
}

/// Returns the margin for [`OpenLoop::overtaken`].
fn overtaken_margin(rtt: &RttEstimator) -> Duration {
    OVERTAKEN_MIN.max(rtt.smoothed() / OVERTAKEN_RTT_PARTS)
}

/// Error: an acknowledgement of a block that was never sent (\[classic-6\]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

#[derive(Debug)]
pub(crate) struct ClassicSender {
    initial: State,
    pool: StatePool,
    graphs: GraphCache,
    schedule: Schedule,
    coding: bool,
    /// Floods even a silent peer.
    endless: bool,
    codec: &'static dyn Codec,
    offline: Option<OfflineEncoder>,
    window_blocks: u32,
    send_buffer_bytes: u64,
    source: Source,
    queues: VecDeque<SendQueue>,
    first_id: u32,
    /// Used by the open-loop schedule only.
    open_loop: OpenLoop,
    /// Round robin: id of the block to serve next.
    turn: u32,
    /// Number of unacknowledged blocks in the window.
    open_blocks: u64,
    /// Bytes of these blocks.
    open_bytes: u64,
    last_acknowledged: Time,
    /// Segments sent since `last_acknowledged`.
    segments_unanswered: u64,
    last_sent: Time,
    acknowledged_bytes: u64,
    acknowledged_blocks: u64,
    segments_sent: u64,
}

impl ClassicSender {
    pub(crate) fn new(config: &Config, initial: State) -> Self {
        Self {
            initial,
            pool: StatePool::new(initial),
            graphs: GraphCache::new(limits::CLASSIC_GRAPHS_MAX.min(POOL_STATES)),
            schedule: config.schedule,
            coding: config.classic.coding,
            endless: config.classic.endless,
            codec: config.codec,
            offline: None,
            window_blocks: config.blocks_in_window(),
            send_buffer_bytes: config.send_buffer_bytes,
            source: Source::new(SOURCE_BYTES, false, config.codec),
            queues: VecDeque::new(),
            first_id: 0,
            open_loop: OpenLoop::default(),
            turn: 0,
            open_blocks: 0,
            open_bytes: 0,
            last_acknowledged: Time::ZERO,
            segments_unanswered: 0,
            last_sent: Time::ZERO,
            acknowledged_bytes: 0,
            acknowledged_blocks: 0,
            segments_sent: 0,
        }
    }

    pub(crate) fn establish(&mut self, now: Time) {
        self.last_acknowledged = now;
    }

    pub(crate) fn write(&mut self, now: Time, data: &[u8]) -> usize {
        self.source.write(now, data, self.space_bytes(), SOURCE_BYTES)
    }

    /// Bytes that the application has written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.source.written_bytes()
    }

    pub(crate) fn space_bytes(&self) -> u64 {
        self.send_buffer_bytes.saturating_sub(self.open_bytes + self.source.waiting_bytes())
    }

    pub(crate) fn flush(&mut self) {
        self.source.flush();
    }

    pub(crate) fn shut_down(&mut self) {
        self.source.shut_down();
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.source.is_shut_down()
    }

    pub(crate) fn end(&self) -> Option<u32> {
        self.source.is_finished().then(|| self.next_id())
    }

    /// Returns true if data waits forever: every block id has been used, and all blocks have been delivered.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.queues.is_empty() && self.source.waiting_bytes() > 0 && self.next_id() == u32::MAX
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.queues.is_empty() && self.source.waiting_bytes() == 0
    }

    pub(crate) fn set_coding(&mut self, coding: bool) {
        self.coding = coding;
    }

    pub(crate) fn set_window_blocks(&mut self, window_blocks: u32) {
        self.window_blocks = window_blocks;
    }

    fn next_id(&self) -> u32 {
        self.first_id + self.queues.len() as u32
    }

    /// Segments of the open loop's first turn: (1 + ε)·k bytes, with k = 63 536 bytes.
    fn quota(redundancy: f64) -> u32 {
        ((1.0 + redundancy) * SOURCE_BYTES as f64 / SEGMENT_BYTES as f64).ceil() as u32
    }

    /// Fills empty send queues with blocks of data written by the application.
    fn fill(&mut self, now: Time) {
        while (self.queues.len() as u32) < self.window_blocks && self.next_id() < u32::MAX {
            let Some(Cut { laid, data_bytes, .. }) = self.source.take_block(now) else { return };
            if self.queues.is_empty() {
                // No acknowledgement was awaited until now.
                self.last_acknowledged = now;
                self.segments_unanswered = 0;
            }
            let block_id = self.next_id();
            let coded = self.coding || self.offline.is_none();
            let encoder = coded.then(|| self.codec.classic_encoder(self.initial, block_id, &laid)).flatten();
            if !self.coding
                && let Some(first) = &encoder
            {
                self.offline =
                    OfflineEncoder::record(first, &self.pool, 2 * limits::CLASSIC_SEGMENTS_PER_BLOCK_MAX).ok();
            }
            let quota = match self.schedule {
                Schedule::OpenLoop { redundancy } => Self::quota(redundancy),
                Schedule::Flood | Schedule::Adaptive => u32::MAX,
            };
            self.open_blocks += 1;
            self.open_bytes += data_bytes as u64;
            let length_bytes = data_bytes as u32;
            let encoder = encoder.filter(|_| self.coding);
            self.queues.push_back(SendQueue {
                encoder,
                acknowledged: false,
                length_bytes,
                segments: 0,
                quota,
                last_sent: Time::ZERO,
            });
        }
    }

    /// Returns the segment to send next at `now`, regardless of the rate.
    pub(crate) fn next_segment(&mut self, now: Time, rtt: &RttEstimator) -> Option<ClassicSegment> {
        self.fill(now);
        if self.is_silent(now, rtt) && now < self.last_sent + PROBE_INTERVAL {
            return None;
        }
        let id = match self.schedule {
            Schedule::Flood | Schedule::Adaptive => self.next_round_robin(),
            Schedule::OpenLoop { redundancy } => self.next_open_loop(now, rtt, redundancy),
        }?;
        let queue = self.queues.get((id - self.first_id) as usize)?;
        let is_short = queue.length_bytes < SOURCE_BYTES as u32;
        let index = queue.segments;
        let state = match &self.offline {
            Some(offline) if !self.coding => offline.segment(index).0,
            _ => self.pool.state(index, id),
        };
        let block_length = BlockLength::new(queue.length_bytes).filter(|_| is_short);
        Some(ClassicSegment { block_id: id, state, index, block_length })
    }

    /// Returns true if acknowledgements have been missing for so long that flooding must stop.
    fn is_silent(&self, now: Time, rtt: &RttEstimator) -> bool {
        if self.endless {
            return false;
        }
        let is_late = now.since(self.last_acknowledged) > SILENCE_MIN.max(rtt.smoothed() * 8);
        is_late && !self.queues.is_empty() && self.segments_unanswered > SILENCE_SEGMENTS_PER_BLOCK * self.open_blocks
    }

    pub(crate) fn open_blocks(&self) -> usize {
        self.open_blocks as usize
    }

    /// Returns the block that a flood serves next (\[classic-1\]).
    fn next_round_robin(&self) -> Option<u32> {
        let count = self.queues.len() as u32;
        let start = self.turn.wrapping_sub(self.first_id);
        let start = if start < count { start } else { 0 };
        (0..count)
            .map(|i| (start + i) % count)
            .find(|&i| !self.queues[i as usize].acknowledged)
            .map(|i| self.first_id + i)
    }

    fn next_open_loop(&mut self, now: Time, rtt: &RttEstimator, redundancy: f64) -> Option<u32> {
        if let Some(id) = self.open_loop.again() {
            return Some(id);
        }
        let (queues, first_id) = (&mut self.queues, self.first_id);
        let end = first_id + queues.len() as u32;
        let last_sent = |id: u32| {
            let queue = queues.get(id.checked_sub(first_id)? as usize)?;
            (!queue.acknowledged).then_some(queue.last_sent)
        };
        let id = match self.open_loop.overtaken(overtaken_margin(rtt), last_sent) {
            Some(id) => id,
            None => match self.open_loop.fresh(end, |id| is_acknowledged(queues, first_id, id)) {
                Some(id) => return Some(id),
                None => self.open_loop.repeat(now, patience(rtt), last_sent)?,
            },
        };
        let more = (redundancy * SOURCE_BYTES as f64 / SEGMENT_BYTES as f64).ceil().max(1.0) as u32;
        let queue = queues.get_mut((id - first_id) as usize)?;
        queue.quota = queue.quota.saturating_add(more);
        Some(id)
    }

    /// Returns the earliest sending time among the last segments of unacknowledged blocks.
    fn oldest_sent(&self) -> Option<Time> {
        let open = self.queues.iter().filter(|queue| !queue.acknowledged);
        self.open_loop.oldest_waiting(self.next_id()).or_else(|| open.map(|queue| queue.last_sent).min())
    }

    /// Returns the earliest time after `asked`, when this sender was last asked for a segment, at which the passing of time
    /// alone may make it send.
    pub(crate) fn next_timeout(&self, now: Time, asked: Time, rtt: &RttEstimator) -> Option<Time> {
        let room = (self.queues.len() as u32) < self.window_blocks;
        let cut = self.source.cut_at().filter(|_| room);
        let probe = (self.is_silent(now, rtt)).then_some(self.last_sent + PROBE_INTERVAL);
        let is_open_loop = matches!(self.schedule, Schedule::OpenLoop { .. });
        let more = is_open_loop.then(|| self.oldest_sent()).flatten().map(|at| at + patience(rtt));
        cut.into_iter().chain(probe).chain(more).filter(|&at| at > asked).min()
    }

    pub(crate) fn write_segment(&mut self, segment: ClassicSegment, out: &mut [u8]) -> bool {
        if !self.coding
            && let Some(offline) = &self.offline
        {
            out.copy_from_slice(offline.segment(segment.index).1);
            return true;
        }
        let graph = self.graphs.get(segment.state);
        let index = (segment.block_id - self.first_id) as usize;
        let encoder = self.queues.get(index).and_then(|queue| queue.encoder.as_ref());
        encoder.is_some_and(|encoder| encoder.write_segment(&graph, out).is_ok())
    }

    pub(crate) fn on_sent(&mut self, now: Time, segment: ClassicSegment) {
        let index = (segment.block_id - self.first_id) as usize;
        if let Some(queue) = self.queues.get_mut(index) {
            queue.segments += 1;
            queue.last_sent = now;
            if queue.segments == queue.quota {
                self.open_loop.on_turn_over(now, segment.block_id);
            }
        }
        self.turn = segment.block_id + 1;
        self.last_sent = now;
        self.segments_sent += 1;
        self.segments_unanswered += 1;
    }

    /// Processes an acknowledgement of `block_id`. Returns an RTT sample if the block shows one: in an open loop, after
    /// its first turn only.
    pub(crate) fn on_ack(&mut self, now: Time, block_id: u32) -> Result<Option<Duration>, NeverSent> {
        if block_id >= self.next_id() {
            return Err(NeverSent);
        }
        let Some(index) = block_id.checked_sub(self.first_id) else { return Ok(None) };
        let queue = self.queues.get_mut(index as usize).filter(|queue| !queue.acknowledged);
        let Some(queue) = queue else { return Ok(None) };
        let first_turn_over = match self.schedule {
            Schedule::OpenLoop { redundancy } if queue.segments == Self::quota(redundancy) => Some(queue.last_sent),
            _ => None,
        };
        self.last_acknowledged = now;
        self.segments_unanswered = 0;
        queue.acknowledged = true;
        queue.encoder = None;
        self.open_blocks -= 1;
        self.open_bytes -= u64::from(queue.length_bytes);
        self.acknowledged_bytes += u64::from(queue.length_bytes);
        self.acknowledged_blocks += 1;
        let (queues, first_id) = (&self.queues, self.first_id);
        self.open_loop.on_acknowledged(block_id, first_turn_over, |id| is_acknowledged(queues, first_id, id));
        while self.queues.front().is_some_and(|queue| queue.acknowledged) {
            self.queues.pop_front();
            self.first_id += 1;
        }
        Ok(first_turn_over.map(|over| now.since(over)))
    }

    pub(crate) fn segments_sent(&self) -> u64 {
        self.segments_sent
    }

    pub(crate) fn acknowledged_bytes(&self) -> u64 {
        self.acknowledged_bytes
    }

    pub(crate) fn acknowledged_blocks(&self) -> u64 {
        self.acknowledged_blocks
    }
}

#[cfg(test)]
mod tests;
