//! Timer of Linux 6.12, a single one for several purposes (`net/ipv4/tcp_timer.c`), and the scheduling of probes
//! (`net/ipv4/tcp_output.c`).

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use super::super::super::congestion::Controller;
use super::super::super::recovery::Phase;
use super::super::Sender;
use super::{Pending, Resend};

/// Time added to timers of about an RTT, ns (`TCP_TIMEOUT_MIN_US`).
const TIMEOUT_MIN_NS: u64 = 2_000_000;

impl Sender {
    /// Port of `tcp_set_xmit_timer`.
    pub(super) fn set_transmit_timer(&mut self, now: Time) {
        if !self.schedule_probe(now, true) {
            self.rearm_timer(now);
        }
    }

    /// Port of `tcp_schedule_loss_probe`. Returns true if a probe was scheduled.
    pub(super) fn schedule_probe(&mut self, now: Time, from_now: bool) -> bool {
        if self.board.outstanding() == 0 || self.phase.is_repairing() || self.linux.disorder {
            return false;
        }
        let delay_ns = match self.rtt.srtt_ns() {
            // The acknowledgement of a single segment may be delayed.
            Some(srtt_ns) if self.board.outstanding() == 1 => 2 * srtt_ns + duration_ns(self.config.min_rto),
            Some(srtt_ns) => 2 * srtt_ns + TIMEOUT_MIN_NS,
            None => duration_ns(self.config.initial_rto),
        };
        let timeout_ns = if from_now { self.rtt.rto_ns() } else { self.timeout_left_ns(now) };
        let delay_ns = if timeout_ns > 0 { delay_ns.min(timeout_ns) } else { delay_ns };
        self.linux.pending = Pending::Probe;
        self.deadline = Some(self.config.deadline(now, delay_ns));
        true
    }

    /// Port of `tcp_rto_delta_us`: returns the time until the timeout of the first segment, ns; 0 if it is overdue.
    fn timeout_left_ns(&self, now: Time) -> u64 {
        let head = self.board.head_sent().unwrap_or(now);
        let due = head + Duration::from_nanos(self.rtt.rto_ns());
        duration_ns(due.since(now))
    }

    /// Port of `tcp_rearm_rto`.
    pub(super) fn rearm_timer(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.linux.pending = Pending::Nothing;
            self.deadline = None;
            return;
        }
        let delay_ns = match self.linux.pending {
            Pending::Reordering | Pending::Probe => self.timeout_left_ns(now).max(1),
            Pending::Nothing | Pending::Retransmission => self.rtt.rto_ns(),
        };
        self.linux.pending = Pending::Retransmission;
        self.deadline = Some(self.config.deadline(now, delay_ns));
    }

    pub(super) fn restart_timer_linux(&mut self, now: Time) {
        self.linux.pending = Pending::Retransmission;
        self.deadline = Some(self.config.deadline(now, self.rtt.rto_ns()));
    }

    pub(super) fn wait_for_reordering(&mut self, now: Time, wait_ns: u64) {
        self.linux.pending = Pending::Reordering;
        let delay_ns = (wait_ns + TIMEOUT_MIN_NS).min(self.rtt.rto_ns());
        self.deadline = Some(self.config.deadline(now, delay_ns));
    }

    /// Port of `tcp_write_timer_handler`.
    pub(in super::super) fn on_timer_linux(&mut self, now: Time) {
        self.deadline = None;
        if self.board.outstanding() == 0 {
            return;
        }
        match self.linux.pending {
            Pending::Reordering => self.on_reordering_timer(now),
            Pending::Probe if self.linux.probe.is_some() => self.rearm_timer(now),
            Pending::Probe => self.linux.probe_due = true,
            Pending::Nothing | Pending::Retransmission => self.on_retransmission_timer_linux(now),
        }
    }

    /// Port of `tcp_rack_reo_timeout`.
    fn on_reordering_timer(&mut self, now: Time) {
        let prior_pipe = self.board.pipe();
        let rtts_ns = (self.smallest_rtt_ns().unwrap_or(u64::MAX), self.rtt.srtt_ns().unwrap_or(0));
        let (lost, _) = self.board.detect_by_time(now, self.phase.is_repairing(), rtts_ns, true);
        if self.board.pipe() != prior_pipe {
            if self.phase != Phase::Recovery {
                self.enter_recovery_linux(false);
                if !matches!(self.controller, Controller::Bbr(_)) {
                    self.reduce_linux(1, lost, false);
                }
            }
            self.linux.resend = Resend::Lost;
        }
        self.rearm_timer(now);
    }

    /// Port of `tcp_retransmit_timer`.
    fn on_retransmission_timer_linux(&mut self, now: Time) {
        self.stats.timeouts += 1;
        self.enter_loss_linux(now);
        self.linux.timeouts += 1;
        self.linux.resend = Resend::Nothing;
        self.linux.head_due = true;
        self.linux.burst_left = 0;
        self.tell_bbr_of_timeout(now);
        self.rtt.back_off();
        self.linux.pending = Pending::Nothing;
        self.restart_timer_linux(now);
    }
}
