//! Handshake of a sealed connection: the Noise messages travel in SYN, SYNACK and ACK (`spec/security.md` §2).
//!
//! The initiator has a session from its first SYN on. The acceptor creates a session only when the peer has proven
//! itself. Until then it keeps an entry in the endpoint's table of half-open connections.

use dfcp_secure::{
    Cipher, Established, HandshakeError, Initiator, InitiatorKeys, MESSAGE_BYTES_MAX, Pattern, ResetTicket, StaticKey,
};
use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, PARAMETER_HEADER_BYTES, Payload};
use dfcp_wire::segment::SynOptions;
use dfcp_wire::{EncodeError, Features, overhead_bytes};
use rand_chacha::ChaCha20Rng;

use crate::config::Config;
use crate::error::{ConfigError, ConnectionError};
use crate::limits;
use crate::proof::symbol_size_max;
use crate::random::SeekableRng;
use crate::security::{Credentials, PeerKey};
use crate::session::handshake::{are_offered, features, syn_options};

const PROLOGUE: &[u8; 6] = b"DFCP 2";

/// Returns the prologue: bytes that both ends hash into the handshake before anything else ([noise-4]).
pub(crate) fn prologue(syn_options: &[u8], initiator_id: u32) -> Vec<u8> {
    [PROLOGUE, syn_options, &initiator_id.to_be_bytes()].concat()
}

/// An initiator that waits for the second Noise message.
#[derive(Debug)]
pub(super) struct Call {
    noise: Initiator,
    first: Box<[u8]>,
    cookie: Option<Box<[u8]>>,
    /// Our own reset ticket, sent to the peer once the session is open.
    ticket: Option<Box<ResetTicket>>,
    /// An unauthenticated refusal, and the time when it ends the attempt unless an authenticated answer has arrived
    /// before.
    doubt: Option<(Time, ConnectionError)>,
}

/// Contents of the second Noise message.
pub(super) struct Answer {
    pub(super) third: Option<Box<[u8]>>,
    pub(super) cipher: Cipher,
    pub(super) peer_id: u32,
    pub(super) offer: Offer,
    pub(super) symbol_size: u16,
    pub(super) features: Features,
    pub(super) echo: u32,
}

impl Call {
    /// Creates a call and writes the first Noise message. `ticket` is our reset ticket for the acceptor.
    pub(super) fn new(
        config: &Config,
        credentials: &Credentials,
        local_id: u32,
        offer: &Offer,
        ticket: Option<Box<ResetTicket>>,
        random: &mut SeekableRng<ChaCha20Rng>,
    ) -> Result<Self, ConfigError> {
        let (seed, key_seed) = (random.bytes(), random.bytes());
        let keys: InitiatorKeys = credentials.initiator_keys(|| StaticKey::from_seed(&key_seed))?;
        let prologue = prologue(&syn_options(config.symbol_size, features(config)).to_bytes(), local_id);
        let mut noise = Initiator::new(keys, &prologue, seed).map_err(|_| ConfigError::Handshake)?;
        let ciphers: Vec<u8> = credentials.ciphers.list().into_iter().map(Cipher::id).collect();
        let payload = Payload { ciphers: Some(&ciphers), ..Payload::default() }.with_offer(offer);
        let mut plain = [0; 128];
        let length = payload.encode(&mut plain).map_err(|_| ConfigError::Handshake)?;
        let mut first = [0; MESSAGE_BYTES_MAX];
        let length = noise.write_first(&plain[..length], &mut first).map_err(|_| ConfigError::Handshake)?;
        Ok(Self { noise, first: first[..length].into(), cookie: None, ticket, doubt: None })
    }

    /// Returns an unauthenticated refusal, and the time from which it counts.
    pub(super) fn doubt(&self) -> Option<(Time, &ConnectionError)> {
        self.doubt.as_ref().map(|(until, why)| (*until, why))
    }

    /// Records an unauthenticated refusal. Only the first one counts.
    pub(super) fn begin_doubt(&mut self, now: Time, why: ConnectionError) {
        self.doubt.get_or_insert((now + limits::DOUBT, why));
    }

    /// Stores the cookie that the acceptor wants in the next SYN.
    pub(super) fn set_cookie(&mut self, cookie: &[u8]) {
        self.cookie = Some(cookie.into());
    }

    /// Returns the session's keys and our own ticket. Called after a valid answer.
    pub(super) fn finish(self) -> Result<(Established, Option<Box<ResetTicket>>), HandshakeError> {
        Ok((self.noise.finish()?, self.ticket))
    }

    /// Writes the payload of a SYN, and returns its length, bytes. Padding makes the SYN at least as long as its answer
    /// (\[noise-2\], \[open-30\]).
    pub(super) fn write_syn(&self, local_id: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let payload = Payload {
            connection_id: Some(local_id),
            cookie: self.cookie.as_deref(),
            noise: Some((self.noise.pattern().id(), &self.first)),
            ..Payload::default()
        };
        let bare = payload.encode(out)?;
        let wanted = limits::SEALED_SYN_BYTES_MIN - overhead_bytes(false) - SynOptions::BYTES;
        let padding_bytes = wanted.checked_sub(bare).map(|missing| missing.saturating_sub(PARAMETER_HEADER_BYTES));
        Payload { padding_bytes, ..payload }.encode(out)
    }

    /// Reads the second Noise message. `symbol_size` is the symbol size offered in the SYN, bytes.
    pub(super) fn answer(
        &mut self,
        (config, credentials): (&Config, &Credentials),
        symbol_size: u16,
        payload: &Payload<'_>,
    ) -> Result<Answer, AnswerError> {
        let (pattern, message) = payload.noise.ok_or(AnswerError::Ignored)?;
        if pattern != self.noise.pattern().id() {
            return Err(AnswerError::Ignored);
        }
        let mut plain = [0; MESSAGE_BYTES_MAX];
        let length = match self.noise.read_second(message, &mut plain) {
            Ok(length) => length,
            Err(HandshakeError::UnexpectedKey(found)) => {
                return Err(AnswerError::Doubtful(ConnectionError::UnexpectedKey(found)));
            }
            Err(_) => return Err(AnswerError::Ignored),
        };
        let (pattern, peer) = (self.noise.pattern(), self.noise.peer());
        let is_admitted = credentials.admits(pattern, peer.as_ref());
        let answer = if is_admitted { accepted((config, credentials), symbol_size, &plain[..length]) } else { None };
        if let Some(answer) = answer {
            // Write the third message last, since writing it cannot be undone.
            let third = self.third().map_err(|_| AnswerError::Final(ConnectionError::CipherFailed))?;
            return Ok(Answer { third, ..answer });
        }
        let why = peer
            .filter(|_| !is_admitted)
            .map_or(ConnectionError::Incompatible, |key| ConnectionError::UnexpectedKey(key.fingerprint()));
        // With first contact and any key permitted, anybody can write such a message. Otherwise an admitted key shows
        // that the peer wrote it, and the refusal is final.
        let is_anybodys = pattern == Pattern::FirstContact && matches!(credentials.peer, PeerKey::Any);
        if (is_admitted && !is_anybodys) || self.noise.refuse_second().is_err() {
            return Err(AnswerError::Final(why));
        }
        Err(AnswerError::Doubtful(why))
    }

    /// Writes the third message, if the pattern has one.
    fn third(&mut self) -> Result<Option<Box<[u8]>>, HandshakeError> {
        if self.noise.pattern() != Pattern::FirstContact {
            return Ok(None);
        }
        let mut third = [0; MESSAGE_BYTES_MAX];
        let length = self.noise.write_third(&[], &mut third)?;
        Ok(Some(third[..length].into()))
    }
}

/// Decodes the payload of the second message. Returns `None` if it is malformed, or chooses something that was not
/// offered.
fn accepted((config, credentials): (&Config, &Credentials), offered_size: u16, plain: &[u8]) -> Option<Answer> {
    let inner = Payload::decode(plain).ok()?;
    let &[cipher] = inner.ciphers? else { return None };
    let cipher = Cipher::from_id(cipher).filter(|cipher| credentials.ciphers.list().contains(cipher))?;
    let (peer_id, offer, echo) = (inner.connection_id?, inner.offer().ok()?, inner.echo?);
    let features = inner.features.filter(|&features| are_offered(features, config))?;
    let symbol_size = inner.symbol_size?;
    if !(limits::SYMBOL_SIZE_MIN..=offered_size.min(symbol_size_max(true))).contains(&symbol_size) {
        return None;
    }
    Some(Answer { third: None, cipher, peer_id, offer, symbol_size, features, echo })
}

/// The reason for not accepting a second message.
pub(super) enum AnswerError {
    /// Not a second message, or not addressed to us.
    Ignored,
    /// An unauthenticated sender refuses the attempt.
    Doubtful(ConnectionError),
    /// The authenticated peer refuses the attempt.
    Final(ConnectionError),
}
