//! What arrived: each segment goes to the owner whom it concerns. Anything that makes no sense changes nothing, and on
//! a sealed connection neither does anything that is not authentic.

use std::net::SocketAddr;

use dfcp_secure::{OpenError, epoch_of};
use dfcp_time::Time;
use dfcp_wire::segment::{Ack, Clear, Data, Fin, KeyEpoch, Received, ReportHeader, ResetReason, Sealed, Segment};
use dfcp_wire::{StreamId, Unverified, feedback};
use rand_chacha::rand_core::Rng;

use crate::config::Content;
use crate::error::{ConnectionError, Dropped};
use crate::path::rtt::RttEstimator;
use crate::session::handshake::Opener;
use crate::session::send_side::Heard;
use crate::session::streams::Direction;
use crate::session::{Phase, Seal, Session};
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
        let header = Unverified::read(datagram)?;
        if matches!(self.phase, Phase::Closed(_)) {
            return Err(Dropped::Unexpected);
        }
        match header {
            Unverified::Sealed(header) => self.open_datagram(now, remote, &header, datagram),
            Unverified::Clear(header) if self.config.credentials().is_some() => self.take_clear(now, &header, datagram),
            Unverified::Clear(header) => self.take_unsealed(now, &header, datagram),
            Unverified::Classic(_) => Err(Dropped::Unexpected),
        }
    }

    /// Opens a sealed datagram and takes its segment. Nothing changes before it is known to be new, authentic and a segment.
    fn open_datagram(
        &mut self,
        now: Time,
        remote: SocketAddr,
        header: &Sealed,
        datagram: &mut [u8],
    ) -> Result<(), Dropped> {
        let bytes = datagram.len();
        let Seal::On(protection) = &mut self.seal else { return Err(Dropped::Unexpected) };
        let (head, sealed) = header.split(datagram)?;
        let number = self.arrivals.expand(header.number());
        // [seal-2]: the epoch is that of the number.
        if header.connection_id() != self.handshake.local_id || header.epoch() != KeyEpoch::of(epoch_of(number)) {
            return Err(Dropped::Unexpected);
        }
        if !self.arrivals.is_new(number) {
            // A dropped segment, not a duplicate symbol: nobody vouches for its flags ([state-4]).
            return Err(Dropped::Duplicate);
        }
        let length = match protection.open(number, head, sealed) {
            Ok(length) => length,
            Err(error) => return self.on_unopened(&error),
        };
        let Received { segment, payload, .. } = header.opened(sealed.get(..length).unwrap_or_default())?;
        let newest = self.arrivals.is_newest(number);
        self.arrivals.observe(now, number, bytes);
        if newest {
            self.paths.on_newest(remote, || self.random.with(|random| random.next_u64()));
        }
        self.handshake.complete();
        self.last_heard = now;
        match segment {
            Segment::Reset(reset) => {
                self.close(Some(match reset.reason {
                    ResetReason::NotAdmitted => ConnectionError::NotAdmitted,
                    ResetReason::CannotRead | ResetReason::Unspecified => ConnectionError::Reset,
                }));
                Ok(())
            }
            Segment::Ack(Ack::PathChallenge { token }) => {
                self.paths.on_challenge(remote, token);
                Ok(())
            }
            Segment::Ack(Ack::PathResponse { token }) => self.take_path_response(now, token),
            _ => self.take_open_segment(now, &segment, number, payload),
        }
    }

    /// A datagram which is not authentic has no effect, until there have been too many of them ([seal-7]).
    pub(super) fn on_unopened(&mut self, error: &OpenError) -> Result<(), Dropped> {
        if *error != OpenError::ForgeryLimit {
            return Err(Dropped::Forged);
        }
        self.close(Some(ConnectionError::ForgeryLimit));
        Ok(())
    }

    fn take_path_response(&mut self, now: Time, token: u64) -> Result<(), Dropped> {
        let sample = self.paths.on_response(now, token).ok_or(Dropped::Unexpected)?;
        // What was known of the old path's delay says nothing about this one's. The peer may have kept the challenge.
        self.rtt = RttEstimator::default();
        self.rtt.guess(sample);
        self.credit.on_new_path();
        self.may_send = true;
        self.reporter.on_own_news(now);
        Ok(())
    }

    /// A datagram of a connection without seals.
    fn take_unsealed(&mut self, now: Time, header: &Clear, datagram: &[u8]) -> Result<(), Dropped> {
        let Received { segment, number, payload } = header.verify(datagram)?;
        let elided_bytes = self.elided_bytes(&segment);
        self.counters.bytes_received += elided_bytes as u64;
        let bytes = datagram.len() + elided_bytes;
        if !header.is_syn() && header.connection_id() != self.handshake.local_id {
            return Err(Dropped::Unexpected);
        }
        if matches!(segment, Segment::Ack(Ack::PathChallenge { .. } | Ack::PathResponse { .. } | Ack::Noise)) {
            // Only keys give these a meaning ([path-1]): anybody can write them.
            return Err(Dropped::Unexpected);
        }
        let expanded = self.arrivals.expand(number);
        if !self.arrivals.observe(now, expanded, bytes) {
            if matches!(segment, Segment::Data(_)) {
                self.recv.count_duplicate();
            }
            return Err(Dropped::Duplicate);
        }
        // Copies of a SYN do not prolong what waits for the peer's address to be proven.
        let is_proven = self.phase != Phase::SynReceived;
        match segment {
            Segment::Reset(_) => {
                self.take_reset();
                return Ok(());
            }
            Segment::Syn(syn) => self.take_syn(now, &Opener { options: syn.options, number, payload }, bytes)?,
            Segment::SynAck(synack) => self.take_synack(now, &synack, number, payload)?,
            _ => {
                self.open_if_proven(now)?;
                self.last_heard = now;
                return self.take_open_segment(now, &segment, expanded, payload);
            }
        }
        if is_proven {
            self.last_heard = now;
        }
        Ok(())
    }

    /// Bytes of the symbol which a data segment stands for without having it.
    fn elided_bytes(&self, segment: &Segment) -> usize {
        match segment {
            Segment::Data(Data { block, .. }) if self.config.content == Content::Elided => {
                block.length_bytes.div_ceil(u32::from(block.k)) as usize
            }
            _ => 0,
        }
    }

    /// A segment of an open connection; `number` is its full one.
    fn take_open_segment(&mut self, now: Time, segment: &Segment, number: u64, payload: &[u8]) -> Result<(), Dropped> {
        let result = match segment {
            Segment::Data(data) => self.take_data(now, data, payload),
            Segment::Report(header) => self.take_report(now, header, number, payload),
            Segment::Fin(fin) => self.paid_off(now, |it| it.take_fin(now, fin, number)),
            Segment::Ack(ack) => self.paid_off(now, |it| it.take_ack(now, ack, number)),
            Segment::Syn(_) | Segment::SynAck(_) | Segment::Reset(_) => Err(Dropped::Unexpected.into()),
        };
        // Also after what was refused: it may have been the last of its stream.
        self.settle_gone(now);
        match result {
            Ok(()) => {
                self.update_closing(now);
                Ok(())
            }
            Err(PushError::Dropped(dropped)) => Err(dropped),
            Err(PushError::Misbehaved(what)) => {
                self.reset = Some(ResetReason::Unspecified);
                self.close(Some(ConnectionError::PeerMisbehaved(what)));
                Ok(())
            }
        }
    }

    fn take_data(&mut self, now: Time, data: &Data, payload: &[u8]) -> Result<(), PushError> {
        if let Err(error) = self.admit(now, data.stream, Direction::FromPeer) {
            // A symbol of a stream which there is no memory for: the peer would miss it in the counts.
            self.recv.count_refused();
            self.reporter.on_arrival(now);
            return Err(error);
        }
        let result = self.recv.push(data, payload);
        if matches!(result, Ok(true)) && !self.recv.has_open_blocks() {
            self.reporter.on_urgent(now);
        } else {
            // Also for what there was no room for: the sender must learn of the window.
            self.reporter.on_arrival(now);
        }
        result?;
        if data.stream == StreamId::FIRST && self.recv.is_readable(StreamId::FIRST) {
            self.events.push(EventKind::Readable);
        }
        Ok(())
    }

    fn take_report(&mut self, now: Time, header: &ReportHeader, number: u64, payload: &[u8]) -> Result<(), PushError> {
        let (report, records) = feedback::decode(payload).map_err(|e| PushError::Dropped(e.into()))?;
        let was_drained = self.send.is_drained();
        let proven = self.proven();
        self.check_streams_of(&records)?;
        let heard = self
            .send
            .on_report(now, number, (&report, &records), &self.numbers, &self.rtt)
            .map_err(PushError::Misbehaved)?;
        self.counters.acks_received += 1;
        self.may_send = true;
        if let Heard::News { rtt_sample } = heard {
            // FIN cannot be acknowledged before the last block is decoded, however long that takes. What was overtaken
            // on its way shows nothing.
            if !was_drained {
                self.closing.progress(now);
            }
            self.on_news(now, &report, rtt_sample, header.receive_queue_kib);
            self.pay_off(now, proven);
            self.feed_breaker(now, report.bytes_received);
            if self.ids.on_peer_limits(report.streams) {
                self.has_new_credit |= std::mem::take(&mut self.wants_streams);
            }
        }
        Ok(())
    }

    fn take_ack(&mut self, now: Time, ack: &Ack, number: u64) -> Result<(), PushError> {
        match *ack {
            Ack::OfFin { stream: StreamId::FIRST, end, proof } => self.take_fin_ack(Some(end), proof, number)?,
            Ack::OfSynAck { echo } => {
                // Repeats of the ACK name the same SYNACK: only the first one tells the time.
                if let Some(sample) = self.handshake.rtt(now, echo).filter(|_| !self.rtt.is_known()) {
                    self.rtt.guess(sample);
                }
                self.reporter.on_urgent(now);
            }
            Ack::KeepAlive { stream } => {
                self.admit(now, stream, Direction::Any)?;
                self.recv.on_question(stream);
                self.reporter.on_arrival(now);
            }
            Ack::OfFin { .. }
            | Ack::ResetStream { .. }
            | Ack::OfReset { .. }
            | Ack::StopSending { .. }
            | Ack::Gone { .. } => self.take_stream_ack(now, ack, number)?,
            Ack::PathChallenge { .. } | Ack::PathResponse { .. } | Ack::Noise => {
                return Err(Dropped::Unexpected.into());
            }
        }
        Ok(())
    }

    /// Our FIN is acknowledged, if it is the one which names `end`, or whichever it is.
    fn take_fin_ack(&mut self, end: Option<u32>, proof: u32, number: u64) -> Result<(), PushError> {
        if self.closing.is_repeating() {
            self.send.check_first_end(end, proof).map_err(PushError::Misbehaved)?;
        }
        if self.closing.on_fin_acknowledged(end) {
            self.send.on_first_finished(number);
            self.events.push(EventKind::Finished);
        }
        Ok(())
    }

    fn take_fin(&mut self, now: Time, fin: &Fin, number: u64) -> Result<(), PushError> {
        self.admit(now, fin.stream, Direction::FromPeer)?;
        self.recv.on_fin(fin.stream, fin.end)?;
        if fin.stream != StreamId::FIRST {
            self.reporter.on_arrival(now);
            return Ok(());
        }
        self.closing.on_peer_fin(fin.end);
        if let Some(proof) = fin.ack_proof {
            self.take_fin_ack(None, proof, number)?;
        }
        self.reporter.on_arrival(now);
        Ok(())
    }
}
