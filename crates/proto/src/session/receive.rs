//! What arrived: each segment goes to the owner whom it concerns. Anything that makes no sense changes nothing, and on
//! a sealed connection neither does anything that is not authentic.

use std::net::SocketAddr;

use dfcp_secure::OpenError;
use dfcp_time::Time;
use dfcp_wire::{BlockInfo, Flags, Header, Options, Profile, Segment, feedback};
use rand_chacha::rand_core::Rng;

use crate::config::Content;
use crate::error::{ConnectionError, Dropped};
use crate::path::rtt::RttEstimator;
use crate::session::handshake::{ACK_OF_FIN, ACK_OF_SYNACK, ACK_PATH_CHALLENGE, ACK_PATH_RESPONSE};
use crate::session::noise::RST_NOT_ADMITTED;
use crate::session::send_side::Heard;
use crate::session::{Phase, Seal, Session, protection};
use crate::shared::PushError;
use crate::shared::events::EventKind;

impl Session {
    /// Takes in a datagram which came from `remote`, and decrypts it in place. Everything invalid is dropped and counted.
    pub fn handle_datagram(&mut self, now: Time, remote: SocketAddr, datagram: &mut [u8]) {
        self.count_received(datagram.len());
        if self.take_datagram(now, remote, datagram).is_err() {
            self.counters.segments_dropped += 1;
        }
    }

    pub(super) fn count_received(&mut self, bytes: usize) {
        self.counters.segments_received += 1;
        self.counters.bytes_received += bytes as u64;
    }

    fn take_datagram(&mut self, now: Time, remote: SocketAddr, datagram: &mut [u8]) -> Result<(), Dropped> {
        let segment = Segment::decode(datagram)?;
        if segment.header.profile != Profile::Modern || matches!(self.phase, Phase::Closed(_)) {
            return Err(Dropped::Unexpected);
        }
        if self.config.credentials().is_none() {
            let elided_bytes = self.elided_bytes(&segment);
            self.counters.bytes_received += elided_bytes as u64;
            return self.handle_segment(now, &segment, datagram.len() + elided_bytes);
        }
        if !segment.header.flags.contains(Flags::SEC) {
            return self.take_clear(now, &segment);
        }
        let Segment { header, options, payload } = segment;
        let (head, sealed) = datagram.split_at_mut(datagram.len() - payload.len());
        self.open_datagram(now, remote, (header, options), head, sealed)
    }

    /// Bytes of the symbol which a data segment stands for without having it.
    fn elided_bytes(&self, segment: &Segment<'_>) -> usize {
        if self.config.content == Content::Real || !segment.header.flags.is_empty() {
            return 0;
        }
        let info = BlockInfo::from_s2(segment.header.s2);
        info.map_or(0, |info| info.length_bytes.div_ceil(u32::from(info.k)) as usize)
    }

    /// Opens a sealed datagram, whose header and options have been read from `head`, and takes its segment.
    fn open_datagram(
        &mut self,
        now: Time,
        remote: SocketAddr,
        (mut header, options): (Header, Options),
        head: &[u8],
        sealed: &mut [u8],
    ) -> Result<(), Dropped> {
        let bytes = head.len() + sealed.len();
        let Seal::On(protection) = &mut self.seal else { return Err(Dropped::Unexpected) };
        let number = self.arrivals.expand(header.s3);
        if header.connection_id() != self.handshake.local_id || !protection::epoch_fits(&header, number) {
            return Err(Dropped::Unexpected);
        }
        header.flags = header.flags.without(Flags::SEC);
        if !self.arrivals.is_new(number) {
            // A dropped segment, not a duplicate symbol: nobody vouches for its flags ([state-4]).
            return Err(Dropped::Duplicate);
        }
        let length = match protection.open(number, head, sealed) {
            Ok(length) => length,
            Err(error) => return self.on_unopened(&error),
        };
        let newest = self.arrivals.is_newest(number);
        self.arrivals.observe(now, number, bytes);
        if newest {
            self.paths.on_newest(remote, || self.random.with(|random| random.next_u64()));
        }
        self.handshake.complete();
        self.last_heard = now;
        let segment = Segment { header, options, payload: sealed.get(..length).unwrap_or_default() };
        if header.flags == Flags::RST {
            let why = if header.s1 == RST_NOT_ADMITTED { ConnectionError::NotAdmitted } else { ConnectionError::Reset };
            self.close(Some(why));
            return Ok(());
        }
        if header.flags == Flags::ACK && matches!(header.s1, ACK_PATH_CHALLENGE | ACK_PATH_RESPONSE) {
            return self.take_path_message(now, remote, &segment);
        }
        self.take_open_segment(now, &segment)
    }

    /// A datagram which is not authentic has no effect, until there have been too many of them ([seal-7]).
    pub(super) fn on_unopened(&mut self, error: &OpenError) -> Result<(), Dropped> {
        if *error != OpenError::ForgeryLimit {
            return Err(Dropped::Forged);
        }
        self.close(Some(ConnectionError::ForgeryLimit));
        Ok(())
    }

    fn take_path_message(&mut self, now: Time, remote: SocketAddr, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        let number = u64::from(header.block_id) << 32 | u64::from(header.s2);
        if header.s1 == ACK_PATH_CHALLENGE {
            self.paths.on_challenge(remote, number);
            return Ok(());
        }
        let sample = self.paths.on_response(now, number).ok_or(Dropped::Unexpected)?;
        // What was known of the old path's delay says nothing about this one's. The peer may have kept the challenge.
        self.rtt = RttEstimator::default();
        self.rtt.guess(sample);
        self.credit.on_new_path();
        self.may_send = true;
        self.reporter.on_own_news(now);
        Ok(())
    }

    fn count_duplicate(&mut self, flags: Flags) {
        if flags.is_empty() {
            self.recv.count_duplicate();
        }
    }

    /// A segment of a connection without seals.
    fn handle_segment(&mut self, now: Time, segment: &Segment<'_>, bytes: usize) -> Result<(), Dropped> {
        let header = &segment.header;
        let addressed = header.flags == Flags::SYN || header.connection_id() == self.handshake.local_id;
        if !addressed || header.flags.contains(Flags::SEC) {
            return Err(Dropped::Unexpected);
        }
        let number = self.arrivals.expand(header.s3);
        if !self.arrivals.observe(now, number, bytes) {
            self.count_duplicate(header.flags);
            return Err(Dropped::Duplicate);
        }
        if header.flags.contains(Flags::RST) {
            self.take_reset();
            return Ok(());
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
        self.open_if_proven(now)?;
        self.last_heard = now;
        self.take_open_segment(now, segment)
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
                self.reset = Some(0);
                self.close(Some(ConnectionError::PeerMisbehaved(what)));
                Ok(())
            }
        }
    }

    fn take_data(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let header = &segment.header;
        let info = BlockInfo::from_s2(header.s2).map_err(|error| PushError::Dropped(error.into()))?;
        let result = self.recv.push(header.block_id, info, header.s1, segment.payload);
        if matches!(result, Ok(true)) && !self.recv.has_open_blocks() {
            self.reporter.on_urgent(now);
        } else {
            // Also for what there was no room for: the sender must learn of the window.
            self.reporter.on_arrival(now);
        }
        if result? || self.recv.is_readable() {
            self.events.push(EventKind::Readable);
        }
        Ok(())
    }

    fn take_report(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let (report, runs) = feedback::decode(segment.payload).map_err(|e| PushError::Dropped(e.into()))?;
        let header = &segment.header;
        let was_drained = self.send.stream.is_drained();
        let proven =
            (self.send.stream.counters().acknowledged_symbols, self.send.stream.counters().acknowledged_symbol_bytes);
        let number = self.arrivals.expand(header.s3);
        let heard = self
            .send
            .on_report(now, number, header.block_id, &report, runs, &self.numbers)
            .map_err(PushError::Misbehaved)?;
        self.counters.acks_received += 1;
        self.may_send = true;
        if let Heard::News { rtt_sample } = heard {
            // FIN cannot be acknowledged before the last block is decoded, however long that takes. What was overtaken
            // on its way shows nothing.
            if !was_drained {
                self.closing.progress(now);
            }
            self.on_news(now, &report, rtt_sample, header.s1);
            self.pay_off(now, proven);
            self.feed_breaker(now, report.bytes_received);
        }
        self.wake_writer();
        Ok(())
    }

    fn take_ack(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let header = &segment.header;
        match header.s1 {
            ACK_OF_FIN => self.take_fin_ack(Some(header.block_id), header.s2)?,
            ACK_OF_SYNACK => {
                // Repeats of the ACK name the same SYNACK: only the first one tells the time.
                if let Some(sample) = self.handshake.rtt(now, header.s2).filter(|_| !self.rtt.is_known()) {
                    self.rtt.guess(sample);
                }
                self.reporter.on_urgent(now);
            }
            _ => self.reporter.on_arrival(now),
        }
        Ok(())
    }

    /// Our FIN is acknowledged, if it is the one which names `end`, or whichever it is.
    fn take_fin_ack(&mut self, end: Option<u32>, proof: u32) -> Result<(), PushError> {
        if self.closing.is_repeating() {
            self.send.stream.check_end(end, proof).map_err(PushError::Misbehaved)?;
        }
        if self.closing.on_fin_acknowledged(end) {
            self.send.on_finished();
            self.events.push(EventKind::Finished);
        }
        Ok(())
    }

    fn take_fin(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let end = segment.header.block_id;
        self.recv.set_end(end).map_err(PushError::Misbehaved)?;
        self.closing.on_peer_fin(end);
        if segment.header.flags.contains(Flags::ACK) {
            self.take_fin_ack(None, segment.header.s2)?;
        }
        self.reporter.on_arrival(now);
        Ok(())
    }
}
