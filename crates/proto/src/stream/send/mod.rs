//! The sending half of a stream: what the application wrote, until the peer has it, by the `Adaptive` schedule
//! (`spec/protocol.md` §5).
//!
//! Every datagram has a number, and reports name the highest number seen, so a block's symbols are either in flight or
//! of known fate. When all of a block's symbols have met their fate and it still lacks some, another round of them is
//! sent, oldest block first; otherwise new blocks; otherwise, with nothing left to send, proactive repair.

pub(crate) mod active_blocks;
pub(crate) mod block;
pub(crate) mod counters;
pub(crate) mod feedback;
pub(crate) mod flow_control;
pub(crate) mod plan;
pub(crate) mod proofs;
pub(crate) mod repair_targets;
pub(crate) mod repairs;
pub(crate) mod symbol;
mod writing;

use std::collections::VecDeque;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Encoder};
use dfcp_time::Time;
use dfcp_wire::{BlockInfo, StreamId};

use crate::config::{Config, Content, SendBuffering, Traffic};
use crate::limits;
use crate::path::credit::Spending;
use crate::path::flight::Flight;
use crate::path::loss::LossEstimator;
use crate::path::rtt::RttEstimator;
use crate::proof::{self, Layout};
use crate::session::sharing::WriteAllowance;
use crate::shared::source::{Cut, Source};
use crate::spare::SpareBlocks;
use crate::stream::send::active_blocks::ActiveBlocks;
use crate::stream::send::block::{Rows, SendBlock};
use crate::stream::send::counters::SendCounters;
use crate::stream::send::flow_control::FlowControl;
use crate::stream::send::proofs::Proofs;
use crate::stream::send::repair_targets::RepairTargets;
use crate::stream::send::repairs::Repairs;
use crate::stream::send::symbol::{Reason, Symbol};
use crate::stream::window::{GrowingWindow, counted_bytes};

/// Blocks of [`Traffic::LowLatency`] streams: long enough for a web object, so that one repair margin covers all of it.
const LOW_LATENCY_BLOCK_SYMBOLS: usize = 128;

/// A block may take at most this share of a window, so that even a small window has several blocks under way.
const BLOCKS_PER_WINDOW_MIN: u64 = 4;

/// Rounds after which a block holds up the window, and is helped by proactive repair when that is full.
const STRAGGLER_ROUNDS: u32 = 3;

/// What a stream is told of its session when it is asked for a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendContext<'a> {
    pub(crate) now: Time,
    pub(crate) flight: &'a Flight,
    pub(crate) rtt: &'a RttEstimator,
    /// What the session may send on credit.
    pub(crate) spending: Spending,
}

/// The sending half of one stream.
#[derive(Debug)]
pub(crate) struct SendStream {
    kernel: Kernel,
    symbol_size: usize,
    window_blocks: u32,
    buffer: GrowingWindow,
    traffic: Traffic,
    send_buffering: SendBuffering,
    allowance: WriteAllowance,
    content: Content,
    /// The application could not write all it had.
    more_to_come: bool,
    source: Source,
    proofs: Proofs,
    repairs: Repairs,
    /// Open blocks and acknowledged ones behind an open one; the first has id `first_id`.
    blocks: VecDeque<SendBlock>,
    first_id: u32,
    /// Blocks whose round has symbols to send.
    active: ActiveBlocks,
    /// Symbols which can have served unacknowledged blocks, all together ([`SendBlock::served_max`]).
    served_max: u32,
    /// Bytes of unacknowledged blocks.
    open_bytes: u64,
    /// What all in `blocks` count as.
    span_bytes: u64,
    flow: FlowControl,
    repair_targets: RepairTargets,
    /// Half of the credit, or more, is used up.
    is_thrifty: bool,
    /// Blocks before this index have all the proactive repair they need.
    proactive_from: usize,
    counters: SendCounters,
}

impl SendStream {
    /// A sender which asks for proofs of decoding if it gets a secret for them ([`Proofs::new`]).
    pub(crate) fn new(config: &Config, kernel: Kernel, proofs: Option<[u8; 32]>) -> Self {
        let proofs = Proofs::new(proofs, StreamId::FIRST);
        let symbol_size = proof::data_bytes_max(config.symbol_size, proofs.are_on());
        Self {
            kernel,
            symbol_size,
            window_blocks: config.window_blocks,
            buffer: GrowingWindow::new(config.send_buffer_bytes),
            traffic: config.traffic,
            send_buffering: SendBuffering::Deep,
            allowance: WriteAllowance::Any,
            content: config.content,
            more_to_come: false,
            source: Source::new(symbol_size, proofs.are_on(), config.content),
            proofs,
            repairs: Repairs::default(),
            blocks: VecDeque::new(),
            first_id: 0,
            active: ActiveBlocks::default(),
            served_max: 0,
            open_bytes: 0,
            span_bytes: 0,
            flow: FlowControl::new(config.window_blocks),
            repair_targets: RepairTargets::default(),
            is_thrifty: false,
            proactive_from: 0,
            counters: SendCounters::default(),
        }
    }

    /// The handshake is done: the peer takes symbols of `symbol_size` and the given window, and lends `memory_bytes`.
    pub(crate) fn establish(
        &mut self,
        now: Time,
        flight: &Flight,
        symbol_size: u16,
        window_blocks: u32,
        memory_bytes: u64,
    ) {
        self.symbol_size = self.symbol_size.min(usize::from(symbol_size));
        self.flow.establish(window_blocks, memory_bytes);
        // What was written before the handshake was cut for the symbol size and window hoped for.
        self.source.recut(now, self.symbol_size, self.block_bytes(flight));
    }

    /// Memory of blocks comes from there.
    pub(crate) fn take_from(&mut self, spare: SpareBlocks) {
        self.source.take_from(spare);
    }

    pub(crate) fn set_traffic(&mut self, traffic: Traffic) {
        self.traffic = traffic;
    }

    pub(crate) fn set_window_blocks(&mut self, window_blocks: u32) {
        self.window_blocks = window_blocks;
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.source.is_shut_down()
    }

    /// One past the stream's last block, once that is known.
    pub(crate) fn end(&self) -> Option<u32> {
        self.source.is_finished().then(|| self.next_id())
    }

    /// Whether data wait, nothing is under way which would be answered, and the window is closed.
    pub(crate) fn is_stuck(&self) -> bool {
        let next = self.source.next_bytes();
        self.blocks.is_empty() && next > 0 && !self.window_is_open(next) && !self.is_exhausted()
    }

    /// Whether data wait for ever because every block id has been used, and what could be delivered has been.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.blocks.is_empty() && self.source.waiting_bytes() > 0 && self.next_id() == u32::MAX
    }

    /// Whether everything written so far has been acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.blocks.is_empty() && self.source.waiting_bytes() == 0
    }

    fn next_id(&self) -> u32 {
        self.first_id + self.blocks.len() as u32
    }

    // ---- sending ----

    /// Half of the session's credit, or more, is used up, or not.
    pub(crate) fn set_thrifty(&mut self, is_thrifty: bool) {
        self.is_thrifty = is_thrifty;
    }

    /// A symbol that a round still owes, or the first of a new block.
    pub(crate) fn round_symbol(&mut self, context: &SendContext<'_>) -> Option<Symbol> {
        let may_begin = !context.spending.is_for_oldest_block() || self.blocks.is_empty();
        self.due_symbol(context).or_else(|| {
            let has_begun = may_begin && self.open_block(context);
            has_begun.then(|| self.due_symbol(context)).flatten()
        })
    }

    /// When a partial block will be cut by itself.
    pub(crate) fn cut_at(&self) -> Option<Time> {
        // Exact enough: a wake-up for nothing is harmless.
        self.source.cut_at().filter(|_| self.window_is_open(1))
    }

    /// Bytes of data in a symbol of a full block.
    pub(crate) fn symbol_size(&self) -> usize {
        self.symbol_size
    }

    /// Whether no block is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.blocks.is_empty()
    }

    fn due_symbol(&mut self, context: &SendContext<'_>) -> Option<Symbol> {
        let may_go = |block: &SendBlock| !is_held_back(block, context);
        let is_paid_for = |id: u32| !context.spending.is_for_oldest_block() || id == self.first_id;
        let id = self.active.iter().find(|&id| is_paid_for(id) && self.get(id).is_some_and(may_go))?;
        self.symbol(id, Reason::Round)
    }

    fn symbol(&self, id: u32, reason: Reason) -> Option<Symbol> {
        let block = self.get(id).filter(|block| block.is_open())?;
        let info = BlockInfo {
            k: block.k() as u16,
            length_bytes: block.length_bytes() as u32,
            end_of_stream: block.end_of_stream,
        };
        let symbol_size = block.layout.symbol_size();
        let payload_bytes = if matches!(block.rows, Rows::Elided) { 0 } else { symbol_size };
        Some(Symbol { block_id: id, esi: block.next_esi, info, reason, symbol_size, payload_bytes })
    }

    /// Whether the window has room for one more block, of so many bytes (\[window-1\]).
    pub(crate) fn window_is_open(&self, bytes: usize) -> bool {
        (self.blocks.len() as u32) < self.window_blocks
            && self.flow.permits(self.next_id(), bytes, self.symbol_size)
            && self.next_id() < u32::MAX
    }

    /// Cuts the next block from what the application wrote, if there is any and the window permits it.
    fn open_block(&mut self, context: &SendContext<'_>) -> bool {
        let Some(bytes) = self.source.next_block_bytes(context.now) else { return false };
        if !self.window_is_open(bytes) {
            return false;
        }
        let Some(Cut { laid, data_bytes, end_of_stream }) = self.source.take_block(context.now) else { return false };
        let Ok(shape) = BlockShape::for_length(data_bytes, self.symbol_size) else { return false };
        let layout = Layout::new(shape, self.proofs.are_on());
        let Some(rows) = self.rows(layout, laid) else { return false };
        let mut block = SendBlock::new(rows, layout, end_of_stream);
        block.target = block.round_size(self.round_traffic(), 0, context.flight.loss());
        block.round = 1;
        self.open_bytes += bytes as u64;
        self.span_bytes += counted_bytes(bytes);
        self.flow.on_cut(bytes);
        self.active.insert(self.next_id());
        if self.blocks.capacity() == 0 {
            // Many connections never have more than one block under way.
            self.blocks.reserve_exact(1);
        }
        self.blocks.push_back(block);
        true
    }

    /// What the symbols of a block are made of.
    fn rows(&mut self, layout: Layout, laid: Vec<u8>) -> Option<Rows> {
        if self.content == Content::Elided {
            return Some(Rows::Elided);
        }
        let mut rows = layout.lay_out(laid, self.symbol_size);
        self.proofs.seal(self.next_id(), layout, &mut rows);
        Encoder::new(self.kernel, layout.coded().ok()?, rows).ok().map(Rows::Coded)
    }

    /// With nothing else to send, makes it improbable that any open block needs another round trip.
    pub(crate) fn proactive_symbol(&mut self, context: &SendContext<'_>) -> Option<Symbol> {
        // While data wait for window, or to be written, bulk traffic spends nothing on blocks whose turn may yet do.
        let more = self.source.waiting_bytes() > 0 || self.more_to_come;
        let stragglers_only = more && self.traffic == Traffic::Bulk;
        let p = context.flight.loss().high();
        while let Some(block) = self.blocks.get_mut(self.proactive_from) {
            let eligible = !is_held_back(block, context) && (!stragglers_only || block.round >= STRAGGLER_ROUNDS);
            if eligible && block.proactive_deficit(p, &mut self.repair_targets) > 0 {
                return self.symbol(self.first_id + self.proactive_from as u32, Reason::Proactive);
            }
            self.proactive_from += 1;
        }
        None
    }

    /// A symbol of the oldest open block, to make a silent peer speak, if that is due.
    pub(crate) fn probe_symbol(&mut self, context: &SendContext<'_>) -> Option<Symbol> {
        if self.blocks.is_empty() || context.now < context.flight.probe_at(context.rtt, context.spending) {
            return None;
        }
        let open = self.blocks.iter().position(SendBlock::is_open)?;
        self.symbol(self.first_id + open as u32, Reason::Probe)
    }

    /// `symbol` has been sent, while p̂ high was `loss`.
    pub(crate) fn on_sent(&mut self, now: Time, symbol: Symbol, loss: f64) {
        let index = (symbol.block_id - self.first_id) as usize;
        let Some(block) = self.blocks.get_mut(index) else { return };
        self.served_max += u32::from(block.next_esi < block.k());
        block.next_esi = block.next_esi.saturating_add(1);
        block.in_flight += 1;
        block.expected_arrivals += plan::expected_arrival(loss) as f32;
        block.last_sent = now;
        match symbol.reason {
            Reason::Round => {
                block.target = block.target.saturating_sub(1);
                if block.target == 0 {
                    self.active.remove(symbol.block_id);
                }
            }
            Reason::Proactive | Reason::Probe => {}
        }
        self.counters.on_sent(symbol);
    }

    /// Writes the symbol's payload; `out` has room for it, and no more.
    pub(crate) fn write_symbol(&mut self, symbol: Symbol, out: &mut [u8]) -> bool {
        let index = symbol.block_id.wrapping_sub(self.first_id) as usize;
        let Some(block) = self.blocks.get(index) else { return false };
        match &block.rows {
            Rows::Coded(encoder) => self.repairs.write(encoder, symbol, block.target, out),
            Rows::Elided => true,
            Rows::Acknowledged => false,
        }
    }

    /// What a round is planned for: surplus that saves round trips is left out while credit is short.
    fn round_traffic(&self) -> Traffic {
        if self.is_thrifty { Traffic::Bulk } else { self.traffic }
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

    pub(crate) fn counters(&self) -> &SendCounters {
        &self.counters
    }
}

/// Whether `block` has had all that any path could require, and its symbol for this round trip.
fn is_held_back(block: &SendBlock, context: &SendContext<'_>) -> bool {
    block.is_capped()
        && context.now.since(block.last_sent) < context.rtt.smoothed().max(limits::CAPPED_BLOCK_INTERVAL_MIN)
}

#[cfg(test)]
impl SendStream {
    /// As if all blocks before had been acknowledged.
    pub(crate) fn start_at(&mut self, first_id: u32) {
        self.first_id = first_id;
        self.flow.start_at(first_id);
    }

    pub(crate) fn served_max(&self) -> u32 {
        self.served_max
    }

    pub(crate) fn set_peer_window_blocks(&mut self, blocks: u32) {
        self.flow.set_window_blocks(blocks);
    }
}
