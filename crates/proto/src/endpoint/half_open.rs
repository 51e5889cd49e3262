//! Sealed connections whose initiator has yet to prove itself: what is kept of them is little and bounded, and past a
//! threshold nothing at all (`spec/security.md`, [trust-1] and §5).

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dfcp_secure::{
    Answered, Cipher, CookieJar, Established, HandshakeError, MESSAGE_BYTES_MAX, Pattern, Responder, ResponderKeys,
    StaticKey,
};
use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, Payload};
use dfcp_wire::{Flags, Header, Options, Segment, option_bytes};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::config::Config;
use crate::connection::Connection;
use crate::connection::noise::{Proven, RST_CANNOT_READ, RST_NOT_ADMITTED, SYMBOL_SIZE_MAX, prologue};
use crate::endpoint::accept::Cookies;
use crate::endpoint::address::{Address, Prefix, address_bytes};
use crate::endpoint::retries::{Retries, share_of};
use crate::limits;
use crate::security::{Credentials, PeerKey};

/// A sealed SYN which has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syn<'a> {
    pub(super) remote: SocketAddr,
    pub(super) datagram: &'a [u8],
    pub(super) segment: Segment<'a>,
    pub(super) payload: Payload<'a>,
}

/// What to do about a SYN.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer has been written; its length.
    Answer(usize),
    /// It is to be refused, with this in the RST's S1.
    Refuse(u32),
    /// There is no room, or it is not worth an answer.
    Drop,
}

/// An initiator which has proven itself.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Box<Connection>,
    /// The datagram is the connection's first, and has yet to be handed to it.
    pub(super) has_datagram: bool,
}

/// A first message which is to be answered.
struct First<'a> {
    local_id: u32,
    initiator_id: u32,
    pattern: Pattern,
    message: &'a [u8],
    seed: [u8; 32],
}

#[derive(Debug)]
enum Waits {
    /// For the third message.
    Third(dfcp_secure::HalfOpen),
    /// For a datagram that opens; `None` once it has come.
    Datagram(Option<Box<Established>>),
}

impl Waits {
    fn take_established(&mut self) -> Option<Established> {
        match self {
            Self::Third(_) => None,
            Self::Datagram(established) => established.take().map(|established| *established),
        }
    }
}

#[derive(Debug)]
struct HalfOpen {
    remote: Address,
    initiator_id: u32,
    waits: Waits,
    /// The SYNACK's payload: copies of it are the same to the byte.
    answer: Box<[u8]>,
    answers: u16,
    answered_at: Time,
    offer: Offer,
    symbol_size: u16,
    cipher: Cipher,
    /// How often a proof was none.
    failures: u8,
    /// What this takes, as counted when it was made.
    bytes: u16,
    /// So long after the first answer the next proof is looked at; [`limits::HALF_OPEN_TIMEOUT`] at the most.
    retry_after_us: u32,
}

impl HalfOpen {
    /// Bytes which this takes, with its places in the table and in the queue.
    fn memory_bytes(&self) -> usize {
        let waits = match &self.waits {
            Waits::Third(half_open) => half_open.memory_bytes() - size_of_val(half_open),
            Waits::Datagram(_) => size_of::<Established>(),
        };
        let places = 2 * size_of::<(u32, Box<Self>)>() + 2 * size_of::<u32>();
        size_of::<Self>() + self.answer.len() + waits + places
    }
}

/// All of an endpoint's.
#[derive(Debug)]
pub(super) struct HalfOpens {
    keys: ResponderKeys,
    jar: CookieJar,
    cookies: Cookies,
    without_cookie_max: usize,
    table: BTreeMap<u32, Box<HalfOpen>>,
    /// Oldest first; all wait equally long.
    queue: VecDeque<u32>,
    retries: Retries,
    memory_bytes: usize,
    cookies_sent: u64,
    proofs_failed: u64,
    /// First messages read in vain, in this time step of cookies.
    failed: (u64, u32),
}

impl HalfOpens {
    pub(super) fn new(
        credentials: &Credentials,
        cookies: Cookies,
        without_cookie_max: usize,
        random: &mut ChaCha20Rng,
    ) -> Self {
        let (mut key_seed, mut jar_seed) = ([0; 32], [0; 32]);
        random.fill_bytes(&mut key_seed);
        random.fill_bytes(&mut jar_seed);
        // Whom nobody's static key satisfies has none to show: a first message which asks for it is refused at once.
        let own = (!matches!(credentials.peer, PeerKey::Undecided))
            .then(|| credentials.key.clone().unwrap_or_else(|| StaticKey::from_seed(&key_seed)));
        Self {
            keys: ResponderKeys { own, pre_shared: credentials.pre_shared.clone() },
            jar: CookieJar::new(jar_seed),
            cookies,
            without_cookie_max,
            table: BTreeMap::new(),
            queue: VecDeque::new(),
            retries: Retries::default(),
            memory_bytes: 0,
            cookies_sent: 0,
            proofs_failed: 0,
            failed: (0, 0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// What all of them can take.
    pub(super) fn memory_bytes_max(&self) -> usize {
        2 * self.without_cookie_max * limits::HALF_OPEN_BYTES_MAX
    }

    pub(super) fn proofs_failed(&self) -> u64 {
        self.proofs_failed
    }

    pub(super) fn cookies_sent(&self) -> u64 {
        self.cookies_sent
    }

    pub(super) fn contains(&self, local_id: u32) -> bool {
        self.table.contains_key(&local_id)
    }

    /// Forgets those which have waited too long.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(&id) = self.queue.front() {
            // Those which have proven themselves left their places behind.
            if self.table.get(&id).is_some_and(|half_open| now < half_open.answered_at + limits::HALF_OPEN_TIMEOUT) {
                return;
            }
            self.queue.pop_front();
            self.remove(id);
        }
    }

    fn is_full(&self) -> bool {
        self.table.len() >= 2 * self.without_cookie_max
    }

    /// Whether there is room, or the oldest is old enough to make it.
    fn can_make_room(&self, now: Time) -> bool {
        let oldest = self.queue.iter().find_map(|id| self.table.get(id));
        !self.is_full() || oldest.is_none_or(|oldest| now >= oldest.answered_at + limits::HALF_OPEN_SPARED)
    }

    /// Forgets the oldest if there is no room otherwise.
    fn make_room(&mut self) {
        while self.is_full() {
            let Some(id) = self.queue.pop_front() else { return };
            self.remove(id);
        }
    }

    /// Places which this address has. Counted when it asks for one more, which costs a handshake's computation anyway.
    fn places(&self, remote: SocketAddr) -> usize {
        let prefix = Prefix::from(remote);
        self.table.values().filter(|half_open| Prefix::from(half_open.remote) == prefix).count()
    }

    fn remove(&mut self, id: u32) -> Option<Box<HalfOpen>> {
        let half_open = self.table.remove(&id)?;
        self.memory_bytes -= usize::from(half_open.bytes);
        Some(half_open)
    }

    /// The id of the connection which this SYN opens: the same for all copies, another for a forgery with another first
    /// message, and unpredictable to others.
    fn local_id(&self, syn: &Syn<'_>, initiator_id: u32, message: &[u8]) -> u32 {
        self.jar.connection_id(&address_bytes(syn.remote), initiator_id, message)
    }

    /// Takes a SYN; `is_taken` knows the ids of connections. The answer goes to `out`.
    pub(super) fn take_syn(
        &mut self,
        now: Time,
        config: &Config,
        syn: &Syn<'_>,
        is_taken: impl Fn(u32) -> bool,
        random: &mut ChaCha20Rng,
        out: &mut [u8],
    ) -> Verdict {
        self.expire(now);
        let (Some(initiator_id), Some((pattern, message))) = (syn.payload.connection_id, syn.payload.noise) else {
            return Verdict::Drop;
        };
        let local_id = self.local_id(syn, initiator_id, message);
        if let Some(half_open) = self.table.get_mut(&local_id) {
            return half_open.answer_again(syn, out);
        }
        // A connection which is open knows that its peer is: what comes now is late.
        let (Some(pattern), false) = (Pattern::from_id(pattern), is_taken(local_id)) else { return Verdict::Drop };
        let address = address_bytes(syn.remote);
        let step = now.as_ns() / limits::COOKIE_STEP.as_nanos() as u64;
        let shown = syn.payload.cookie.is_some_and(|it| self.jar.verify(step, &address, initiator_id, message, it));
        let failing = self.failed.0 == step && self.failed.1 >= limits::FIRST_MESSAGES_FAILED_MAX;
        let full = failing
            || self.table.len() >= self.without_cookie_max
            || self.places(syn.remote) >= share_of(self.without_cookie_max);
        if !shown && (full || self.cookies == Cookies::Always) {
            let cookie = self.jar.issue(step, &address, initiator_id, message);
            self.cookies_sent += 1;
            let payload = Payload { cookie: Some(&cookie), ..Payload::default() };
            let mut bytes = [0; 64];
            let length = payload.encode(&mut bytes).unwrap_or_default();
            return write_synack(syn, initiator_id, 0, &bytes[..length], out);
        }
        // Who hurries completes the handshake within a round trip; who does not makes room, but not before the first
        // message has been read: nothing that makes no sense may cost anybody a place.
        if self.places(syn.remote) >= share_of(2 * self.without_cookie_max) || !self.can_make_room(now) {
            return Verdict::Drop;
        }
        let mut seed = [0; 32];
        random.fill_bytes(&mut seed);
        let verdict = self.open(now, config, syn, &First { local_id, initiator_id, pattern, message, seed }, out);
        if !matches!(verdict, Verdict::Answer(_)) {
            let before = if self.failed.0 == step { self.failed.1 } else { 0 };
            self.failed = (step, before.saturating_add(1));
        }
        verdict
    }

    fn open(&mut self, now: Time, config: &Config, syn: &Syn<'_>, first: &First<'_>, out: &mut [u8]) -> Verdict {
        let &First { local_id, initiator_id, pattern, message, seed } = first;
        let Some(credentials) = config.credentials() else { return Verdict::Drop };
        let Some(options) = option_bytes(syn.datagram) else { return Verdict::Drop };
        let mut plain = [0; MESSAGE_BYTES_MAX];
        let prologue = prologue(options, initiator_id);
        let first = Responder::read_first(&self.keys, pattern, &prologue, seed, message, &mut plain);
        let (responder, length) = match first {
            Ok(first) => first,
            Err(HandshakeError::Refused | HandshakeError::NoKey(Pattern::PreShared)) => {
                return Verdict::Refuse(RST_CANNOT_READ);
            }
            Err(HandshakeError::NoKey(_)) => return Verdict::Refuse(RST_NOT_ADMITTED),
            Err(_) => return Verdict::Drop,
        };
        if responder.peer().is_some_and(|key| !credentials.admits(pattern, Some(&key))) {
            return Verdict::Refuse(RST_NOT_ADMITTED);
        }
        let Ok(inner) = Payload::decode(&plain[..length]) else { return Verdict::Drop };
        let (Ok(offer), Some(ciphers)) = (inner.offer(), inner.ciphers) else { return Verdict::Drop };
        let Some(cipher) = credentials.ciphers.choose(ciphers) else { return Verdict::Refuse(0) };
        let offered = syn.segment.options.symbol_size.unwrap_or(config.symbol_size);
        let symbol_size = config.symbol_size.min(offered).min(SYMBOL_SIZE_MAX);
        let reply = Payload {
            connection_id: Some(local_id),
            ciphers: Some(&[cipher.id()]),
            symbol_size: Some(symbol_size),
            echo: Some(syn.segment.header.s3),
            ..Payload::default()
        };
        let Ok(length) = reply.with_offer(&config.offer()).encode(&mut plain) else { return Verdict::Drop };
        let mut second = [0; MESSAGE_BYTES_MAX];
        let Ok((second_bytes, answered)) = responder.write_second(&plain[..length], &mut second) else {
            return Verdict::Drop;
        };
        let payload = Payload { noise: Some((pattern.id(), &second[..second_bytes])), ..Payload::default() };
        let Ok(length) = payload.encode(&mut plain) else { return Verdict::Drop };
        let waits = match answered {
            Answered::HalfOpen(half_open) => Waits::Third(half_open),
            Answered::Established(established) => Waits::Datagram(Some(Box::new(established))),
        };
        let mut half_open = Box::new(HalfOpen {
            remote: syn.remote.into(),
            initiator_id,
            waits,
            answer: plain[..length].into(),
            answers: 0,
            answered_at: now,
            offer,
            symbol_size,
            cipher,
            failures: 0,
            bytes: 0,
            retry_after_us: 0,
        });
        let verdict = half_open.answer_again(syn, out);
        if verdict == Verdict::Drop || half_open.memory_bytes() > limits::HALF_OPEN_BYTES_MAX {
            return Verdict::Drop;
        }
        self.make_room();
        half_open.bytes = half_open.memory_bytes() as u16;
        self.memory_bytes += usize::from(half_open.bytes);
        self.table.insert(local_id, half_open);
        if self.queue.len() >= 4 * self.without_cookie_max {
            // Those which have proven themselves since left their places behind.
            self.queue.retain(|id| self.table.contains_key(id));
        }
        self.queue.push_back(local_id);
        verdict
    }

    /// Takes a datagram for the half-open connection `id`. `None` unless it is the proof that was awaited.
    pub(super) fn take_proof(
        &mut self,
        now: Time,
        config: &Arc<Config>,
        id: u32,
        datagram: &[u8],
        seed: [u8; 32],
    ) -> Option<Opened> {
        self.expire(now);
        let credentials = config.credentials()?;
        let half_open = self.table.get_mut(&id)?;
        let (prefix, is_retry) = (Prefix::from(half_open.remote), half_open.failures > 0);
        // The first proof of each is always looked at, whatever others do: only who has had a false one has to wait.
        if now < half_open.retry_at() || (is_retry && !self.retries.is_one_left(now, prefix)) {
            return None;
        }
        let proof = match &mut half_open.waits {
            Waits::Third(third) => read_third(third, &self.keys, datagram),
            Waits::Datagram(Some(established)) => opens(established, half_open.cipher, datagram),
            Waits::Datagram(None) => Proof::None,
        };
        if matches!(proof, Proof::Failed) {
            half_open.fail(now);
            self.proofs_failed += 1;
            if is_retry {
                self.retries.on_failed(now, prefix);
            }
        }
        let remote = half_open.remote.into();
        let (has_datagram, established) = match proof {
            Proof::None | Proof::Failed => return None,
            Proof::Message(established) => (false, established),
            Proof::Datagram => (true, half_open.waits.take_established()?),
        };
        let half_open = *self.remove(id)?;
        let proven = Proven {
            local_id: id,
            peer_id: half_open.initiator_id,
            offer: half_open.offer,
            symbol_size: half_open.symbol_size,
            admitted: credentials.admits(established.pattern(), established.peer().as_ref()),
            established,
            cipher: half_open.cipher,
            answered_at: half_open.answered_at,
        };
        let connection = Box::new(Connection::accept_sealed(now, Arc::clone(config), remote, seed, proven));
        Some(Opened { connection, has_datagram })
    }
}

impl HalfOpen {
    /// A copy of the SYN: answered with a copy of the SYNACK.
    fn answer_again(&mut self, syn: &Syn<'_>, out: &mut [u8]) -> Verdict {
        self.answers = self.answers.saturating_add(1);
        write_synack(syn, self.initiator_id, (self.answers - 1).into(), &self.answer, out)
    }

    /// What should have been a proof was none: the next one is looked at a little later.
    fn fail(&mut self, now: Time) {
        let wait = limits::PROOF_RETRY_MIN * (1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let after = now.since(self.answered_at) + wait.min(limits::PROOF_RETRY_MAX);
        self.retry_after_us = after.min(limits::HALF_OPEN_TIMEOUT).as_micros() as u32;
    }

    fn retry_at(&self) -> Time {
        self.answered_at + Duration::from_micros(self.retry_after_us.into())
    }
}

/// What a datagram is to one who waits for a proof.
enum Proof {
    /// Something else.
    None,
    /// A forgery, or damaged.
    Failed,
    /// The third message.
    Message(Established),
    /// A sealed datagram that opens.
    Datagram,
}

fn read_third(third: &mut dfcp_secure::HalfOpen, keys: &ResponderKeys, datagram: &[u8]) -> Proof {
    let Ok(segment) = Segment::decode(datagram) else { return Proof::None };
    let Ok(Payload { noise: Some((pattern, message)), .. }) = Payload::decode(segment.payload) else {
        return Proof::None;
    };
    if segment.header.flags != Flags::ACK || pattern != Pattern::FirstContact.id() {
        return Proof::None;
    }
    match third.read_third(keys, message, &mut [0; MESSAGE_BYTES_MAX]) {
        Ok((established, _)) => Proof::Message(established),
        Err(HandshakeError::Length(_)) => Proof::None,
        Err(_) => Proof::Failed,
    }
}

fn opens(established: &Established, cipher: Cipher, datagram: &[u8]) -> Proof {
    let Ok(segment) = Segment::decode(datagram) else { return Proof::None };
    let header = &segment.header;
    if !header.flags.contains(Flags::SEC) || header.epoch != 0 {
        return Proof::None;
    }
    let mut copy = datagram.to_vec();
    let (head, sealed) = copy.split_at_mut(datagram.len() - segment.payload.len());
    if established.opens(cipher, header.s3.into(), head, sealed) { Proof::Datagram } else { Proof::Failed }
}

/// Writes a SYNACK, unless it would be longer than what it answers.
fn write_synack(syn: &Syn<'_>, initiator_id: u32, number: u32, payload: &[u8], out: &mut [u8]) -> Verdict {
    let header = Header { s3: number, ..Header::modern(Flags::SYN | Flags::ACK) }.with_connection_id(initiator_id);
    match dfcp_wire::encode(out, &header, &Options::default(), payload) {
        Ok(length) if length <= syn.datagram.len() => Verdict::Answer(length),
        Ok(_) | Err(_) => Verdict::Drop,
    }
}
