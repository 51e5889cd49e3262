//! Tests with trees that change between the search and the reading.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional, duplex};
use tokio::sync::Notify;

use super::links::FirstNames;
use super::search::{Finder, Found, Place};
use super::tree::Tree;
use super::*;
use crate::SendOptions;
use crate::beneath::Resolution;
use crate::send::send;
use crate::store::{Store, StoreOptions};
use crate::tests::receive;
use crate::{Report, Skipped, Snapshot};

/// Length of a file larger than all buffers between the reader and a receiver that does not read.
const LARGE_BYTES: usize = 4 << 20;

const SECRET: &[u8] = b"outside of the tree";

/// Observer that signals the end of the search and collects skipped entries.
#[derive(Default)]
struct Watch {
    searched: Notify,
    skipped: Mutex<Vec<(String, Skipped)>>,
}

impl Observer for Watch {
    fn entry(&self, _outcome: &EntryOutcome) {}
    fn skipped(&self, name: &str, what: Skipped) {
        self.skipped.lock().unwrap().push((name.to_owned(), what));
    }
    fn progress(&self, snapshot: &Snapshot) {
        if snapshot.total_is_final {
            self.searched.notify_one();
        }
    }
}

/// Creates a tree whose first file, `0`, blocks the reader until the receiver reads.
fn tree_in(directory: &Path) -> PathBuf {
    let root = directory.join("tree");
    fs::create_dir_all(root.join("d/e")).unwrap();
    fs::write(root.join("0"), vec![7; LARGE_BYTES]).unwrap();
    fs::write(root.join("d/e/victim"), b"inside").unwrap();
    fs::write(root.join("last"), b"last").unwrap();
    root
}

/// Returns the resolution methods that this system supports.
fn resolutions() -> [Resolution; 2] {
    [Resolution::of_system(), Resolution::Stepwise]
}

/// Sends `root`, runs `attack` after the search, then starts the receiver. Returns the sender's report, and the content
/// of `victim` if it was received.
fn attacked(root: &Path, resolution: Resolution, victim: &str, attack: impl FnOnce()) -> (Report, Option<Vec<u8>>) {
    let output = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(output.path(), StoreOptions::default()).unwrap());
    let mut roots = Root::from_arguments(&[root.to_owned()], None).unwrap();
    roots[0].resolution = resolution;
    let watch = Arc::new(Watch::default());
    let (here, mut far) = duplex(1 << 16);
    let (mut near, there) = duplex(1 << 16);
    let receiving = async {
        watch.searched.notified().await;
        // Once content of the first file has arrived, the reader has opened the tree.
        let mut first = [0; 4096];
        far.read_exact(&mut first).await.unwrap();
        attack();
        near.write_all(&first).await.unwrap();
        let relay = copy_bidirectional(&mut far, &mut near);
        let received = receive(there, store, Arc::new(Watch::default()) as _, std::future::pending());
        tokio::join!(received, relay).0
    };
    let both = async { tokio::join!(send(here, roots, SendOptions::default(), Arc::clone(&watch) as _), receiving) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), both).await });
    // Do not wait for the threads: a reader stuck in a system call would block the shutdown.
    runtime.shutdown_background();
    let (sent, received) = ended.expect("it hangs");
    received.unwrap();
    let stored = fs::read(output.path().join(root.file_name().unwrap()).join(victim)).ok();
    (sent.unwrap(), stored)
}

/// Asserts that only `d/e/victim` failed, for this reason.
#[track_caller]
fn assert_refused((report, stored): (Report, Option<Vec<u8>>), reason: &str) {
    assert_eq!(stored.as_deref().map(String::from_utf8_lossy), None, "it was sent");
    assert_eq!((report.stored, report.failed), (5, 1), "{:?}", report.failures);
    assert!(report.failures[0].0.ends_with("tree/d/e/victim"), "{:?}", report.failures);
    assert!(report.failures[0].1.contains(reason), "{:?}", report.failures);
}

#[test]
fn a_file_swapped_for_a_link_after_the_search_is_not_followed() {
    for resolution in resolutions() {
        let here = tempfile::tempdir().unwrap();
        let root = tree_in(here.path());
        fs::write(here.path().join("secret"), SECRET).unwrap();
        let ended = attacked(&root, resolution, "d/e/victim", || {
            fs::remove_file(root.join("d/e/victim")).unwrap();
            symlink(here.path().join("secret"), root.join("d/e/victim")).unwrap();
        });
        assert_refused(ended, "symbolic link");
    }
}

#[test]
fn a_directory_swapped_for_a_link_after_the_search_is_not_followed() {
    for resolution in resolutions() {
        for directory in ["d", "d/e"] {
            let here = tempfile::tempdir().unwrap();
            let root = tree_in(here.path());
            let outside = here.path().join("outside");
            fs::create_dir_all(outside.join("e")).unwrap();
            fs::write(outside.join("victim"), SECRET).unwrap();
            fs::write(outside.join("e/victim"), SECRET).unwrap();
            let ended = attacked(&root, resolution, "d/e/victim", || {
                fs::rename(root.join(directory), here.path().join("away")).unwrap();
                symlink(&outside, root.join(directory)).unwrap();
            });
            assert_refused(ended, "symbolic link");
        }
    }
}

#[test]
fn a_file_swapped_for_a_pipe_after_the_search_is_not_waited_for() {
    for resolution in resolutions() {
        let here = tempfile::tempdir().unwrap();
        let root = tree_in(here.path());
        let ended = attacked(&root, resolution, "d/e/victim", || {
            fs::remove_file(root.join("d/e/victim")).unwrap();
            let made = std::process::Command::new("mkfifo").arg(root.join("d/e/victim")).status().unwrap();
            assert!(made.success());
        });
        assert_refused(ended, "no regular file any more");
    }
}

#[test]
fn a_file_swapped_for_another_after_the_search_is_named_and_not_sent() {
    for resolution in resolutions() {
        let here = tempfile::tempdir().unwrap();
        let root = tree_in(here.path());
        fs::write(here.path().join("secret"), SECRET).unwrap();
        // The attacker renames `secret` to the name of the victim, as a stand-in for a file that the attacker cannot
        // read.
        let ended = attacked(&root, resolution, "d/e/victim", || {
            fs::rename(here.path().join("secret"), root.join("d/e/victim")).unwrap();
        });
        assert_refused(ended, "another file has its name now");
    }
}

#[test]
fn a_file_that_only_changes_after_the_search_is_sent_as_it_is_then() {
    for resolution in resolutions() {
        let here = tempfile::tempdir().unwrap();
        let root = tree_in(here.path());
        let (report, stored) =
            attacked(&root, resolution, "d/e/victim", || fs::write(root.join("d/e/victim"), b"rewritten").unwrap());
        assert_eq!((report.stored, report.failed), (6, 0), "{:?}", report.failures);
        assert_eq!(stored.as_deref(), Some(&b"rewritten"[..]));
    }
}

#[test]
fn a_tree_swapped_as_a_whole_after_the_search_is_not_sent() {
    for resolution in resolutions() {
        let here = tempfile::tempdir().unwrap();
        let root = tree_in(here.path());
        fs::create_dir(here.path().join("other")).unwrap();
        fs::create_dir_all(here.path().join("first")).unwrap();
        let other = tree_in(&here.path().join("other"));
        fs::write(other.join("d/e/victim"), SECRET).unwrap();
        // The searched root stays open, so its files are read even after the directory has been renamed.
        let (report, stored) = attacked(&root, resolution, "d/e/victim", || {
            fs::rename(&root, here.path().join("first/tree")).unwrap();
            fs::rename(&other, &root).unwrap();
        });
        assert_eq!((report.failed, stored.as_deref()), (0, Some(&b"inside"[..])), "{:?}", report.failures);
    }
}

/// A FIFO given as an argument is refused at the start. Here it replaces a file after the search.
#[test]
fn a_file_of_the_command_line_that_becomes_another_is_not_sent() {
    let here = tempfile::tempdir().unwrap();
    let named = here.path().join("named");
    fs::write(&named, b"x").unwrap();
    let place = Place::Named(named.clone());
    let identity = crate::beneath::status_of_named(&named).unwrap().identity;
    let tree = Tree::default();
    tree.open_file(&place, identity).unwrap();
    fs::rename(&named, here.path().join("first")).unwrap();
    fs::write(&named, SECRET).unwrap();
    assert!(tree.open_file(&place, identity).unwrap_err().contains("another file has its name now"));
    // A link is followed, as it would be during the search.
    fs::remove_file(&named).unwrap();
    symlink(here.path().join("first"), &named).unwrap();
    tree.open_file(&place, identity).unwrap();
    fs::remove_file(&named).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&named).status().unwrap().success());
    assert!(tree.open_file(&place, identity).unwrap_err().contains("no regular file"));
}

#[test]
fn a_directory_exchanged_before_it_is_read_gives_no_files() {
    for resolution in resolutions() {
        let here = tempfile::tempdir().unwrap();
        let path = tree_in(here.path());
        let mut roots = Root::from_arguments(std::slice::from_ref(&path), None).unwrap();
        roots[0].resolution = resolution;
        let identity = crate::beneath::status_of_named(&path).unwrap().identity;
        fs::rename(&path, here.path().join("away")).unwrap();
        tree_in(here.path());
        let tree = Tree::open(roots.remove(0), identity);
        let sentence = tree.open_file(&Place::Below("last".into()), identity).unwrap_err();
        assert!(sentence.contains("no longer the directory that was searched"), "{sentence}");
    }
}

/// Trees whose depth is the maximum, with files at every level, and a deeper tree: the number of descriptors is
/// bounded.
#[test]
fn deep_trees_are_searched_to_the_depth_that_names_may_have() {
    for resolution in resolutions() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().join("r");
        let mut directory = root.clone();
        // The root and the file itself are components, too.
        for _ in 0..dfcp_framing::limits::DEPTH_MAX - 2 {
            directory.push("d");
        }
        fs::create_dir_all(directory.join("e/f")).unwrap();
        fs::write(directory.join("victim"), b"deep").unwrap();
        fs::write(directory.join("e/too-deep"), b"").unwrap();
        let victim = directory.join("victim").strip_prefix(&root).unwrap().to_owned();
        let mut roots = Root::from_arguments(&[root], None).unwrap();
        roots[0].resolution = resolution;
        let (found, all) = sync_channel(1000);
        let shared = Arc::new(Shared::new());
        Finder {
            found,
            shared: Arc::clone(&shared),
            observer: Arc::new(Watch::default()),
            options: SendOptions::default(),
            first_names: FirstNames::default(),
        }
        .run(&roots);
        let files: Vec<_> = all
            .iter()
            .filter_map(|it| if let Found::File { place: Place::Below(path), .. } = it { Some(path) } else { None })
            .collect();
        assert_eq!(files, [victim]);
        let report = shared.report.lock().unwrap();
        assert_eq!(report.failed, 2, "{:?}", report.failures);
        assert!(report.failures.iter().all(|(_, why)| why.contains("64 directories deep")), "{:?}", report.failures);
    }
}

#[test]
fn the_order_is_that_of_names_directory_by_directory() {
    let here = tempfile::tempdir().unwrap();
    let root = here.path().join("r");
    for directory in ["b/x", "b.c", "a"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in ["b/x/1", "b/2", "b.c/3", "Z", "a/4", "é"] {
        fs::write(root.join(file), b"").unwrap();
    }
    let (found, all) = sync_channel(1000);
    let shared = Arc::new(Shared::new());
    Finder {
        found,
        shared,
        observer: Arc::new(Watch::default()),
        options: SendOptions::default(),
        first_names: FirstNames::default(),
    }
    .run(&Root::from_arguments(&[root], None).unwrap());
    let names: Vec<String> = all
        .iter()
        .filter_map(|it| match it {
            Found::Root { .. } | Found::StandardInput { .. } | Found::Link(_) => None,
            Found::Directory { name, .. } | Found::File { name, .. } => Some(name.to_string()),
        })
        .collect();
    let expected = ["r", "r/Z", "r/a", "r/a/4", "r/b", "r/b/2", "r/b/x", "r/b/x/1", "r/b.c", "r/b.c/3", "r/é"];
    assert_eq!(names, expected);
}

#[test]
fn what_is_announced_of_a_file_is_the_room_that_it_takes() {
    let here = tempfile::tempdir().unwrap();
    let (sparse, small) = (here.path().join("sparse"), here.path().join("small"));
    File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    fs::write(&small, b"hi").unwrap();
    let announced = |path: &Path| {
        let status = crate::beneath::status_of_named(path).unwrap();
        let nameless = Entry {
            index: 0,
            directories: 0,
            mode: 0,
            mtime_s: 0,
            mtime_ns: 0,
            size_hint_bytes: 0,
            len: None,
            name: Vec::new(),
        };
        (entry_of(&nameless, &status).size_hint_bytes, status.len)
    };
    assert!(matches!(announced(&sparse), (0..1_000_000, 0x100_0000_0000)), "{:?}", announced(&sparse));
    assert!(matches!(announced(&small), (0..=2, 2)), "{:?}", announced(&small));
}

#[test]
fn files_that_a_receiver_has_not_finished_are_left_out_and_told() {
    let here = tempfile::tempdir().unwrap();
    let root = here.path().join("r");
    fs::create_dir_all(root.join(".dfcp-directory.part")).unwrap();
    fs::write(root.join(".dfcp-0123456789abcdef.part"), b"half").unwrap();
    fs::write(root.join("whole"), b"whole").unwrap();
    let (found, all) = sync_channel(1000);
    let (shared, watch) = (Arc::new(Shared::new()), Arc::new(Watch::default()));
    Finder {
        found,
        shared: Arc::clone(&shared),
        observer: Arc::clone(&watch) as _,
        options: SendOptions::default(),
        first_names: FirstNames::default(),
    }
    .run(&Root::from_arguments(&[root], None).unwrap());
    assert_eq!(all.iter().filter(|it| matches!(it, Found::File { .. })).count(), 1);
    let report = shared.report.lock().unwrap();
    assert_eq!((report.skipped, report.failed), (2, 0), "{:?}", report.failures);
    let skipped = watch.skipped.lock().unwrap();
    assert!(skipped[0].0.ends_with(".part") && skipped[0].1 == Skipped::Unfinished, "{skipped:?}");
}
