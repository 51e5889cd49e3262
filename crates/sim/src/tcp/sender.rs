//! Sender of the TCP model: handshake, transmission, processing of acknowledgements, and timers.

mod ack;
mod ecn;
mod linux;
mod pacing;

use std::time::Duration;

use dfcp_netem::Ecn;
use dfcp_time::Time;

use super::config::{Config, ConfigError, Congestion};
use super::congestion::Controller;
use super::recovery::{Phase, RecoveryWindow};
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::segment::{Flags, SackBlocks, Segment};
use super::window::Window;
use ecn::SenderEcn;
use linux::Linux;
use pacing::Pacer;

/// Counters of a sender since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments sent, including retransmissions.
    pub segments: u64,
    /// Data segments retransmitted.
    pub retransmissions: u64,
    /// Retransmission timeouts of data.
    pub timeouts: u64,
    /// Fast recoveries started.
    pub recoveries: u64,
    /// Tail loss probes sent (RFC 8985).
    pub probes: u64,
    /// SYN retransmissions.
    pub syn_retransmissions: u64,
    /// Bytes acknowledged cumulatively.
    pub acked_bytes: u64,
    /// Segments acknowledged, cumulatively or selectively.
    pub delivered_segments: u64,
    /// Delivered segments whose acknowledgement carried ECE.
    pub delivered_ce_segments: u64,
    /// Window reductions because of ECN marks.
    pub ecn_reductions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    SynSent,
    Established,
    Finished,
}

/// Sender of the TCP model. See the [module](super) for its use.
#[derive(Clone, Debug)]
pub struct Sender {
    config: Config,
    state: State,
    total_bytes: Option<u64>,
    /// Length of the stream in segments; `u64::MAX` for an endless one.
    total_segments: u64,
    board: Scoreboard,
    window: Window,
    controller: Controller,
    phase: Phase,
    /// Segment whose acknowledgement ends the current phase.
    recovery_point: u64,
    recovery: RecoveryWindow,
    /// Send the next segment even if the window is full.
    force: bool,
    /// True after the rescue retransmission of the current recovery (RFC 6675, NextSeg rule 4).
    rescued: bool,
    rtt: RttEstimator,
    /// Deadline of the retransmission timer, for SYN or data.
    deadline: Option<Time>,
    syn_sent: Time,
    /// A SYN, or the final acknowledgement of the handshake, is to be sent.
    control_due: bool,
    ts_recent: Time,
    /// First segment that does not fit into the receiver's or the sender's buffer. Never decreases.
    offered_end: u64,
    pacer: Pacer,
    /// True if nothing but the congestion window stopped the last poll.
    window_limited: bool,
    linux: Linux,
    ecn: SenderEcn,
    stats: SenderStats,
}

impl Sender {
    /// Creates a sender of `total_bytes` and a FIN, or of an endless stream. It connects at the first poll. `seed`
    /// determines random choices of the congestion control; only BBR makes any.
    ///
    /// # Errors
    ///
    /// Fails if the [configuration](Config::validate) is invalid.
    pub fn new(config: Config, total_bytes: Option<u64>, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        let buffer_segments = config.max_window_bytes / config.mss_bytes;
        let window = Window::new(config.initial_window_segments, config.initial_ssthresh_segments, buffer_segments);
        let board = Scoreboard::new(config.loss_detection, config.lost_retransmissions && config.uses_sack());
        Ok(Self {
            config,
            state: State::Closed,
            total_bytes,
            total_segments: total_bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(u64::from(config.mss_bytes)).max(1)),
            board: if config.congestion == Congestion::Bbr1 { board.with_delivery_rate() } else { board },
            window,
            controller: Controller::new(&config, seed),
            phase: Phase::Open,
            recovery_point: 0,
            recovery: RecoveryWindow::new(config.reduction, 1, 1),
            force: false,
            rescued: false,
            rtt: RttEstimator::new(&config),
            deadline: None,
            syn_sent: Time::ZERO,
            control_due: false,
            ts_recent: Time::ZERO,
            offered_end: 0,
            pacer: Pacer::default(),
            window_limited: false,
            linux: Linux::default(),
            ecn: SenderEcn::default(),
            stats: SenderStats::default(),
        })
    }

    /// Processes a segment from the receiver.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) {
        if !segment.flags.ack {
            return;
        }
        match self.state {
            State::Closed | State::Finished => {}
            State::SynSent if segment.flags.syn && segment.ack == 1 => self.establish(now, segment),
            State::SynSent => {}
            // The receiver has repeated its answer, so the final acknowledgement of the handshake was lost.
            State::Established if segment.flags.syn => self.control_due = true,
            State::Established => {
                self.ts_recent = self.ts_recent.max(segment.ts_val);
                if self.config.is_linux_sender() {
                    self.on_ack_linux(now, segment);
                } else {
                    self.on_ack(now, segment);
                }
            }
        }
    }

    /// Returns the next segment that may be sent now, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        match self.state {
            State::Closed => {
                self.state = State::SynSent;
                Some(self.syn(now))
            }
            State::SynSent if self.control_due => Some(self.syn(now)),
            State::SynSent | State::Finished => None,
            State::Established if self.control_due => {
                self.control_due = false;
                let seq = self.seq(self.board.end());
                let mut answer = self.segment(now, seq, 0, Flags { ack: true, ..Flags::default() });
                self.mark_outgoing(&mut answer, false);
                Some(answer)
            }
            State::Established if self.config.is_linux_sender() => self.poll_linux(now),
            State::Established => self.poll_data(now),
        }
    }

    /// Sets the number of segments queued in the host's network device. Called before each poll.
    pub fn note_device_queue(&mut self, segments: usize) {
        self.linux.device_waiting = segments as u64;
    }

    /// Returns true if the sender must be polled again when a segment has left the network device.
    #[must_use]
    pub fn waits_for_device(&self) -> bool {
        self.linux.waits_for_device
    }

    /// Returns the time of the next [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        // All data may have been acknowledged before the time of the next paced segment.
        let wake = self.pacer.wake().filter(|_| self.state != State::Finished);
        self.deadline.into_iter().chain(wake).min()
    }

    /// Handles deadlines that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        match self.state {
            State::Closed | State::Finished => self.deadline = None,
            State::SynSent => {
                self.stats.syn_retransmissions += 1;
                self.rtt.back_off();
                self.control_due = true;
                self.restart_timer(now);
            }
            State::Established if self.config.is_linux_sender() => self.on_timer_linux(now),
            State::Established => self.on_retransmission_timeout(now),
        }
    }

    /// Returns the configuration of the connection.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// Returns true once the stream and the FIN have been acknowledged.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// Returns true once the handshake is complete.
    #[must_use]
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::Finished)
    }

    /// Returns the congestion window, in segments.
    #[must_use]
    pub fn cwnd_segments(&self) -> u32 {
        self.window.cwnd
    }

    /// Returns the slow-start threshold, in segments; `None` while it is unlimited.
    #[must_use]
    pub fn ssthresh_segments(&self) -> Option<u32> {
        (self.window.ssthresh < u32::MAX).then_some(self.window.ssthresh)
    }

    /// Returns the estimated number of segments in flight.
    #[must_use]
    pub fn pipe_segments(&self) -> u64 {
        self.board.pipe()
    }

    /// Returns the phase of loss recovery.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the smoothed RTT; `None` before the first sample.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt_ns().map(Duration::from_nanos)
    }

    /// Returns the current RTO (RFC 6298), including exponential back-off.
    #[must_use]
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.rtt.rto_ns())
    }

    fn syn(&mut self, now: Time) -> Segment {
        self.control_due = false;
        self.syn_sent = now;
        self.restart_timer(now);
        let mut syn = self.segment(now, 0, 0, self.syn_flags());
        self.mark_outgoing(&mut syn, false);
        syn
    }

    fn establish(&mut self, now: Time, segment: &Segment) {
        self.state = State::Established;
        self.control_due = true;
        self.deadline = None;
        self.ts_recent = segment.ts_val;
        self.agree_on_ecn(segment);
        self.take_peer_window(segment);
        if self.config.timestamps {
            self.rtt.on_sample(now.since(segment.ts_ecr).as_nanos() as u64);
        } else if self.stats.syn_retransmissions == 0 {
            self.rtt.on_sample(now.since(self.syn_sent).as_nanos() as u64);
        }
        self.rtt.end_back_off();
        // RFC 6928, section 2: after several losses of the SYN, start with one segment.
        if self.stats.syn_retransmissions > 1 {
            self.window.cwnd = 1;
        }
        if let Controller::Bbr(bbr) = &mut self.controller {
            bbr.on_established(now, &self.window, self.rtt.srtt_ns());
        }
    }

    fn poll_data(&mut self, now: Time) -> Option<Segment> {
        if !self.force && self.board.pipe() >= u64::from(self.window.cwnd) {
            self.window_limited = true;
            self.pacer.sleep();
            return None;
        }
        let burst = match &self.controller {
            Controller::Bbr(bbr) => bbr.burst_segments(),
            Controller::Reno | Controller::Dctcp(_) | Controller::Cubic(_) | Controller::Cubic2008(_) => 1,
        };
        if !self.pacer.may_send(now, &self.controller, burst) {
            return None;
        }
        if let Some(segment) = self.board.next_lost() {
            return Some(self.retransmit(now, segment));
        }
        self.force = false;
        let next = self.board.end();
        if next >= self.total_segments {
            self.window_limited = false;
            self.pacer.sleep();
            self.note_app_limited();
            return self.rescue(now);
        }
        if next >= self.offered_end {
            self.window_limited = false;
            self.pacer.sleep();
            return None;
        }
        let idle = self.board.outstanding() == 0;
        self.board.push(now);
        self.note_sent(now);
        if idle || self.deadline.is_none() {
            self.restart_timer(now);
        }
        Some(self.new_data(now, next))
    }

    fn retransmit(&mut self, now: Time, segment: u64) -> Segment {
        self.force = false;
        // RFC 6298, section 5.1. Linux also restarts the timer when the first outstanding segment is sent again.
        if self.deadline.is_none() || segment == self.board.una() {
            self.restart_timer(now);
        }
        self.board.retransmit(segment, now);
        self.stats.retransmissions += 1;
        self.note_sent(now);
        self.repeated_data(now, segment)
    }

    /// Performs a rescue retransmission (RFC 6675, NextSeg rule 4). It is needed at the end of the stream: if the last
    /// segments are lost, no later segment can reveal that.
    fn rescue(&mut self, now: Time) -> Option<Segment> {
        if self.phase != Phase::Recovery || self.rescued || !self.config.uses_sack() {
            return None;
        }
        self.rescued = true;
        let segment = self.board.last_unsacked()?;
        Some(self.retransmit(now, segment))
    }

    fn note_sent(&mut self, now: Time) {
        self.stats.segments += 1;
        self.pacer.on_sent(now, &self.controller);
        if self.phase.is_reducing() {
            self.recovery.on_sent();
        }
    }

    /// Records that the application, not the path, limits the measured rate.
    fn note_app_limited(&mut self) {
        let pipe = self.board.pipe();
        if let Some(rate) = self.board.delivery_rate() {
            rate.set_app_limited(pipe);
        }
    }

    fn on_retransmission_timeout(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.deadline = None;
            return;
        }
        self.stats.timeouts += 1;
        // Reduce the threshold once per loss, and not again if the timer retransmits the same segment repeatedly (RFC
        // 5681, section 3.1).
        if self.phase != Phase::Loss || self.rtt.backoff() == 0 {
            self.window.ssthresh = self.controller.threshold(&self.window);
        }
        self.controller.on_timeout();
        self.rtt.back_off();
        self.start_over();
        self.tell_bbr_of_timeout(now);
        self.restart_timer(now);
    }

    /// Restarts with a window of one segment; everything outstanding is sent again.
    fn start_over(&mut self) {
        self.window.cwnd = 1;
        self.window.credit = 0;
        self.board.mark_all_lost();
        self.phase = Phase::Loss;
        self.recovery_point = self.board.end();
        self.force = false;
        self.note_reduction();
    }

    fn restart_timer(&mut self, now: Time) {
        self.deadline = Some(self.config.deadline(now, self.rtt.rto_ns()));
    }

    fn take_peer_window(&mut self, segment: &Segment) {
        let bytes = u64::from(segment.window_bytes.min(self.config.max_window_bytes));
        let end = (segment.ack.saturating_sub(1) + bytes) / u64::from(self.config.mss_bytes);
        self.offered_end = self.offered_end.max(end);
    }

    /// Returns the sequence number of a segment's first byte.
    fn seq(&self, segment: u64) -> u64 {
        let start = segment * u64::from(self.config.mss_bytes);
        1 + self.total_bytes.map_or(start, |total| start.min(total))
    }

    fn data(&self, now: Time, segment: u64) -> Segment {
        let seq = self.seq(segment);
        let len = u32::try_from(self.seq(segment + 1) - seq).unwrap_or(self.config.mss_bytes);
        let fin = segment + 1 == self.total_segments;
        self.segment(now, seq, len, Flags { fin, ack: true, ..Flags::default() })
    }

    /// Builds a data segment for its first transmission.
    fn new_data(&mut self, now: Time, segment: u64) -> Segment {
        let mut data = self.data(now, segment);
        self.mark_outgoing(&mut data, true);
        data
    }

    fn repeated_data(&mut self, now: Time, segment: u64) -> Segment {
        let mut data = self.data(now, segment);
        self.mark_outgoing(&mut data, false);
        data
    }

    fn segment(&self, now: Time, seq: u64, len_bytes: u32, flags: Flags) -> Segment {
        let headers = if flags.syn { self.config.syn_bytes() } else { self.config.header_bytes };
        Segment {
            seq,
            ack: u64::from(flags.ack),
            ts_val: now,
            ts_ecr: self.ts_recent,
            sack: SackBlocks::default(),
            window_bytes: self.config.max_window_bytes,
            len_bytes,
            wire_bytes: headers + len_bytes,
            flags,
            ecn: Ecn::NotEct,
        }
    }

    fn is_tahoe(&self) -> bool {
        self.config.congestion == Congestion::Tahoe
    }
}
