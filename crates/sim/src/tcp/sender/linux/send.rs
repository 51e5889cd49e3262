//! Transmission of segments and bursts in Linux 6.12 (`net/ipv4/tcp_output.c`).

use std::time::Duration;

use dfcp_time::Time;

use super::super::super::congestion::Controller;
use super::super::super::segment::Segment;
use super::super::Sender;
use super::{Pending, Resend};

/// Maximum length of a burst, bytes (`sk_gso_max_size`).
const BURST_MAX_BYTES: u64 = 65_215;
/// Minimum length of a burst, segments, if the window permits it (`tcp_min_tso_segs`).
const BURST_MIN_SEGMENTS: u64 = 2;
/// Length of a burst: the bytes sent in 2^-`BURST_SHIFT` s, about 1 ms (`sk_pacing_shift`).
const BURST_SHIFT: u32 = 10;
/// Shift that gives the unit of RTT, 512 µs, for the additional burst length at short RTTs (`tcp_tso_rtt_log`). Each
/// unit of RTT halves the addition.
const BURST_RTT_SHIFT: u32 = 9;
/// Maximum time for which a burst is deferred in order to send a longer one.
const DEFER_MAX: Duration = Duration::from_millis(1);
/// Overhead per packet, bytes, in the kernel's count of socket memory queued in the network device.
const PACKET_OVERHEAD_BYTES: u64 = 856;
/// Maximum of `hystart_ack_delay`, ns.
const HYSTART_BURST_MAX_NS: u64 = 1_000_000;

impl Sender {
    /// Returns the next data segment: one demanded by the timer, a lost one, or a new one.
    pub(in super::super) fn poll_linux(&mut self, now: Time) -> Option<Segment> {
        self.linux.waits_for_device = false;
        if std::mem::take(&mut self.linux.head_due) {
            return Some(self.resend(now, self.board.una()));
        }
        if std::mem::take(&mut self.linux.probe_due)
            && let Some(probe) = self.probe(now)
        {
            return Some(probe);
        }
        if self.linux.resend == Resend::Lost
            && self.linux.burst_left == 0
            && self.has_room()
            && let Some(segment) = self.board.next_lost_by_time()
        {
            let may_send = self.pacer.may_send(now, &self.controller, 1) && self.device_takes(1, true);
            return may_send.then(|| self.resend(now, segment));
        }
        if let Some(segment) = self.poll_new(now) {
            return Some(segment);
        }
        // New data was to be sent instead of lost data, but there is none.
        if self.linux.resend == Resend::New && self.board.end() == self.recovery_point {
            self.linux.frto = false;
            self.linux.resend = Resend::Lost;
            return self.poll_linux(now);
        }
        None
    }

    fn has_room(&self) -> bool {
        self.board.pipe() < u64::from(self.window.cwnd)
    }

    /// Port of `tcp_write_xmit`.
    fn poll_new(&mut self, now: Time) -> Option<Segment> {
        if self.linux.burst_left == 0 && !self.may_begin_burst(now) {
            return None;
        }
        self.linux.burst_left -= 1;
        let is_end = self.linux.burst_left == 0 || self.board.end() + 1 >= self.total_segments;
        if is_end {
            self.linux.burst_left = 0;
        }
        Some(self.send_new(now, is_end && self.linux.burst_push))
    }

    /// Sets the length of the next burst. Returns true if the burst may be sent now.
    fn may_begin_burst(&mut self, now: Time) -> bool {
        if !self.has_new_data() {
            self.pacer.sleep();
            self.validate_window(false);
            if self.board.end() >= self.total_segments {
                self.note_app_limited();
            }
            return false;
        }
        let room = u64::from(self.window.cwnd).saturating_sub(self.board.pipe());
        if room == 0 {
            self.pacer.sleep();
            self.validate_window(true);
            return false;
        }
        let most = self.burst_segments();
        let offered = self.offered_end - self.board.end();
        let burst = room.min(u64::from(self.window.cwnd / 2).max(1)).min(most).min(offered);
        let burst = u32::try_from(burst).unwrap_or(u32::MAX);
        if !self.pacer.may_send(now, &self.controller, burst) {
            self.validate_window(false);
            return false;
        }
        if self.defers(now, room, most) {
            self.pacer.sleep();
            self.validate_window(true);
            return false;
        }
        if !self.device_takes(u64::from(burst), false) {
            self.pacer.sleep();
            self.validate_window(false);
            return false;
        }
        self.linux.burst_left = burst;
        self.linux.burst_push = burst > 1;
        true
    }

    /// Port of `tcp_small_queue_check`. A socket may have two bursts queued in the network device, or the data of
    /// 1/1024 s if that is more. For retransmissions, the limit is doubled.
    fn device_takes(&mut self, burst: u64, is_repeat: bool) -> bool {
        let bytes = |segments: u64| segments * u64::from(self.config.mss_bytes);
        let two_bursts = 2 * (PACKET_OVERHEAD_BYTES + bytes(burst));
        let most = two_bursts.max(self.rate_bytes_per_s() >> BURST_SHIFT) << u32::from(is_repeat);
        let waiting = self.linux.device_waiting * PACKET_OVERHEAD_BYTES + bytes(self.linux.device_waiting);
        self.linux.waits_for_device = waiting > most && self.board.outstanding() > 1;
        !self.linux.waits_for_device
    }

    /// Port of `tcp_tso_should_defer`. Returns true if a longer burst can be sent after the next acknowledgement.
    fn defers(&self, now: Time, room: u64, most: u64) -> bool {
        let Some(head_sent) = self.board.head_sent() else { return false };
        let remaining = self.total_segments - self.board.end();
        if self.phase.is_repairing()
            || now.since(self.linux.last_sent) > DEFER_MAX
            || room >= most
            || 3 * room >= u64::from(self.window.cwnd)
            || remaining <= room
        {
            return false;
        }
        let ack_due = head_sent + self.srtt_part(1);
        ack_due.since(now) <= DEFER_MAX.min(self.srtt_part(2))
    }

    /// Port of `tcp_update_pacing_rate`: returns the rate, bytes per second. BBR has a rate of its own.
    fn rate_bytes_per_s(&self) -> u64 {
        if let Controller::Bbr(bbr) = &self.controller {
            return bbr.pacing_bytes_per_s();
        }
        let Some(srtt_ns) = self.rtt.srtt_ns().filter(|&ns| ns > 0) else { return u64::MAX };
        let percent = if self.window.cwnd < self.window.ssthresh / 2 { 200 } else { 120 };
        let segments = u64::from(self.window.cwnd).max(self.board.outstanding());
        let bytes = u128::from(segments * u64::from(self.config.mss_bytes)) * percent / 100;
        u64::try_from(bytes * 1_000_000_000 / u128::from(srtt_ns)).unwrap_or(u64::MAX)
    }

    /// Port of `tcp_tso_autosize`: returns the maximum number of segments per burst.
    fn burst_segments(&self) -> u64 {
        let mut bytes = self.rate_bytes_per_s() >> BURST_SHIFT;
        let halvings = self.smallest_rtt_ns().map_or(0, |ns| (ns / 1_000) >> BURST_RTT_SHIFT);
        if halvings < 32 {
            bytes = bytes.saturating_add(BURST_MAX_BYTES >> halvings);
        }
        let least = match &self.controller {
            Controller::Bbr(bbr) => u64::from(bbr.burst_min_segments()),
            _ => BURST_MIN_SEGMENTS,
        };
        (bytes.min(BURST_MAX_BYTES) / u64::from(self.config.mss_bytes)).max(least)
    }

    /// Port of `hystart_ack_delay`: returns the time by which bursts may lengthen a train of acknowledgements, ns.
    pub(in super::super) fn hystart_burst_ns(&self) -> u64 {
        let ns = u128::from(BURST_MAX_BYTES) * 4_000_000_000 / u128::from(self.rate_bytes_per_s().max(1));
        u64::try_from(ns).unwrap_or(u64::MAX).min(HYSTART_BURST_MAX_NS)
    }

    fn send_new(&mut self, now: Time, push: bool) -> Segment {
        self.note_transmit_start(now);
        let was_idle = self.board.outstanding() == 0;
        let segment = self.board.push(now);
        if push {
            self.board.mark_pushed(segment);
        }
        self.note_sent(now);
        self.linux.last_sent = now;
        // `tcp_event_new_data_sent` rearms the timer in the same cases.
        if was_idle || self.linux.pending == Pending::Probe {
            self.rearm_timer(now);
        }
        if self.linux.burst_left == 0 {
            self.schedule_probe(now, false);
        }
        self.data_linux(now, segment, true)
    }

    /// Port of `tcp_retransmit_skb`.
    fn resend(&mut self, now: Time, segment: u64) -> Segment {
        self.note_transmit_start(now);
        self.board.retransmit(segment, now);
        self.linux.first_retransmission.get_or_insert(now);
        self.linux.undo_retransmissions = Some(self.linux.undo_retransmissions.unwrap_or(0) + 1);
        self.stats.retransmissions += 1;
        self.note_sent(now);
        self.linux.last_sent = now;
        if segment == self.board.una() && self.linux.pending != Pending::Reordering {
            self.restart_timer_linux(now);
        }
        self.data_linux(now, segment, false)
    }

    /// Port of `tcp_send_loss_probe`. Sends new data or, if there is none, the last segment again.
    fn probe(&mut self, now: Time) -> Option<Segment> {
        if self.has_new_data() {
            self.linux.burst_left = 0;
            let segment = self.send_new(now, false);
            self.end_probe(now, false);
            return Some(segment);
        }
        let last = self.board.end().checked_sub(1).filter(|&last| last >= self.board.una())?;
        self.board.send_probe(last, now);
        self.stats.retransmissions += 1;
        self.note_sent(now);
        self.linux.last_sent = now;
        self.end_probe(now, true);
        Some(self.data_linux(now, last, false))
    }

    fn end_probe(&mut self, now: Time, repeated: bool) {
        self.stats.probes += 1;
        self.linux.probe = Some((self.board.end(), repeated));
        self.linux.pending = Pending::Nothing;
        self.rearm_timer(now);
    }

    fn data_linux(&mut self, now: Time, segment: u64, is_new: bool) -> Segment {
        let mut data = if is_new { self.new_data(now, segment) } else { self.repeated_data(now, segment) };
        data.flags.psh = self.board.is_pushed(segment);
        data
    }

    fn note_transmit_start(&mut self, now: Time) {
        if self.board.pipe() == 0 && self.board.end() > 0 {
            self.controller.on_transmit_start(now, self.linux.last_sent);
        }
    }

    /// Port of `tcp_cwnd_validate`: records whether the window was the limit in the current RTT.
    fn validate_window(&mut self, is_limited: bool) {
        let outstanding = self.board.outstanding();
        if self.board.una() >= self.linux.usage_end
            || is_limited
            || !self.linux.is_limited && outstanding > self.linux.outstanding_max
        {
            self.linux.is_limited = is_limited;
            self.linux.outstanding_max = outstanding;
            self.linux.usage_end = self.board.end();
        }
    }
}
