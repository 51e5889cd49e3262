//! Tests with senders that attempt forbidden deletions, and with obstacles that honest senders meet.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use dfcp_framing::files::{Delete, Listing};

use super::*;
use crate::beneath::{Directory, Resolution, set_sender};
use crate::limits::{DELETIONS_TOGETHER_MAX, LISTING_BYTES_HELD_MAX};
use crate::store::{Store, StoreOptions};

const OWNER: &str = "SHA256:owner";

fn entry(index: u32, directories: u32, name: &str, len: Option<u64>) -> Entry {
    Entry { index, directories, mode: 0o755, mtime_s: 1, mtime_ns: 0, size_hint_bytes: 0, len, name: name.into() }
}

fn directory(index: u32, name: &str) -> ToReceiver {
    ToReceiver::Directory(entry(index, index, name, None))
}

fn delete(asks_only: bool, patterns: &[&str]) -> ToReceiver {
    let patterns = patterns.iter().map(|pattern| pattern.as_bytes().to_vec()).collect();
    ToReceiver::Delete(Delete { asks_only, patterns })
}

fn listing(directory: &str, names: &[&str], is_last: bool) -> ToReceiver {
    let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    ToReceiver::Listing(Listing { is_last, directory: directory.into(), names })
}

fn store(output: &Path, options: StoreOptions) -> Arc<Store> {
    Arc::new(Store::open(output, options).unwrap())
}

fn begin(store: &Arc<Store>) -> Assembler {
    Assembler::new(Arc::clone(store), Some(Owner::from_fingerprint(OWNER)), Arc::new(|_| {}))
}

/// Creates an output directory with some files, and a session with or without permission to delete.
fn session(allow_delete: bool) -> (tempfile::TempDir, Assembler) {
    let output = tempfile::tempdir().unwrap();
    for name in ["d/a", "d/b", "d/c", "e/a", "top"] {
        write(output.path(), name);
    }
    let options = StoreOptions { allow_delete: allow_delete.into(), ..StoreOptions::default() };
    let assembler = begin(&store(output.path(), options));
    (output, assembler)
}

fn write(output: &Path, name: &str) {
    let path = output.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, name).unwrap();
}

fn left(output: &Path) -> Vec<String> {
    let all = walkdir::WalkDir::new(output).sort_by_file_name().into_iter().map(|entry| entry.unwrap());
    let files = all.filter(|entry| entry.file_type().is_file());
    files.map(|entry| entry.path().strip_prefix(output).unwrap().to_string_lossy().into_owned()).collect()
}

/// Processes these frames and the end frame, and completes the entries.
fn store_all(assembler: &mut Assembler, frames: &[ToReceiver]) {
    for frame in frames {
        assembler.handle(0, frame).unwrap();
    }
    let is_entry = |frame: &&ToReceiver| matches!(frame, ToReceiver::Directory(_) | ToReceiver::Offer { .. });
    let entries = frames.iter().filter(is_entry).count() as u32;
    assembler.handle(0, &ToReceiver::End { entries, streams: 0 }).unwrap();
    assembler.finish().unwrap();
    assembler.take_answers();
}

fn sweep(assembler: &mut Assembler) {
    while assembler.sweep_some().unwrap() {}
}

/// Processes a listing and the resulting deletions, as the disk thread does.
fn list(assembler: &mut Assembler, frame: &ToReceiver) {
    assembler.handle(0, frame).unwrap();
    sweep(assembler);
}

/// Returns the reported deletions, without the summary.
fn told(assembler: &mut Assembler) -> Vec<(String, Option<FailureCode>)> {
    let answers = assembler.take_answers().into_iter();
    let mut told: Vec<_> = answers
        .filter_map(|answer| match answer {
            ToSender::Deleted { failure, name } => Some((String::from_utf8(name).unwrap(), failure)),
            _ => None,
        })
        .collect();
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    told
}

fn deleted(names: &[&str]) -> Vec<(String, Option<FailureCode>)> {
    names.iter().map(|name| ((*name).to_owned(), None)).collect()
}

#[test]
fn what_is_not_listed_is_deleted_in_that_directory_alone() {
    let (output, mut assembler) = session(true);
    store_all(&mut assembler, &[delete(false, &[]), directory(0, "d")]);
    list(&mut assembler, &listing("d", &["b"], false));
    assert_eq!(left(output.path()), ["d/a", "d/b", "d/c", "e/a", "top"], "what comes later may still be named");
    list(&mut assembler, &listing("d", &["c", "x"], true));
    assert_eq!(left(output.path()), ["d/b", "d/c", "e/a", "top"]);
    assert_eq!(told(&mut assembler), deleted(&["d/a"]));
    assembler.finish_listings().unwrap();
    assert_eq!(assembler.take_answers(), [ToSender::Swept { told: 1, unnamed: 0 }]);
}

#[test]
fn a_listing_has_its_place_behind_what_is_stored_and_nowhere_else() {
    let all = ["d/a", "d/b", "d/c", "e/a", "top"];
    let (wish, d, e) = (delete(false, &[]), directory(0, "d"), directory(1, "e"));
    let end = |entries| ToReceiver::End { entries, streams: 0 };
    let keeps = listing("d", &["a", "b", "c"], true);
    for (what, frames) in [
        ("that was not announced", vec![d.clone(), end(1), listing("d", &[], true)]),
        ("of a directory that was not sent", vec![wish.clone(), d.clone(), end(1), listing("e", &[], true)]),
        ("of one above it", vec![wish.clone(), directory(0, "d/x"), end(1), listing("d", &[], true)]),
        ("before everything is stored", vec![wish.clone(), d.clone(), listing("d", &[], true)]),
        ("of what leads out", vec![wish.clone(), d.clone(), end(1), listing("d/..", &[], true)]),
        ("of the output directory", vec![wish.clone(), d.clone(), end(1), listing("", &[], true)]),
        ("of the output directory, too", vec![wish.clone(), d.clone(), end(1), listing(".", &[], true)]),
        ("a second one", vec![wish.clone(), d.clone(), end(1), keeps, listing("d", &[], true)]),
        (
            "out of order",
            vec![wish.clone(), d.clone(), e.clone(), end(2), listing("e", &["a"], true), listing("d", &[], true)],
        ),
        (
            "of which the rest is another's",
            vec![wish.clone(), d.clone(), e, end(2), listing("d", &["a", "b", "c"], false), listing("e", &[], true)],
        ),
        (
            "of which names come again",
            vec![wish.clone(), d.clone(), end(1), listing("d", &["b"], false), listing("d", &["a"], true)],
        ),
        ("after a failure", vec![wish.clone(), d.clone(), directory(1, "top"), end(2), listing("d", &[], true)]),
        ("that is a frame of another kind", vec![wish, d, end(1), delete(false, &[])]),
    ] {
        let (output, mut assembler) = session(true);
        let (last, before) = frames.split_last().unwrap();
        for frame in before {
            assembler.handle(0, frame).unwrap();
            if matches!(frame, ToReceiver::End { .. }) {
                assembler.finish().unwrap();
            }
            sweep(&mut assembler);
        }
        assert!(matches!(assembler.handle(0, last), Err(TransferError::Protocol(_))), "{what}");
        assert_eq!(left(output.path()).iter().filter(|name| all.contains(&name.as_str())).count(), all.len(), "{what}");
    }
    let (_output, mut assembler) = session(false);
    assert!(assembler.handle(0, &delete(false, &[])).is_err(), "where nothing may be deleted");
}

/// An invalid pattern would protect nothing, although the sender relies on it.
#[test]
fn an_announcement_that_changes_its_mind_or_has_no_patterns_is_refused() {
    for second in [delete(true, &[]), delete(false, &["[a"]), delete(false, &[""])] {
        let (_output, mut assembler) = session(true);
        assembler.handle(0, &delete(false, &["*.o"])).unwrap();
        assert!(matches!(assembler.handle(0, &second), Err(TransferError::Protocol(_))), "{second:?}");
    }
}

/// Regression test: a directory that could not be created ended the whole session at its listing. Now only the
/// directory's entry fails.
#[test]
fn a_directory_that_cannot_be_made_fails_alone_and_nothing_is_deleted() {
    let (output, mut assembler) = session(true);
    let frames = [delete(false, &[]), directory(0, "d"), directory(1, "top"), directory(2, "new")];
    store_all(&mut assembler, &frames);
    assert_eq!(assembler.totals(), (2, 1));
    assert!(output.path().join("new").is_dir());
    // After the failure, a correct sender sends no listings.
    assembler.finish_listings().unwrap();
    assert!(assembler.skips_deletion());
    assert_eq!(left(output.path()), ["d/a", "d/b", "d/c", "e/a", "top"]);
}

#[cfg(unix)]
#[test]
fn a_directory_that_becomes_a_link_before_its_listing_is_not_emptied() {
    let (output, mut assembler) = session(true);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    store_all(&mut assembler, &[delete(false, &[]), directory(0, "d"), directory(1, "e")]);
    fs::remove_dir_all(output.path().join("d")).unwrap();
    std::os::unix::fs::symlink(outside.path(), output.path().join("d")).unwrap();
    list(&mut assembler, &listing("d", &[], true));
    assert_eq!(told(&mut assembler), [("d".to_owned(), Some(FailureCode::FileSystem))]);
    // A link in a listed directory is deleted; the link's target is not.
    std::os::unix::fs::symlink(outside.path(), output.path().join("e/link")).unwrap();
    list(&mut assembler, &listing("e", &["a"], true));
    assert_eq!(told(&mut assembler), deleted(&["e/link"]));
    assert!(outside.path().join("kept").exists());
}

#[test]
fn a_directory_that_is_moved_away_between_its_listings_is_not_emptied() {
    let (output, mut assembler) = session(true);
    let outside = tempfile::tempdir().unwrap();
    store_all(&mut assembler, &[delete(false, &[]), directory(0, "d")]);
    list(&mut assembler, &listing("d", &["a"], false));
    fs::rename(output.path().join("d"), outside.path().join("d")).unwrap();
    fs::create_dir(output.path().join("d")).unwrap();
    list(&mut assembler, &listing("d", &[], true));
    assert_eq!(told(&mut assembler), [("d".to_owned(), Some(FailureCode::FileSystem))]);
    assert_eq!(left(outside.path()), ["d/a", "d/b", "d/c"]);
}

#[test]
fn everything_in_a_directory_is_deleted_with_it_and_told() {
    let (output, mut assembler) = session(true);
    for name in ["d/old/deep/x", "d/old/y"] {
        write(output.path(), name);
    }
    store_all(&mut assembler, &[delete(false, &[]), directory(0, "d")]);
    list(&mut assembler, &listing("d", &["a", "b", "c"], true));
    assert_eq!(told(&mut assembler), deleted(&["d/old", "d/old/deep", "d/old/deep/x", "d/old/y"]));
    assert_eq!(left(output.path()), ["d/a", "d/b", "d/c", "e/a", "top"]);
    assert!(!output.path().join("d/old").exists());
}

#[test]
fn what_the_sender_leaves_out_stays_at_any_depth() {
    let (output, mut assembler) = session(true);
    for name in ["d/x.o", "d/old/deep/y.o", "d/old/z", "d/cache/f", "d/more/cache"] {
        write(output.path(), name);
    }
    store_all(&mut assembler, &[delete(false, &["*.o"]), delete(false, &["/d/cache/"]), directory(0, "d")]);
    list(&mut assembler, &listing("d", &["a", "b", "c"], true));
    assert_eq!(
        left(output.path()),
        ["d/a", "d/b", "d/c", "d/cache/f", "d/old/deep/y.o", "d/x.o", "e/a", "top"],
        "{:?}",
        told(&mut assembler)
    );
    let skips: Vec<_> = assembler.take_skips();
    let stays = |name: &str| (name.to_owned(), Skipped::NotEmpty);
    assert_eq!(skips, [stays("d/old/deep"), stays("d/old")]);
}

/// Regression test: files in progress of other sessions were spared only directly in the listed directory.
#[test]
fn what_another_session_has_under_way_stays_at_any_depth() {
    let output = tempfile::tempdir().unwrap();
    write(output.path(), "d/a");
    let options = StoreOptions { allow_delete: true.into(), keep_unfinished: true, ..StoreOptions::default() };
    let store = store(output.path(), options);
    let (mut other, mut assembler) = (begin(&store), begin(&store));
    for (index, name) in ["d", "d/sub", "d/sub/deep"].into_iter().enumerate() {
        other.handle(0, &directory(index as u32, name)).unwrap();
    }
    other.handle(0, &ToReceiver::File(entry(3, 3, "d/sub/deep/f", Some(4)))).unwrap();
    other.handle(0, &ToReceiver::Data(b"half".to_vec())).unwrap();
    store_all(&mut assembler, &[delete(false, &[]), directory(0, "d")]);
    list(&mut assembler, &listing("d", &["a"], true));
    assert_eq!(told(&mut assembler), [("d/sub".to_owned(), Some(FailureCode::Busy))]);
    let end = ToReceiver::FileEnd { len: 4, hash: *blake3::hash(b"half").as_bytes() };
    other.handle(0, &end).unwrap();
    other.handle(0, &ToReceiver::End { entries: 4, streams: 0 }).unwrap();
    other.finish().unwrap();
    assert_eq!(left(output.path()), ["d/a", "d/sub/deep/f"]);
    assert_eq!(other.totals(), (4, 0));
}

/// A file in progress of another program is recognised only by its lock.
#[test]
fn what_another_program_has_locked_stays_and_what_nobody_has_goes() {
    let (output, mut assembler) = session(true);
    for name in ["d/one/deep/.dfcp-0123456789abcdef.part", "d/two/.dfcp-0123456789abcdef.part", "d/two/x"] {
        write(output.path(), name);
    }
    let locked = fs::File::open(output.path().join("d/one/deep/.dfcp-0123456789abcdef.part")).unwrap();
    locked.lock().unwrap();
    store_all(&mut assembler, &[delete(false, &[]), directory(0, "d")]);
    list(&mut assembler, &listing("d", &["a", "b", "c"], true));
    assert_eq!(
        left(output.path()),
        ["d/a", "d/b", "d/c", "d/one/deep/.dfcp-0123456789abcdef.part", "e/a", "top"],
        "{:?}",
        told(&mut assembler)
    );
    let skips: Vec<_> = assembler.take_skips().into_iter().map(|(_, what)| what).collect();
    assert_eq!(skips, [Skipped::UnderWay, Skipped::NotEmpty, Skipped::NotEmpty]);
}

/// A dry run reports the same deletions, but names only files that the sender stored. Other files are counted.
#[test]
fn a_sender_that_only_asks_is_told_of_its_own_files() {
    for allow_update in [false, true] {
        let (output, _) = session(true);
        let options = StoreOptions { allow_delete: true.into(), allow_update, ..StoreOptions::default() };
        write(output.path(), "d/old/x");
        let own = fs::File::options().write(true).open(output.path().join("d/a")).unwrap();
        if set_sender(&own, Some(OWNER)).is_err() {
            return;
        }
        let mut assembler = begin(&store(output.path(), options));
        store_all(&mut assembler, &[delete(true, &["b"]), directory(0, "d"), directory(1, "new")]);
        assert!(!output.path().join("new").exists());
        list(&mut assembler, &listing("d", &[], true));
        list(&mut assembler, &listing("new", &[], true));
        let names: &[&str] = if allow_update { &["d/a", "d/c", "d/old", "d/old/x"] } else { &["d/a"] };
        assert_eq!(told(&mut assembler), deleted(names));
        assembler.finish_listings().unwrap();
        // Files of other owners are counted whether or not a pattern matches them.
        let (told, unnamed) = if allow_update { (4, 0) } else { (1, 4) };
        assert_eq!(assembler.take_answers(), [ToSender::Swept { told, unnamed }]);
        assert_eq!(assembler.take_outcomes(), [], "nothing has happened");
        assert_eq!(left(output.path()), ["d/a", "d/b", "d/c", "d/old/x", "e/a", "top"]);
    }
}

#[test]
fn a_sender_that_only_asks_is_told_what_could_not_be_stored() {
    let (_output, mut assembler) = session(true);
    let offer = |index, name| ToReceiver::Offer {
        hash: None,
        asks_only: true,
        takes_basis: false,
        entry: entry(index, 1, name, Some(1)),
    };
    for frame in [delete(true, &[]), directory(0, "top"), offer(1, "d"), offer(2, "top/x")] {
        assembler.handle(0, &frame).unwrap();
    }
    assembler.handle(0, &ToReceiver::End { entries: 3, streams: 0 }).unwrap();
    assembler.finish().unwrap();
    assert_eq!(assembler.totals(), (0, 3));
}

/// Regression test: one listing of 20 000 names took 378 MB.
#[test]
fn deletions_are_told_some_at_a_time() {
    let (output, mut assembler) = session(true);
    for number in 0..1000 {
        write(output.path(), &format!("d/{number:0100}"));
    }
    store_all(&mut assembler, &[delete(false, &[]), directory(0, "d")]);
    assembler.handle(0, &listing("d", &["a", "b", "c"], true)).unwrap();
    let (mut all, mut has_more) = (0, true);
    while has_more {
        has_more = assembler.sweep_some().unwrap();
        let some = told(&mut assembler).len();
        assert!(some <= DELETIONS_TOGETHER_MAX);
        all += some;
    }
    assert_eq!(all, 1000);
    assert_eq!(left(output.path()), ["d/a", "d/b", "d/c", "e/a", "top"]);
}

/// The names of a listing are held up to a limit. The directory is then swept up to the last of these names.
#[test]
fn a_listing_of_any_length_is_held_in_pieces() {
    let (output, mut assembler) = session(true);
    for name in ["d/0", "d/m", "d/z"] {
        write(output.path(), name);
    }
    store_all(&mut assembler, &[delete(false, &[]), directory(0, "d")]);
    list(&mut assembler, &listing("d", &["a", "b", "c"], false));
    let names: Vec<_> = (0..30).map(|number| format!("k{number:0240}")).collect();
    let frames = LISTING_BYTES_HELD_MAX / (30 * 245) + 1;
    for frame in 0..frames {
        let names: Vec<_> = names.iter().map(|name| format!("k{frame:06}{}", &name[7..])).collect();
        list(&mut assembler, &listing("d", &names.iter().map(String::as_str).collect::<Vec<_>>(), false));
    }
    assert_eq!(told(&mut assembler), deleted(&["d/0"]), "what is beyond the names so far may still be named");
    list(&mut assembler, &listing("d", &["m"], true));
    assert_eq!(told(&mut assembler), deleted(&["d/z"]));
    assert_eq!(left(output.path()), ["d/a", "d/b", "d/c", "d/m", "e/a", "top"]);
}

/// Directories that are read-only because of the sender's modes do not prevent the sender's deletions.
#[cfg(unix)]
#[test]
fn directories_are_made_writable_and_keep_their_mode_and_time() {
    use std::os::unix::fs::PermissionsExt;
    let (output, _) = session(true);
    write(output.path(), "d/old/x");
    let mode = |name: &str, mode| {
        fs::set_permissions(output.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("d/old", 0o555);
    let options = StoreOptions { allow_delete: true.into(), replace: true.into(), ..StoreOptions::default() };
    let mut assembler = begin(&store(output.path(), options));
    let read_only = Entry { mode: 0o555, ..entry(0, 0, "d", None) };
    super::super::tests::deletion::without_override(|| {
        store_all(&mut assembler, &[delete(false, &[]), ToReceiver::Directory(read_only)]);
        list(&mut assembler, &listing("d", &["a"], true));
    });
    assert_eq!(told(&mut assembler), deleted(&["d/b", "d/c", "d/old", "d/old/x"]));
    let metadata = fs::metadata(output.path().join("d")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o555);
    assert_eq!(filetime::FileTime::from_last_modification_time(&metadata), filetime::FileTime::from_unix_time(1, 0));
}

/// A failed deletion is reported, and the other deletions continue.
#[cfg(unix)]
#[test]
fn what_cannot_be_deleted_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let (output, mut assembler) = session(true);
    let mode = |mode| fs::set_permissions(output.path().join("d"), fs::Permissions::from_mode(mode)).unwrap();
    super::super::tests::deletion::without_override(|| {
        store_all(&mut assembler, &[delete(false, &[]), directory(0, "d"), directory(1, "e")]);
        mode(0o555);
        list(&mut assembler, &listing("d", &["b", "c"], true));
        list(&mut assembler, &listing("e", &[], true));
        mode(0o755);
    });
    let failed = ("d/a".to_owned(), Some(FailureCode::Permission));
    assert_eq!(told(&mut assembler), [failed, ("e/a".to_owned(), None)]);
}

/// Regression test: deletion crossed mount points.
#[cfg(target_os = "linux")]
#[test]
fn mount_points_stay_and_are_named() {
    use super::super::tests::deletion::Mount;
    for is_bind in [false, true] {
        let (output, mut assembler) = session(true);
        for name in ["d/old/in/x", "d/old/y", "e/in/x", "e/in/deep/x"] {
            write(output.path(), name);
        }
        let elsewhere = tempfile::tempdir_in(output.path()).unwrap();
        write(elsewhere.path(), "kept");
        write(elsewhere.path(), "deep/kept");
        let source = is_bind.then_some(elsewhere.path());
        let mounts =
            [Mount::new(source, &output.path().join("d/old/in")), Mount::new(source, &output.path().join("e/in"))];
        let [Some(_one), Some(two)] = &mounts else { return eprintln!("skipped: nothing can be mounted here") };
        if !is_bind {
            write(two.path(), "kept");
            write(two.path(), "deep/kept");
        }
        // The last two directories lie on the other file system. The sender has them as ordinary directories.
        let frames = ["d", "e", "e/in", "e/in/deep"].into_iter().enumerate();
        let frames = frames.map(|(index, name)| directory(index as u32, name));
        store_all(&mut assembler, &std::iter::once(delete(false, &[])).chain(frames).collect::<Vec<_>>());
        for (name, names) in [("d", &["a"][..]), ("e", &["in"]), ("e/in", &[]), ("e/in/deep", &[])] {
            list(&mut assembler, &listing(name, names, true));
        }
        let stays = |name: &str, code| (name.to_owned(), Some(code));
        let mut expected = deleted(&["d/b", "d/c", "d/old/y", "e/a"]);
        expected.extend([
            stays("d/old", FailureCode::NotEmpty),
            stays("d/old/in", FailureCode::Mounted),
            stays("e/in", FailureCode::Mounted),
        ]);
        expected.sort_by(|(one, _), (other, _)| one.cmp(other));
        assert_eq!(told(&mut assembler), expected);
        assert!(two.path().join("kept").exists() && two.path().join("deep/kept").exists());
    }
}

/// On kernels without `openat2`, mount points are detected by device numbers.
#[cfg(target_os = "linux")]
#[test]
fn mount_points_are_known_without_openat2() {
    use super::super::tests::deletion::Mount;
    let output = tempfile::tempdir().unwrap();
    fs::create_dir_all(output.path().join("in/deep")).unwrap();
    let Some(_mount) = Mount::new(None, &output.path().join("in")) else {
        return eprintln!("skipped: nothing can be mounted here");
    };
    for resolution in [Resolution::of_system(), Resolution::Stepwise] {
        let root = Directory::open(output.path(), resolution).unwrap();
        let error = root.directory_on_mount(Path::new("in")).unwrap_err();
        assert!(crate::beneath::is_mount(&error), "{resolution:?}: {error}");
        assert!(root.directory(Path::new("in")).is_ok());
    }
}

/// HELLO has told this sender that deletion is unavailable. Without a key, no file here is the sender's own, so a dry
/// run would reveal names of other senders' files.
#[test]
fn a_sender_without_a_key_neither_deletes_nor_asks_what_would_be() {
    let output = tempfile::tempdir().unwrap();
    write(output.path(), "d/a");
    let options = StoreOptions { allow_delete: true.into(), ..StoreOptions::default() };
    for asks_only in [false, true] {
        let mut assembler = Assembler::new(store(output.path(), options.clone()), None, Arc::new(|_| {}));
        let refused = assembler.handle(0, &delete(asks_only, &[]));
        assert!(matches!(refused, Err(TransferError::Protocol(_))), "asks only {asks_only}: {refused:?}");
    }
}

/// Regression test: exclude patterns revealed names of surrounding directories, and a smaller count revealed that a
/// pattern matched.
#[test]
fn a_sender_that_only_asks_finds_out_no_names_by_patterns() {
    let ask = |patterns: &[&str]| {
        let (output, _) = session(true);
        write(output.path(), "d/private/letter");
        let own = fs::File::options().write(true).open(output.path().join("d/a")).unwrap();
        set_sender(&own, Some(OWNER)).ok()?;
        let options = StoreOptions { allow_delete: true.into(), ..StoreOptions::default() };
        let mut assembler = begin(&store(output.path(), options));
        store_all(&mut assembler, &[delete(true, patterns), directory(0, "d")]);
        list(&mut assembler, &listing("d", &[], true));
        let names = told(&mut assembler);
        assembler.finish_listings().unwrap();
        let answers = assembler.take_answers();
        let [ToSender::Swept { unnamed, .. }] = answers[..] else { panic!("{answers:?}") };
        Some((names, unnamed))
    };
    if ask(&[]).is_none() {
        return;
    }
    for patterns in [&[][..], &["/d/*/*"], &["letter"], &["l*"], &["private/"], &["[a-q]*/"], &["c"], &["private/*"]] {
        assert_eq!(ask(patterns), Some((deleted(&["d/a"]), 4)), "{patterns:?}");
    }
    assert_eq!(ask(&["a"]), Some((Vec::new(), 4)), "its own is protected");
    assert_eq!(ask(&["*"]), Some((Vec::new(), 4)));
}

/// Regression test: long patterns compared with non-matching names kept the disk thread busy after the session had
/// ended.
#[test]
fn nothing_is_swept_once_the_session_is_over() {
    for patterns in [&[][..], &["*"]] {
        let (output, mut assembler) = session(true);
        store_all(&mut assembler, &[delete(false, patterns), directory(0, "d")]);
        assembler.handle(0, &listing("d", &[], true)).unwrap();
        assembler.over().set();
        let ended = assembler.sweep_some();
        assert!(matches!(ended, Err(TransferError::PeerClosed)), "{patterns:?}: {ended:?}");
        assert_eq!(left(output.path()), ["d/a", "d/b", "d/c", "e/a", "top"]);
    }
}

/// Regression test: a deletion that broke off left directories writable.
#[cfg(target_os = "linux")]
#[test]
fn a_session_that_breaks_while_it_deletes_gives_directories_their_modes_back() {
    use super::tests::{as_other_user, mode_of, set_mode_of};
    as_other_user(|| {
        let (output, mut assembler) = session(true);
        for number in 0..DELETIONS_TOGETHER_MAX * 2 {
            write(output.path(), &format!("d/old/{number}"));
        }
        let old = output.path().join("d/old");
        set_mode_of(&old, 0o555);
        store_all(&mut assembler, &[delete(false, &[]), directory(0, "d")]);
        assembler.handle(0, &listing("d", &["a", "b", "c"], true)).unwrap();
        assert!(assembler.sweep_some().unwrap(), "there is more to delete");
        let is_granted = mode_of(&old) == 0o755;
        drop(assembler);
        let after = mode_of(&old);
        set_mode_of(&old, 0o755);
        assert_eq!((is_granted, after), (true, 0o555));
    });
}
