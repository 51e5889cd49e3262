//! Time-based loss detection: RACK (RFC 8985) as in Linux 6.12 (`net/ipv4/tcp_recovery.c`), and other facts that the
//! kernel derives from the segments of an acknowledgement.

use std::collections::VecDeque;

use dfcp_time::Time;

use super::{DUP_THRESH, Scoreboard};

/// Number of recoveries for which a widened reordering window is kept (`TCP_RACK_RECOVERY_THRESH`).
const PERSIST_RECOVERIES: u32 = 16;
/// Resolution of timestamps on the wire, ns.
const TIMESTAMP_NS: u64 = 1_000_000;
/// Maximum degree of reordering, segments (`tcp_max_reordering`).
const REORDERING_MAX: u64 = 300;
const STEPS_MAX: u64 = 255;

/// Summary of the segments that one acknowledgement reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    now: Time,
    /// Echoed timestamp; `None` if timestamps are off.
    echoed: Option<Time>,
    min_rtt_ns: u64,
    /// Segments below this one were sent before the last change of the recovery state.
    high: u64,
    prior_highest: u64,
    /// Times at which the first and the last of these segments were sent: segments acknowledged cumulatively that were
    /// neither retransmitted nor selectively acknowledged before.
    pub(crate) acked: Option<(Time, Time)>,
    /// Times at which the first and the last newly selectively acknowledged segments were sent.
    pub(crate) sacked: Option<(Time, Time)>,
    /// True if a retransmitted segment was acknowledged cumulatively.
    pub(crate) retransmitted_acked: bool,
    /// True if a segment below `high` that was sent only once has arrived.
    pub(crate) original_arrived: bool,
    /// Lowest segment that was sent only once and arrived after a higher one.
    reordered: Option<u64>,
    newest_sent: Time,
}

/// State of RACK.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// All transmissions in order of time: segment number and time. Outdated entries are dropped at the front.
    order: VecDeque<(u64, Time)>,
    /// Latest time of sending among all segments that have arrived, and the segment's number.
    newest: (Time, u64),
    /// RTT of the segment that arrived last, ns.
    rtt_ns: u64,
    advanced: bool,
    /// Width of the reordering window, in quarters of the smallest RTT.
    steps: u64,
    /// Number of recoveries after which the reordering window shrinks again.
    persist: u32,
    duplicate_seen: bool,
    widened: Time,
    /// Largest degree of reordering seen, segments; `reordering_seen` is true once there was any.
    reordering: u64,
    reordering_seen: bool,
    report: Report,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            newest: (Time::ZERO, 0),
            rtt_ns: 0,
            advanced: false,
            steps: 1,
            persist: 0,
            duplicate_seen: false,
            widened: Time::ZERO,
            reordering: DUP_THRESH,
            reordering_seen: false,
            report: Report::default(),
        }
    }
}

impl Rack {
    pub(super) fn on_sent(&mut self, segment: u64, now: Time) {
        self.order.push_back((segment, now));
    }

    /// Processes a segment that was acknowledged cumulatively (`tcp_clean_rtx_queue`).
    pub(super) fn on_acked(&mut self, segment: u64, sent: Time, repeated: bool, was_sacked: bool) {
        self.report.retransmitted_acked |= repeated;
        if was_sacked {
            return;
        }
        if !repeated {
            let first = self.report.acked.map_or(sent, |(first, _)| first);
            self.report.acked = Some((first, sent));
            if segment < self.report.prior_highest {
                self.note_reordered(segment);
            }
            self.report.original_arrived |= segment < self.report.high;
        }
        // If the echoed timestamp precedes the retransmission, the original has arrived. It does not show which later
        // segments should have arrived.
        let echo_is_older = |echoed: Time| echoed.as_ns() / TIMESTAMP_NS < sent.as_ns() / TIMESTAMP_NS;
        if !(repeated && self.report.echoed.is_some_and(echo_is_older)) {
            self.advance(segment, sent, repeated);
        }
    }

    /// Processes a segment that was selectively acknowledged (`tcp_sacktag_one`). `highest` is one past the segment
    /// that was highest before.
    pub(super) fn on_sacked(&mut self, segment: u64, sent: Time, repeated: bool, highest: u64) {
        self.advance(segment, sent, repeated);
        if repeated {
            return;
        }
        if segment + 1 < highest {
            self.note_reordered(segment);
        }
        self.report.original_arrived |= segment < self.report.high;
        let first = self.report.sacked.map_or(sent, |(first, _)| first);
        self.report.sacked = Some((first, sent));
    }

    fn note_reordered(&mut self, segment: u64) {
        self.report.reordered = Some(self.report.reordered.map_or(segment, |lowest| lowest.min(segment)));
    }

    /// Port of `tcp_rack_advance`.
    fn advance(&mut self, segment: u64, sent: Time, repeated: bool) {
        self.report.newest_sent = self.report.newest_sent.max(sent);
        let rtt_ns = self.report.now.as_ns().saturating_sub(sent.as_ns());
        // Within less than the smallest RTT, only the original can have been acknowledged, not the retransmission.
        if repeated && rtt_ns < self.report.min_rtt_ns {
            return;
        }
        self.advanced = true;
        self.rtt_ns = rtt_ns;
        self.newest = self.newest.max((sent, segment));
    }

    fn remaining_ns(&self, now: Time, sent: Time, window_ns: u64) -> u64 {
        (self.rtt_ns + window_ns).saturating_sub(now.as_ns().saturating_sub(sent.as_ns()))
    }
}

/// Loss detection of Linux. Inactive unless [`LossDetection::Rack`](super::LossDetection::Rack) is configured.
impl Scoreboard {
    /// Starts the processing of an acknowledgement. Segments below `high` were sent before the last change of the
    /// recovery state.
    pub(crate) fn begin_report(&mut self, now: Time, echoed: Option<Time>, min_rtt_ns: u64, high: u64) {
        let prior_highest = self.highest[0];
        if let Some(rack) = &mut self.rack {
            rack.report = Report { now, echoed, min_rtt_ns, high, prior_highest, ..Report::default() };
        }
    }

    /// Ends the processing of an acknowledgement. `duplicate` states whether it reported a needless retransmission.
    pub(crate) fn end_report(&mut self, duplicate: bool) -> Report {
        let highest = self.highest[0];
        let Some(rack) = &mut self.rack else { return Report::default() };
        let report = rack.report;
        // Port of `tcp_check_sack_reordering`.
        if let Some(lowest) = report.reordered.filter(|&lowest| lowest < highest) {
            rack.reordering = rack.reordering.max((highest - lowest).min(REORDERING_MAX));
            rack.reordering_seen = true;
        }
        // Port of `tcp_rack_update_reo_wnd`: the window becomes wider by at most one step per RTT.
        rack.duplicate_seen |= duplicate && rack.reordering_seen;
        rack.duplicate_seen &= report.newest_sent >= rack.widened;
        if rack.duplicate_seen {
            rack.duplicate_seen = false;
            rack.steps = (rack.steps + 1).min(STEPS_MAX);
            rack.widened = report.now;
            rack.persist = PERSIST_RECOVERIES;
        } else if rack.persist == 0 {
            rack.steps = 1;
        }
        report
    }

    /// Returns true if reordering exceeds the usual threshold.
    pub(crate) fn is_reordering_high(&self) -> bool {
        self.rack.as_ref().is_some_and(|rack| rack.reordering > DUP_THRESH)
    }

    /// Records the end of a recovery. `was_needless` states whether there had been no loss.
    pub(crate) fn note_recovery_end(&mut self, was_needless: bool) {
        if let Some(rack) = &mut self.rack {
            rack.persist =
                if was_needless { (rack.persist + 1).min(PERSIST_RECOVERIES) } else { rack.persist.saturating_sub(1) };
        }
    }

    /// Returns the width of the reordering window, ns (`tcp_rack_reo_wnd`).
    fn reordering_window_ns(&self, in_recovery: bool, min_rtt_ns: u64, srtt_ns: u64) -> u64 {
        let Some(rack) = &self.rack else { return 0 };
        if !rack.reordering_seen && (in_recovery || self.sacked >= rack.reordering) {
            return 0;
        }
        (min_rtt_ns / 4).saturating_mul(rack.steps).min(srtt_ns)
    }

    /// Port of `tcp_rack_mark_lost`. Detects losses only after new arrivals, unless `again` is set. Returns the number
    /// of segments marked as lost, and the time to wait for segments that may be reordered, ns.
    pub(crate) fn detect_by_time(
        &mut self,
        now: Time,
        in_recovery: bool,
        rtts_ns: (u64, u64),
        again: bool,
    ) -> (u64, u64) {
        let window_ns = self.reordering_window_ns(in_recovery, rtts_ns.0, rtts_ns.1);
        let Some(mut rack) = self.rack.take() else { return (0, 0) };
        let (mut lost, mut wait_ns) = (0, 0);
        if std::mem::take(&mut rack.advanced) || again {
            let mut at = 0;
            while let Some(&(segment, sent)) = rack.order.get(at) {
                let is_current = segment >= self.una && {
                    let entry = self.entry(segment);
                    entry.sent == sent && entry.skip == 0
                };
                if is_current && (sent, segment) >= rack.newest {
                    break;
                }
                let waits = is_current && self.waits(segment);
                let remaining_ns = rack.remaining_ns(now, sent, window_ns);
                let is_lost = is_current && !waits && remaining_ns == 0;
                if is_lost {
                    self.mark_lost(segment);
                    lost += 1;
                }
                if is_current && !is_lost {
                    if !waits {
                        wait_ns = wait_ns.max(remaining_ns);
                    }
                    at += 1;
                } else if at == 0 {
                    rack.order.pop_front();
                } else {
                    rack.order.remove(at);
                }
            }
        }
        self.rack = Some(rack);
        (lost, wait_ns)
    }

    /// Called after a timeout (`tcp_timeout_mark_lost`): marks the first segment as lost, and all segments that were
    /// sent at least an RTT ago. Returns their number.
    pub(crate) fn mark_overdue_lost(&mut self, now: Time) -> u64 {
        let mut lost = 0;
        let mut segment = self.next_unsacked(self.una);
        while segment < self.end {
            let sent = self.entry(segment).sent;
            let is_overdue = self.rack.as_ref().is_some_and(|rack| rack.remaining_ns(now, sent, 0) == 0);
            if segment == self.una || is_overdue {
                lost += self.mark_lost(segment);
            }
            segment = self.next_unsacked(segment + 1);
        }
        self.retransmit_from = self.una;
        lost
    }

    /// Port of `tcp_mark_skb_lost`.
    fn mark_lost(&mut self, segment: u64) -> u64 {
        let entry = self.entry_mut(segment);
        if !entry.lost {
            entry.lost = true;
            self.lost += 1;
        } else if entry.retransmitted {
            entry.retransmitted = false;
            self.retransmitted -= 1;
        } else {
            return 0;
        }
        self.lost_total += 1;
        self.retransmit_from = self.retransmit_from.min(segment);
        1
    }

    /// Removes all loss marks.
    pub(crate) fn unmark_lost(&mut self) {
        for segment in self.una..self.end {
            self.entry_mut(segment).lost = false;
        }
        self.lost = 0;
        self.retransmit_from = self.una;
        self.look_again();
    }

    /// Makes the next acknowledgement run the loss detection in any case.
    pub(crate) fn look_again(&mut self) {
        if let Some(rack) = &mut self.rack {
            rack.advanced = true;
        }
    }

    /// Returns the next lost segment to be retransmitted (`tcp_xmit_retransmit_queue`).
    pub(crate) fn next_lost_by_time(&mut self) -> Option<u64> {
        if self.retransmitted >= self.lost {
            return None;
        }
        let mut segment = self.next_unsacked(self.retransmit_from.max(self.una));
        while segment < self.end {
            if self.waits(segment) {
                self.retransmit_from = segment;
                return Some(segment);
            }
            segment = self.next_unsacked(segment + 1);
        }
        None
    }

    /// Records that a segment was sent again as a probe.
    pub(crate) fn send_probe(&mut self, segment: u64, now: Time) {
        self.note_sent(segment, now);
        let entry = self.entry_mut(segment);
        entry.sent = now;
        entry.repeated = true;
        if let Some(rack) = &mut self.rack {
            rack.on_sent(segment, now);
        }
    }

    /// Records that a needless retransmission of `segment` was reported. Returns true if the segment had been sent more
    /// than once.
    pub(crate) fn note_duplicate(&mut self, segment: u64) -> bool {
        if segment < self.una || segment >= self.end {
            return false;
        }
        let entry = self.entry_mut(segment);
        let (repeated, retransmitted) = (entry.repeated, entry.retransmitted);
        if repeated && retransmitted {
            entry.retransmitted = false;
            self.retransmitted -= 1;
        }
        repeated
    }

    /// Returns true if a retransmission is in flight, or if the first segment was sent more than once
    /// (`tcp_any_retrans_done`).
    pub(crate) fn is_any_retransmitted(&self) -> bool {
        self.retransmitted > 0 || self.outstanding() > 0 && self.entry(self.una).repeated
    }

    /// Returns the number of segments that have left the network: lost or selectively acknowledged.
    pub(crate) fn left(&self) -> u64 {
        self.lost + self.sacked
    }

    pub(crate) fn retransmissions_in_flight(&self) -> u64 {
        self.retransmitted
    }

    /// Returns the time at which the first outstanding segment was sent.
    pub(crate) fn head_sent(&self) -> Option<Time> {
        (self.outstanding() > 0).then(|| self.entry(self.una).sent)
    }

    /// Marks the segment as the end of a burst.
    pub(crate) fn mark_pushed(&mut self, segment: u64) {
        self.entry_mut(segment).pushed = true;
    }

    pub(crate) fn is_pushed(&self, segment: u64) -> bool {
        self.entry(segment).pushed
    }
}

#[cfg(test)]
mod tests;
