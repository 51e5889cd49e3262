//! The sending half of a stream: what the application wrote, until the peer has it, by the `Adaptive` schedule
//! (`spec/protocol.md` §5).
//!
//! Every datagram has a number, and reports name the highest number seen, so a block's symbols are either in flight or
//! of known fate. When all of a block's symbols have met their fate and it still lacks some, another round of them is
//! sent, oldest block first; otherwise new blocks; otherwise, with nothing left to send, proactive repair.

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
use crate::stream::send::proofs::Proofs;
use crate::stream::send::repairs::Repairs;
use crate::stream::send::shared::{SendShared, block_cost};
use crate::stream::send::symbol::{CodeError, Reason, Symbol};
use crate::stream::send::write_turns::WriteTurn;

/// Blocks of [`Traffic::LowLatency`] streams: long enough for a web object, so that one repair margin covers all of it.
const LOW_LATENCY_BLOCK_SYMBOLS: usize = 128;

/// A block may take at most this share of a window, so that even a small window has several blocks under way.
const BLOCKS_PER_WINDOW_MIN: u64 = 4;

/// Rounds after which a block holds up the window, and is helped by proactive repair when that is full.
const STRAGGLER_ROUNDS: u32 = 3;

/// The session's state for a stream that is asked for a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendContext<'a> {
    pub(crate) now: Time,
    pub(crate) flight: &'a Flight,
    pub(crate) rtt: &'a RttEstimator,
    /// Traffic that the session may send on credit.
    pub(crate) spending: Spending,
}

/// Timers of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// A partial block is cut.
    pub(crate) cut: Option<Time>,
    /// The peer is asked for what it has.
    pub(crate) ask: Option<Time>,
    /// Its end is said, perhaps again.
    pub(crate) end: Option<Time>,
}

/// Lists of its session in which a stream is once at the most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lists {
    /// Those that wait for a time, and for which.
    pub(crate) timed: Due,
    /// Those whose writer has more than it could write.
    pub(crate) writers: bool,
    /// Those that have blocks, by the oldest one's number ([`SendShared::oldest`]).
    pub(crate) oldest: Option<u64>,
    /// Those that wait for a report.
    pub(crate) waiting: bool,
    /// Those whose symbols the report at hand has passed by.
    pub(crate) passed: bool,
}

/// The sending half of one stream.
#[derive(Debug)]
pub(crate) struct SendStream {
    id: StreamId,
    traffic: Traffic,
    /// The application could not write all it had.
    more_to_come: bool,
    /// It is told once there is room.
    write_blocked: bool,
    /// Its turn to be written to, while the session's allowance is limited.
    write_turn: WriteTurn,
    source: Source,
    proofs: Proofs,
    repairs: Repairs,
    /// Open blocks and acknowledged ones behind an open one; the first has id `first_id`.
    blocks: VecDeque<SendBlock>,
    first_id: u32,
    /// Blocks whose round has symbols to send.
    active: ActiveBlocks,
    /// Bytes of unacknowledged blocks.
    open_bytes: u64,
    /// Bytes in flow control of all blocks so far, and of those which the peer has read.
    cut_cost_bytes: u64,
    read_cost_bytes: u64,
    blocks_read: u32,
    /// Blocks before this index have all the proactive repair they need.
    proactive_from: usize,
    /// A report has passed symbols by without telling of their blocks; unless one does until then, the peer is asked.
    ask_at: Option<Time>,
    /// Its session's lists in which it is.
    pub(crate) listed_in: Lists,
    /// Source symbols of its acknowledged blocks.
    acknowledged_symbols: u64,
    acknowledged_bytes: u64,
    acknowledged_blocks: u32,
    /// The symbols sent for it: source symbols, and the others once there are any.
    sent_source: u64,
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

    /// Cuts waiting data anew: the old cut was for another packet size, or for an expected symbol size and window.
    pub(crate) fn recut(&mut self, now: Time, flight: &Flight, shared: &SendShared) {
        self.source.recut(now, shared.packet_symbol_size(), self.block_bytes(flight, shared));
    }

    /// Memory of blocks comes from where the session's does.
    pub(crate) fn take_from_shared(&mut self, shared: &SendShared) {
        self.source.take_from(shared.spare.clone());
    }

    pub(crate) fn set_traffic(&mut self, traffic: Traffic) {
        self.traffic = traffic;
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.source.is_shut_down()
    }

    /// One past the stream's last block, once that is known.
    pub(crate) fn end(&self) -> Option<u32> {
        self.source.is_finished().then(|| self.next_id())
    }

    /// True if data wait, nothing is under way which would be answered, and the window is closed.
    pub(crate) fn is_stuck(&self, shared: &SendShared) -> bool {
        self.blocks.is_empty() && self.source.next_bytes() > 0 && !self.may_begin_block(shared) && !self.is_exhausted()
    }

    /// True if data wait for ever because every block id has been used, and all blocks have been delivered.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.blocks.is_empty() && self.source.waiting_bytes() > 0 && self.next_id() == u32::MAX
    }

    /// True for the session's first stream, whose end is the session's.
    fn is_first(&self) -> bool {
        self.id == StreamId::FIRST
    }

    /// True if no block of it has been acknowledged or read; never for the first stream.
    pub(crate) fn is_unheard(&self) -> bool {
        self.first_id == 0 && !self.is_first()
    }

    /// True if it was reset.
    pub(crate) fn is_reset(&self) -> bool {
        self.ending.is_reset()
    }

    /// Time to announce its end, or to repeat that.
    pub(crate) fn ending_at(&self) -> Option<Time> {
        self.ending.due_at()
    }

    /// Its direction's part of what the stream has done.
    pub(crate) fn stats(&self) -> StreamStats {
        StreamStats {
            bytes_written: self.source.written_bytes(),
            bytes_acknowledged: self.acknowledged_bytes,
            blocks_acknowledged: self.acknowledged_blocks.into(),
            sent: SentSymbols { source: self.sent_source, ..self.sent_others.as_deref().copied().unwrap_or_default() },
            ..StreamStats::default()
        }
    }

    /// True if everything written so far has been acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.blocks.is_empty() && self.source.waiting_bytes() == 0
    }

    fn next_id(&self) -> u32 {
        self.first_id + self.blocks.len() as u32
    }

    // ---- sending ----

    /// A symbol that a round still owes, or the first of a new block.
    ///
    /// # Errors
    /// A block was cut and cannot be coded: its bytes are lost.
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

    /// Time at which a partial block is cut by itself.
    pub(crate) fn cut_at(&self, shared: &SendShared) -> Option<Time> {
        // Exact enough: a wake-up for nothing is harmless.
        self.source.cut_at().filter(|_| self.window_is_open(1, shared))
    }

    /// True if no block is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.blocks.is_empty()
    }

    /// True if data wait, or rounds are not sent.
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

    /// The next symbol of a block, unless the peer needs none of it.
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

    /// Bytes in flow control of its blocks that the peer's application has not read.
    fn held_bytes(&self) -> u64 {
        self.cut_cost_bytes - self.read_cost_bytes
    }

    /// Bytes that it takes of the peer's memory besides its own place.
    fn shared_held_bytes(held_bytes: u64, shared: &SendShared) -> u64 {
        held_bytes.saturating_sub(shared.own_place_bytes())
    }

    /// True if the window has room for one more block, of `bytes` (\[window-1\]).
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

    /// True if the next block, however small it is cut, fits.
    pub(crate) fn may_begin_block(&self, shared: &SendShared) -> bool {
        let next = self.source.next_bytes();
        self.window_is_open(next as u64, shared) || (self.held_bytes() == 0 && self.window_is_open(1, shared))
    }

    /// Cuts the next block from what the application wrote, if there is any and the window permits it.
    fn open_block(&mut self, shared: &mut SendShared, context: &SendContext<'_>) -> Result<bool, CodeError> {
        let Some(bytes) = self.source.next_block_bytes(context.now) else { return Ok(false) };
        let cut = if self.window_is_open(bytes as u64, shared) {
            self.source.take_block(context.now)
        } else if self.held_bytes() == 0 && self.window_is_open(1, shared) {
            // Others hold what is shared: one symbol has a place of its own ([window-2]).
            self.source.take_symbol(context.now)
        } else {
            None
        };
        let Some(Cut { laid, data_bytes, end_of_stream }) = cut else { return Ok(false) };
        let shape = BlockShape::for_length(data_bytes, shared.packet_symbol_size()).map_err(|_| CodeError)?;
        let layout = Layout::new(shape, self.proofs.are_on());
        let encoder = self.encoder(shared, layout, laid)?;
        let mut block = SendBlock::new(encoder, layout, end_of_stream, shared.blocks_begun);
        shared.blocks_begun += 1;
        let parts = shared.parts_of(layout.symbol_size());
        block.target = block.round_size(self.round_traffic(shared), 0, context.flight.loss(), parts);
        block.round = 1;
        self.open_bytes += data_bytes as u64;
        self.change_held(shared, |it| it.cut_cost_bytes += block_cost(data_bytes as u64));
        self.active.insert(self.next_id());
        if self.blocks.capacity() == 0 {
            // Many streams never have more than one block under way.
            self.blocks.reserve_exact(1);
        }
        self.blocks.push_back(block);
        self.list_oldest(shared);
        shared.blocks_open += 1;
        if end_of_stream {
            self.ending.on_last_block();
        }
        Ok(true)
    }

    /// Changes what it holds of the peer's memory, and the session's sum with it.
    fn change_held(&mut self, shared: &mut SendShared, change: impl FnOnce(&mut Self)) {
        shared.peer_memory.held_bytes -= Self::shared_held_bytes(self.held_bytes(), shared);
        change(self);
        shared.peer_memory.held_bytes += Self::shared_held_bytes(self.held_bytes(), shared);
    }

    /// Source of the bytes of a block's symbols.
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

    /// With nothing else to send, makes it improbable that any open block needs another round trip.
    pub(crate) fn proactive_symbol(&mut self, shared: &mut SendShared, context: &SendContext<'_>) -> Option<Symbol> {
        // While data wait for window, or to be written, bulk traffic spends nothing on blocks whose turn may yet do.
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

    /// A symbol of the oldest open block, to make the peer speak.
    pub(crate) fn probe_symbol(&self) -> Option<Symbol> {
        let (block, id) = self.blocks.iter().zip(self.first_id..).find(|(block, _)| block.is_open())?;
        self.symbol(block, id, Reason::Probe)
    }

    /// `symbol` has been sent, while p̂ high was `loss`.
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
        // Nearly all are source symbols.
        if symbol.counts_as_source() {
            shared.counters.sent.source += 1;
            self.sent_source += 1;
        } else {
            shared.counters.sent.count_other(symbol.reason);
            self.sent_others.get_or_insert_default().count_other(symbol.reason);
        }
    }

    /// Writes the symbol's payload; `out` has room for it, and no more.
    ///
    /// # Errors
    /// The symbol is none of an open block's.
    pub(crate) fn write_symbol(&mut self, symbol: Symbol, out: &mut [u8]) -> Result<(), CodeError> {
        let index = symbol.block_id.wrapping_sub(self.first_id) as usize;
        let block = self.blocks.get(index).ok_or(CodeError)?;
        match &block.encoder {
            Some(encoder) if symbol.esi < block.k() => encoder.write_symbol(symbol.esi, out).map_err(|_| CodeError),
            Some(encoder) => self.repairs.write(encoder, symbol, block.target, out),
            // By a codec which carries no bytes there are none to write.
            None if out.is_empty() => Ok(()),
            None => Err(CodeError),
        }
    }

    /// Traffic that a round is planned for: surplus that saves round trips is left out while credit is short.
    fn round_traffic(&self, shared: &SendShared) -> Traffic {
        if shared.is_thrifty { Traffic::Bulk } else { self.traffic }
    }

    /// True if the peer still needs symbols of the block.
    pub(crate) fn is_open(&self, block_id: u32) -> bool {
        self.get(block_id).is_some_and(SendBlock::is_open)
    }

    fn get(&self, id: u32) -> Option<&SendBlock> {
        self.blocks.get(id.checked_sub(self.first_id)? as usize)
    }

    // ---- what it knows ----

    /// Symbols which the oldest open block may take on credit ([credit-2]), and the bytes of one; 0 without an open block.
    pub(crate) fn oldest_block_symbols(&self, loss: &LossEstimator) -> (u64, u64) {
        self.blocks.front().filter(|block| block.is_open()).map_or((0, 0), |block| {
            let symbols = plan::symbols_per_block_max(block.k(), loss.high());
            (symbols.into(), block.layout.symbol_size() as u64)
        })
    }

    pub(crate) fn open_blocks(&self) -> usize {
        self.blocks.iter().filter(|block| block.is_open()).count()
    }

    /// Number of the session's blocks begun before the oldest open one; `None` without one.
    pub(crate) fn oldest_begun(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.begun)
    }

    /// Its oldest block may be another one. That of the first stream is not listed: most sessions have no other.
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

    /// Times at which its timers are due.
    pub(crate) fn due(&self, shared: &SendShared) -> Due {
        // A flushed block, due at `Time::ZERO`, waits only for its turn, not for a timer.
        let cut = self.cut_at(shared).filter(|&at| at > Time::ZERO);
        Due { cut, ask: self.ask_at, end: self.ending_at() }
    }

    /// Time to ask the peer which symbols it has.
    pub(crate) fn ask_at(&self) -> Option<Time> {
        self.ask_at
    }

    /// Bytes which the application wrote and the peer has not acknowledged.
    fn buffered_bytes(&self) -> u64 {
        self.open_bytes + self.source.waiting_bytes()
    }
}

/// True if `block` has had all symbols that any path could require, and its one for this round trip.
fn is_held_back(block: &SendBlock, context: &SendContext<'_>) -> bool {
    block.is_capped()
        && context.now.since(block.last_sent) < context.rtt.smoothed().max(limits::CAPPED_BLOCK_INTERVAL_MIN)
}

#[cfg(test)]
impl SendStream {
    /// As if all blocks before had been acknowledged.
    pub(crate) fn start_at(&mut self, first_id: u32) {
        (self.first_id, self.blocks_read) = (first_id, first_id);
    }
}
