//! Tests with senders that try to fill the disk with partial files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::resume_tests::{Session, alice, keeping};
use super::*;
use crate::store::{Store, StoreOptions};

const BYTES_MAX: u64 = 10_000_000;

fn limited(output: &Path) -> Arc<Store> {
    Arc::new(Store::open(output, StoreOptions { session_bytes_max: Some(BYTES_MAX), ..keeping() }).unwrap())
}

/// Returns the entry of a long file that announces this length.
fn entry(index: u32, name: &str, announced: u64) -> Entry {
    Entry {
        index,
        directories: 0,
        mode: 0o644,
        mtime_s: 5,
        mtime_ns: 6,
        size_hint_bytes: announced,
        len: Some(100_000_000),
        name: name.as_bytes().to_vec(),
    }
}

/// Sends up to `bytes` of a file, until the receiver refuses more. Does not end the file.
fn begin(session: &mut Session, stream: usize, frame: &ToReceiver, bytes: usize) {
    let data = ToReceiver::Data(vec![7; 100_000]);
    let mut sent = 0;
    session.assembler.handle(stream, frame).unwrap();
    while session.assembler.take_answers().is_empty() && sent < bytes {
        session.assembler.handle(stream, &data).unwrap();
        sent += 100_000;
    }
}

/// Returns the total length of the partial files, bytes.
fn unfinished_bytes(output: &Path) -> u64 {
    let files = walkdir::WalkDir::new(output).into_iter().map(Result::unwrap);
    let parts = files.filter(|file| file.file_name().to_string_lossy().ends_with(".part"));
    parts.map(|part| part.metadata().unwrap()).filter(fs::Metadata::is_file).map(|part| part.len()).sum()
}

fn assert_limited(output: &Path, what: &str) {
    let bytes = unfinished_bytes(output);
    assert!(bytes <= BYTES_MAX, "{what}: {:.1} of {:.1} MB", bytes as f64 / 1e6, BYTES_MAX as f64 / 1e6);
}

/// The bytes of a partial file become available only when the file is removed.
#[test]
fn files_that_cannot_begin_give_nothing_back() {
    let output = tempfile::tempdir().unwrap();
    for round in 0..4_u32 {
        let mut session = Session::of(limited(output.path()), &alice());
        session.greeted();
        for before in 0..round {
            // The announced length exceeds any disk, so the file cannot begin.
            session.say(&ToReceiver::File(entry(before, &format!("f{before}"), 1 << 60))).unwrap();
            session.say(&ToReceiver::FileAbort(String::new())).unwrap();
        }
        begin(&mut session, 0, &ToReceiver::File(entry(round, &format!("f{round}"), 0)), 9_000_000);
    }
    assert_limited(output.path(), "sessions one after the other");
}

/// Each session knows only of the partial files that existed when it started.
#[test]
fn sessions_at_the_same_time_leave_no_more_than_one_may_store() {
    let output = tempfile::tempdir().unwrap();
    for announced in [0, 9_000_000] {
        let store = limited(output.path());
        let mut sessions: Vec<_> = (0..4).map(|_| Session::of(Arc::clone(&store), &alice())).collect();
        for session in &mut sessions {
            session.greeted();
        }
        for (number, session) in sessions.iter_mut().enumerate() {
            begin(session, 0, &ToReceiver::File(entry(0, &format!("f{number}"), announced)), 9_000_000);
        }
        drop(sessions);
        assert_limited(output.path(), "sessions at the same time");
    }
}

#[test]
fn a_file_that_goes_on_in_session_after_session_is_no_longer_than_one_may_store() {
    let output = tempfile::tempdir().unwrap();
    let store = limited(output.path());
    let mut sessions: Vec<_> = (0..4).map(|_| Session::of(Arc::clone(&store), &alice())).collect();
    for session in &mut sessions {
        session.greeted();
    }
    for mut session in sessions {
        let offset = store.unfinished(&alice()).first().map(|found| found.offset);
        let frame = match offset {
            Some(offset) => ToReceiver::Resume { offset, entry: entry(0, "f", 0) },
            None => ToReceiver::File(entry(0, "f", 0)),
        };
        begin(&mut session, 0, &frame, 9_000_000);
    }
    assert_limited(output.path(), "one file");
}

/// These partial files cannot be resumed while another file has their final name, but they still take space.
#[test]
fn what_is_left_counts_also_where_a_file_has_its_name_by_now() {
    let output = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let mut session = Session::of(limited(output.path()), &alice());
        session.greeted();
        begin(&mut session, 0, &ToReceiver::File(entry(0, &format!("f{round}"), 0)), 9_000_000);
        drop(session);
        fs::write(output.path().join(format!("f{round}")), "something").unwrap();
    }
    assert_limited(output.path(), "under names that are taken");
}

/// The limit also applies to files on several streams that announce no length.
#[test]
fn streams_that_announce_nothing_leave_no_more_than_a_session_may_store() {
    let output = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut session = Session::of(limited(output.path()), &alice());
        session.greeted();
        for stream in 0..=usize::from(FILE_STREAMS_MAX) {
            let index = u32::try_from(stream).unwrap();
            begin(&mut session, stream, &ToReceiver::File(entry(index, &format!("f{index}"), 0)), 9_000_000);
        }
    }
    assert_limited(output.path(), "streams");
}

/// The bytes of files that were completed or removed become available again.
#[test]
fn what_is_not_unfinished_any_more_makes_room() {
    let output = tempfile::tempdir().unwrap();
    let store = limited(output.path());
    for round in 0..4_u8 {
        let mut session = Session::of(Arc::clone(&store), &alice());
        session.greeted();
        let content = vec![round; 9_000_000];
        let name = format!("f{round}");
        let whole = Entry { len: Some(9_000_000), ..entry(0, &name, 9_000_000) };
        session.say(&ToReceiver::File(whole)).unwrap();
        session.data(&content);
        assert_eq!(session.end(&content), Ok(Confirmed::Stored));
    }
    for _ in 0..4 {
        let mut session = Session::of(Arc::clone(&store), &alice());
        session.greeted();
        let file = ToReceiver::File(entry(0, "g", 9_000_000));
        assert_eq!(session.say(&file).unwrap(), []);
        session.data(&vec![1; 9_000_000]);
        session.say(&ToReceiver::FileAbort(String::new())).unwrap();
        assert_eq!(unfinished_bytes(output.path()), 0);
    }
}
