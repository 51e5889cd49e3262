//! State of an automatic rate, for display and JSON.

use dfcp::{RateControlStats, RatePhase};
use dfcp_framing::human_rate;
use serde::Serialize;

/// Ratio of rate to goodput above which the rate evidently does not limit the sender.
const UNUSED_FACTOR: f64 = 20.0;

/// State of an automatic rate at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FoundRate {
    /// Phase of the rate control.
    pub phase: Phase,
    /// Rate, bit/s of IP packets.
    pub rate_bps: u64,
    /// Capacity of the bottleneck, including the part that cross traffic uses, bit/s of IP packets; `None` while
    /// unknown.
    pub capacity_bps: Option<u64>,
    /// Target queueing delay, ms.
    pub target_queue_ms: f64,
    /// Path loss (not caused by a full queue), 0 to 1.
    pub path_loss: f64,
    /// Datagrams since the start for which the rate control has determined arrival or the cause of the loss.
    pub datagrams_judged: u64,
    /// Datagrams lost for any reason, out of `datagrams_judged`.
    pub datagrams_lost: u64,
    /// Datagrams dropped at a full queue, out of `datagrams_judged`. This loss is self-inflicted, alone or together
    /// with cross traffic.
    pub datagrams_lost_in_queue: u64,
}

/// Phase of an automatic rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Probing for the path's capacity.
    #[default]
    Start,
    /// Steered by the queueing delay that this connection causes.
    Steady,
    /// Competing with loss-based cross traffic that fills the queue.
    Compete,
}

impl Phase {
    /// All phases, in the order of their wire numbers.
    const ALL: [Self; 3] = [Self::Start, Self::Steady, Self::Compete];

    /// Returns the wire number of the phase.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Returns the phase with this wire number; `None` if there is no such phase.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.number() == number)
    }
}

impl From<&RateControlStats> for FoundRate {
    fn from(stats: &RateControlStats) -> Self {
        Self {
            phase: match stats.phase {
                RatePhase::Start => Phase::Start,
                RatePhase::Compete => Phase::Compete,
                // Later versions may add phases of normal operation.
                _ => Phase::Steady,
            },
            rate_bps: stats.rate_bps,
            capacity_bps: stats.capacity_bps,
            target_queue_ms: stats.target_queue.as_secs_f64() * 1e3,
            path_loss: stats.path_loss,
            datagrams_judged: stats.datagrams_judged,
            datagrams_lost: stats.datagrams_lost,
            datagrams_lost_in_queue: stats.datagrams_lost_in_queue,
        }
    }
}

/// Losses by cause, as shares of [`FoundRate::datagrams_judged`], 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Losses {
    /// Path loss.
    pub path: f64,
    /// Self-inflicted loss: datagrams dropped at a full queue, alone or together with cross traffic.
    pub own: f64,
}

impl FoundRate {
    /// Returns the losses by cause; `None` while `datagrams_judged` is 0.
    #[must_use]
    pub fn losses(&self) -> Option<Losses> {
        let share = |datagrams: u64| (datagrams as f64 / self.datagrams_judged as f64).min(1.0);
        let of_path = self.datagrams_lost.saturating_sub(self.datagrams_lost_in_queue);
        let losses = || Losses { path: share(of_path), own: share(self.datagrams_lost_in_queue) };
        (self.datagrams_judged > 0).then(losses)
    }

    /// Returns the same state with only the datagrams counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            datagrams_judged: self.datagrams_judged.saturating_sub(earlier.datagrams_judged),
            datagrams_lost: self.datagrams_lost.saturating_sub(earlier.datagrams_lost),
            datagrams_lost_in_queue: self.datagrams_lost_in_queue.saturating_sub(earlier.datagrams_lost_in_queue),
            ..*self
        }
    }

    /// Returns true if the rate may limit a sender with this goodput, or if the goodput is still 0.
    #[must_use]
    pub fn limits(&self, goodput_bps: f64) -> bool {
        goodput_bps <= 0.0 || self.rate_bps as f64 <= UNUSED_FACTOR * goodput_bps
    }

    /// Returns a phrase for display beside a goodput, such as `rate 48.2 Mbit/s` or `rate 48.2 Mbit/s (competing)`.
    ///
    /// With an RTT of microseconds, an almost unused window gives a rate beyond that of any link. The number is
    /// meaningless if another bottleneck keeps the sender far below it, so `rate not limiting` is returned.
    #[must_use]
    pub fn describe(&self, goodput_bps: f64) -> String {
        let competes = if self.phase == Phase::Compete { " (competing)" } else { "" };
        if !self.limits(goodput_bps) {
            return format!("rate not limiting{competes}");
        }
        format!("rate {}{competes}", human_rate(self.rate_bps as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_which_nothing_comes_near_is_no_number() {
        let found = |rate_bps| FoundRate { rate_bps, ..FoundRate::default() };
        assert_eq!(found(48_200_000).describe(45e6), "rate 48.2 Mbit/s");
        assert_eq!(found(1_040_000_000_000).describe(3.4e9), "rate not limiting");
        // There is no goodput yet.
        assert_eq!(found(48_200_000).describe(0.0), "rate 48.2 Mbit/s");
        let competing = FoundRate { phase: Phase::Compete, ..found(2_000_000) };
        assert_eq!(competing.describe(2e6), "rate 2.00 Mbit/s (competing)");
    }
}
