//! Sealed connections whose initiator has yet to prove itself: what is kept of them is little and bounded, and past a
//! threshold nothing at all (`spec/security.md`, [trust-1] and §5).

mod first;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dfcp_secure::{
    AddressPrefix, Cipher, CookieJar, EndpointResetKey, Established, HandshakeError, MESSAGE_BYTES_MAX, Pattern,
    ResponderKeys, StaticKey,
};
use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, Payload};
use dfcp_wire::segment::{Ack, Address as Destination, Clear, KeyEpoch, Sealed, Segment, SynAck, SynOptions};
use dfcp_wire::{DatagramBuffer, EncodeError, Features, Unverified};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::config::Config;
use crate::endpoint::accept::Cookies;
use crate::endpoint::address::Address;
use crate::endpoint::rate_limit::{RateLimit, share_of};
use crate::endpoint::refused::{RefusedMessages, Verdict};
use crate::limits;
use crate::security::{Credentials, PeerKey};
use crate::session::handshake::is_permitted;
use crate::session::{Proven, Session};

/// A sealed SYN which has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syn<'a> {
    pub(super) remote: SocketAddr,
    /// Of the datagram.
    pub(super) bytes: usize,
    pub(super) options: Option<SynOptions>,
    /// The options as they came.
    pub(super) option_bytes: &'a [u8],
    /// The segment's number.
    pub(super) number: u32,
    pub(super) initiator_id: u32,
    /// The id of the first message's pattern.
    pub(super) pattern: u8,
    pub(super) message: &'a [u8],
    pub(super) cookie: Option<&'a [u8]>,
}

/// An initiator which has proven itself.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) session: Box<Session>,
    /// The datagram is the connection's first, and has yet to be handed to it.
    pub(super) has_datagram: bool,
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
    features: Features,
    cipher: Cipher,
    /// Proofs that failed.
    failures: u8,
    /// Bytes that this takes, as counted when it was made.
    bytes: u16,
    /// Time after the first answer from which the next proof is checked; [`limits::HALF_OPEN_TIMEOUT`] at the most.
    retry_after_us: u32,
}

/// All of an endpoint's.
#[derive(Debug)]
pub(super) struct HalfOpens {
    keys: ResponderKeys,
    reset_key: Arc<EndpointResetKey>,
    jar: CookieJar,
    cookies: Cookies,
    without_cookie_max: usize,
    table: BTreeMap<u32, Box<HalfOpen>>,
    /// Oldest first; all wait equally long.
    queue: VecDeque<u32>,
    retries: RateLimit,
    /// Of those which have shown a cookie.
    first_messages: RateLimit,
    refused: RefusedMessages,
    memory_bytes: usize,
    cookies_sent: u64,
    proofs_failed: u64,
    first_messages_computed: u64,
    /// First messages computed on in vain, in this time step of cookies.
    failed: (u64, u32),
}

impl HalfOpens {
    pub(super) fn new(
        credentials: &Credentials,
        cookies: Cookies,
        without_cookie_max: usize,
        reset_key: Arc<EndpointResetKey>,
        random: &mut ChaCha20Rng,
    ) -> Self {
        let (mut key_seed, mut jar_seed) = ([0; 32], [0; 32]);
        random.fill_bytes(&mut key_seed);
        random.fill_bytes(&mut jar_seed);
        // An end that accepts no static key shows none of its own: a first message which asks for it is refused at once.
        let own = (!matches!(credentials.peer, PeerKey::Undecided))
            .then(|| credentials.key.clone().unwrap_or_else(|| StaticKey::from_seed(&key_seed)));
        Self {
            keys: ResponderKeys { own, pre_shared: credentials.pre_shared.clone() },
            reset_key,
            jar: CookieJar::new(jar_seed),
            cookies,
            without_cookie_max,
            table: BTreeMap::new(),
            queue: VecDeque::new(),
            retries: RateLimit::new(limits::PROOF_RETRIES_PER_S, limits::PROOF_RETRIES_BURST),
            first_messages: RateLimit::new(limits::FIRST_MESSAGES_FAILED_PER_S, limits::FIRST_MESSAGES_FAILED_BURST),
            refused: RefusedMessages::default(),
            memory_bytes: 0,
            cookies_sent: 0,
            proofs_failed: 0,
            first_messages_computed: 0,
            failed: (0, 0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Bytes that all of them can take, with the table of refused messages.
    pub(super) fn memory_bytes_max(&self) -> usize {
        2 * self.without_cookie_max * limits::HALF_OPEN_BYTES_MAX + RefusedMessages::BYTES
    }

    pub(super) fn proofs_failed(&self) -> u64 {
        self.proofs_failed
    }

    pub(super) fn first_messages_computed(&self) -> u64 {
        self.first_messages_computed
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

    /// True if there is room for another entry of this address, or the entry that has to make room is old enough.
    fn can_make_room(&self, now: Time, remote: SocketAddr) -> bool {
        let displaced = self.displaced_by(remote).and_then(|id| self.table.get(&id));
        displaced.is_none_or(|oldest| now >= oldest.answered_at + limits::HALF_OPEN_SPARED)
    }

    /// The entry that has to make room for another one of this address: the oldest of the address if the address has its share, else the
    /// oldest of a full table.
    fn displaced_by(&self, remote: SocketAddr) -> Option<u32> {
        let prefix = AddressPrefix::from(remote);
        let oldest = |of: &dyn Fn(&HalfOpen) -> bool| {
            self.queue.iter().copied().find(|id| self.table.get(id).is_some_and(|it| of(it)))
        };
        if self.places(remote) >= share_of(2 * self.without_cookie_max) {
            oldest(&|it| AddressPrefix::from(it.remote) == prefix)
        } else if self.is_full() {
            oldest(&|_| true)
        } else {
            None
        }
    }

    /// Forgets the entry that has to make room for another one of this address, if any.
    fn make_room(&mut self, remote: SocketAddr) {
        if let Some(id) = self.displaced_by(remote) {
            self.remove(id);
        }
    }

    /// Places which this address has. Counted when it asks for one more, which costs a handshake's computation anyway.
    fn places(&self, remote: SocketAddr) -> usize {
        let prefix = AddressPrefix::from(remote);
        self.table.values().filter(|half_open| AddressPrefix::from(half_open.remote) == prefix).count()
    }

    fn remove(&mut self, id: u32) -> Option<Box<HalfOpen>> {
        let half_open = self.table.remove(&id)?;
        self.memory_bytes -= usize::from(half_open.bytes);
        Some(half_open)
    }

    /// Takes a datagram for the half-open connection `id`. `None` unless it is the proof that was awaited
    /// (\[open-33\]).
    pub(super) fn take_proof(
        &mut self,
        now: Time,
        config: &Arc<Config>,
        id: u32,
        (header, datagram): (&Unverified, &[u8]),
        seed: [u8; 32],
    ) -> Option<Opened> {
        self.expire(now);
        let credentials = config.credentials()?;
        let half_open = self.table.get_mut(&id)?;
        let (prefix, is_retry) = (AddressPrefix::from(half_open.remote), half_open.failures > 0);
        // The first proof of each is always checked, whatever others do: only after a false one is there a wait.
        if now < half_open.retry_at() || (is_retry && !self.retries.permits(now, prefix)) {
            return None;
        }
        let proof = match (&mut half_open.waits, header) {
            (Waits::Third(third), Unverified::Clear(header)) => read_third(third, &self.keys, header, datagram),
            (Waits::Datagram(Some(established)), Unverified::Sealed(header)) => {
                opens(established, (half_open.cipher, half_open.features), header, datagram)
            }
            _ => Proof::None,
        };
        if matches!(proof, Proof::Failed) {
            half_open.fail(now);
            self.proofs_failed += 1;
            if is_retry {
                self.retries.charge(now, prefix);
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
            features: half_open.features,
            admitted: credentials.admits(established.pattern(), established.peer().as_ref()),
            established,
            cipher: half_open.cipher,
            answered_at: half_open.answered_at,
            ticket: Box::new(self.reset_key.issue(id, &seed)),
        };
        let session = Box::new(Session::accept_sealed(now, Arc::clone(config), remote, seed, proven));
        Some(Opened { session, has_datagram })
    }
}

impl HalfOpen {
    /// A copy of the SYN: answered with a copy of the SYNACK (\[open-31\]).
    fn answer_again(&mut self, syn: &Syn<'_>, out: &mut DatagramBuffer) -> Verdict {
        self.answers = self.answers.saturating_add(1);
        write_synack(syn, self.initiator_id, (self.answers - 1).into(), &self.answer, out)
    }

    /// Notes a failed proof: the next one is checked a little later.
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

/// A datagram, as the proof that a half-open connection waits for.
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

fn read_third(third: &mut dfcp_secure::HalfOpen, keys: &ResponderKeys, header: &Clear, datagram: &[u8]) -> Proof {
    let Ok(received) = header.verify(datagram) else { return Proof::None };
    let Ok(Payload { noise: Some((pattern, message)), .. }) = Payload::decode(received.payload) else {
        return Proof::None;
    };
    if received.segment != Segment::Ack(Ack::Noise) || pattern != Pattern::FirstContact.id() {
        return Proof::None;
    }
    match third.read_third(keys, message, &mut [0; MESSAGE_BYTES_MAX]) {
        Ok((established, _)) => Proof::Message(established),
        Err(HandshakeError::Length(_)) => Proof::None,
        Err(_) => Proof::Failed,
    }
}

fn opens(established: &Established, (cipher, features): (Cipher, Features), header: &Sealed, datagram: &[u8]) -> Proof {
    let mut copy = datagram.to_vec();
    let Ok((head, sealed)) = header.split(&mut copy) else { return Proof::None };
    // The first datagrams are of the first epoch. What is no segment proves nothing, although it is authentic: it must change nothing.
    let is_segment = || header.opened(head, &[]).is_ok_and(|it| is_permitted(&it.segment, features));
    if header.epoch() != KeyEpoch::of(0) || !is_segment() {
        return Proof::None;
    }
    if established.opens(cipher, header.number().into(), head, sealed) { Proof::Datagram } else { Proof::Failed }
}

/// Writes a SYNACK, unless it would be longer than what it answers.
fn write_synack(syn: &Syn<'_>, initiator_id: u32, number: u32, payload: &[u8], out: &mut DatagramBuffer) -> Verdict {
    match encode_synack(initiator_id, number, payload, out) {
        Ok(length) if length <= syn.bytes => Verdict::Answer(length),
        Ok(_) | Err(_) => Verdict::Drop,
    }
}

fn encode_synack(id: u32, number: u32, payload: &[u8], out: &mut DatagramBuffer) -> Result<usize, EncodeError> {
    let synack = Segment::SynAck(SynAck { echo: 0, options: None });
    let mut draft = synack.begin_clear(Destination::Connection(id), number, out);
    draft.payload(payload.len())?.copy_from_slice(payload);
    Ok(draft.finish())
}
