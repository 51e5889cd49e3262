//! A hand-driven peer with genuine keys, sufficient for all attacks by an authenticated peer.

use anyhow::{Context, Result, bail, ensure};
use dfcp_proto::{Cipher, Pattern, PublicKey, StaticKey};
use dfcp_secure::{Initiator, InitiatorKeys, MESSAGE_BYTES_MAX, OpenKeys, SealKeys, TAG_BYTES, epoch_of};
use dfcp_testkit::raw::{self, Header};
use dfcp_wire::feedback::{Report, ReportWriter, Run, StreamState};
use dfcp_wire::handshake::{Offer, Payload};
use dfcp_wire::segment::{Ack, Address, Envelope, KeyEpoch, Segment, Syn, SynOptions};
use dfcp_wire::{
    DATAGRAM_BYTES_MAX, Features, Finished, Flags, HEADER_BYTES, StreamLimits, SymbolSize, Unverified, VERSION,
};

/// Code id of the random linear fountain.
const CODE_RANDOM_LINEAR: u8 = 1;

/// Parameters that an honest peer could offer.
pub const MODEST: Offer = Offer {
    window_blocks: 4096,
    receive_memory_bytes: 32 << 20,
    rate_max_bps: 0,
    idle_timeout_ms: 30_000,
    streams: StreamLimits { bidirectional: 0, one_way: 0 },
};

/// A hand-driven initiator.
#[derive(Debug)]
pub struct Puppet {
    /// Id that the victim writes into its segments.
    pub id: u32,
    /// Id that the victim expects, known after its SYNACK.
    pub peer_id: u32,
    /// Parameters offered by the victim.
    pub peer_offer: Option<Offer>,
    /// Number of the next datagram.
    pub next_number: u64,
    features: Features,
    noise: Option<Initiator>,
    pattern: Pattern,
    first: Vec<u8>,
    keys: Option<(SealKeys, OpenKeys)>,
}

/// A decrypted datagram of the victim.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Header, including SEC.
    pub header: Header,
    /// Plaintext payload.
    pub payload: Vec<u8>,
}

/// Keys of a client that connects to a server for the first time.
#[must_use]
pub fn first_contact(seed: u8) -> InitiatorKeys {
    InitiatorKeys::FirstContact { own: StaticKey::from_seed(&[seed; 32]), expected: None }
}

/// Keys of an unknown client that connects to the server with this key.
#[must_use]
pub fn pinned(seed: u8, responder: PublicKey) -> InitiatorKeys {
    InitiatorKeys::Pinned { own: StaticKey::from_seed(&[seed; 32]), responder }
}

fn syn_options(features: Features) -> SynOptions {
    SynOptions { version: VERSION, code: CODE_RANDOM_LINEAR, symbol_size: SymbolSize::nearest(1420), features }
}

fn datagram(segment: Segment, id: u32, payload: &[u8]) -> Result<Vec<u8>> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let mut draft = segment.begin_clear(Address::Connection(id), 0, &mut out);
    draft.payload(payload.len())?.copy_from_slice(payload);
    let length = draft.finish();
    Ok(out[..length].to_vec())
}

impl Puppet {
    /// Makes a puppet with the connection id `id`, which offers `offer`.
    ///
    /// # Errors
    /// Fails only if the cryptography fails.
    pub fn new(id: u32, keys: InitiatorKeys, seed: [u8; 32], offer: &Offer) -> Result<Self> {
        Self::with_extra(id, keys, seed, offer, 0)
    }

    /// Makes a puppet with this number of additional bytes in the first message, as an unknown parameter.
    ///
    /// # Errors
    /// Fails only if the cryptography fails.
    pub fn with_extra(id: u32, keys: InitiatorKeys, seed: [u8; 32], offer: &Offer, extra_bytes: usize) -> Result<Self> {
        Self::with(id, keys, seed, (offer, Features::NONE, extra_bytes))
    }

    /// Makes a puppet that offers `features`.
    ///
    /// # Errors
    /// Fails only if the cryptography fails.
    pub fn with_features(
        id: u32,
        keys: InitiatorKeys,
        seed: [u8; 32],
        offer: &Offer,
        features: Features,
    ) -> Result<Self> {
        Self::with(id, keys, seed, (offer, features, 0))
    }

    fn with(
        id: u32,
        keys: InitiatorKeys,
        seed: [u8; 32],
        (offer, features, extra_bytes): (&Offer, Features, usize),
    ) -> Result<Self> {
        let pattern = keys.pattern();
        let prologue = [b"DFCP 2".as_slice(), &syn_options(features).to_bytes(), &id.to_be_bytes()].concat();
        let mut noise = Initiator::new(keys, &prologue, seed)?;
        let ciphers: Vec<u8> = Cipher::ALL.into_iter().map(Cipher::id).collect();
        let padding_bytes = (extra_bytes > 0).then_some(extra_bytes);
        let payload = Payload { ciphers: Some(&ciphers), padding_bytes, ..Payload::default() }.with_offer(offer);
        let (mut plain, mut first) = ([0; MESSAGE_BYTES_MAX], [0; MESSAGE_BYTES_MAX]);
        let length = payload.encode(&mut plain)?;
        let length = noise.write_first(&plain[..length], &mut first)?;
        let first = first[..length].to_vec();
        let noise = Some(noise);
        Ok(Self { id, peer_id: 0, peer_offer: None, next_number: 0, features, noise, pattern, first, keys: None })
    }

    /// Makes a SYN, with a cookie if one was requested, and `padding_bytes` of padding (an honest SYN has 256 bytes in total).
    ///
    /// # Errors
    /// Fails if it does not fit into a datagram.
    pub fn syn(&self, cookie: Option<&[u8]>, padding_bytes: usize) -> Result<Vec<u8>> {
        let payload = Payload {
            connection_id: Some(self.id),
            cookie,
            noise: Some((self.pattern.id(), &self.first)),
            padding_bytes: (padding_bytes > 0).then_some(padding_bytes),
            ..Payload::default()
        };
        let mut bytes = [0; 1500];
        let length = payload.encode(&mut bytes)?;
        datagram(Segment::Syn(Syn { options: Some(syn_options(self.features)) }), 0, &bytes[..length])
    }

    /// Changes the end of the first message, so that it is unreadable and different for each number.
    pub fn spoil_first(&mut self, number: u32) {
        if let Some(end) = self.first.last_chunk_mut() {
            *end = number.to_be_bytes();
        }
    }

    /// Cookie in a SYNACK, if there is one.
    #[must_use]
    pub fn cookie(answer: &[u8]) -> Option<Vec<u8>> {
        let payload = Payload::decode(raw::read(answer)?.payload).ok()?;
        payload.noise.is_none().then_some(payload.cookie?.to_vec())
    }

    /// Reads the SYNACK; returns the third message's datagram if the pattern has one.
    ///
    /// # Errors
    /// Fails if it is not an answer to this puppet.
    pub fn take_answer(&mut self, answer: &[u8]) -> Result<Option<Vec<u8>>> {
        let Unverified::Clear(header) = Unverified::read(answer)? else { bail!("the answer is not in the clear") };
        let received = header.verify(answer)?;
        ensure!(matches!(received.segment, Segment::SynAck(_)), "the answer is {:?}", received.segment);
        ensure!(header.connection_id() == self.id, "the answer is for another connection");
        let (_, message) = Payload::decode(received.payload)?.noise.context("the answer has no Noise message")?;
        let mut noise = self.noise.take().context("the handshake is over")?;
        let mut plain = [0; MESSAGE_BYTES_MAX];
        let length = noise.read_second(message, &mut plain)?;
        let inner = Payload::decode(&plain[..length])?;
        self.peer_id = inner.connection_id()?;
        self.peer_offer = Some(inner.offer()?);
        let cipher = inner.ciphers.and_then(|ciphers| Cipher::from_id(*ciphers.first()?)).context("no cipher")?;
        let third = if self.pattern == Pattern::FirstContact {
            let mut third = [0; MESSAGE_BYTES_MAX];
            let length = noise.write_third(&[], &mut third)?;
            Some(self.third(&third[..length])?)
        } else {
            None
        };
        self.keys = Some(noise.finish()?.into_keys(cipher));
        Ok(third)
    }

    /// Makes the datagram of a third message, possibly a forged one.
    ///
    /// # Errors
    /// Fails if it does not fit into a datagram.
    pub fn third(&self, message: &[u8]) -> Result<Vec<u8>> {
        let payload = Payload { noise: Some((Pattern::FirstContact.id(), message)), ..Payload::default() };
        let mut bytes = [0; 1500];
        let length = payload.encode(&mut bytes)?;
        datagram(Segment::Ack(Ack::Noise), self.peer_id, &bytes[..length])
    }

    /// Encrypts a segment: `say` sets header fields other than flags, id and number.
    ///
    /// # Errors
    /// Fails before the end of the handshake, or if the segment does not fit.
    pub fn seal(&mut self, flags: Flags, say: impl FnOnce(&mut Header), payload: &[u8]) -> Result<Vec<u8>> {
        let mut head = Header::modern(flags | Flags::SEC, self.peer_id);
        say(&mut head);
        head.s3 = self.next_number as u32;
        let mut out = raw::write(&head, &[], &[payload, &[0; TAG_BYTES]].concat());
        ensure!(out.len() <= DATAGRAM_BYTES_MAX, "{} bytes are too long to be sealed", payload.len());
        let (head, rest) = out.split_at_mut(HEADER_BYTES);
        let (body, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().context("there is room for a tag")?;
        let (seal, _) = self.keys.as_mut().context("no keys yet")?;
        seal.seal(self.next_number, head, body, tag)?;
        self.next_number += 1;
        Ok(out)
    }

    /// Encrypts a segment of the library.
    ///
    /// # Errors
    /// Fails before the end of the handshake, or if the segment does not fit.
    pub fn seal_segment(&mut self, segment: &Segment, payload: &[u8]) -> Result<Vec<u8>> {
        let number = self.next_number;
        let envelope = Envelope {
            address: Address::Connection(self.peer_id),
            number: number as u32,
            seal: Some(KeyEpoch::of(epoch_of(number))),
        };
        let mut out = [0; DATAGRAM_BYTES_MAX];
        let mut draft = segment.begin(&envelope, &mut out);
        draft.payload(payload.len())?.copy_from_slice(payload);
        let Finished::ToSeal(datagram) = draft.finish() else { bail!("it is not to be sealed") };
        let length = datagram.datagram_bytes();
        let (seal, _) = self.keys.as_mut().context("no keys yet")?;
        seal.seal(number, datagram.header, datagram.payload, datagram.tag)?;
        self.next_number += 1;
        Ok(out[..length].to_vec())
    }

    /// Decrypts a datagram of the victim; `None` for any other.
    pub fn open(&mut self, datagram: &[u8]) -> Option<Opened> {
        let raw::Raw { header, payload: sealed, .. } = raw::read(datagram)?;
        let head = datagram.strip_suffix(sealed)?;
        let mut payload = sealed.to_vec();
        let (_, open) = self.keys.as_mut()?;
        let length = open.open(header.s3.into(), head, &mut payload).ok()?;
        payload.truncate(length);
        Some(Opened { header, payload })
    }

    /// Makes an encrypted report with one stream record `state` and the `runs` of its blocks.
    ///
    /// # Errors
    /// Fails like [`seal`](Self::seal).
    pub fn report(&mut self, state: &StreamState, report: &Report, runs: &[Run]) -> Result<Vec<u8>> {
        let mut payload = [0; 1400];
        let mut writer = ReportWriter::new(&mut payload, report)?;
        let mut record = writer.stream(state).context("the report has no room")?;
        for run in runs {
            ensure!(record.push(*run), "the report is full");
        }
        record.finish();
        let length = writer.finish();
        self.seal(Flags::FBK, |_| {}, &payload[..length])
    }
}

/// State of stream 0 with all blocks before `next_needed` decoded and read.
#[must_use]
pub fn decoded(next_needed: u32) -> StreamState {
    StreamState { next_needed, blocks_read: next_needed, ..StreamState::default() }
}

/// Report of a receiver that has all datagrams up to `highest` and unlimited memory.
#[must_use]
pub fn boundless_report(highest: u32) -> Report {
    Report {
        highest_datagram: highest,
        datagrams_received: highest.saturating_add(1),
        bytes_received: u64::from(highest) * 1_400,
        arrival_rate_bps: u64::MAX,
        memory_kib: u32::MAX,
        ..Report::default()
    }
}
