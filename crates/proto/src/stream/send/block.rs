//! One modern block on its way: what it holds, and what is known of its symbols.

use dfcp_fountain::random_linear::Encoder;
use dfcp_time::Time;

use crate::config::Traffic;
use crate::limits::{SYMBOLS_PER_ARRIVAL, SYMBOLS_PER_BLOCK_FACTOR};
use crate::path::loss::LossEstimator;
use crate::proof::Layout;
use crate::stream::send::parts::symbol_loss;
use crate::stream::send::plan;
use crate::stream::send::repair_targets::RepairTargets;

/// A block from its first symbol until it is acknowledged.
#[derive(Debug)]
pub(crate) struct SendBlock {
    /// Source of its symbols' bytes until it is acknowledged; `None` where the codec carries none.
    pub(crate) encoder: Option<Encoder<Vec<u8>>>,
    /// It is acknowledged, while older blocks are still open.
    is_acknowledged: bool,
    pub(crate) layout: Layout,
    pub(crate) end_of_stream: bool,
    /// Number of blocks that the session had begun before it.
    pub(crate) begun: u64,
    /// The encoding symbol to send next. Source symbols come first, then repair symbols without end (\[data-3\]).
    pub(crate) next_esi: u32,
    /// Symbols which the receiver still needed according to the latest report about this block.
    pub(crate) missing: u32,
    /// The fewest it has ever lacked, so that reports which contradict each other gain a peer nothing.
    fewest_missing: u32,
    /// Symbols whose fate is unknown.
    pub(crate) in_flight: u32,
    /// Symbols whose fate is known, but not to us: no report has told about this block since.
    pub(crate) unreported: u32,
    /// Rounds begun.
    pub(crate) round: u32,
    /// Symbols of the current round which wait to be sent.
    pub(crate) target: u32,
    pub(crate) last_sent: Time,
    /// Symbols which should have arrived by the loss known when each was sent. A ceiling on the symbols sent would fall with
    /// p̂ when the path gets better, below what the block has had, and stop it just then.
    pub(crate) expected_arrivals: f32,
}

impl SendBlock {
    pub(crate) fn new(encoder: Option<Encoder<Vec<u8>>>, layout: Layout, end_of_stream: bool, begun: u64) -> Self {
        Self {
            encoder,
            is_acknowledged: false,
            layout,
            end_of_stream,
            begun,
            next_esi: 0,
            missing: layout.data().k() as u32,
            fewest_missing: layout.data().k() as u32,
            in_flight: 0,
            unreported: 0,
            round: 0,
            target: 0,
            last_sent: Time::ZERO,
            expected_arrivals: 0.0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.is_acknowledged
    }

    /// The receiver has it: the memory of its bytes; nothing if that was known before.
    pub(crate) fn complete(&mut self) -> Option<Vec<u8>> {
        if std::mem::replace(&mut self.is_acknowledged, true) {
            return None;
        }
        self.target = 0;
        self.missing = 0;
        Some(self.encoder.take().map(Encoder::into_block).unwrap_or_default())
    }

    pub(crate) fn k(&self) -> u32 {
        self.layout.data().k() as u32
    }

    /// Symbols of it which can have served: no more than were sent, nor than it needs.
    pub(crate) fn served_max(&self) -> u32 {
        self.next_esi.min(self.k())
    }

    /// Bytes which the application wrote.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.layout.data().length_bytes() as u64
    }

    /// True if the fate of everything sent for it is known and reported, yet it lacks symbols: time for a new round
    /// (\[plan-2\]).
    pub(crate) fn awaits_round(&self) -> bool {
        self.is_open() && self.target == 0 && self.in_flight == 0 && self.unreported == 0 && self.missing > 0
    }

    /// The receiver lacks `missing` symbols, or all of them, and has told so about every one whose fate is known.
    pub(crate) fn on_missing(&mut self, missing: Option<u32>) {
        // A report cannot raise what an earlier one has settled, except that reordered reports were dropped before.
        self.missing = missing.map_or_else(|| self.k(), |missing| missing.min(self.k()));
        self.fewest_missing = self.fewest_missing.min(self.missing);
        self.unreported = 0;
    }

    /// Symbols to send for the missing ones, in the given round (0 is the first), each in `parts` datagrams.
    pub(crate) fn round_size(&self, traffic: Traffic, round: u32, loss: &LossEstimator, parts: u8) -> u32 {
        let p = match (traffic, round) {
            (Traffic::LowLatency, _) => loss.high(),
            (Traffic::Bulk, 0 | 1) => loss.low(),
            // Two rounds have not sufficed. If the path has become worse, this block may hold up decoded ones behind it.
            (Traffic::Bulk, _) => loss.now(),
        };
        plan::round_size(self.missing, symbol_loss(p, parts), plan::margin(traffic, round))
    }

    /// Symbols that proactive repair would add now, given the loss estimate `p`.
    pub(crate) fn proactive_deficit(&self, p: f64, targets: &mut RepairTargets) -> u32 {
        if !self.is_open() || self.missing == 0 {
            return 0;
        }
        let target = targets.get(self.missing, p);
        target.saturating_sub(self.in_flight + self.unreported + self.target)
    }

    /// True if it has had as many symbols as any path could require; then it gets one per round trip.
    pub(crate) fn is_capped(&self) -> bool {
        let arrived = self.k() - self.fewest_missing;
        let ceiling = SYMBOLS_PER_BLOCK_FACTOR * f64::from(self.k()) + SYMBOLS_PER_ARRIVAL * f64::from(arrived);
        f64::from(self.expected_arrivals) >= ceiling
    }
}
