//! One modern block on its way: what it holds, and what is known of its symbols.

use dfcp_fountain::random_linear::Encoder;
use dfcp_time::Time;

use crate::limits::SYMBOLS_PER_BLOCK_FACTOR;
use crate::proof::Layout;
use crate::send::aims::ProactiveAims;
use crate::send::plan;

/// What a block's symbols are made of.
#[derive(Debug)]
pub(crate) enum Rows {
    /// Its bytes.
    Coded(Encoder<Vec<u8>>),
    /// Nothing: they are only counted.
    Counted,
    /// The block is acknowledged, while older blocks are still open.
    Acknowledged,
}

/// A block from its first symbol until it is acknowledged.
#[derive(Debug)]
pub(crate) struct SendBlock {
    pub(crate) rows: Rows,
    pub(crate) layout: Layout,
    pub(crate) end_of_stream: bool,
    /// The encoding symbol to send next. Source symbols come first, then repair symbols without end.
    pub(crate) next_esi: u32,
    /// Symbols which the receiver still needed according to the latest report about this block.
    pub(crate) missing: u32,
    /// Symbols whose fate is unknown.
    pub(crate) in_flight: u32,
    /// Symbols whose fate is known, but not to us: no report has told about this block since.
    pub(crate) unreported: u32,
    /// Rounds begun.
    pub(crate) round: u32,
    /// Symbols of the current round which wait to be sent.
    pub(crate) target: u32,
    pub(crate) last_sent: Time,
}

impl SendBlock {
    pub(crate) fn new(rows: Rows, layout: Layout, end_of_stream: bool) -> Self {
        Self {
            rows,
            layout,
            end_of_stream,
            next_esi: 0,
            missing: layout.data().k() as u32,
            in_flight: 0,
            unreported: 0,
            round: 0,
            target: 0,
            last_sent: Time::ZERO,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.rows, Rows::Acknowledged)
    }

    /// The receiver has it: its length, and the memory of its bytes; nothing if that was known before.
    pub(crate) fn complete(&mut self) -> Option<(u64, Vec<u8>)> {
        if !self.is_open() {
            return None;
        }
        self.target = 0;
        self.missing = 0;
        let memory = match std::mem::replace(&mut self.rows, Rows::Acknowledged) {
            Rows::Coded(encoder) => encoder.into_block(),
            Rows::Counted | Rows::Acknowledged => Vec::new(),
        };
        Some((self.length_bytes(), memory))
    }

    pub(crate) fn k(&self) -> u32 {
        self.layout.data().k() as u32
    }

    /// Bytes which the application wrote.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.layout.data().length_bytes() as u64
    }

    /// Whether everything sent for it has met its fate and been reported, yet it lacks symbols: time for a new round.
    pub(crate) fn awaits_round(&self) -> bool {
        self.is_open() && self.target == 0 && self.in_flight == 0 && self.unreported == 0 && self.missing > 0
    }

    /// Symbols that proactive repair would add now, given the loss estimate `p`.
    pub(crate) fn proactive_deficit(&self, p: f64, aims: &mut ProactiveAims) -> u32 {
        if !self.is_open() || self.missing == 0 {
            return 0;
        }
        let aim = aims.get(self.missing, p);
        aim.saturating_sub(self.in_flight + self.unreported + self.target)
    }

    /// Whether it has had as many symbols as any path could require; then it gets one per round trip. The loss is asked
    /// for only where it matters.
    pub(crate) fn is_capped(&self, p: impl FnOnce() -> f64) -> bool {
        f64::from(self.next_esi) >= SYMBOLS_PER_BLOCK_FACTOR * f64::from(self.k())
            && self.next_esi >= plan::symbols_per_block_max(self.k(), p())
    }
}
