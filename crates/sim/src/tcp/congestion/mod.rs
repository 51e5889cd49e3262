//! Congestion-control algorithms.

mod bbr;
mod cubic;
mod cubic_2008;
mod dctcp;
mod hystart;

use dfcp_time::Time;

pub(crate) use self::bbr::{Bbr, BbrAck};
use self::cubic::Cubic;
use self::cubic_2008::Cubic2008;
use self::dctcp::Dctcp;
use super::config::{Config, Congestion, Reduction};
use super::window::Window;

/// Input of a congestion-control algorithm at one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) now: Time,
    /// Acknowledged segments; 1 if the algorithm is configured to count acknowledgements instead.
    pub(crate) acked: u32,
    /// Acknowledged segments, even if acknowledgements are counted.
    pub(crate) segments: u32,
    pub(crate) rtt_ns: Option<u64>,
    /// Time by which bursts may lengthen a train of acknowledgements, ns (`hystart_ack_delay` of Linux).
    pub(crate) burst_ns: u64,
    /// First segment that is not acknowledged.
    pub(crate) una: u64,
    /// Next segment to be sent for the first time.
    pub(crate) end: u64,
}

#[cfg(test)]
impl Ack {
    /// Returns an acknowledgement of `acked` segments.
    pub(crate) fn plain(now: Time, acked: u32) -> Self {
        Self { now, acked, segments: acked, rtt_ns: None, burst_ns: 0, una: 0, end: 0 }
    }
}

/// Congestion-control algorithm with its state.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    /// NewReno, Reno and Tahoe, which differ only in their recovery.
    Reno,
    Cubic(Cubic),
    Cubic2008(Cubic2008),
    Bbr(Box<Bbr>),
    Dctcp(Dctcp),
}

impl Controller {
    pub(crate) fn new(config: &Config, seed: u64) -> Self {
        match config.congestion {
            Congestion::NewReno | Congestion::Reno | Congestion::Tahoe => Self::Reno,
            Congestion::Cubic => Self::Cubic(Cubic::new(config.hystart, config.tick)),
            Congestion::Cubic2008 => Self::Cubic2008(Cubic2008::new(config.hystart)),
            Congestion::Dctcp => Self::Dctcp(Dctcp::new()),
            Congestion::Bbr1 => Self::Bbr(Box::new(Bbr::new(config.mss_bytes, config.initial_window_segments, seed))),
        }
    }

    /// Processes an acknowledgement of new data. Called in every phase, including recovery.
    pub(crate) fn on_rtt(&mut self, window: &mut Window, ack: &Ack) {
        match self {
            Self::Reno | Self::Dctcp(_) | Self::Bbr(_) => {}
            Self::Cubic(cubic) => cubic.on_rtt(window, ack),
            Self::Cubic2008(cubic) => cubic.on_rtt(window, ack),
        }
    }

    /// Grows the window for newly acknowledged segments.
    pub(crate) fn grow(&mut self, window: &mut Window, ack: &Ack) {
        match self {
            Self::Reno | Self::Dctcp(_) => {
                let mut acked = ack.acked;
                if window.in_slow_start() {
                    acked = window.slow_start(acked);
                }
                if acked > 0 {
                    window.additive_increase(window.cwnd, acked);
                }
            }
            Self::Cubic(cubic) => cubic.grow(window, ack),
            Self::Cubic2008(cubic) => cubic.grow(window, ack),
            Self::Bbr(_) => {}
        }
    }

    /// Called when sending starts with nothing in flight. The previous segment was sent at `last_sent`.
    pub(crate) fn on_transmit_start(&mut self, now: Time, last_sent: Time) {
        if let Self::Cubic(cubic) = self {
            cubic.on_transmit_start(now, last_sent);
        }
    }

    /// Returns the slow-start threshold after a loss, in segments.
    pub(crate) fn threshold(&mut self, window: &Window) -> u32 {
        match self {
            Self::Reno | Self::Dctcp(_) => (window.cwnd / 2).max(2),
            Self::Cubic(cubic) => cubic.threshold(window),
            Self::Cubic2008(cubic) => cubic.threshold(window),
            // BBR saves only the window; the threshold does not change.
            Self::Bbr(bbr) => {
                bbr.save_cwnd(window);
                window.ssthresh
            }
        }
    }

    /// Returns the slow-start threshold, in segments, after an ECN mark or after a loss that a probe has already
    /// repaired. Only DCTCP distinguishes this from a loss.
    pub(crate) fn cwr_threshold(&mut self, window: &Window) -> u32 {
        match self {
            Self::Dctcp(dctcp) => dctcp.threshold_after_mark(window),
            _ => self.threshold(window),
        }
    }

    /// Returns the minimum window for rate halving, segments. In Linux 2.6.26, only Reno may fall to half the
    /// threshold.
    pub(crate) fn halving_floor(&self, window: &Window, method: Reduction) -> u32 {
        match self {
            Self::Reno if method == Reduction::RateHalving => (window.ssthresh / 2).max(1),
            _ => window.ssthresh,
        }
    }

    /// Handles a timeout. Called after [`threshold`](Self::threshold).
    pub(crate) fn on_timeout(&mut self) {
        match self {
            Self::Reno | Self::Dctcp(_) | Self::Bbr(_) => {}
            Self::Cubic(cubic) => cubic.on_timeout(),
            Self::Cubic2008(cubic) => cubic.on_timeout(),
        }
    }
}
