//! Typed segments over generated values: what is written is what the encoder without types writes for the fields that
//! `spec/wire-format.md` §5 names, and is read as what was written. The generator's seed is fixed; `PROPTEST_RNG_SEED` and
//! `PROPTEST_CASES` change it.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use dfcp_wire::classic::{self, BlockLength};
use dfcp_wire::segment::{Ack, Address, Data, Envelope, Fin, KeyEpoch, Received, ReportHeader, Reset, ResetReason};
use dfcp_wire::segment::{Segment, Syn, SynAck, SynOptions};
use dfcp_wire::{BlockInfo, CRC_BYTES, DATAGRAM_BYTES_MAX, DecodeError, EncodeError, Finished, Flags, HEADER_BYTES};
use dfcp_wire::{Header, Options, Ports, Profile, SymbolSize, TAG_BYTES, Unverified, encode, option_bytes};
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
    option::of((any::<u8>(), any::<u8>(), 1_u16..=1476).prop_map(|(version, code, size)| SynOptions {
        version,
        code,
        symbol_size: SymbolSize::new(size).unwrap(),
    }))
}

fn block_infos() -> impl Strategy<Value = BlockInfo> {
    (1_u16..=256, 1_u32..1 << 19, any::<bool>()).prop_map(|(k, length_bytes, end_of_stream)| BlockInfo {
        k,
        length_bytes,
        end_of_stream,
    })
}

fn acks() -> impl Strategy<Value = Ack> {
    prop_oneof![
        Just(Ack::KeepAlive),
        Just(Ack::Noise),
        any::<[u32; 2]>().prop_map(|[end, proof]| Ack::OfFin { end, proof }),
        any::<u32>().prop_map(|echo| Ack::OfSynAck { echo }),
        any::<u64>().prop_map(|token| Ack::PathChallenge { token }),
        any::<u64>().prop_map(|token| Ack::PathResponse { token }),
    ]
}

fn modern_segments() -> impl Strategy<Value = Segment> {
    let reasons =
        prop_oneof![Just(ResetReason::Unspecified), Just(ResetReason::NotAdmitted), Just(ResetReason::CannotRead)];
    prop_oneof![
        syn_options().prop_map(|options| Segment::Syn(Syn { options })),
        (any::<u32>(), syn_options()).prop_map(|(echo, options)| Segment::SynAck(SynAck { echo, options })),
        (any::<[u32; 2]>(), block_infos()).prop_map(|([block_id, esi], block)| Segment::Data(Data {
            block_id,
            esi,
            block
        })),
        any::<[u32; 2]>().prop_map(|[next_needed, receive_queue_kib]| Segment::Report(ReportHeader {
            next_needed,
            receive_queue_kib
        })),
        (any::<u32>(), option::of(any::<u32>())).prop_map(|(end, ack_proof)| Segment::Fin(Fin { end, ack_proof })),
        acks().prop_map(Segment::Ack),
        reasons.prop_map(|reason| Segment::Reset(Reset { reason })),
    ]
}

fn ports() -> impl Strategy<Value = Ports> {
    any::<(u16, u16)>().prop_map(|(source, destination)| Ports { source, destination })
}

/// Flags, block id, S1, S2 and options as the specification's tables have them.
fn modern_fields(segment: &Segment) -> (Flags, [u32; 3], Option<SynOptions>) {
    let upper = |token: u64| (token >> 32) as u32;
    match *segment {
        Segment::Syn(Syn { options }) => (Flags::SYN, [0; 3], options),
        Segment::SynAck(SynAck { echo, options }) => (Flags::SYN | Flags::ACK, [0, 0, echo], options),
        Segment::Data(Data { block_id, esi, block }) => (Flags::NONE, [block_id, esi, block.to_s2()], None),
        Segment::Report(ReportHeader { next_needed, receive_queue_kib }) => {
            (Flags::FBK, [next_needed, receive_queue_kib, 0], None)
        }
        Segment::Fin(Fin { end, ack_proof: None }) => (Flags::FIN, [end, 0, 0], None),
        Segment::Fin(Fin { end, ack_proof: Some(proof) }) => (Flags::FIN | Flags::ACK, [end, 0, proof], None),
        Segment::Ack(ack) => {
            let fields = match ack {
                Ack::KeepAlive | Ack::Noise => [0, 0, 0],
                Ack::OfFin { end, proof } => [end, 1, proof],
                Ack::OfSynAck { echo } => [0, 2, echo],
                Ack::PathChallenge { token } => [upper(token), 3, token as u32],
                Ack::PathResponse { token } => [upper(token), 4, token as u32],
            };
            (Flags::ACK, fields, None)
        }
        Segment::Reset(Reset { reason }) => {
            let s1 = match reason {
                ResetReason::Unspecified => 0,
                ResetReason::NotAdmitted => 1,
                ResetReason::CannotRead => 2,
            };
            (Flags::RST, [0, s1, 0], None)
        }
    }
}

fn untyped_options(options: Option<SynOptions>) -> Options {
    options.map_or_else(Options::default, |options| Options {
        version: Some(options.version),
        profile: Some(Profile::Modern),
        code: Some(options.code),
        symbol_size: Some(options.symbol_size.bytes()),
        block_length: None,
    })
}

fn classic_segments() -> impl Strategy<Value = classic::Segment> {
    use classic::Segment;
    let states = || any::<[u32; 3]>();
    // Zeros are no generator state, and would make an ACK another one.
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

fn classic_header(segment: &classic::Segment, ports: Ports) -> (Header, Options) {
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
        epoch: 0,
        s2,
        s3,
    };
    (header, Options { block_length: length.map(BlockLength::bytes), ..Options::default() })
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
            Segment::Ack(Ack::KeepAlive) => payload.clear(), // the payload tells the two apart
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
        let header = Header { block_id, s1, s2, s3: number, ..Header::modern(flags) };
        let header = if is_syn {
            Header { source_port: ports.source, destination_port: ports.destination, ..header }
        } else {
            header.with_connection_id(id)
        };
        let mut expected = [0; DATAGRAM_BYTES_MAX];
        let length = encode(&mut expected, &header, &untyped_options(options), &payload).unwrap();
        prop_assert_eq!(written, &expected[..length]);

        let Ok(Unverified::Clear(clear)) = Unverified::read(written) else { panic!("{segment:?} is in the clear") };
        prop_assert_eq!(clear.is_syn(), is_syn);
        let seen = if is_syn { Address::Ports(clear.ports()) } else { Address::Connection(clear.connection_id()) };
        prop_assert_eq!(seen, address);
        prop_assert_eq!(Some(clear.option_bytes(written)), option_bytes(written));
        prop_assert_eq!(clear.option_bytes(written).to_vec(), options.map_or(vec![], |it| it.to_bytes().to_vec()));
        prop_assert_eq!(clear.verify(written), Ok(Received { segment, number, payload: &payload }));
    }

    #[test]
    fn sealed_segments_survive_the_wire(
        segment in modern_segments(), id in any::<u32>(), number in any::<u32>(), epoch in any::<u64>(),
        payload in vec(any::<u8>(), 0..200), tag in any::<[u8; TAG_BYTES]>(),
    ) {
        let seal = Some(KeyEpoch::of(epoch));
        let mut out = [0xAA; DATAGRAM_BYTES_MAX];
        let mut draft = segment.begin(&Envelope { address: Address::Connection(id), number, seal }, &mut out);
        draft.payload(payload.len()).unwrap().copy_from_slice(&payload);
        let handshake = matches!(segment, Segment::Syn(_) | Segment::SynAck(_) | Segment::Ack(Ack::Noise));
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
        let header = Header { block_id, s1, s2, s3: number, epoch, ..Header::modern(flags | Flags::SEC) };
        let mut expected = [0; DATAGRAM_BYTES_MAX];
        let sealed = [&payload[..], &tag].concat();
        let expected_length =
            encode(&mut expected, &header.with_connection_id(id), &Options::default(), &sealed).unwrap();
        prop_assert_eq!(&out[..length], &expected[..expected_length]);

        let Ok(Unverified::Sealed(header)) = Unverified::read(&out[..length]) else { panic!("{segment:?} is sealed") };
        prop_assert_eq!((header.connection_id(), header.number(), Some(header.epoch())), (id, number, seal));
        let (head, rest) = header.split(&mut out[..length]).unwrap();
        prop_assert_eq!((head, &*rest), (&expected[..HEADER_BYTES], &sealed[..]));
        prop_assert_eq!(header.opened(&payload), Ok(Received { segment, number, payload: &payload }));
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
        let mut expected = [0; DATAGRAM_BYTES_MAX];
        let expected_length = encode(&mut expected, &header, &options, &payload).unwrap();
        prop_assert_eq!(&out[..length], &expected[..expected_length]);

        let Ok(Unverified::Classic(header)) = Unverified::read(&out[..length]) else { panic!("{segment:?} is classic") };
        prop_assert_eq!((header.ports(), header.is_syn()), (ports, matches!(segment, classic::Segment::Syn { .. })));
        prop_assert_eq!(header.verify(&out[..length]), Ok(classic::Received { segment, payload: &payload }));
    }
}

const ENVELOPE: Envelope = Envelope { address: Address::Connection(0x0001_0002), number: 6, seal: None };
const KEEP_ALIVE: Segment = Segment::Ack(Ack::KeepAlive);

/// A modern datagram in the clear with these fields, and one which claims to be sealed.
fn read_both(flags: Flags, s1: u32, s2: u32) -> [Result<Segment, DecodeError>; 2] {
    [flags, flags | Flags::SEC].map(|flags| {
        let mut out = [0; DATAGRAM_BYTES_MAX];
        let header = Header { s1, s2, ..Header::modern(flags) };
        let length = encode(&mut out, &header, &Options::default(), &[]).unwrap();
        match Unverified::read(&out[..length]).unwrap() {
            Unverified::Clear(header) => header.verify(&out[..length]).map(|it| it.segment),
            Unverified::Sealed(header) => header.opened(&[]).map(|it| it.segment),
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
            continue; // refused before
        }
        let mut out = [0; DATAGRAM_BYTES_MAX];
        let header = Header { profile: Profile::Classic, ..Header::modern(flags) };
        let length = encode(&mut out, &header, &Options::default(), &[]).unwrap();
        let Ok(Unverified::Classic(header)) = Unverified::read(&out[..length]) else { panic!("{flags} is classic") };
        assert_eq!(header.verify(&out[..length]).is_ok(), kinds.contains(&flags) || opens, "{flags}, classic");
    }
}

#[test]
fn values_without_a_meaning_are_refused_or_read_as_none() {
    for s1 in [5, 6, u32::MAX] {
        assert_eq!(read_both(Flags::ACK, s1, 0), [Err(DecodeError::AckKind { s1 }); 2]);
    }
    for s1 in [3, u32::MAX] {
        let unspecified = Segment::Reset(Reset { reason: ResetReason::Unspecified });
        assert_eq!(read_both(Flags::RST, s1, 0), [Ok(unspecified); 2]);
    }
    assert_eq!(read_both(Flags::NONE, 0, 0x24), [Err(DecodeError::BlockInfoSpare { bits: 4 }); 2]);
    assert_eq!(read_both(Flags::NONE, 0, 0), [Err(DecodeError::BlockInfoLength); 2]);
}

#[test]
fn a_syn_which_lacks_an_option_asks_for_nothing() {
    let whole = Options {
        version: Some(2),
        profile: Some(Profile::Modern),
        code: Some(9),
        symbol_size: Some(64),
        block_length: None,
    };
    let read = |options: &Options| {
        let mut out = [0; DATAGRAM_BYTES_MAX];
        let length = encode(&mut out, &Header::modern(Flags::SYN), options, &[]).unwrap();
        let Ok(Unverified::Clear(header)) = Unverified::read(&out[..length]) else { panic!("in the clear") };
        let Segment::Syn(Syn { options }) = header.verify(&out[..length]).unwrap().segment else { panic!("a SYN") };
        options
    };
    let symbol_size = SymbolSize::new(64).unwrap();
    assert_eq!(read(&whole), Some(SynOptions { version: 2, code: 9, symbol_size }));
    for options in [
        Options { version: None, ..whole },
        Options { profile: None, ..whole },
        Options { code: None, ..whole },
        Options { symbol_size: None, ..whole },
    ] {
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
        let mut draft = KEEP_ALIVE.begin(&Envelope { seal, ..ENVELOPE }, &mut out);
        assert_eq!(draft.payload(room + 1).unwrap_err(), EncodeError::TooLong { bytes: 1501 });
        assert!(draft.payload(usize::MAX).is_err());
        assert_eq!(draft.payload(room).unwrap().len(), room);
        let length = match draft.finish() {
            Finished::Complete(length) => length,
            Finished::ToSeal(to_seal) => to_seal.datagram_bytes(),
        };
        assert_eq!(length, DATAGRAM_BYTES_MAX);
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
    // A refused length leaves what was there before.
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let mut draft = KEEP_ALIVE.begin(&ENVELOPE, &mut out);
    draft.payload(3).unwrap();
    assert!(draft.payload(2000).is_err());
    assert!(matches!(draft.finish(), Finished::Complete(length) if length == HEADER_BYTES + 3 + CRC_BYTES));
}

#[test]
fn a_sealed_datagram_with_options_which_must_be_refused_is_not_opened() {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let header = Header::modern(Flags::SEC);
    let options = Options { version: Some(1), ..Options::default() };
    let length = encode(&mut out, &header, &options, &[9; 20]).unwrap();
    let Ok(Unverified::Sealed(sealed)) = Unverified::read(&out[..length]) else { panic!("sealed") };
    let (head, rest) = sealed.split(&mut out[..length]).unwrap();
    assert_eq!((head.len(), &*rest), (HEADER_BYTES + 4, &[9; 20][..]));
    out[HEADER_BYTES] = 128;
    assert_eq!(sealed.split(&mut out[..length]).unwrap_err(), DecodeError::CriticalOption { kind: 128 });
    out[14] = 1;
    let Ok(Unverified::Sealed(sealed)) = Unverified::read(&out[..length]) else { panic!("sealed") };
    assert_eq!(sealed.split(&mut out[..length]).unwrap_err(), DecodeError::ChecksumNotZero { found: 0x0100 });
}
