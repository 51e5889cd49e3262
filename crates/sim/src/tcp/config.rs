//! The settings of a connection.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

/// The algorithm which sets the congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// One segment per round trip up, half down (RFC 5681), surviving several losses in a window (RFC 6582; with
    /// selective acknowledgements RFC 6675).
    NewReno,
    /// CUBIC 2.3 of Linux 6.12, with its integer arithmetic.
    Cubic,
    /// CUBIC 2.2 of Linux 2.6.26, with its integer arithmetic.
    Cubic2008,
    /// BBR version 1 of Linux: paced, by a model of the path's rate and round trip.
    Bbr1,
    /// DCTCP of Linux 6.12 (RFC 8257): Reno which gives up as much of its window as was marked. Uses ECN whatever
    /// [`Config::ecn`] says, and is Reno where the other end does not.
    Dctcp,
    /// Fast recovery which ends at the first new acknowledgement (RFC 2581). Uses no selective acknowledgements.
    Reno,
    /// Fast retransmit, then slow start from one segment (4.3BSD-Tahoe). Uses no selective acknowledgements.
    Tahoe,
}

/// Course of the window's reduction in a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The window falls in proportion to what arrives (RFC 6937 with the slow-start bound, RFC 9937).
    Prr,
    /// The window falls at once: nothing new is sent until enough has left the network (RFC 6675).
    Classic,
    /// One segment less for every second acknowledgement, and never more than one above what is in flight
    /// (`tcp_cwnd_down` in `net/ipv4/tcp_input.c` of Linux 2.6.26).
    RateHalving,
}

/// Rule by which a segment is taken for lost, with selective acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// Three later segments were selectively acknowledged (RFC 6675, `IsLost`).
    Rfc6675,
    /// The highest segment selectively acknowledged is three or more later (forward acknowledgement, as Linux 2.6.26).
    Fack,
    /// Something sent a reordering window later has arrived (RACK-TLP, RFC 8985), with all that Linux 6.12 does beside
    /// it: a probe of the tail, F-RTO (RFC 5682), taking back what was reduced needlessly (RFC 3522, RFC 3708), and bursts
    /// sized by the rate. Of [`Reduction`] only [`Prr`](Reduction::Prr) goes with it. Needs selective acknowledgements.
    Rack,
}

/// Timing of the receiver's acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// As RFC 9293, section 3.8.6.3, and RFC 5681, section 4.2: [`Config::delayed_ack_segments`] or
    /// [`Config::delayed_ack`], and at once around gaps.
    Rfc,
    /// As Linux 6.12 (`__tcp_ack_snd_check`): the delay follows the sender's pace, the end of a burst is acknowledged at
    /// once, from the fourth segment above a gap on acknowledgements wait for 5 % of the round trip or 1 ms, needless
    /// retransmissions are reported (RFC 2883), and 16 acknowledgements after such a one are not delayed.
    Linux,
}

/// Quantity that the smallest retransmission timer bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// Floor of the timer: max(SRTT + 4·RTTVAR, floor), RFC 6298. On a steady path with a round trip near the floor the timer
    /// fires needlessly, because RTTVAR goes to zero.
    Timer,
    /// Floor of the margin above the round trip: SRTT + max(4·RTTVAR, floor), as Linux does.
    Margin,
}

/// Tick of the kernel that the models are checked against.
const LINUX_TICK: Duration = Duration::from_millis(10);

/// Timers below this many ticks end with a tick of their own; each level further out has steps eight times as wide.
const WHEEL_LEVEL_TICKS: u64 = 63;
const WHEEL_LEVEL_SHIFT: u32 = 3;
const WHEEL_SHIFT_MAX: u32 = 24;

/// Settings for both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Sets the congestion window.
    pub congestion: Congestion,
    /// Course of the window's reduction.
    pub reduction: Reduction,
    /// Rule by which a segment is lost.
    pub loss_detection: LossDetection,
    /// A retransmission is lost when something sent after it arrives, as in Linux since 2.6.24 and in RFC 8985. Without,
    /// as in RFC 6675, only the timer finds it. Needs selective acknowledgements.
    pub lost_retransmissions: bool,
    /// Data bytes of a full segment.
    pub mss_bytes: u32,
    /// IP and TCP header of a data segment, options included: 52 with timestamps, 40 without.
    pub header_bytes: u32,
    /// Congestion window after the handshake, in segments.
    pub initial_window_segments: u32,
    /// Slow-start threshold after the handshake, in segments; `None` is unlimited.
    pub initial_ssthresh_segments: Option<u32>,
    /// The most bytes in flight: socket buffers and advertised window in one.
    pub max_window_bytes: u32,
    /// Floor of the retransmission timer, or of a part of it by `rto_floor`.
    pub min_rto: Duration,
    /// The part of the timer that has the floor.
    pub rto_floor: RtoFloor,
    /// Ceiling of the retransmission timer when it backs off.
    pub max_rto: Duration,
    /// Retransmission timer of the handshake, before anything was measured.
    pub initial_rto: Duration,
    /// Segments after which a delayed acknowledgement is sent.
    pub delayed_ack_segments: u32,
    /// Longest delay of an acknowledgement.
    pub delayed_ack: Duration,
    /// Segments at the start that are acknowledged one by one (Linux: up to 16).
    pub quick_ack_segments: u32,
    /// Timing of the receiver's acknowledgements.
    pub ack_policy: AckPolicy,
    /// Granularity of both ends' clocks: timers fire with a tick (`CONFIG_HZ` of Linux; 10 ms is 100 Hz). Zero is none.
    pub tick: Duration,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// HyStart, for CUBIC: leaves slow start when the delay or the length of the ACK train says that the pipe is full.
    pub hystart: bool,
    /// The window grows by what is acknowledged (RFC 3465), not by how often.
    pub byte_counting: bool,
    /// Explicit congestion notification (RFC 3168), asked for by the sender and accepted by the receiver.
    pub ecn: bool,
}

/// A setting that no connection can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Segments carry nothing.
    #[error("the segment size is 0; set mss_bytes to 1448 or so")]
    Mss,
    /// Less than a segment may be in flight.
    #[error(
        "the window of {max_window_bytes} bytes is smaller than a segment; set max_window_bytes to {mss_bytes} or more"
    )]
    Window {
        /// The window asked for.
        max_window_bytes: u32,
        /// The segment size.
        mss_bytes: u32,
    },
    /// The connection could send nothing.
    #[error("the initial window is 0 segments; set initial_window_segments to 1 or more")]
    InitialWindow,
    /// The retransmission timer would fire without end.
    #[error(
        "a retransmission timer is 0 or its floor is above its ceiling; set min_rto and initial_rto from 1 ms to max_rto"
    )]
    Rto,
}

impl Config {
    /// A present-day TCP: Linux 6.12 on a machine with 100 clock ticks per second, with a window that never limits. Reno
    /// and Tahoe, which have no selective acknowledgements, are as [`rfc`](Self::rfc) has them.
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

    /// A TCP by the RFCs of today: RFC 6675 loss detection, PRR, lost retransmissions found, initial window 10, a
    /// retransmission timer of 200 ms above the round trip, delayed acknowledgements of 2 segments or 40 ms, clocks
    /// without ticks, and a window that never limits.
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

    /// The TCP of Linux 2.6.26 as Debian Lenny had it: forward acknowledgements, rate halving, initial window 3, 3 s
    /// for the handshake, growth by the number of acknowledgements, no HyStart, and socket buffers which hold
    /// 2.5 MB in flight.
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
    /// [`ConfigError`] names the setting with which a connection could not work.
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

    /// True if selective acknowledgements are used: Reno and Tahoe have none.
    pub(crate) fn uses_sack(&self) -> bool {
        self.sack && !matches!(self.congestion, Congestion::Reno | Congestion::Tahoe)
    }

    /// True if it takes part in ECN, if the other end does.
    pub(crate) fn uses_ecn(&self) -> bool {
        self.ecn || self.congestion == Congestion::Dctcp
    }

    /// True if the sender works as Linux 6.12 does.
    pub(crate) fn is_linux_sender(&self) -> bool {
        self.loss_detection == LossDetection::Rack && self.uses_sack()
    }

    /// Time at which a timer of `delay_ns`, set now, fires. With ticks it is as in the kernel's timer wheel
    /// (`calc_wheel_index` in `kernel/time/timer.c`): never early, so a whole tick late at most, and long timers with
    /// coarser steps.
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

    /// IP bytes of a segment with SYN: maximum segment size and window scale are negotiated in 8 bytes of options.
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
        // From 630 ms on steps are 80 ms wide.
        assert_eq!(at(0, 1_000), Time::from_ms(1_040));
        let exact = Config { tick: Duration::ZERO, ..config };
        assert_eq!(exact.deadline(Time::from_ms(3), 1_000_000), Time::from_ms(4));
    }
}
