//! Processing of received segments. Each segment goes to the component that it concerns. Invalid segments have no
//! effect.

use dfcp_fountain::raptor::SEGMENT_BYTES;
use dfcp_time::Time;
use dfcp_wire::Unverified;
use dfcp_wire::classic::{BlockLength, Received, Segment, StateWords};

use crate::classic::sender::NeverSent;
use crate::classic::{ClassicConnection, Phase, Reset};
use crate::error::{ConnectionError, Dropped};
use crate::shared::PushError;

impl ClassicConnection {
    /// Processes a datagram. Invalid datagrams are dropped and counted. Returns the reason for dropping it, for
    /// observers.
    pub(crate) fn handle_datagram(&mut self, now: Time, datagram: &[u8]) -> Option<Dropped> {
        self.count_received(datagram.len());
        let why = self.take_datagram(now, datagram).err();
        self.counters.segments_dropped += u64::from(why.is_some());
        why
    }

    pub(super) fn count_received(&mut self, bytes: usize) {
        self.counters.segments_received += 1;
        self.counters.bytes_received += bytes as u64;
    }

    fn take_datagram(&mut self, now: Time, datagram: &[u8]) -> Result<(), Dropped> {
        let Unverified::Classic(header) = Unverified::read(datagram)? else { return Err(Dropped::Unexpected) };
        let Received { segment, payload } = header.verify(datagram)?;
        if matches!(self.phase, Phase::Closed(_)) {
            return Err(Dropped::Unexpected);
        }
        // Copies of a SYN must not prolong SYN_RECV, which waits for a proof of the peer's address.
        let is_proven = self.phase != Phase::SynReceived;
        match segment {
            Segment::Reset { echo } => return self.take_reset(echo),
            Segment::Syn { initial } => self.take_syn(now, initial)?,
            Segment::SynAck { initial } => self.take_synack(now, initial)?,
            _ => return self.take_open_segment(now, &segment, payload),
        }
        if is_proven {
            self.last_heard = now;
        }
        Ok(())
    }

    fn take_open_segment(&mut self, now: Time, segment: &Segment, payload: &[u8]) -> Result<(), Dropped> {
        if matches!(segment, Segment::Data { .. }) {
            self.counters.bytes_received += (SEGMENT_BYTES - self.receiver.payload_bytes()) as u64;
        }
        self.open_if_proven(now, segment)?;
        self.last_heard = now;
        let result = match *segment {
            Segment::Data { block_id, state, block_length } => {
                self.take_data(now, block_id, state, block_length, payload)
            }
            Segment::BlockAck { block_id } => self.take_block_ack(now, block_id),
            Segment::HandshakeAck { .. } => Ok(()), // a copy
            Segment::Fin { end } => self.take_fin(end),
            Segment::FinAck { end } => self.take_fin(end).map(|()| self.take_fin_ack(None)),
            Segment::Syn { .. } | Segment::SynAck { .. } | Segment::Reset { .. } => Err(Dropped::Unexpected.into()),
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

    fn take_data(
        &mut self,
        now: Time,
        block_id: u32,
        state: StateWords,
        block_length: Option<BlockLength>,
        payload: &[u8],
    ) -> Result<(), PushError> {
        let is_complete = self.receiver.push(now, block_id, state, block_length, payload)?;
        if is_complete || self.receiver.is_readable() {
            self.stream_news.readable = true;
        }
        Ok(())
    }

    fn take_block_ack(&mut self, now: Time, block_id: u32) -> Result<(), PushError> {
        self.counters.acks_received += 1;
        if self.closing.is_started() && self.sender.is_drained() {
            self.take_fin_ack(Some(block_id));
            return Ok(());
        }
        let sample = self.sender.on_ack(now, block_id);
        self.may_send = true;
        self.stream_news.writable = true;
        if let Some(sample) = sample.map_err(|NeverSent| Dropped::OutsideWindow)? {
            self.rtt.sample(sample);
        }
        Ok(())
    }

    /// Processes an acknowledgement of our FIN. With `Some(end)` it counts only for the FIN that names `end`.
    fn take_fin_ack(&mut self, end: Option<u32>) {
        if self.closing.on_fin_acknowledged(end) {
            self.stream_news.finished = true;
        }
    }

    fn take_fin(&mut self, end: u32) -> Result<(), PushError> {
        self.receiver.set_end(end).map_err(PushError::Misbehaved)?;
        self.closing.on_peer_fin(end);
        Ok(())
    }
}
