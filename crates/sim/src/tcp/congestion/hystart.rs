//! HyStart, which ends slow start before the queue overflows (Ha and Rhee, "Taming the elephants", 2011), with Linux's
//! constants.

use dfcp_time::Time;

use super::Ack;

/// Congestion window from which HyStart is active, segments.
const LOW_WINDOW_SEGMENTS: u32 = 16;
/// RTT samples per round, from which the round's smallest RTT is taken.
const SAMPLES: u32 = 8;
/// Maximum gap between two acknowledgements of the same train, ns.
const TRAIN_GAP_NS: u64 = 2_000_000;
const DELAY_INCREASE_MIN_NS: u64 = 4_000_000;
const DELAY_INCREASE_MAX_NS: u64 = 16_000_000;

/// State of HyStart in the current round.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    found: bool,
    round_start: Time,
    /// Segment whose acknowledgement ends the round.
    round_end: u64,
    last_ack: Time,
    round_rtt_ns: u64,
    samples: u32,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            found: false,
            round_start: Time::ZERO,
            round_end: 0,
            last_ack: Time::ZERO,
            round_rtt_ns: u64::MAX,
            samples: 0,
        }
    }

    /// Returns true if slow start should end now. `min_rtt_ns` is the smallest RTT measured so far.
    pub(super) fn on_ack(&mut self, ack: &Ack, cwnd: u32, rtt_ns: u64, min_rtt_ns: u64) -> bool {
        let now = ack.now;
        if ack.una > self.round_end {
            self.round_start = now;
            self.last_ack = now;
            self.round_end = ack.end;
            self.round_rtt_ns = u64::MAX;
            self.samples = 0;
        }
        if self.found || cwnd < LOW_WINDOW_SEGMENTS {
            return false;
        }
        let now_ns = now.as_ns();
        if now_ns - self.last_ack.as_ns() <= TRAIN_GAP_NS {
            self.last_ack = now;
            self.found = now_ns - self.round_start.as_ns() > (min_rtt_ns + ack.burst_ns) / 2;
        }
        self.round_rtt_ns = self.round_rtt_ns.min(rtt_ns);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let increase = (min_rtt_ns / 8).clamp(DELAY_INCREASE_MIN_NS, DELAY_INCREASE_MAX_NS);
            self.found |= self.round_rtt_ns > min_rtt_ns + increase;
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_NS: u64 = 10_000_000;

    fn ack(us: u64, una: u64, end: u64) -> Ack {
        Ack { una, end, ..Ack::plain(Time::from_us(us), 2) }
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_it() {
        let mut hystart = HyStart::new();
        assert!(!hystart.on_ack(&ack(10_000, 1, 40), 20, RTT_NS, RTT_NS));
        for us in (11_000..=15_000).step_by(1_000) {
            assert!(!hystart.on_ack(&ack(us, 2, 40), 20, RTT_NS, RTT_NS), "{us}");
        }
        assert!(hystart.on_ack(&ack(15_001, 3, 40), 20, RTT_NS, RTT_NS));
    }

    #[test]
    fn a_pause_breaks_the_train_and_bursts_may_lengthen_it() {
        let mut hystart = HyStart::new();
        hystart.on_ack(&ack(10_000, 1, 40), 20, RTT_NS, RTT_NS);
        assert!(!hystart.on_ack(&ack(12_100, 2, 40), 20, RTT_NS, RTT_NS));
        assert!(!hystart.on_ack(&ack(16_000, 3, 40), 20, RTT_NS, RTT_NS));
        let mut hystart = HyStart::new();
        for us in (10_000..=15_000).step_by(1_000) {
            hystart.on_ack(&ack(us, 1, 40), 20, RTT_NS, RTT_NS);
        }
        assert!(!hystart.on_ack(&Ack { burst_ns: 1_000_000, ..ack(15_500, 2, 40) }, 20, RTT_NS, RTT_NS));
    }

    #[test]
    fn a_delay_of_4_ms_ends_it_but_not_below_16_segments() {
        for (cwnd, found) in [(16, true), (15, false)] {
            let mut hystart = HyStart::new();
            hystart.on_ack(&ack(10_000, 1, 40), cwnd, RTT_NS + 4_100_000, RTT_NS);
            let later = (2..=9)
                .map(|number| hystart.on_ack(&ack(10_000 + 2_100 * number, 1, 40), cwnd, RTT_NS + 4_100_000, RTT_NS));
            assert_eq!(later.last(), Some(found), "{cwnd}");
        }
    }
}
