//! Configuration of a TCP connection.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

/// Congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// One segment per RTT up, half down (RFC 5681), with recovery from several losses per window (RFC 6582; with SACK RFC 6675).
    NewReno,
    /// CUBIC 2.3 of Linux 6.12, with its integer arithmetic.
    Cubic,
    /// CUBIC 2.2 of Linux 2.6.26, with its integer arithmetic.
    Cubic2008,
    /// BBR version 1 of Linux: paced, by a model of the path's rate and RTT.
    Bbr1,
    /// DCTCP of Linux 6.12 (RFC 8257): Reno that reduces its window by the marked share. Uses ECN whatever [`Config::ecn`] states, and
    /// falls back to Reno if the other end lacks it.
    Dctcp,
    /// Fast recovery that ends at the first new acknowledgement (RFC 2581), without SACK.
    Reno,
    /// Fast retransmit, then slow start from one segment (4.3BSD-Tahoe), without SACK.
    Tahoe,
}

/// Reduction of the window during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Reduction in proportion to arrivals (PRR, RFC 6937 with the slow-start bound, RFC 9937).
    Prr,
    /// Immediate reduction: nothing new is sent until enough has left the network (RFC 6675).
    Classic,
    /// One segment less per two acknowledgements, and at most one above the flight (`tcp_cwnd_down` in `net/ipv4/tcp_input.c` of Linux
    /// 2.6.26).
    RateHalving,
}

/// Loss detection with SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// Three later segments were selectively acknowledged (RFC 6675, `IsLost`).
    Rfc6675,
    /// The highest selectively acknowledged segment is three or more later (FACK, as in Linux 2.6.26).
    Fack,
    /// A segment sent a reordering window later has arrived (RACK-TLP, RFC 8985), with Linux 6.12's companions: tail loss probe, F-RTO (RFC
    /// 5682), undo of needless reductions (RFC 3522, RFC 3708), and rate-sized bursts. Requires SACK, and [`Prr`](Reduction::Prr) as
    /// [`Reduction`].
    Rack,
}

/// Acknowledgement policy of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// RFC 9293, section 3.8.6.3, and RFC 5681, section 4.2: delay by [`Config::delayed_ack_segments`] or [`Config::delayed_ack`], and no
    /// delay around gaps.
    Rfc,
    /// Linux 6.12 (`__tcp_ack_snd_check`): the delay follows the sender's pace, and the end of a burst is acknowledged at once. From the
    /// fourth segment above a gap on, acknowledgements wait for 5 % of the RTT or 1 ms. Needless retransmissions are reported (RFC 2883),
    /// and the next 16 acknowledgements are not delayed.
    Linux,
}

/// Quantity bounded by the minimum RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// Floor of the timer: max(SRTT + 4·RTTVAR, floor), RFC 6298. On a steady path with an RTT near the floor the timer fires spuriously,
    /// because RTTVAR approaches zero.
    Timer,
    /// Floor of the margin above the RTT: SRTT + max(4·RTTVAR, floor), as in Linux.
    Margin,
}

/// Tick of the kernel that the models are compared with.
const LINUX_TICK: Duration = Duration::from_millis(10);

/// Ticks per level of the timer wheel: shorter timers have single-tick steps, and each further level has steps eight times as wide.
const WHEEL_LEVEL_TICKS: u64 = 63;
const WHEEL_LEVEL_SHIFT: u32 = 3;
const WHEEL_SHIFT_MAX: u32 = 24;

/// Configuration of both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Congestion control algorithm.
    pub congestion: Congestion,
    /// Reduction of the window during recovery.
    pub reduction: Reduction,
    /// Loss detection.
    pub loss_detection: LossDetection,
    /// Detect lost retransmissions when a later segment arrives, as in Linux since 2.6.24 and RFC 8985. Off, as in RFC 6675, only the timer
    /// detects them. Requires SACK.
    pub lost_retransmissions: bool,
    /// Data bytes of a full segment.
    pub mss_bytes: u32,
    /// Length of the IP and TCP headers of a data segment, options included: 52 with timestamps, 40 without.
    pub header_bytes: u32,
    /// Initial congestion window, in segments.
    pub initial_window_segments: u32,
    /// Initial slow-start threshold, in segments; `None` is unlimited.
    pub initial_ssthresh_segments: Option<u32>,
    /// Limit on bytes in flight: socket buffers and advertised window in one.
    pub max_window_bytes: u32,
    /// Floor of the RTO, or of a part of it by `rto_floor`.
    pub min_rto: Duration,
    /// Part of the RTO that has the floor.
    pub rto_floor: RtoFloor,
    /// Maximum RTO after back-off.
    pub max_rto: Duration,
    /// Initial RTO of the handshake.
    pub initial_rto: Duration,
    /// Segments per delayed acknowledgement.
    pub delayed_ack_segments: u32,
    /// Longest delay of an acknowledgement.
    pub delayed_ack: Duration,
    /// Initial segments that are acknowledged one by one (Linux: up to 16).
    pub quick_ack_segments: u32,
    /// Acknowledgement policy of the receiver.
    pub ack_policy: AckPolicy,
    /// Granularity of both ends' clocks: timers fire at ticks (`CONFIG_HZ` of Linux; 10 ms is 100 Hz). Zero for none.
    pub tick: Duration,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// HyStart, for CUBIC: leave slow start when delay or ACK train length indicate a full pipe.
    pub hystart: bool,
    /// Grow the window by acknowledged bytes (RFC 3465), not by the number of acknowledgements.
    pub byte_counting: bool,
    /// Explicit congestion notification (RFC 3168), requested by the sender and accepted by the receiver.
    pub ecn: bool,
}

/// Invalid setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The segment size is zero.
    #[error("the segment size is 0; set mss_bytes to 1448 or so")]
    Mss,
    /// The window is smaller than a segment.
    #[error(
        "the window of {max_window_bytes} bytes is smaller than a segment; set max_window_bytes to {mss_bytes} or more"
    )]
    Window {
        /// Given window.
        max_window_bytes: u32,
        /// Given segment size.
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
    /// Present-day TCP: Linux 6.12 on a machine with 100 ticks per second, and an unlimited window. Reno and Tahoe, which lack SACK, are as
    /// in [`rfc`](Self::rfc).
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

    /// TCP by today's RFCs: RFC 6675 loss detection, PRR, detection of lost retransmissions, initial window 10, an RTO of 200 ms above the
    /// RTT, delayed acknowledgements of 2 segments or 40 ms, clocks without ticks, and an unlimited window.
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

    /// TCP of Linux 2.6.26 in Debian Lenny: FACK, rate halving, initial window 3, 3 s for the handshake, growth by the number of
    /// acknowledgements, no HyStart, and socket buffers for 2.5 MB in flight.
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

    /// True if SACK is used: Reno and Tahoe lack it.
    pub(crate) fn uses_sack(&self) -> bool {
        self.sack && !matches!(self.congestion, Congestion::Reno | Congestion::Tahoe)
    }

    /// True if ECN is used, provided the other end does too.
    pub(crate) fn uses_ecn(&self) -> bool {
        self.ecn || self.congestion == Congestion::Dctcp
    }

    /// True if the sender works as in Linux 6.12.
    pub(crate) fn is_linux_sender(&self) -> bool {
        self.loss_detection == LossDetection::Rack && self.uses_sack()
    }

    /// Time at which a timer of `delay_ns`, set now, fires. With ticks it follows the kernel's timer wheel (`calc_wheel_index` in
    /// `kernel/time/timer.c`): never early, so up to a tick late, with coarser steps for long timers.
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

    /// SACK blocks that fit beside the other options.
    pub(crate) fn sack_blocks(&self) -> usize {
        if self.timestamps { 3 } else { 4 }
    }

    /// IP bytes of a SYN: MSS and window scale take 8 bytes of options.
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
