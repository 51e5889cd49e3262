//! Whether what looks like a queue is none (\[auto-7\]): the path may have got longer.
//!
//! If the window falls and the delay stays, either others fill the queue, or there is none. A pulse that is sent faster
//! shows which: where nobody waits, it arrives as it was sent.

use super::capacity::TRAIN;
use super::history::{History, Span};

/// The delay exceeds the target by this part of the round trip, and stays at nine tenths of itself, for so many rounds.
const HIGH_PART: f64 = 0.05;
const STAYS_PART: f64 = 0.9;
const ROUNDS: u32 = 4;
/// The pulse is faster by this part of the capacity, and takes this part of a round trip.
const FASTER_PART: f64 = 0.3;
const PULSE_ROUND_TRIP_PART: f64 = 1.0 / 16.0;
/// What arrives at this part of its rate, with delays that differ by no more than these, has not waited.
const UNDISPERSED: f64 = 0.93;
const FLAT_S: f64 = 0.002;
const FLAT_ROUND_TRIP_PART: f64 = 0.01;
const PULSE_DATAGRAMS_MIN: f64 = 8.0;

/// Datagrams after the first `from` up to number `end`, sent at `per_s`.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    from: f64,
    end: f64,
    per_s: f64,
}

#[derive(Debug, Default)]
pub(super) struct LongerPath {
    rounds: u32,
    queue_s: f64,
    pulse: Option<Pulse>,
}

impl LongerPath {
    /// At which rate the next datagram goes, if it is one of a pulse.
    pub(super) fn pulse_per_s(&self, sent: f64) -> Option<f64> {
        self.pulse.filter(|pulse| (pulse.from..pulse.end).contains(&sent)).map(|pulse| pulse.per_s)
    }

    /// A round was `seen`, with a target of `target_s` and a window of `per_s`.
    pub(super) fn note(&mut self, history: &History, seen: Span, target_s: f64, sent: f64, rates_per_s: (f64, f64)) {
        let (per_s, capacity_per_s) = rates_per_s;
        let rtt_s = history.rtt();
        let is_high = seen.queue_least_s > target_s + HIGH_PART * rtt_s;
        self.rounds = if is_high && seen.queue_least_s > STAYS_PART * self.queue_s { self.rounds + 1 } else { 0 };
        self.queue_s = seen.queue_least_s;
        if self.rounds >= ROUNDS && self.pulse.is_none() && capacity_per_s > 0.0 {
            let per_s = per_s + FASTER_PART * capacity_per_s;
            let length = TRAIN.max(per_s * rtt_s * PULSE_ROUND_TRIP_PART).floor();
            self.pulse = Some(Pulse { from: sent, end: sent + length, per_s });
            self.rounds = 0;
        }
    }

    /// Takes the delay for that of the path if a pulse has not waited.
    pub(super) fn judge(&mut self, history: &mut History) {
        let Some(pulse) = self.pulse else { return };
        let Some(last) = history.last().filter(|last| last.sent >= pulse.end) else { return };
        self.pulse = None;
        let Some(seen) = history.span(pulse.from, pulse.end) else { return };
        let arrivals_per_s = seen.arrivals_per_s / (1.0 - seen.loss).max(0.1);
        let flat_s = FLAT_S.max(FLAT_ROUND_TRIP_PART * history.rtt()) + history.jitter_s;
        let is_flat = seen.queue_most_s - seen.queue_least_s < flat_s;
        if seen.sent >= PULSE_DATAGRAMS_MIN && arrivals_per_s > UNDISPERSED * pulse.per_s && is_flat {
            history.set_base(last.delay_s.min(history.base() + seen.queue_least_s));
        }
    }
}
