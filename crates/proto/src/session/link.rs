//! Datagrams of a session: their addresses, numbers and sealing, and the record of received ones. All segments become
//! datagrams here: they are written in place, then sealed or given a CRC.

use dfcp_secure::{SealError, epoch_of};
use dfcp_wire::segment::{Address, Envelope, KeyEpoch, Segment};
use dfcp_wire::{DatagramBuffer, Draft, EncodeError, Finished, Trailer};

use crate::path::arrivals::Arrivals;
use crate::path::ecn::Marks;
use crate::path::numbers::DatagramNumbers;
use crate::session::protection::Protection;
use crate::shared::Ports;
use crate::stream::send::symbol::CodeError;

/// The reason why a segment did not become a datagram. Each is a fault of this program or of its cipher, and ends the
/// session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum EmitError {
    /// The payload does not fit, or a value is outside its field.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The segment could not be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A block could not be coded, or has no such symbol.
    #[error("a block cannot be coded")]
    Code,
}

impl From<CodeError> for EmitError {
    fn from(_: CodeError) -> Self {
        Self::Code
    }
}

/// A segment whose header is written.
#[derive(Debug)]
pub(super) struct Numbered<'a> {
    pub(super) number: u64,
    pub(super) draft: Draft<'a, Trailer>,
}

/// Turns segments into datagrams: addresses, numbers and seals them.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) ports: Ports,
    /// Connection id in the port fields of segments to us.
    pub(super) local_id: u32,
    /// Connection id in the port fields of segments to the peer. `None` until known.
    pub(super) peer_id: Option<u32>,
    /// The session has keys, or will get them from its handshake.
    pub(super) is_sealed: bool,
    /// Keys agreed in the handshake. Once they are set, only authenticated datagrams are accepted.
    pub(super) keys: Option<Box<Protection>>,
    pub(super) numbers: DatagramNumbers,
    /// Segments sent in the clear. A sealed session numbers them separately from its sealed datagrams.
    clear_sent: u32,
    pub(super) arrivals: Arrivals,
    pub(super) marks: Marks,
}

impl Link {
    pub(super) fn new(ports: Ports, local_id: u32, is_sealed: bool) -> Self {
        Self {
            ports,
            local_id,
            peer_id: None,
            is_sealed,
            keys: None,
            numbers: DatagramNumbers::default(),
            clear_sent: 0,
            arrivals: Arrivals::default(),
            marks: Marks::default(),
        }
    }

    /// Numbers a segment and writes its header.
    #[inline]
    pub(super) fn begin<'a>(&mut self, segment: &Segment, out: &'a mut DatagramBuffer) -> Numbered<'a> {
        let number = if self.is_clear(segment) { self.next_clear_number() } else { self.numbers.take() };
        let address = match self.peer_id {
            Some(id) => Address::Connection(id),
            None => Address::Ports(self.ports.outgoing()),
        };
        let seal = self.keys.is_some().then(|| KeyEpoch::of(epoch_of(number)));
        let draft = segment.begin(&Envelope { address, number: number as u32, seal }, out);
        Numbered { number, draft }
    }

    /// Seals the segment or appends its CRC. Returns the datagram's length, bytes.
    #[inline]
    pub(super) fn complete(&mut self, segment: Numbered<'_>) -> Result<usize, EmitError> {
        match segment.draft.finish() {
            Finished::Complete(length) => Ok(length),
            Finished::ToSeal(datagram) => {
                let keys = self.keys.as_mut().ok_or(SealError::Exhausted)?;
                let length = datagram.datagram_bytes();
                keys.seal.seal(segment.number, datagram.header, datagram.payload, datagram.tag)?;
                Ok(length)
            }
        }
    }

    /// Writes a segment without payload. Returns the datagram's length, bytes.
    pub(super) fn write(&mut self, segment: &Segment, out: &mut DatagramBuffer) -> Result<usize, EmitError> {
        let numbered = self.begin(segment, out);
        self.complete(numbered)
    }

    /// Writes a segment whose payload `payload` writes. Returns the segment's number and the datagram's length, bytes.
    pub(super) fn write_with_payload(
        &mut self,
        segment: &Segment,
        out: &mut DatagramBuffer,
        payload: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
    ) -> Result<(u32, usize), EmitError> {
        let mut numbered = self.begin(segment, out);
        let length = payload(numbered.draft.payload_up_to(usize::MAX))?;
        numbered.draft.truncate(length);
        let number = numbered.number as u32;
        Ok((number, self.complete(numbered)?))
    }

    /// Returns true for a segment that a sealed session sends in the clear. Such segments are numbered separately: the
    /// numbers of sealed datagrams begin once the session has keys (\[replay-2\]).
    const fn is_clear(&self, segment: &Segment) -> bool {
        self.is_sealed && !segment.can_be_sealed()
    }

    fn next_clear_number(&mut self) -> u64 {
        let number = self.clear_sent;
        self.clear_sent = self.clear_sent.saturating_add(1);
        number.into()
    }
}
