//! Processing of first messages: which ones are answered, and limits on their cost.

use dfcp_secure::{
    Answered, Cipher, Established, HandshakeError, MESSAGE_BYTES_MAX, Pattern, Responder, address_bytes,
};
use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, PARAMETER_HEADER_BYTES, PARAMETERS_BYTES, Payload};
use dfcp_wire::segment::ResetReason;
use dfcp_wire::{DatagramBuffer, Features, overhead_bytes};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use super::{HalfOpen, HalfOpens, Syn, Waits, write_synack};
use crate::config::Config;
use crate::endpoint::accept::Cookies;
use crate::endpoint::rate_limit::share_of;
use crate::endpoint::refused::Verdict;
use crate::limits;
use crate::proof::symbol_size_max;
use crate::session::handshake::features;
use crate::session::noise::prologue;

/// Maximum payload of a second message, bytes: connection id, offer, cipher, symbol size, echo and features.
const REPLY_BYTES: usize = PARAMETERS_BYTES + 4 * PARAMETER_HEADER_BYTES + 1 + 2 + 4 + 4;

/// A first message, whose half-open connection would have room.
struct First<'a> {
    local_id: u32,
    initiator_id: u32,
    pattern: Pattern,
    message: &'a [u8],
    prologue: Vec<u8>,
    /// The sender has shown a cookie, so it can receive at its address.
    is_proven: bool,
}

impl First<'_> {
    /// Length of the SYNACK's payload, bytes.
    fn answer_bytes(&self) -> usize {
        let overhead_bytes = self.pattern.overheads().get(1).copied().unwrap_or_default();
        PARAMETER_HEADER_BYTES + 1 + overhead_bytes + REPLY_BYTES
    }

    /// Returns true if the answer fits the limits, for any contents of the message.
    fn is_answerable(&self, syn: &Syn<'_>) -> bool {
        overhead_bytes(false) + self.answer_bytes() <= syn.bytes
            && self.half_open_bytes() <= limits::HALF_OPEN_BYTES_MAX
    }

    /// Memory of the half-open connection, bytes, including its places in table and queue.
    fn half_open_bytes(&self) -> usize {
        let waits = match self.pattern {
            Pattern::FirstContact => self.prologue.len() + self.message.len() + REPLY_BYTES,
            Pattern::Pinned | Pattern::PreShared => size_of::<Established>(),
        };
        let places = 2 * size_of::<(u32, Box<HalfOpen>)>() + 2 * size_of::<u32>();
        size_of::<HalfOpen>() + self.answer_bytes() + waits + places
    }
}

/// The terms of a connection, agreed from the first message and our configuration.
struct Agreed {
    responder: Responder,
    offer: Offer,
    cipher: Cipher,
    symbol_size: u16,
    features: Features,
}

/// Returns the current time step of cookies.
fn cookie_step(now: Time) -> u64 {
    now.as_ns() / limits::COOKIE_STEP.as_nanos() as u64
}

impl HalfOpens {
    /// Returns the connection id that this SYN opens. All copies of the SYN give the same id; a forgery with another
    /// first message gives another id. Others cannot predict it.
    fn local_id(&self, syn: &Syn<'_>, initiator_id: u32, message: &[u8]) -> u32 {
        self.jar.connection_id(&address_bytes(syn.remote), initiator_id, message)
    }

    /// Processes a SYN, and writes the answer to `out`. `is_taken` returns true for ids of existing connections.
    pub(in crate::endpoint) fn take_syn(
        &mut self,
        now: Time,
        config: &Config,
        syn: &Syn<'_>,
        is_taken: impl Fn(u32) -> bool,
        random: &mut ChaCha20Rng,
        out: &mut DatagramBuffer,
    ) -> Verdict {
        self.expire(now);
        let &Syn { initiator_id, pattern, message, cookie, .. } = syn;
        let local_id = self.local_id(syn, initiator_id, message);
        if let Some(half_open) = self.table.get_mut(&local_id) {
            return half_open.answer_again(syn, out);
        }
        // The id belongs to an open connection, whose peer is proven: this SYN is late.
        let (Some(pattern), false) = (Pattern::from_id(pattern), is_taken(local_id)) else { return Verdict::Drop };
        let address = address_bytes(syn.remote);
        let step = cookie_step(now);
        let shown = cookie.is_some_and(|it| self.jar.verify(step, &address, initiator_id, message, it));
        let failing = self.failed.0 == step && self.failed.1 >= limits::FIRST_MESSAGES_FAILED_MAX;
        let full = failing
            || self.table.len() >= self.without_cookie_max
            || self.places(syn.remote) >= share_of(self.without_cookie_max);
        if !shown && (full || self.cookies == Cookies::Always) {
            let cookie = self.jar.issue(step, &address, initiator_id, message);
            self.cookies_sent += 1;
            let payload = Payload { cookie: Some(&cookie), ..Payload::default() };
            let mut bytes = [0; 64];
            let Ok(length) = payload.encode(&mut bytes) else { return Verdict::Drop };
            return write_synack(syn, initiator_id, 0, &bytes[..length], out);
        }
        // An honest initiator completes the handshake within a round trip, so slow entries may be displaced. But
        // displace one only after the new message was read: a senseless message must not cost anybody a place.
        if !self.can_make_room(now, syn.remote) {
            return Verdict::Drop;
        }
        let prologue = prologue(syn.option_bytes, initiator_id);
        let first = First { local_id, initiator_id, pattern, message, prologue, is_proven: shown };
        if !first.is_answerable(syn) {
            return Verdict::Drop;
        }
        let mut seed = [0; 32];
        random.fill_bytes(&mut seed);
        match pattern {
            Pattern::Pinned if self.keys.own.is_some() => self.open_within_limits(now, config, syn, &first, seed, out),
            // Reading detects an unreadable message or a weak key before any curve multiplication.
            _ => self.open(now, config, syn, &first, seed, out),
        }
    }

    /// Opens a connection from a message that costs curve multiplications even if it is refused. Copies of refused
    /// messages are not computed again, and the cost per address is limited ([open-39]).
    fn open_within_limits(
        &mut self,
        now: Time,
        config: &Config,
        syn: &Syn<'_>,
        first: &First<'_>,
        seed: [u8; 32],
        out: &mut DatagramBuffer,
    ) -> Verdict {
        let (hash, prefix) = (self.jar.message_hash(&first.prologue, first.message), syn.remote.into());
        if let Some(verdict) = self.refused.verdict(hash) {
            return verdict;
        }
        if first.is_proven && !self.first_messages.permits(now, prefix) {
            // An honest initiator then retries with a first-contact message. Such a message costs no multiplication if
            // it is senseless.
            return Verdict::Refuse(ResetReason::CannotRead);
        }
        self.first_messages_computed += 1;
        let verdict = self.open(now, config, syn, first, seed, out);
        if !matches!(verdict, Verdict::Answer(_)) {
            self.refused.insert(hash, &verdict);
            if first.is_proven {
                self.first_messages.charge(now, prefix);
            } else {
                // The address may be forged, so charge no address. Too many failures make cookies mandatory for all.
                let step = cookie_step(now);
                let before = if self.failed.0 == step { self.failed.1 } else { 0 };
                self.failed = (step, before.saturating_add(1));
            }
        }
        verdict
    }

    /// Reads a first message. No state is kept if it is refused.
    fn read(&self, config: &Config, syn: &Syn<'_>, first: &First<'_>, seed: [u8; 32]) -> Result<Agreed, Verdict> {
        let &First { pattern, message, ref prologue, .. } = first;
        let credentials = config.credentials().ok_or(Verdict::Drop)?;
        let mut plain = [0; MESSAGE_BYTES_MAX];
        let read = Responder::read_first(&self.keys, pattern, prologue, seed, message, &mut plain);
        let (responder, length) = read.map_err(|error| match error {
            HandshakeError::Refused | HandshakeError::NoKey(Pattern::PreShared) => {
                Verdict::Refuse(ResetReason::CannotRead)
            }
            HandshakeError::NoKey(_) => Verdict::Refuse(ResetReason::NotAdmitted),
            _ => Verdict::Drop,
        })?;
        // Check the key before the SYN is answered ([open-35], [trust-5]).
        if responder.peer().is_some_and(|key| !credentials.admits(pattern, Some(&key))) {
            return Err(Verdict::Refuse(ResetReason::NotAdmitted));
        }
        let inner = Payload::decode(&plain[..length]).map_err(|_| Verdict::Drop)?;
        let (Ok(offer), Some(ciphers)) = (inner.offer(), inner.ciphers) else { return Err(Verdict::Drop) };
        let cipher = credentials.ciphers.choose(ciphers).ok_or(Verdict::Refuse(ResetReason::Unspecified))?;
        let offered = syn.options.map_or(config.symbol_size, |options| options.symbol_size.bytes());
        let symbol_size = config.symbol_size.min(offered).min(symbol_size_max(true));
        let offered = syn.options.map_or(Features::NONE, |options| options.features);
        let features = offered.intersection(features(config));
        Ok(Agreed { responder, offer, cipher, symbol_size, features })
    }

    /// Answers a first message and creates a half-open connection, or refuses the message.
    fn open(
        &mut self,
        now: Time,
        config: &Config,
        syn: &Syn<'_>,
        first: &First<'_>,
        seed: [u8; 32],
        out: &mut DatagramBuffer,
    ) -> Verdict {
        let &First { local_id, initiator_id, pattern, .. } = first;
        let bytes = first.half_open_bytes();
        let Agreed { responder, offer, cipher, symbol_size, features } = match self.read(config, syn, first, seed) {
            Ok(agreed) => agreed,
            Err(verdict) => return verdict,
        };
        let reply = Payload {
            connection_id: Some(local_id),
            ciphers: Some(&[cipher.id()]),
            symbol_size: Some(symbol_size),
            echo: Some(syn.number),
            features: Some(features),
            ..Payload::default()
        };
        let mut plain = [0; MESSAGE_BYTES_MAX];
        let Ok(length) = reply.with_offer(&config.offer()).encode(&mut plain) else { return Verdict::Drop };
        if pattern != Pattern::Pinned {
            // Count only from here on: reading such a message takes no multiplication.
            self.first_messages_computed += 1;
        }
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
            features,
            cipher,
            failures: 0,
            bytes: bytes as u16,
            retry_after_us: 0,
        });
        let verdict = half_open.answer_again(syn, out);
        if verdict == Verdict::Drop {
            return verdict;
        }
        self.make_room(syn.remote);
        self.memory_bytes += usize::from(half_open.bytes);
        self.table.insert(local_id, half_open);
        if self.queue.len() >= 4 * self.without_cookie_max {
            // Drop the ids of entries that were removed since.
            self.queue.retain(|id| self.table.contains_key(id));
        }
        self.queue.push_back(local_id);
        verdict
    }
}
