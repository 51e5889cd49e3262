//! The opening of a sealed connection: the handshake's messages ride in SYN, SYNACK and ACK (`spec/security.md` §2).
//!
//! The initiator is a session from its first SYN on. The acceptor has none before its peer is proven: until then there
//! is only an entry in the endpoint's table of half-open connections.

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

/// The bytes that both ends put into the handshake's hash before anything else ([noise-4]).
pub(crate) fn prologue(syn_options: &[u8], initiator_id: u32) -> Vec<u8> {
    [PROLOGUE, syn_options, &initiator_id.to_be_bytes()].concat()
}

/// An initiator which waits for the second message.
#[derive(Debug)]
pub(super) struct Call {
    noise: Initiator,
    first: Box<[u8]>,
    cookie: Option<Box<[u8]>>,
    /// Our own, to be told once the session is open.
    ticket: Option<Box<ResetTicket>>,
    /// An answer which is not authenticated says that the attempt is in vain; unless a genuine one comes until then, that
    /// is believed.
    doubt: Option<(Time, ConnectionError)>,
}

/// The contents of the second message.
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
    /// Writes the first message. `ticket` is to be told to the acceptor.
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

    /// An unauthenticated refusal, and the time from which it is believed.
    pub(super) fn doubt(&self) -> Option<(Time, &ConnectionError)> {
        self.doubt.as_ref().map(|(until, why)| (*until, why))
    }

    /// Somebody says that the attempt is in vain. The first word counts.
    pub(super) fn begin_doubt(&mut self, now: Time, why: ConnectionError) {
        self.doubt.get_or_insert((now + limits::DOUBT, why));
    }

    /// The acceptor wants this cookie with the next SYN.
    pub(super) fn set_cookie(&mut self, cookie: &[u8]) {
        self.cookie = Some(cookie.into());
    }

    /// Keys of the session, and our own ticket, after an answer.
    pub(super) fn finish(self) -> Result<(Established, Option<Box<ResetTicket>>), HandshakeError> {
        Ok((self.noise.finish()?, self.ticket))
    }

    /// Writes the payload of a SYN, padded so that its datagram is never shorter than an answer; returns its length
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

    /// Reads the second message, the answer to a SYN which offered symbols of this size.
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
            // Last, as there is no way back over a message that was written.
            let third = self.third().map_err(|_| AnswerError::Final(ConnectionError::CipherFailed))?;
            return Ok(Answer { third, ..answer });
        }
        let why = peer
            .filter(|_| !is_admitted)
            .map_or(ConnectionError::Incompatible, |key| ConnectionError::UnexpectedKey(key.fingerprint()));
        // At first contact anybody can write such a message. It is the peer's own doing only where nobody else can.
        let is_anybodys = pattern == Pattern::FirstContact && matches!(credentials.peer, PeerKey::Any);
        if (is_admitted && !is_anybodys) || self.noise.refuse_second().is_err() {
            return Err(AnswerError::Final(why));
        }
        Err(AnswerError::Doubtful(why))
    }

    /// The third message, if the pattern has one.
    fn third(&mut self) -> Result<Option<Box<[u8]>>, HandshakeError> {
        if self.noise.pattern() != Pattern::FirstContact {
            return Ok(None);
        }
        let mut third = [0; MESSAGE_BYTES_MAX];
        let length = self.noise.write_third(&[], &mut third)?;
        Ok(Some(third[..length].into()))
    }
}

/// Decodes the payload of the second message; `None` if it is malformed, or chooses what was not offered.
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

/// Why a second message was not taken.
pub(super) enum AnswerError {
    /// It is none, or not for us.
    Ignored,
    /// Somebody says that the attempt is in vain.
    Doubtful(ConnectionError),
    /// The peer itself does.
    Final(ConnectionError),
}
