use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn entry(name: &str) -> Entry {
    Entry { mode: 0o755, mtime_s: 7, mtime_ns: 0, size_hint_bytes: 0, name: name.as_bytes().to_vec() }
}

fn fresh() -> (tempfile::TempDir, Assembler) {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), false, false).unwrap();
    (output, Assembler::new(Arc::new(store)))
}

fn end_of(data: &[u8]) -> ToReceiver {
    ToReceiver::FileEnd { len: data.len() as u64, hash: *blake3::hash(data).as_bytes() }
}

fn verdicts(assembler: &mut Assembler) -> Vec<(u32, Option<FailureCode>)> {
    let answers = assembler.take_answers();
    let verdict = |answer| match answer {
        ToSender::Verdict { index, outcome } => Some((index, outcome.err().map(|failure| failure.code))),
        _ => None,
    };
    answers.into_iter().filter_map(verdict).collect()
}

/// Every file under `root`, by relative name, with its content.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for found in walkdir::WalkDir::new(root) {
        let found = found.unwrap();
        if found.file_type().is_file() {
            let name = found.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.insert(name, fs::read(found.path()).unwrap());
        }
    }
    files
}

#[test]
fn a_tree_is_rebuilt_and_directories_get_their_time_last() {
    let (output, mut assembler) = fresh();
    for frame in [
        ToReceiver::Directory(entry("d")),
        ToReceiver::Directory(entry("d/e")),
        ToReceiver::File(entry("d/e/f")),
        ToReceiver::Data(b"one".to_vec()),
        end_of(b"one"),
        ToReceiver::File(entry("d/g")),
        end_of(b""),
        ToReceiver::End { entries: 4 },
    ] {
        assembler.handle(&frame).unwrap();
    }
    assert!(assembler.is_finished());
    assert_eq!(assembler.totals(), (4, 0));
    assert_eq!(verdicts(&mut assembler), [(2, None), (1, None), (3, None), (0, None)]);
    assert_eq!(tree(output.path()), BTreeMap::from([("d/e/f".into(), b"one".to_vec()), ("d/g".into(), Vec::new())]));
    for directory in ["d", "d/e"] {
        let time =
            filetime::FileTime::from_last_modification_time(&fs::metadata(output.path().join(directory)).unwrap());
        assert_eq!(time.unix_seconds(), 7, "{directory}");
    }
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let (output, mut assembler) = fresh();
    fs::write(output.path().join("taken"), b"old").unwrap();
    for frame in [
        ToReceiver::File(entry("taken")),
        ToReceiver::Data(b"dropped".to_vec()),
        ToReceiver::FileAbort("the receiver has it".into()),
        ToReceiver::File(entry("../escape")),
        end_of(b""),
        ToReceiver::Directory(entry("/abs")),
        ToReceiver::File(entry("abandoned")),
        ToReceiver::Data(b"x".to_vec()),
        ToReceiver::FileAbort("read\nerror".into()),
        ToReceiver::File(entry("wrong")),
        ToReceiver::Data(b"x".to_vec()),
        end_of(b"y"),
        ToReceiver::File(entry("good")),
        ToReceiver::Data(b"x".to_vec()),
        end_of(b"x"),
        ToReceiver::End { entries: 6 },
    ] {
        assembler.handle(&frame).unwrap();
    }
    assert_eq!(
        verdicts(&mut assembler),
        [
            (0, Some(FailureCode::Exists)),
            (1, Some(FailureCode::Name)),
            (2, Some(FailureCode::Name)),
            (3, Some(FailureCode::GivenUp)),
            (4, Some(FailureCode::Mismatch)),
            (5, None),
        ]
    );
    assert_eq!(assembler.totals(), (1, 5));
    assert_eq!(
        tree(output.path()),
        BTreeMap::from([("good".into(), b"x".to_vec()), ("taken".into(), b"old".to_vec())])
    );
    assert!(assembler.take_outcomes().iter().all(|outcome| !outcome.name.contains('\n')));
}

#[test]
fn frames_out_of_place_end_the_session() {
    for frames in [
        vec![ToReceiver::Data(vec![1])],
        vec![end_of(b"")],
        vec![ToReceiver::FileAbort(String::new())],
        vec![ToReceiver::End { entries: 1 }],
        vec![ToReceiver::File(entry("a")), ToReceiver::File(entry("b"))],
        vec![ToReceiver::File(entry("a")), ToReceiver::End { entries: 1 }],
        vec![ToReceiver::End { entries: 0 }, ToReceiver::File(entry("a"))],
    ] {
        let (output, mut assembler) = fresh();
        let (last, before) = frames.split_last().unwrap();
        for frame in before {
            assembler.handle(frame).unwrap();
        }
        assert!(matches!(assembler.handle(last), Err(TransferError::Protocol(_))), "{frames:?}");
        drop(assembler);
        assert!(tree(output.path()).is_empty(), "{frames:?}");
    }
}

fn frame() -> impl Strategy<Value = ToReceiver> {
    let name = prop_oneof![Just("a"), Just("d"), Just("d/a"), Just("d/e"), Just("d/e/a"), Just(".."), Just("a//b")];
    prop_oneof![
        1 => name.clone().prop_map(|name| ToReceiver::Directory(entry(name))),
        3 => name.prop_map(|name| ToReceiver::File(entry(name))),
        3 => proptest::collection::vec(any::<u8>(), 1..4).prop_map(ToReceiver::Data),
        3 => Just(ToReceiver::FileEnd { len: 0, hash: *blake3::hash(b"").as_bytes() }),
        1 => Just(ToReceiver::FileAbort("because".into())),
        1 => (0u32..4).prop_map(|entries| ToReceiver::End { entries }),
    ]
}

proptest! {
    /// The reference model: a file is there exactly if a verdict said so, with the content that was hashed.
    #[test]
    fn any_sequence_of_frames_stores_only_what_it_confirmed(frames in proptest::collection::vec(frame(), 0..40)) {
        let (output, mut assembler) = fresh();
        let (mut expected, mut entries, mut answered) = (BTreeMap::new(), 0, 0);
        let (mut name, mut data): (Option<String>, Vec<u8>) = (None, Vec::new());
        for mut frame in frames {
            if let ToReceiver::FileEnd { len, hash } = &mut frame {
                *len = data.len() as u64;
                *hash = *blake3::hash(&data).as_bytes();
            }
            if assembler.handle(&frame).is_err() {
                break;
            }
            match &frame {
                ToReceiver::Directory(_) => entries += 1,
                ToReceiver::File(entry) => {
                    entries += 1;
                    name = Some(String::from_utf8(entry.name.clone()).unwrap());
                    data.clear();
                }
                ToReceiver::Data(more) => data.extend_from_slice(more),
                _ => {}
            }
            answered += verdicts(&mut assembler).len();
            for outcome in assembler.take_outcomes() {
                if outcome.failure.is_none() && !outcome.is_directory {
                    prop_assert_eq!(Some(&outcome.name), name.as_ref());
                    prop_assert!(expected.insert(outcome.name, data.clone()).is_none());
                }
            }
        }
        if assembler.is_finished() {
            prop_assert_eq!(answered, entries);
        }
        drop(assembler);
        prop_assert_eq!(tree(output.path()), expected);
    }
}
