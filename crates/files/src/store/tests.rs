use dfcp_framing::limits::DEPTH_MAX;
use dfcp_framing::names::{TEMPORARY_PREFIX, TEMPORARY_SUFFIX};

use super::*;
use std::fs;
#[cfg(unix)]
use std::fs::File;
use std::time::{Duration, SystemTime};

use super::changed::FLUSHED;
use crate::limits::{ABANDONED_AGE, DIRECTORIES_FLUSHED_MAX};

fn name(text: &str) -> RelativeName {
    RelativeName::parse(text.as_bytes()).unwrap()
}

fn entry() -> Entry {
    Entry {
        index: 0,
        directories: 0,
        mode: 0o100_640,
        mtime_s: 1_000_000_000,
        mtime_ns: 5,
        size_hint_bytes: 0,
        len: None,
        name: Vec::new(),
    }
}

fn put(store: &Store, to: &str, data: &[u8]) -> Result<(), Failure> {
    let mut staged = store.begin(&name(to), 0, &mut Changed::default())?;
    staged.write(data)?;
    commit(store, staged, &entry(), data)
}

/// Verifies and publishes one file.
fn commit(store: &Store, staged: Staged, entry: &Entry, data: &[u8]) -> Result<(), Failure> {
    let unpublished = match completed(store, staged, entry, data.len() as u64, data)? {
        Completed::New(finished) => Unpublished::File(finished),
        Completed::Unchanged(existing) => Unpublished::Unchanged(existing),
        Completed::Adopted(both) => Unpublished::Adopted(both),
    };
    store.publish(vec![unpublished], &mut Changed::default()).unwrap().remove(0)
}

/// Completes a received file, as if the sender had sent the hash of `hashed`.
fn completed(store: &Store, staged: Staged, entry: &Entry, len: u64, hashed: &[u8]) -> Result<Completed, Failure> {
    store.finish(staged, (&name("f"), entry), (len, blake3::hash(hashed).as_bytes()), &Over::default())
}

fn new(completed: Result<Completed, Failure>) -> Box<Finished> {
    match completed.unwrap() {
        Completed::New(finished) => finished,
        other => panic!("{other:?}"),
    }
}

fn finish_directory(store: &Store, to: &str, made: Made, entry: &Entry) -> Result<(), Failure> {
    let directory = Unpublished::Directory { name: name(to), made, entry: entry.clone() };
    store.publish(vec![directory], &mut Changed::default()).unwrap().remove(0)
}

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_only_when_verified_and_with_its_metadata() {
    let output = tempfile::tempdir().unwrap();
    let store =
        Store::open(&output.path().join("new/dir"), StoreOptions { sync: true, ..StoreOptions::default() }).unwrap();
    let mut staged = store.begin(&name("f"), 0, &mut Changed::default()).unwrap();
    staged.write(b"hello").unwrap();
    assert!(!store.path().join("f").exists());
    commit(&store, staged, &entry(), b"hello").unwrap();
    assert_eq!(names_in(store.path()), ["f"]);
    let metadata = fs::metadata(store.path().join("f")).unwrap();
    assert_eq!(FileTime::from_last_modification_time(&metadata), FileTime::from_unix_time(1_000_000_000, 5));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o640);
    }
}

#[cfg(unix)]
#[test]
fn a_peer_cannot_grant_set_user_id() {
    use std::os::unix::fs::PermissionsExt;
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    let staged = store.begin(&name("f"), 0, &mut Changed::default()).unwrap();
    let entry = Entry { mode: 0o7755, ..entry() };
    commit(&store, staged, &entry, b"").unwrap();
    assert_eq!(fs::metadata(output.path().join("f")).unwrap().permissions().mode() & 0o7777, 0o755);
}

#[test]
fn a_wrong_hash_or_length_leaves_nothing() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    for (len, hashed) in [(5, b"hellO"), (4, b"hello")] {
        let mut staged = store.begin(&name("f"), 0, &mut Changed::default()).unwrap();
        staged.write(b"hello").unwrap();
        let failure = completed(&store, staged, &entry(), len, hashed).unwrap_err();
        assert_eq!(failure.code, FailureCode::Mismatch);
    }
    assert!(names_in(output.path()).is_empty());
}

#[test]
fn existing_files_are_kept_unless_told_to_replace() {
    let output = tempfile::tempdir().unwrap();
    let careful = Store::open(output.path(), StoreOptions::default()).unwrap();
    put(&careful, "f", b"old").unwrap();
    assert_eq!(put(&careful, "f", b"new").unwrap_err().code, FailureCode::Exists);
    assert_eq!(fs::read(output.path().join("f")).unwrap(), b"old");
    // Another program creates the file during the transfer.
    let staged = careful.begin(&name("late"), 0, &mut Changed::default()).unwrap();
    fs::write(output.path().join("late"), b"theirs").unwrap();
    let failure = commit(&careful, staged, &entry(), b"").unwrap_err();
    assert_eq!(failure.code, FailureCode::Exists);
    assert_eq!(fs::read(output.path().join("late")).unwrap(), b"theirs");

    let forceful =
        Store::open(output.path(), StoreOptions { replace: true.into(), ..StoreOptions::default() }).unwrap();
    put(&forceful, "f", b"new").unwrap();
    assert_eq!(fs::read(output.path().join("f")).unwrap(), b"new");
    fs::create_dir(output.path().join("d")).unwrap();
    assert_eq!(put(&forceful, "d", b"x").unwrap_err().code, FailureCode::Exists);
    assert_eq!(names_in(output.path()), ["d", "f", "late"]);
}

#[cfg(unix)]
#[test]
fn links_which_lead_outside_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("victim"), b"keep").unwrap();
    let output = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), output.path().join("d")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("victim"), output.path().join("l")).unwrap();
    for force in [false, true] {
        let store =
            Store::open(output.path(), StoreOptions { replace: force.into(), ..StoreOptions::default() }).unwrap();
        assert_eq!(put(&store, "d/victim", b"evil").unwrap_err().code, FailureCode::Name);
        assert_eq!(
            store.make_directory(&name("d"), &entry(), &mut Changed::default()).unwrap_err().code,
            FailureCode::Name
        );
        assert_eq!(
            store.make_directory(&name("d/e"), &entry(), &mut Changed::default()).unwrap_err().code,
            FailureCode::Name
        );
        assert_eq!(put(&store, "l", b"evil").is_ok(), force, "only --force replaces the link itself");
    }
    assert_eq!(names_in(outside.path()), ["victim"]);
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"keep");
    assert_eq!(fs::read(output.path().join("l")).unwrap(), b"evil");
}

#[test]
fn a_file_in_the_place_of_a_directory_is_a_clear_failure() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions { replace: true.into(), ..StoreOptions::default() }).unwrap();
    put(&store, "f", b"x").unwrap();
    assert_eq!(
        store.make_directory(&name("f"), &entry(), &mut Changed::default()).unwrap_err().code,
        FailureCode::Exists
    );
    assert_eq!(put(&store, "f/g", b"x").unwrap_err().code, FailureCode::Exists);
    assert_eq!(put(&store, "missing/g", b"x").unwrap_err().code, FailureCode::FileSystem);
}

#[test]
fn an_unfinished_file_is_removed_when_dropped() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    let mut staged = store.begin(&name("f"), 0, &mut Changed::default()).unwrap();
    staged.write(&[1; 1000]).unwrap();
    let during = names_in(output.path());
    assert!(during.len() == 1 && during[0].starts_with(TEMPORARY_PREFIX) && during[0].ends_with(TEMPORARY_SUFFIX));
    drop(staged);
    assert!(names_in(output.path()).is_empty());
}

/// Every write to `/dev/full` fails with ENOSPC.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_and_leaves_nothing() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    let mut staged = store.begin(&name("f"), 0, &mut Changed::default()).unwrap();
    staged.file = File::options().write(true).open("/dev/full").unwrap();
    // The data must not be zeros, which would become a hole and would not be written.
    let failure = staged.write(&[1; 10]).unwrap_err();
    assert_eq!(failure.code, FailureCode::DiskFull);
    assert!(failure.sentence.contains("disk is full"), "{failure}");
    drop(staged);
    assert!(names_in(output.path()).is_empty());
}

#[test]
fn errors_of_the_system_become_one_sentence() {
    for (kind, code) in [
        (io::ErrorKind::PermissionDenied, FailureCode::Permission),
        (io::ErrorKind::ReadOnlyFilesystem, FailureCode::Permission),
        (io::ErrorKind::QuotaExceeded, FailureCode::DiskFull),
        (io::ErrorKind::FileTooLarge, FailureCode::DiskFull),
        (io::ErrorKind::Other, FailureCode::FileSystem),
    ] {
        let failure = Failure::from_io("write the file", &io::Error::from(kind));
        assert_eq!(failure.code, code);
        assert!(!failure.sentence.contains('\n') && failure.sentence.contains("receiver"));
    }
    assert_eq!(Failure::new(FailureCode::Name, "é".repeat(4000)).sentence.len(), 1024);
}

#[cfg(unix)]
fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Returns the permissions that the umask leaves to a new directory.
#[cfg(unix)]
fn granted() -> u32 {
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("probe")).unwrap();
    mode_of(&here.path().join("probe"))
}

#[cfg(unix)]
#[test]
fn others_may_not_write_what_is_stored_unless_modes_are_preserved() {
    for (preserve_modes, expected) in [(false, granted() & !0o022), (true, 0o777)] {
        let output = tempfile::tempdir().unwrap();
        let store = Store::open(output.path(), StoreOptions { preserve_modes, ..StoreOptions::default() }).unwrap();
        let open = Entry { mode: 0o7777, ..entry() };
        let made = store.make_directory(&name("d"), &open, &mut Changed::default()).unwrap();
        assert_eq!(mode_of(&output.path().join("d")) & 0o022 & !granted(), 0, "not even before it is finished");
        let staged = store.begin(&name("d/f"), 0, &mut Changed::default()).unwrap();
        commit(&store, staged, &open, b"").unwrap();
        finish_directory(&store, "d", made, &open).unwrap();
        for stored in ["d", "d/f"] {
            let mode = mode_of(&output.path().join(stored));
            assert_eq!(mode, expected, "{stored} has {mode:o}, with preserve_modes {preserve_modes}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_directory_is_never_open_to_more_than_in_the_end() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    let private = Entry { mode: 0o500, ..entry() };
    let made = store.make_directory(&name("d"), &private, &mut Changed::default()).unwrap();
    assert_eq!(mode_of(&output.path().join("d")), 0o700);
    put(&store, "d/f", b"x").unwrap();
    finish_directory(&store, "d", made, &private).unwrap();
    assert_eq!(mode_of(&output.path().join("d")), 0o500);
}

#[cfg(unix)]
#[test]
fn a_directory_swapped_for_a_link_while_a_file_is_written_leads_nothing_outside() {
    let around = tempfile::tempdir().unwrap();
    let (output, outside) = (around.path().join("output"), around.path().join("outside"));
    fs::create_dir_all(output.join("d")).unwrap();
    fs::create_dir(&outside).unwrap();
    for replace in [false, true] {
        let store =
            Store::open(&output, StoreOptions { replace: replace.into(), sync: true, ..StoreOptions::default() })
                .unwrap();
        let mut staged = store.begin(&name("d/f"), 0, &mut Changed::default()).unwrap();
        fs::rename(output.join("d"), output.join("away")).unwrap();
        std::os::unix::fs::symlink(&outside, output.join("d")).unwrap();
        staged.write(b"data").unwrap();
        commit(&store, staged, &entry(), b"data").unwrap();
        assert_eq!(names_in(&outside), [""; 0]);
        assert_eq!(names_in(&output.join("away")), ["f"]);
        fs::remove_file(output.join("d")).unwrap();
        fs::rename(output.join("away"), output.join("d")).unwrap();
    }
    // A discarded file is removed from its directory, even after the directory has been renamed.
    let store = Store::open(&output, StoreOptions::default()).unwrap();
    let staged = store.begin(&name("d/g"), 0, &mut Changed::default()).unwrap();
    fs::rename(output.join("d"), output.join("away")).unwrap();
    drop(staged);
    assert_eq!(names_in(&output.join("away")), ["f"]);
}

#[cfg(unix)]
#[test]
fn the_output_directory_is_the_one_that_was_opened() {
    let around = tempfile::tempdir().unwrap();
    let (output, other) = (around.path().join("output"), around.path().join("other"));
    fs::create_dir(&other).unwrap();
    let store = Store::open(&output, StoreOptions::default()).unwrap();
    fs::rename(&output, around.path().join("away")).unwrap();
    std::os::unix::fs::symlink(&other, &output).unwrap();
    put(&store, "f", b"x").unwrap();
    assert_eq!((names_in(&other).len(), names_in(&around.path().join("away"))), (0, vec!["f".to_owned()]));
}

#[cfg(unix)]
#[test]
fn the_metadata_of_a_directory_go_to_the_one_that_was_made() {
    let around = tempfile::tempdir().unwrap();
    let (output, victim) = (around.path().join("output"), around.path().join("victim"));
    fs::create_dir(&victim).unwrap();
    let before = fs::metadata(&victim).unwrap();
    let store = Store::open(&output, StoreOptions::default()).unwrap();
    let open = Entry { mode: 0o777, ..entry() };
    for swap in [
        |victim: &Path, output: &Path| std::os::unix::fs::symlink(victim, output.join("d")).unwrap(),
        |victim: &Path, output: &Path| fs::rename(victim, output.join("d")).unwrap(),
    ] {
        let made = store.make_directory(&name("d"), &open, &mut Changed::default()).unwrap();
        fs::remove_dir(output.join("d")).unwrap();
        swap(&victim, &output);
        finish_directory(&store, "d", made, &open).unwrap_err();
        let after = fs::metadata(output.join("d")).unwrap();
        assert_eq!(after.permissions(), before.permissions());
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        let _ = fs::remove_file(output.join("d"));
    }
}

#[test]
fn a_file_for_which_there_is_no_room_is_refused_before_its_content_comes() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    let failure = store.begin(&name("f"), u64::MAX, &mut Changed::default()).unwrap_err();
    assert_eq!(failure.code, FailureCode::DiskFull);
    assert!(failure.sentence.contains("free some space there and send again"), "{failure}");
    assert!(names_in(output.path()).is_empty());
    store.begin(&name("f"), 1, &mut Changed::default()).unwrap();
}

/// Returns a time slightly more than a week from now.
fn later() -> SystemTime {
    SystemTime::now() + ABANDONED_AGE + Duration::from_secs(60)
}

#[test]
fn unfinished_files_which_nobody_holds_are_removed_after_a_week() {
    let output = tempfile::tempdir().unwrap();
    fs::create_dir_all(output.path().join("d/e")).unwrap();
    for left in [".dfcp-a.part", "d/e/.dfcp-0123456789abcdef.part"] {
        fs::write(output.path().join(left), b"half").unwrap();
        // The modification time comes from the sender and does not show when the file was left.
        filetime::set_file_mtime(output.path().join(left), FileTime::from_unix_time(1, 0)).unwrap();
    }
    for kept in ["dfcp-a.part", ".dfcp-a", ".dfcp-a.part.gz", "d/a.part"] {
        fs::write(output.path().join(kept), b"whole").unwrap();
    }
    fs::create_dir(output.path().join(".dfcp-d.part")).unwrap();
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    assert_eq!(store.remove_abandoned(SystemTime::now()), 0);
    assert_eq!(store.remove_abandoned(SystemTime::UNIX_EPOCH), 0, "a clock that is behind removes nothing");
    assert_eq!(store.remove_abandoned(SystemTime::now() + ABANDONED_AGE - Duration::from_secs(60)), 0);
    assert_eq!(store.remove_abandoned(later()), 2);
    assert_eq!(names_in(output.path()), [".dfcp-a", ".dfcp-a.part.gz", ".dfcp-d.part", "d", "dfcp-a.part"]);
    assert_eq!(names_in(&output.path().join("d")), ["a.part", "e"]);
    assert_eq!(names_in(&output.path().join("d/e")), [""; 0]);
}

#[cfg(unix)]
#[test]
fn what_a_living_receiver_holds_is_not_abandoned_however_old() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    let mut staged = store.begin(&name("f"), 0, &mut Changed::default()).unwrap();
    staged.write(b"data").unwrap();
    // A second store acts like another program, since locks apply between open files.
    let other = Store::open(output.path(), StoreOptions::default()).unwrap();
    assert_eq!(other.remove_abandoned(later()), 0);
    commit(&store, staged, &entry(), b"data").unwrap();
    assert_eq!(names_in(output.path()), ["f"]);
}

#[cfg(unix)]
#[test]
fn the_search_for_abandoned_files_follows_no_link() {
    let around = tempfile::tempdir().unwrap();
    let (output, outside) = (around.path().join("output"), around.path().join("outside"));
    fs::create_dir_all(&output).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join(".dfcp-a.part"), b"theirs").unwrap();
    std::os::unix::fs::symlink(&outside, output.join("d")).unwrap();
    std::os::unix::fs::symlink(outside.join(".dfcp-a.part"), output.join(".dfcp-b.part")).unwrap();
    let store = Store::open(&output, StoreOptions::default()).unwrap();
    // A receiver killed while creating a link leaves a link of such a name.
    assert_eq!(store.remove_abandoned(SystemTime::now()), 0);
    assert_eq!(store.remove_abandoned(later()), 1);
    assert_eq!(names_in(&outside), [".dfcp-a.part"]);
    assert_eq!(names_in(&output), ["d"]);
}

#[test]
fn the_search_for_abandoned_files_is_bounded_in_names_and_depth() {
    let output = tempfile::tempdir().unwrap();
    for number in 0..10 {
        fs::write(output.path().join(format!(".dfcp-{number}.part")), b"half").unwrap();
    }
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    assert_eq!(store.remove_abandoned_among(later(), 4), 4);
    assert_eq!(store.remove_abandoned_among(later(), 1000), 6);
    let deepest = output.path().join(["d"; DEPTH_MAX].join("/"));
    fs::create_dir_all(deepest.join("too-deep")).unwrap();
    fs::write(deepest.join(".dfcp-a.part"), b"half").unwrap();
    fs::write(deepest.join("too-deep/.dfcp-a.part"), b"half").unwrap();
    assert_eq!(store.remove_abandoned(later()), 1);
    assert!(deepest.join("too-deep/.dfcp-a.part").exists());
}

/// Returns the allocated disk space of a file, bytes.
#[cfg(unix)]
fn allocated_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).unwrap().blocks() * 512
}

/// Returns true if the file system of `directory` supports holes.
#[cfg(unix)]
fn makes_holes(directory: &Path) -> bool {
    let probe = directory.join("probe");
    File::create(&probe).unwrap().set_len(8 << 20).unwrap();
    let makes_holes = allocated_bytes(&probe) < 1 << 20;
    fs::remove_file(probe).unwrap();
    if !makes_holes {
        eprintln!("skipped: the file system of {} makes no holes", directory.display());
    }
    makes_holes
}

#[cfg(unix)]
#[test]
fn holes_stay_holes() {
    let output = tempfile::tempdir().unwrap();
    if !makes_holes(output.path()) {
        return;
    }
    let store = Store::open(output.path(), StoreOptions::default()).unwrap();
    let mut content = vec![0; 8 << 20];
    content[3_000_000..3_000_010].fill(1);
    for (to, len) in [("hole at the end", 8 << 20), ("data at the end", 3_000_010), ("no data", 2 << 20), ("short", 5)]
    {
        let content = &content[..len];
        // The length of the frames is no multiple of the block size, so blocks end within frames.
        let mut staged = store.begin(&name(to), 0, &mut Changed::default()).unwrap();
        for frame in content.chunks(100_003) {
            staged.write(frame).unwrap();
        }
        commit(&store, staged, &entry(), content).unwrap();
        let path = output.path().join(to);
        assert!(fs::read(&path).unwrap() == content, "{to} differs");
        assert!(allocated_bytes(&path) < 64 << 10, "{to} takes {} bytes", allocated_bytes(&path));
    }
}

proptest::proptest! {
    /// Model test: the content is the same as if every byte had been written, with or without holes.
    #[test]
    fn leaving_zeros_out_changes_no_content(
        runs in proptest::collection::vec((proptest::bool::ANY, 1_usize..10_000), 0..12),
        frame_bytes in 1_usize..9_000,
    ) {
        let content: Vec<u8> = runs.iter().flat_map(|(solid, len)| vec![u8::from(*solid); *len]).collect();
        let output = tempfile::tempdir().unwrap();
        let store = Store::open(output.path(), StoreOptions::default()).unwrap();
        let mut staged = store.begin(&name("f"), 0, &mut Changed::default()).unwrap();
        for frame in content.chunks(frame_bytes) {
            staged.write(frame).unwrap();
        }
        commit(&store, staged, &entry(), &content).unwrap();
        proptest::prop_assert!(fs::read(output.path().join("f")).unwrap() == content);
    }
}

/// An O_PATH descriptor identifies a file, but cannot flush it.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_flushed_gets_no_name_and_the_others_theirs() {
    for sync in [true, false] {
        let output = tempfile::tempdir().unwrap();
        let store = Store::open(output.path(), StoreOptions { sync, ..StoreOptions::default() }).unwrap();
        let mut batch = Vec::new();
        for to in ["a", "broken", "c"] {
            let mut staged = store.begin(&name(to), 0, &mut Changed::default()).unwrap();
            staged.write(b"data").unwrap();
            if to == "broken" {
                use rustix::fs::{Mode, OFlags};
                let path = output.path().join(staged.temporary.name());
                staged.file = rustix::fs::open(path, OFlags::PATH, Mode::empty()).unwrap().into();
            }
            let finished = if to == "broken" {
                Box::new(Finished { staged, _counted: Arc::clone(&store.held) })
            } else {
                new(completed(&store, staged, &entry(), 4, b"data"))
            };
            batch.push(Unpublished::File(finished));
        }
        let results = store.publish(batch, &mut Changed::default()).unwrap();
        assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, !sync, true]);
        assert_eq!(names_in(output.path()).len(), if sync { 2 } else { 3 });
    }
}

/// A device opened for writing only cannot be read, so any reading would be an error.
#[cfg(unix)]
#[test]
fn a_file_of_which_not_all_bytes_came_is_not_compared_with_what_is_there() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), StoreOptions { allow_update: true, ..StoreOptions::default() }).unwrap();
    put(&store, "f", b"data").unwrap();
    let is_identical = |received, len| {
        let mut existing = store.existing(None, &name("f"), &entry(), &mut Changed::default()).unwrap();
        existing.file = File::options().write(true).open("/dev/null").unwrap();
        existing.is_identical(received, len, blake3::hash(b"data").as_bytes(), &Over::default())
    };
    for (received, len) in [(0, 4), (3, 4), (4, 3), (5, 5)] {
        assert!(!is_identical(received, len).expect("it was read"), "{received} of {len}");
    }
    is_identical(4, 4).unwrap_err();
}

fn flushing(output: &Path) -> Store {
    Store::open(output, StoreOptions { sync: true, ..StoreOptions::default() }).unwrap()
}

/// Returns the directories flushed by this thread since the last call, each once.
fn flushed() -> Vec<PathBuf> {
    let mut all = FLUSHED.take().concat();
    all.sort();
    all.dedup();
    all
}

#[test]
fn what_leads_to_a_file_is_flushed_before_it_is_confirmed() {
    for exists in [false, true] {
        let output = tempfile::tempdir().unwrap();
        let store = flushing(output.path());
        if exists {
            fs::create_dir_all(output.path().join("d/e")).unwrap();
        }
        FLUSHED.take();
        let mut changed = Changed::default();
        store.make_directory(&name("d"), &entry(), &mut changed).unwrap();
        store.make_directory(&name("d/e"), &entry(), &mut changed).unwrap();
        let mut staged = store.begin(&name("d/e/f"), 0, &mut changed).unwrap();
        staged.write(b"data").unwrap();
        let finished = new(completed(&store, staged, &entry(), 4, b"data"));
        store.publish(vec![Unpublished::File(finished)], &mut changed).unwrap().remove(0).unwrap();
        assert_eq!(flushed(), ["", "d", "d/e"].map(PathBuf::from), "there already: {exists}");
        assert!(!changed.is_waiting());
        let existing = Box::new(store.regular(&name("d/e/f"), &mut changed).unwrap());
        store.publish(vec![Unpublished::Unchanged(existing)], &mut changed).unwrap().remove(0).unwrap();
        assert_eq!(flushed(), [PathBuf::from("d/e")]);
    }
}

#[test]
fn a_directory_that_was_there_is_flushed_although_its_metadata_are_kept() {
    let output = tempfile::tempdir().unwrap();
    let store = flushing(output.path());
    fs::create_dir_all(output.path().join("d/e")).unwrap();
    let mut changed = Changed::default();
    let made = store.make_directory(&name("d/e"), &entry(), &mut changed).unwrap();
    store.flush_names(&mut changed).unwrap();
    FLUSHED.take();
    finish_directory(&store, "d/e", made, &entry()).unwrap();
    assert_eq!(flushed(), ["d", "d/e"].map(PathBuf::from));
    let time = FileTime::from_last_modification_time(&fs::metadata(output.path().join("d/e")).unwrap());
    assert_ne!(time.unix_seconds(), entry().mtime_s);
}

#[test]
fn the_name_of_a_new_output_directory_is_flushed() {
    let here = tempfile::tempdir().unwrap();
    let output = here.path().join("new/output");
    FLUSHED.take();
    flushing(&output);
    assert_eq!(flushed(), [here.path().to_owned(), here.path().join("new")]);
    flushing(&output);
    assert!(flushed().is_empty());
}

#[cfg(unix)]
#[test]
fn a_directory_that_nobody_may_list_in_the_end_is_flushed_all_the_same() {
    let output = tempfile::tempdir().unwrap();
    let store = flushing(output.path());
    let secret = Entry { mode: 0o300, ..entry() };
    let mut changed = Changed::default();
    let made = store.make_directory(&name("d"), &secret, &mut changed).unwrap();
    store.finish_directory(&name("d"), made, &secret, &mut changed).unwrap();
    assert_eq!(mode_of(&output.path().join("d")), 0o300);
    // Root can open the directory in spite of its mode, so check that it is still open.
    assert_eq!(changed.readable(), [Path::new("d")]);
    store.flush_names(&mut changed).unwrap();
}

#[test]
fn many_directories_are_flushed_some_at_a_time_and_those_of_one_parent_share_it() {
    let output = tempfile::tempdir().unwrap();
    let store = flushing(output.path());
    let mut changed = Changed::default();
    let directories: Vec<_> = (0..256).map(|number| format!("d{number}")).collect();
    let made: Vec<_> =
        directories.iter().map(|to| store.make_directory(&name(to), &entry(), &mut changed).unwrap()).collect();
    // One descriptor belongs to the store, the other to the output directory.
    assert_eq!(Arc::strong_count(&store.held), 2);
    let batch = directories.iter().zip(made);
    let batch =
        batch.map(|(to, made)| Unpublished::Directory { name: name(to), made, entry: entry() }).collect::<Vec<_>>();
    FLUSHED.take();
    assert!(store.publish(batch, &mut changed).unwrap().iter().all(Result::is_ok));
    let together = FLUSHED.take();
    let most = together.iter().map(Vec::len).max().unwrap();
    assert!(most <= DIRECTORIES_FLUSHED_MAX + 1, "{most} at a time");
    let mut all = together.concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 257);
    assert_eq!(Arc::strong_count(&store.held), 1);
}
