//! One modern block in flight: its contents, and the known state of its symbols.

use dfcp_fountain::random_linear::Encoder;
use dfcp_time::Time;

use crate::limits::{SYMBOLS_PER_ARRIVAL, SYMBOLS_PER_BLOCK_FACTOR};
use crate::path::loss::LossEstimator;
use crate::proof::Layout;
use crate::stream::send::parts::symbol_loss;
use crate::stream::send::plan::{self, Purpose};
use crate::stream::send::repair_targets::RepairTargets;

/// A block from its first symbol until it is acknowledged.
#[derive(Debug)]
pub(crate) struct SendBlock {
    /// Encoder of the block's symbols until the block is acknowledged; `None` if the codec carries no bytes.
    pub(crate) encoder: Option<Encoder<Vec<u8>>>,
    /// True if the block is acknowledged while older blocks are still open.
    is_acknowledged: bool,
    pub(crate) layout: Layout,
    pub(crate) end_of_stream: bool,
    /// Number of blocks that the session had begun before this one.
    pub(crate) begun: u64,
    /// Id of the next encoding symbol to send. Source symbols come first, then an unlimited number of repair symbols
    /// (\[data-3\]).
    pub(crate) next_esi: u32,
    /// Symbols that the receiver still needs according to the latest report about this block.
    pub(crate) missing: u32,
    /// Least value of `missing` so far: a peer gains nothing by contradictory reports.
    fewest_missing: u32,
    /// Symbols sent whose fate is unknown.
    pub(crate) in_flight: u32,
    /// Symbols passed by a report since the last report about this block. They have arrived or are lost, but it is not
    /// known which.
    pub(crate) unreported: u32,
    /// Rounds begun.
    pub(crate) round: u32,
    /// Symbols of the current round that wait to be sent.
    pub(crate) target: u32,
    pub(crate) last_sent: Time,
    /// Sum of the expected arrivals, by the loss estimate at the time of each symbol. The ceiling applies to this sum:
    /// a ceiling on the number of symbols sent would fall together with p̂ when the path improves, and stop the block
    /// just then.
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

    /// Marks the block as acknowledged. Returns the memory of its bytes, or `None` if it was acknowledged before.
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

    /// Returns the largest possible number of useful symbols: at most the symbols sent, and at most K.
    pub(crate) fn served_max(&self) -> u32 {
        self.next_esi.min(self.k())
    }

    /// Returns the number of bytes that the application wrote.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.layout.data().length_bytes() as u64
    }

    /// Returns true if the fate of all sent symbols is known and reported, and the block still lacks symbols: a new
    /// round is due (\[plan-2\]).
    pub(crate) fn awaits_round(&self) -> bool {
        self.is_open() && self.target == 0 && self.in_flight == 0 && self.unreported == 0 && self.missing > 0
    }

    /// Records a report about the block: the receiver lacks `missing` symbols (`None`: all), and the fate of all passed
    /// symbols is known.
    pub(crate) fn on_missing(&mut self, missing: Option<u32>) {
        // Reordered reports were dropped before, so the newest value replaces the old one.
        self.missing = missing.map_or_else(|| self.k(), |missing| missing.min(self.k()));
        self.fewest_missing = self.fewest_missing.min(self.missing);
        self.unreported = 0;
    }

    /// Returns the number of symbols to send for the missing ones in `round` (0 is the first round), each in `parts`
    /// datagrams.
    pub(crate) fn round_size(&self, purpose: Purpose, round: u32, loss: &LossEstimator, parts: u8) -> u32 {
        let p = match (purpose, round) {
            (Purpose::Latency, _) => loss.high(),
            (Purpose::FewSymbols | Purpose::FewRounds, 0 | 1) => loss.low(),
            // Two rounds did not suffice. If the path has become worse, this block may hold up decoded blocks behind
            // it.
            (Purpose::FewSymbols | Purpose::FewRounds, _) => loss.now(),
        };
        plan::round_size(self.missing, symbol_loss(p, parts), plan::margin(purpose, round))
    }

    /// Returns the number of symbols that proactive repair would add now, at the loss estimate `p`.
    pub(crate) fn proactive_deficit(&self, p: f64, targets: &mut RepairTargets) -> u32 {
        if !self.is_open() || self.missing == 0 {
            return 0;
        }
        let target = targets.get(self.missing, p);
        target.saturating_sub(self.in_flight + self.unreported + self.target)
    }

    /// Returns true if the block has had as many symbols as any path could require. It then gets one symbol per round
    /// trip.
    pub(crate) fn is_capped(&self) -> bool {
        let arrived = self.k() - self.fewest_missing;
        let ceiling = SYMBOLS_PER_BLOCK_FACTOR * f64::from(self.k()) + SYMBOLS_PER_ARRIVAL * f64::from(arrived);
        f64::from(self.expected_arrivals) >= ceiling
    }
}
