//! Receiver of the TCP model, which reassembles and acknowledges the stream.

mod buffer;
mod ecn;
mod linux;
mod reassembly;

use dfcp_netem::Ecn;
use dfcp_time::Time;

use super::config::{AckPolicy, Config, ConfigError};
use super::rtt::RttEstimator;
use super::segment::{Flags, SackBlocks, Segment};
pub use buffer::RECEIVE_BUFFER_BYTES_MAX;
use buffer::ReceiveBuffer;
use ecn::ReceiverEcn;
use linux::{Arrival, LinuxAcks};
use reassembly::Reassembly;

/// Counters of a receiver since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Bytes delivered to the application in order.
    pub delivered_bytes: u64,
    /// Data segments received, including duplicates.
    pub segments: u64,
    /// Segments received without any new data.
    pub duplicate_segments: u64,
    /// Segments received with new data above a gap.
    pub out_of_order_segments: u64,
    /// Segments sent, all of them acknowledgements.
    pub acks: u64,
    /// Segments received with the CE mark and new data. 0 unless ECN was negotiated.
    pub ce_segments: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listen,
    /// The SYN was answered. The answer is repeated until another segment arrives.
    SynReceived,
    Established,
}

/// Receiver of the TCP model. See the [module](super) for its use.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: Config,
    state: State,
    data: Reassembly,
    /// Sequence number of the FIN; `None` before its arrival.
    fin: Option<u64>,
    fin_received: bool,
    /// Send an acknowledgement at the next poll.
    ack_now: bool,
    /// Number of segments received since the last acknowledgement.
    delayed: u32,
    delayed_deadline: Option<Time>,
    quick_acks: u32,
    linux: LinuxAcks,
    ecn: ReceiverEcn,
    /// Buffer that determines the advertised window; `None` for a constant window.
    buffer: Option<ReceiveBuffer>,
    /// Duplicate data to be reported by the next acknowledgement.
    duplicate: Option<(u64, u64)>,
    /// Timestamp to echo (RFC 7323). It depends on `last_ack`, the last acknowledgement sent.
    ts_recent: Time,
    last_ack: u64,
    handshake_timer: RttEstimator,
    handshake_deadline: Option<Time>,
    answered: Time,
    stats: ReceiverStats,
}

impl Receiver {
    /// # Errors
    ///
    /// Fails if the [configuration](Config::validate) is invalid.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            state: State::Listen,
            data: Reassembly::new(1),
            fin: None,
            fin_received: false,
            ack_now: false,
            delayed: 0,
            delayed_deadline: None,
            quick_acks: config.quick_ack_segments,
            linux: LinuxAcks::default(),
            ecn: ReceiverEcn::default(),
            buffer: (config.ack_policy == AckPolicy::Linux).then(|| ReceiveBuffer::new(&config)),
            duplicate: None,
            ts_recent: Time::ZERO,
            last_ack: 0,
            handshake_timer: RttEstimator::new(&config),
            handshake_deadline: None,
            answered: Time::ZERO,
            stats: ReceiverStats::default(),
        })
    }

    /// Processes a segment from the sender.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) {
        if segment.flags.syn {
            self.on_syn(now, segment);
            return;
        }
        if self.state == State::Listen {
            return;
        }
        if self.state == State::SynReceived && self.handshake_timer.backoff() == 0 {
            self.handshake_timer.on_sample(now.since(self.answered).as_nanos() as u64);
        }
        self.state = State::Established;
        self.handshake_deadline = None;
        // RFC 7323, section 4.3: if acknowledgements are delayed, the timestamp of the oldest unacknowledged segment is
        // echoed.
        if segment.ts_val >= self.ts_recent && segment.seq <= self.last_ack {
            self.ts_recent = segment.ts_val;
        }
        self.accept_cwr(segment);
        if segment.len_bytes > 0 || segment.flags.fin {
            self.on_data(now, segment);
        }
    }

    /// Returns the next segment to be sent, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if let Some((ack, echoes)) = self.ecn.early_ack.take() {
            return Some(self.acknowledgement(now, ack, echoes, SackBlocks::default()));
        }
        if !self.ack_now {
            return None;
        }
        self.ack_now = false;
        self.delayed = 0;
        self.delayed_deadline = None;
        self.linux.on_ack_sent();
        let ack = self.ack();
        self.last_ack = ack;
        let mut sack = SackBlocks::default();
        if self.config.uses_sack() {
            let mut room = self.config.sack_blocks();
            if let Some((start, end)) = self.duplicate.take() {
                sack.set_duplicate(start, end);
                room -= 1;
            }
            for (start, end) in self.data.recent_blocks().take(room) {
                sack.push(ack, start, end);
            }
        }
        Some(self.acknowledgement(now, ack, self.ecn.echoes, sack))
    }

    fn acknowledgement(&mut self, now: Time, ack: u64, echoes: bool, sack: SackBlocks) -> Segment {
        self.stats.acks += 1;
        let syn = self.state == State::SynReceived;
        // The answer to a SYN confirms ECN by ECE.
        let ece = if syn { self.ecn.is_agreed } else { echoes };
        let options = if sack.is_empty() { 0 } else { 4 + 8 * sack.len() as u32 };
        Segment {
            seq: u64::from(!syn),
            ack,
            ts_val: now,
            ts_ecr: self.ts_recent,
            sack,
            window_bytes: self.offer(ack),
            len_bytes: 0,
            wire_bytes: if syn { self.config.syn_bytes() } else { self.config.header_bytes + options },
            flags: Flags { syn, ack: true, ece, ..Flags::default() },
            ecn: if self.is_dctcp() && (syn || self.ecn.is_agreed) { Ecn::Ect0 } else { Ecn::NotEct },
        }
    }

    /// Returns the time of the next [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        [self.delayed_deadline, self.handshake_deadline, self.linux.compressed_until()].into_iter().flatten().min()
    }

    /// Handles deadlines that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.delayed_deadline.is_some_and(|deadline| deadline <= now) {
            self.delayed_deadline = None;
            self.linux.on_delayed_ack_missed(&self.config);
            self.ack_now = true;
        }
        if self.linux.compressed_until().is_some_and(|deadline| deadline <= now) {
            self.ack_now = true;
        }
        if self.handshake_deadline.is_some_and(|deadline| deadline <= now) {
            self.handshake_timer.back_off();
            self.answer_syn(now);
        }
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Returns true once the whole stream has arrived.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fin_received
    }

    /// Returns the next expected sequence number.
    fn ack(&self) -> u64 {
        self.data.next() + u64::from(self.fin_received)
    }

    fn on_syn(&mut self, now: Time, segment: &Segment) {
        if self.state == State::Established {
            // The SYN is repeated or late: the sender has probably not received the answer.
            self.ack_now = true;
            return;
        }
        if self.state == State::Listen {
            self.agree_on_ecn(segment);
        }
        self.state = State::SynReceived;
        self.ts_recent = segment.ts_val;
        self.answer_syn(now);
    }

    fn answer_syn(&mut self, now: Time) {
        self.ack_now = true;
        self.answered = now;
        self.handshake_deadline = Some(now + std::time::Duration::from_nanos(self.handshake_timer.rto_ns()));
    }

    fn on_data(&mut self, now: Time, segment: &Segment) {
        self.stats.segments += 1;
        let (start, end) = (segment.seq, segment.seq + u64::from(segment.len_bytes));
        if end > self.window_end() {
            // Data beyond the advertised window is dropped, and an acknowledgement is sent.
            self.ack_now = true;
            return;
        }
        let gap = self.data.has_gap();
        let before = self.data.next();
        let fresh = self.data.insert(start, end);
        if segment.flags.fin {
            self.fin = Some(end);
        }
        let finished = self.fin_received;
        self.fin_received = self.fin == Some(self.data.next());
        self.stats.delivered_bytes += self.data.next() - before;
        let in_order = self.data.next() > before || self.fin_received && !finished;
        if !in_order && !fresh {
            self.stats.duplicate_segments += 1;
        } else if !in_order {
            self.stats.out_of_order_segments += 1;
        }
        if in_order || fresh {
            self.note_codepoint(segment);
        }
        self.delayed += 1;
        match self.config.ack_policy {
            AckPolicy::Rfc => self.schedule_ack(now, in_order && !gap),
            AckPolicy::Linux => {
                self.tune_buffer(now, segment, before);
                if !in_order && !fresh {
                    self.duplicate = Some((start, end));
                }
                self.schedule_ack_linux(now, Arrival { segment, in_order, is_old: end <= before, filled: gap });
            }
        }
    }

    /// Returns the first sequence number beyond the advertised window.
    fn window_end(&self) -> u64 {
        match &self.buffer {
            Some(buffer) => buffer.edge(),
            None => self.data.next() + u64::from(self.config.max_window_bytes),
        }
    }

    fn offer(&mut self, ack: u64) -> u32 {
        let most = self.config.max_window_bytes;
        self.buffer.as_mut().map_or(most, |buffer| buffer.offer(ack, self.data.waiting_bytes()).min(most))
    }

    /// Updates the buffer for a segment that the kernel has processed, and lets the application read all in-order data.
    fn tune_buffer(&mut self, now: Time, segment: &Segment, before: u64) {
        let Some(buffer) = &mut self.buffer else { return };
        let arrived_bytes = self.data.waiting_bytes() + self.data.next() - before;
        if buffer.on_segment(now, segment.ts_ecr, arrived_bytes) {
            self.quick_acks |= 1;
        }
        if self.data.next() > before {
            buffer.on_read(now, self.data.next());
        }
    }

    fn schedule_ack(&mut self, now: Time, is_plain: bool) {
        if !is_plain || self.fin_received || self.quick_acks > 0 {
            self.quick_acks = self.quick_acks.saturating_sub(1);
            self.ack_now = true;
        } else if self.delayed >= self.config.delayed_ack_segments {
            self.ack_now = true;
        } else if self.delayed_deadline.is_none() {
            self.delayed_deadline = Some(now + self.config.delayed_ack);
        }
    }
}
