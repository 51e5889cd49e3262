//! Tests on file systems that do not distinguish all names.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use dfcp_framing::files::Partial;
use dfcp_powercut::{Disk, PowerCut, missing};

use super::*;
use crate::store::{Store, StoreOptions};

const LEN: usize = 200_000;

fn disk() -> Option<(PowerCut, tempfile::TempDir)> {
    if let Some(reason) = missing() {
        std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {reason}\n").as_bytes()).unwrap();
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    Some((PowerCut::mount(directory.path(), Disk::folding()).unwrap(), directory))
}

fn replacing() -> StoreOptions {
    StoreOptions { replace: true.into(), keep_unfinished: true, ..StoreOptions::default() }
}

fn session(output: &Path, owner: &str, options: StoreOptions) -> Assembler {
    let store = Arc::new(Store::open(output, options).unwrap());
    Assembler::new(store, Some(Owner::from_fingerprint(owner)), Arc::new(|_| {}))
}

fn entry(index: u32, name: &str) -> Entry {
    let (mode, mtime_s, mtime_ns, size_hint_bytes) = (0o644, 7, 0, 0);
    let (directories, len) = (0, Some(LEN as u64));
    Entry { index, directories, mode, mtime_s, mtime_ns, size_hint_bytes, len, name: name.as_bytes().to_vec() }
}

fn data(byte: u8) -> ToReceiver {
    ToReceiver::Data(vec![byte; LEN])
}

fn end(byte: u8) -> ToReceiver {
    ToReceiver::FileEnd { len: LEN as u64, hash: *blake3::hash(&vec![byte; LEN]).as_bytes() }
}

/// Stores a file. Returns the code of the failure, if any.
fn store(session: &mut Assembler, index: u32, name: &str, byte: u8) -> Option<FailureCode> {
    for frame in [ToReceiver::File(entry(index, name)), data(byte), end(byte)] {
        session.handle(0, &frame).unwrap();
    }
    session.publish().unwrap();
    let answers = session.take_answers();
    let [ToSender::Verdict { outcome, .. }] = &answers[..] else { panic!("{answers:?}") };
    outcome.as_ref().err().map(|failure| failure.code)
}

fn temporary(output: &Path) -> String {
    let mut names = fs::read_dir(output).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.find(|name| name.starts_with(".dfcp-") && name != ".dfcp-journals.part").unwrap()
}

/// Attack: a temporary name in another spelling would replace another sender's file in progress, which would then be
/// confirmed.
#[test]
fn no_spelling_of_a_temporary_name_leads_to_what_another_sender_has_begun() {
    let Some((mount, _directory)) = disk() else { return };
    let mut alice = session(mount.path(), "SHA256:alice", replacing());
    alice.handle(0, &ToReceiver::File(entry(0, "f"))).unwrap();
    alice.handle(0, &data(1)).unwrap();
    let name = temporary(mount.path());
    let mut mallory = session(mount.path(), "SHA256:mallory", replacing());
    let spellings =
        [name.to_uppercase(), format!("{name}."), format!("{name} "), name.replace(".part", ".pa\u{200c}rt")];
    for (index, spelling) in spellings.iter().enumerate() {
        assert_eq!(store(&mut mallory, index as u32, spelling, 2), Some(FailureCode::Name), "{spelling:?}");
    }
    alice.handle(0, &end(1)).unwrap();
    alice.publish().unwrap();
    assert_eq!(alice.take_answers(), [ToSender::Verdict { index: 0, outcome: Ok(Confirmed::Stored) }]);
    assert_eq!(fs::read(mount.path().join("f")).unwrap(), vec![1; LEN]);
}

/// A user with write access to the directory can rename another file to the temporary name.
#[test]
fn a_file_that_took_the_temporary_name_gets_no_other() {
    let output = tempfile::tempdir().unwrap();
    let mut alice = session(output.path(), "SHA256:alice", replacing());
    alice.handle(0, &ToReceiver::File(entry(0, "f"))).unwrap();
    alice.handle(0, &data(1)).unwrap();
    let name = output.path().join(temporary(output.path()));
    fs::write(output.path().join("other"), vec![2; LEN]).unwrap();
    fs::rename(output.path().join("other"), name).unwrap();
    alice.handle(0, &end(1)).unwrap();
    alice.publish().unwrap();
    let answers = alice.take_answers();
    let [ToSender::Verdict { outcome: Err(failure), .. }] = &answers[..] else { panic!("{answers:?}") };
    assert!(failure.sentence.contains("another file has taken its place"), "{failure}");
    assert!(!output.path().join("f").exists());
}

#[test]
fn of_two_files_whose_names_are_the_same_there_the_second_is_named_and_the_first_stays() {
    let Some((mount, _directory)) = disk() else { return };
    for (options, first) in [(replacing(), None), (StoreOptions::default(), None), (replacing(), None)] {
        let mut alice = session(mount.path(), "SHA256:alice", options);
        assert_eq!(store(&mut alice, 0, "Makefile", 1), first);
        assert_eq!(store(&mut alice, 1, "makefile", 2), Some(FailureCode::Exists));
        assert_eq!(store(&mut alice, 2, "makefile.", 3), Some(FailureCode::Exists));
        assert_eq!(store(&mut alice, 3, "other", 1), None, "what is new or equal is as ever");
        assert_eq!(fs::read(mount.path().join("makefile")).unwrap(), vec![1; LEN]);
    }
}

/// The first file counts as stored by this session even though the receiver already had it.
#[test]
fn a_file_that_is_unchanged_is_not_replaced_by_one_of_the_same_name_there() {
    let Some((mount, _directory)) = disk() else { return };
    assert_eq!(store(&mut session(mount.path(), "SHA256:alice", replacing()), 0, "Makefile", 1), None);
    let mut alice = session(mount.path(), "SHA256:alice", StoreOptions { allow_update: true, ..replacing() });
    let hash = Some(*blake3::hash(&vec![1; LEN]).as_bytes());
    let offer = ToReceiver::Offer { hash, asks_only: false, takes_basis: false, entry: entry(0, "Makefile") };
    alice.handle(0, &offer).unwrap();
    alice.publish().unwrap();
    assert_eq!(alice.take_answers(), [ToSender::Verdict { index: 0, outcome: Ok(Confirmed::Unchanged) }]);
    assert_eq!(store(&mut alice, 1, "makefile", 2), Some(FailureCode::Exists));
    assert_eq!(fs::read(mount.path().join("makefile")).unwrap(), vec![1; LEN]);
}

/// In a later session, the other spelling may replace the file: that is the purpose of `--force`.
#[test]
fn a_later_session_replaces_a_file_under_another_spelling() {
    let Some((mount, _directory)) = disk() else { return };
    for (byte, name) in [(1, "Makefile"), (2, "makefile")] {
        assert_eq!(store(&mut session(mount.path(), "SHA256:alice", replacing()), 0, name, byte), None);
        assert_eq!(fs::read(mount.path().join("makefile")).unwrap(), vec![byte; LEN]);
    }
}

#[test]
fn a_file_goes_on_there_as_elsewhere() {
    let Some((mount, _directory)) = disk() else { return };
    let mut alice = session(mount.path(), "SHA256:alice", replacing());
    alice.handle(0, &ToReceiver::File(entry(0, "F"))).unwrap();
    alice.handle(0, &ToReceiver::Data(vec![1; 150_000])).unwrap();
    drop(alice);
    let mut alice = session(mount.path(), "SHA256:alice", replacing());
    alice.greet();
    let answers = alice.take_answers();
    assert!(matches!(&answers[..], [_, ToSender::Partial(Partial { offset: 131_072, .. })]), "{answers:?}");
}
