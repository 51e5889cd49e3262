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

/// Type and body of the one frame in `bytes`.
fn read_one(bytes: &[u8]) -> (u8, Vec<u8>) {
    let (header, body) = bytes.split_first_chunk().unwrap();
    let header = Header::decode(*header).unwrap();
    assert_eq!(header.body_bytes, body.len());
    (header.kind, body.to_vec())
}

proptest! {
    #[test]
    fn every_frame_of_a_sender_survives_the_wire(frame in to_receiver()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let (kind, mut body) = read_one(&bytes);
        prop_assert_eq!(ToReceiver::decode(kind, &mut body).unwrap(), frame);
    }

    #[test]
    fn every_frame_of_a_receiver_survives_the_wire(frame in to_sender()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let (kind, body) = read_one(&bytes);
        prop_assert_eq!(ToSender::decode(kind, &body).unwrap(), frame);
    }

    #[test]
    fn arbitrary_bytes_never_panic(kind in any::<u8>(), mut body in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = ToSender::decode(kind, &body);
        let _ = ToReceiver::decode(kind, &mut body);
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

/// A confirmation needs no sentence, and one behind it would be taken for something else.
#[test]
fn a_verdict_that_confirms_ends_with_its_code() {
    for code in [0, 12] {
        assert!(ToSender::decode(kind::VERDICT, &[0, 0, 0, 1, code]).is_ok());
        assert!(ToSender::decode(kind::VERDICT, &[0, 0, 0, 1, code, b'x']).is_err());
    }
}

#[test]
fn a_length_above_its_limit_is_refused() {
    for (kind, max) in [(kind::DATA, DATA_BYTES_MAX), (kind::FILE, CONTROL_BYTES_MAX), (0xee, CONTROL_BYTES_MAX)] {
        let header = |len: u32| {
            let [a, b, c, d] = len.to_be_bytes();
            Header::decode([kind, a, b, c, d])
        };
        assert_eq!(header(max as u32), Ok(Header { kind, body_bytes: max }));
        for len in [max as u32 + 1, u32::MAX] {
            assert_eq!(header(len), Err(ProtocolError::TooLarge { len, max }));
        }
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
    assert_eq!(Service::Perf.check(older), Err(ProtocolError::Version { got: 1, ours: 6 }));
    assert_eq!(Service::Files.check(*b"GET / HT"), Err(ProtocolError::Preamble { expected: "file transfer" }));
}
