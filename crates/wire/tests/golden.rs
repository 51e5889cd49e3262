//! Golden vectors `spec/vectors/wire_*.txt`, in both directions: the named values encode to the bytes, and the bytes
//! decode to the values. `wire_rejected.txt` has invalid bytes. `spec/wire-format.md` describes the format of the
//! files.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]

use dfcp_testkit::raw::{self, Header};
use dfcp_wire::classic::{self, BlockLength};
use dfcp_wire::handshake::{Offer, Parameters};
use dfcp_wire::segment::{
    Ack, Address, Clear, Coverage, Data, Envelope, Fin, KeyEpoch, Message, MessageGroup, MessageInfo, Received,
    ReportHeader, Reset, ResetReason, Sealed, Segment, Syn, SynAck, SynOptions,
};
use dfcp_wire::{BlockInfo, CLASSIC_BLOCK_BYTES, DATAGRAM_BYTES_MAX, DecodeError, Features, Finished, Flags, Fragment};
use dfcp_wire::{
    HEADER_BYTES, Outline, Ports, Profile, StreamId, StreamLimits, SymbolSize, Unverified, VERSION, feedback,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Names of all vectors. Every kind of segment must have one.
const NAMES: [&str; 53] = [
    "syn_classic",
    "synack_classic",
    "ack_classic",
    "data_classic",
    "data_classic_short",
    "data_classic_checksum_ffff",
    "ack_block_classic",
    "fin_classic",
    "ack_fin_classic",
    "finack_classic",
    "rst_classic",
    "syn_modern",
    "synack_modern",
    "synack_cookie_modern",
    "ack_modern",
    "ack_noise_modern",
    "ack_keep_alive_modern",
    "ack_path_challenge_modern",
    "ack_path_response_modern",
    "data_modern",
    "data_modern_repair",
    "data_modern_sealed",
    "data_stream_modern",
    "data_stream_modern_sealed",
    "data_fragment_modern",
    "data_fragment_stream_modern_sealed",
    "message_modern",
    "message_empty_modern",
    "message_repair_modern",
    "message_group_modern",
    "message_group_modern_sealed",
    "feedback_modern",
    "feedback_features_modern",
    "fin_modern",
    "ack_fin_modern",
    "finack_modern",
    "fin_stream_modern",
    "ack_keep_alive_stream_modern",
    "ack_fin_stream_modern",
    "ack_reset_stream_modern",
    "ack_of_reset_modern",
    "ack_stop_sending_modern",
    "ack_path_probe_modern",
    "ack_of_path_probe_modern",
    "ack_gone_modern",
    "ack_session_query_modern",
    "ack_reset_ticket_modern_sealed",
    "ack_of_reset_ticket_modern",
    "rst_modern",
    "rst_not_admitted_modern",
    "rst_application_modern",
    "rst_session_unknown_modern",
    "rejected",
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors")
}

/// The `name = value` lines of one vector, and its bytes.
#[derive(Default)]
struct Vector {
    fields: BTreeMap<String, String>,
    bytes: Vec<u8>,
}

impl Vector {
    fn take(&mut self, name: &str) -> Option<String> {
        self.fields.remove(name)
    }

    fn text(&mut self, name: &str) -> String {
        self.take(name).unwrap_or_else(|| panic!("the field {name} is missing"))
    }

    fn number(&mut self, name: &str) -> u64 {
        number(&self.text(name))
    }

    fn small<T: TryFrom<u64>>(&mut self, name: &str) -> T {
        let value = self.number(name);
        T::try_from(value).unwrap_or_else(|_| panic!("{name} = {value} is out of range"))
    }
}

fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{text} is no number"))
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    assert!(digits.len().is_multiple_of(2), "odd number of digits in {text}");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// Splits a file into its vectors: a `case` field starts a new vector.
fn read(name: &str) -> Vec<Vector> {
    let path = folder().join(format!("wire_{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut vectors = vec![Vector::default()];
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if line.starts_with("case =") && !vectors[vectors.len() - 1].fields.is_empty() {
            vectors.push(Vector::default());
        }
        let vector = vectors.last_mut().unwrap();
        if let Some((field, value)) = line.split_once('=') {
            let earlier = vector.fields.insert(field.trim().into(), value.trim().into());
            assert_eq!(earlier, None, "{name}: {field} stands twice");
        } else {
            let (offset, bytes) = line.split_once(' ').unwrap();
            assert_eq!(usize::from_str_radix(offset, 16), Ok(vector.bytes.len()), "{name}: offset {offset}");
            vector.bytes.extend(hex(bytes));
        }
    }
    vectors
}

fn profile(text: &str) -> Profile {
    match text {
        "classic" => Profile::Classic,
        "modern" => Profile::Modern,
        other => panic!("{other} is no profile"),
    }
}

fn flags(text: &str) -> Flags {
    text.split('|').fold(Flags::NONE, |flags, name| {
        flags
            | match name {
                "none" => Flags::NONE,
                "FIN" => Flags::FIN,
                "SYN" => Flags::SYN,
                "RST" => Flags::RST,
                "FBK" => Flags::FBK,
                "ACK" => Flags::ACK,
                "SEC" => Flags::SEC,
                other => panic!("{other} is no flag"),
            }
    })
}

fn header(vector: &mut Vector) -> Header {
    let profile = profile(&vector.text("profile"));
    let mut header = Header {
        source_port: 0,
        destination_port: 0,
        block_id: vector.small("block_id"),
        s1: vector.small("s1"),
        flags: flags(&vector.text("flags")),
        profile,
        is_message: vector.fields.contains_key("message.clock_us"),
        epoch: if profile == Profile::Modern { vector.small("epoch") } else { 0 },
        s2: vector.small("s2"),
        s3: vector.small("s3"),
    };
    if vector.fields.contains_key("connection_id") {
        let id: u32 = vector.small("connection_id");
        (header.source_port, header.destination_port) = ((id >> 16) as u16, id as u16);
    } else {
        header.source_port = vector.small("source_port");
        header.destination_port = vector.small("destination_port");
    }
    header
}

/// Returns the bytes between header and payload: a stream id, the words of a message, or the options in ascending order
/// of kinds.
fn options(vector: &mut Vector) -> Vec<u8> {
    if let Some(stream) = vector.take("stream") {
        return (number(&stream) as u32).to_be_bytes().to_vec();
    }
    if vector.fields.contains_key("message.clock_us") {
        let words = ["clock_us", "age_us", "lifetime_us"].map(|name| vector.small::<u32>(&format!("message.{name}")));
        let group = vector.fields.contains_key("message.count");
        let group =
            group.then(|| ["count", "source_symbols"].map(|name| vector.small::<u16>(&format!("message.{name}"))));
        return [words.map(u32::to_be_bytes).concat(), group.map_or(vec![], |it| it.map(u16::to_be_bytes).concat())]
            .concat();
    }
    let mut bytes = Vec::new();
    let names = [("version", 1), ("profile", 1), ("code", 1), ("symbol_size", 2), ("block_length", 4), ("features", 4)];
    for (kind, (name, length)) in (1_u8..).zip(names) {
        let Some(text) = vector.take(&format!("option.{name}")) else { continue };
        let value = if name == "profile" { u64::from(profile(&text) == Profile::Modern) } else { number(&text) };
        bytes.extend([kind, length]);
        bytes.extend(&value.to_be_bytes()[8 - usize::from(length)..]);
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Builds the payload from the fields, and checks that the received payload decodes to the same values.
fn payload(vector: &mut Vector, received: &[u8]) -> Vec<u8> {
    if vector.fields.contains_key("handshake.connection_id") {
        let parameters = Parameters {
            connection_id: vector.small("handshake.connection_id"),
            offer: Offer {
                window_blocks: vector.small("handshake.window_blocks"),
                receive_memory_bytes: vector.number("handshake.receive_memory_bytes"),
                rate_max_bps: vector.number("handshake.rate_max_bps"),
                idle_timeout_ms: vector.small("handshake.idle_timeout_ms"),
                streams: StreamLimits {
                    bidirectional: vector.small("handshake.streams_bidirectional"),
                    one_way: vector.small("handshake.streams_one_way"),
                },
            },
        };
        assert_eq!(Parameters::decode(received), Ok(parameters));
        let mut out = [0; 80];
        let length = parameters.encode(&mut out).unwrap();
        return out[..length].to_vec();
    }
    if vector.fields.contains_key("report.hold_us") {
        return report(vector, received);
    }
    vector.take("payload").map(|text| hex(&text)).unwrap_or_default()
}

fn report(vector: &mut Vector, received: &[u8]) -> Vec<u8> {
    let report = feedback::Report {
        highest_datagram: vector.small("report.highest_datagram"),
        datagrams_received: vector.small("report.datagrams_received"),
        bytes_received: vector.number("report.bytes_received"),
        hold_us: vector.small("report.hold_us"),
        arrival_rate_bps: vector.number("report.arrival_rate_bps"),
        memory_kib: vector.small("report.memory_kib"),
        streams: StreamLimits {
            bidirectional: vector.small("report.streams_bidirectional"),
            one_way: vector.small("report.streams_one_way"),
        },
        wasted: feedback::Wasted {
            dependent: vector.small("report.wasted_dependent"),
            late: vector.small("report.wasted_late"),
            refused: vector.small("report.wasted_refused"),
        },
    };
    let records: Vec<Expected> = (1..).map_while(|index| record(vector, index)).collect();
    let mut out = [0; 512];
    let mut writer = feedback::ReportWriter::new(&mut out, &report).unwrap();
    for record in &records {
        match record {
            Expected::Unseen(limits) => assert!(writer.unseen(*limits)),
            Expected::ArrivalClock(clock_us) => assert!(writer.arrival_clock(*clock_us)),
            Expected::Marks(marks) => assert!(writer.marks(marks)),
            Expected::Ecn(counts) => assert!(writer.ecn(*counts)),
            Expected::LossRuns(runs) => assert_eq!(writer.loss_runs(runs.iter().copied()), Some(runs.len())),
            Expected::Messages(state, list) => {
                let mut messages = writer.messages(state.first_id).unwrap();
                for (kind, numbers) in list {
                    let bits = bits(numbers);
                    assert!(messages.push(match &kind[..] {
                        "complete" => feedback::MessageRun::Complete(numbers[0]),
                        "empty" => feedback::MessageRun::Empty(numbers[0]),
                        _ => feedback::MessageRun::Partial(feedback::SymbolSet::new(&bits).unwrap()),
                    }));
                }
                messages.finish(state.proof);
            }
            Expected::Stream(state, runs) => {
                // The proof of the list is known last, so it is set afterwards.
                let mut list = writer.stream(&feedback::StreamState { proof_listed: 0, ..*state }).unwrap();
                assert!(runs.iter().all(|run| list.push(*run)));
                list.set_proof_listed(state.proof_listed);
                list.finish();
            }
        }
    }
    let length = writer.finish();

    let (decoded, found) = feedback::decode(received).unwrap();
    assert_eq!(decoded, report);
    let found: Vec<Expected> = found
        .map(|record| match record {
            feedback::Record::Unseen(limits) => Expected::Unseen(limits),
            feedback::Record::Stream(state, entries) => Expected::Stream(state, merged(entries)),
            feedback::Record::ArrivalClock(clock_us) => Expected::ArrivalClock(clock_us),
            feedback::Record::Marks(marks) => Expected::Marks(marks.collect()),
            feedback::Record::Ecn(counts) => Expected::Ecn(counts),
            feedback::Record::LossRuns(runs) => Expected::LossRuns(runs.collect()),
            feedback::Record::Messages(state, list) => Expected::Messages(state, merged_messages(list)),
        })
        .collect();
    assert_eq!(found, records);
    out[..length].to_vec()
}

/// Expected record of a report, with adjacent runs of the same kind merged.
#[derive(PartialEq, Debug)]
enum Expected {
    Stream(feedback::StreamState, Vec<feedback::Run>),
    Unseen(StreamLimits),
    ArrivalClock(u32),
    Marks(Vec<feedback::Mark>),
    Ecn(feedback::EcnCounts),
    LossRuns(Vec<feedback::LossRun>),
    Messages(feedback::MessagesState, Vec<(String, Vec<u32>)>),
}

/// Returns a set of symbols as bits, like in reports.
fn bits(symbols: &[u32]) -> Vec<u8> {
    let mut bits = vec![0; symbols.last().map_or(0, |last| *last as usize / 8 + 1)];
    symbols.iter().for_each(|symbol| bits[*symbol as usize / 8] |= 0x80 >> (symbol % 8));
    bits
}

/// Parses comma-separated entries of words and numbers: `empty 2, symbols 0 9`.
fn list(text: &str) -> impl Iterator<Item = (String, Vec<u32>)> {
    text.split(", ").map(|entry| {
        let (words, numbers): (Vec<_>, Vec<_>) = entry.split(' ').partition(|word| word.parse::<u32>().is_err());
        (words.concat(), numbers.into_iter().map(|text| number(text) as u32).collect())
    })
}

fn merged_messages(entries: feedback::MessageRuns<'_>) -> Vec<(String, Vec<u32>)> {
    let mut merged: Vec<(String, Vec<u32>)> = Vec::new();
    for entry in entries {
        let (kind, numbers) = match entry {
            feedback::MessageRun::Complete(count) => ("complete", vec![count]),
            feedback::MessageRun::Empty(count) => ("empty", vec![count]),
            feedback::MessageRun::Partial(symbols) => ("symbols", symbols.iter().collect()),
        };
        match merged.last_mut() {
            Some((last, sum)) if last == kind && kind != "symbols" => sum[0] += numbers[0],
            _ => merged.push((kind.to_owned(), numbers)),
        }
    }
    merged
}

/// Returns the expected record of an optional feature.
fn feature_record(vector: &mut Vector, kind: &str, name: impl Fn(&str) -> String) -> Expected {
    match kind {
        "arrival_clock" => Expected::ArrivalClock(vector.small(&name("clock_us"))),
        "marks" => Expected::Marks(
            list(&vector.text(&name("marks")))
                .map(|(_, it)| feedback::Mark { back_us: it[0], numbers_back: it[1], received_back: it[2] })
                .collect(),
        ),
        "ecn" => Expected::Ecn(feedback::EcnCounts { ce: vector.small(&name("ce")), ect: vector.small(&name("ect")) }),
        "loss_runs" => Expected::LossRuns(
            list(&vector.text(&name("runs"))).map(|(_, it)| feedback::LossRun { gap: it[0], length: it[1] }).collect(),
        ),
        "messages" => {
            let (first_id, proof) = (vector.small(&name("first_id")), vector.small(&name("proof")));
            let state = feedback::MessagesState { first_id, proof };
            Expected::Messages(state, list(&vector.text(&name("list"))).collect())
        }
        other => panic!("{other} is no record"),
    }
}

fn record(vector: &mut Vector, index: u32) -> Option<Expected> {
    let name = |field: &str| format!("record.{index}.{field}");
    let kind = vector.take(&name("type"))?;
    if kind == "unseen" {
        return Some(Expected::Unseen(StreamLimits {
            bidirectional: vector.small(&name("bidirectional")),
            one_way: vector.small(&name("one_way")),
        }));
    }
    if kind != "stream" {
        return Some(feature_record(vector, &kind, name));
    }
    let state = feedback::StreamState {
        stream: StreamId::from_word(vector.small(&name("stream"))),
        next_needed: vector.small(&name("next_needed")),
        blocks_read: vector.small(&name("blocks_read")),
        kib_read: vector.small(&name("kib_read")),
        proof_cumulative: vector.small(&name("proof_cumulative")),
        proof_listed: vector.small(&name("proof_listed")),
    };
    let runs = vector
        .text(&name("runs"))
        .split(", ")
        .map(|run| match run.split_once(' ').map(|(kind, count)| (kind, number(count))) {
            Some(("open", missing)) => feedback::Run::Open { missing: missing as u16 },
            Some(("complete", blocks)) => feedback::Run::Complete(blocks as u32),
            Some(("empty", blocks)) => feedback::Run::Empty(blocks as u32),
            _ => panic!("{run} is no run"),
        })
        .collect();
    Some(Expected::Stream(state, runs))
}

fn merged(entries: feedback::Runs<'_>) -> Vec<feedback::Run> {
    let mut merged: Vec<feedback::Run> = Vec::new();
    for entry in entries {
        match (merged.last_mut(), entry) {
            (Some(feedback::Run::Complete(sum)), feedback::Run::Complete(more)) => *sum += more,
            (Some(feedback::Run::Empty(sum)), feedback::Run::Empty(more)) => *sum += more,
            _ => merged.push(entry),
        }
    }
    merged
}

fn check_block_info(vector: &mut Vector, s2: u32) {
    if vector.fields.contains_key("block.k") {
        let info = BlockInfo {
            k: vector.small("block.k"),
            length_bytes: vector.small("block.length_bytes"),
            end_of_stream: vector.text("block.end_of_stream") == "true",
        };
        assert_eq!(info.to_s2(), s2 & !0xF);
        assert_eq!(BlockInfo::from_s2(s2), Ok(info));
        let [index, count] =
            ["fragment.index", "fragment.count"].map(|name| vector.take(name).map(|text| number(&text) as u8));
        assert_eq!(Fragment::from_s2(s2).ok(), Fragment::new(index.unwrap_or(0), count.unwrap_or(1)));
    }
}

/// Checks that S2 has the shape of the vector's single message.
fn check_message_info(vector: &mut Vector, s2: u32) {
    if vector.fields.contains_key("message.k") {
        let (k, length): (u32, u32) = (vector.small("message.k"), vector.small("message.length_bytes"));
        assert_eq!(s2, (k - 1) << 24 | length << 5);
    }
}

#[test]
fn fields_and_payloads_are_those_of_the_vectors() {
    for name in NAMES.iter().filter(|name| **name != "rejected") {
        println!("{name}");
        let mut vectors = read(name);
        assert_eq!(vectors.len(), 1);
        let vector = &mut vectors[0];
        let datagram = vector.bytes.clone();
        let (header, options) = (header(vector), options(vector));

        let segment = raw::read(&datagram).unwrap();
        assert_eq!((segment.header, segment.options), (header, &options[..]));
        let payload = payload(vector, segment.payload);
        assert_eq!(segment.payload, payload);
        check_block_info(vector, header.s2);
        check_message_info(vector, header.s2);
        assert!(vector.fields.is_empty(), "unknown fields {:?}", vector.fields.keys());

        assert_eq!(raw::write(&header, &options, &payload), datagram);
    }
}

/// Returns ports and segment of a classic vector.
fn typed_classic(name: &str) -> (Ports, classic::Segment) {
    use classic::Segment;
    const ACCEPTOR: [u32; 3] = [0x0BAD_F00D, 0x1357_9BDF, 0x2468_ACE0];
    let to_acceptor = Ports { source: 40_000, destination: 7_000 };
    let to_initiator = to_acceptor.reversed();
    let data = |block_id, s3, length| {
        let block_length = BlockLength::new(length).filter(|length| length.bytes() < CLASSIC_BLOCK_BYTES);
        Segment::Data { block_id, state: [0x71C0_FFEE, 0x0102_0304, s3], block_length }
    };
    match name {
        "syn_classic" => (to_acceptor, Segment::Syn { initial: [0x1A2B_3C4D, 0x5E6F_7081, 0x92A3_B4C5] }),
        "synack_classic" => (to_initiator, Segment::SynAck { initial: ACCEPTOR }),
        "ack_classic" => (to_acceptor, Segment::HandshakeAck { echo: ACCEPTOR }),
        "data_classic" => (to_acceptor, data(3, 0x89AB_CDEF, CLASSIC_BLOCK_BYTES)),
        "data_classic_short" => (to_acceptor, data(4, 0x89AB_CDEF, 1_000)),
        "data_classic_checksum_ffff" => (to_acceptor, data(5, 0x89AB_E900, CLASSIC_BLOCK_BYTES)),
        "ack_block_classic" => (to_initiator, Segment::BlockAck { block_id: 3 }),
        "ack_fin_classic" => (to_initiator, Segment::BlockAck { block_id: 5 }),
        "fin_classic" => (to_acceptor, Segment::Fin { end: 5 }),
        "finack_classic" => (to_initiator, Segment::FinAck { end: 0 }),
        "rst_classic" => (to_initiator, Segment::Reset { echo: [0; 3] }),
        _ => panic!("{name} has no typed segment"),
    }
}

/// Returns address, number, epoch and segment of a vector with messages.
fn typed_message(name: &str) -> (Address, u32, Option<u64>, Segment) {
    let (to_acceptor, to_initiator) = (Address::Connection(0x7F3B_9A04), Address::Connection(0xC0A1_E5D2));
    let message = |id, esi, coverage, [clock_us, age_us, lifetime_us]: [u32; 3]| {
        Segment::Message(Message { id, esi, coverage, clock_us, age_us, lifetime_us })
    };
    match name {
        "message_modern" => {
            let coverage = Coverage::One(MessageInfo { k: 1, length_bytes: 20 });
            (to_acceptor, 32, None, message(7, 0, coverage, [123_456_789, 1_500, 60_000]))
        }
        "message_empty_modern" => {
            let coverage = Coverage::One(MessageInfo { k: 1, length_bytes: 0 });
            (to_acceptor, 33, None, message(0, 0, coverage, [0, 0, 1]))
        }
        "message_repair_modern" => {
            let coverage = Coverage::One(MessageInfo { k: 256, length_bytes: 262_144 });
            (to_acceptor, 34, None, message(u32::MAX, 1_023, coverage, [u32::MAX; 3]))
        }
        "message_group_modern" => {
            let coverage = Coverage::Several(MessageGroup { count: 5, source_symbols: 8 });
            (to_acceptor, 35, None, message(40, 9, coverage, [123_476_789, 20_000, 60_000]))
        }
        "message_group_modern_sealed" => {
            let coverage = Coverage::Several(MessageGroup { count: 256, source_symbols: 256 });
            (to_initiator, 36, Some(3), message(0xFFFF_FF00, 256, coverage, [1, 59_999, 60_000]))
        }
        _ => panic!("{name} has no typed segment"),
    }
}

/// Returns envelope and segment of a modern vector.
fn typed_modern(name: &str) -> (Envelope, Segment) {
    let ports = Address::Ports(Ports { source: 40_000, destination: 7_000 });
    let (to_acceptor, to_initiator) = (Address::Connection(0x7F3B_9A04), Address::Connection(0xC0A1_E5D2));
    let symbol_size = SymbolSize::new(1420).unwrap();
    let options =
        |bits| Some(SynOptions { version: VERSION, code: 1, symbol_size, features: Features::from_bits(bits) });
    let id = StreamId::from_word;
    let data = |stream, block_id, esi, k, length_bytes, end_of_stream| {
        let block = BlockInfo { k, length_bytes, end_of_stream };
        Data { stream: id(stream), block_id, esi, block, fragment: Fragment::WHOLE }
    };
    let part = |data, index, count| Segment::Data(Data { fragment: Fragment::new(index, count).unwrap(), ..data });
    let reset = |reason| Segment::Reset(Reset { reason });
    let token = 0x0A0B_0C0D_0E0F_1011;
    let (address, number, epoch, segment) = match name {
        "syn_modern" => (ports, 0, None, Segment::Syn(Syn { options: options(0x8000_0001) })),
        "synack_modern" => (to_initiator, 0, None, Segment::SynAck(SynAck { echo: 0, options: options(1) })),
        "synack_cookie_modern" => (to_initiator, 0, None, Segment::SynAck(SynAck { echo: 0, options: None })),
        "ack_modern" => (to_acceptor, 1, None, Segment::Ack(Ack::OfSynAck { echo: 0 })),
        "ack_noise_modern" => (to_acceptor, 1, None, Segment::Ack(Ack::Noise)),
        "ack_keep_alive_modern" => (to_acceptor, 300, None, Segment::Ack(Ack::KeepAlive { stream: id(0) })),
        "ack_keep_alive_stream_modern" => (to_acceptor, 301, None, Segment::Ack(Ack::KeepAlive { stream: id(4) })),
        "ack_reset_stream_modern" => {
            (to_acceptor, 92, None, Segment::Ack(Ack::ResetStream { stream: id(4), error: 258, end: 3 }))
        }
        "ack_of_reset_modern" => (to_initiator, 93, None, Segment::Ack(Ack::OfReset { stream: id(4), served: 61 })),
        "ack_stop_sending_modern" => {
            (to_acceptor, 94, None, Segment::Ack(Ack::StopSending { stream: id(0), error: 7 }))
        }
        "ack_gone_modern" => (to_initiator, 95, None, Segment::Ack(Ack::Gone { stream: id(8) })),
        "ack_session_query_modern" => (to_acceptor, 4, None, Segment::Ack(Ack::SessionQuery { from: 0xC0A1_E5D2 })),
        "ack_reset_ticket_modern_sealed" => (to_initiator, 14, Some(0), Segment::Ack(Ack::ResetTicket)),
        "ack_of_reset_ticket_modern" => (to_acceptor, 61, Some(0), Segment::Ack(Ack::OfResetTicket)),
        "ack_path_challenge_modern" => (to_acceptor, 5_000, Some(1), Segment::Ack(Ack::PathChallenge { token })),
        "ack_path_response_modern" => (to_initiator, 41, Some(0), Segment::Ack(Ack::PathResponse { token })),
        "data_modern" => (to_acceptor, 2, None, Segment::Data(data(0, 0, 0, 1, 51, true))),
        "data_modern_repair" => (to_acceptor, 0xFFFF_FFFE, None, Segment::Data(data(0, 70_000, 45, 45, 63_900, false))),
        "data_modern_sealed" => (to_acceptor, 77, Some(2), Segment::Data(data(0, 9, 300, 256, 524_287, false))),
        "data_stream_modern" => (to_acceptor, 6, None, Segment::Data(data(4, 2, 1, 2, 24, false))),
        "data_stream_modern_sealed" => (to_initiator, 78, Some(3), Segment::Data(data(u32::MAX, 0, 0, 1, 3, true))),
        "data_fragment_modern" => (to_acceptor, 16, None, part(data(0, 5, 4, 3, 20, true), 2, 3)),
        "data_fragment_stream_modern_sealed" => (to_initiator, 17, Some(1), part(data(5, 1, 0, 1, 8, false), 1, 2)),
        "ack_path_probe_modern" => (to_acceptor, 6_000, None, Segment::Ack(Ack::PathProbe)),
        "ack_of_path_probe_modern" => (to_initiator, 99, None, Segment::Ack(Ack::OfPathProbe { echo: 6_000 })),
        "feedback_features_modern" => {
            (to_initiator, 8_193, None, Segment::Report(ReportHeader { receive_queue_kib: 0 }))
        }
        "feedback_modern" => {
            let report = ReportHeader { receive_queue_kib: 33 };
            (to_initiator, 8_192, None, Segment::Report(report))
        }
        "fin_modern" => (to_acceptor, 3, None, Segment::Fin(Fin { stream: id(0), end: 1, ack_proof: None })),
        "fin_stream_modern" => (to_initiator, 90, None, Segment::Fin(Fin { stream: id(3), end: 17, ack_proof: None })),
        "finack_modern" => {
            (to_initiator, 12, None, Segment::Fin(Fin { stream: id(0), end: 3, ack_proof: Some(0x5EB0_A7C4) }))
        }
        "ack_fin_modern" => (to_initiator, 9, None, Segment::Ack(Ack::OfFin { stream: id(0), end: 1, proof: 0 })),
        "ack_fin_stream_modern" => {
            (to_acceptor, 91, None, Segment::Ack(Ack::OfFin { stream: id(3), end: 17, proof: 0x5EB0_A7C4 }))
        }
        "rst_modern" => (to_acceptor, 4, None, reset(ResetReason::Unspecified)),
        "rst_not_admitted_modern" => (to_initiator, 0, None, reset(ResetReason::NotAdmitted)),
        "rst_application_modern" => (to_acceptor, 5, None, reset(ResetReason::Application { error: 0x0102_0304 })),
        "rst_session_unknown_modern" => (to_initiator, 0, None, reset(ResetReason::SessionUnknown)),
        _ => typed_message(name),
    };
    (Envelope { address, number, seal: epoch.map(KeyEpoch::of) }, segment)
}

fn check_clear(header: Clear, datagram: &[u8], envelope: &Envelope, segment: Segment) {
    let address =
        if header.is_syn() { Address::Ports(header.ports()) } else { Address::Connection(header.connection_id()) };
    let received = header.verify(datagram).unwrap();
    let Received { number, payload, .. } = received;
    assert_eq!((received.segment, Envelope { address, number, seal: None }), (segment, *envelope));
    let mut out = [0xAA; DATAGRAM_BYTES_MAX];
    let mut draft = segment.begin(envelope, &mut out);
    draft.payload(payload.len()).unwrap().copy_from_slice(payload);
    let Finished::Complete(length) = draft.finish() else { panic!("{segment:?} is in the clear") };
    assert_eq!(out[..length], *datagram);
}

fn check_sealed(header: Sealed, datagram: &[u8], envelope: &Envelope, segment: Segment) {
    let mut copy = datagram.to_vec();
    let (head, sealed) = header.split(&mut copy).unwrap();
    let (payload, tag) = sealed.split_last_chunk().unwrap();
    let address = Address::Connection(header.connection_id());
    assert_eq!(Envelope { address, number: header.number(), seal: Some(header.epoch()) }, *envelope);
    assert_eq!(header.opened(head, payload), Ok(Received { segment, number: header.number(), payload }));
    let mut out = [0xAA; DATAGRAM_BYTES_MAX];
    let mut draft = segment.begin(envelope, &mut out);
    draft.payload(payload.len()).unwrap().copy_from_slice(payload);
    let Finished::ToSeal(to_seal) = draft.finish() else { panic!("{segment:?} is sealed") };
    *to_seal.tag = *tag;
    let length = to_seal.datagram_bytes();
    assert_eq!(out[..length], *datagram);
}

#[test]
fn typed_segments_are_those_of_the_vectors() {
    for name in NAMES.into_iter().filter(|name| *name != "rejected") {
        println!("{name}");
        let datagram = &read(name)[0].bytes;
        match Unverified::read(datagram).unwrap() {
            Unverified::Clear(header) => {
                let (envelope, segment) = typed_modern(name);
                check_clear(header, datagram, &envelope, segment);
            }
            Unverified::Sealed(header) => {
                let (envelope, segment) = typed_modern(name);
                check_sealed(header, datagram, &envelope, segment);
            }
            Unverified::Classic(header) => {
                let (ports, segment) = typed_classic(name);
                let received = header.verify(datagram).unwrap();
                assert_eq!((received.segment, header.ports()), (segment, ports));
                let mut out = [0xAA; DATAGRAM_BYTES_MAX];
                let mut draft = segment.begin(ports, &mut out);
                draft.payload(received.payload.len()).unwrap().copy_from_slice(received.payload);
                let length = draft.finish();
                assert_eq!(out[..length], *datagram);
            }
        }
    }
}

/// Returns the kind of segment for the name of a vector.
fn kind_of(name: &str) -> &'static str {
    let named = [
        // An acknowledged FIN looks like an acknowledged block: only the connection knows the difference.
        ("ack_fin_classic", "ack_of_block"),
        ("ack_fin", "ack_of_fin"),
        ("ack_block", "ack_of_block"),
        ("ack_noise", "ack_with_noise_message"),
        ("ack_keep_alive", "keep_alive"),
        ("ack_of_path_probe", "ack_of_path_probe"),
        ("ack_path_challenge", "path_challenge"),
        ("ack_path_response", "path_response"),
        ("ack_path_probe", "path_probe"),
        ("ack_reset_stream", "reset_of_stream"),
        ("ack_reset_ticket", "reset_ticket"),
        ("ack_of_reset_ticket", "ack_of_reset_ticket"),
        ("ack_of_reset", "ack_of_reset"),
        ("ack_stop_sending", "stop_sending"),
        ("ack_gone", "gone"),
        ("ack_session_query", "session_query"),
        ("ack", "ack_of_synack"),
        ("data", "data"),
        ("feedback", "report"),
        ("finack", "finack"),
        ("fin", "fin"),
        ("message", "message"),
        ("rst", "rst"),
        ("synack", "synack"),
        ("syn", "syn"),
    ];
    named.into_iter().find(|(prefix, _)| name.starts_with(prefix)).unwrap().1
}

#[test]
fn outlines_are_what_the_vectors_name() {
    for name in NAMES.into_iter().filter(|name| *name != "rejected") {
        let mut vectors = read(name);
        let vector = &mut vectors[0];
        let datagram = vector.bytes.clone();
        let stream = vector.fields.get("stream").map_or(0, |text| number(text) as u32);
        let (header, options) = (header(vector), options(vector));
        let outline = Outline::of(&datagram).unwrap();
        assert_eq!(outline.kind.name(), kind_of(name), "{name}");
        assert_eq!((outline.profile, outline.is_sealed), (header.profile, header.flags.contains(Flags::SEC)), "{name}");
        let address = u32::from(header.source_port) << 16 | u32::from(header.destination_port);
        let fields = [outline.address, outline.block_id, outline.s1, outline.s2, outline.s3, outline.stream.to_word()];
        assert_eq!(fields, [address, header.block_id, header.s1, header.s2, header.s3, stream], "{name}");
        assert_eq!(outline.payload_at, HEADER_BYTES + options.len(), "{name}");
        for length in 0..datagram.len() {
            // A prefix of any length must not panic.
            let _ = Outline::of(&datagram[..length]);
        }
    }
}

/// Decodes a datagram completely, as if its tag were correct. Returns the error, if any.
fn datagram_refusal(bytes: &[u8]) -> Option<DecodeError> {
    match Unverified::read(bytes) {
        Err(error) => Some(error),
        Ok(Unverified::Classic(header)) => header.verify(bytes).err(),
        Ok(Unverified::Clear(header)) => header.verify(bytes).err(),
        Ok(Unverified::Sealed(header)) => {
            header.split(&mut bytes.to_vec()).err().or_else(|| header.opened(bytes, &[]).err())
        }
    }
}

/// Decodes with the decoder that the `decoder` field names. Returns the error, if any.
fn refusal(decoder: &str, bytes: &[u8]) -> Option<DecodeError> {
    match decoder {
        "segment" => datagram_refusal(bytes),
        "handshake" => Parameters::decode(bytes).err(),
        "feedback" => feedback::decode(bytes).err(),
        "s2" => {
            let s2 = u32::from_be_bytes(bytes.try_into().unwrap());
            BlockInfo::from_s2(s2).err().or_else(|| Fragment::from_s2(s2).err())
        }
        other => panic!("{other} is no decoder"),
    }
}

#[test]
fn rejected_vectors_are_refused_for_the_stated_reason() {
    let vectors = read("rejected");
    assert!(vectors.len() >= 30, "only {} cases", vectors.len());
    for mut vector in vectors {
        let case = vector.text("case");
        let (decoder, expected) = (vector.text("decoder"), vector.text("error"));
        let error = refusal(&decoder, &vector.bytes).unwrap_or_else(|| panic!("accepted: {case}"));
        let debug = format!("{error:?}");
        let variant = debug.split([' ', '(']).next().unwrap();
        assert_eq!(variant, expected, "{case}: {error}");
        assert!(error.to_string().len() > 20, "{case}: {error}");
    }
}

/// In segments of optional features, every bit has a meaning or a required value. So any changed bit, with a matching
/// CRC, is decoded differently or refused.
#[test]
fn every_changed_bit_of_a_feature_s_segment_is_refused_or_read_as_something_else() {
    let read = |bytes: &[u8]| match Unverified::read(bytes) {
        Ok(Unverified::Clear(header)) => {
            let address = (header.is_syn(), header.connection_id());
            header.verify(bytes).ok().map(|it| (address, it.segment, it.number, it.payload.to_vec()))
        }
        _ => None,
    };
    let names = NAMES.into_iter().filter(|name| {
        let of_feature = ["message", "fragment", "path_probe"].iter().any(|it| name.contains(it));
        of_feature && !name.ends_with("sealed")
    });
    let mut changed = 0;
    for name in names {
        let bytes = &read_bytes(name);
        let original = read(bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 0x80 >> (bit % 8);
            raw::renew(&mut damaged);
            // Ignored bits: the epoch in plaintext, the block id and S2 of a path probe, and the block id of its
            // answer. Checksum field and CRC are recomputed.
            let ignored = match bit / 8 {
                13 => bit % 8 < 2,
                14..16 => true,
                4..8 => name.contains("path_probe"),
                16..20 => name == "ack_path_probe_modern",
                byte => byte >= bytes.len() - 4,
            };
            assert_eq!(read(&damaged).as_ref() == Some(&original), ignored, "{name}: bit {bit}");
            changed += 1;
        }
    }
    assert!(changed > 1_500, "only {changed} bits");
}

fn read_bytes(name: &str) -> Vec<u8> {
    read(name).remove(0).bytes
}

#[test]
fn no_vector_file_goes_unread() {
    let mut found: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|file| Some(file.strip_prefix("wire_")?.strip_suffix(".txt")?.to_owned()))
        .collect();
    found.sort();
    let mut expected = NAMES.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(found, expected);
}
