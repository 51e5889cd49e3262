//! Tests with a paired sender that may only resume its transfer and tries everything else.

use std::fs;
use std::path::Path;

use dfcp_framing::files::{Delete, Hello, Link, LinkKind, Partial};

use super::resume_tests::{Session, alice, keeping};
use super::*;
use crate::scope::Hashed;
use crate::store::StoreOptions;

fn entry(name: &str, bytes: u64) -> Entry {
    Entry {
        index: 0,
        directories: 0,
        mode: 0o644,
        mtime_s: 5,
        mtime_ns: 6,
        size_hint_bytes: bytes,
        len: Some(bytes).filter(|len| *len > 0),
        name: name.as_bytes().to_vec(),
    }
}

/// Returns a session of the paired sender, which has started `film` and a file in `photos`.
fn pair(output: &Path, options: StoreOptions) -> Session {
    let names = [&b"film"[..], b"photos"].map(Hashed::of).into();
    let mut session = Session::open(output, &alice(), options);
    session.assembler.scope = Arc::new(Scope::only(names));
    session
}

fn all() -> StoreOptions {
    StoreOptions { replace: true.into(), allow_delete: true.into(), allow_update: true, ..keeping() }
}

/// Returns the failure by which the receiver answers a frame.
#[track_caller]
fn refused(session: &mut Session, frame: &ToReceiver) -> Failure {
    let answers = session.say(frame).unwrap();
    let [ToSender::Verdict { outcome: Err(failure), .. }] = &answers[..] else { panic!("{answers:?}") };
    failure.clone()
}

#[test]
fn nothing_else_is_stored_offered_or_made() {
    for name in ["other", "films", "film2/a", "photo", "x/film"] {
        for frame in [
            ToReceiver::File(entry(name, 3)),
            ToReceiver::Directory(entry(name, 0)),
            ToReceiver::Resume { offset: 1 << 20, entry: entry(name, 5_000_000) },
            ToReceiver::Offer { hash: None, asks_only: false, takes_basis: false, entry: entry(name, 3) },
            ToReceiver::Offer { hash: Some([1; 32]), asks_only: false, takes_basis: true, entry: entry(name, 3) },
        ] {
            let output = tempfile::tempdir().unwrap();
            fs::write(output.path().join("other"), "own").unwrap();
            let mut session = pair(output.path(), all());
            let failure = refused(&mut session, &frame);
            assert!(failure.sentence.contains("new code"), "{name} {frame:?}: {failure}");
            drop(session);
            assert_eq!(fs::read_dir(output.path()).unwrap().count(), 1, "{name} {frame:?}");
            assert_eq!(fs::read(output.path().join("other")).unwrap(), b"own");
        }
    }
}

#[test]
fn what_was_begun_is_stored_and_not_replaced() {
    let output = tempfile::tempdir().unwrap();
    let mut session = pair(output.path(), all());
    assert_eq!(session.say(&ToReceiver::File(entry("film", 3))).unwrap(), []);
    session.data(b"new");
    assert_eq!(session.end(b"new"), Ok(Confirmed::Stored));
    drop(session);
    let mut again = pair(output.path(), all());
    let failure = refused(&mut again, &ToReceiver::File(entry("film", 5)));
    assert_eq!(failure.code, FailureCode::Exists);
    assert_eq!(fs::read(output.path().join("film")).unwrap(), b"new");
}

/// Returns the outcome of the only link of a session.
fn link(output: &Path, name: &str, target: &str) -> Result<Confirmed, Failure> {
    let mut session = pair(output, all());
    session.say(&ToReceiver::Links { count: 1 }).unwrap();
    session.say(&ToReceiver::End { entries: 0, streams: 0 }).unwrap();
    session.assembler.finish().unwrap();
    let link = Link {
        kind: LinkKind::Symbolic,
        asks_only: false,
        index: 0,
        mtime_s: 5,
        mtime_ns: 6,
        target: target.as_bytes().to_vec(),
        name: name.as_bytes().to_vec(),
    };
    let answers = session.say(&ToReceiver::Link(link)).unwrap();
    let verdict = answers.iter().find_map(|answer| match answer {
        ToSender::Verdict { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    verdict.unwrap()
}

#[test]
fn links_are_made_where_files_may_be_and_replace_nothing() {
    let output = tempfile::tempdir().unwrap();
    for name in ["other/l", "films/l"] {
        let failure = link(output.path(), name, "x").unwrap_err();
        assert!(failure.sentence.contains("new code"), "{name}: {failure}");
    }
    assert_eq!(fs::read_dir(output.path()).unwrap().count(), 0);
    fs::create_dir(output.path().join("photos")).unwrap();
    assert_eq!(link(output.path(), "photos/l", "x"), Ok(Confirmed::Stored));
    assert_eq!(link(output.path(), "photos/l", "x"), Ok(Confirmed::Unchanged), "a session that comes again");
    assert_eq!(link(output.path(), "photos/l", "y").unwrap_err().code, FailureCode::Exists);
    assert_eq!(fs::read_link(output.path().join("photos/l")).unwrap(), Path::new("x"));
}

#[test]
fn nothing_is_deleted_and_it_is_told_of_its_own_transfer_alone() {
    let output = tempfile::tempdir().unwrap();
    // Each of the two files was started with another code.
    for name in ["film", "other"] {
        let mut session = Session::open(output.path(), &alice(), keeping());
        session.say(&ToReceiver::File(entry(name, 5_000_000))).unwrap();
        session.data(&[7; 3_000_000]);
    }
    let mut session = pair(output.path(), all());
    let answers = session.greeted();
    let [ToSender::Hello(Hello { deletes: false, partials: 1, .. }), ToSender::Partial(Partial { name, .. })] =
        &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!(name, b"film");
    let delete = ToReceiver::Delete(Delete { asks_only: false, patterns: Vec::new() });
    assert!(session.assembler.handle(0, &delete).is_err());
    let asks = ToReceiver::Delete(Delete { asks_only: true, patterns: Vec::new() });
    assert!(pair(output.path(), all()).assembler.handle(0, &asks).is_err(), "nor are names told");
}
