//! The settings of a connection.

use std::time::Duration;

/// The algorithm which sets the congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// One segment per round trip up, half down (RFC 5681), surviving several losses in a window (RFC 6582; with
    /// selective acknowledgements RFC 6675).
    NewReno,
    /// CUBIC of RFC 9438.
    Cubic,
    /// CUBIC 2.2 of Linux 2.6.26, with its integer arithmetic.
    Cubic2008,
    /// BBR version 1 of Linux: paced, by a model of the path's rate and round trip.
    Bbr1,
    /// Fast recovery which ends at the first new acknowledgement (RFC 2581). Uses no selective acknowledgements.
    Reno,
    /// Fast retransmit, then slow start from one segment (4.3BSD-Tahoe). Uses no selective acknowledgements.
    Tahoe,
}

/// How the window comes down in a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// In proportion to what arrives (RFC 6937 with the slow-start bound, RFC 9937).
    Prr,
    /// At once: nothing new is sent until enough has left the network (RFC 6675).
    Classic,
    /// One segment less for every second acknowledgement, and never more than one above what is in flight
    /// (`tcp_cwnd_down` in `net/ipv4/tcp_input.c` of Linux 2.6.26).
    RateHalving,
}

/// When a segment is taken for lost, with selective acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// Three later segments were selectively acknowledged (RFC 6675, `IsLost`).
    Rfc6675,
    /// The highest segment selectively acknowledged is three or more later (forward acknowledgement, as Linux 2.6.26).
    Fack,
}

/// What the smallest retransmission timer is the floor of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// Of the timer: max(SRTT + 4·RTTVAR, floor), RFC 6298. On a steady path with a round trip near the floor the timer
    /// fires needlessly, because RTTVAR goes to zero.
    Timer,
    /// Of what is added to the round trip: SRTT + max(4·RTTVAR, floor), as Linux does.
    Margin,
}

/// What both ends of a connection are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Sets the congestion window.
    pub congestion: Congestion,
    /// How the window comes down.
    pub reduction: Reduction,
    /// When a segment is lost.
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
    /// Floor of the retransmission timer ...
    pub min_rto: Duration,
    /// ... or of a part of it.
    pub rto_floor: RtoFloor,
    /// Ceiling of the retransmission timer when it backs off.
    pub max_rto: Duration,
    /// Retransmission timer of the handshake, before anything was measured.
    pub initial_rto: Duration,
    /// An acknowledgement waits for this many segments ...
    pub delayed_ack_segments: u32,
    /// ... but no longer than this.
    pub delayed_ack: Duration,
    /// How many segments at the start are acknowledged one by one (Linux: up to 16).
    pub quick_ack_segments: u32,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// HyStart, for CUBIC: leaves slow start when the delay or the length of the ACK train says that the pipe is full.
    pub hystart: bool,
    /// The window grows by what is acknowledged (RFC 3465), not by how often.
    pub byte_counting: bool,
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
    /// A present-day TCP: RFC 6675 loss detection, PRR, lost retransmissions found, initial window 10, a retransmission timer of
    /// 200 ms above the round trip, delayed
    /// acknowledgements of 2 segments or 40 ms, and a window that never limits.
    #[must_use]
    pub fn modern(congestion: Congestion) -> Self {
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
            sack,
            timestamps: true,
            hystart: true,
            byte_counting: true,
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
            ..Self::modern(congestion)
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

    /// Whether selective acknowledgements are used: Reno and Tahoe have none.
    pub(crate) fn uses_sack(&self) -> bool {
        self.sack && !matches!(self.congestion, Congestion::Reno | Congestion::Tahoe)
    }

    /// How many SACK blocks fit beside the other options.
    pub(crate) fn sack_blocks(&self) -> usize {
        if self.timestamps { 3 } else { 4 }
    }

    /// IP bytes of a segment with SYN: maximum segment size and window scale are negotiated in 8 bytes of options.
    pub(crate) fn syn_bytes(&self) -> u32 {
        self.header_bytes.saturating_add(8)
    }
}
