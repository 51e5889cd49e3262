//! Inputs with which fuzzing starts, kept in `seeds/` and written by `cargo run -p dfcp-fuzz --example write_seeds`:
//! inputs that random bytes find slowly, such as whole handshakes and valid texts.

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::files::{
    Basis, CHUNK_HASH_BYTES, ChunkName, Confirmed, Delete, Entry, Hello, Link, LinkKind, Listing, Partial, Progress,
    ToReceiver, ToSender,
};
use dfcp_framing::frame::Service;
use dfcp_secure::StaticKey;
use dfcp_testkit::raw::{self, Header};
use dfcp_wire::feedback::Wasted;
use dfcp_wire::feedback::{EcnCounts, LossRun, Mark, MessageRun, Report, ReportWriter, Run, StreamState, SymbolSet};
use dfcp_wire::handshake::{Offer, PARAMETERS_BYTES, Parameters};
use dfcp_wire::segment::SynOptions;
use dfcp_wire::{BlockInfo, Features, Flags, Profile, StreamId, StreamLimits, SymbolSize, VERSION};

use crate::input::filler;

/// An initial input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Name of the target, and of the folder.
    pub target: &'static str,
    /// File name.
    pub name: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// All seeds. The result is always the same.
#[must_use]
pub fn all() -> Vec<Seed> {
    let named = [wire(), texts(), frames(), names(), scenarios()].concat();
    let mut seeds: Vec<Seed> =
        named.into_iter().map(|(target, name, bytes)| Seed { target, name: name.to_owned(), bytes }).collect();
    for (target, lengths) in [
        ("secure_handshake", [12, 40, 120]),
        ("secure_packets", [60, 300, 1_200]),
        ("fountain_decoder", [40, 300, 900]),
        ("raptor_decoder", [20, 80, 200]),
        ("connection", [200, 700, 1_900]),
        ("connection_messages", [200, 700, 1_900]),
        ("connection_unsealed", [200, 700, 1_900]),
        ("connection_classic", [60, 200, 500]),
        ("feedback_session", [200, 700, 1_900]),
    ] {
        for (salt, length) in (1..).zip(lengths) {
            seeds.push(Seed { target, name: format!("any-{length}"), bytes: filler(salt, length) });
        }
    }
    seeds
}

type Named = (&'static str, &'static str, Vec<u8>);

fn parameters() -> Vec<u8> {
    let parameters = Parameters {
        connection_id: 7,
        offer: Offer {
            window_blocks: 4_096,
            receive_memory_bytes: 32 << 20,
            rate_max_bps: 0,
            idle_timeout_ms: 30_000,
            streams: StreamLimits { bidirectional: 16, one_way: 3 },
        },
    };
    let mut out = vec![0; PARAMETERS_BYTES];
    parameters.encode(&mut out).expect("room for the parameters");
    out
}

fn report() -> Vec<u8> {
    let report = Report {
        highest_datagram: 90,
        datagrams_received: 80,
        bytes_received: 100_000,
        hold_us: 250,
        arrival_rate_bps: 10_000_000,
        memory_kib: 32 << 10,
        streams: StreamLimits { bidirectional: 16, one_way: 3 },
        wasted: Wasted { dependent: 1, late: 2, refused: 3 },
    };
    let mut out = vec![0; 200];
    let mut writer = ReportWriter::new(&mut out, &report).expect("room for the report");
    let runs = [Run::Open { missing: 5 }, Run::Complete(70), Run::Open { missing: 200 }, Run::Empty(256)];
    let told = writer.unseen(StreamLimits { bidirectional: 4, one_way: 0 });
    let mut record = writer.stream(&StreamState::default()).expect("room for a record");
    let fits = told && runs.into_iter().all(|run| record.push(run));
    record.finish();
    let stream = StreamId::from_word(8);
    writer.stream(&StreamState { stream, ..StreamState::default() }).expect("room for another").finish();
    let length = writer.finish();
    out.truncate(if fits { length } else { 0 });
    out
}

/// A report with the records that are optional features.
fn report_of_features() -> Vec<u8> {
    let mut out = vec![0; 300];
    let mut writer = ReportWriter::new(&mut out, &Report::default()).expect("there is room");
    let mark = |back_us| Mark { back_us, numbers_back: back_us / 9, received_back: back_us / 10 };
    let fits = writer.arrival_clock(1 << 31) && writer.marks(&[mark(100), mark(20_000)]);
    let fits = fits && writer.ecn(EcnCounts { ce: 3, ect: 900 });
    let runs = [LossRun { gap: 1, length: 2 }, LossRun { gap: 70, length: 20_000 }];
    let fits = fits && writer.loss_runs(runs) == Some(runs.len());
    let mut list = writer.messages(40).expect("room for a record");
    let some = SymbolSet::new(&[0xA0, 0x40]).expect("its last byte is not zero");
    let states = [MessageRun::Complete(70), MessageRun::Partial(some), MessageRun::Empty(2)];
    let fits = fits && states.into_iter().all(|run| list.push(run));
    list.finish(9);
    let length = writer.finish();
    out.truncate(if fits { length } else { 0 });
    out
}

/// One datagram of each kind, and the payloads alone.
fn wire() -> Vec<Named> {
    let options =
        SynOptions { version: VERSION, code: 1, symbol_size: SymbolSize::nearest(1_420), features: Features::NONE }
            .to_bytes();
    let plain = Header {
        source_port: 1,
        destination_port: 2,
        block_id: 3,
        s1: 400,
        flags: Flags::NONE,
        profile: Profile::Modern,
        is_message: false,
        epoch: 0,
        s2: BlockInfo { k: 45, length_bytes: 63_900, end_of_stream: true }.to_s2(),
        s3: 90,
    };
    let classic = Header { profile: Profile::Classic, ..plain };
    let block_length_1000 = [5, 4, 0, 0, 3, 0xE8, 0, 0];
    let syn = raw::write(&Header { flags: Flags::SYN, ..plain }, &options, &parameters());
    let area = [&[1][..], &options].concat();
    let message = Header { is_message: true, s2: 2 << 24 | 3_000 << 5, ..plain };
    let (words, group) = ([0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 1, 0], [0, 4, 0, 8]);
    let probe = Header { flags: Flags::ACK, s1: 8, ..plain };
    let (query, unknown) = (Header { s1: 11, ..probe }, Header { flags: Flags::RST, s1: 5, ..plain });
    let ticket = Header { s1: 12, ..probe };
    vec![
        ("wire_segment", "syn", syn),
        ("wire_segment", "data", raw::write(&plain, &[], &filler(1, 100))),
        ("wire_segment", "data-of-a-stream", raw::write(&plain, &[0, 0, 0, 4], &filler(1, 100))),
        ("wire_segment", "fragment", raw::write(&Header { s2: plain.s2 | 0b1001, ..plain }, &[], &filler(1, 100))),
        ("wire_segment", "message", raw::write(&message, &words, &filler(1, 100))),
        ("wire_segment", "messages", raw::write(&Header { s2: 0, ..message }, &[&words[..], &group].concat(), &[7])),
        ("wire_segment", "path-probe", raw::write(&probe, &[], &[0; 100])),
        ("wire_segment", "session-query", raw::write(&query, &[], &filler(3, 32))),
        ("wire_segment", "session-unknown", raw::write(&unknown, &[], &filler(3, 16))),
        ("wire_segment", "reset-ticket", raw::write(&ticket, &[], &filler(3, 32))),
        ("wire_segment", "report", raw::write(&Header { flags: Flags::FBK, ..plain }, &[], &report())),
        ("wire_segment", "classic", raw::write(&classic, &block_length_1000, &filler(2, 60))),
        ("wire_options", "modern", area),
        ("wire_options", "classic", vec![0, 5, 4, 0, 0, 3, 0xE8]),
        ("wire_handshake", "all", parameters()),
        ("wire_handshake", "unknown", [&parameters()[..], &[100, 0, 2, 1, 2]].concat()),
        ("wire_feedback", "runs", report()),
        ("wire_feedback", "features", report_of_features()),
        ("wire_feedback", "no-runs", report()[..52].to_vec()),
    ]
}

fn texts() -> Vec<Named> {
    let key = StaticKey::from_seed(&[1; 32]).public();
    let with = |choice: u8, text: String| [&[choice][..], text.as_bytes()].concat();
    let file = "0123456789abcdef0123456789abcdef\r\n".to_owned();
    vec![
        ("secure_files", "key", with(0, key.to_string())),
        ("secure_files", "key-padded", with(0, format!("{key}="))),
        ("secure_files", "fingerprint", with(0, key.fingerprint().to_string())),
        ("secure_files", "key-changed", [&[1][..], &key.0, &[1, 0, 9, 0, 3]].concat()),
        ("secure_files", "key-file", with(2, format!("\0\0\0\0\0{file}"))),
        ("secure_files", "key-file-changed", with(2, format!("\u{4}\0\u{20}\0\u{1}{file}"))),
        ("secure_files", "cookie", [&[3, 9, 5, 3][..], b"\x06\xC0\0\x02\x01\x23\x28first\0\x01"].concat()),
    ]
}

fn link(index: u32, kind: LinkKind, target: &[u8], name: &[u8]) -> ToReceiver {
    let (target, name) = (target.to_vec(), name.to_vec());
    ToReceiver::Link(Link { index, kind, asks_only: false, mtime_s: -5, mtime_ns: 9, target, name })
}

fn frames() -> Vec<Named> {
    let entry = Entry {
        index: 1,
        directories: 1,
        mode: 0o644,
        mtime_s: -5,
        mtime_ns: 999_999_999,
        size_hint_bytes: 11,
        len: Some(11),
        name: b"music/\xC3\xA9tude no. 3/take..1".to_vec(),
    };
    let mut sender = vec![0];
    for frame in [
        ToReceiver::Directory(Entry { index: 0, directories: 0, name: b"music".to_vec(), ..entry.clone() }),
        ToReceiver::Delete(Delete { asks_only: true, patterns: vec![b"*.o".to_vec(), b"cache/".to_vec()] }),
        ToReceiver::Listing(Listing {
            is_last: true,
            directory: b"music".to_vec(),
            names: vec![b"a".to_vec(), b"b".to_vec()],
        }),
        ToReceiver::Offer { hash: Some([7; 32]), asks_only: true, takes_basis: true, entry: entry.clone() },
        ToReceiver::Resume { offset: 5, entry: entry.clone() },
        ToReceiver::Tree(vec![[1; 32], [2; 32]]),
        ToReceiver::Again { start: 0 },
        ToReceiver::File(entry),
        ToReceiver::Data(b"eleven byte".to_vec()),
        ToReceiver::Copy { start: 5, len: 6 },
        ToReceiver::FileEnd { len: 11, hash: [9; 32] },
        ToReceiver::FileAbort("it went away".to_owned()),
        ToReceiver::Links { count: 2 },
        ToReceiver::End { entries: 2, streams: 1 },
        link(2, LinkKind::Symbolic, b"../take", b"music/notes/l"),
        link(3, LinkKind::Hard, b"music/a", b"music/b"),
    ] {
        frame.encode(&mut sender);
    }
    let mut receiver = vec![0];
    let progress = Progress { received_bytes: 11, disk_us: 40 };
    for frame in [
        ToSender::Verdict { index: 0, outcome: Ok(Confirmed::Stored) },
        ToSender::Verdict { index: 1, outcome: Err(Failure::new(FailureCode::Exists, "it exists")) },
        ToSender::Hello(Hello { takes_offers: true, deletes: true, keeps_links: true, partials: 1 }),
        ToSender::Partial(Partial { offset: 5, len: 11, mtime_s: -5, mtime_ns: 9, name: b"music/a".to_vec() }),
        ToSender::Basis(Basis {
            index: 1,
            average_bytes: 16_384,
            chunks: vec![ChunkName { hash: [3; CHUNK_HASH_BYTES], len: 9_000 }],
        }),
        ToSender::Want { index: 1 },
        ToSender::Checked { index: 1, end: 5, differ: vec![0] },
        ToSender::Deleted { failure: Some(FailureCode::Permission), name: b"music/c".to_vec() },
        ToSender::Swept { told: 1, unnamed: 2 },
        ToSender::Progress(progress),
        ToSender::Summary { stored: 1, failed: 1, progress },
        ToSender::Refused(Failure::new(FailureCode::Busy, "come back later")),
    ] {
        frame.encode(&mut receiver);
    }
    vec![("file_framing", "sender", sender), ("file_framing", "receiver", receiver)]
}

fn names() -> Vec<Named> {
    let named = |name: &[u8]| [&[2], name].concat();
    vec![
        ("file_framing", "name", named(b"a/b c/..d/...")),
        ("file_framing", "name-escapes", named(b"a/../../etc/passwd")),
        ("file_framing", "name-bytes", named(b"caf\xe9/\xff\xfe")),
        ("file_framing", "name-reserved", named(b"a/.dfcp-1.part")),
        ("file_framing", "name-reserved-folded", named("a/.DFCP-1\u{200b}.Part. .".as_bytes())),
        ("file_framing", "name-reserved-stream", named(b"a/.dfcp-1.part::$DATA")),
        ("file_framing", "name-reserved-short", named(b"a/DFCP-0~1.PAR")),
        ("file_framing", "preamble", [&[3][..], &Service::Files.preamble()].concat()),
    ]
}

/// Undisturbed transfers, which the fuzzer can mutate.
fn scenarios() -> Vec<Named> {
    // Default configurations of both ends, and the choice to settle at the end; see `connection`.
    let modern = [&[0; 20][..], &[1]].concat();
    let sealed = [&[0; 21][..], &[1]].concat();
    let classic = [&[0; 22][..], &[1]].concat();
    const FORTH: u8 = 13;
    const BACK: u8 = 13 | 0x80;
    const TIMER: u8 = 8;
    let opening = [FORTH, BACK, FORTH, BACK];
    let write = |length: u16| [&[0, 0][..], &length.to_le_bytes()].concat();
    let turns = |count: usize| [TIMER, FORTH, TIMER, BACK, 3, 0xFF, 0xFF, 0x83, 0xFF, 0xFF].repeat(count);
    let transfer = |head: &[u8], length: u16| {
        [head, &opening[..], &write(length), &[5], &turns(12), &[6, 0, 0x86, 0], &turns(8)].concat()
    };
    // A message of each length in each direction, with a lifetime of a quarter of a second, read afterwards; see
    // `connection::act_on_messages`.
    let both = |length: u8| [[97, 1, 255, 0, length], [225, 1, 255, 0, length]].concat();
    let sent: Vec<u8> = (0..6).flat_map(|length| [both(length), turns(2)].concat()).collect();
    let messages =
        [&sealed[..], &opening, &opening, &sent, &turns(4), &[97, 0, 225, 0], &[6, 0, 0x86, 0], &turns(8)].concat();
    // Choices of a session: first the SYNACK, then operations; see `feedback_session::run`.
    let head = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20];
    // All but a few symbols of the newest block have arrived; then 200 ms pass.
    let report = [5, 1, 0, 255, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 4];
    let session = [&head[..], &[0, 0, 0xFF, 0xFF, 3, 4], &report.repeat(4), &[13, 3, 3, 6], &report.repeat(3)].concat();
    // Two datagrams whose numbers differ by `step`. The newer one is delivered first, and each is repeated once; see
    // `secure_packets::run`.
    let around = |step: u8, more: u8| {
        let seal_two = [0, 0, 0, 0, 0, 0, 0, step, more, 0, 0, 0];
        [&seal_two[..], &[3, 0, 3, 1, 3, 0, 3, 1, 6, 0, 3, 0, 0, 0, 1]].concat()
    };
    let in_order: Vec<u8> = [&[1, 20, 200, 0, 1, 0][..], &[0; 19]].concat();
    vec![
        ("connection", "long", transfer(&sealed, 60_000)),
        ("connection", "short", transfer(&sealed, 1)),
        ("connection_messages", "long", messages),
        ("connection_unsealed", "long", transfer(&modern, 60_000)),
        ("connection_classic", "short", transfer(&classic, 5_000)),
        ("feedback_session", "honest", session),
        ("fountain_decoder", "in-order", in_order),
        ("secure_packets", "window-edge", around(4, 1)),
        ("secure_packets", "window-inside", around(4, 0)),
        ("secure_packets", "epoch-edge", around(5, 2)),
        ("secure_packets", "epoch-before", around(5, 0)),
        ("secure_packets", "previous-epoch", [around(5, 2), around(6, 2)[1..].to_vec()].concat()),
        ("raptor_decoder", "enough", vec![0, 0, 15, 0, 0, 15, 16, 0, 15, 32, 15, 0, 15, 48]),
    ]
}
