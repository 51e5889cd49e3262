//! BBR's long-term rate: the rate of a policer. A policer is assumed if two intervals have equal rates and high loss.

use dfcp_time::Time;

use super::BbrAck;

const INTERVAL_MIN_ROUNDS: u32 = 4;
const USE_ROUNDS: u32 = 48;
/// Ratio of lost to delivered segments from which an interval counts (50/256 in Linux).
const LOSS_THRESHOLD: f64 = 50.0 / 256.0;
/// Relative difference up to which two rates count as equal.
const RATE_TOLERANCE: f64 = 1.0 / 8.0;
/// Absolute difference up to which two rates count as equal, bytes per second (4 kbit/s).
const RATE_TOLERANCE_BYTES: f64 = 500.0;

/// Result of the policer detection at one acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    /// Use the policed rate that was just found.
    Use,
    /// Stop using the policed rate, and probe for bandwidth again.
    Stop,
}

/// Port of `bbr_lt_bw_sampling` and related functions in `net/ipv4/tcp_bbr.c`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    using: bool,
    rounds: u32,
    /// Policed rate, segments per second; 0 if none was found.
    rate: f64,
    last_delivered: u64,
    last_lost: u64,
    last_time: Time,
}

impl Policer {
    /// Returns the policed rate if it is to be used instead of the model's rate.
    pub(super) fn rate(&self) -> Option<f64> {
        self.using.then_some(self.rate)
    }

    pub(super) fn on_ack(&mut self, ack: &BbrAck, round_start: bool, probing: bool, mss: f64) -> Verdict {
        if self.using {
            if probing && round_start {
                self.rounds += 1;
                if self.rounds >= USE_ROUNDS {
                    self.reset(ack);
                    return Verdict::Stop;
                }
            }
            return Verdict::Nothing;
        }
        if !self.sampling {
            if ack.losses == 0 {
                return Verdict::Nothing;
            }
            self.start_interval(ack);
            self.sampling = true;
        }
        if ack.sample.app_limited {
            self.reset(ack);
            return Verdict::Nothing;
        }
        self.rounds += u32::from(round_start);
        if self.rounds > 4 * INTERVAL_MIN_ROUNDS {
            self.reset(ack);
            return Verdict::Nothing;
        }
        if self.rounds < INTERVAL_MIN_ROUNDS || ack.losses == 0 {
            return Verdict::Nothing;
        }
        self.end_interval(ack, mss)
    }

    fn end_interval(&mut self, ack: &BbrAck, mss: f64) -> Verdict {
        let lost = (ack.lost_total - self.last_lost) as f64;
        let delivered = (ack.delivered_total - self.last_delivered) as f64;
        let seconds = (ack.now - self.last_time).as_secs_f64();
        if delivered == 0.0 || lost < LOSS_THRESHOLD * delivered || seconds < 0.001 {
            return Verdict::Nothing;
        }
        let rate = delivered / seconds;
        let difference = (rate - self.rate).abs();
        if self.rate > 0.0 && (difference <= RATE_TOLERANCE * self.rate || difference * mss <= RATE_TOLERANCE_BYTES) {
            self.rate = (rate + self.rate) / 2.0;
            self.using = true;
            self.rounds = 0;
            return Verdict::Use;
        }
        self.rate = rate;
        self.start_interval(ack);
        Verdict::Nothing
    }

    fn start_interval(&mut self, ack: &BbrAck) {
        self.last_time = ack.now;
        self.last_delivered = ack.delivered_total;
        self.last_lost = ack.lost_total;
        self.rounds = 0;
    }

    fn reset(&mut self, ack: &BbrAck) {
        *self = Self::default();
        self.start_interval(ack);
    }
}
