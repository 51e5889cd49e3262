use super::*;
use std::fs;

fn name(text: &str) -> RelativeName {
    RelativeName::parse(text.as_bytes()).unwrap()
}

fn entry() -> Entry {
    Entry { mode: 0o100_640, mtime_s: 1_000_000_000, mtime_ns: 5, size_hint_bytes: 0, name: Vec::new() }
}

fn put(store: &Store, to: &str, data: &[u8]) -> Result<(), Failure> {
    let mut staged = store.begin(&name(to))?;
    staged.write(data)?;
    store.commit(staged, &entry(), data.len() as u64, blake3::hash(data).as_bytes()).map(drop)
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
    let store = Store::open(&output.path().join("new/dir"), false, true).unwrap();
    let mut staged = store.begin(&name("f")).unwrap();
    staged.write(b"hello").unwrap();
    assert!(!store.root().join("f").exists());
    store.commit(staged, &entry(), 5, blake3::hash(b"hello").as_bytes()).unwrap();
    assert_eq!(names_in(store.root()), ["f"]);
    let metadata = fs::metadata(store.root().join("f")).unwrap();
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
    let store = Store::open(output.path(), false, false).unwrap();
    let staged = store.begin(&name("f")).unwrap();
    let entry = Entry { mode: 0o7755, ..entry() };
    store.commit(staged, &entry, 0, blake3::hash(b"").as_bytes()).unwrap();
    assert_eq!(fs::metadata(output.path().join("f")).unwrap().permissions().mode() & 0o7777, 0o755);
}

#[test]
fn a_wrong_hash_or_length_leaves_nothing() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), false, false).unwrap();
    for (len, hashed) in [(5, b"hellO"), (4, b"hello")] {
        let mut staged = store.begin(&name("f")).unwrap();
        staged.write(b"hello").unwrap();
        let failure = store.commit(staged, &entry(), len, blake3::hash(hashed).as_bytes()).unwrap_err();
        assert_eq!(failure.code, FailureCode::Mismatch);
    }
    assert!(names_in(output.path()).is_empty());
}

#[test]
fn existing_files_are_kept_unless_told_to_replace() {
    let output = tempfile::tempdir().unwrap();
    let careful = Store::open(output.path(), false, false).unwrap();
    put(&careful, "f", b"old").unwrap();
    assert_eq!(put(&careful, "f", b"new").unwrap_err().code, FailureCode::Exists);
    assert_eq!(fs::read(output.path().join("f")).unwrap(), b"old");
    // Created by another while ours was on its way.
    let staged = careful.begin(&name("late")).unwrap();
    fs::write(output.path().join("late"), b"theirs").unwrap();
    let failure = careful.commit(staged, &entry(), 0, blake3::hash(b"").as_bytes()).unwrap_err();
    assert_eq!(failure.code, FailureCode::Exists);
    assert_eq!(fs::read(output.path().join("late")).unwrap(), b"theirs");

    let forceful = Store::open(output.path(), true, false).unwrap();
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
        let store = Store::open(output.path(), force, false).unwrap();
        assert_eq!(put(&store, "d/victim", b"evil").unwrap_err().code, FailureCode::Name);
        assert_eq!(store.make_directory(&name("d")).unwrap_err().code, FailureCode::Name);
        assert_eq!(store.make_directory(&name("d/e")).unwrap_err().code, FailureCode::Name);
        assert_eq!(put(&store, "l", b"evil").is_ok(), force, "only --force replaces the link itself");
    }
    assert_eq!(names_in(outside.path()), ["victim"]);
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"keep");
    assert_eq!(fs::read(output.path().join("l")).unwrap(), b"evil");
}

#[test]
fn a_file_in_the_place_of_a_directory_is_a_clear_failure() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), true, false).unwrap();
    put(&store, "f", b"x").unwrap();
    assert_eq!(store.make_directory(&name("f")).unwrap_err().code, FailureCode::Exists);
    assert_eq!(put(&store, "f/g", b"x").unwrap_err().code, FailureCode::Exists);
    assert_eq!(put(&store, "missing/g", b"x").unwrap_err().code, FailureCode::FileSystem);
}

#[test]
fn an_unfinished_file_is_removed_when_dropped() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), false, false).unwrap();
    let mut staged = store.begin(&name("f")).unwrap();
    staged.write(&[1; 1000]).unwrap();
    let during = names_in(output.path());
    assert!(during.len() == 1 && during[0].starts_with(TEMPORARY_PREFIX) && during[0].ends_with(TEMPORARY_SUFFIX));
    drop(staged);
    assert!(names_in(output.path()).is_empty());
}

/// `/dev/full` answers every write with the error of a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_and_leaves_nothing() {
    let output = tempfile::tempdir().unwrap();
    let store = Store::open(output.path(), false, false).unwrap();
    let mut staged = store.begin(&name("f")).unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let path = staged.file.into_temp_path();
    staged.file = NamedTempFile::from_parts(full, path);
    let failure = staged.write(&[0; 10]).unwrap_err();
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
