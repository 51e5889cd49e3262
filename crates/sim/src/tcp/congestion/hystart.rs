//! HyStart: ends slow start before the queue overflows (Ha and Rhee, "Taming the elephants", 2011), with the constants
//! of Linux.

use dfcp_time::Time;

/// Below this window nothing is decided.
const LOW_WINDOW_SEGMENTS: u32 = 16;
/// Round trips looked at in a round.
const SAMPLES: u32 = 8;
/// Acknowledgements this close together are one train.
const TRAIN_GAP_NS: u64 = 2_000_000;
const DELAY_INCREASE_MIN_NS: u64 = 4_000_000;
const DELAY_INCREASE_MAX_NS: u64 = 16_000_000;

/// The state of the round which is being watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    found: bool,
    round_start: Time,
    /// The round ends when this segment is acknowledged.
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

    /// Returns whether slow start should end now. `una` is the first segment not acknowledged, `end` the next to be
    /// sent, `min_rtt_ns` the smallest round trip so far.
    pub(super) fn on_ack(&mut self, now: Time, una: u64, end: u64, cwnd: u32, rtt_ns: u64, min_rtt_ns: u64) -> bool {
        if una > self.round_end {
            self.round_start = now;
            self.last_ack = now;
            self.round_end = end;
            self.round_rtt_ns = u64::MAX;
            self.samples = 0;
        }
        if self.found || cwnd < LOW_WINDOW_SEGMENTS {
            return false;
        }
        let now_ns = now.as_ns();
        if now_ns - self.last_ack.as_ns() <= TRAIN_GAP_NS {
            self.last_ack = now;
            self.found = now_ns - self.round_start.as_ns() > min_rtt_ns / 2;
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
