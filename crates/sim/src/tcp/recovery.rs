//! Phases of loss recovery, and the reduction of the window during recovery.

use super::config::Reduction;
use super::window::Window;

/// Phase of the sender's loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No loss is known, and no reduction is in progress.
    Open,
    /// The window is being reduced after an ECN mark (RFC 3168); no loss is known.
    Cwr,
    /// Fast recovery: acknowledgements have revealed losses, which are being repaired.
    Recovery,
    /// Recovery after a timeout, or after any loss for Tahoe: everything outstanding is sent again.
    Loss,
}

impl Phase {
    /// Returns true while losses are being repaired.
    pub(crate) fn is_repairing(self) -> bool {
        matches!(self, Self::Recovery | Self::Loss)
    }

    /// Returns true while the window is being reduced gradually (`tcp_in_cwnd_reduction`).
    pub(crate) fn is_reducing(self) -> bool {
        matches!(self, Self::Cwr | Self::Recovery)
    }
}

/// Effect of an acknowledgement during recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoveryAck {
    /// Segments newly delivered, acknowledged cumulatively or selectively.
    pub(crate) delivered: u64,
    /// Segments in flight after the acknowledgement.
    pub(crate) pipe: u64,
    /// True if the acknowledgement advanced cumulatively and revealed no further loss.
    pub(crate) safe: bool,
    /// True if the acknowledgement reports anything new, or is a duplicate acknowledgement.
    pub(crate) counts: bool,
}

/// Reduction of the window during one recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoveryWindow {
    method: Reduction,
    /// Segments in flight at the start of the recovery.
    flight: u64,
    delivered: u64,
    sent: u64,
    /// Minimum window for rate halving, segments.
    floor: u32,
    odd: bool,
}

impl RecoveryWindow {
    /// Starts a reduction. `flight` is the number of segments in flight when the loss was detected; `floor` is the
    /// minimum window for rate halving.
    pub(crate) fn new(method: Reduction, flight: u64, floor: u32) -> Self {
        Self { method, flight: flight.max(1), delivered: 0, sent: 0, floor, odd: false }
    }

    pub(crate) fn on_sent(&mut self) {
        self.sent += 1;
    }

    pub(crate) fn on_ack(&mut self, window: &mut Window, ack: RecoveryAck) {
        match self.method {
            Reduction::Classic => window.cwnd = window.ssthresh,
            Reduction::Prr => self.reduce_in_proportion(window, ack),
            Reduction::RateHalving => self.halve_rate(window, ack),
        }
    }

    /// Port of the algorithm in RFC 9937, section 6.2.
    fn reduce_in_proportion(&mut self, window: &mut Window, ack: RecoveryAck) {
        if ack.delivered == 0 && self.sent > 0 {
            return;
        }
        self.delivered += ack.delivered;
        let ssthresh = u64::from(window.ssthresh);
        let allowance = if ack.pipe > ssthresh {
            (self.delivered * ssthresh).div_ceil(self.flight).saturating_sub(self.sent)
        } else {
            let conserved = self.delivered.saturating_sub(self.sent).max(ack.delivered);
            (conserved + u64::from(ack.safe)).min(ssthresh - ack.pipe)
        };
        // The first retransmission is always sent.
        let allowance = if self.sent == 0 { allowance.max(1) } else { allowance };
        window.cwnd = u32::try_from(ack.pipe + allowance).unwrap_or(u32::MAX).min(window.limit).max(1);
    }

    /// Port of `tcp_cwnd_down` in Linux 2.6.26.
    fn halve_rate(&mut self, window: &mut Window, ack: RecoveryAck) {
        if !ack.counts {
            return;
        }
        if self.odd && window.cwnd > self.floor {
            window.cwnd -= 1;
        }
        self.odd = !self.odd;
        window.cwnd = window.cwnd.min(u32::try_from(ack.pipe + 1).unwrap_or(u32::MAX));
    }

    /// Sets the window at the end of the recovery.
    pub(crate) fn finish(&self, window: &mut Window) {
        window.cwnd = match self.method {
            Reduction::Classic | Reduction::Prr => window.ssthresh.min(window.limit),
            Reduction::RateHalving => window.cwnd.min(window.ssthresh),
        };
        window.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_takes_a_segment_for_every_second_acknowledgement() {
        let mut window = Window::new(20, Some(10), 1000);
        let mut recovery = RecoveryWindow::new(Reduction::RateHalving, 20, 5);
        let mut trace = Vec::new();
        for pipe in [19, 19, 18, 18, 17, 17] {
            recovery.on_ack(&mut window, RecoveryAck { delivered: 1, pipe, safe: false, counts: true });
            trace.push(window.cwnd);
        }
        assert_eq!(trace, [20, 19, 19, 18, 18, 17]);
        // The window is at most one segment above the flight and, at the end, at most the threshold.
        recovery.on_ack(&mut window, RecoveryAck { delivered: 1, pipe: 7, safe: false, counts: true });
        assert_eq!(window.cwnd, 8);
        window.cwnd = 12;
        recovery.finish(&mut window);
        assert_eq!(window.cwnd, 10);
    }

    #[test]
    fn prr_bounds_the_burst_after_heavy_loss() {
        // RFC 9937: if the flight is far below the threshold, as many segments are sent as have arrived. If the
        // acknowledgement is safe, one more is sent.
        let mut window = Window::new(100, Some(50), 1000);
        let mut recovery = RecoveryWindow::new(Reduction::Prr, 100, 50);
        recovery.on_ack(&mut window, RecoveryAck { delivered: 1, pipe: 9, safe: false, counts: true });
        assert_eq!(window.cwnd, 10);
        recovery.on_sent();
        recovery.on_ack(&mut window, RecoveryAck { delivered: 2, pipe: 8, safe: false, counts: true });
        assert_eq!(window.cwnd, 10);
        recovery.on_sent();
        recovery.on_sent();
        recovery.on_ack(&mut window, RecoveryAck { delivered: 2, pipe: 8, safe: true, counts: true });
        assert_eq!(window.cwnd, 11);
    }
}
