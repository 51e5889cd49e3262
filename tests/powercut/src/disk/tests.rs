//! Tests of the states after a power cut.

use std::collections::BTreeSet;

use super::*;

const OWNER: (u32, u32) = (0, 0);

fn name(name: &str) -> &OsStr {
    OsStr::new(name)
}

/// Makes an unflushed file.
fn file(disk: &mut Disk, parent: Ino, named: &str, content: &[u8]) -> Ino {
    let ino = disk.make_file(parent, name(named), 0o644, OWNER).unwrap();
    assert_eq!(disk.write(ino, 0, content), Ok(content.len()));
    ino
}

/// Contents of `path` after power cuts with many seeds.
fn outcomes(disk: &Disk, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..200).map(|seed| disk.after_power_cut(seed).read(path)).collect()
}

fn some(content: &[u8]) -> Option<Vec<u8>> {
    Some(content.to_vec())
}

#[test]
fn a_name_and_a_content_are_lost_apart() {
    let mut disk = Disk::new();
    let ino = file(&mut disk, ROOT, "a", b"new");
    assert_eq!((disk.read("a"), disk.read_durable("a")), (some(b"new"), None));
    assert_eq!(outcomes(&disk, "a"), [None, some(b""), some(b"\0\0\0"), some(b"new")].into());

    let mut flushed = disk.clone();
    flushed.flush(ino, true).unwrap();
    assert_eq!(outcomes(&flushed, "a"), [None, some(b"new")].into(), "a flushed file has no name yet");

    disk.flush(ROOT, true).unwrap();
    assert_eq!(disk.read_durable("a"), some(b""));
    assert_eq!(
        outcomes(&disk, "a"),
        [some(b""), some(b"\0\0\0"), some(b"new")].into(),
        "a flushed name is of nothing yet"
    );

    disk.flush(ino, false).unwrap();
    assert_eq!(outcomes(&disk, "a"), [some(b"new")].into());
}

#[test]
fn what_is_rewritten_is_not_there_for_a_while() {
    let mut disk = Disk::new();
    disk.put("a", b"old");
    let ino = disk.lookup(ROOT, name("a")).unwrap();
    disk.truncate(ino, 0).unwrap();
    disk.write(ino, 0, b"new").unwrap();
    assert_eq!(outcomes(&disk, "a"), [some(b"old"), some(b""), some(b"\0\0\0"), some(b"new")].into());
}

#[test]
fn a_rename_is_there_or_is_not() {
    let mut disk = Disk::new();
    disk.put("d/a", b"old");
    let parent = disk.lookup(ROOT, name("d")).unwrap();
    let ino = file(&mut disk, parent, "temporary", b"new");
    disk.flush(ino, true).unwrap();
    disk.rename((parent, name("temporary")), (parent, name("a")), true).unwrap();
    assert_eq!(outcomes(&disk, "d/a"), [some(b"old"), some(b"new")].into());
    for seed in 0..100 {
        let left = disk.after_power_cut(seed);
        let is_renamed = left.read("d/a") == some(b"new");
        assert!(!is_renamed || left.read("d/temporary").is_none(), "seed {seed}");
    }
    disk.flush(parent, true).unwrap();
    assert_eq!(outcomes(&disk, "d/a"), [some(b"new")].into());
}

/// The removal of the old name must not survive without the new name.
#[test]
fn what_is_moved_does_not_vanish() {
    let mut disk = Disk::new();
    disk.put("from/a", b"one");
    disk.put("to/other", b"two");
    let (from, to) = (disk.lookup(ROOT, name("from")).unwrap(), disk.lookup(ROOT, name("to")).unwrap());
    disk.rename((from, name("a")), (to, name("a")), true).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let left = disk.after_power_cut(seed);
        let places = (left.read("from/a").is_some(), left.read("to/a").is_some());
        assert!(places.0 || places.1, "seed {seed}");
        seen.insert(places);
    }
    assert_eq!(seen, [(true, false), (true, true), (false, true)].into());
}

#[test]
fn earlier_names_of_a_directory_are_there_before_later_ones() {
    let mut disk = Disk::new();
    for number in 0..5 {
        file(&mut disk, ROOT, &number.to_string(), b"x");
    }
    let mut counts = BTreeSet::new();
    for seed in 0..200 {
        let left = disk.after_power_cut(seed).paths();
        let expected: Vec<PathBuf> = (0..left.len()).map(|number| number.to_string().into()).collect();
        assert_eq!(left, expected, "seed {seed}");
        counts.insert(left.len());
    }
    assert_eq!(counts, (0..=5).collect());
    let none = Loss { names: crate::Fate::Lost, ..Loss::drawn(7) };
    assert_eq!(disk.after_loss(none).paths(), Vec::<PathBuf>::new());
}

#[test]
fn a_directory_without_a_flushed_name_takes_all_in_it_along() {
    let mut disk = Disk::new();
    let parent = disk.make_directory(ROOT, name("d"), 0o755, OWNER).unwrap();
    let ino = file(&mut disk, parent, "a", b"new");
    disk.flush(ino, true).unwrap();
    disk.flush(parent, true).unwrap();
    assert_eq!(outcomes(&disk, "d/a"), [None, some(b"new")].into());
    assert_eq!(disk.read_durable("d/a"), None);
    disk.flush(ROOT, true).unwrap();
    assert_eq!(outcomes(&disk, "d/a"), [some(b"new")].into());
}

#[test]
fn an_unflushed_removal_may_be_undone() {
    let mut disk = Disk::new();
    disk.put("a", b"old");
    disk.unlink(ROOT, name("a")).unwrap();
    assert_eq!(disk.read("a"), None);
    assert_eq!(outcomes(&disk, "a"), [None, some(b"old")].into());
}

#[test]
fn attributes_are_flushed_with_fsync_only() {
    let mut disk = Disk::new();
    disk.put("a", b"old");
    let ino = disk.lookup(ROOT, name("a")).unwrap();
    disk.set(ino, &Settings { mode: Some(0o600), ..Settings::default() }).unwrap();
    disk.set_extended(ino, name("user.x"), b"y", None).unwrap();
    let modes =
        |disk: &Disk| (0..50).map(|seed| disk.after_power_cut(seed).mode("a").unwrap()).collect::<BTreeSet<_>>();
    disk.flush(ino, false).unwrap();
    assert_eq!(modes(&disk), [0o600, 0o644].into());
    disk.flush(ino, true).unwrap();
    assert_eq!(modes(&disk), [0o600].into());
    assert_eq!(disk.after_power_cut(3).extended(ino, name("user.x")), Ok(&b"y"[..]));
    assert_eq!(disk.set_extended(ino, name("trusted.x"), b"y", None), Err(Errno::NOTSUP));
    assert_eq!(disk.set_extended(ino, name("user.x"), b"y", Some(false)), Err(Errno::EXIST));
    assert_eq!(disk.set_extended(ino, name("user.z"), b"y", Some(true)), Err(Errno::NODATA));
}

#[test]
fn the_same_seed_leaves_the_same_and_nothing_more_is_lost_afterwards() {
    let mut disk = Disk::new();
    disk.put("d/a", &[1; 50_000]);
    let parent = disk.lookup(ROOT, name("d")).unwrap();
    let ino = disk.lookup(parent, name("a")).unwrap();
    disk.write(ino, 10_000, &[2; 90_000]).unwrap();
    file(&mut disk, parent, "b", &[3; 30_000]);
    disk.link(ino, parent, name("c")).unwrap();
    let mut different = BTreeSet::new();
    for seed in 0..50 {
        let left = disk.after_power_cut(seed);
        assert_eq!(left, disk.after_power_cut(seed), "seed {seed}");
        assert_eq!(left, left.after_power_cut(seed + 1), "seed {seed}");
        different.insert((left.paths(), left.read("d/a")));
    }
    assert!(different.len() > 20, "{}", different.len());
}

#[test]
fn a_full_disk_takes_what_it_has_room_for() {
    let mut disk = Disk::new();
    let ino = file(&mut disk, ROOT, "a", b"x");
    disk.set_free_bytes(10_000);
    assert_eq!(disk.free_bytes(), 8192);
    assert_eq!(disk.write(ino, 0, &[1; 100_000]), Ok(12_288));
    assert_eq!(disk.write(ino, 12_288, b"x"), Err(Errno::NOSPC));
    disk.unlink(ROOT, name("a")).unwrap();
    assert_eq!(disk.free_bytes(), 12_288);
}

#[test]
fn names_are_refused_as_linux_does() {
    let mut disk = Disk::new();
    disk.put("d/a", b"");
    let parent = disk.lookup(ROOT, name("d")).unwrap();
    assert_eq!(disk.make_file(parent, name("a"), 0, OWNER), Err(Errno::EXIST));
    assert_eq!(disk.make_file(parent, name(&"n".repeat(256)), 0, OWNER), Err(Errno::NAMETOOLONG));
    assert_eq!(disk.remove_directory(ROOT, name("d")), Err(Errno::NOTEMPTY));
    assert_eq!(disk.unlink(ROOT, name("d")), Err(Errno::ISDIR));
    assert_eq!(disk.lookup(ROOT, name("x")), Err(Errno::NOENT));
    let empty = disk.make_directory(ROOT, name("empty"), 0o755, OWNER).unwrap();
    assert_eq!(disk.rename((ROOT, name("empty")), (ROOT, name("d")), true), Err(Errno::NOTEMPTY));
    assert_eq!(disk.rename((parent, name("a")), (ROOT, name("empty")), true), Err(Errno::ISDIR));
    assert_eq!(disk.rename((ROOT, name("empty")), (parent, name("a")), false), Err(Errno::EXIST));
    disk.rename((ROOT, name("d")), (ROOT, name("empty")), true).unwrap();
    assert_eq!(disk.make_file(empty, name("a"), 0, OWNER), Err(Errno::NOENT), "it has been replaced");
    assert_eq!(disk.paths(), [PathBuf::from("empty"), PathBuf::from("empty/a")]);
}
