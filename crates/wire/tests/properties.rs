//! Property tests over generated values and bytes: round trips, absence of panics, and detection of damage. The
//! generator's seed is fixed; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` change seed and number of cases.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

mod fuzz_bodies;

use dfcp_testkit::raw::{self, Header};
use dfcp_wire::feedback::{self, EcnCounts, LossRun, Mark, MessageRun, MessagesState, Record, Report, ReportWriter};
use dfcp_wire::feedback::{Run, StreamState, SymbolSet, Wasted};
use dfcp_wire::handshake::{Offer, PARAMETERS_BYTES, Parameters, Payload};
use dfcp_wire::{BlockInfo, CRC_BYTES, DATAGRAM_BYTES_MAX, DecodeError, EncodeError, Features, Flags, Fragment};
use dfcp_wire::{HEADER_BYTES, Profile, StreamId, StreamLimits, Unverified, classic, segment};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = if default.rng_seed == RngSeed::Random { RngSeed::Fixed(20_140_601) } else { default.rng_seed };
    // Cases are cheap here, so each property gets four times the usual number.
    ProptestConfig { failure_persistence: None, rng_seed, cases: default.cases * 4, ..default }
}

prop_compose! {
    fn headers()(
        words in any::<[u32; 5]>(), modern in any::<bool>(), message in any::<bool>(), flags in 0_u8..64, epoch in 0_u8..4,
    ) -> Header {
        let [ports, block_id, s1, s2, s3] = words;
        let (profile, allowed, epoch) =
            if modern { (Profile::Modern, 0x3F, epoch) } else { (Profile::Classic, 0x17, 0) };
        let flags = Flags::from_bits(flags & allowed).unwrap();
        Header { block_id, s1, profile, is_message: modern && message, epoch, s2, s3, ..Header::modern(flags, ports) }
    }
}

/// Values of options 1 to 6.
#[derive(Clone, Copy, Debug)]
struct Options {
    version: Option<u8>,
    profile: Option<Profile>,
    code: Option<u8>,
    symbol_size: Option<u16>,
    block_length: Option<u32>,
    features: Option<u32>,
}

impl Options {
    fn to_bytes(self) -> Vec<u8> {
        let profile = self.profile.map(|profile| u8::from(profile == Profile::Modern));
        let mut bytes = Vec::new();
        self.version.into_iter().for_each(|it| bytes.extend([1, 1, it]));
        profile.into_iter().for_each(|it| bytes.extend([2, 1, it]));
        self.code.into_iter().for_each(|it| bytes.extend([3, 1, it]));
        self.symbol_size.into_iter().for_each(|it| bytes.extend([&[4, 2][..], &it.to_be_bytes()].concat()));
        self.block_length.into_iter().for_each(|it| bytes.extend([&[5, 4][..], &it.to_be_bytes()].concat()));
        self.features.into_iter().for_each(|it| bytes.extend([&[6, 4][..], &it.to_be_bytes()].concat()));
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }
}

prop_compose! {
    fn options(profile: Profile)(
        version in option::of(any::<u8>()),
        with_profile in any::<bool>(),
        code in option::of(any::<u8>()),
        symbol_size in option::of(1_u16..=1476),
        block_length in option::of(1_u32..=63_536),
        features in option::of(any::<u32>()),
    ) -> Options {
        Options { version, profile: with_profile.then_some(profile), code, symbol_size, block_length, features }
    }
}

fn segments() -> impl Strategy<Value = (Header, Options, Vec<u8>)> {
    headers().prop_flat_map(|header| (Just(header), options(header.profile), vec(any::<u8>(), 0..200)))
}

/// Decodes a datagram as far as possible without keys.
fn decode(datagram: &[u8]) -> Result<(), DecodeError> {
    match Unverified::read(datagram)? {
        Unverified::Classic(header) => header.verify(datagram).map(drop),
        Unverified::Clear(header) => header.verify(datagram).map(drop),
        Unverified::Sealed(header) => header.split(&mut datagram.to_vec()).map(drop),
    }
}

fn parameters() -> impl Strategy<Value = Parameters> {
    (1_u32.., any::<[u64; 2]>(), any::<[u32; 2]>(), stream_limits()).prop_map(
        |(connection_id, longs, words, streams)| {
            let ([receive_memory_bytes, rate_max_bps], [window_blocks, idle_timeout_ms]) = (longs, words);
            let offer = Offer { window_blocks, receive_memory_bytes, rate_max_bps, idle_timeout_ms, streams };
            Parameters { connection_id, offer }
        },
    )
}

fn stream_limits() -> impl Strategy<Value = StreamLimits> {
    any::<[u32; 2]>().prop_map(|[bidirectional, one_way]| StreamLimits { bidirectional, one_way })
}

fn reports() -> impl Strategy<Value = Report> {
    (any::<[u32; 7]>(), any::<[u64; 2]>(), stream_limits()).prop_map(|(words, longs, streams)| Report {
        highest_datagram: words[0],
        datagrams_received: words[1],
        bytes_received: longs[0],
        hold_us: words[2],
        arrival_rate_bps: longs[1],
        memory_kib: words[3],
        streams,
        wasted: Wasted { dependent: words[4], late: words[5], refused: words[6] },
    })
}

fn states() -> impl Strategy<Value = StreamState> {
    any::<[u32; 6]>().prop_map(|words| StreamState {
        stream: StreamId::from_word(words[0]),
        next_needed: words[1],
        blocks_read: words[2],
        kib_read: words[3],
        proof_cumulative: words[4],
        proof_listed: words[5],
    })
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run = prop_oneof![
        (0_u32..300).prop_map(Run::Complete),
        (0_u32..300).prop_map(Run::Empty),
        (1_u16..=256).prop_map(|missing| Run::Open { missing }),
    ];
    vec(run, 0..40)
}

fn datagram(header: &Header, options: &Options, payload: &[u8]) -> Vec<u8> {
    raw::write(header, &options.to_bytes(), payload)
}

/// Returns a feedback payload with a report on one stream.
fn feedback_payload(report: &Report, state: &StreamState, runs: &[Run]) -> Vec<u8> {
    let mut out = [0; 2000];
    let mut writer = ReportWriter::new(&mut out, report).unwrap();
    let mut list = writer.stream(state).unwrap();
    assert!(runs.iter().all(|run| list.push(*run)));
    list.finish();
    let length = writer.finish();
    out[..length].to_vec()
}

/// State of a stream, with one entry per block like in [`expand`].
type Stream = (StreamState, Vec<Option<u16>>);

/// Decodes a payload into its report, the states of streams, and the first unseen streams.
fn decoded(payload: &[u8]) -> (Report, Vec<Stream>, Vec<StreamLimits>) {
    let (report, records) = feedback::decode(payload).unwrap();
    let (mut streams, mut unseen) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Stream(state, runs) => streams.push((state, expand(runs))),
            Record::Unseen(limits) => unseen.push(limits),
            _ => panic!("{record:?} was not written"),
        }
    }
    (report, streams, unseen)
}

/// Reference model of run lists, with one entry per block: number of missing symbols, 0 if complete, `None` if no
/// symbol has arrived.
fn expand(runs: impl IntoIterator<Item = Run>) -> Vec<Option<u16>> {
    let mut blocks = Vec::new();
    for run in runs {
        match run {
            Run::Complete(count) => blocks.extend((0..count).map(|_| Some(0))),
            Run::Empty(count) => blocks.extend((0..count).map(|_| None)),
            Run::Open { missing } => blocks.push(Some(missing)),
        }
    }
    blocks
}

/// Strategy for one to three marks, each earlier than the previous one.
fn marks() -> impl Strategy<Value = Vec<Mark>> {
    vec((1_u32..5_000_000, 0_u32..5_000_000, 0_u32..5_000_000), 1..=3).prop_map(|steps| {
        let mut sum = Mark::default();
        let add = |(us, numbers, received)| {
            sum.back_us += us;
            sum.numbers_back += numbers;
            sum.received_back += received;
            sum
        };
        steps.into_iter().map(add).collect()
    })
}

fn loss_runs() -> impl Strategy<Value = Vec<LossRun>> {
    let number = || prop_oneof![1_u32..70, 1_u32..20_000, 1_u32..60_000_000];
    vec((number(), number()).prop_map(|(gap, length)| LossRun { gap, length }), 0..=32)
}

/// Owned form of a [`MessageRun`].
#[derive(Clone, PartialEq, Debug)]
enum OwnedRun {
    Complete(u32),
    Empty(u32),
    Partial(Vec<u8>),
}

impl OwnedRun {
    fn of(run: &MessageRun<'_>) -> Self {
        match *run {
            MessageRun::Complete(count) => Self::Complete(count),
            MessageRun::Empty(count) => Self::Empty(count),
            MessageRun::Partial(symbols) => {
                let mut bits = vec![0; 128];
                symbols.iter().for_each(|esi| bits[esi as usize / 8] |= 0x80 >> (esi % 8));
                bits.truncate(bits.iter().rposition(|byte| *byte != 0).unwrap() + 1);
                Self::Partial(bits)
            }
        }
    }

    fn borrowed(&self) -> MessageRun<'_> {
        match self {
            Self::Complete(count) => MessageRun::Complete(*count),
            Self::Empty(count) => MessageRun::Empty(*count),
            Self::Partial(bits) => MessageRun::Partial(SymbolSet::new(bits).unwrap()),
        }
    }
}

fn message_lists() -> impl Strategy<Value = Vec<OwnedRun>> {
    let run = prop_oneof![
        (0_u32..200).prop_map(OwnedRun::Complete),
        (0_u32..200).prop_map(OwnedRun::Empty),
        (vec(any::<u8>(), 0..128), 1_u8..).prop_map(|(bits, last)| OwnedRun::Partial([&bits[..], &[last]].concat())),
    ];
    vec(run, 0..20)
}

/// Reference model of message lists: one entry per message.
fn per_message(runs: impl IntoIterator<Item = OwnedRun>) -> Vec<OwnedRun> {
    let mut messages = Vec::new();
    for run in runs {
        match run {
            OwnedRun::Complete(count) => messages.extend((0..count).map(|_| OwnedRun::Complete(1))),
            OwnedRun::Empty(count) => messages.extend((0..count).map(|_| OwnedRun::Empty(1))),
            partial @ OwnedRun::Partial(_) => messages.push(partial),
        }
    }
    messages
}

/// Mutation of valid bytes: overwrites, removes or inserts a byte, or truncates.
#[derive(Clone, Debug)]
enum Mutation {
    Overwrite(Index, u8),
    Remove(Index),
    Insert(Index, u8),
    Cut(Index),
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let mutation = prop_oneof![
        4 => any::<(Index, u8)>().prop_map(|(at, byte)| Mutation::Overwrite(at, byte)),
        1 => any::<Index>().prop_map(Mutation::Remove),
        1 => any::<(Index, u8)>().prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        1 => any::<Index>().prop_map(Mutation::Cut),
    ];
    vec(mutation, 1..5)
}

fn mutate(mut bytes: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        match mutation {
            _ if bytes.is_empty() => bytes.push(0),
            Mutation::Overwrite(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Mutation::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
            Mutation::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Mutation::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
    bytes
}

fn run_all_bodies(bytes: &[u8]) {
    fuzz_bodies::segment::run(bytes);
    fuzz_bodies::options::run(bytes);
    fuzz_bodies::handshake::run(bytes);
    fuzz_bodies::feedback::run(bytes);
}

fn flipped(datagram: &[u8], bit: usize) -> Vec<u8> {
    let mut copy = datagram.to_vec();
    copy[bit / 8] ^= 0x80 >> (bit % 8);
    copy
}

/// Position of the flag SEC, in byte 13, counted in bits from the start of the datagram.
const SEC_BIT: usize = 13 * 8 + 2;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_mix_of_options_is_read(header in headers(), options in options(Profile::Modern), payload in vec(any::<u8>(), 0..200)) {
        let options = Options { profile: options.profile.map(|_| header.profile), ..options };
        let is_modern = header.profile == Profile::Modern;
        let flags = if is_modern { Flags::SYN } else { Flags::NONE };
        let bytes = datagram(&Header { flags, is_message: false, ..header }, &options, &payload);
        match Unverified::read(&bytes).unwrap() {
            Unverified::Clear(header) => {
                prop_assert_eq!(header.option_bytes(&bytes), options.to_bytes());
                let read = header.verify(&bytes).unwrap();
                let segment::Segment::Syn(syn) = read.segment else { panic!("it is a SYN") };
                let known = syn.options.map(|it| (it.version, it.code, it.symbol_size.bytes(), it.features.bits()));
                let fields = options.version.zip(options.code).zip(options.symbol_size);
                let whole = fields.filter(|_| options.profile.is_some());
                let features = options.features.unwrap_or(0);
                prop_assert_eq!(known, whole.map(|((version, code), size)| (version, code, size, features)));
                prop_assert_eq!(read.payload, payload);
            }
            Unverified::Classic(header) => {
                let read = header.verify(&bytes).unwrap();
                let classic::Segment::Data { block_length, .. } = read.segment else { panic!("it is data") };
                prop_assert_eq!(block_length.map(classic::BlockLength::bytes), options.block_length);
                prop_assert_eq!(read.payload, payload);
            }
            Unverified::Sealed(_) => panic!("it is in the clear"),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..1600)) {
        run_all_bodies(&bytes);
    }

    #[test]
    fn short_arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..64)) {
        run_all_bodies(&bytes);
    }

    #[test]
    fn option_like_bytes_never_panic(
        choice in any::<u8>(),
        entries in vec((0_u8..8, 0_u8..6, any::<[u8; 4]>()), 0..8),
    ) {
        let mut bytes = vec![choice];
        for (kind, length, value) in entries {
            bytes.extend([kind, length]);
            bytes.extend(value.iter().take(usize::from(length)));
        }
        run_all_bodies(&bytes);
    }

    #[test]
    fn mutated_segments_never_panic((header, options, payload) in segments(), mutations in mutations()) {
        run_all_bodies(&mutate(datagram(&header, &options, &payload), &mutations));
    }

    #[test]
    fn mutated_handshakes_never_panic(parameters in parameters(), mutations in mutations()) {
        let mut out = [0; PARAMETERS_BYTES];
        parameters.encode(&mut out).unwrap();
        run_all_bodies(&mutate(out.to_vec(), &mutations));
    }

    #[test]
    fn mutated_reports_never_panic(
        report in reports(), state in states(), runs in runs(), mutations in mutations(),
    ) {
        run_all_bodies(&mutate(feedback_payload(&report, &state, &runs), &mutations));
    }

    /// Routing and connection read the connection id separately, with equal results.
    #[test]
    fn a_datagram_is_routed_by_the_id_which_its_header_has((header, options, payload) in segments()) {
        let bytes = datagram(&header, &options, &payload);
        let id = match Unverified::read(&bytes) {
            Ok(Unverified::Clear(header)) if !header.is_syn() => Some(header.connection_id()),
            Ok(Unverified::Sealed(header)) => Some(header.connection_id()),
            Ok(Unverified::Clear(_) | Unverified::Classic(_)) => None,
            // Routing need not detect the fault; the connection does.
            Err(_) => return Ok(()),
        };
        prop_assert_eq!(Unverified::connection_id(&bytes), id);
        prop_assert_eq!(Unverified::connection_id(&bytes[..HEADER_BYTES - 1]), None);
    }

    #[test]
    fn truncated_segments_are_refused((header, options, payload) in segments(), cut in any::<Index>()) {
        let bytes = datagram(&header, &options, &payload);
        let sealed = header.flags.contains(Flags::SEC);
        // RFC 1071's sum cannot detect missing trailing zeros, so classic segments are left out.
        if !sealed && header.profile == Profile::Modern {
            prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
        }
    }

    #[test]
    fn unsealed_modern_segments_reject_every_bit_flip((mut header, options, payload) in segments()) {
        header.profile = Profile::Modern;
        header.flags = Flags::from_bits(header.flags.bits() & !Flags::SEC.bits()).unwrap();
        let options = Options { profile: options.profile.map(|_| Profile::Modern), ..options };
        let bytes = datagram(&header, &options, &payload);
        for bit in 0..bytes.len() * 8 {
            let damaged = flipped(&bytes, bit);
            if bit == SEC_BIT {
                // With this bit flipped, the segment claims to be encrypted: the AEAD layer must refuse it.
                prop_assert!(matches!(Unverified::read(&damaged), Ok(Unverified::Sealed(_))));
            } else {
                prop_assert!(decode(&damaged).is_err(), "bit {} of {:?}", bit, header);
            }
        }
    }

    #[test]
    fn classic_segments_reject_every_bit_flip((mut header, options, payload) in segments()) {
        header.profile = Profile::Classic;
        header.is_message = false;
        header.epoch = 0;
        header.flags = Flags::from_bits(header.flags.bits() & 0x17).unwrap();
        let options = Options { profile: options.profile.map(|_| Profile::Classic), ..options };
        let bytes = datagram(&header, &options, &payload);
        for bit in 0..bytes.len() * 8 {
            prop_assert!(decode(&flipped(&bytes, bit)).is_err(), "bit {} of {:?}", bit, header);
        }
    }

    #[test]
    fn checksum_field_is_zero_in_modern_segments_only((header, options, payload) in segments()) {
        let bytes = datagram(&header, &options, &payload);
        prop_assert_eq!(bytes[14..16] == [0, 0], header.profile == Profile::Modern);
    }

    #[test]
    fn every_accepted_s2_is_canonical(s2 in any::<u32>()) {
        if let Ok(info) = BlockInfo::from_s2(s2) {
            prop_assert!((1..=256).contains(&info.k) && info.length_bytes > 0);
            prop_assert_eq!(info.to_s2(), s2 & !0xF);
        }
        if let Ok(fragment) = Fragment::from_s2(s2) {
            prop_assert_eq!(Fragment::new(fragment.index(), fragment.count()), Some(fragment));
            prop_assert_eq!(u32::from(fragment.count() - 1) << 2 | u32::from(fragment.index()), s2 & 0xF);
        }
    }

    #[test]
    fn block_infos_survive_s2(k in 1_u16..=256, length_bytes in 1_u32..1 << 19, end_of_stream in any::<bool>()) {
        let info = BlockInfo { k, length_bytes, end_of_stream };
        prop_assert_eq!(BlockInfo::from_s2(info.to_s2()), Ok(info));
    }

    #[test]
    fn parameters_survive_the_wire(
        parameters in parameters(),
        unknown in (prop_oneof![6_u8..16, 23_u8..128], vec(any::<u8>(), 0..300)),
        front in any::<bool>(),
    ) {
        let mut out = [0; PARAMETERS_BYTES];
        prop_assert_eq!(parameters.encode(&mut out), Ok(PARAMETERS_BYTES));
        prop_assert_eq!(Parameters::decode(&out), Ok(parameters));
        let (kind, value) = unknown;
        let mut extra = vec![kind];
        extra.extend((value.len() as u16).to_be_bytes());
        extra.extend(value);
        let both = if front { [&extra, &out[..]].concat() } else { [&out[..], &extra].concat() };
        prop_assert_eq!(Parameters::decode(&both), Ok(parameters));
    }

    #[test]
    fn reports_survive_the_wire(
        report in reports(), streams in vec((states(), runs()), 0..6), limits in option::of(stream_limits()),
        unknown in (9_u8..128, vec(any::<u8>(), 0..100)),
    ) {
        let mut out = [0; 4000];
        let mut writer = ReportWriter::new(&mut out, &report).unwrap();
        let mut expected: Vec<Stream> = Vec::new();
        for (state, runs) in streams {
            if expected.iter().any(|it| it.0.stream == state.stream) {
                continue;
            }
            let mut list = writer.stream(&state).unwrap();
            prop_assert!(runs.iter().all(|run| list.push(*run)));
            list.finish();
            expected.push((state, expand(runs)));
        }
        prop_assert!(limits.is_none_or(|limits| writer.unseen(limits)));
        let length = writer.finish();
        let expected = (report, expected, limits.into_iter().collect());
        prop_assert_eq!(&decoded(&out[..length]), &expected);
        // An unknown record that may be ignored has no effect at any position.
        let extra = [&[unknown.0], &(unknown.1.len() as u16).to_be_bytes()[..], &unknown.1].concat();
        let (fixed, records) = out[..length].split_at(feedback::REPORT_BYTES);
        prop_assert_eq!(&decoded(&[fixed, &extra, records].concat()), &expected);
        prop_assert_eq!(&decoded(&[fixed, records, &extra].concat()), &expected);
    }

    #[test]
    fn records_of_features_survive_the_wire(
        report in reports(), clock_us in any::<u32>(), ecn in any::<[u32; 2]>(), marks in marks(),
        runs in loss_runs(), state in any::<[u32; 2]>(), list in message_lists(), mutations in mutations(),
    ) {
        let mut out = [0; 8000];
        let mut writer = ReportWriter::new(&mut out, &report).unwrap();
        let ecn = EcnCounts { ce: ecn[0], ect: ecn[1] };
        let state = MessagesState { first_id: state[0] >> 1, proof: state[1] };
        prop_assert!(writer.ecn(ecn) && writer.marks(&marks) && writer.arrival_clock(clock_us));
        prop_assert_eq!(writer.loss_runs(runs.clone()), Some(runs.len()));
        let mut messages = writer.messages(state.first_id).unwrap();
        for run in &list {
            prop_assert!(messages.push(run.borrowed()));
        }
        messages.finish(state.proof);
        let length = writer.finish();

        let (again, mut records) = feedback::decode(&out[..length]).unwrap();
        prop_assert_eq!(again, report);
        prop_assert!(matches!(records.next(), Some(Record::Ecn(found)) if found == ecn));
        let Some(Record::Marks(found)) = records.next() else { panic!("no marks") };
        prop_assert_eq!(found.collect::<Vec<_>>(), marks);
        prop_assert!(matches!(records.next(), Some(Record::ArrivalClock(found)) if found == clock_us));
        let Some(Record::LossRuns(found)) = records.next() else { panic!("no loss runs") };
        prop_assert_eq!(found.collect::<Vec<_>>(), runs);
        if let Some(Record::Messages(found, runs)) = records.next() {
            prop_assert_eq!(found, state);
            let runs = runs.map(|run| OwnedRun::of(&run));
            prop_assert_eq!(per_message(runs), per_message(list.iter().cloned()));
        } else {
            prop_assert!(per_message(list.iter().cloned()).is_empty());
        }
        prop_assert!(records.next().is_none());
        run_all_bodies(&mutate(out[..length].to_vec(), &mutations));
    }

    #[test]
    fn loss_runs_and_messages_are_cut_where_the_room_ends(runs in loss_runs(), list in message_lists(), room in 0_usize..80) {
        let mut out = vec![0; feedback::REPORT_BYTES + room];
        let mut writer = ReportWriter::new(&mut out, &Report::default()).unwrap();
        let written = writer.loss_runs(runs.clone());
        prop_assert_eq!(written.is_some(), room >= 3);
        let length = writer.finish();
        let (_, mut records) = feedback::decode(&out[..length]).unwrap();
        if let Some(Record::LossRuns(found)) = records.next() {
            prop_assert_eq!(found.collect::<Vec<_>>(), &runs[..written.unwrap()]);
        }
        let mut writer = ReportWriter::new(&mut out, &Report::default()).unwrap();
        if let Some(mut messages) = writer.messages(0) {
            let pushed = list.iter().filter(|run| messages.push(run.borrowed())).count();
            messages.finish(7);
            let length = writer.finish();
            let (_, mut records) = feedback::decode(&out[..length]).unwrap();
            let found = match records.next() {
                Some(Record::Messages(MessagesState { proof: 7, .. }, runs)) => {
                    per_message(runs.map(|run| OwnedRun::of(&run)))
                }
                _ => Vec::new(),
            };
            let all = per_message(list.iter().cloned());
            prop_assert!(all.starts_with(&found));
            prop_assert_eq!(pushed == list.len(), found.len() == all.len());
        } else {
            prop_assert!(room < 12);
        }
    }

    #[test]
    fn cut_reports_hold_the_oldest_blocks(
        report in reports(), state in states(), runs in runs(), room in 0_usize..60,
    ) {
        let mut out = vec![0; feedback::REPORT_BYTES + feedback::STREAM_RECORD_BYTES_MIN + room];
        let mut writer = ReportWriter::new(&mut out, &report).unwrap();
        let mut list = writer.stream(&state).unwrap();
        let pushed = runs.iter().filter(|run| list.push(**run)).count();
        list.set_proof_listed(pushed as u32);
        list.finish();
        let length = writer.finish();
        let (again, mut streams, _) = decoded(&out[..length]);
        let (found, reported) = streams.pop().unwrap();
        prop_assert_eq!((again, found), (report, StreamState { proof_listed: pushed as u32, ..state }));
        let all = expand(runs.clone());
        prop_assert!(all.starts_with(&reported));
        prop_assert_eq!(pushed == runs.len(), reported.len() == all.len());
        if reported.len() < all.len() {
            prop_assert!(out.len() - length < 2, "an entry of two bytes would have fitted");
        }
    }

    #[test]
    fn pushing_block_by_block_gives_the_same_bytes(report in reports(), state in states(), runs in runs()) {
        let mut out = [0; 4000];
        let mut writer = ReportWriter::new(&mut out, &report).unwrap();
        let mut list = writer.stream(&state).unwrap();
        for block in expand(runs.clone()) {
            let run = match block {
                Some(0) => Run::Complete(1),
                Some(missing) => Run::Open { missing },
                None => Run::Empty(1),
            };
            prop_assert!(list.push(run));
        }
        list.finish();
        let length = writer.finish();
        prop_assert_eq!(&out[..length], feedback_payload(&report, &state, &runs));
    }
}

#[test]
fn what_is_longer_than_1500_bytes_is_refused() {
    let header = Header::modern(Flags::ACK, 7);
    let longest = raw::write(&header, &[], &[7; DATAGRAM_BYTES_MAX - HEADER_BYTES - CRC_BYTES]);
    assert_eq!((longest.len(), decode(&longest)), (DATAGRAM_BYTES_MAX, Ok(())));
    let beyond = raw::write(&header, &[], &[7; DATAGRAM_BYTES_MAX - HEADER_BYTES - CRC_BYTES + 1]);
    assert_eq!(decode(&beyond), Err(DecodeError::TooLong { bytes: 1501 }));
}

#[test]
fn a_side_without_an_id_cannot_be_told() {
    let streams = StreamLimits::default();
    let offer = Offer { window_blocks: 1, receive_memory_bytes: 1, rate_max_bps: 0, idle_timeout_ms: 0, streams };
    let nameless = Parameters { connection_id: 0, offer };
    assert_eq!(nameless.encode(&mut [0; 64]), Err(EncodeError::ConnectionIdZero));
}

#[test]
fn reports_take_nothing_after_a_refusal() {
    use feedback::{REPORT_BYTES, STREAM_RECORD_BYTES_MIN};
    let (report, state) = (Report::default(), StreamState::default());
    let mut small = [0; REPORT_BYTES - 1];
    assert!(ReportWriter::new(&mut small, &report).is_err());
    for impossible in [Run::Open { missing: 0 }, Run::Open { missing: 257 }] {
        let mut out = [0; REPORT_BYTES + STREAM_RECORD_BYTES_MIN + 20];
        let mut writer = ReportWriter::new(&mut out, &report).unwrap();
        let mut list = writer.stream(&state).unwrap();
        assert!(list.push(Run::Complete(0)) && list.push(Run::Complete(3)));
        assert!(!list.push(impossible) && !list.push(Run::Complete(1)));
        list.finish();
        assert_eq!(writer.finish(), REPORT_BYTES + STREAM_RECORD_BYTES_MIN);
    }
    // The two-byte entry does not fit. A later one-byte entry must be refused, as it would be read as the state of the
    // omitted block.
    let mut out = [0; REPORT_BYTES + STREAM_RECORD_BYTES_MIN];
    let mut writer = ReportWriter::new(&mut out, &report).unwrap();
    let mut list = writer.stream(&state).unwrap();
    assert!(!list.push(Run::Open { missing: 200 }) && !list.push(Run::Open { missing: 1 }));
    list.finish();
    assert_eq!(writer.finish(), REPORT_BYTES + STREAM_RECORD_BYTES_MIN - 1);
}

/// Invalid records are not written, and do not affect other records.
#[test]
fn impossible_records_of_features_are_not_written() {
    let mut out = [0; 200];
    let mut writer = ReportWriter::new(&mut out, &Report::default()).unwrap();
    let mark = |back_us, numbers_back, received_back| Mark { back_us, numbers_back, received_back };
    let impossible: [&[Mark]; 6] = [
        &[],
        &[mark(0, 0, 0)],
        &[mark(1 << 24, 0, 0)],
        &[mark(1, 0, 1 << 24)],
        &[mark(2, 1, 1), mark(2, 2, 2)],
        &[mark(1, 0, 0), mark(2, 0, 0), mark(3, 0, 0), mark(4, 0, 0)],
    ];
    assert!(impossible.iter().all(|marks| !writer.marks(marks)));
    assert_eq!(writer.loss_runs([LossRun { gap: 1, length: 2 }, LossRun { gap: 0, length: 1 }]), Some(1));
    for bits in [&[][..], &[1, 0], &[1; 129]] {
        assert_eq!(SymbolSet::new(bits), None);
    }
    let symbols = SymbolSet::new(&[0x81, 0x40]).unwrap();
    assert_eq!(symbols.iter().collect::<Vec<_>>(), [0, 7, 9]);
    assert_eq!([0, 1, 7, 9, 16, u32::MAX].map(|esi| symbols.contains(esi)), [true, false, true, true, false, false]);
    writer.messages(4).unwrap().finish(1);
    assert!(writer.ecn(EcnCounts::default()));
    let length = writer.finish();
    let (_, records) = feedback::decode(&out[..length]).unwrap();
    assert!(matches!(&records.collect::<Vec<_>>()[..], [Record::LossRuns(_), Record::Ecn(_)]));
}

#[test]
fn a_record_is_whole_or_not_in_the_report() {
    use feedback::{REPORT_BYTES, STREAM_RECORD_BYTES_MIN};
    let (report, state) = (Report::default(), StreamState { stream: StreamId::from_word(6), ..StreamState::default() });
    for room in 0..2 * STREAM_RECORD_BYTES_MIN {
        let mut out = vec![0; REPORT_BYTES + room];
        let mut writer = ReportWriter::new(&mut out, &report).unwrap();
        // A record writer that is dropped leaves no bytes behind.
        let dropped = writer.stream(&state).map(|mut list| list.push(Run::Complete(1)));
        assert_eq!(dropped, (room >= STREAM_RECORD_BYTES_MIN).then_some(true), "{room}");
        let unseen = writer.unseen(StreamLimits { bidirectional: 1, one_way: 2 });
        assert_eq!(unseen, room >= 11, "{room}");
        let list = writer.stream(&state);
        assert_eq!(list.is_some(), room >= 11 + STREAM_RECORD_BYTES_MIN, "{room}");
        let streams = usize::from(list.map(|list| list.finish()).is_some());
        let length = writer.finish();
        let (_, found, limits) = decoded(&out[..length]);
        assert_eq!((found.len(), limits.len()), (streams, usize::from(unseen)), "{room}");
    }
}

#[test]
fn what_cannot_be_a_segment_has_no_header() {
    let bytes = raw::write(&Header::modern(Flags::NONE, 0x0001_0002), &[], b"x");
    let Ok(Unverified::Clear(header)) = Unverified::read(&bytes) else { panic!("it is in the clear") };
    assert_eq!(header.connection_id(), 0x0001_0002);
    assert!(Unverified::read(&bytes[..HEADER_BYTES - 1]).is_err());
    assert!(Unverified::read(&[0; 40]).is_err());
    assert!(Unverified::read(&[]).is_err());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn handshake_payloads_survive_being_encoded(
        present in any::<[bool; 14]>(), numbers in any::<[u32; 7]>(), longs in any::<[u64; 2]>(), id in 1_u32..,
        value in vec(any::<u8>(), 1..=64), padding in 0_usize..300, message in vec(any::<u8>(), 0..400),
    ) {
        let payload = Payload {
            padding_bytes: present[0].then_some(padding),
            connection_id: present[1].then_some(id),
            window_blocks: present[2].then_some(numbers[0]),
            receive_memory_bytes: present[3].then_some(longs[0]),
            rate_max_bps: present[4].then_some(longs[1]),
            idle_timeout_ms: present[5].then_some(numbers[1]),
            cookie: present[6].then_some(&value),
            ciphers: present[7].then_some(&value),
            symbol_size: present[8].then_some(numbers[1] as u16),
            echo: present[9].then_some(numbers[2]),
            noise: present[10].then_some((numbers[3] as u8, &message)),
            features: present[11].then_some(Features::from_bits(numbers[4])),
            streams_bidirectional: present[12].then_some(numbers[5]),
            streams_one_way: present[13].then_some(numbers[6]),
        };
        let mut out = [0; 1500];
        let length = payload.encode(&mut out).unwrap();
        prop_assert_eq!(Payload::decode(&out[..length]), Ok(payload));
        for cut in 0..length {
            prop_assert_ne!(Payload::decode(&out[..cut]), Ok(payload));
        }
        let doubled = [&out[..length], &out[..length]].concat();
        prop_assert!(length == 0 || Payload::decode(&doubled).is_err());
        let unsealed = Parameters::decode(&out[..length]).is_ok();
        prop_assert!(!unsealed || !present[10], "a Noise message is not passed over");
    }
}
