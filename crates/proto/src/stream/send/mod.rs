//! The sending half of a stream: written data until the peer has it, sent by the `Adaptive` schedule
//! (`spec/protocol.md` §5).
//!
//! Every datagram has a number, and reports name the highest number seen, so each symbol of a block is either in flight
//! or of known fate. When the fate of all sent symbols of a block is known and the block still lacks some, another
//! round of symbols is sent, oldest block first. Otherwise new blocks are sent. Proactive repair is sent when there is
//! nothing else to send.

pub(crate) mod active_blocks;
pub(crate) mod block;
pub(crate) mod counters;
pub(crate) mod ending;
pub(crate) mod feedback;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod proofs;
pub(crate) mod repair_targets;
pub(crate) mod repairs;
pub(crate) mod shared;
pub(crate) mod symbol;
pub(crate) mod write_turns;
mod writing;

use std::collections::VecDeque;

use dfcp_fountain::random_linear::{BlockShape, Encoder};
use dfcp_time::Time;
use dfcp_wire::{BlockInfo, Fragment, StreamId};

use crate::config::Traffic;
use crate::limits;
use crate::path::credit::Spending;
use crate::path::flight::Flight;
use crate::path::loss::LossEstimator;
use crate::path::rtt::RttEstimator;
use crate::proof::Layout;
use crate::shared::source::{Cut, Source};
use crate::stats::{SentSymbols, StreamStats};
use crate::stream::send::active_blocks::ActiveBlocks;
use crate::stream::send::block::SendBlock;
use crate::stream::send::ending::Ending;
use crate::stream::send::plan::Purpose;
use crate::stream::send::proofs::Proofs;
use crate::stream::send::repairs::Repairs;
use crate::stream::send::shared::{SendShared, block_cost};
use crate::stream::send::symbol::{CodeError, Reason, Symbol};
use crate::stream::send::write_turns::WriteTurn;

/// Symbols per block of [`Traffic::LowLatency`] streams: enough for a web object, so that one repair margin covers all
/// of it.
const LOW_LATENCY_BLOCK_SYMBOLS: usize = 128;

/// Least number of blocks in a window: a block takes at most a quarter, so that a small window also has several blocks
/// in flight.
const BLOCKS_PER_WINDOW_MIN: u64 = 4;

/// Rounds after which a block counts as a straggler, which gets proactive repair also while data wait for the window.
const STRAGGLER_ROUNDS: u32 = 3;

/// State of the session, for a stream that chooses a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendContext<'a> {
    pub(crate) now: Time,
    pub(crate) flight: &'a Flight,
    pub(crate) rtt: &'a RttEstimator,
    /// Credit state of the session.
    pub(crate) spending: Spending,
}

/// Deadlines of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Time at which a partial block is cut.
    pub(crate) cut: Option<Time>,
    /// Time at which the peer is asked for a report.
    pub(crate) ask: Option<Time>,
    /// Time at which the stream's end is announced, or announced again.
    pub(crate) end: Option<Time>,
}

/// Membership of a stream in its session's lists. A stream is in each list once at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lists {
    /// Streams with deadlines; the deadlines under which this stream is listed.
    pub(crate) timed: Due,
    /// Streams whose application has more data than it could write.
    pub(crate) writers: bool,
    /// Streams with blocks, ordered by the number of the oldest block ([`SendShared::oldest`]).
    pub(crate) oldest: Option<u64>,
    /// Streams that wait for a report.
    pub(crate) waiting: bool,
    /// Streams with symbols that the current report has passed by.
    pub(crate) passed: bool,
}

/// The sending half of one stream.
#[derive(Debug)]
pub(crate) struct SendStream {
    id: StreamId,
    traffic: Traffic,
    /// True if the application could not write all of its data.
    more_to_come: bool,
    /// True until the application is notified that there is room.
    write_blocked: bool,
    /// Turn for writing, while the session's write allowance is limited.
    write_turn: WriteTurn,
    source: Source,
    proofs: Proofs,
    repairs: Repairs,
    /// Open blocks, and acknowledged blocks behind an open one. The first block has id `first_id`.
    blocks: VecDeque<SendBlock>,
    first_id: u32,
    /// Blocks whose current round has symbols to send.
    active: ActiveBlocks,
    /// Bytes of unacknowledged blocks.
    open_bytes: u64,
    /// Bytes in flow control of all blocks cut so far.
    cut_cost_bytes: u64,
    /// Bytes in flow control of the blocks that the peer has read.
    read_cost_bytes: u64,
    blocks_read: u32,
    /// Blocks before this index have all the proactive repair that they need.
    proactive_from: usize,
    /// Time at which the stream requests a report from the peer. Set when a report covers datagrams with symbols of this
    /// stream, but has no record of the stream.
    ask_at: Option<Time>,
    /// The session's lists that contain this stream.
    pub(crate) listed_in: Lists,
    /// Source symbols of the acknowledged blocks.
    acknowledged_symbols: u64,
    acknowledged_bytes: u64,
    acknowledged_blocks: u32,
    /// First transmissions of source symbols.
    sent_source: u64,
    /// Other symbols sent. `None` before the first one.
    sent_others: Option<Box<SentSymbols>>,
    ending: Ending,
}

impl SendStream {
    pub(crate) fn new(id: StreamId, traffic: Traffic, shared: &SendShared) -> Self {
        let proofs = Proofs::new(shared.secrets.is_some());
        let mut source = Source::new(shared.packet_symbol_size(), proofs.are_on(), shared.codec);
        source.take_from(shared.spare.clone());
        Self {
            id,
            traffic,
            more_to_come: false,
            write_blocked: false,
            write_turn: WriteTurn::default(),
            source,
            proofs,
            repairs: Repairs::default(),
            blocks: VecDeque::new(),
            first_id: 0,
            active: ActiveBlocks::default(),
            open_bytes: 0,
            cut_cost_bytes: 0,
            read_cost_bytes: 0,
            blocks_read: 0,
            proactive_from: 0,
            ask_at: None,
            listed_in: Lists::default(),
            acknowledged_symbols: 0,
            acknowledged_bytes: 0,
            acknowledged_blocks: 0,
            sent_source: 0,
            sent_others: None,
            ending: Ending::default(),
        }
    }

    /// Cuts waiting data anew, after a change of the packet size, the symbol size or the window.
    pub(crate) fn recut(&mut self, now: Time, flight: &Flight, shared: &SendShared) {
        self.source.recut(now, shared.packet_symbol_size(), self.block_bytes(flight, shared));
    }

    /// Uses the session's memory pool for blocks.
    pub(crate) fn take_from_shared(&mut self, shared: &SendShared) {
        self.source.take_from(shared.spare.clone());
    }

    pub(crate) fn set_traffic(&mut self, traffic: Traffic) {
        self.traffic = traffic;
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.source.is_shut_down()
    }

    /// Returns the id behind the stream's last block, once that is known.
    pub(crate) fn end(&self) -> Option<u32> {
        self.source.is_finished().then(|| self.next_id())
    }

    /// Returns true if data wait, no block is in flight that a report could acknowledge, and the window is closed.
    pub(crate) fn is_stuck(&self, shared: &SendShared) -> bool {
        self.blocks.is_empty() && self.source.next_bytes() > 0 && !self.may_begin_block(shared) && !self.is_exhausted()
    }

    /// Returns true if data will wait for ever: every block id has been used, and all blocks have been delivered.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.blocks.is_empty() && self.source.waiting_bytes() > 0 && self.next_id() == u32::MAX
    }

    /// Returns true for the session's first stream, whose end is the end of the session.
    fn is_first(&self) -> bool {
        self.id == StreamId::FIRST
    }

    /// Returns true if no block has been acknowledged or read; always false for the first stream.
    pub(crate) fn is_unheard(&self) -> bool {
        self.first_id == 0 && !self.is_first()
    }

    /// Returns true if the stream was reset.
    pub(crate) fn is_reset(&self) -> bool {
        self.ending.is_reset()
    }

    /// Returns the time to announce the stream's end, or to repeat the announcement.
    pub(crate) fn ending_at(&self) -> Option<Time> {
        self.ending.due_at()
    }

    /// Returns the figures of the stream's sending direction.
    pub(crate) fn stats(&self) -> StreamStats {
        StreamStats {
            bytes_written: self.source.written_bytes(),
            bytes_acknowledged: self.acknowledged_bytes,
            blocks_acknowledged: self.acknowledged_blocks.into(),
            sent: SentSymbols { source: self.sent_source, ..self.sent_others.as_deref().copied().unwrap_or_default() },
            ..StreamStats::default()
        }
    }

    /// Returns true if everything written so far has been acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.blocks.is_empty() && self.source.waiting_bytes() == 0
    }

    fn next_id(&self) -> u32 {
        self.first_id + self.blocks.len() as u32
    }

    // ---- sending ----

    /// Returns a symbol of an unfinished round, or the first symbol of a new block.
    ///
    /// # Errors
    /// A block was cut and cannot be coded; its bytes are lost.
    pub(crate) fn round_symbol(
        &mut self,
        shared: &mut SendShared,
        context: &SendContext<'_>,
    ) -> Result<Option<Symbol>, CodeError> {
        if let Some(symbol) = self.due_symbol(context) {
            return Ok(Some(symbol));
        }
        let may_begin = !context.spending.is_for_oldest_block() || self.blocks.is_empty();
        let has_begun = may_begin && self.open_block(shared, context)?;
        Ok(if has_begun { self.due_symbol(context) } else { None })
    }

    /// Returns the time at which a partial block is cut by timeout.
    pub(crate) fn cut_at(&self, shared: &SendShared) -> Option<Time> {
        // The test with one byte is precise enough: a needless wake-up is harmless.
        self.source.cut_at().filter(|_| self.window_is_open(1, shared))
    }

    /// Returns true if no block is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns true if data wait, or rounds are unfinished.
    pub(crate) fn has_data_to_send(&self) -> bool {
        self.source.waiting_bytes() > 0 || self.active.iter().next().is_some()
    }

    fn due_symbol(&self, context: &SendContext<'_>) -> Option<Symbol> {
        let is_paid_for = |id: u32| !context.spending.is_for_oldest_block() || id == self.first_id;
        self.active.iter().filter(|&id| is_paid_for(id)).find_map(|id| {
            let block = self.get(id).filter(|block| !is_held_back(block, context))?;
            self.symbol(block, id, Reason::Round)
        })
    }

    /// Returns the next symbol of a block; `None` if the block is complete at the peer.
    fn symbol(&self, block: &SendBlock, id: u32, reason: Reason) -> Option<Symbol> {
        if !block.is_open() {
            return None;
        }
        let info = BlockInfo {
            k: block.k() as u16,
            length_bytes: block.length_bytes() as u32,
            end_of_stream: block.end_of_stream,
        };
        let symbol_size = block.layout.symbol_size();
        let (stream, esi, fragment) = (self.id, block.next_esi, Fragment::WHOLE);
        Some(Symbol { stream, block_id: id, esi, info, reason, fragment, symbol_size })
    }

    /// Returns the bytes in flow control of the blocks that the peer's application has not read.
    fn held_bytes(&self) -> u64 {
        self.cut_cost_bytes - self.read_cost_bytes
    }

    /// Returns the part of `held_bytes` that counts against the peer's shared memory, beyond the stream's own place.
    fn shared_held_bytes(held_bytes: u64, shared: &SendShared) -> u64 {
        held_bytes.saturating_sub(shared.own_place_bytes())
    }

    /// Returns true if the window has room for another block of `bytes` (\[window-1\]).
    pub(crate) fn window_is_open(&self, bytes: u64, shared: &SendShared) -> bool {
        let blocks = self.next_id() - self.blocks_read;
        if blocks >= shared.window_blocks.min(shared.peer_window_blocks) || self.next_id() == u32::MAX {
            return false;
        }
        let held = self.held_bytes();
        let before = Self::shared_held_bytes(held, shared);
        let after = Self::shared_held_bytes(held + block_cost(bytes), shared);
        // A block that fits into the stream's own place needs no room in the shared memory.
        after == before || shared.peer_memory.has_room(before, after - before)
    }

    /// Returns true if the next block fits into the window, possibly cut down to one symbol.
    pub(crate) fn may_begin_block(&self, shared: &SendShared) -> bool {
        let next = self.source.next_bytes();
        self.window_is_open(next as u64, shared) || (self.held_bytes() == 0 && self.window_is_open(1, shared))
    }

    /// Cuts the next block from the written data. Returns true on success, false without data or room in the window.
    fn open_block(&mut self, shared: &mut SendShared, context: &SendContext<'_>) -> Result<bool, CodeError> {
        let Some(bytes) = self.source.next_block_bytes(context.now) else {
            shared.hold_up.is_new |= self.is_short_of_buffer(context.flight, shared);
            return Ok(false);
        };
        let cut = if self.window_is_open(bytes as u64, shared) {
            self.source.take_block(context.now)
        } else if self.held_bytes() == 0 && self.window_is_open(1, shared) {
            // Other streams hold the shared memory; the stream's own place takes one symbol ([window-2]).
            self.source.take_symbol(context.now)
        } else {
            shared.hold_up.is_new = true;
            None
        };
        let Some(Cut { laid, data_bytes, end_of_stream }) = cut else { return Ok(false) };
        let shape = BlockShape::for_length(data_bytes, shared.packet_symbol_size()).map_err(|_| CodeError)?;
        let layout = Layout::new(shape, self.proofs.are_on());
        let encoder = self.encoder(shared, layout, laid)?;
        let mut block = SendBlock::new(encoder, layout, end_of_stream, shared.blocks_begun);
        shared.blocks_begun += 1;
        let parts = shared.parts_of(layout.symbol_size());
        block.target = block.round_size(self.round_purpose(shared), 0, context.flight.loss(), parts);
        block.round = 1;
        self.open_bytes += data_bytes as u64;
        self.change_held(shared, |it| it.cut_cost_bytes += block_cost(data_bytes as u64));
        self.active.insert(self.next_id());
        if self.blocks.capacity() == 0 {
            // Many streams never have more than one block in flight.
            self.blocks.reserve_exact(1);
        }
        self.blocks.push_back(block);
        self.list_oldest(shared);
        shared.blocks_open += 1;
        shared.hold_up.blocks += 1;
        if end_of_stream {
            self.ending.on_last_block();
        }
        Ok(true)
    }

    /// Applies `change` to the held bytes, and updates the session's sum.
    fn change_held(&mut self, shared: &mut SendShared, change: impl FnOnce(&mut Self)) {
        shared.peer_memory.held_bytes -= Self::shared_held_bytes(self.held_bytes(), shared);
        change(self);
        shared.peer_memory.held_bytes += Self::shared_held_bytes(self.held_bytes(), shared);
    }

    /// Creates the encoder of a block, with secrets in its rows.
    fn encoder(
        &mut self,
        shared: &mut SendShared,
        layout: Layout,
        laid: Vec<u8>,
    ) -> Result<Option<Encoder<Vec<u8>>>, CodeError> {
        let mut rows = layout.lay_out(laid, shared.packet_symbol_size());
        self.proofs.seal(shared.secrets.as_mut(), layout, &mut rows);
        let coded = layout.coded().map_err(|_| CodeError)?;
        shared.codec.encoder(shared.kernel, coded, rows).map_err(|_| CodeError)
    }

    /// Returns a proactive repair symbol, so that open blocks are unlikely to need another round trip. Called when
    /// nothing else is to be sent.
    pub(crate) fn proactive_symbol(&mut self, shared: &mut SendShared, context: &SendContext<'_>) -> Option<Symbol> {
        // While data wait for the window or the application, bulk traffic repairs only stragglers: reports may still
        // acknowledge the other blocks.
        let more = self.source.waiting_bytes() > 0 || self.more_to_come;
        let stragglers_only = more && self.traffic == Traffic::Bulk;
        let p = context.flight.loss().high();
        while let Some(block) = self.blocks.get_mut(self.proactive_from) {
            let eligible = !is_held_back(block, context) && (!stragglers_only || block.round >= STRAGGLER_ROUNDS);
            let p = parts::symbol_loss(p, shared.parts_of(block.layout.symbol_size()));
            if eligible && block.proactive_deficit(p, &mut shared.repair_targets) > 0 {
                let block = self.blocks.get(self.proactive_from)?;
                return self.symbol(block, self.first_id + self.proactive_from as u32, Reason::Proactive);
            }
            self.proactive_from += 1;
        }
        None
    }

    /// Returns a symbol of the oldest open block, as a probe that makes the peer report.
    pub(crate) fn probe_symbol(&self) -> Option<Symbol> {
        let (block, id) = self.blocks.iter().zip(self.first_id..).find(|(block, _)| block.is_open())?;
        self.symbol(block, id, Reason::Probe)
    }

    /// Records that `symbol` has been sent; `loss` is p̂ high at that time.
    pub(crate) fn on_sent(&mut self, now: Time, symbol: Symbol, loss: f64, shared: &mut SendShared) {
        let index = (symbol.block_id - self.first_id) as usize;
        let Some(block) = self.blocks.get_mut(index) else { return };
        shared.served_max += u64::from(block.next_esi < block.k());
        block.next_esi = block.next_esi.saturating_add(1);
        block.in_flight += 1;
        let loss = parts::symbol_loss(loss, shared.parts_of(symbol.symbol_size));
        block.expected_arrivals += plan::expected_arrival(loss) as f32;
        block.last_sent = now;
        match symbol.reason {
            Reason::Round => {
                block.target = block.target.saturating_sub(1);
                if block.target == 0 {
                    self.active.remove(symbol.block_id);
                }
            }
            Reason::Proactive => {}
            Reason::Probe => self.ask_at = None,
        }
        // Nearly all symbols are source symbols, so the other counters are allocated on demand.
        if symbol.counts_as_source() {
            shared.counters.sent.source += 1;
            self.sent_source += 1;
        } else {
            shared.counters.sent.count_other(symbol.reason);
            self.sent_others.get_or_insert_default().count_other(symbol.reason);
        }
    }

    /// Writes the symbol's payload. `out` has exactly the payload's length.
    ///
    /// # Errors
    /// The symbol belongs to no open block.
    pub(crate) fn write_symbol(&mut self, symbol: Symbol, out: &mut [u8]) -> Result<(), CodeError> {
        let index = symbol.block_id.wrapping_sub(self.first_id) as usize;
        let block = self.blocks.get(index).ok_or(CodeError)?;
        match &block.encoder {
            Some(encoder) if symbol.esi < block.k() => encoder.write_symbol(symbol.esi, out).map_err(|_| CodeError),
            Some(encoder) => self.repairs.write(encoder, symbol, block.target, out),
            // A codec of virtual bytes has no payload to write.
            None if out.is_empty() => Ok(()),
            None => Err(CodeError),
        }
    }

    /// Returns the purpose of rounds planned now. While credit is short, surplus symbols are avoided.
    fn round_purpose(&self, shared: &SendShared) -> Purpose {
        match self.traffic {
            _ if shared.is_thrifty => Purpose::FewSymbols,
            Traffic::LowLatency => Purpose::Latency,
            Traffic::Bulk if shared.hold_up.is_recent => Purpose::FewRounds,
            Traffic::Bulk => Purpose::FewSymbols,
        }
    }

    /// Returns true if the application has more to write, and the send buffer has no room for another block.
    fn is_short_of_buffer(&self, flight: &Flight, shared: &SendShared) -> bool {
        self.more_to_come && shared.buffer_room(self.buffered_bytes()) < self.block_bytes(flight, shared) as u64
    }

    /// Returns true if the peer still needs symbols of the block.
    pub(crate) fn is_open(&self, block_id: u32) -> bool {
        self.get(block_id).is_some_and(SendBlock::is_open)
    }

    fn get(&self, id: u32) -> Option<&SendBlock> {
        self.blocks.get(id.checked_sub(self.first_id)? as usize)
    }

    // ---- state ----

    /// Returns the number of symbols that the oldest open block may take on credit ([credit-2]), and their size in
    /// bytes. 0 without an open block.
    pub(crate) fn oldest_block_symbols(&self, loss: &LossEstimator) -> (u64, u64) {
        self.blocks.front().filter(|block| block.is_open()).map_or((0, 0), |block| {
            let symbols = plan::symbols_per_block_max(block.k(), loss.high());
            (symbols.into(), block.layout.symbol_size() as u64)
        })
    }

    pub(crate) fn open_blocks(&self) -> usize {
        self.blocks.iter().filter(|block| block.is_open()).count()
    }

    /// Returns the session-wide number of the oldest block; `None` without blocks.
    pub(crate) fn oldest_begun(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.begun)
    }

    /// Updates the stream's entry in the session's list of oldest blocks. The first stream is not listed: most sessions
    /// have no other stream.
    fn list_oldest(&mut self, shared: &mut SendShared) {
        let oldest = self.oldest_begun();
        if self.is_first() || self.listed_in.oldest == oldest {
            return;
        }
        if let Some(before) = std::mem::replace(&mut self.listed_in.oldest, oldest) {
            shared.oldest.remove(&(before, self.id));
        }
        if let Some(begun) = oldest {
            shared.oldest.insert((begun, self.id));
        }
    }

    /// Returns the deadlines of the stream.
    pub(crate) fn due(&self, shared: &SendShared) -> Due {
        // A flushed block, due at `Time::ZERO`, waits only for the stream's turn, not for a timer.
        let cut = self.cut_at(shared).filter(|&at| at > Time::ZERO);
        Due { cut, ask: self.ask_at, end: self.ending_at() }
    }

    /// Returns the time at which the peer is asked for a report.
    pub(crate) fn ask_at(&self) -> Option<Time> {
        self.ask_at
    }

    /// Returns the written bytes that the peer has not acknowledged.
    fn buffered_bytes(&self) -> u64 {
        self.open_bytes + self.source.waiting_bytes()
    }
}

/// Returns true if `block` is above its symbol ceiling and has had its one symbol for this round trip.
fn is_held_back(block: &SendBlock, context: &SendContext<'_>) -> bool {
    block.is_capped()
        && context.now.since(block.last_sent) < context.rtt.smoothed().max(limits::CAPPED_BLOCK_INTERVAL_MIN)
}

#[cfg(test)]
impl SendStream {
    /// Sets the state as if the application had more to write than it could.
    pub(crate) fn set_more_to_come(&mut self) {
        self.more_to_come = true;
    }

    /// Sets the state as if all blocks before `first_id` had been acknowledged.
    pub(crate) fn start_at(&mut self, first_id: u32) {
        (self.first_id, self.blocks_read) = (first_id, first_id);
    }
}
