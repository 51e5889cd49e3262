//! Congestion control algorithms.

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

/// Input of an algorithm from one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) now: Time,
    /// Segments acknowledged; 1 where acknowledgements are counted.
    pub(crate) acked: u32,
    /// Segments acknowledged in any case.
    pub(crate) segments: u32,
    pub(crate) rtt_ns: Option<u64>,
    /// Time that bursts may add to an ACK train (`hystart_ack_delay` of Linux).
    pub(crate) burst_ns: u64,
    /// First segment not acknowledged.
    pub(crate) una: u64,
    /// Next segment to be sent.
    pub(crate) end: u64,
}

#[cfg(test)]
impl Ack {
    /// Acknowledgement of `acked` segments in order.
    pub(crate) fn plain(now: Time, acked: u32) -> Self {
        Self { now, acked, segments: acked, rtt_ns: None, burst_ns: 0, una: 0, end: 0 }
    }
}

/// Algorithm with its state.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    /// NewReno, Reno and Tahoe, which differ in their recovery.
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

    /// Processes every acknowledgement of new data, in any phase.
    pub(crate) fn on_rtt(&mut self, window: &mut Window, ack: &Ack) {
        match self {
            Self::Reno | Self::Dctcp(_) | Self::Bbr(_) => {}
            Self::Cubic(cubic) => cubic.on_rtt(window, ack),
            Self::Cubic2008(cubic) => cubic.on_rtt(window, ack),
        }
    }

    /// Grows the window.
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

    /// Handles a transmission with nothing in flight; the last one was at `last_sent`.
    pub(crate) fn on_transmit_start(&mut self, now: Time, last_sent: Time) {
        if let Self::Cubic(cubic) = self {
            cubic.on_transmit_start(now, last_sent);
        }
    }

    /// Slow-start threshold after a loss, in segments.
    pub(crate) fn threshold(&mut self, window: &Window) -> u32 {
        match self {
            Self::Reno | Self::Dctcp(_) => (window.cwnd / 2).max(2),
            Self::Cubic(cubic) => cubic.threshold(window),
            Self::Cubic2008(cubic) => cubic.threshold(window),
            // Only the window is saved; the threshold stays.
            Self::Bbr(bbr) => {
                bbr.save_cwnd(window);
                window.ssthresh
            }
        }
    }

    /// Slow-start threshold without a repair: after a mark, or a loss that a probe has repaired. Only DCTCP distinguishes marks from
    /// losses.
    pub(crate) fn cwr_threshold(&mut self, window: &Window) -> u32 {
        match self {
            Self::Dctcp(dctcp) => dctcp.threshold_after_mark(window),
            _ => self.threshold(window),
        }
    }

    /// Floor of rate halving: Linux 2.6.26 permits only Reno half the threshold.
    pub(crate) fn halving_floor(&self, window: &Window, method: Reduction) -> u32 {
        match self {
            Self::Reno if method == Reduction::RateHalving => (window.ssthresh / 2).max(1),
            _ => window.ssthresh,
        }
    }

    /// Handles a timeout, after [`threshold`](Self::threshold).
    pub(crate) fn on_timeout(&mut self) {
        match self {
            Self::Reno | Self::Dctcp(_) | Self::Bbr(_) => {}
            Self::Cubic(cubic) => cubic.on_timeout(),
            Self::Cubic2008(cubic) => cubic.on_timeout(),
        }
    }
}
