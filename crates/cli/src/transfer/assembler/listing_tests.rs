//! Senders that would delete what they may not.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use dfcp_framing::files::Listing;

use super::*;
use crate::transfer::store::{Store, StoreOptions};

fn directory(index: u32, directories: u32, name: &str) -> ToReceiver {
    ToReceiver::Directory(Entry {
        index,
        directories,
        mode: 0o755,
        mtime_s: 1,
        mtime_ns: 0,
        size_hint_bytes: 0,
        len: None,
        name: name.into(),
    })
}

fn listing(directory: &str, names: &[&str], is_last: bool) -> ToReceiver {
    let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    ToReceiver::Listing(Listing { asks_only: false, is_last, directory: directory.into(), names })
}

/// An output directory with some files, and a session that may delete or not.
fn session(allow_delete: bool) -> (tempfile::TempDir, Assembler) {
    let output = tempfile::tempdir().unwrap();
    for name in ["d/a", "d/b", "d/c", "e/a", "top"] {
        let path = output.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let options = StoreOptions { allow_delete, ..StoreOptions::default() };
    let store = Arc::new(Store::open(output.path(), options).unwrap());
    (output, Assembler::new(store, None, Arc::new(|_| {})))
}

fn left(output: &Path) -> Vec<String> {
    let all = walkdir::WalkDir::new(output).sort_by_file_name().into_iter().map(|entry| entry.unwrap());
    let files = all.filter(|entry| entry.file_type().is_file());
    files.map(|entry| entry.path().strip_prefix(output).unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn what_is_not_listed_is_deleted_in_that_directory_alone() {
    let (output, mut assembler) = session(true);
    assembler.handle(0, &directory(0, 0, "d")).unwrap();
    assembler.handle(0, &listing("d", &["b"], false)).unwrap();
    assert_eq!(left(output.path()), ["d/b", "d/c", "e/a", "top"], "what comes later may still be named");
    assembler.handle(0, &listing("d", &["c", "x"], true)).unwrap();
    assert_eq!(left(output.path()), ["d/b", "d/c", "e/a", "top"]);
    assert_eq!(assembler.take_answers(), [ToSender::Deleted { failure: None, name: b"d/a".to_vec() }]);
}

#[test]
fn a_listing_has_its_place_behind_its_directory_and_nowhere_else() {
    let all = ["d/a", "d/b", "d/c", "e/a", "top"];
    let (d, e, file) = (
        directory(0, 0, "d"),
        directory(1, 1, "e"),
        ToReceiver::Offer {
            hash: None,
            asks_only: true,
            takes_basis: false,
            entry: Entry {
                index: 9,
                directories: 0,
                mode: 0,
                mtime_s: 0,
                mtime_ns: 0,
                size_hint_bytes: 0,
                len: Some(1),
                name: b"f".to_vec(),
            },
        },
    );
    for (what, allow_delete, frames) in [
        ("where nothing may be deleted", false, vec![d.clone(), listing("d", &[], true)]),
        ("of a directory that is not sent", true, vec![listing("d", &[], true)]),
        ("of another one", true, vec![d.clone(), listing("e", &[], true)]),
        ("of one before", true, vec![d.clone(), e, listing("d", &[], true)]),
        ("of what leads out", true, vec![d.clone(), listing("..", &[], true)]),
        ("of the output directory", true, vec![d.clone(), listing("", &[], true)]),
        ("after something else", true, vec![d.clone(), file, listing("d", &[], true)]),
        ("a second one", true, vec![d.clone(), listing("d", &["a", "b", "c"], true), listing("d", &[], true)]),
        ("one of which the rest is another's", true, vec![d, listing("d", &["a"], false), listing("e", &[], true)]),
    ] {
        let (output, mut assembler) = session(allow_delete);
        let (last, before) = frames.split_last().unwrap();
        let before: Result<(), _> = before.iter().try_for_each(|frame| assembler.handle(0, frame));
        assert!(before.is_ok() || what == "after something else", "{what}: {before:?}");
        assert!(matches!(assembler.handle(0, last), Err(TransferError::Protocol(_))), "{what}");
        assert_eq!(left(output.path()), all, "{what}");
    }
}

#[cfg(unix)]
#[test]
fn a_directory_that_is_a_link_is_not_emptied() {
    let (output, mut assembler) = session(true);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    std::os::unix::fs::symlink(outside.path(), output.path().join("link")).unwrap();
    assembler.handle(0, &directory(0, 0, "link")).unwrap();
    assert!(assembler.handle(0, &listing("link", &[], true)).is_err(), "it was refused, so it was not sent");
    let asks =
        ToReceiver::Listing(Listing { asks_only: true, is_last: true, directory: b"link".to_vec(), names: Vec::new() });
    let (_output, mut assembler) = session(true);
    assembler.handle(0, &asks).unwrap();
    assert_eq!(assembler.take_answers(), [], "nothing is told of what is there");
    assert!(outside.path().join("kept").exists());
}

/// What cannot be deleted is told, and everything else goes on.
#[cfg(unix)]
#[test]
fn what_cannot_be_deleted_is_told() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        // Nothing is forbidden to root.
        return;
    }
    let (output, mut assembler) = session(true);
    fs::set_permissions(output.path().join("d"), fs::Permissions::from_mode(0o555)).unwrap();
    assembler.handle(0, &directory(0, 0, "d")).unwrap();
    assembler.handle(0, &listing("d", &["b", "c"], true)).unwrap();
    let answers = assembler.take_answers();
    assert!(matches!(&answers[..], [ToSender::Deleted { failure: Some(FailureCode::Permission), .. }]), "{answers:?}");
    fs::set_permissions(output.path().join("d"), fs::Permissions::from_mode(0o755)).unwrap();
}
