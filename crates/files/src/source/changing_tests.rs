//! Tests with files that change while they are read.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, duplex, split};

use super::*;
use crate::send::send;
use crate::store::{Store, StoreOptions};
use crate::tests::receive;
use crate::{Report, SendOptions, Skipped, Snapshot};

/// Length of a file larger than all buffers between the reader and a receiver that does not read.
const LARGE_BYTES: usize = 4 << 20;

/// Position well within the file, bytes from its start.
const BEGUN_BYTES: usize = 100_000;

/// Limit on the content read from an endless source, bytes.
const ENDLESS_BYTES: usize = 32 << 20;

#[derive(Default)]
struct Watch(Mutex<Vec<(String, Skipped)>>);

impl Observer for Watch {
    fn entry(&self, _outcome: &EntryOutcome) {}
    fn skipped(&self, name: &str, what: Skipped) {
        self.0.lock().unwrap().push((name.to_owned(), what));
    }
    fn progress(&self, _snapshot: &Snapshot) {}
}

/// Results of a transfer.
struct Ended {
    report: Report,
    /// Entries that the sender has skipped.
    skipped: Vec<(String, Skipped)>,
    output: tempfile::TempDir,
    /// Number of bytes passed from the sender to the receiver.
    passed: usize,
}

impl Ended {
    fn stored(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.output.path().join(name)).ok()
    }
}

/// Sends `path`. After each piece passed on, `disturb` is called with the number of bytes passed on so far.
fn disturbed(path: &Path, options: SendOptions, mut disturb: impl FnMut(usize)) -> Ended {
    let output = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(output.path(), StoreOptions::default()).unwrap());
    let roots = Root::from_arguments(&[path.to_owned()], None).unwrap();
    let watch = Arc::new(Watch::default());
    let (here, far) = duplex(1 << 16);
    let (near, there) = duplex(1 << 16);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (sent, received, passed) = runtime.block_on(async {
        let (mut from_sender, mut to_sender) = split(far);
        let (mut from_receiver, mut to_receiver) = split(near);
        let forth = async move {
            let (mut piece, mut passed) = (vec![0; 32 << 10], 0);
            loop {
                let read = from_sender.read(&mut piece).await.unwrap();
                passed += read;
                // An error means that the receiver has ended the session.
                if read == 0 || to_receiver.write_all(&piece[..read]).await.is_err() {
                    let _ = to_receiver.shutdown().await;
                    return passed;
                }
                disturb(passed);
            }
        };
        let back = async move {
            let _ = copy(&mut from_receiver, &mut to_sender).await;
            let _ = to_sender.shutdown().await;
        };
        let received = receive(there, store, Arc::new(Watch::default()) as _, std::future::pending());
        let sent = send(here, roots, options, Arc::clone(&watch) as _);
        let (sent, received, passed, ()) = tokio::join!(sent, received, forth, back);
        (sent, received, passed)
    });
    received.unwrap();
    let skipped = std::mem::take(&mut *watch.0.lock().unwrap());
    Ended { report: sent.unwrap(), skipped, output, passed }
}

/// Calls `disturb` once, when part of the file has been sent.
fn once(mut disturb: impl FnMut()) -> impl FnMut(usize) {
    let mut is_done = false;
    move |passed| {
        if !is_done && passed >= BEGUN_BYTES {
            is_done = true;
            disturb();
        }
    }
}

fn large(directory: &tempfile::TempDir, byte: u8) -> PathBuf {
    let path = directory.path().join("f");
    fs::write(&path, vec![byte; LARGE_BYTES]).unwrap();
    path
}

fn fill(path: &Path, byte: u8) {
    let mut file = fs::File::options().write(true).open(path).unwrap();
    file.write_all(&vec![byte; LARGE_BYTES]).unwrap();
}

fn bytes_of(content: &[u8]) -> std::collections::BTreeSet<u8> {
    content.iter().copied().collect()
}

#[test]
fn a_file_that_changes_while_it_is_read_is_sent_once_more() {
    let here = tempfile::tempdir().unwrap();
    let path = large(&here, 7);
    let ended = disturbed(&path, SendOptions::default(), once(|| fill(&path, 9)));
    let stored = ended.stored("f").unwrap_or_default();
    assert_eq!((stored.len(), bytes_of(&stored)), (LARGE_BYTES, [9].into()), "a mixture was stored");
    assert_eq!((ended.report.stored, ended.report.failed), (1, 0), "{:?}", ended.report.failures);
    assert_eq!(ended.report.bytes, LARGE_BYTES as u64);
}

#[test]
fn a_file_that_changes_again_is_named_and_not_stored() {
    let here = tempfile::tempdir().unwrap();
    let path = large(&here, 7);
    let mut next = BEGUN_BYTES;
    let ended = disturbed(&path, SendOptions::default(), |passed| {
        if passed >= next {
            fill(&path, if next == BEGUN_BYTES { 8 } else { 9 });
            // The next change happens in the middle of the second sending.
            next += LARGE_BYTES;
        }
    });
    assert_eq!(ended.stored("f").map(|stored| bytes_of(&stored)), None, "a mixture was stored");
    assert_eq!((ended.report.stored, ended.report.failed), (0, 1));
    assert_eq!(ended.report.failures[0].0, "f");
    assert!(ended.report.failures[0].1.contains("changed twice"), "{:?}", ended.report.failures);
    assert_eq!(fs::read_dir(ended.output.path()).unwrap().count(), 0, "nothing is left of it");
}

#[test]
fn other_files_are_stored_beside_one_that_changes() {
    let here = tempfile::tempdir().unwrap();
    let root = here.path().join("r");
    fs::create_dir(&root).unwrap();
    let path = root.join("a");
    fs::write(&path, vec![7; LARGE_BYTES]).unwrap();
    fs::write(root.join("b"), b"small").unwrap();
    let mut byte = 0_u8;
    let ended = disturbed(&root, SendOptions::default(), |_| {
        byte = byte.wrapping_add(1);
        fill(&path, byte);
    });
    assert_eq!((ended.report.stored, ended.report.failed), (2, 1));
    assert_eq!(ended.stored("r/b").as_deref(), Some(&b"small"[..]));
    assert_eq!(ended.stored("r/a"), None);
}

/// A log file grows without end, and its existing content does not change.
#[test]
fn a_file_that_only_grows_is_sent_as_far_as_it_went_when_it_was_opened() {
    let here = tempfile::tempdir().unwrap();
    let path = large(&here, 7);
    let mut log = fs::File::options().append(true).open(&path).unwrap();
    let mut grown = 0;
    let ended = disturbed(&path, SendOptions::default(), |passed| {
        if passed >= BEGUN_BYTES && grown < ENDLESS_BYTES {
            log.write_all(&[8; 64 << 10]).unwrap();
            grown += 64 << 10;
        }
    });
    let stored = ended.stored("f").unwrap();
    assert_eq!((stored.len(), bytes_of(&stored)), (LARGE_BYTES, [7].into()));
    assert_eq!((ended.report.stored, ended.report.failed), (1, 0), "{:?}", ended.report.failures);
    assert!(ended.passed < LARGE_BYTES + BEGUN_BYTES, "it was sent twice: {}", ended.passed);
    assert_eq!(ended.skipped, [("f".to_owned(), Skipped::Growth)]);
}

#[test]
fn a_file_that_was_empty_and_grows_is_sent_empty() {
    let here = tempfile::tempdir().unwrap();
    let root = here.path().join("r");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a"), vec![7; LARGE_BYTES]).unwrap();
    fs::write(root.join("log"), b"").unwrap();
    // The file grows after it was opened and before it is read.
    let file = fs::File::open(root.join("log")).unwrap();
    let status = crate::beneath::status_of(&file).unwrap();
    fs::write(root.join("log"), b"grown").unwrap();
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut steady::Bounded::new(&file, &status), &mut content).unwrap();
    assert_eq!(content, b"");
}

#[test]
fn a_file_that_is_rewritten_and_grows_is_no_log() {
    let here = tempfile::tempdir().unwrap();
    let path = large(&here, 7);
    let ended = disturbed(
        &path,
        SendOptions::default(),
        once(|| {
            fill(&path, 9);
            fs::File::options().append(true).open(&path).unwrap().write_all(&[9; 1000]).unwrap();
        }),
    );
    let stored = ended.stored("f").unwrap_or_default();
    assert_eq!((stored.len(), bytes_of(&stored)), (LARGE_BYTES + 1000, [9].into()));
    assert_eq!((ended.report.stored, ended.report.failed), (1, 0), "{:?}", ended.report.failures);
}

#[test]
fn a_file_that_is_written_anew_and_cut_is_sent_once_more() {
    let here = tempfile::tempdir().unwrap();
    let path = large(&here, 7);
    // Truncate the file last: a reader that reaches the end between the two steps would see two changes.
    let disturb = || {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![9; LARGE_BYTES / 2], 0).unwrap();
        file.set_len(LARGE_BYTES as u64 / 2).unwrap();
    };
    let ended = disturbed(&path, SendOptions::default(), once(disturb));
    let stored = ended.stored("f").unwrap_or_default();
    assert_eq!((stored.len(), bytes_of(&stored)), (LARGE_BYTES / 2, [9].into()), "a mixture was stored");
    assert_eq!((ended.report.stored, ended.report.failed), (1, 0), "{:?}", ended.report.failures);
}

/// The reader has the old file open. That file is unchanged and consistent, so it is sent once.
#[test]
fn a_file_that_is_replaced_by_another_is_sent_as_it_was() {
    let here = tempfile::tempdir().unwrap();
    let path = large(&here, 7);
    let other = here.path().join("other");
    fs::write(&other, vec![9; LARGE_BYTES]).unwrap();
    let ended = disturbed(&path, SendOptions::default(), once(|| fs::rename(&other, &path).unwrap()));
    let stored = ended.stored("f").unwrap();
    assert_eq!((stored.len(), bytes_of(&stored)), (LARGE_BYTES, [7].into()));
    assert!(ended.passed < LARGE_BYTES + BEGUN_BYTES, "it was sent twice: {}", ended.passed);
    assert_eq!((ended.report.failed, ended.skipped.len()), (0, 0));
}

/// A writer can restore the modification time, as `touch -r` does, but not the change time.
#[test]
fn a_change_is_found_although_length_and_time_are_as_before() {
    let here = tempfile::tempdir().unwrap();
    let path = large(&here, 7);
    let time = filetime::FileTime::from_unix_time(1_000_000_000, 0);
    filetime::set_file_mtime(&path, time).unwrap();
    let ended = disturbed(
        &path,
        SendOptions::default(),
        once(|| {
            fill(&path, 9);
            filetime::set_file_mtime(&path, time).unwrap();
        }),
    );
    let stored = ended.stored("f").unwrap_or_default();
    assert_eq!((stored.len(), bytes_of(&stored)), (LARGE_BYTES, [9].into()), "a mixture was stored");
}

#[test]
fn a_file_that_got_another_mode_only_is_not_sent_twice() {
    use std::os::unix::fs::PermissionsExt;
    let here = tempfile::tempdir().unwrap();
    let path = large(&here, 7);
    let ended = disturbed(
        &path,
        SendOptions::default(),
        once(|| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap()),
    );
    assert_eq!(ended.stored("f").unwrap().len(), LARGE_BYTES);
    assert!(ended.passed < LARGE_BYTES + BEGUN_BYTES, "it was sent twice: {}", ended.passed);
}

/// Files in `/proc` report a length of 0, and their content is generated when they are read.
#[cfg(target_os = "linux")]
#[test]
fn files_that_the_system_makes_as_they_are_read_are_sent() {
    let ended = disturbed(Path::new("/proc/uptime"), SendOptions::default(), |_| {});
    assert_eq!((ended.report.stored, ended.report.failed), (1, 0), "{:?}", ended.report.failures);
    assert!(!ended.stored("uptime").unwrap().is_empty());
}
