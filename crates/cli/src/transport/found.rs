//! Findings of an automatic rate, for display and for programs.

use dfcp::{RateControlStats, RatePhase};
use serde::Serialize;

use crate::units;

/// A rate of more than this many times the goodput does not limit the sender.
const UNUSED_FACTOR: f64 = 20.0;

/// Findings of an automatic rate up to one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FoundRate {
    /// Phase of the rate control.
    pub phase: Phase,
    /// The rate, bit/s of IP packets.
    pub rate_bps: u64,
    /// Capacity of the bottleneck as a whole, others' traffic included, bit/s of IP packets; `None` while unknown.
    pub capacity_bps: Option<u64>,
    /// The queueing delay which it aims at, ms.
    pub target_queue_ms: f64,
    /// The loss that the rate takes for the path's own, 0 to 1.
    pub path_loss: f64,
    /// Datagrams since the beginning for which own loss and the path's are told apart.
    pub datagrams_judged: u64,
    /// Datagrams among them which were lost, for whatever reason.
    pub datagrams_lost: u64,
    /// Datagrams among these which found a queue full: the sender's own doing, alone or together with others.
    pub datagrams_lost_in_queue: u64,
}

/// Phase of an automatic rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It learns what the path carries.
    #[default]
    Start,
    /// It goes by the queueing delay which it causes.
    Steady,
    /// Others fill the queue, and it is one of them.
    Compete,
}

impl Phase {
    /// All states, in the order of their numbers on the wire.
    const ALL: [Self; 3] = [Self::Start, Self::Steady, Self::Compete];

    /// Its number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The state with this number.
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
                // Phases added later will be kinds of running.
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

/// Losses by their cause, as shares of the datagrams judged, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Losses {
    /// The path's own.
    pub path: f64,
    /// Share that found a queue full: the sender's own doing, alone or together with others.
    pub own: f64,
}

impl FoundRate {
    /// Losses by their cause; `None` before anything was judged.
    #[must_use]
    pub fn losses(&self) -> Option<Losses> {
        let share = |datagrams: u64| (datagrams as f64 / self.datagrams_judged as f64).min(1.0);
        let of_path = self.datagrams_lost.saturating_sub(self.datagrams_lost_in_queue);
        let losses = || Losses { path: share(of_path), own: share(self.datagrams_lost_in_queue) };
        (self.datagrams_judged > 0).then(losses)
    }

    /// Losses since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            datagrams_judged: self.datagrams_judged.saturating_sub(earlier.datagrams_judged),
            datagrams_lost: self.datagrams_lost.saturating_sub(earlier.datagrams_lost),
            datagrams_lost_in_queue: self.datagrams_lost_in_queue.saturating_sub(earlier.datagrams_lost_in_queue),
            ..*self
        }
    }

    /// True if the rate may be the limit of a sender with this goodput; before anything has arrived, it may.
    #[must_use]
    pub fn limits(&self, goodput_bps: f64) -> bool {
        goodput_bps <= 0.0 || self.rate_bps as f64 <= UNUSED_FACTOR * goodput_bps
    }

    /// A phrase for people beside a goodput: `rate 48.2 Mbit/s`, and that it competes if it does.
    ///
    /// Over a round trip of microseconds a window that is hardly used makes a rate which no link has. Where something else holds the
    /// sender that far below it, its number says nothing.
    #[must_use]
    pub fn describe(&self, goodput_bps: f64) -> String {
        let competes = if self.phase == Phase::Compete { " (competing)" } else { "" };
        if !self.limits(goodput_bps) {
            return format!("rate not limiting{competes}");
        }
        format!("rate {}{competes}", units::human_rate(self.rate_bps as f64))
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
        // Before anything has arrived.
        assert_eq!(found(48_200_000).describe(0.0), "rate 48.2 Mbit/s");
        let competing = FoundRate { phase: Phase::Compete, ..found(2_000_000) };
        assert_eq!(competing.describe(2e6), "rate 2.00 Mbit/s (competing)");
    }
}
