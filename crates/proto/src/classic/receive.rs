//! What arrived: each segment goes to the owner that it concerns. What makes no sense changes nothing.

use dfcp_fountain::raptor::SEGMENT_BYTES;
use dfcp_time::Time;
use dfcp_wire::{Flags, Header, Profile, Segment};

use crate::classic::sender::NeverSent;
use crate::classic::{ClassicConnection, Phase, Reset};
use crate::config::Content;
use crate::error::{ConnectionError, Dropped};
use crate::shared::PushError;
use crate::shared::events::EventKind;

impl ClassicConnection {
    /// Takes in a datagram. Everything invalid is dropped and counted.
    pub(crate) fn handle_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.count_received(datagram.len());
        if self.take_datagram(now, datagram).is_err() {
            self.counters.segments_dropped += 1;
        }
    }

    pub(super) fn count_received(&mut self, bytes: usize) {
        self.counters.segments_received += 1;
        self.counters.bytes_received += bytes as u64;
    }

    fn take_datagram(&mut self, now: Time, datagram: &[u8]) -> Result<(), Dropped> {
        let segment = Segment::decode(datagram)?;
        let header = &segment.header;
        if header.profile != Profile::Classic || matches!(self.phase, Phase::Closed(_)) {
            return Err(Dropped::Unexpected);
        }
        if self.config.content == Content::Counted && header.flags.is_empty() {
            self.counters.bytes_received += SEGMENT_BYTES as u64;
        }
        if header.flags.contains(Flags::RST) {
            return self.take_reset(header);
        }
        if header.flags.contains(Flags::SYN) {
            // Copies of a SYN do not prolong what waits for the peer's address to be proven.
            let waits = self.phase == Phase::SynReceived;
            let is_synack = header.flags.contains(Flags::ACK);
            if is_synack {
                self.take_synack(now, header)?
            } else {
                self.take_syn(now, header)?
            }
            if !waits {
                self.last_heard = now;
            }
            return Ok(());
        }
        self.open_if_proven(now, header)?;
        self.last_heard = now;
        self.take_open_segment(now, &segment)
    }

    fn take_open_segment(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        let result = if header.flags.is_empty() {
            self.take_data(now, segment)
        } else if header.flags.contains(Flags::FIN) {
            self.take_fin(header)
        } else if header.flags == Flags::ACK {
            self.take_ack(now, header)
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
                self.reset = Some(Reset);
                self.close(Some(ConnectionError::PeerMisbehaved(what)));
                Ok(())
            }
        }
    }

    fn take_data(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), PushError> {
        let header = &segment.header;
        let state = [header.s1, header.s2, header.s3];
        let is_complete =
            self.receiver.push(now, header.block_id, state, segment.options.block_length, segment.payload)?;
        if is_complete || self.receiver.is_readable() {
            self.events.push(EventKind::Readable);
        }
        Ok(())
    }

    fn take_ack(&mut self, now: Time, header: &Header) -> Result<(), PushError> {
        if [header.s1, header.s2, header.s3] != [0; 3] {
            return Ok(()); // the handshake's ACK again
        }
        self.counters.acks_received += 1;
        if self.closing.is_started() && self.sender.is_drained() {
            self.take_fin_ack(Some(header.block_id));
            return Ok(());
        }
        let sample = self.sender.on_ack(now, header.block_id);
        self.may_send = true;
        self.events.push(EventKind::Writable);
        if let Some(sample) = sample.map_err(|NeverSent| Dropped::OutsideWindow)? {
            self.rtt.sample(sample);
        }
        Ok(())
    }

    /// Our FIN is acknowledged, if it is the one that names `end`, or whichever it is.
    fn take_fin_ack(&mut self, end: Option<u32>) {
        if self.closing.on_fin_acknowledged(end) {
            self.events.push(EventKind::Finished);
        }
    }

    fn take_fin(&mut self, header: &Header) -> Result<(), PushError> {
        self.receiver.set_end(header.block_id).map_err(PushError::Misbehaved)?;
        self.closing.on_peer_fin(header.block_id);
        if header.flags.contains(Flags::ACK) {
            self.take_fin_ack(None);
        }
        Ok(())
    }
}
