//! A pairing over a byte stream.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

use super::code::Code;
use super::error::{PairingError, Refusal};
use super::exchange::{BODY_BYTES, ReceiverPairing, SenderPairing};
use super::frame::{Frame, MAGIC};
use super::one_time::OneTimeCode;
use crate::limits::PAIRING_RUN_MAX;

/// Pairs as the sender with the receiver that made `code`, over an encrypted connection with this handshake hash. `Ok` proves that the
/// receiver has the same code and that there is no man in the middle. The stream is then free for other use; after an error it must be
/// closed (`spec/pairing.md` \[pair-4\]).
///
/// # Errors
/// Fails if the codes differ, the receiver's code is void, the peer violates the protocol, or [`PAIRING_RUN_MAX`] is exceeded.
pub async fn pair_as_sender<S>(stream: &mut S, code: &Code, handshake_hash: &[u8; 32]) -> Result<(), PairingError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let run = async {
        let outcome = send_side(stream, code, handshake_hash).await;
        explain(stream, outcome).await
    };
    in_time(run).await
}

/// Pairs as the receiver with a sender that was given the code, over an encrypted connection with this handshake hash.
/// `Ok` proves that the sender has the same code and that there is no man in the middle; the code is then used up, even
/// if the last frame cannot be written. The stream is then free for other use; after an error it must be closed. If a
/// sender with a wrong code `has_paired` before, it gets the error that codes work once: most likely it reused its old
/// code.
///
/// # Errors
/// Fails as [`pair_as_sender`] does.
pub async fn pair_as_receiver<S>(
    stream: &mut S,
    code: &OneTimeCode,
    handshake_hash: &[u8; 32],
    has_paired: bool,
) -> Result<(), PairingError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let run = async {
        let outcome = match receive_side(stream, code, handshake_hash).await {
            Err(PairingError::Refused(Refusal::WrongCode)) if has_paired => Err(Refusal::Used.into()),
            outcome => outcome,
        };
        explain(stream, outcome).await
    };
    in_time(run).await
}

/// Returns true if these are the first bytes of a sender that requests pairing.
#[must_use]
pub fn begins_with(first: &[u8]) -> bool {
    first.starts_with(&MAGIC)
}

/// Refuses a sender that requests pairing from a receiver without a code. The stream must then be closed.
///
/// # Errors
/// Always fails with [`Refusal::NoCode`].
pub async fn decline<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<(), PairingError> {
    let run = async {
        // Unread bytes would turn the close into a reset.
        let _element = Frame::read(stream).await?;
        explain(stream, Err(Refusal::NoCode.into())).await
    };
    in_time(run).await
}

async fn send_side<S>(stream: &mut S, code: &Code, handshake_hash: &[u8; 32]) -> Result<(), PairingError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (pairing, element) = SenderPairing::start(code, handshake_hash, &*seed()?);
    Frame::Element(element).write(stream).await?;
    let (pairing, confirmation) = pairing.finish(&element_of(Frame::read(stream).await?)?)?;
    Frame::Confirm(confirmation).write(stream).await?;
    pairing.verify(&confirmation_of(Frame::read(stream).await?)?)?;
    Ok(())
}

async fn receive_side<S>(stream: &mut S, code: &OneTimeCode, handshake_hash: &[u8; 32]) -> Result<(), PairingError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let peer_element = element_of(Frame::read(stream).await?)?;
    // The guess is reserved here; every error below gives it back unless a confirmation was compared.
    let attempt = code.attempt(now())?;
    let (pairing, element) = ReceiverPairing::start(attempt.code(), handshake_hash, &*seed()?);
    let pairing = pairing.finish(&peer_element)?;
    Frame::Element(element).write(stream).await?;
    let verified = pairing.verify(&confirmation_of(Frame::read(stream).await?)?);
    attempt.settle(verified.is_ok(), now())?;
    Frame::Confirm(verified?).write(stream).await
}

/// Sends the peer the reason why this side gives up, unless the peer caused it.
async fn explain<S>(stream: &mut S, outcome: Result<(), PairingError>) -> Result<(), PairingError>
where
    S: AsyncWrite + Unpin,
{
    let reason = match &outcome {
        Err(PairingError::Refused(refusal)) => *refusal,
        Err(PairingError::Protocol(_) | PairingError::NotPairing | PairingError::Version(_)) => Refusal::Protocol,
        _ => return outcome,
    };
    if let Err(error) = Frame::Refused(reason as u8).write(stream).await {
        // The pairing error matters more than the failure to report it.
        tracing::debug!(%error, "the peer could not be told why the pairing failed");
    }
    outcome
}

async fn in_time(run: impl Future<Output = Result<(), PairingError>>) -> Result<(), PairingError> {
    let too_late = || PairingError::TimedOut { seconds: PAIRING_RUN_MAX.as_secs() };
    timeout(PAIRING_RUN_MAX, run).await.unwrap_or_else(|_| Err(too_late()))
}

fn element_of(frame: Frame) -> Result<[u8; BODY_BYTES], PairingError> {
    let Frame::Element(element) = frame else { return Err(PairingError::Protocol("a frame out of place")) };
    Ok(element)
}

fn confirmation_of(frame: Frame) -> Result<[u8; BODY_BYTES], PairingError> {
    let Frame::Confirm(confirmation) = frame else { return Err(PairingError::Protocol("a frame out of place")) };
    Ok(confirmation)
}

fn seed() -> Result<Zeroizing<[u8; 32]>, PairingError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(PairingError::Random)?;
    Ok(seed)
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
