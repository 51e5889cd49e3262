//! Property tests of typed segments: encoding equals the output of an untyped writer of the fields in
//! `spec/wire-format.md` §5, and decoding returns the original. The generator's seed is fixed; `PROPTEST_RNG_SEED` and
//! `PROPTEST_CASES` change seed and number of cases.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use dfcp_testkit::raw::{self, Header};
use dfcp_wire::classic::{self, BlockLength};
use dfcp_wire::segment::{Ack, Address, Data, Envelope, Fin, KeyEpoch, Received, ReportHeader, Reset, ResetReason};
use dfcp_wire::segment::{Coverage, Message, MessageGroup, MessageInfo};
use dfcp_wire::segment::{Segment, Syn, SynAck, SynOptions};
use dfcp_wire::{BlockInfo, CRC_BYTES, DATAGRAM_BYTES_MAX, DecodeError, EncodeError, Features, Finished, Flags};
use dfcp_wire::{Fragment, HEADER_BYTES, Ports, Profile, STREAM_ID_BYTES, StreamId, SymbolSize, TAG_BYTES, Unverified};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = if default.rng_seed == RngSeed::Random { RngSeed::Fixed(20_140_601) } else { default.rng_seed };
    ProptestConfig { failure_persistence: None, rng_seed, cases: default.cases * 4, ..default }
}

fn syn_options() -> impl Strategy<Value = Option<SynOptions>> {
    option::of((any::<u8>(), any::<u8>(), 1_u16..=1476, any::<u32>()).prop_map(|(version, code, size, features)| {
        SynOptions {
            version,
            code,
            symbol_size: SymbolSize::new(size).unwrap(),
            features: Features::from_bits(features),
        }
    }))
}

fn block_infos() -> impl Strategy<Value = BlockInfo> {
    (1_u16..=256, 1_u32..1 << 19, any::<bool>()).prop_map(|(k, length_bytes, end_of_stream)| BlockInfo {
        k,
        length_bytes,
        end_of_stream,
    })
}

fn fragments() -> impl Strategy<Value = Fragment> {
    (0_u8..4, 1_u8..=4).prop_map(|(index, count)| Fragment::new(index, count).unwrap_or_default())
}

fn streams() -> impl Strategy<Value = StreamId> {
    prop_oneof![Just(0), any::<u32>()].prop_map(StreamId::from_word)
}

fn acks() -> impl Strategy<Value = Ack> {
    prop_oneof![
        streams().prop_map(|stream| Ack::KeepAlive { stream }),
        Just(Ack::Noise),
        (streams(), any::<[u32; 2]>()).prop_map(|(stream, [end, proof])| Ack::OfFin { stream, end, proof }),
        (streams(), any::<[u32; 2]>()).prop_map(|(stream, [error, end])| Ack::ResetStream { stream, error, end }),
        (streams(), any::<u32>()).prop_map(|(stream, served)| Ack::OfReset { stream, served }),
        (streams(), any::<u32>()).prop_map(|(stream, error)| Ack::StopSending { stream, error }),
        streams().prop_map(|stream| Ack::Gone { stream }),
        any::<u32>().prop_map(|from| Ack::SessionQuery { from }),
        Just(Ack::ResetTicket),
        Just(Ack::OfResetTicket),
        Just(Ack::PathProbe),
        any::<u32>().prop_map(|echo| Ack::OfPathProbe { echo }),
        any::<u32>().prop_map(|echo| Ack::OfSynAck { echo }),
        any::<u64>().prop_map(|token| Ack::PathChallenge { token }),
        any::<u64>().prop_map(|token| Ack::PathResponse { token }),
    ]
}

fn coverages() -> impl Strategy<Value = (Coverage, u32)> {
    let one = (0_u32..=1 << 18, any::<u16>(), 0_u32..1024).prop_map(|(length_bytes, k, esi)| {
        let k = k % length_bytes.clamp(1, 256) as u16 + 1;
        (Coverage::One(MessageInfo { k, length_bytes }), esi)
    });
    let several = (2_u16..=256, any::<u16>(), any::<u32>()).prop_map(|(count, more, esi)| {
        let source_symbols = count + more % (257 - count);
        let least = u32::from(source_symbols);
        (Coverage::Several(MessageGroup { count, source_symbols }), least + esi % (1024 - least))
    });
    prop_oneof![one, several]
}

fn messages() -> impl Strategy<Value = Message> {
    let lifetimes = prop_oneof![Just(u32::MAX), 1_u32..];
    (0..u32::MAX - 256, coverages(), any::<[u32; 2]>(), lifetimes).prop_map(
        |(id, (coverage, esi), [clock_us, age_us], lifetime_us)| {
            let age_us = if lifetime_us == u32::MAX { age_us } else { age_us % lifetime_us };
            Message { id, esi, coverage, clock_us, age_us, lifetime_us }
        },
    )
}

fn modern_segments() -> impl Strategy<Value = Segment> {
    let reasons = prop_oneof![
        Just(ResetReason::Unspecified),
        Just(ResetReason::NotAdmitted),
        Just(ResetReason::CannotRead),
        any::<u32>().prop_map(|error| ResetReason::Application { error }),
        Just(ResetReason::PathTooNarrow),
        Just(ResetReason::SessionUnknown),
    ];
    prop_oneof![
        syn_options().prop_map(|options| Segment::Syn(Syn { options })),
        (any::<u32>(), syn_options()).prop_map(|(echo, options)| Segment::SynAck(SynAck { echo, options })),
        (streams(), any::<[u32; 2]>(), block_infos(), fragments()).prop_map(
            |(stream, [block_id, esi], block, fragment)| Segment::Data(Data { stream, block_id, esi, block, fragment })
        ),
        messages().prop_map(Segment::Message),
        any::<u32>().prop_map(|receive_queue_kib| Segment::Report(ReportHeader { receive_queue_kib })),
        (streams(), any::<u32>(), option::of(any::<u32>())).prop_map(|(stream, end, ack_proof)| Segment::Fin(Fin {
            stream,
            end,
            ack_proof
        })),
        acks().prop_map(Segment::Ack),
        reasons.prop_map(|reason| Segment::Reset(Reset { reason })),
    ]
}

fn ports() -> impl Strategy<Value = Ports> {
    any::<(u16, u16)>().prop_map(|(source, destination)| Ports { source, destination })
}

/// Returns the bytes between header and payload: options, a stream id, or the words of a message.
fn extension(segment: &Segment, options: Option<SynOptions>) -> Vec<u8> {
    if let Segment::Message(Message { coverage, clock_us, age_us, lifetime_us, .. }) = *segment {
        let words = [clock_us, age_us, lifetime_us].map(u32::to_be_bytes).concat();
        return match coverage {
            Coverage::One(_) => words,
            Coverage::Several(MessageGroup { count, source_symbols }) => {
                [&words[..], &count.to_be_bytes(), &source_symbols.to_be_bytes()].concat()
            }
        };
    }
    let stream = match *segment {
        Segment::Data(Data { stream, .. }) | Segment::Fin(Fin { stream, .. }) => stream,
        Segment::Ack(
            Ack::KeepAlive { stream }
            | Ack::OfFin { stream, .. }
            | Ack::ResetStream { stream, .. }
            | Ack::OfReset { stream, .. }
            | Ack::StopSending { stream, .. }
            | Ack::Gone { stream },
        ) => stream,
        _ => StreamId::FIRST,
    };
    if stream == StreamId::FIRST { syn_area(options) } else { stream.to_word().to_be_bytes().to_vec() }
}

/// Returns flags, [block id, S1, S2] and options, by the tables of the specification.
fn modern_fields(segment: &Segment) -> (Flags, [u32; 3], Option<SynOptions>) {
    let upper = |token: u64| (token >> 32) as u32;
    match *segment {
        Segment::Syn(Syn { options }) => (Flags::SYN, [0; 3], options),
        Segment::SynAck(SynAck { echo, options }) => (Flags::SYN | Flags::ACK, [0, 0, echo], options),
        Segment::Data(Data { block_id, esi, block, fragment, .. }) => {
            let part = u32::from(fragment.count() - 1) << 2 | u32::from(fragment.index());
            (Flags::NONE, [block_id, esi, block.to_s2() | part], None)
        }
        Segment::Message(Message { id, esi, coverage, .. }) => {
            let s2 = match coverage {
                Coverage::One(MessageInfo { k, length_bytes }) => u32::from(k - 1) << 24 | length_bytes << 5,
                Coverage::Several(_) => 0,
            };
            (Flags::NONE, [id, esi, s2], None)
        }
        Segment::Report(ReportHeader { receive_queue_kib }) => (Flags::FBK, [0, receive_queue_kib, 0], None),
        Segment::Fin(Fin { end, ack_proof: None, .. }) => (Flags::FIN, [end, 0, 0], None),
        Segment::Fin(Fin { end, ack_proof: Some(proof), .. }) => (Flags::FIN | Flags::ACK, [end, 0, proof], None),
        Segment::Ack(ack) => {
            let fields = match ack {
                Ack::KeepAlive { .. } | Ack::Noise => [0, 0, 0],
                Ack::OfFin { end, proof, .. } => [end, 1, proof],
                Ack::ResetStream { error, end, .. } => [end, 5, error],
                Ack::OfReset { served, .. } => [0, 6, served],
                Ack::StopSending { error, .. } => [0, 7, error],
                Ack::PathProbe => [0, 8, 0],
                Ack::OfPathProbe { echo } => [0, 9, echo],
                Ack::Gone { .. } => [0, 10, 0],
                Ack::SessionQuery { from } => [from, 11, 0],
                Ack::ResetTicket => [0, 12, 0],
                Ack::OfResetTicket => [0, 13, 0],
                Ack::OfSynAck { echo } => [0, 2, echo],
                Ack::PathChallenge { token } => [upper(token), 3, token as u32],
                Ack::PathResponse { token } => [upper(token), 4, token as u32],
            };
            (Flags::ACK, fields, None)
        }
        Segment::Reset(Reset { reason }) => {
            let fields = match reason {
                ResetReason::Unspecified => [0, 0, 0],
                ResetReason::NotAdmitted => [0, 1, 0],
                ResetReason::CannotRead => [0, 2, 0],
                ResetReason::Application { error } => [0, 3, error],
                ResetReason::PathTooNarrow => [0, 4, 0],
                ResetReason::SessionUnknown => [0, 5, 0],
            };
            (Flags::RST, fields, None)
        }
    }
}

/// Encodes options, given by kind and value.
fn option_area(options: &[(u8, &[u8])]) -> Vec<u8> {
    let mut area: Vec<u8> =
        options.iter().flat_map(|(kind, value)| [&[*kind, value.len() as u8], *value].concat()).collect();
    area.resize(area.len().next_multiple_of(4), 0);
    area
}

fn syn_area(options: Option<SynOptions>) -> Vec<u8> {
    let Some(SynOptions { version, code, symbol_size, features }) = options else { return Vec::new() };
    let (size, features) = (symbol_size.bytes().to_be_bytes(), features.bits().to_be_bytes());
    option_area(&[(1, &[version]), (2, &[1]), (3, &[code]), (4, &size), (6, &features)])
}

fn classic_segments() -> impl Strategy<Value = classic::Segment> {
    use classic::Segment;
    let states = || any::<[u32; 3]>();
    // All zeros are no valid generator state, and would make another kind of ACK.
    let echoes = states().prop_map(|echo| if echo == [0; 3] { [2, 8, 16] } else { echo });
    let lengths = option::of((1_u32..=63_536).prop_map(|bytes| BlockLength::new(bytes).unwrap()));
    prop_oneof![
        states().prop_map(|initial| Segment::Syn { initial }),
        states().prop_map(|initial| Segment::SynAck { initial }),
        echoes.prop_map(|echo| Segment::HandshakeAck { echo }),
        (any::<u32>(), states(), lengths).prop_map(|(block_id, state, block_length)| Segment::Data {
            block_id,
            state,
            block_length
        }),
        any::<u32>().prop_map(|block_id| Segment::BlockAck { block_id }),
        any::<u32>().prop_map(|end| Segment::Fin { end }),
        any::<u32>().prop_map(|end| Segment::FinAck { end }),
        states().prop_map(|echo| Segment::Reset { echo }),
    ]
}

fn classic_header(segment: &classic::Segment, ports: Ports) -> (Header, Vec<u8>) {
    use classic::Segment;
    let (flags, block_id, [s1, s2, s3], length) = match *segment {
        Segment::Syn { initial } => (Flags::SYN, 0, initial, None),
        Segment::SynAck { initial } => (Flags::SYN | Flags::ACK, 0, initial, None),
        Segment::HandshakeAck { echo } => (Flags::ACK, 0, echo, None),
        Segment::Data { block_id, state, block_length } => (Flags::NONE, block_id, state, block_length),
        Segment::BlockAck { block_id } => (Flags::ACK, block_id, [0; 3], None),
        Segment::Fin { end } => (Flags::FIN, end, [0; 3], None),
        Segment::FinAck { end } => (Flags::FIN | Flags::ACK, end, [0; 3], None),
        Segment::Reset { echo } => (Flags::RST, 0, echo, None),
    };
    let header = Header {
        source_port: ports.source,
        destination_port: ports.destination,
        block_id,
        s1,
        flags,
        profile: Profile::Classic,
        is_message: false,
        epoch: 0,
        s2,
        s3,
    };
    let area = length.map(|length| option_area(&[(5, &length.bytes().to_be_bytes())]));
    (header, area.unwrap_or_default())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn modern_segments_in_the_clear_survive_the_wire(
        segment in modern_segments(), id in any::<u32>(), ports in ports(), number in any::<u32>(),
        mut payload in vec(any::<u8>(), 0..200),
    ) {
        match segment {
            Segment::Ack(Ack::Noise) => payload.push(7),
            Segment::Ack(Ack::KeepAlive { .. }) => payload.clear(), // an empty payload, unlike a Noise message
            Segment::Ack(Ack::PathProbe) => payload.fill(0),
            _ => {}
        }
        let is_syn = matches!(segment, Segment::Syn(_));
        let address = if is_syn { Address::Ports(ports) } else { Address::Connection(id) };
        let mut out = [0xAA; DATAGRAM_BYTES_MAX];
        let mut draft = segment.begin(&Envelope { address, number, seal: None }, &mut out);
        draft.payload(payload.len()).unwrap().copy_from_slice(&payload);
        let Finished::Complete(length) = draft.finish() else { panic!("{segment:?} is in the clear") };
        let written = &out[..length];

        let (flags, [block_id, s1, s2], options) = modern_fields(&segment);
        let is_message = matches!(segment, Segment::Message(_));
        let header = Header { block_id, s1, s2, s3: number, is_message, ..Header::modern(flags, id) };
        let header = if is_syn {
            Header { source_port: ports.source, destination_port: ports.destination, ..header }
        } else {
            header
        };
        prop_assert_eq!(written, raw::write(&header, &extension(&segment, options), &payload));

        let Ok(Unverified::Clear(clear)) = Unverified::read(written) else { panic!("{segment:?} is in the clear") };
        prop_assert_eq!(clear.is_syn(), is_syn);
        let seen = if is_syn { Address::Ports(clear.ports()) } else { Address::Connection(clear.connection_id()) };
        prop_assert_eq!(seen, address);
        prop_assert_eq!(clear.option_bytes(written), extension(&segment, options));
        prop_assert_eq!(syn_area(options), options.map_or(vec![], |it| it.to_bytes().to_vec()));
        prop_assert_eq!(clear.verify(written), Ok(Received { segment, number, payload: &payload }));
    }

    #[test]
    fn sealed_segments_survive_the_wire(
        segment in modern_segments(), id in any::<u32>(), number in any::<u32>(), epoch in any::<u64>(),
        mut payload in vec(any::<u8>(), 0..200), tag in any::<[u8; TAG_BYTES]>(),
    ) {
        if segment == Segment::Ack(Ack::PathProbe) {
            payload.fill(0);
        }
        let seal = Some(KeyEpoch::of(epoch));
        let mut out = [0xAA; DATAGRAM_BYTES_MAX];
        let mut draft = segment.begin(&Envelope { address: Address::Connection(id), number, seal }, &mut out);
        draft.payload(payload.len()).unwrap().copy_from_slice(&payload);
        let handshake = matches!(segment, Segment::Syn(_) | Segment::SynAck(_) | Segment::Ack(Ack::Noise | Ack::SessionQuery { .. }));
        let length = match draft.finish() {
            Finished::Complete(_) => {
                prop_assert!(handshake, "{:?} in the clear", segment);
                return Ok(());
            }
            Finished::ToSeal(to_seal) => {
                *to_seal.tag = tag;
                prop_assert_eq!(&*to_seal.payload, &payload);
                to_seal.datagram_bytes()
            }
        };
        prop_assert!(!handshake, "{:?} sealed", segment);

        let (flags, [block_id, s1, s2], _) = modern_fields(&segment);
        let epoch = (epoch % 4) as u8;
        let is_message = matches!(segment, Segment::Message(_));
        let header =
            Header { block_id, s1, s2, s3: number, is_message, epoch, ..Header::modern(flags | Flags::SEC, id) };
        let sealed = [&payload[..], &tag].concat();
        let area = extension(&segment, None);
        let expected = raw::write(&header, &area, &sealed);
        prop_assert_eq!(&out[..length], &expected);

        let Ok(Unverified::Sealed(header)) = Unverified::read(&out[..length]) else { panic!("{segment:?} is sealed") };
        prop_assert_eq!((header.connection_id(), header.number(), Some(header.epoch())), (id, number, seal));
        let (head, rest) = header.split(&mut out[..length]).unwrap();
        prop_assert_eq!((head, &*rest), (&expected[..HEADER_BYTES + area.len()], &sealed[..]));
        prop_assert_eq!(header.opened(head, &payload), Ok(Received { segment, number, payload: &payload }));
    }

    #[test]
    fn classic_segments_survive_the_wire(
        segment in classic_segments(), ports in ports(), payload in vec(any::<u8>(), 0..200),
    ) {
        let mut out = [0xAA; DATAGRAM_BYTES_MAX];
        let mut draft = segment.begin(ports, &mut out);
        draft.payload(payload.len()).unwrap().copy_from_slice(&payload);
        let length = draft.finish();
        let (header, options) = classic_header(&segment, ports);
        prop_assert_eq!(&out[..length], raw::write(&header, &options, &payload));

        let Ok(Unverified::Classic(header)) = Unverified::read(&out[..length]) else { panic!("{segment:?} is classic") };
        prop_assert_eq!((header.ports(), header.is_syn()), (ports, matches!(segment, classic::Segment::Syn { .. })));
        prop_assert_eq!(header.verify(&out[..length]), Ok(classic::Received { segment, payload: &payload }));
    }
}

const ENVELOPE: Envelope = Envelope { address: Address::Connection(0x0001_0002), number: 6, seal: None };
const KEEP_ALIVE: Segment = Segment::Ack(Ack::KeepAlive { stream: StreamId::FIRST });

/// Decodes a modern segment with these fields, once in plaintext and once with the flag SEC.
fn read_both(flags: Flags, s1: u32, s2: u32) -> [Result<Segment, DecodeError>; 2] {
    [flags, flags | Flags::SEC].map(|flags| {
        let datagram = raw::write(&Header { s1, s2, ..Header::modern(flags, 0) }, &[], &[]);
        match Unverified::read(&datagram).unwrap() {
            Unverified::Clear(header) => header.verify(&datagram).map(|it| it.segment),
            Unverified::Sealed(header) => header.opened(&datagram, &[]).map(|it| it.segment),
            Unverified::Classic(_) => panic!("modern"),
        }
    })
}

#[test]
fn every_combination_of_flags_has_a_kind_or_is_refused() {
    let block = BlockInfo { k: 45, length_bytes: 63_900, end_of_stream: false };
    for bits in 0..64 {
        let flags = Flags::from_bits(bits).unwrap().without(Flags::SEC);
        let [clear, sealed] = read_both(flags, 0, block.to_s2());
        let kinds = [Flags::NONE, Flags::FBK, Flags::FIN, Flags::FIN | Flags::ACK, Flags::ACK, Flags::RST];
        let opens = flags == Flags::SYN || flags == Flags::SYN | Flags::ACK;
        let refused = Err(DecodeError::FlagCombination { flags });
        assert_eq!(clear != refused, kinds.contains(&flags) || opens, "{flags}");
        assert_eq!(sealed != refused, kinds.contains(&flags), "{flags}, sealed");

        if flags.contains(Flags::FBK) {
            continue; // no flag of the classic profile
        }
        let datagram = raw::write(&Header { profile: Profile::Classic, ..Header::modern(flags, 0) }, &[], &[]);
        let Ok(Unverified::Classic(header)) = Unverified::read(&datagram) else { panic!("{flags} is classic") };
        assert_eq!(header.verify(&datagram).is_ok(), kinds.contains(&flags) || opens, "{flags}, classic");
    }
}

#[test]
fn values_without_a_meaning_are_refused_or_read_as_none() {
    for s1 in [14, u32::MAX] {
        assert_eq!(read_both(Flags::ACK, s1, 0), [Err(DecodeError::AckKind { s1 }); 2]);
    }
    // A session query is always in plaintext, as the queried peer may have lost its keys.
    let query = Segment::Ack(Ack::SessionQuery { from: 0 });
    assert_eq!(read_both(Flags::ACK, 11, 0), [Ok(query), Err(DecodeError::AckKind { s1: 11 })]);
    for s1 in [6, u32::MAX] {
        let unspecified = Segment::Reset(Reset { reason: ResetReason::Unspecified });
        assert_eq!(read_both(Flags::RST, s1, 0), [Ok(unspecified); 2]);
    }
    assert_eq!(read_both(Flags::NONE, 0, 0x26), [Err(DecodeError::FragmentIndex { index: 2, count: 2 }); 2]);
    assert_eq!(read_both(Flags::NONE, 0, 0), [Err(DecodeError::BlockInfoLength); 2]);
}

/// The message bit makes a separate kind of segment, and is valid only without other flags except SEC.
#[test]
fn the_bit_of_messages_stands_beside_no_flag_but_sec() {
    for bits in 0..64 {
        for area in [12, 16] {
            let flags = Flags::from_bits(bits).unwrap();
            // S2 of a single message, or the last word of a segment of several messages.
            let (s2, last) = if area == 12 { (20 << 5, 0) } else { (0, 2 << 16 | 2) };
            let words = [9, 0, 1, last].map(u32::to_be_bytes).concat();
            let header = Header { is_message: true, s1: 2, s2, ..Header::modern(flags, 0) };
            let datagram = raw::write(&header, &words[..area], &[]);
            let read = match Unverified::read(&datagram).unwrap() {
                Unverified::Clear(header) => header.verify(&datagram).map(|it| it.segment),
                Unverified::Sealed(header) => header.opened(&datagram, &[]).map(|it| it.segment),
                Unverified::Classic(_) => panic!("modern"),
            };
            assert_eq!(matches!(read, Ok(Segment::Message(_))), flags.without(Flags::SEC).is_empty(), "{read:?}");
        }
    }
}

/// The required features depend only on the segment.
#[test]
fn only_what_features_bring_needs_one() {
    let block = BlockInfo { k: 1, length_bytes: 9, end_of_stream: false };
    let data = |fragment| Segment::Data(Data { stream: StreamId::FIRST, block_id: 0, esi: 0, block, fragment });
    let coverage = Coverage::One(MessageInfo { k: 1, length_bytes: 0 });
    let message = Message { id: 0, esi: 0, coverage, clock_us: 0, age_us: 0, lifetime_us: 1 };
    assert_eq!(data(Fragment::WHOLE).needs(), Features::NONE);
    assert_eq!(data(Fragment::new(0, 2).unwrap()).needs(), Features::FRAGMENTS);
    assert_eq!(Segment::Message(message).needs(), Features::MESSAGES);
    assert_eq!(Segment::Ack(Ack::PathProbe).needs(), Features::PATH_PROBES);
    assert_eq!(Segment::Ack(Ack::OfPathProbe { echo: 1 }).needs(), Features::PATH_PROBES);
    assert_eq!([KEEP_ALIVE.needs(), Segment::Ack(Ack::PathChallenge { token: 1 }).needs()], [Features::NONE; 2]);
}

#[test]
fn a_syn_which_lacks_an_option_asks_for_nothing() {
    let whole: [(u8, &[u8]); 4] = [(1, &[2]), (2, &[1]), (3, &[9]), (4, &[0, 64])];
    let read = |options: &[(u8, &[u8])]| {
        let datagram = raw::write(&Header::modern(Flags::SYN, 0), &option_area(options), &[]);
        let Ok(Unverified::Clear(header)) = Unverified::read(&datagram) else { panic!("in the clear") };
        let Segment::Syn(Syn { options }) = header.verify(&datagram).unwrap().segment else { panic!("a SYN") };
        options
    };
    let symbol_size = SymbolSize::new(64).unwrap();
    // A SYN of version 1 offers no features.
    assert_eq!(read(&whole), Some(SynOptions { version: 2, code: 9, symbol_size, features: Features::NONE }));
    for missing in 0..4 {
        let mut options = whole.to_vec();
        options.remove(missing);
        assert_eq!(read(&options), None, "{options:?}");
    }
}

#[test]
fn ranges_are_those_of_the_fields() {
    assert_eq!([0, 1, 1476, 1477].map(|bytes| SymbolSize::new(bytes).is_some()), [false, true, true, false]);
    assert_eq!([0, 1, 63_536, 63_537].map(|bytes| BlockLength::new(bytes).is_some()), [false, true, true, false]);
    assert_eq!(SymbolSize::new(1476), Some(SymbolSize::MAX));
    assert_eq!([0, 3, 4, u64::MAX].map(KeyEpoch::of), [0, 3, 0, 3].map(KeyEpoch::of));
}

#[test]
fn datagrams_end_at_1500_bytes_trailer_included() {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    for (seal, trailer_bytes) in [(None, CRC_BYTES), (Some(KeyEpoch::of(0)), TAG_BYTES)] {
        assert_eq!(dfcp_wire::trailer_bytes(seal.is_some()), trailer_bytes);
        assert_eq!(dfcp_wire::overhead_bytes(seal.is_some()), HEADER_BYTES + trailer_bytes);
        let room = dfcp_wire::payload_bytes_max(seal.is_some());
        let keep_alive = Segment::Ack(Ack::KeepAlive { stream: StreamId::from_word(4) });
        let mut draft = keep_alive.begin(&Envelope { seal, ..ENVELOPE }, &mut out);
        assert_eq!(draft.payload(room + 1).unwrap_err(), EncodeError::TooLong { bytes: 1501 });
        assert!(draft.payload(usize::MAX).is_err());
        assert_eq!(draft.payload(room).unwrap().len(), room);
        let length = match draft.finish() {
            Finished::Complete(length) => length,
            Finished::ToSeal(to_seal) => to_seal.datagram_bytes(),
        };
        assert_eq!(length, DATAGRAM_BYTES_MAX);
        // A segment without a stream id has room for four more bytes.
        let mut draft = KEEP_ALIVE.begin(&Envelope { seal, ..ENVELOPE }, &mut out);
        assert!(draft.payload(room + STREAM_ID_BYTES + 1).is_err() && draft.payload(room + STREAM_ID_BYTES).is_ok());
    }
    let mut draft = classic::Segment::Fin { end: 1 }.begin(Ports { source: 1, destination: 2 }, &mut out);
    assert!(draft.payload(DATAGRAM_BYTES_MAX - HEADER_BYTES + 1).is_err());
    assert!(draft.payload(DATAGRAM_BYTES_MAX - HEADER_BYTES).is_ok());
    assert_eq!(draft.finish(), DATAGRAM_BYTES_MAX);
}

#[test]
fn a_payload_whose_length_is_known_late_is_cut() {
    let lengths = |wanted: usize, written: usize| {
        let mut out = [0; DATAGRAM_BYTES_MAX];
        let mut draft = KEEP_ALIVE.begin(&ENVELOPE, &mut out);
        let room = draft.payload_up_to(wanted).len();
        draft.truncate(written);
        let Finished::Complete(length) = draft.finish() else { panic!("in the clear") };
        (room, length - HEADER_BYTES - CRC_BYTES)
    };
    assert_eq!(lengths(100, 60), (100, 60));
    assert_eq!(lengths(100, 0), (100, 0));
    assert_eq!(lengths(100, 101), (100, 100));
    assert_eq!(lengths(usize::MAX, 5), (1472, 5));
    // A refused length leaves the draft unchanged.
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let mut draft = KEEP_ALIVE.begin(&ENVELOPE, &mut out);
    draft.payload(3).unwrap();
    assert!(draft.payload(2000).is_err());
    assert!(matches!(draft.finish(), Finished::Complete(length) if length == HEADER_BYTES + 3 + CRC_BYTES));
}

#[test]
fn a_sealed_datagram_with_options_or_with_stream_id_0_is_not_opened() {
    let read = |bytes: &[u8]| match Unverified::read(bytes) {
        Ok(Unverified::Sealed(sealed)) => sealed,
        other => panic!("{other:?} is not sealed"),
    };
    let id = 0x0102_0304_u32.to_be_bytes();
    let s2 = BlockInfo { k: 1, length_bytes: 1, end_of_stream: false }.to_s2();
    let mut out = raw::write(&Header { s2, ..Header::modern(Flags::SEC, 0) }, &id, &[9; 20]);
    let sealed = read(&out);
    let (head, rest) = sealed.split(&mut out).unwrap();
    assert_eq!((&head[HEADER_BYTES..], &*rest), (&id[..], &[9; 20][..]));
    let Ok(Received { segment: Segment::Data(data), .. }) = sealed.opened(head, &[]) else { panic!("data") };
    assert_eq!(data.stream, StreamId::from_word(0x0102_0304));
    out[HEADER_BYTES..HEADER_BYTES + STREAM_ID_BYTES].fill(0);
    assert_eq!(read(&out).split(&mut out).unwrap_err(), DecodeError::StreamIdZero);
    let mut out = raw::write(&Header { s2, ..Header::modern(Flags::SEC, 0) }, &[0; 8], &[9; 20]);
    assert_eq!(read(&out).split(&mut out).unwrap_err(), DecodeError::OptionsAfterHandshake { words: 8 });
    out[14] = 1;
    assert_eq!(read(&out).split(&mut out).unwrap_err(), DecodeError::ChecksumNotZero { found: 0x0100 });
}
