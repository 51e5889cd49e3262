//! Pacer, and processing of acknowledgements for congestion control by a model (BBR).

use dfcp_time::Time;

use super::super::congestion::{BbrAck, Controller};
use super::super::delivery_rate::RateSample;
use super::super::recovery::Phase;
use super::Sender;
use super::ack::Change;

/// Pacer of bursts. For algorithms other than BBR, it never delays a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// Time at which the pacing rate permits the next burst, given the segments sent so far.
    next_send: Time,
    /// Segments left of the current burst.
    burst_left: u32,
    waiting: bool,
}

impl Pacer {
    /// Returns true if the next segment may be sent now. If a new burst starts, its length is `burst` segments.
    pub(super) fn may_send(&mut self, now: Time, controller: &Controller, burst: u32) -> bool {
        if !matches!(controller, Controller::Bbr(_)) {
            return true;
        }
        if self.burst_left == 0 {
            if self.next_send > now {
                self.waiting = true;
                return false;
            }
            self.burst_left = burst;
        }
        self.waiting = false;
        true
    }

    pub(super) fn on_sent(&mut self, now: Time, controller: &Controller) {
        let Controller::Bbr(bbr) = controller else { return };
        self.burst_left = self.burst_left.saturating_sub(1);
        self.next_send = Time::from_ns(self.next_send.max(now).as_ns().saturating_add(bbr.segment_time_ns()));
    }

    /// Ends the burst without scheduling a wake-up, because something other than pacing stops the sender.
    pub(super) fn sleep(&mut self) {
        self.burst_left = 0;
        self.waiting = false;
    }

    pub(super) fn wake(&self) -> Option<Time> {
        self.waiting.then_some(self.next_send)
    }
}

impl Sender {
    /// Updates the phase after losses. The window is set by the model.
    pub(super) fn respond_by_model(&mut self, change: Change) {
        if self.phase != Phase::Open && self.is_repaired(&change) {
            self.phase = Phase::Open;
            self.force = false;
        }
        if self.phase == Phase::Open && self.found_loss() {
            self.stats.recoveries += 1;
            self.controller.threshold(&self.window);
            self.phase = Phase::Recovery;
            self.recovery_point = self.board.end();
            self.rescued = false;
            self.force = true;
        }
        let ack = self.bbr_ack(change.now, Some(&change));
        let Controller::Bbr(bbr) = &mut self.controller else { return };
        if bbr.on_ack(&mut self.window, &ack) {
            self.note_app_limited();
        }
    }

    pub(super) fn tell_bbr_of_timeout(&mut self, now: Time) {
        if !matches!(self.controller, Controller::Bbr(_)) {
            return;
        }
        let ack = self.bbr_ack(now, None);
        if let Controller::Bbr(bbr) = &mut self.controller {
            bbr.on_timeout(&ack);
        }
    }

    /// Returns the input of BBR for the acknowledgement `change`; `None` stands for a timeout.
    pub(super) fn bbr_ack(&mut self, now: Time, change: Option<&Change>) -> BbrAck {
        let min_rtt_ns = match &self.controller {
            Controller::Bbr(bbr) if bbr.min_rtt_ns() < u64::MAX => bbr.min_rtt_ns(),
            _ => 0,
        };
        let (sample, delivered_total) = match self.board.delivery_rate() {
            Some(rate) if change.is_some() => (rate.take_sample(now, min_rtt_ns), rate.delivered()),
            Some(rate) => (RateSample::default(), rate.delivered()),
            None => (RateSample::default(), 0),
        };
        let pipe = self.board.pipe();
        BbrAck {
            now,
            sample,
            rtt_ns: change.and_then(|change| change.rtt_ns),
            srtt_ns: self.rtt.srtt_ns(),
            // BBR ignores marks, so the phase of their reduction is hidden from it.
            phase: if self.phase == Phase::Cwr { Phase::Open } else { self.phase },
            pipe,
            prior_pipe: change.map_or(pipe, |change| change.prior_pipe),
            acked: change.map_or(0, |change| u32::try_from(change.delivered).unwrap_or(u32::MAX)),
            losses: change.map_or(0, |change| change.newly_lost),
            delivered_total,
            lost_total: self.board.lost_total(),
            next_send: self.pacer.next_send,
        }
    }
}
