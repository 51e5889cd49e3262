use super::*;
use crate::limits::UNPUBLISHED_DESCRIPTORS_MAX;
use crate::store::{Store, StoreOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

fn entry(name: &str) -> Entry {
    Entry {
        index: 0,
        directories: 0,
        mode: 0o755,
        mtime_s: 7,
        mtime_ns: 0,
        size_hint_bytes: 0,
        len: None,
        name: name.as_bytes().to_vec(),
    }
}

/// Sends frames on the first stream. Entries are numbered in order, and the end frame ends the session.
struct Player {
    assembler: Assembler,
    entries: u32,
    directories: u32,
    is_finished: bool,
}

impl Player {
    fn new(target: impl Into<Target>) -> Self {
        Self {
            assembler: Assembler::new(target, None, Arc::new(|_| {})),
            entries: 0,
            directories: 0,
            is_finished: false,
        }
    }

    fn handle(&mut self, frame: &ToReceiver) -> Result<(), TransferError> {
        let mut frame = frame.clone();
        if let ToReceiver::Directory(entry) | ToReceiver::File(entry) = &mut frame {
            (entry.index, entry.directories) = (self.entries, self.directories);
            self.entries += 1;
        }
        self.directories += u32::from(matches!(frame, ToReceiver::Directory(_)));
        self.assembler.handle(0, &frame)?;
        if let ToReceiver::End { .. } = frame {
            self.assembler.finish()?;
            self.is_finished = true;
        }
        Ok(())
    }
}

impl std::ops::Deref for Player {
    type Target = Assembler;
    fn deref(&self) -> &Assembler {
        &self.assembler
    }
}

impl std::ops::DerefMut for Player {
    fn deref_mut(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}

fn fresh() -> (tempfile::TempDir, Player) {
    fresh_with(StoreOptions::default())
}

fn fresh_with(options: StoreOptions) -> (tempfile::TempDir, Player) {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), options).unwrap();
    (output, Player::new(Arc::new(store)))
}

fn flushing_options() -> StoreOptions {
    StoreOptions {
        replace: false.into(),
        sync: true,
        preserve_modes: false,
        session_bytes_max: None,
        keep_unfinished: false,
        allow_update: false,
        allow_delete: false.into(),
    }
}

/// Returns options by which every sender may learn about existing files.
fn telling_options() -> StoreOptions {
    StoreOptions { sync: false, allow_update: true, ..flushing_options() }
}

fn store_file(assembler: &mut Player, name: &str, data: &[u8]) {
    assembler.handle(&ToReceiver::File(entry(name))).unwrap();
    for piece in data.chunks(1 << 20) {
        assembler.handle(&ToReceiver::Data(piece.to_vec())).unwrap();
    }
    assembler.handle(&end_of(data)).unwrap();
}

fn unfinished(output: &Path) -> usize {
    tree(output).keys().filter(|name| name.ends_with(".part")).count()
}

fn end_of(data: &[u8]) -> ToReceiver {
    ToReceiver::FileEnd { len: data.len() as u64, hash: *blake3::hash(data).as_bytes() }
}

fn verdicts(assembler: &mut Player) -> Vec<(u32, Option<FailureCode>)> {
    let answers = assembler.take_answers();
    let verdict = |answer| match answer {
        ToSender::Verdict { index, outcome } => Some((index, outcome.err().map(|failure| failure.code))),
        _ => None,
    };
    answers.into_iter().filter_map(verdict).collect()
}

/// Returns all files under `root` with their content, by relative name.
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
        ToReceiver::End { entries: 4, streams: 0 },
    ] {
        assembler.handle(&frame).unwrap();
    }
    assert!(assembler.is_finished);
    assert_eq!(assembler.totals(), (4, 0));
    assert_eq!(verdicts(&mut assembler), [(2, None), (3, None), (1, None), (0, None)]);
    assert_eq!(tree(output.path()), BTreeMap::from([("d/e/f".into(), b"one".to_vec()), ("d/g".into(), Vec::new())]));
    for directory in ["d", "d/e"] {
        let time =
            filetime::FileTime::from_last_modification_time(&fs::metadata(output.path().join(directory)).unwrap());
        assert_eq!(time.unix_seconds(), 7, "{directory}");
    }
}

/// A file that changes at its sender is restarted in the middle.
#[test]
fn a_file_that_begins_anew_is_only_what_comes_then() {
    let (output, mut assembler) = fresh_with(telling_options());
    fs::write(output.path().join("same"), b"new").unwrap();
    fs::write(output.path().join("other"), b"old").unwrap();
    for (name, directory) in [("f", 0), ("same", 0), ("other", 0), ("../escape", 0)] {
        let file = Entry { index: assembler.entries, directories: directory, ..entry(name) };
        assembler.handle(&ToReceiver::File(entry(name))).unwrap();
        assembler.handle(&ToReceiver::Data(b"o".to_vec())).unwrap();
        for _ in 0..2 {
            assembler.assembler.handle(0, &ToReceiver::File(Entry { mtime_s: 9, ..file.clone() })).unwrap();
            assembler.handle(&ToReceiver::Data(b"new".to_vec())).unwrap();
        }
        assembler.handle(&end_of(b"new")).unwrap();
    }
    assembler.handle(&ToReceiver::End { entries: 4, streams: 0 }).unwrap();
    assert_eq!(
        verdicts(&mut assembler),
        [(0, None), (1, None), (2, Some(FailureCode::Exists)), (3, Some(FailureCode::Name))]
    );
    let expected = [("f", b"new"), ("other", b"old"), ("same", b"new")];
    assert_eq!(tree(output.path()), expected.map(|(name, content)| (name.to_owned(), content.to_vec())).into());
    let time = filetime::FileTime::from_last_modification_time(&fs::metadata(output.path().join("f")).unwrap());
    assert_eq!(time.unix_seconds(), 9, "it has the metadata of what it is");
}

#[test]
fn only_the_file_under_way_begins_anew() {
    for (index, name) in [(0, "g"), (1, "f")] {
        let (_output, mut assembler) = fresh();
        assembler.handle(&ToReceiver::File(entry("f"))).unwrap();
        let error = assembler.assembler.handle(0, &ToReceiver::File(Entry { index, ..entry(name) })).unwrap_err();
        assert!(matches!(error, TransferError::Protocol(ProtocolError::OutOfPlace { .. })), "{error}");
    }
}

/// Content already passed on to the output stream cannot be taken back.
#[test]
fn a_file_that_was_passed_on_in_part_does_not_begin_anew() {
    let mut assembler = Player::new(Target::stream(Vec::new(), None));
    assembler.handle(&ToReceiver::File(entry("f"))).unwrap();
    assembler.handle(&ToReceiver::Data(b"old".to_vec())).unwrap();
    assembler.assembler.handle(0, &ToReceiver::File(entry("f"))).unwrap();
    assembler.handle(&ToReceiver::Data(b"new".to_vec())).unwrap();
    assembler.handle(&end_of(b"new")).unwrap();
    assembler.handle(&ToReceiver::End { entries: 1, streams: 0 }).unwrap();
    assert_eq!(verdicts(&mut assembler), [(0, Some(FailureCode::Mismatch))]);
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
        ToReceiver::End { entries: 6, streams: 0 },
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
        vec![ToReceiver::End { entries: 1, streams: 0 }],
        vec![ToReceiver::File(entry("a")), ToReceiver::File(entry("b"))],
        vec![ToReceiver::File(entry("a")), ToReceiver::End { entries: 1, streams: 0 }],
        vec![ToReceiver::End { entries: 0, streams: 0 }, ToReceiver::File(entry("a"))],
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
        1 => (0u32..4).prop_map(|entries| ToReceiver::End { entries, streams: 0 }),
    ]
}

proptest! {
    /// Model test: a file has its name exactly if its verdict confirms it, and then has the hashed content.
    #[test]
    fn any_sequence_of_frames_stores_only_what_it_confirmed(
        frames in proptest::collection::vec(frame(), 0..40),
        sync in any::<bool>(),
    ) {
        let (output, mut assembler) = fresh_with(StoreOptions { sync, ..StoreOptions::default() });
        let (mut expected, mut entries, mut answered) = (BTreeMap::new(), 0_u32, 0);
        let (mut name, mut data): (String, Vec<u8>) = (String::new(), Vec::new());
        let mut ended: BTreeMap<u32, (String, Vec<u8>)> = BTreeMap::new();
        for mut frame in frames {
            if let ToReceiver::FileEnd { len, hash } = &mut frame {
                *len = data.len() as u64;
                *hash = *blake3::hash(&data).as_bytes();
                ended.insert(entries.wrapping_sub(1), (name.clone(), data.clone()));
            }
            if assembler.handle(&frame).is_err() {
                break;
            }
            match &frame {
                ToReceiver::Directory(_) => entries += 1,
                ToReceiver::File(entry) => {
                    entries += 1;
                    name = String::from_utf8(entry.name.clone()).unwrap();
                    data.clear();
                }
                ToReceiver::Data(more) => data.extend_from_slice(more),
                _ => {}
            }
            for (index, failure) in verdicts(&mut assembler) {
                answered += 1;
                if let (None, Some((name, data))) = (failure, ended.remove(&index)) {
                    // A file that is sent again has the same content and is confirmed as unchanged.
                    let before = expected.insert(name, data.clone());
                    prop_assert!(before.is_none_or(|before| before == data));
                }
            }
        }
        if assembler.is_finished {
            prop_assert_eq!(answered, entries);
        }
        drop(assembler);
        prop_assert_eq!(tree(output.path()), expected);
    }
}

#[test]
fn small_files_become_durable_together_and_have_no_name_before() {
    let (output, mut assembler) = fresh_with(flushing_options());
    for number in 1..BATCH_ENTRIES_MAX {
        store_file(&mut assembler, &number.to_string(), b"small");
    }
    assert!(assembler.is_waiting() && verdicts(&mut assembler).is_empty());
    assert_eq!(unfinished(output.path()), BATCH_ENTRIES_MAX - 1);
    assert_eq!(tree(output.path()).len(), BATCH_ENTRIES_MAX - 1, "a file has its name and is not flushed");
    store_file(&mut assembler, "last", b"small");
    assert_eq!(verdicts(&mut assembler).len(), BATCH_ENTRIES_MAX);
    assert_eq!((tree(output.path()).len(), unfinished(output.path())), (BATCH_ENTRIES_MAX, 0));
    // Waiting files are also published on request, and when the end frame arrives.
    store_file(&mut assembler, "next", b"small");
    assembler.publish().unwrap();
    assert_eq!(verdicts(&mut assembler), [(BATCH_ENTRIES_MAX as u32, None)]);
    store_file(&mut assembler, "end", b"small");
    assembler.handle(&ToReceiver::End { entries: BATCH_ENTRIES_MAX as u32 + 2, streams: 0 }).unwrap();
    assert_eq!(verdicts(&mut assembler), [(BATCH_ENTRIES_MAX as u32 + 1, None)]);
    assert!(assembler.is_finished && output.path().join("end").is_file());
}

#[test]
fn a_large_file_waits_for_no_other() {
    let (output, mut assembler) = fresh_with(flushing_options());
    store_file(&mut assembler, "small", b"small");
    assert!(verdicts(&mut assembler).is_empty());
    store_file(&mut assembler, "large", &vec![0; BATCH_BYTES_MAX as usize]);
    assert_eq!(verdicts(&mut assembler), [(0, None), (1, None)]);
    assert_eq!(unfinished(output.path()), 0);
}

#[test]
fn sessions_together_hold_a_bounded_number_of_files_open() {
    let output = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(output.path(), flushing_options()).unwrap());
    let mut sessions: Vec<_> = (0..4).map(|_| Player::new(Arc::clone(&store))).collect();
    let mut most = 0;
    for number in 0..BATCH_ENTRIES_MAX - 1 {
        for (session, assembler) in sessions.iter_mut().enumerate() {
            store_file(assembler, &format!("{session}-{number}"), b"x");
        }
        most = most.max(unfinished(output.path()));
    }
    assert!(most > UNPUBLISHED_DESCRIPTORS_MAX / 2 && most <= UNPUBLISHED_DESCRIPTORS_MAX, "{most}");
    drop(sessions);
    assert_eq!(unfinished(output.path()), 0);
}

#[test]
fn directories_count_among_what_sessions_together_hold_open() {
    let output = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(output.path(), flushing_options()).unwrap());
    let mut sessions: Vec<_> = (0..4).map(|_| Player::new(Arc::clone(&store))).collect();
    let mut most = 0;
    for number in 0..BATCH_ENTRIES_MAX / 2 - 1 {
        for (session, assembler) in sessions.iter_mut().enumerate() {
            let directory = format!("{session}-{number}");
            assembler.handle(&ToReceiver::Directory(entry(&directory))).unwrap();
            store_file(assembler, &format!("{directory}/f"), b"x");
        }
        most = most.max(unfinished(output.path()));
    }
    // The limit counts a file's directory as well as the file, so half as many files wait.
    assert!(most > UNPUBLISHED_DESCRIPTORS_MAX / 4 && most <= UNPUBLISHED_DESCRIPTORS_MAX / 2, "{most}");
}

#[test]
fn a_directory_gets_its_time_after_the_files_that_waited() {
    let (output, mut assembler) = fresh_with(flushing_options());
    assembler.handle(&ToReceiver::Directory(entry("d"))).unwrap();
    store_file(&mut assembler, "d/f", b"x");
    store_file(&mut assembler, "g", b"x");
    assembler.publish().unwrap();
    assert_eq!(verdicts(&mut assembler), [(1, None), (2, None)]);
    assembler.handle(&ToReceiver::Directory(entry("e"))).unwrap();
    assembler.publish().unwrap();
    assert_eq!(verdicts(&mut assembler), [(0, None)]);
    let time = filetime::FileTime::from_last_modification_time(&fs::metadata(output.path().join("d")).unwrap());
    assert_eq!(time.unix_seconds(), 7);
}

#[test]
fn a_session_stores_no_more_than_it_may() {
    let output = tempfile::tempdir().unwrap();
    let options = StoreOptions { session_bytes_max: Some(10), ..StoreOptions::default() };
    let mut assembler = Player::new(Arc::new(Store::open(output.path(), options).unwrap()));
    let announced = Entry { size_hint_bytes: 7, ..entry("announced") };
    for frame in [
        ToReceiver::File(entry("fits")),
        ToReceiver::Data(b"four".to_vec()),
        end_of(b"four"),
        ToReceiver::File(entry("grows")),
        ToReceiver::Data(b"four".to_vec()),
        ToReceiver::Data(b"mor".to_vec()),
        ToReceiver::Data(b"and more".to_vec()),
        end_of(b"fourmorand more"),
        ToReceiver::File(announced),
        ToReceiver::FileAbort("refused".into()),
        ToReceiver::File(entry("last")),
        ToReceiver::Data(b"ok".to_vec()),
        end_of(b"ok"),
        ToReceiver::File(entry("empty")),
        end_of(b""),
        ToReceiver::End { entries: 5, streams: 0 },
    ] {
        assembler.handle(&frame).unwrap();
    }
    let full = Some(FailureCode::DiskFull);
    assert_eq!(verdicts(&mut assembler), [(0, None), (1, full), (2, full), (3, None), (4, None)]);
    let refused: Vec<_> = assembler.take_outcomes().into_iter().filter_map(|outcome| outcome.failure).collect();
    assert!(refused.len() == 2 && refused.iter().all(|why| why.contains("--max-bytes")), "{refused:?}");
    assert_eq!(
        tree(output.path()),
        BTreeMap::from([
            ("empty".into(), Vec::new()),
            ("fits".into(), b"four".to_vec()),
            ("last".into(), b"ok".to_vec())
        ])
    );
}

#[test]
fn a_file_that_is_only_compared_may_be_longer_than_what_a_session_may_store() {
    let (output, mut assembler) = fresh_with(StoreOptions { session_bytes_max: Some(10), ..telling_options() });
    let content = [7; 20];
    fs::write(output.path().join("same"), content).unwrap();
    for name in ["same", "new"] {
        assembler.handle(&ToReceiver::File(Entry { size_hint_bytes: 20, ..entry(name) })).unwrap();
        assembler.handle(&ToReceiver::Data(content.to_vec())).unwrap();
        assembler.handle(&end_of(&content)).unwrap();
    }
    assert_eq!(verdicts(&mut assembler), [(0, None), (1, Some(FailureCode::DiskFull))]);
    assert_eq!(unfinished(output.path()), 0);
}

#[test]
fn a_file_that_is_there_with_the_same_content_is_confirmed_and_not_written() {
    for options in [telling_options(), StoreOptions { sync: true, ..telling_options() }] {
        let (output, mut assembler) = fresh_with(options);
        fs::write(output.path().join("same"), b"same").unwrap();
        fs::write(output.path().join("other"), b"othe").unwrap();
        let before = fs::metadata(output.path().join("same")).unwrap().modified().unwrap();
        store_file(&mut assembler, "same", b"same");
        assembler.publish().unwrap();
        assert_eq!(verdicts(&mut assembler), [(0, None)]);
        let outcome = assembler.take_outcomes().remove(0);
        assert!(outcome.is_unchanged && outcome.hash == Some(blake3::hash(b"same")), "{outcome:?}");
        assert_eq!(outcome.bytes, 4);
        store_file(&mut assembler, "other", b"same");
        store_file(&mut assembler, "same", b"");
        assert_eq!(verdicts(&mut assembler), [(1, Some(FailureCode::Exists)), (2, Some(FailureCode::Exists))]);
        assert_eq!(fs::metadata(output.path().join("same")).unwrap().modified().unwrap(), before);
        assert_eq!(tree(output.path()).len(), 2);
        assert_eq!(assembler.totals(), (1, 2));
    }
}

#[test]
fn files_that_are_there_already_are_flushed_together_like_new_ones() {
    let (output, mut assembler) = fresh_with(StoreOptions { sync: true, ..telling_options() });
    for number in 0..4 {
        fs::write(output.path().join(format!("same{number}")), b"same").unwrap();
    }
    for number in 0..4 {
        store_file(&mut assembler, &format!("same{number}"), b"same");
        store_file(&mut assembler, &format!("new{number}"), b"new");
    }
    assert!(verdicts(&mut assembler).is_empty(), "one was flushed by itself");
    assembler.publish().unwrap();
    assert_eq!(verdicts(&mut assembler), (0..8).map(|index| (index, None)).collect::<Vec<_>>());
    let unchanged: Vec<_> = assembler.take_outcomes().into_iter().map(|outcome| outcome.is_unchanged).collect();
    assert_eq!(unchanged, [true, false].repeat(4));
}

#[test]
fn a_file_that_is_there_with_another_length_is_refused_as_soon_as_that_is_clear() {
    let (output, mut assembler) = fresh_with(telling_options());
    fs::write(output.path().join("f"), b"four").unwrap();
    assembler.handle(&ToReceiver::File(Entry { size_hint_bytes: 5, ..entry("f") })).unwrap();
    assert_eq!(verdicts(&mut assembler), [(0, Some(FailureCode::Exists))]);
    assembler.handle(&ToReceiver::FileAbort(String::new())).unwrap();
    // The announced size may be too small, because of holes.
    assembler.handle(&ToReceiver::File(entry("f"))).unwrap();
    assembler.handle(&ToReceiver::Data(b"four".to_vec())).unwrap();
    assert_eq!(verdicts(&mut assembler), []);
    assembler.handle(&ToReceiver::Data(b"!".to_vec())).unwrap();
    assert_eq!(verdicts(&mut assembler), [(1, Some(FailureCode::Exists))]);
    assembler.handle(&end_of(b"four!")).unwrap();
    assert_eq!(verdicts(&mut assembler), []);
}

/// An early answer would let a sender guess the content byte by byte.
#[test]
fn the_first_byte_that_differs_from_what_is_there_is_not_told() {
    let (output, mut assembler) = fresh_with(telling_options());
    fs::write(output.path().join("f"), b"secret").unwrap();
    assembler.handle(&ToReceiver::File(entry("f"))).unwrap();
    assembler.handle(&ToReceiver::Data(b"x".to_vec())).unwrap();
    assert_eq!(verdicts(&mut assembler), []);
    // The hash alone, without the content, proves nothing.
    let hash = *blake3::hash(b"secret").as_bytes();
    assembler.handle(&ToReceiver::FileEnd { len: 6, hash }).unwrap();
    assert_eq!(verdicts(&mut assembler), [(0, Some(FailureCode::Exists))]);
}

/// The sender gets the same answer as for a file that was really stored.
#[cfg(unix)]
#[test]
fn with_force_a_foreign_file_of_the_same_content_stays_and_counts_as_stored() {
    use std::os::unix::fs::MetadataExt;
    let (output, mut assembler) = fresh_with(StoreOptions { replace: true.into(), ..StoreOptions::default() });
    for name in ["f", "other", "linked"] {
        fs::write(output.path().join(name), b"same").unwrap();
    }
    fs::hard_link(output.path().join("linked"), output.path().join("second name")).unwrap();
    let status = |name: &str| fs::metadata(output.path().join(name)).unwrap();
    let before = ["f", "other", "linked"].map(|name| status(name).ino());
    for (name, content) in [("f", b"same"), ("other", b"new!"), ("linked", b"same")] {
        store_file(&mut assembler, name, content);
    }
    assembler.publish().unwrap();
    assert_eq!(verdicts(&mut assembler), [(0, None), (1, None), (2, None)]);
    assert!(assembler.take_outcomes().iter().all(|outcome| !outcome.is_unchanged));
    let now = ["f", "other", "linked"].map(|name| status(name).ino());
    let is_kept: Vec<_> = before.iter().zip(&now).map(|(before, now)| before == now).collect();
    assert_eq!(is_kept, [true, false, false], "what has two names is two files");
    assert_eq!(["f", "other", "linked"].map(|name| status(name).mtime()), [7; 3]);
    assert_ne!(status("second name").mtime(), 7);
    assert_eq!(unfinished(output.path()), 0);
}

#[cfg(unix)]
#[test]
fn a_link_to_the_same_content_is_not_followed() {
    let (output, mut assembler) = fresh();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), b"same").unwrap();
    std::os::unix::fs::symlink(outside.path().join("f"), output.path().join("f")).unwrap();
    store_file(&mut assembler, "f", b"same");
    assert_eq!(verdicts(&mut assembler), [(0, Some(FailureCode::Exists))]);
}

/// Output stream that accepts at most `room` bytes, and whose content the test can read.
#[derive(Clone)]
struct Pipe {
    content: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl std::io::Write for Pipe {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let mut content = self.content.lock().unwrap();
        if content.len() + data.len() > self.room {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        content.extend_from_slice(data);
        Ok(data.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Sends `frames` to a receiver that writes to an output stream. Returns the verdicts and the output.
fn streamed(room: usize, bytes_max: Option<u64>, frames: &[ToReceiver]) -> (Vec<(u32, Option<FailureCode>)>, Vec<u8>) {
    let pipe = Pipe { content: Arc::default(), room };
    let mut assembler = Player::new(Target::stream(pipe.clone(), bytes_max));
    for frame in frames {
        assembler.handle(frame).unwrap();
    }
    let content = pipe.content.lock().unwrap().clone();
    (verdicts(&mut assembler), content)
}

#[test]
fn a_stream_takes_one_file_and_confirms_it_by_its_hash() {
    let file = |name: &str| ToReceiver::File(entry(name));
    let data = || ToReceiver::Data(b"data".to_vec());
    let (refused, mismatch) = (Some(FailureCode::Name), Some(FailureCode::Mismatch));
    let whole = [file("f"), data(), data(), end_of(b"datadata"), ToReceiver::End { entries: 1, streams: 0 }];
    assert_eq!(streamed(99, None, &whole), (vec![(0, None)], b"datadata".to_vec()));
    for wrong in
        [end_of(b"Data"), end_of(b"dat"), ToReceiver::FileEnd { len: 5, hash: *blake3::hash(b"data").as_bytes() }]
    {
        assert_eq!(streamed(99, None, &[file("f"), data(), wrong]).0, [(0, mismatch)]);
    }
    // Written bytes cannot be taken back, so a second file would mix two contents in the output.
    let broken = [file("f"), data(), ToReceiver::FileAbort("gone".into()), file("g"), data(), end_of(b"data")];
    let given_up = Some(FailureCode::GivenUp);
    assert_eq!(streamed(99, None, &broken), (vec![(0, given_up), (1, refused)], b"data".to_vec()));
    let inside = [ToReceiver::Directory(entry("d")), file("d/f"), data(), end_of(b"data"), file("g"), end_of(b"")];
    assert_eq!(streamed(99, None, &inside), (vec![(0, refused), (1, refused), (2, None)], Vec::new()));
}

#[test]
fn a_stream_that_is_closed_or_full_fails_its_file() {
    let frames = [
        ToReceiver::File(entry("f")),
        ToReceiver::Data(b"data".to_vec()),
        ToReceiver::Data(b"more".to_vec()),
        end_of(b"datamore"),
    ];
    assert_eq!(streamed(5, None, &frames), (vec![(0, Some(FailureCode::FileSystem))], b"data".to_vec()));
    assert_eq!(streamed(99, Some(7), &frames), (vec![(0, Some(FailureCode::DiskFull))], b"data".to_vec()));
}

fn at(index: u32, directories: u32, name: &str) -> Entry {
    Entry { index, directories, ..entry(name) }
}

/// Sends whole files and single frames over several streams.
struct Streams {
    output: tempfile::TempDir,
    assembler: Assembler,
}

impl Streams {
    fn new(options: StoreOptions) -> Self {
        let output = tempfile::tempdir().unwrap();
        let assembler = Assembler::new(Arc::new(Store::open(output.path(), options).unwrap()), None, Arc::new(|_| {}));
        Self { output, assembler }
    }

    fn say(&mut self, stream: usize, frame: ToReceiver) -> Result<(), TransferError> {
        self.assembler.handle(stream, &frame)
    }

    #[track_caller]
    fn begin(&mut self, stream: usize, entry: Entry, data: &[u8]) {
        self.say(stream, ToReceiver::File(entry)).unwrap();
        self.say(stream, ToReceiver::Data(data.to_vec())).unwrap();
    }

    fn verdicts(&mut self) -> Vec<(u32, Option<FailureCode>)> {
        let answers = self.assembler.take_answers().into_iter();
        let verdict = |answer| match answer {
            ToSender::Verdict { index, outcome } => Some((index, outcome.err().map(|failure| failure.code))),
            _ => None,
        };
        answers.filter_map(verdict).collect()
    }
}

#[test]
fn files_of_several_streams_are_not_mixed_up() {
    let mut all = Streams::new(StoreOptions::default());
    for stream in 0..=FILE_STREAMS_MAX {
        all.begin(stream.into(), at(stream.into(), 0, &stream.to_string()), &[stream as u8; 3]);
    }
    assert_eq!(unfinished(all.output.path()), usize::from(FILE_STREAMS_MAX) + 1);
    for stream in (0..=FILE_STREAMS_MAX).rev() {
        all.say(stream.into(), ToReceiver::Data(vec![7])).unwrap();
        all.say(stream.into(), end_of(&[stream as u8, stream as u8, stream as u8, 7])).unwrap();
    }
    let end = ToReceiver::End { entries: u32::from(FILE_STREAMS_MAX) + 1, streams: 8 };
    all.say(0, end).unwrap();
    all.assembler.finish().unwrap();
    let content = |stream: u16| (stream.to_string(), vec![stream as u8, stream as u8, stream as u8, 7]);
    assert_eq!(tree(all.output.path()), (0..=FILE_STREAMS_MAX).map(content).collect());
}

#[test]
fn an_ordinal_is_used_once_whatever_became_of_its_entry() {
    let again = |stream, entry: Entry, before: &dyn Fn(&mut Streams)| {
        let mut all = Streams::new(StoreOptions::default());
        before(&mut all);
        let refused = all.say(stream, ToReceiver::File(entry)).unwrap_err();
        assert!(matches!(refused, TransferError::Protocol(ProtocolError::Ordinal { .. })), "{refused}");
        drop(all.assembler);
        assert!(tree(all.output.path()).values().all(|content| content == b"one"));
    };
    // Cases for an ordinal that is already used: in progress on another stream, stored, failed, and a directory.
    again(2, at(0, 0, "f"), &|all| all.begin(1, at(0, 0, "f"), b"one"));
    again(1, at(0, 0, "g"), &|all| {
        all.begin(1, at(0, 0, "f"), b"one");
        all.say(1, end_of(b"one")).unwrap();
    });
    again(2, at(0, 0, "g"), &|all| all.begin(1, at(0, 0, "../f"), b"one"));
    again(2, at(0, 0, "g"), &|all| all.say(0, ToReceiver::Directory(at(0, 0, "f"))).unwrap());
}

#[test]
fn one_name_on_two_streams_is_one_file_of_either() {
    for options in
        [StoreOptions::default(), flushing_options(), StoreOptions { replace: true.into(), ..flushing_options() }]
    {
        let replaces = options.replace.is_always();
        let mut all = Streams::new(options);
        all.begin(1, at(0, 0, "f"), b"one");
        all.begin(2, at(1, 0, "f"), b"two!");
        all.say(2, end_of(b"two!")).unwrap();
        all.say(1, end_of(b"one")).unwrap();
        all.assembler.publish().unwrap();
        let (failed, last) = if replaces { (None, &b"one"[..]) } else { (Some(FailureCode::Exists), &b"two!"[..]) };
        assert_eq!(all.verdicts(), [(1, None), (0, failed)]);
        assert_eq!(tree(all.output.path()), BTreeMap::from([("f".into(), last.to_vec())]));
    }
}

#[test]
fn streams_together_store_no_more_than_a_session_may() {
    let limited = StoreOptions { session_bytes_max: Some(10), ..StoreOptions::default() };
    let mut all = Streams::new(limited);
    let full = Some(FailureCode::DiskFull);
    // Announced lengths: the first file gets a reservation, and the second file is refused immediately.
    all.begin(1, Entry { size_hint_bytes: 6, ..at(0, 0, "a") }, b"aaa");
    all.begin(2, Entry { size_hint_bytes: 5, ..at(1, 0, "b") }, b"bbb");
    assert_eq!(all.verdicts(), [(1, full)]);
    // Without announced lengths, the remaining bytes go to the content that arrives first.
    all.begin(3, at(2, 0, "c"), b"cccc");
    all.begin(4, at(3, 0, "d"), b"d");
    all.say(1, ToReceiver::Data(b"aaa".to_vec())).unwrap();
    all.say(1, end_of(b"aaaaaa")).unwrap();
    all.say(3, end_of(b"cccc")).unwrap();
    assert_eq!(all.verdicts(), [(3, full), (0, None), (2, None)]);
    assert_eq!(tree(all.output.path()).values().map(Vec::len).sum::<usize>(), 10);
}

#[test]
fn what_was_announced_and_did_not_come_is_free_again() {
    let limited = StoreOptions { session_bytes_max: Some(10), ..StoreOptions::default() };
    let mut all = Streams::new(limited);
    let large = |index| Entry { size_hint_bytes: 9, ..at(index, 0, &index.to_string()) };
    all.begin(1, large(0), b"x");
    all.say(1, ToReceiver::FileAbort(String::new())).unwrap();
    all.begin(1, large(1), b"x");
    all.say(1, end_of(b"x")).unwrap();
    all.begin(1, Entry { size_hint_bytes: 8, ..large(2) }, b"xxxxxxxx");
    all.say(1, end_of(b"xxxxxxxx")).unwrap();
    assert_eq!(all.verdicts(), [(0, Some(FailureCode::GivenUp)), (1, None), (2, None)]);
}

#[test]
fn a_directory_gets_its_time_when_all_that_came_before_the_next_one_is_there() {
    let mut all = Streams::new(StoreOptions::default());
    all.say(0, ToReceiver::Directory(at(0, 0, "d"))).unwrap();
    all.say(0, ToReceiver::Directory(at(3, 1, "e"))).unwrap();
    all.begin(1, at(4, 2, "e/g"), b"g");
    all.say(1, end_of(b"g")).unwrap();
    all.begin(1, at(2, 1, "d/two"), b"2");
    all.begin(2, at(1, 1, "d/one"), b"1");
    all.say(2, end_of(b"1")).unwrap();
    assert_eq!(all.verdicts(), [(4, None), (1, None)]);
    assert_eq!(all.assembler.take_closed_directories(), 0);
    all.say(1, end_of(b"2")).unwrap();
    assert_eq!(all.verdicts(), [(2, None), (0, None)]);
    assert_eq!(all.assembler.take_closed_directories(), 1);
    let metadata = fs::metadata(all.output.path().join("d")).unwrap();
    assert_eq!(filetime::FileTime::from_last_modification_time(&metadata).unix_seconds(), 7);
    all.say(0, ToReceiver::End { entries: 5, streams: 2 }).unwrap();
    all.assembler.finish().unwrap();
    assert_eq!(all.verdicts(), [(3, None)]);
}

#[test]
fn the_first_stream_alone_has_directories_and_the_end() {
    for (stream, frame) in [
        (1, ToReceiver::Directory(at(0, 0, "d"))),
        (1, ToReceiver::End { entries: 0, streams: 1 }),
        (usize::from(FILE_STREAMS_MAX) + 1, ToReceiver::File(at(0, 0, "f"))),
        // The frames of this file's directories have not arrived.
        (1, ToReceiver::File(at(1, 1, "f"))),
        (0, ToReceiver::Directory(at(1, 1, "d"))),
    ] {
        let mut all = Streams::new(StoreOptions::default());
        let refused = all.say(stream, frame.clone()).unwrap_err();
        assert!(matches!(refused, TransferError::Protocol(_)), "{frame:?}: {refused}");
        assert!(tree(all.output.path()).is_empty());
    }
}

#[test]
fn what_the_sender_says_it_has_sent_is_what_came() {
    for (entries, came) in [(0, 1), (1, 0), (1, 2), (2, 1), (u32::MAX, 1)] {
        let mut all = Streams::new(StoreOptions::default());
        for index in 0..came {
            all.begin(1, at(index, 0, &index.to_string()), b"x");
            all.say(1, end_of(b"x")).unwrap();
        }
        all.say(0, ToReceiver::End { entries, streams: 1 }).unwrap();
        let error = all.assembler.finish().unwrap_err();
        assert!(matches!(error, TransferError::Protocol(ProtocolError::Summary)), "{entries} {came}: {error}");
    }
    let mut untold = Streams::new(StoreOptions::default());
    assert!(matches!(untold.assembler.finish(), Err(TransferError::PeerClosed)));
}

/// Runs the closure in a thread with the rights of an unprivileged user.
#[cfg(target_os = "linux")]
pub(super) fn as_other_user(run: impl FnOnce() + Send + 'static) {
    let running = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        run();
    });
    running.join().unwrap();
}

#[cfg(target_os = "linux")]
pub(super) fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(target_os = "linux")]
pub(super) fn set_mode_of(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_to_which_its_owner_may_not_write_is_written_to_and_gets_its_mode_back() {
    as_other_user(|| {
        for (mode, replace, after) in
            [(0o555, false, 0o555), (0o500, false, 0o500), (0o444, false, 0o444), (0o555, true, 0o755)]
        {
            let (output, mut assembler) =
                fresh_with(StoreOptions { replace: replace.into(), ..StoreOptions::default() });
            let directory = output.path().join("d");
            fs::create_dir_all(directory.join("e")).unwrap();
            set_mode_of(&directory.join("e"), mode);
            set_mode_of(&directory, mode);
            for directory in ["d", "d/e"] {
                assembler.handle(&ToReceiver::Directory(entry(directory))).unwrap();
                store_file(&mut assembler, &format!("{directory}/f"), b"new");
            }
            assembler.handle(&ToReceiver::End { entries: 4, streams: 0 }).unwrap();
            let verdicts = verdicts(&mut assembler);
            assert!(verdicts.iter().all(|(_, failure)| failure.is_none()), "{mode:o}: {verdicts:?}");
            assert_eq!(mode_of(&directory), after, "{mode:o}");
            set_mode_of(&directory, 0o755);
            assert_eq!(mode_of(&directory.join("e")), after, "{mode:o}");
            set_mode_of(&directory.join("e"), 0o755);
            assert_eq!(tree(output.path()).len(), 2);
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_that_breaks_gives_directories_their_modes_back() {
    as_other_user(|| {
        let (output, mut assembler) = fresh_with(flushing_options());
        let directory = output.path().join("d");
        fs::create_dir_all(&directory).unwrap();
        set_mode_of(&directory, 0o555);
        assembler.handle(&ToReceiver::Directory(entry("d"))).unwrap();
        store_file(&mut assembler, "d/whole", b"waits");
        assembler.handle(&ToReceiver::File(entry("d/half"))).unwrap();
        assembler.handle(&ToReceiver::Data(b"half".to_vec())).unwrap();
        assert_eq!(mode_of(&directory), 0o755);
        drop(assembler);
        assert_eq!((mode_of(&directory), unfinished(output.path())), (0o555, 0));
        set_mode_of(&directory, 0o755);
    });
}

/// Regression test: a session that had made a directory writable restored the mode while other sessions were using the
/// directory.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_stays_writable_as_long_as_any_session_stores_in_it() {
    as_other_user(|| {
        let output = tempfile::tempdir().unwrap();
        let directory = output.path().join("d");
        fs::create_dir(&directory).unwrap();
        set_mode_of(&directory, 0o555);
        let store = Arc::new(Store::open(output.path(), StoreOptions::default()).unwrap());
        let [mut one, mut other] = [(); 2].map(|()| Player::new(Arc::clone(&store)));
        for player in [&mut one, &mut other] {
            player.handle(&ToReceiver::Directory(entry("d"))).unwrap();
        }
        store_file(&mut one, "d/f", b"new");
        drop(one);
        store_file(&mut other, "d/g", b"new");
        other.handle(&ToReceiver::End { entries: 2, streams: 0 }).unwrap();
        let verdicts = verdicts(&mut other);
        let after = mode_of(&directory);
        set_mode_of(&directory, 0o755);
        assert!(verdicts.iter().all(|(_, failure)| failure.is_none()), "{verdicts:?}");
        assert_eq!(after, 0o555);
    });
}

/// Only modes of directories that this user owns are changed.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_of_somebody_else_stays_as_it_is() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let output = tempfile::tempdir().unwrap();
    set_mode_of(output.path(), 0o777);
    let directory = output.path().join("d");
    fs::create_dir(&directory).unwrap();
    set_mode_of(&directory, 0o555);
    let path = output.path().to_owned();
    as_other_user(move || {
        let store = Store::open(&path, StoreOptions { replace: true.into(), ..StoreOptions::default() }).unwrap();
        let mut assembler = Player::new(Arc::new(store));
        assembler.handle(&ToReceiver::Directory(entry("d"))).unwrap();
        store_file(&mut assembler, "d/f", b"new");
        assert_eq!(verdicts(&mut assembler), [(1, Some(FailureCode::Permission))]);
    });
    assert_eq!(mode_of(&directory), 0o555);
}
