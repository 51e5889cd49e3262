use super::*;
use proptest::prelude::*;

fn entry() -> impl Strategy<Value = Entry> {
    let order = (any::<u32>(), any::<u32>());
    let name = proptest::collection::vec(any::<u8>(), 0..300);
    (order, any::<u32>(), any::<i64>(), 0u32..1_000_000_000, any::<u64>(), name).prop_map(
        |((index, directories), mode, mtime_s, mtime_ns, size_hint_bytes, name)| Entry {
            index,
            directories,
            mode,
            mtime_s,
            mtime_ns,
            size_hint_bytes,
            name,
        },
    )
}

fn to_receiver() -> impl Strategy<Value = ToReceiver> {
    prop_oneof![
        entry().prop_map(ToReceiver::Directory),
        entry().prop_map(ToReceiver::File),
        proptest::collection::vec(any::<u8>(), 1..2000).prop_map(ToReceiver::Data),
        (any::<u64>(), any::<[u8; 32]>()).prop_map(|(len, hash)| ToReceiver::FileEnd { len, hash }),
        ".{0,40}".prop_map(ToReceiver::FileAbort),
        (any::<u32>(), any::<u32>()).prop_map(|(entries, streams)| ToReceiver::End { entries, streams }),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    (prop_oneof![1u8..=11, Just(13)], ".{0,40}").prop_map(|(code, sentence)| {
        Failure::new(FailureCode::from_wire(code).expect("a code of this version"), sentence)
    })
}

fn progress() -> impl Strategy<Value = Progress> {
    (any::<u64>(), any::<u64>()).prop_map(|(received_bytes, disk_us)| Progress { received_bytes, disk_us })
}

fn to_sender() -> impl Strategy<Value = ToSender> {
    prop_oneof![
        (any::<u32>(), any::<bool>()).prop_map(|(index, stored)| ToSender::Verdict {
            index,
            outcome: Ok(if stored { Confirmed::Stored } else { Confirmed::Unchanged }),
        }),
        (any::<u32>(), failure()).prop_map(|(index, failure)| ToSender::Verdict { index, outcome: Err(failure) }),
        progress().prop_map(ToSender::Progress),
        (any::<u32>(), any::<u32>(), progress()).prop_map(|(stored, failed, progress)| ToSender::Summary {
            stored,
            failed,
            progress
        }),
        failure().prop_map(ToSender::Refused),
    ]
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn read_one(mut bytes: &[u8]) -> Result<Option<(u8, Vec<u8>)>, TransferError> {
    let mut body = Vec::new();
    let kind = block_on(read_frame(&mut bytes, &mut body))?;
    assert!(kind.is_none() || bytes.is_empty());
    Ok(kind.map(|kind| (kind, body)))
}

proptest! {
    #[test]
    fn every_frame_of_a_sender_survives_the_wire(frame in to_receiver()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let (kind, mut body) = read_one(&bytes).unwrap().unwrap();
        prop_assert_eq!(ToReceiver::decode(kind, &mut body).unwrap(), frame);
    }

    #[test]
    fn every_frame_of_a_receiver_survives_the_wire(frame in to_sender()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let (kind, body) = read_one(&bytes).unwrap().unwrap();
        prop_assert_eq!(ToSender::decode(kind, &body).unwrap(), frame);
    }

    #[test]
    fn arbitrary_bytes_never_panic(kind in any::<u8>(), body in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = ToSender::decode(kind, &body);
        let _ = ToReceiver::decode(kind, &mut body.clone());
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&body);
        let mut rest = &bytes[..];
        let _ = block_on(read_frame(&mut rest, &mut Vec::new()));
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(kind in 1u8..8, body in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(frame) = ToReceiver::decode(kind, &mut body.clone()) {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            prop_assert_eq!(&bytes[HEADER_BYTES..], &body[..]);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One of `spec/file-transfer.md`.
fn vector(name: &str) -> String {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/file-transfer.md")).unwrap();
    text.lines()
        .skip_while(|line| *line != format!("```hex {name}"))
        .skip(1)
        .take_while(|line| !line.starts_with("```"))
        .map(|line| line.split('#').next().unwrap_or_default().replace(' ', ""))
        .collect()
}

/// A confirmation needs no sentence, and one behind it would be taken for something else.
#[test]
fn a_verdict_that_confirms_ends_with_its_code() {
    for code in [0, 12] {
        assert!(ToSender::decode(kind::VERDICT, &[0, 0, 0, 1, code]).is_ok());
        assert!(ToSender::decode(kind::VERDICT, &[0, 0, 0, 1, code, b'x']).is_err());
    }
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    let mut bytes = Service::Files.preamble().to_vec();
    let hash = *blake3::hash(b"hi\n").as_bytes();
    let entry = |index, name: &[u8], size_hint_bytes| Entry {
        index,
        directories: 1,
        mode: 0o644,
        mtime_s: 1,
        mtime_ns: 2,
        size_hint_bytes,
        name: name.to_vec(),
    };
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

    let mut verdict = Vec::new();
    ToSender::Verdict { index: 1, outcome: Ok(Confirmed::Unchanged) }.encode(&mut verdict);
    assert_eq!(hex(&verdict), vector("receiver"));
    let mut file = Vec::new();
    ToReceiver::File(entry(2, b"\xe9", 0)).encode(&mut file);
    assert_eq!(hex(&file), vector("name"));
}

#[test]
fn a_frame_cut_anywhere_is_a_peer_that_closed() {
    let mut bytes = Vec::new();
    ToReceiver::FileEnd { len: 1, hash: [7; 32] }.encode(&mut bytes);
    assert!(read_one(&[]).unwrap().is_none());
    for cut in 1..bytes.len() {
        assert!(matches!(read_one(&bytes[..cut]), Err(TransferError::PeerClosed)), "cut at {cut}");
    }
}

#[test]
fn a_length_above_its_limit_is_refused_before_memory_is_taken() {
    for (kind, max) in [(kind::DATA, DATA_BYTES_MAX), (kind::FILE, CONTROL_BYTES_MAX), (0xee, CONTROL_BYTES_MAX)] {
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&(max as u32 + 1).to_be_bytes());
        let mut body = Vec::new();
        let error = block_on(read_frame(&mut &bytes[..], &mut body)).unwrap_err();
        assert!(matches!(error, TransferError::Protocol(ProtocolError::TooLarge { .. })), "{error}");
        assert_eq!(body.capacity(), 0);
    }
}

#[test]
fn preambles_of_others_are_told_apart() {
    let good = Service::Files.preamble();
    assert_eq!(Service::Files.check(good), Ok(()));
    assert_eq!(Service::Perf.check(good), Err(ProtocolError::Preamble { expected: "perf" }));
    let mut newer = good;
    newer[5] = 9;
    assert_eq!(Service::Files.check(newer), Err(ProtocolError::Version { got: 9, ours: 2 }));
    let mut older = Service::Perf.preamble();
    older[5] = 1;
    assert_eq!(Service::Perf.check(older), Err(ProtocolError::Version { got: 1, ours: 5 }));
    assert_eq!(Service::Files.check(*b"GET / HT"), Err(ProtocolError::Preamble { expected: "file transfer" }));
}
