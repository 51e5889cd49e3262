//! Reading of frames and preambles from a stream.

use std::io::{self, ErrorKind};

use dfcp_framing::error::ProtocolError;
use dfcp_framing::frame::{HEADER_BYTES, Header, PREAMBLE_BYTES, Service};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reason why a frame or a preamble could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream ended within a frame or preamble.
    #[error("the peer closed the stream in the middle of a frame")]
    Closed,
    /// The stream or its connection broke.
    #[error("the connection was lost: {0}")]
    Connection(io::Error),
    /// The peer violated the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// Reads the next frame's body into `body` and returns the frame's type. `None` if the stream ends before the frame.
///
/// # Errors
/// Fails with [`ReadError::Closed`] if the stream ends within the frame. Also fails if the body exceeds the limit of
/// its type.
pub async fn read_frame<R>(reader: &mut R, body: &mut Vec<u8>) -> Result<Option<u8>, ReadError>
where
    R: AsyncRead + Unpin,
{
    let Some(Header { kind, body_bytes }) = read_header(reader).await? else { return Ok(None) };
    body.resize(body_bytes, 0);
    read_exact(reader, body).await?;
    Ok(Some(kind))
}

/// Reads the next frame's header; the caller reads the body. `None` if the stream ends before the frame.
///
/// # Errors
/// Fails as [`read_frame`] does.
pub async fn read_header<R>(reader: &mut R) -> Result<Option<Header>, ReadError>
where
    R: AsyncRead + Unpin,
{
    let mut header = [0; HEADER_BYTES];
    let got = reader.read(&mut header).await.map_err(ReadError::Connection)?;
    if got == 0 {
        return Ok(None);
    }
    read_exact(reader, &mut header[got..]).await?;
    Ok(Some(Header::decode(header)?))
}

/// Reads and checks the peer's preamble.
///
/// # Errors
/// Fails as [`Service::check`] does. Fails with [`ReadError::Closed`] if the stream ends within the preamble.
pub async fn read_preamble<R>(reader: &mut R, service: Service) -> Result<(), ReadError>
where
    R: AsyncRead + Unpin,
{
    let mut preamble = [0; PREAMBLE_BYTES];
    read_exact(reader, &mut preamble).await?;
    Ok(service.check(preamble)?)
}

/// Fills `out` from the stream.
///
/// # Errors
/// Fails with [`ReadError::Closed`] if the stream ends before `out` is full.
pub async fn read_exact<R: AsyncRead + Unpin>(reader: &mut R, out: &mut [u8]) -> Result<(), ReadError> {
    match reader.read_exact(out).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(ReadError::Closed),
        Err(error) => Err(ReadError::Connection(error)),
    }
}

#[cfg(test)]
mod tests {
    use dfcp_framing::limits::{CONTROL_BYTES_MAX, DATA_BYTES_MAX};
    use dfcp_framing::{files::ToReceiver, frame::kind};
    use proptest::prelude::*;

    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_frame_cut_anywhere_is_a_peer_that_closed() {
        let mut bytes = Vec::new();
        ToReceiver::FileEnd { len: 1, hash: [7; 32] }.encode(&mut bytes);
        let mut body = Vec::new();
        assert!(block_on(read_frame(&mut &[][..], &mut body)).unwrap().is_none());
        for cut in 1..bytes.len() {
            let result = block_on(read_frame(&mut &bytes[..cut], &mut body));
            assert!(matches!(result, Err(ReadError::Closed)), "cut at {cut}");
        }
    }

    #[test]
    fn a_length_above_its_limit_is_refused_before_memory_is_taken() {
        for (kind, max) in [(kind::DATA, DATA_BYTES_MAX), (kind::FILE, CONTROL_BYTES_MAX), (0xee, CONTROL_BYTES_MAX)] {
            let mut bytes = vec![kind];
            bytes.extend_from_slice(&(max as u32 + 1).to_be_bytes());
            let mut body = Vec::new();
            let error = block_on(read_frame(&mut &bytes[..], &mut body)).unwrap_err();
            assert!(matches!(error, ReadError::Protocol(ProtocolError::TooLarge { .. })), "{error}");
            assert_eq!(body.capacity(), 0);
        }
    }

    #[test]
    fn a_preamble_cut_anywhere_is_a_peer_that_closed() {
        let preamble = Service::Files.preamble();
        for cut in 0..PREAMBLE_BYTES {
            let result = block_on(read_preamble(&mut &preamble[..cut], Service::Files));
            assert!(matches!(result, Err(ReadError::Closed)), "cut at {cut}");
        }
        assert!(block_on(read_preamble(&mut &preamble[..], Service::Files)).is_ok());
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_stand_in_any_stream(
            frames in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..80)), 0..5),
            rest in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let frame = |(kind, body): &(u8, Vec<u8>)| [&[*kind][..], &(body.len() as u32).to_be_bytes(), body].concat();
            let stream = [&frames.iter().flat_map(frame).collect::<Vec<_>>()[..], &rest].concat();
            let (mut reader, mut read) = (&stream[..], Vec::new());
            for (kind, body) in &frames {
                prop_assert_eq!(block_on(read_frame(&mut reader, &mut read)).unwrap(), Some(*kind));
                prop_assert_eq!(&read, body);
            }
            prop_assert_eq!(reader, &rest[..]);
            // The remaining bytes may be any frame or an error, but must not cause a panic.
            let _ = block_on(read_frame(&mut reader, &mut read));
        }
    }
}
