//! Configuration of a TCP connection.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

/// Congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// NewReno: the window grows by a segment per RTT and is halved after a loss (RFC 5681), with recovery from several
    /// losses per window (RFC 6582; with SACK RFC 6675).
    NewReno,
    /// CUBIC 2.3 of Linux 6.12, with the same integer arithmetic.
    Cubic,
    /// CUBIC 2.2 of Linux 2.6.26, with the same integer arithmetic.
    Cubic2008,
    /// BBR version 1 of Linux: paces by a model of the path's rate and RTT.
    Bbr1,
    /// DCTCP of Linux 6.12 (RFC 8257): Reno that reduces its window by the share of marked segments. Uses ECN even if
    /// [`Config::ecn`] is false, and falls back to Reno if the other end does not support ECN.
    Dctcp,
    /// Reno: fast recovery that ends at the first new acknowledgement (RFC 2581), without SACK.
    Reno,
    /// Tahoe: fast retransmit, then slow start from one segment (4.3BSD-Tahoe), without SACK.
    Tahoe,
}

/// Method of reducing the window during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Gradually, in proportion to the delivered data (PRR, RFC 6937 with the slow-start bound, RFC 9937).
    Prr,
    /// Immediately: nothing new is sent until enough data has left the network (RFC 6675).
    Classic,
    /// By one segment per two acknowledgements, and to at most one segment more than is in flight (`tcp_cwnd_down` in
    /// `net/ipv4/tcp_input.c` of Linux 2.6.26).
    RateHalving,
}

/// Rule for detecting losses with SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// A segment is lost if three later segments were selectively acknowledged (RFC 6675, `IsLost`).
    Rfc6675,
    /// A segment is lost if it is three or more below the highest selectively acknowledged segment (FACK, as in Linux
    /// 2.6.26).
    Fack,
    /// A segment is lost if a segment sent a reordering window later has arrived (RACK-TLP, RFC 8985). Related
    /// mechanisms of Linux 6.12 are included: tail loss probe, F-RTO (RFC 5682), undo of needless reductions (RFC 3522,
    /// RFC 3708), and bursts sized by the rate. Requires SACK, and [`Prr`](Reduction::Prr) as [`Reduction`].
    Rack,
}

/// Rule by which the receiver delays acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// RFC 9293, section 3.8.6.3, and RFC 5681, section 4.2: delayed by at most [`Config::delayed_ack_segments`] and
    /// [`Config::delayed_ack`], and sent immediately around gaps.
    Rfc,
    /// Linux 6.12 (`__tcp_ack_snd_check`). The delay follows the sender's pace, and the end of a burst is acknowledged
    /// immediately. From the fourth segment above a gap on, acknowledgements wait for 5 % of the RTT, at most 1 ms.
    /// Needless retransmissions are reported (RFC 2883); after one, 16 acknowledgements are not delayed.
    Linux,
}

/// Part of the RTO to which the minimum applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// The whole timer: max(SRTT + 4·RTTVAR, minimum), RFC 6298. On a steady path with an RTT near the minimum, the
    /// timer fires spuriously, because RTTVAR approaches zero.
    Timer,
    /// The margin above the RTT: SRTT + max(4·RTTVAR, minimum), as in Linux.
    Margin,
}

/// Tick length of the kernel with which the models are compared.
const LINUX_TICK: Duration = Duration::from_millis(10);

/// Number of ticks per level of the kernel's timer wheel. Timers shorter than this have steps of one tick. In each
/// further level, steps are eight times as wide.
const WHEEL_LEVEL_TICKS: u64 = 63;
const WHEEL_LEVEL_SHIFT: u32 = 3;
const WHEEL_SHIFT_MAX: u32 = 24;

/// Configuration of both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Congestion-control algorithm.
    pub congestion: Congestion,
    /// Method of reducing the window during recovery.
    pub reduction: Reduction,
    /// Rule for detecting losses with SACK.
    pub loss_detection: LossDetection,
    /// Detect the loss of a retransmission when a segment sent later arrives, as in RFC 8985 and in Linux since 2.6.24.
    /// If false, only the timer detects it, as in RFC 6675. Requires SACK.
    pub lost_retransmissions: bool,
    /// Data bytes of a full segment.
    pub mss_bytes: u32,
    /// Length of the IP and TCP headers of a data segment with options, bytes: 52 with timestamps, 40 without.
    pub header_bytes: u32,
    /// Initial congestion window, in segments.
    pub initial_window_segments: u32,
    /// Initial slow-start threshold, in segments; `None` for unlimited.
    pub initial_ssthresh_segments: Option<u32>,
    /// Maximum bytes in flight, which stands for both socket buffers and the advertised window.
    pub max_window_bytes: u32,
    /// Minimum of the RTO, or of the part of it given by `rto_floor`.
    pub min_rto: Duration,
    /// Part of the RTO to which `min_rto` applies.
    pub rto_floor: RtoFloor,
    /// Maximum RTO after exponential back-off.
    pub max_rto: Duration,
    /// RTO of the handshake, before the first RTT sample.
    pub initial_rto: Duration,
    /// Number of segments after which a delayed acknowledgement is sent.
    pub delayed_ack_segments: u32,
    /// Longest delay of an acknowledgement.
    pub delayed_ack: Duration,
    /// Number of segments at the start that are acknowledged one by one (Linux: up to 16).
    pub quick_ack_segments: u32,
    /// Rule by which the receiver delays acknowledgements.
    pub ack_policy: AckPolicy,
    /// Tick length of both ends' clocks (`CONFIG_HZ` of Linux; 10 ms correspond to 100 Hz). Timers fire at ticks. Zero
    /// for exact timers.
    pub tick: Duration,
    /// Use selective acknowledgements.
    pub sack: bool,
    /// Use timestamps (RFC 7323).
    pub timestamps: bool,
    /// Use HyStart with CUBIC: leave slow start when the delay or the length of ACK trains indicates a full pipe.
    pub hystart: bool,
    /// Grow the window by acknowledged bytes (RFC 3465) instead of the number of acknowledgements.
    pub byte_counting: bool,
    /// Use explicit congestion notification (RFC 3168): the sender requests it and the receiver accepts it.
    pub ecn: bool,
}

/// Invalid setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The segment size is zero.
    #[error("the segment size is 0; set mss_bytes to 1448 or so")]
    Mss,
    /// The maximum window is smaller than a segment.
    #[error(
        "the window of {max_window_bytes} bytes is smaller than a segment; set max_window_bytes to {mss_bytes} or more"
    )]
    Window {
        /// Window given, bytes.
        max_window_bytes: u32,
        /// Segment size given, bytes.
        mss_bytes: u32,
    },
    /// The initial window is zero.
    #[error("the initial window is 0 segments; set initial_window_segments to 1 or more")]
    InitialWindow,
    /// `min_rto` or `initial_rto` is below 1 ms or above `max_rto`.
    #[error(
        "a retransmission timer is 0 or its floor is above its ceiling; set min_rto and initial_rto from 1 ms to max_rto"
    )]
    Rto,
}

impl Config {
    /// Returns the configuration of present-day TCP: Linux 6.12 on a machine with 100 ticks per second, and an
    /// unlimited window. Reno and Tahoe, which have no SACK, are configured as in [`rfc`](Self::rfc).
    #[must_use]
    pub fn modern(congestion: Congestion) -> Self {
        let rfc = Self::rfc(congestion);
        if !rfc.sack {
            return rfc;
        }
        Self {
            loss_detection: LossDetection::Rack,
            quick_ack_segments: 16,
            ack_policy: AckPolicy::Linux,
            tick: LINUX_TICK,
            ..rfc
        }
    }

    /// Returns the configuration of TCP by today's RFCs: loss detection of RFC 6675, PRR, detection of lost
    /// retransmissions, an initial window of 10 segments, an RTO of at least 200 ms above the RTT, acknowledgements
    /// delayed by 2 segments or 40 ms, clocks without ticks, and an unlimited window.
    #[must_use]
    pub fn rfc(congestion: Congestion) -> Self {
        let sack = !matches!(congestion, Congestion::Reno | Congestion::Tahoe);
        Self {
            congestion,
            reduction: if sack { Reduction::Prr } else { Reduction::Classic },
            loss_detection: LossDetection::Rfc6675,
            lost_retransmissions: true,
            mss_bytes: 1448,
            header_bytes: 52,
            initial_window_segments: 10,
            initial_ssthresh_segments: None,
            max_window_bytes: 1 << 30,
            min_rto: Duration::from_millis(200),
            rto_floor: RtoFloor::Margin,
            max_rto: Duration::from_secs(120),
            initial_rto: Duration::from_secs(1),
            delayed_ack_segments: 2,
            delayed_ack: Duration::from_millis(40),
            quick_ack_segments: 0,
            ack_policy: AckPolicy::Rfc,
            tick: Duration::ZERO,
            sack,
            timestamps: true,
            hystart: true,
            byte_counting: true,
            ecn: congestion == Congestion::Dctcp,
        }
    }

    /// Returns the configuration of Linux 2.6.26 in Debian Lenny: FACK, rate halving, an initial window of 3 segments,
    /// 3 s for the handshake, growth by the number of acknowledgements, no HyStart, and socket buffers for 2.5 MB in
    /// flight.
    #[must_use]
    pub fn linux_2008(congestion: Congestion) -> Self {
        Self {
            reduction: Reduction::RateHalving,
            loss_detection: LossDetection::Fack,
            initial_window_segments: 3,
            max_window_bytes: 2_500_000,
            initial_rto: Duration::from_secs(3),
            quick_ack_segments: 16,
            hystart: false,
            byte_counting: false,
            ..Self::rfc(congestion)
        }
    }

    /// # Errors
    ///
    /// Fails with a [`ConfigError`] that names the invalid setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.mss_bytes == 0 {
            return Err(ConfigError::Mss);
        }
        if self.max_window_bytes < self.mss_bytes {
            return Err(ConfigError::Window { max_window_bytes: self.max_window_bytes, mss_bytes: self.mss_bytes });
        }
        if self.initial_window_segments == 0 {
            return Err(ConfigError::InitialWindow);
        }
        let floor = self.min_rto.min(self.initial_rto);
        if floor < Duration::from_millis(1) || self.max_rto < self.min_rto.max(self.initial_rto) {
            return Err(ConfigError::Rto);
        }
        Ok(())
    }

    /// Returns true if SACK is used. Reno and Tahoe never use it.
    pub(crate) fn uses_sack(&self) -> bool {
        self.sack && !matches!(self.congestion, Congestion::Reno | Congestion::Tahoe)
    }

    /// Returns true if ECN is used, provided that the other end supports it.
    pub(crate) fn uses_ecn(&self) -> bool {
        self.ecn || self.congestion == Congestion::Dctcp
    }

    /// Returns true if the sender behaves as in Linux 6.12.
    pub(crate) fn is_linux_sender(&self) -> bool {
        self.loss_detection == LossDetection::Rack && self.uses_sack()
    }

    /// Returns the time at which a timer of `delay_ns` fires that is set now. With ticks, it follows the kernel's timer
    /// wheel (`calc_wheel_index` in `kernel/time/timer.c`). Timers never fire early, but up to a tick late, and long
    /// timers have coarser steps.
    pub(crate) fn deadline(&self, now: Time, delay_ns: u64) -> Time {
        let tick_ns = duration_ns(self.tick);
        if tick_ns == 0 {
            return now + Duration::from_nanos(delay_ns);
        }
        let delay = delay_ns.div_ceil(tick_ns);
        let mut shift = 0;
        while delay >= WHEEL_LEVEL_TICKS << shift && shift < WHEEL_SHIFT_MAX {
            shift += WHEEL_LEVEL_SHIFT;
        }
        let expires = now.as_ns() / tick_ns + delay;
        Time::from_ns((((expires >> shift) + 1) << shift).saturating_mul(tick_ns))
    }

    /// Returns the number of SACK blocks that fit beside the other options.
    pub(crate) fn sack_blocks(&self) -> usize {
        if self.timestamps { 3 } else { 4 }
    }

    /// Returns the length of a SYN's IP packet, bytes. MSS and window scale take 8 bytes of options.
    pub(crate) fn syn_bytes(&self) -> u32 {
        self.header_bytes.saturating_add(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_end_with_a_tick_never_early() {
        let config = Config::modern(Congestion::Cubic);
        let at = |now_ms, delay_ms: u64| config.deadline(Time::from_ms(now_ms), delay_ms * 1_000_000);
        assert_eq!(at(3, 1), Time::from_ms(20));
        assert_eq!(at(9, 10), Time::from_ms(20));
        assert_eq!(at(10, 200), Time::from_ms(220));
        // From 630 ms on, steps are 80 ms wide.
        assert_eq!(at(0, 1_000), Time::from_ms(1_040));
        let exact = Config { tick: Duration::ZERO, ..config };
        assert_eq!(exact.deadline(Time::from_ms(3), 1_000_000), Time::from_ms(4));
    }
}
