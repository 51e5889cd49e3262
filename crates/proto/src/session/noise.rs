//! How a sealed connection opens: the handshake's messages ride in SYN, SYNACK and ACK (`spec/security.md` §2).
//!
//! The initiator is a connection from its first SYN on. The acceptor has none before its peer is proven: until then there
//! is only an entry in the endpoint's table of half-open connections.

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_secure::{
    Cipher, Established, HandshakeError, Initiator, InitiatorKeys, MESSAGE_BYTES_MAX, Pattern, StaticKey,
};
use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, PARAMETER_HEADER_BYTES, Payload};
use dfcp_wire::segment::{Ack, Clear, Received, ResetReason, Segment, SynOptions};
use dfcp_wire::{EncodeError, overhead_bytes};
use rand_chacha::ChaCha20Rng;

use crate::config::Config;
use crate::error::{ConfigError, ConnectionError, Dropped};
use crate::limits;
use crate::random::SeekableRng;
use crate::security::{Credentials, PeerKey};
use crate::session::handshake::{PeerLimits, SYMBOL_SIZE_MIN, are_offered, symbol_size_max, syn_options};
use crate::session::protection::Protection;
use crate::session::{Phase, Seal, Session};
use crate::shared::{Ports, Role};

const PROLOGUE: &[u8; 6] = b"DFCP 2";

/// What both ends put into the handshake's hash before anything else ([noise-4]).
pub(crate) fn prologue(syn_options: &[u8], initiator_id: u32) -> Vec<u8> {
    [PROLOGUE, syn_options, &initiator_id.to_be_bytes()].concat()
}

/// An initiator which waits for the second message.
#[derive(Debug)]
pub(crate) struct Opening {
    noise: Initiator,
    first: Box<[u8]>,
    cookie: Option<Box<[u8]>>,
    /// An answer which nobody vouches for says that the attempt is in vain; unless a genuine one comes until then, that
    /// is believed.
    doubt: Option<(Time, ConnectionError)>,
}

/// What the second message brought.
struct Answer {
    third: Option<Box<[u8]>>,
    cipher: Cipher,
    peer_id: u32,
    offer: Offer,
    symbol_size: u16,
    echo: u32,
}

impl Opening {
    /// Writes the first message.
    pub(crate) fn new(
        config: &Config,
        credentials: &Credentials,
        local_id: u32,
        offer: &Offer,
        random: &mut SeekableRng<ChaCha20Rng>,
    ) -> Result<Self, ConfigError> {
        let (seed, key_seed) = (random.bytes(), random.bytes());
        let keys: InitiatorKeys = credentials.initiator_keys(|| StaticKey::from_seed(&key_seed))?;
        let prologue = prologue(&syn_options(config.symbol_size).to_bytes(), local_id);
        let mut noise = Initiator::new(keys, &prologue, seed).map_err(|_| ConfigError::Handshake)?;
        let ciphers: Vec<u8> = credentials.ciphers.list().into_iter().map(Cipher::id).collect();
        let payload = Payload { ciphers: Some(&ciphers), ..Payload::default() }.with_offer(offer);
        let mut plain = [0; 128];
        let length = payload.encode(&mut plain).map_err(|_| ConfigError::Handshake)?;
        let mut first = [0; MESSAGE_BYTES_MAX];
        let length = noise.write_first(&plain[..length], &mut first).map_err(|_| ConfigError::Handshake)?;
        Ok(Self { noise, first: first[..length].into(), cookie: None, doubt: None })
    }

    /// Writes the payload of a SYN, padded so that its datagram is never shorter than an answer; returns its length
    /// (\[noise-2\], \[open-30\]).
    fn write_syn(&self, local_id: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
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
    fn answer(
        &mut self,
        credentials: &Credentials,
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
        let answer = if is_admitted { self.accepted(credentials, symbol_size, &plain[..length]) } else { None };
        if let Some(answer) = answer {
            return Ok(answer);
        }
        let why = peer
            .filter(|_| !is_admitted)
            .map_or(ConnectionError::Incompatible, |key| ConnectionError::UnexpectedKey(key.fingerprint()));
        // At first contact anybody can write such a message. Only if nobody but the peer can it is the peer's own doing.
        let is_anybodys = pattern == Pattern::FirstContact && matches!(credentials.peer, PeerKey::Any);
        if (is_admitted && !is_anybodys) || self.noise.refuse_second().is_err() {
            return Err(AnswerError::Final(why));
        }
        Err(AnswerError::Doubtful(why))
    }

    /// What the payload of the second message says, and the third message.
    fn accepted(&mut self, credentials: &Credentials, offered_size: u16, plain: &[u8]) -> Option<Answer> {
        let inner = Payload::decode(plain).ok()?;
        let &[cipher] = inner.ciphers? else { return None };
        let cipher = Cipher::from_id(cipher).filter(|cipher| credentials.ciphers.list().contains(cipher))?;
        let (peer_id, offer, echo) = (inner.connection_id?, inner.offer().ok()?, inner.echo?);
        inner.features.filter(|&features| are_offered(features))?;
        let symbol_size = inner.symbol_size?;
        if !(SYMBOL_SIZE_MIN..=offered_size.min(symbol_size_max(true))).contains(&symbol_size) {
            return None;
        }
        // Last, as there is no way back over a message that was written.
        let third = if self.noise.pattern() == Pattern::FirstContact {
            let mut third = [0; MESSAGE_BYTES_MAX];
            let length = self.noise.write_third(&[], &mut third).ok()?;
            Some(third[..length].into())
        } else {
            None
        };
        Some(Answer { third, cipher, peer_id, offer, symbol_size, echo })
    }
}

/// Why a second message was not taken.
enum AnswerError {
    /// It is none, or not for us.
    Ignored,
    /// Somebody says that the attempt is in vain.
    Doubtful(ConnectionError),
    /// The peer itself does.
    Final(ConnectionError),
}

/// What an acceptor knows of its peer once that is proven.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) local_id: u32,
    pub(crate) peer_id: u32,
    pub(crate) offer: Offer,
    pub(crate) symbol_size: u16,
    pub(crate) established: Established,
    pub(crate) cipher: Cipher,
    pub(crate) admitted: bool,
    /// When the first SYNACK left.
    pub(crate) answered_at: Time,
}

impl Session {
    /// The accepting side's end of a sealed connection: open from the start, or, if the key which the peer has proven is
    /// not admitted, about to tell it so (\[open-35\]).
    pub(crate) fn accept_sealed(
        now: Time,
        config: Arc<Config>,
        remote: SocketAddr,
        seed: [u8; 32],
        proven: Proven,
    ) -> Self {
        let ports = Ports { local: 0, remote: 0 };
        let mut connection = Self::new(now, config, ports, remote, Role::Acceptor, seed);
        connection.handshake.local_id = proven.local_id;
        connection.handshake.peer_id = Some(proven.peer_id);
        connection.symbol_size = proven.symbol_size;
        let first_contact = proven.established.pattern() == Pattern::FirstContact;
        connection.seal = Seal::On(Box::new(Protection::new(proven.established, proven.cipher)));
        if proven.admitted {
            connection.rtt.guess(now.since(proven.answered_at));
            if first_contact {
                // The third message was no datagram that a report could name: an ACK, repeated until a sealed datagram
                // comes, tells the initiator to stop repeating it.
                connection.handshake.start_timer(now);
            }
            connection.establish(now, PeerLimits::from(&proven.offer), proven.symbol_size);
        } else {
            connection.reset = Some(ResetReason::NotAdmitted);
            connection.close(Some(ConnectionError::Refused));
        }
        connection
    }

    /// Ends a connection for which there is no room before it has begun, and tells its initiator, unless it has been told
    /// something else.
    pub(crate) fn refuse(&mut self) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.reset = Some(ResetReason::Unspecified);
            self.close(Some(ConnectionError::Refused));
        }
    }

    /// Writes the payload of a segment of the handshake, sealed or not; returns its length.
    pub(super) fn write_handshake(&self, segment: &Segment, out: &mut [u8]) -> Result<usize, EncodeError> {
        match (segment, &self.seal) {
            (Segment::Syn(_), Seal::Opening(opening)) => opening.write_syn(self.handshake.local_id, out),
            (Segment::Syn(_) | Segment::SynAck(_), _) => self.own_parameters().encode(out),
            (Segment::Ack(Ack::Noise), _) => {
                let third = self.handshake.third.as_deref();
                let noise = third.map(|third| (Pattern::FirstContact.id(), third));
                Payload { noise, ..Payload::default() }.encode(out)
            }
            _ => Ok(0),
        }
    }

    /// A datagram in the clear on a connection which will be sealed: an answer to our SYN, or nothing (\[trust-6\]).
    pub(super) fn take_clear(&mut self, now: Time, header: &Clear, datagram: &[u8]) -> Result<(), Dropped> {
        let Received { segment, payload, .. } = header.verify(datagram)?;
        let expected = self.phase == Phase::SynSent && header.connection_id() == self.handshake.local_id;
        let Seal::Opening(opening) = &mut self.seal else { return Err(Dropped::Unexpected) };
        if !expected {
            return Err(Dropped::Unexpected);
        }
        match segment {
            Segment::Reset(reset) => {
                let why = match reset.reason {
                    ResetReason::NotAdmitted => ConnectionError::NotAdmitted,
                    ResetReason::CannotRead => ConnectionError::PinnedKeyRefused,
                    ResetReason::Unspecified => ConnectionError::Refused,
                };
                opening.doubt.get_or_insert((now + limits::DOUBT, why));
                Ok(())
            }
            Segment::SynAck(_) => self.take_noise_answer(now, payload),
            _ => Err(Dropped::Unexpected),
        }
    }

    fn take_noise_answer(&mut self, now: Time, payload: &[u8]) -> Result<(), Dropped> {
        let Seal::Opening(opening) = &mut self.seal else { return Err(Dropped::Unexpected) };
        let payload = Payload::decode(payload)?;
        if let (Some(cookie), None) = (payload.cookie, payload.noise) {
            // Nobody vouches for this: it makes us send no more often than we have sent by ourselves ([cookie-1]).
            if self.counters.cookies_received >= self.handshake.timed_copies() {
                return Err(Dropped::Unexpected);
            }
            // Each makes us send one SYN more.
            self.counters.cookies_received += 1;
            opening.cookie = Some(cookie.into());
            self.handshake.owe(0);
            return Ok(());
        }
        let Some(credentials) = self.config.credentials() else { return Err(Dropped::Unexpected) };
        match opening.answer(credentials, self.symbol_size, &payload) {
            Ok(answer) => {
                self.take_answer(now, answer);
                Ok(())
            }
            Err(AnswerError::Ignored) => Err(Dropped::Forged),
            Err(AnswerError::Doubtful(why)) => {
                opening.doubt.get_or_insert((now + limits::DOUBT, why));
                Err(Dropped::Forged)
            }
            Err(AnswerError::Final(why)) => {
                self.close(Some(why));
                Ok(())
            }
        }
    }

    fn take_answer(&mut self, now: Time, answer: Answer) {
        let Seal::Opening(opening) = std::mem::replace(&mut self.seal, Seal::Off) else { return };
        let Ok(established) = opening.noise.finish() else { return self.close(Some(ConnectionError::Incompatible)) };
        self.last_heard = now;
        self.handshake.peer_id = Some(answer.peer_id);
        if let Some(sample) = self.handshake.rtt(now, answer.echo) {
            self.rtt.guess(sample);
        }
        self.symbol_size = answer.symbol_size;
        self.seal = Seal::On(Box::new(Protection::new(established, answer.cipher)));
        // Repeated until the acceptor shows that it has heard: it does not repeat its SYNACK by itself.
        self.handshake.start_timer(now);
        self.handshake.clear_owed();
        if answer.third.is_some() {
            // Nothing sealed can be opened before it has come, so its loss would be that of all data behind it.
            self.handshake.owe(0);
            self.handshake.owe(0);
        }
        self.handshake.third = answer.third;
        self.establish(now, PeerLimits::from(&answer.offer), answer.symbol_size);
    }

    /// When a doubtful answer is believed.
    pub(super) fn doubt_ends_at(&self) -> Option<Time> {
        match &self.seal {
            Seal::Opening(opening) => opening.doubt.as_ref().map(|(until, _)| *until),
            Seal::Off | Seal::On(_) => None,
        }
    }

    /// Ends the attempt when its doubt has lasted long enough.
    pub(super) fn end_doubt(&mut self, now: Time) {
        let Seal::Opening(opening) = &self.seal else { return };
        if let Some((until, why)) = &opening.doubt
            && now >= *until
        {
            let why = why.clone();
            self.close(Some(why));
        }
    }
}
