//! Detection of a longer path, which looks like a queue (\[auto-7\]).
//!
//! If the window falls and the delay stays, either others fill the queue, or there is none. A pulse that is sent faster
//! shows which: without a queue it arrives as it was sent.

use super::capacity::TRAIN;
use super::history::{History, Span};

/// A pulse is sent after [`ROUNDS`] in which the delay exceeds the target by this part of the round trip, and stays above this
/// part of what it was.
const HIGH_PART: f64 = 0.05;
const STAYS_PART: f64 = 0.9;
const ROUNDS: u32 = 4;
/// The pulse is faster by this part of the capacity, and takes this part of a round trip.
const FASTER_PART: f64 = 0.3;
const PULSE_ROUND_TRIP_PART: f64 = 1.0 / 16.0;
/// A pulse that arrives at this part of its rate, with delays that differ by no more than these, has not waited.
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
    /// Rate of the next datagram, if it is one of a pulse, datagrams per second.
    pub(super) fn pulse_per_s(&self, sent: f64) -> Option<f64> {
        self.pulse.filter(|pulse| (pulse.from..pulse.end).contains(&sent)).map(|pulse| pulse.per_s)
    }

    /// Discards the pulse: recent datagrams are not comparable with later ones.
    pub(super) fn forget_pulse(&mut self) {
        (self.pulse, self.rounds) = (None, 0);
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

    /// Takes the delay for that of the path if a pulse has not waited. What the path loses by itself is `path_loss`; a pulse that
    /// lost more found a full queue, whose delay does not change either.
    pub(super) fn judge(&mut self, history: &mut History, path_loss: f64) {
        let Some(pulse) = self.pulse else { return };
        let Some(last) = history.last().filter(|last| last.sent >= pulse.end) else { return };
        self.pulse = None;
        let Some(seen) = history.span(pulse.from, pulse.end) else { return };
        let arrivals_per_s = seen.arrivals_per_s / (1.0 - path_loss);
        let flat_s = FLAT_S.max(FLAT_ROUND_TRIP_PART * history.rtt()) + history.jitter_s();
        let is_flat = seen.queue_most_s - seen.queue_least_s < flat_s;
        if seen.sent >= PULSE_DATAGRAMS_MIN && arrivals_per_s > UNDISPERSED * pulse.per_s && is_flat {
            history.set_base(last.delay_s.min(history.base() + seen.queue_least_s));
        }
    }
}

#[cfg(test)]
mod tests {
    use dfcp_time::Time;

    use super::*;
    use crate::config::controller::Mark;

    const CAPACITY_PER_S: f64 = 1_000.0;

    /// Takes in a mark of a datagram that was sent at `sent_ms` and took `delay_ms`.
    fn arrive(history: &mut History, sent: u64, received: u64, sent_ms: f64, delay_ms: f64) {
        let arrived_us = ((sent_ms + delay_ms) * 1e3) as u32;
        let sent_at = Time::from_us((sent_ms * 1e3) as u64);
        history.on_marks(&[Mark { sent, received, sent_at, arrived_us }], Some(0.0));
    }

    /// Growth of the least delay, seconds, after a pulse of datagrams that all took 60 ms, with a least of 10 ms before; `arrived`
    /// of each four of them arrived.
    fn growth_after_pulse(arrived: u64) -> f64 {
        let (mut history, mut path) = (History::default(), LongerPath::default());
        history.on_rtt(Time::ZERO, 0.1);
        arrive(&mut history, 1, 1, 0.0, 10.0);
        let before = history.base();
        let high = Span { queue_least_s: 0.05, queue_most_s: 0.05, sent: 10.0, ..Span::default() };
        for _ in 0..ROUNDS {
            assert_eq!(path.pulse_per_s(1.0), None);
            path.note(&history, high, 0.005, 1.0, (100.0, CAPACITY_PER_S));
        }
        let per_s = path.pulse_per_s(1.0).expect("a pulse is due");
        assert!((per_s - 400.0).abs() < 1e-9, "{per_s}");
        for number in 1..=30 {
            let received = 1 + number * arrived / 4;
            arrive(&mut history, 1 + number, received, 1_000.0 + number as f64 * 1e3 / per_s, 60.0);
        }
        path.judge(&mut history, 0.0);
        assert_eq!(path.pulse_per_s(2.0), None, "the pulse is over");
        history.base() - before
    }

    #[test]
    fn a_pulse_that_does_not_wait_proves_a_longer_path() {
        assert!((growth_after_pulse(4) - 0.05).abs() < 1e-3);
    }

    /// The delay of a queue that is full does not change either.
    #[test]
    fn a_pulse_through_a_full_queue_proves_nothing() {
        assert!(growth_after_pulse(3).abs() < 1e-9);
    }
}
