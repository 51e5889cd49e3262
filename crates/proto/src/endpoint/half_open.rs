//! Sealed connections whose initiator has not proven itself. Their state is small and bounded; above a threshold, no
//! state is kept at all (`spec/security.md`, [trust-1] and §5).

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

/// A received sealed SYN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syn<'a> {
    pub(super) remote: SocketAddr,
    /// Length of the datagram, bytes.
    pub(super) bytes: usize,
    pub(super) options: Option<SynOptions>,
    /// The encoded options, as received.
    pub(super) option_bytes: &'a [u8],
    /// Sequence number of the segment.
    pub(super) number: u32,
    pub(super) initiator_id: u32,
    /// Id of the first message's Noise pattern.
    pub(super) pattern: u8,
    pub(super) message: &'a [u8],
    pub(super) cookie: Option<&'a [u8]>,
}

/// The session of an initiator that has proven itself.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) session: Box<Session>,
    /// The current datagram belongs to the session, and has yet to be passed to it.
    pub(super) has_datagram: bool,
}

#[derive(Debug)]
enum Waits {
    /// Waits for the third message.
    Third(dfcp_secure::HalfOpen),
    /// Waits for a datagram that decrypts. `None` once it has arrived.
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
    /// Payload of the SYNACK. All copies of the SYNACK have this payload.
    answer: Box<[u8]>,
    answers: u16,
    answered_at: Time,
    offer: Offer,
    symbol_size: u16,
    features: Features,
    cipher: Cipher,
    /// Number of failed proofs.
    failures: u8,
    /// Memory of this entry, bytes, as counted when it was created.
    bytes: u16,
    /// Time after the first answer when the next proof may be checked, at most [`limits::HALF_OPEN_TIMEOUT`].
    retry_after_us: u32,
}

/// All sealed half-open connections of an endpoint.
#[derive(Debug)]
pub(super) struct HalfOpens {
    keys: ResponderKeys,
    reset_key: Arc<EndpointResetKey>,
    jar: CookieJar,
    cookies: Cookies,
    without_cookie_max: usize,
    table: BTreeMap<u32, Box<HalfOpen>>,
    /// Ids in the order of arrival. All entries have the same timeout, so the first one expires first.
    queue: VecDeque<u32>,
    retries: RateLimit,
    /// Limits first messages of initiators that have shown a cookie.
    first_messages: RateLimit,
    refused: RefusedMessages,
    memory_bytes: usize,
    cookies_sent: u64,
    proofs_failed: u64,
    first_messages_computed: u64,
    /// Cookie time step, and the number of first messages computed without success in that step.
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
        // Without trusted static keys this end has no static key either, so a first message that needs one is refused
        // immediately.
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

    /// Maximum memory of all half-open connections and of the table of refused messages, bytes.
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

    /// Removes entries that have timed out.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(&id) = self.queue.front() {
            // Ids of removed entries stay in the queue until they reach its front.
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

    /// Returns true if there is room for one more entry of this address, or if the entry to be displaced is old enough.
    fn can_make_room(&self, now: Time, remote: SocketAddr) -> bool {
        let displaced = self.displaced_by(remote).and_then(|id| self.table.get(&id));
        displaced.is_none_or(|oldest| now >= oldest.answered_at + limits::HALF_OPEN_SPARED)
    }

    /// Returns the entry that one more entry of this address displaces: the oldest entry of the address if its share is
    /// used up, otherwise the oldest entry of a full table. `None` if there is room.
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

    /// Removes the entry that one more entry of this address displaces, if any.
    fn make_room(&mut self, remote: SocketAddr) {
        if let Some(id) = self.displaced_by(remote) {
            self.remove(id);
        }
    }

    /// Returns the number of entries of this address. Counting is linear, but precedes a handshake computation that
    /// costs more.
    fn places(&self, remote: SocketAddr) -> usize {
        let prefix = AddressPrefix::from(remote);
        self.table.values().filter(|half_open| AddressPrefix::from(half_open.remote) == prefix).count()
    }

    fn remove(&mut self, id: u32) -> Option<Box<HalfOpen>> {
        let half_open = self.table.remove(&id)?;
        self.memory_bytes -= usize::from(half_open.bytes);
        Some(half_open)
    }

    /// Processes a datagram for the half-open connection `id`. Returns `None` unless the datagram is the expected proof
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
        // The first proof of each entry is always checked, whatever other addresses do. Only a false proof causes a
        // wait.
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
    /// Answers a copy of the SYN with a copy of the SYNACK (\[open-31\]).
    fn answer_again(&mut self, syn: &Syn<'_>, out: &mut DatagramBuffer) -> Verdict {
        self.answers = self.answers.saturating_add(1);
        write_synack(syn, self.initiator_id, (self.answers - 1).into(), &self.answer, out)
    }

    /// Records a failed proof, and delays the check of the next one.
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

/// The result of checking a datagram as a proof.
enum Proof {
    /// The datagram is no proof.
    None,
    /// The datagram is forged or damaged.
    Failed,
    /// The valid third message.
    Message(Established),
    /// A sealed datagram that decrypts.
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
    // First datagrams belong to the first epoch. An authentic datagram without a valid segment must not change
    // anything, so it is no proof.
    let is_segment = || header.opened(head, &[]).is_ok_and(|it| is_permitted(&it.segment, features));
    if header.epoch() != KeyEpoch::of(0) || !is_segment() {
        return Proof::None;
    }
    if established.opens(cipher, header.number().into(), head, sealed) { Proof::Datagram } else { Proof::Failed }
}

/// Writes a SYNACK, unless it would be longer than the SYN that it answers.
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
