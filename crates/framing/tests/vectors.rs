//! Golden vectors: frames encode to the bytes listed in `spec/file-transfer.md`.

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::files::{
    Basis, CHUNK_HASH_BYTES, ChunkName, Confirmed, Entry, Hello, Link, LinkKind, Partial, ToReceiver, ToSender,
};
use dfcp_framing::frame::Service;
use dfcp_framing::perf::{Count, Direction, Request, Stage};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hexadecimal vector `name` of `spec/file-transfer.md`.
fn vector(name: &str) -> String {
    include_str!("../../../spec/file-transfer.md")
        .lines()
        .skip_while(|line| *line != format!("```hex {name}"))
        .skip(1)
        .take_while(|line| !line.starts_with("```"))
        .map(|line| line.split('#').next().unwrap_or_default().replace(' ', ""))
        .collect()
}

fn entry(index: u32, name: &[u8], size_hint_bytes: u64) -> Entry {
    Entry {
        index,
        directories: 1,
        mode: 0o644,
        mtime_s: 1,
        mtime_ns: 2,
        size_hint_bytes,
        len: (index > 0).then_some(size_hint_bytes),
        name: name.to_vec(),
    }
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    let mut bytes = Service::Files.preamble().to_vec();
    // BLAKE3 hash of the content `hi\n` below.
    let hash = [
        0x0b, 0x8b, 0x60, 0x24, 0x8f, 0xad, 0x7a, 0xc6, 0xdf, 0xac, 0x22, 0x1b, 0x7e, 0x01, 0xa8, 0xb9, 0x1c, 0x77,
        0x24, 0x21, 0xa1, 0x5b, 0x38, 0x7d, 0xd1, 0xfb, 0x2d, 0x6a, 0x94, 0xae, 0xe4, 0x38,
    ];
    for frame in [
        ToReceiver::Directory(Entry { directories: 0, ..entry(0, b"a", 0) }),
        ToReceiver::End { entries: 2, streams: 1 },
    ] {
        frame.encode(&mut bytes);
    }
    assert_eq!(hex(&bytes), vector("first"));
    bytes.clear();
    for frame in [
        ToReceiver::File(entry(1, b"a/b", 3)),
        ToReceiver::Data(b"hi\n".to_vec()),
        ToReceiver::FileEnd { len: 3, hash },
    ] {
        frame.encode(&mut bytes);
    }
    assert_eq!(hex(&bytes), vector("second"));

    bytes.clear();
    bytes.extend(Service::FilesToCaller.preamble());
    ToSender::Refused(Failure::new(FailureCode::Unsuited, "no")).encode(&mut bytes);
    assert_eq!(hex(&bytes), vector("called"));

    let mut verdict = Vec::new();
    ToSender::Verdict { index: 1, outcome: Ok(Confirmed::Unchanged) }.encode(&mut verdict);
    assert_eq!(hex(&verdict), vector("receiver"));
    let mut file = Vec::new();
    ToReceiver::File(entry(2, b"\xe9", 0)).encode(&mut file);
    assert_eq!(hex(&file), vector("name"));

    let mut resumed = Vec::new();
    let part = [0x5a; 32];
    for frame in [
        ToReceiver::Offer { hash: None, asks_only: false, takes_basis: false, entry: entry(3, b"f", 65_538) },
        ToReceiver::Resume { offset: 65_536, entry: entry(3, b"f", 65_538) },
        ToReceiver::Data(b"hi".to_vec()),
        ToReceiver::Tree(vec![part]),
        ToReceiver::Again { start: 0 },
    ] {
        frame.encode(&mut resumed);
    }
    assert_eq!(hex(&resumed), vector("resumed"));
    let mut answers = Vec::new();
    for frame in [
        ToSender::Hello(Hello { takes_offers: true, partials: 1, ..Hello::default() }),
        ToSender::Partial(Partial { offset: 65_536, len: 65_538, mtime_s: 1, mtime_ns: 2, name: b"f".to_vec() }),
        ToSender::Want { index: 3 },
        ToSender::Checked { index: 3, end: 65_536, differ: vec![0] },
    ] {
        frame.encode(&mut answers);
    }
    assert_eq!(hex(&answers), vector("answers"));
}

#[test]
fn frames_about_older_versions_and_links_are_those_of_the_specification() {
    let (mut changed, mut basis) = (Vec::new(), Vec::new());
    let offer = ToReceiver::Offer { hash: None, asks_only: false, takes_basis: true, entry: entry(4, b"g", 262_144) };
    offer.encode(&mut changed);
    ToReceiver::Copy { start: 0, len: 16_385 }.encode(&mut changed);
    assert_eq!(hex(&changed), vector("changed"));
    let mut links = Vec::new();
    ToReceiver::Links { count: 2 }.encode(&mut links);
    ToReceiver::End { entries: 5, streams: 1 }.encode(&mut links);
    for (index, kind, mtime, target, name) in
        [(5, LinkKind::Symbolic, (1, 2), &b"../b"[..], &b"a/c/l"[..]), (6, LinkKind::Hard, (0, 0), b"a/b", b"a/h")]
    {
        let (target, name) = (target.to_vec(), name.to_vec());
        ToReceiver::Link(Link { index, kind, asks_only: false, mtime_s: mtime.0, mtime_ns: mtime.1, target, name })
            .encode(&mut links);
    }
    assert_eq!(hex(&links), vector("links"));
    let chunks = vec![ChunkName { hash: [0x5a; CHUNK_HASH_BYTES], len: 16_385 }];
    ToSender::Basis(Basis { index: 4, average_bytes: 16_384, chunks }).encode(&mut basis);
    assert_eq!(hex(&basis), vector("basis"));
}

#[test]
fn frames_of_a_measurement_in_both_directions_are_those_of_the_specification() {
    let mut asked = Service::Perf.preamble().to_vec();
    let duration = std::time::Duration::from_secs(10);
    Request { direction: Direction::Both, raw: false, streams: 1, duration, bytes_max: None }.encode(&mut asked);
    assert_eq!(hex(&asked), vector("both"));
    let mut counted = Vec::new();
    Count { stage: Stage::TimeUp, bytes: 12_500_000, elapsed_us: 10_000_000 }.encode(&mut counted);
    assert_eq!(hex(&counted), vector("counted"));
}
