use proptest::prelude::*;

use super::*;
use crate::error::{Failure, FailureCode, ProtocolError};
use crate::frame::{HEADER_BYTES, Header, kind};
use crate::limits::{CONTROL_BYTES_MAX, LINK_TARGET_BYTES_MAX, LINKS_MAX, NAME_BYTES_MAX};

fn entry() -> impl Strategy<Value = Entry> {
    let order = (any::<u32>(), any::<u32>());
    let lengths = (any::<u64>(), proptest::option::of(0..u64::MAX));
    let name = proptest::collection::vec(any::<u8>(), 0..300);
    (order, any::<u32>(), any::<i64>(), 0u32..1_000_000_000, lengths, name).prop_map(
        |((index, directories), mode, mtime_s, mtime_ns, (size_hint_bytes, len), name)| Entry {
            index,
            directories,
            mode,
            mtime_s,
            mtime_ns,
            size_hint_bytes,
            len,
            name,
        },
    )
}

/// Strategy for an entry of a file with a known length, and an offset within that length.
fn known_entry() -> impl Strategy<Value = (Entry, u64)> {
    (entry(), 0..u64::MAX, any::<u64>()).prop_map(|(entry, len, place)| {
        let offset = place % (len + 1);
        (Entry { len: Some(len), ..entry }, offset)
    })
}

fn listing() -> impl Strategy<Value = Listing> {
    let name = || proptest::collection::vec(any::<u8>(), 1..20);
    let component = name().prop_filter("a component", |name| {
        !matches!(&name[..], b"." | b"..") && !name.contains(&0) && !name.contains(&b'/')
    });
    let names = proptest::collection::btree_set(component, 0..10);
    (any::<bool>(), name(), names).prop_map(|(is_last, directory, names)| Listing {
        is_last,
        directory,
        names: names.into_iter().collect(),
    })
}

fn delete() -> impl Strategy<Value = Delete> {
    let patterns = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..10);
    (any::<bool>(), patterns).prop_map(|(asks_only, patterns)| Delete { asks_only, patterns })
}

fn link() -> impl Strategy<Value = Link> {
    let text = |bytes_max| proptest::collection::vec(any::<u8>(), 0..bytes_max);
    (any::<u32>(), any::<(bool, bool)>(), any::<i64>(), 0u32..1_000_000_000, text(300), text(300)).prop_map(
        |(index, (is_hard, asks_only), mtime_s, mtime_ns, target, name)| {
            let kind = if is_hard { LinkKind::Hard } else { LinkKind::Symbolic };
            Link { index, kind, asks_only, mtime_s, mtime_ns, target, name }
        },
    )
}

fn to_receiver() -> impl Strategy<Value = ToReceiver> {
    prop_oneof![
        entry().prop_map(ToReceiver::Directory),
        entry().prop_map(ToReceiver::File),
        proptest::collection::vec(any::<u8>(), 1..2000).prop_map(ToReceiver::Data),
        known_entry().prop_map(|(entry, offset)| ToReceiver::Resume { offset, entry }),
        (known_entry(), any::<Option<[u8; 32]>>(), any::<(bool, bool)>()).prop_map(
            |((entry, _), hash, (asks_only, takes_basis))| ToReceiver::Offer { hash, asks_only, takes_basis, entry }
        ),
        (any::<u64>(), any::<u32>()).prop_map(|(start, len)| ToReceiver::Copy { start, len }),
        delete().prop_map(ToReceiver::Delete),
        listing().prop_map(ToReceiver::Listing),
        (1..=LINKS_MAX).prop_map(|count| ToReceiver::Links { count }),
        link().prop_map(ToReceiver::Link),
        proptest::collection::vec(any::<[u8; 32]>(), 0..5).prop_map(ToReceiver::Tree),
        any::<u64>().prop_map(|start| ToReceiver::Again { start }),
        (any::<u64>(), any::<[u8; 32]>()).prop_map(|(len, hash)| ToReceiver::FileEnd { len, hash }),
        ".{0,40}".prop_map(ToReceiver::FileAbort),
        (any::<u32>(), any::<u32>()).prop_map(|(entries, streams)| ToReceiver::End { entries, streams }),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    (prop_oneof![1u8..=11, 13u8..=15], ".{0,40}").prop_map(|(code, sentence)| {
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
        (any::<(bool, bool, bool)>(), any::<u32>()).prop_map(|((takes_offers, deletes, keeps_links), partials)| {
            ToSender::Hello(Hello { takes_offers, deletes, keeps_links, partials })
        }),
        (prop_oneof![0u8..=11, 13u8..=15], proptest::collection::vec(any::<u8>(), 0..30))
            .prop_map(|(code, name)| ToSender::Deleted { failure: FailureCode::from_wire(code), name }),
        known_entry().prop_map(|(entry, offset)| ToSender::Partial(Partial {
            offset,
            len: entry.len.unwrap_or_default(),
            mtime_s: entry.mtime_s,
            mtime_ns: entry.mtime_ns,
            name: entry.name,
        })),
        any::<u32>().prop_map(|index| ToSender::Want { index }),
        any::<(u32, u32)>().prop_map(|(told, unnamed)| ToSender::Swept { told, unnamed }),
        (any::<u32>(), any::<u32>(), proptest::collection::vec((any::<[u8; 16]>(), any::<u32>()), 0..5)).prop_map(
            |(index, average_bytes, chunks)| {
                let chunks = chunks.into_iter().map(|(hash, len)| ChunkName { hash, len }).collect();
                ToSender::Basis(Basis { index, average_bytes, chunks })
            }
        ),
        (any::<u32>(), any::<u64>(), proptest::collection::vec(any::<u64>(), 0..5))
            .prop_map(|(index, end, differ)| ToSender::Checked { index, end, differ }),
    ]
}

/// Decodes the only frame in `bytes`, into its type and body.
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
    fn what_decodes_encodes_to_the_same_bytes(kind in 1u8..16, body in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(frame) = ToReceiver::decode(kind, &mut body.clone()) {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            prop_assert_eq!(&bytes[HEADER_BYTES..], &body[..]);
        }
    }
}

/// A success verdict has no sentence, as a sentence after its code would be misread.
#[test]
fn a_verdict_that_confirms_ends_with_its_code() {
    for code in [0, 12] {
        assert!(ToSender::decode(kind::VERDICT, &[0, 0, 0, 1, code]).is_ok());
        assert!(ToSender::decode(kind::VERDICT, &[0, 0, 0, 1, code, b'x']).is_err());
    }
}

/// A file of unknown length, or shorter than its partial copy, cannot be resumed or offered.
#[test]
fn a_file_without_a_length_is_neither_resumed_nor_offered() {
    let entry = |len| Entry {
        index: 0,
        directories: 0,
        mode: 0o644,
        mtime_s: 1,
        mtime_ns: 2,
        size_hint_bytes: 0,
        len,
        name: b"f".to_vec(),
    };
    for (frame, frame_kind) in [
        (ToReceiver::Resume { offset: 0, entry: entry(None) }, kind::RESUME),
        (ToReceiver::Resume { offset: 8, entry: entry(Some(7)) }, kind::RESUME),
        (ToReceiver::Offer { hash: None, asks_only: false, takes_basis: false, entry: entry(None) }, kind::OFFER),
    ] {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let mut body = bytes.split_off(HEADER_BYTES);
        assert!(matches!(ToReceiver::decode(frame_kind, &mut body), Err(ProtocolError::Malformed { .. })), "{frame:?}");
    }
}

/// The longest link fits into a frame; a longer target, an unknown flag or a truncated link is malformed.
#[test]
fn a_link_has_bounded_parts_and_known_flags() {
    let link = |target_bytes, flags: Option<u8>| {
        let kind = LinkKind::Hard;
        let (target, name) = (vec![b't'; target_bytes], vec![b'n'; NAME_BYTES_MAX]);
        let link = Link { index: 1, kind, asks_only: true, mtime_s: 2, mtime_ns: 3, target, name };
        let mut bytes = Vec::new();
        ToReceiver::Link(link).encode(&mut bytes);
        let mut body = bytes.split_off(HEADER_BYTES);
        body[0] = flags.unwrap_or(body[0]);
        body
    };
    let longest = link(LINK_TARGET_BYTES_MAX, None);
    assert!(longest.len() <= CONTROL_BYTES_MAX, "{}", longest.len());
    let decode = |mut body: Vec<u8>| ToReceiver::decode(kind::LINK, &mut body);
    assert!(decode(longest).is_ok());
    for hostile in [link(LINK_TARGET_BYTES_MAX + 1, None), link(1, Some(4)), link(1, None)[..18].to_vec()] {
        assert!(matches!(decode(hostile), Err(ProtocolError::Malformed { frame: "link" })));
    }
    for count in [0, LINKS_MAX + 1, u32::MAX] {
        let decoded = ToReceiver::decode(kind::LINKS, &mut count.to_be_bytes().to_vec());
        assert!(matches!(decoded, Err(ProtocolError::Malformed { frame: "links" })), "{count}");
    }
}
