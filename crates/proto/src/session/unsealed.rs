//! Received segments of a plaintext session, in any phase. Anybody can forge them.

use dfcp_time::Time;
use dfcp_wire::segment::{Ack, Clear, Received, Reset, Segment};

use crate::error::{ConnectionError, Dropped};
use crate::path::ecn::Ecn;
use crate::session::handshake::{Opener, is_permitted};
use crate::session::opening::modern_parameters;
use crate::session::{End, Phase, Session, Stop};

impl Session {
    pub(super) fn take_unsealed(&mut self, now: Time, header: &Clear, ecn: Ecn, datagram: &[u8]) -> Result<(), Stop> {
        let Received { segment, number, payload } = header.verify(datagram)?;
        let common = &mut self.common;
        let virtual_bytes = common.virtual_bytes(&segment, payload);
        common.counters.bytes_received += virtual_bytes as u64;
        let bytes = datagram.len() + virtual_bytes;
        if !header.is_syn() && header.connection_id() != common.link.local_id {
            return Err(Dropped::Unexpected.into());
        }
        if matches!(
            segment,
            Segment::Ack(
                Ack::PathChallenge { .. }
                    | Ack::PathResponse { .. }
                    | Ack::Noise
                    | Ack::SessionQuery { .. }
                    | Ack::ResetTicket
                    | Ack::OfResetTicket
            )
        ) {
            // These segments are meaningful only in sealed sessions ([path-1]), since here anybody can forge them.
            return Err(Dropped::Unexpected.into());
        }
        if !is_permitted(&segment, common.features) {
            return Err(Dropped::Unexpected.into());
        }
        let expanded = common.link.arrivals.expand(number);
        if !common.link.arrivals.observe(now, expanded, bytes) {
            if matches!(segment, Segment::Data(_)) {
                common.streams.recv.count_duplicate();
            }
            return Err(Dropped::Duplicate.into());
        }
        common.link.marks.count(ecn);
        match segment {
            Segment::Reset(reset) => Err(self.reset_by_peer(reset).into()),
            Segment::Syn(_) | Segment::SynAck(_) => self.take_handshake(now, &segment, number, payload, bytes),
            _ => {
                self.be_open(now)?;
                let Phase::Open(open) = &mut self.phase else { return Err(Dropped::Unexpected.into()) };
                self.common.last_heard = now;
                open.take_segment(now, &mut self.common, &segment, expanded, payload)
            }
        }
    }

    /// Returns the end of a session that the peer has reset (\[rst-3\]).
    fn reset_by_peer(&self, reset: Reset) -> End {
        match self.phase {
            Phase::Opening(_) => End::because(ConnectionError::Refused),
            Phase::Open(_) | Phase::Closed(_) => End::by_peer(reset),
        }
    }

    /// Processes the peer's SYN or SYNACK of `bytes` bytes, or a copy of one.
    fn take_handshake(
        &mut self,
        now: Time,
        segment: &Segment,
        number: u32,
        payload: &[u8],
        bytes: usize,
    ) -> Result<(), Stop> {
        let common = &mut self.common;
        let mut is_proven = true;
        match (&mut self.phase, segment) {
            (Phase::Opening(opening), Segment::Syn(syn)) => {
                is_proven = opening.hears();
                opening.take_syn(now, common, &Opener { options: syn.options, number, payload }, bytes)?;
            }
            (Phase::Opening(opening), Segment::SynAck(synack)) => {
                is_proven = opening.hears();
                let agreed = opening.take_synack(now, common, synack, number, payload)?;
                self.establish(now, agreed);
            }
            (Phase::Open(open), Segment::Syn(syn)) => {
                let (copy, _) = modern_parameters(&Opener { options: syn.options, number, payload })?;
                if common.link.peer_id != Some(copy.connection_id) {
                    return Err(Dropped::Unexpected.into());
                }
                open.on_copy(number);
            }
            (Phase::Open(open), _) => open.on_copy(number),
            _ => return Err(Dropped::Unexpected.into()),
        }
        if is_proven {
            self.common.last_heard = now;
        }
        Ok(())
    }

    /// Opens a session that only waited for a segment naming our connection id (\[open-13\]).
    fn be_open(&mut self, now: Time) -> Result<(), Dropped> {
        match &mut self.phase {
            Phase::Opening(opening) => {
                let agreed = opening.proven()?;
                self.establish(now, agreed);
                Ok(())
            }
            Phase::Open(open) => {
                open.on_named();
                Ok(())
            }
            Phase::Closed(_) => Err(Dropped::Unexpected),
        }
    }
}
