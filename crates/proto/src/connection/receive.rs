//! What arrived: each segment goes to the owner whom it concerns. Anything that makes no sense changes nothing.

use dfcp_fountain::raptor::State as GeneratorState;
use dfcp_time::Time;
use dfcp_wire::handshake::Parameters;
use dfcp_wire::{BlockInfo, Flags, Profile, Segment, feedback};

use crate::config::Config;
use crate::connection::handshake::{ACK_OF_FIN, ACK_OF_SYNACK, CODE_RANDOM_LINEAR, PeerLimits, Role};
use crate::connection::{Connection, Event, Phase, Ports, Receiver, Sender};
use crate::error::{ConnectionError, Dropped};
use crate::path::breaker::Snapshot;
use crate::recv::modern::PushError;

/// The symbol size of classic segments, which has no say.
const CLASSIC_SYMBOL_SIZE: u16 = dfcp_fountain::raptor::SEGMENT_BYTES as u16;

impl Connection {
    /// Answers a SYN: the connection which the listening side gets. `None` if the SYN is not one which `config` can
    /// serve; [`handle_datagram`](Self::handle_datagram) takes its further copies.
    #[must_use]
    pub(crate) fn accept(
        now: Time,
        config: Config,
        ports: Ports,
        syn: &Segment<'_>,
        bytes: usize,
        seed: [u8; 32],
    ) -> Option<Self> {
        let mut connection = Self::new(now, config, ports, Role::Acceptor, seed);
        connection.take_syn(now, syn, bytes).ok()?;
        // Modern answers each copy of the SYN once; classic repeats its SYNACK by itself (thesis §3.6).
        if connection.config.profile == Profile::Classic {
            connection.handshake.start_repeats(now, Profile::Classic);
        }
        connection.count_received(bytes);
        Some(connection)
    }

    /// Takes in a datagram from the peer's address. Everything invalid is dropped and counted.
    pub fn handle_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.count_received(datagram.len());
        let result = Segment::decode(datagram)
            .map_err(Dropped::Malformed)
            .and_then(|segment| self.handle_segment(now, &segment, datagram.len()));
        if result.is_err() {
            self.stats.segments_dropped += 1;
        }
    }

    fn count_received(&mut self, bytes: usize) {
        self.stats.segments_received += 1;
        self.stats.bytes_received += bytes as u64;
    }

    fn handle_segment(&mut self, now: Time, segment: &Segment<'_>, bytes: usize) -> Result<(), Dropped> {
        let header = &segment.header;
        if header.profile != self.config.profile || matches!(self.phase, Phase::Closed(_)) {
            return Err(Dropped::Unexpected);
        }
        if header.profile == Profile::Modern {
            let addressed = header.flags == Flags::SYN || header.connection_id() == self.handshake.local_id;
            if !addressed || header.flags.contains(Flags::SEC) {
                return Err(Dropped::Unexpected);
            }
            let number = self.arrivals.expand(header.s3);
            if !self.arrivals.observe(now, number, bytes) {
                if header.flags.is_empty()
                    && let Receiver::Modern(receiver) = &mut self.receiver
                {
                    receiver.count_duplicate();
                }
                return Err(Dropped::Duplicate);
            }
        }
        if header.flags.contains(Flags::RST) {
            return self.take_reset(segment);
        }
        if header.flags.contains(Flags::SYN) {
            // Copies of a SYN do not prolong what waits for the peer's address to be proven.
            let waits = self.phase == Phase::SynReceived;
            let result = if header.flags.contains(Flags::ACK) {
                self.take_synack(now, segment)
            } else {
                self.take_syn(now, segment, bytes)
            };
            if result.is_ok() && !waits {
                self.last_heard = now;
            }
            return result;
        }
        self.open_if_proven(now, segment)?;
        self.last_heard = now;
        self.take_open_segment(now, segment)
    }

    /// In SYN_RECV, a segment which names our id, or echoes our state, proves the peer's address.
    fn open_if_proven(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        match self.phase {
            Phase::Open => {
                if self.config.profile == Profile::Modern && self.handshake.role == Role::Initiator {
                    // The acceptor speaks, so it knows: the ACK need not be repeated.
                    self.handshake.repeats = None;
                }
                Ok(())
            }
            Phase::SynReceived => {
                let echoed = [header.s1, header.s2, header.s3] == self.handshake.local_initial.words();
                let proven = match self.config.profile {
                    Profile::Modern => true,
                    Profile::Classic => header.flags == Flags::ACK && echoed,
                };
                if !proven {
                    return Err(Dropped::Unexpected);
                }
                if self.config.profile == Profile::Classic
                    && let Some(sample) = self.handshake.rtt(now, 0).filter(|_| self.next_number == 1)
                {
                    self.rtt.sample(sample);
                }
                self.handshake.repeats = None;
                let (peer, symbol_size) = self.pending_peer;
                self.establish(now, peer, symbol_size);
                Ok(())
            }
            Phase::SynSent | Phase::Closed(_) => Err(Dropped::Unexpected),
        }
    }

    fn take_open_segment(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        let flags = header.flags;
        let result = if flags.is_empty() {
            self.take_data(now, segment)
        } else if flags == Flags::FBK {
            self.take_report(now, segment)
        } else if flags.contains(Flags::FIN) {
            self.take_fin(now, segment)
        } else if flags == Flags::ACK {
            self.take_ack(now, segment)
        } else {
            Err(PushError::Dropped(Dropped::Unexpected))
        };
        match result {
            Ok(()) => {
                self.update_closing(now);
                Ok(())
            }
            Err(PushError::Dropped(dropped)) => Err(dropped),
            Err(PushError::Misbehaved(what)) => {
                self.reset = true;
                self.close(Some(ConnectionError::PeerMisbehaved(what)));
                Ok(())
            }
        }
    }

    // ---- opening ----

    fn take_syn(&mut self, now: Time, segment: &Segment<'_>, bytes: usize) -> Result<(), Dropped> {
        let header = &segment.header;
        if self.handshake.has_peer() {
            // A copy is answered again; a different SYN cannot change what has been agreed.
            let known = match self.config.profile {
                Profile::Classic => {
                    self.handshake.peer_initial.map(GeneratorState::words) == Some([header.s1, header.s2, header.s3])
                }
                Profile::Modern => self.handshake.peer_id == Some(Self::modern_parameters(segment)?.connection_id),
            };
            if !known {
                return Err(Dropped::Unexpected);
            }
            self.handshake.owe(header.s3);
            return Ok(());
        }
        if self.config.profile == Profile::Classic {
            let state = GeneratorState::new(header.s1, header.s2, header.s3).ok_or(Dropped::Unexpected)?;
            self.set_peer_initial(state);
            self.pending_peer = (self.classic_peer(), CLASSIC_SYMBOL_SIZE);
        } else {
            let parameters = Self::modern_parameters(segment)?;
            self.handshake.peer_id = Some(parameters.connection_id);
            let symbol_size = segment.options.symbol_size.unwrap_or(self.config.symbol_size);
            self.config.symbol_size = self.config.symbol_size.min(symbol_size);
            self.pending_peer = (PeerLimits::from(&parameters), self.config.symbol_size);
            if self.arrivals.received() == 0 {
                self.arrivals.observe(now, header.s3.into(), bytes);
            }
        }
        // A SYN in SYN_SENT is a simultaneous open: both ends answer, as TCP does (RFC 9293 §3.5). Neither is only a
        // responder, so both repeat their SYNACK.
        if self.phase == Phase::SynSent {
            self.phase = Phase::SynReceived;
            self.handshake.start_repeats(now, self.config.profile);
        }
        self.handshake.owe(header.s3);
        Ok(())
    }

    /// The payload of a modern SYN or SYNACK, if we can speak what it asks for.
    fn modern_parameters(segment: &Segment<'_>) -> Result<Parameters, Dropped> {
        let options = &segment.options;
        let ours = options.version == Some(dfcp_wire::VERSION)
            && options.profile == Some(Profile::Modern)
            && options.code == Some(CODE_RANDOM_LINEAR)
            && options.symbol_size.is_some_and(|size| (64..=1472).contains(&size));
        if !ours {
            return Err(Dropped::Unexpected);
        }
        Ok(Parameters::decode(segment.payload)?)
    }

    fn take_synack(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        match self.phase {
            Phase::SynSent => {}
            Phase::SynReceived if self.handshake.role == Role::Initiator => {}
            Phase::SynReceived => return Err(Dropped::Unexpected),
            Phase::Open => {
                // Our ACK was lost.
                self.handshake.owe(header.s3);
                return Ok(());
            }
            Phase::Closed(_) => return Err(Dropped::Unexpected),
        }
        let (peer, symbol_size) = if self.config.profile == Profile::Classic {
            let state = GeneratorState::new(header.s1, header.s2, header.s3).ok_or(Dropped::Unexpected)?;
            self.set_peer_initial(state);
            if let Some(sample) = self.handshake.rtt(now, 0).filter(|_| self.next_number == 1) {
                self.rtt.sample(sample);
            }
            (self.classic_peer(), CLASSIC_SYMBOL_SIZE)
        } else {
            let parameters = match Self::modern_parameters(segment) {
                Ok(parameters) => parameters,
                Err(error) => {
                    if error == Dropped::Unexpected {
                        self.close(Some(ConnectionError::Incompatible));
                    }
                    return Err(error);
                }
            };
            self.handshake.peer_id = Some(parameters.connection_id);
            if let Some(sample) = self.handshake.rtt(now, header.s2) {
                self.rtt.sample(sample);
            }
            let symbol_size = segment.options.symbol_size.unwrap_or(self.config.symbol_size);
            self.config.symbol_size = self.config.symbol_size.min(symbol_size);
            (PeerLimits::from(&parameters), self.config.symbol_size)
        };
        self.handshake.owe(header.s3);
        self.handshake.repeats = None;
        if self.config.profile == Profile::Modern {
            // Repeated until the acceptor shows that it has heard: it does not repeat its SYNACK by itself.
            self.handshake.start_repeats(now, Profile::Modern);
        }
        self.establish(now, peer, symbol_size);
        Ok(())
    }

    fn set_peer_initial(&mut self, state: GeneratorState) {
        if self.handshake.peer_initial == Some(state) {
            return;
        }
        self.handshake.peer_initial = Some(state);
        let receiver = crate::recv::classic::ClassicReceiver::new(&self.config, state);
        self.receiver = Receiver::Classic(Box::new(receiver));
    }

    /// A classic peer declares nothing: the documents leave the window to each side.
    fn classic_peer(&self) -> PeerLimits {
        PeerLimits { window_blocks: self.config.window_blocks, window_bytes: u64::MAX, ..PeerLimits::default() }
    }

    fn take_reset(&mut self, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        let words = [header.s1, header.s2, header.s3];
        // Whoever resets a classic connection must know the state which we sent it. A modern RST names our id.
        if self.config.profile == Profile::Classic && words != self.handshake.local_initial.words() {
            return Err(Dropped::Unexpected);
        }
        let error = match self.phase {
            Phase::SynSent | Phase::SynReceived => ConnectionError::Refused,
            Phase::Open | Phase::Closed(_) => ConnectionError::Reset,
        };
        self.close(Some(error));
        Ok(())
    }

    // ---- data ----

    fn take_data(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let header = &segment.header;
        let complete = match &mut self.receiver {
            Receiver::Classic(receiver) => {
                let state = [header.s1, header.s2, header.s3];
                receiver.push(now, header.block_id, state, segment.options.block_length, segment.payload)?
            }
            Receiver::Modern(receiver) => {
                let info = BlockInfo::from_s2(header.s2).map_err(|error| PushError::Dropped(error.into()))?;
                let result = receiver.push(header.block_id, info, header.s1, segment.payload);
                if matches!(result, Ok(true)) && !receiver.has_open_blocks() {
                    self.reporter.on_urgent(now);
                } else {
                    // Also for what there was no room for: the sender must learn of the window.
                    self.reporter.on_arrival(now);
                }
                result?
            }
        };
        let readable = match &self.receiver {
            Receiver::Classic(receiver) => receiver.is_readable(),
            Receiver::Modern(receiver) => receiver.is_readable(),
        };
        if complete || readable {
            self.push_event(Event::Readable);
        }
        Ok(())
    }

    fn take_report(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let Sender::Modern(sender) = &mut self.sender else { return Err(PushError::Dropped(Dropped::Unexpected)) };
        let (report, runs) = feedback::decode(segment.payload).map_err(|e| PushError::Dropped(e.into()))?;
        let before = sender.counters().acknowledged_bytes;
        let was_drained = sender.is_drained();
        let number = self.arrivals.expand(segment.header.s3);
        let news = sender
            .on_report(now, number, segment.header.block_id, &report, runs, self.next_number)
            .map_err(PushError::Misbehaved)?;
        let progress = sender.counters().acknowledged_bytes > before;
        self.stats.acks_received += 1;
        self.may_send = true;
        // FIN cannot be acknowledged before the last block is decoded, however long that takes.
        if !was_drained {
            self.closing.progress(now);
        }
        if let Some(sample) = news {
            self.stats.arrival_rate_bps = report.arrival_rate_bps;
            if let Some(sample) = sample {
                self.rtt.sample(sample);
            }
            self.feed_breaker(now, report.bytes_received);
        }
        if progress && self.write_blocked {
            self.write_blocked = false;
            self.push_event(Event::Writable);
        }
        Ok(())
    }

    fn feed_breaker(&mut self, now: Time, bytes: u64) {
        let Sender::Modern(sender) = &self.sender else { return };
        let Some(reported) = sender.reported().filter(|_| self.breaker_is_on()) else { return };
        let Some(rate_bps) = self.configured_bps() else { return };
        self.reported_bytes = self.reported_bytes.max(bytes.min(self.stats.bytes_sent));
        let overhead = reported.received * u64::from(self.config.overhead_bytes);
        let snapshot = Snapshot {
            at: now,
            numbered: self.next_number,
            settled: reported.highest + 1,
            arrived: reported.received,
            arrived_bits: (self.reported_bytes + overhead) * 8,
            sent_bits: self.sent_bits,
        };
        self.breaker.observe(snapshot, self.rtt.smoothed(), rate_bps);
        self.update_rate();
    }

    fn take_ack(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let header = &segment.header;
        match &mut self.sender {
            Sender::Classic(sender) => {
                if [header.s1, header.s2, header.s3] != [0; 3] {
                    return Ok(()); // the handshake's ACK again
                }
                self.stats.acks_received += 1;
                if !self.closing.is_started() || !sender.is_drained() {
                    let known = sender.on_ack(now, header.block_id);
                    self.may_send = true;
                    self.push_event(Event::Writable);
                    return if known { Ok(()) } else { Err(PushError::Dropped(Dropped::OutsideWindow)) };
                }
                self.take_fin_ack(Some(header.block_id));
            }
            Sender::Modern(_) => match header.s1 {
                ACK_OF_FIN => self.take_fin_ack(Some(header.block_id)),
                ACK_OF_SYNACK => {
                    // Repeats of the ACK name the same SYNACK: only the first one tells the time.
                    if let Some(sample) = self.handshake.rtt(now, header.s2).filter(|_| !self.rtt.is_known()) {
                        self.rtt.sample(sample);
                    }
                    self.reporter.on_urgent(now);
                }
                _ => self.reporter.on_arrival(now),
            },
        }
        Ok(())
    }

    fn take_fin_ack(&mut self, end: Option<u32>) {
        if self.closing.on_fin_acknowledged(end) {
            // The report which acknowledges the last blocks may still be on its way, or lost.
            if let Sender::Modern(sender) = &mut self.sender {
                sender.on_finished();
            }
            self.push_event(Event::Finished);
        }
    }

    fn take_fin(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let end = segment.header.block_id;
        let result = match &mut self.receiver {
            Receiver::Classic(receiver) => receiver.set_end(end),
            Receiver::Modern(receiver) => receiver.set_end(end),
        };
        result.map_err(PushError::Misbehaved)?;
        self.closing.on_peer_fin(end);
        if segment.header.flags.contains(Flags::ACK) {
            self.take_fin_ack(None);
        }
        if self.config.profile == Profile::Modern {
            self.reporter.on_arrival(now);
        }
        Ok(())
    }
}
