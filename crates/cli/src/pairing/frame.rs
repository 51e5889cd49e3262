//! Frames of a pairing, forty bytes each (`spec/pairing.md` §3).

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::error::{PairingError, Refusal};
use super::exchange::BODY_BYTES;

pub(super) const FRAME_BYTES: usize = 8 + BODY_BYTES;

pub(super) const MAGIC: [u8; 5] = *b"DFCPK";
const VERSION: u8 = 1;

const ELEMENT: u8 = 1;
const CONFIRM: u8 = 2;
const REFUSED: u8 = 3;

/// Frame of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Group element of the side.
    Element([u8; BODY_BYTES]),
    /// Confirmation of the side.
    Confirm([u8; BODY_BYTES]),
    /// Reason to give up; the number may be unknown to this version.
    Refused(u8),
}

impl Frame {
    pub(super) fn encode(&self) -> [u8; FRAME_BYTES] {
        let (kind, reason, body) = match *self {
            Self::Element(body) => (ELEMENT, 0, body),
            Self::Confirm(body) => (CONFIRM, 0, body),
            Self::Refused(reason) => (REFUSED, reason, [0; BODY_BYTES]),
        };
        let mut frame = [0; FRAME_BYTES];
        frame[..5].copy_from_slice(&MAGIC);
        frame[5..8].copy_from_slice(&[VERSION, kind, reason]);
        frame[8..].copy_from_slice(&body);
        frame
    }

    pub(super) fn decode(frame: &[u8; FRAME_BYTES]) -> Result<Self, PairingError> {
        let [m0, m1, m2, m3, m4, version, kind, reason, body @ ..] = *frame;
        if [m0, m1, m2, m3, m4] != MAGIC {
            return Err(PairingError::NotPairing);
        }
        if version != VERSION {
            return Err(PairingError::Version(version));
        }
        match (kind, reason) {
            (ELEMENT, 0) => Ok(Self::Element(body)),
            (CONFIRM, 0) => Ok(Self::Confirm(body)),
            (REFUSED, 1..) if body == [0; BODY_BYTES] => Ok(Self::Refused(reason)),
            _ => Err(PairingError::Protocol("a malformed frame")),
        }
    }

    /// Reads the next frame. A REFUSED frame is returned as an error.
    pub(super) async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Self, PairingError> {
        let mut frame = [0; FRAME_BYTES];
        if let Err(error) = stream.read_exact(&mut frame).await {
            let closed = error.kind() == std::io::ErrorKind::UnexpectedEof;
            return Err(if closed { PairingError::Closed } else { PairingError::Connection(error) });
        }
        match Self::decode(&frame)? {
            Self::Refused(reason) => {
                Err(Refusal::from_wire(reason)
                    .map_or(PairingError::RefusedOtherwise(reason), PairingError::PeerRefused))
            }
            frame => Ok(frame),
        }
    }

    pub(super) async fn write<S: AsyncWrite + Unpin>(&self, stream: &mut S) -> Result<(), PairingError> {
        stream.write_all(&self.encode()).await.map_err(PairingError::Connection)?;
        stream.flush().await.map_err(PairingError::Connection)
    }
}
