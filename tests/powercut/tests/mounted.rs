//! Tests of the mounted file system, through the kernel.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed helper is a failed test, a skipped one says so"
)]

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use dfcp_powercut::{Disk, PowerCut, missing};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, ResolveFlags, XattrFlags};
use rustix::io::Errno;

/// A mounted file system and its mount point; `None` if mounting is impossible.
fn mounted() -> Option<(PowerCut, tempfile::TempDir)> {
    if let Some(reason) = missing() {
        println!("skipped: {reason}");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    Some((PowerCut::mount(directory.path(), Disk::new()).unwrap(), directory))
}

#[test]
fn files_are_written_at_any_place() {
    let Some((mount, _directory)) = mounted() else { return };
    let path = mount.path().join("a");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    assert_eq!(File::create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    file.write_all_at(&large, 5_000).unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    let mut read = vec![0; 10];
    file.read_exact_at(&mut read, 4_998).unwrap();
    assert_eq!(read, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
    let whole = fs::read(&path).unwrap();
    assert_eq!((whole.len(), &whole[..5], whole[5_000..] == large), (3_005_000, &b"begin"[..], true));
    assert_eq!(mount.disk().read("a"), Some(whole));
    file.set_len(3).unwrap();
    file.set_len(6).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"beg\0\0\0");
    fs::write(&path, "anew").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"anew", "O_TRUNC");
    let kept = File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!((kept.metadata().unwrap().nlink(), kept.metadata().unwrap().len()), (0, 4));
}

#[test]
fn names_change_as_on_other_file_systems() {
    let Some((mount, _directory)) = mounted() else { return };
    let at = |name: &str| mount.path().join(name);
    fs::create_dir_all(at("d/e")).unwrap();
    fs::write(at("d/a"), "one").unwrap();
    fs::write(at("b"), "two").unwrap();
    let no_replace = |from, to| rustix::fs::renameat_with(CWD, at(from), CWD, at(to), RenameFlags::NOREPLACE);
    assert_eq!(no_replace("d/a", "b"), Err(Errno::EXIST));
    assert_eq!(no_replace("d/a", "c"), Ok(()));
    fs::rename(at("b"), at("c")).unwrap();
    assert_eq!(fs::read(at("c")).unwrap(), b"two");
    fs::hard_link(at("c"), at("d/linked")).unwrap();
    assert_eq!(fs::metadata(at("c")).unwrap().nlink(), 2);
    symlink("d/linked", at("link")).unwrap();
    assert_eq!(
        (fs::read_link(at("link")).unwrap().to_str(), fs::read(at("link")).unwrap()),
        (Some("d/linked"), b"two".into())
    );
    assert_eq!(fs::remove_dir(at("d")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    assert_eq!(mount.disk().paths().len(), 5);

    let root = File::open(mount.path()).unwrap();
    let beneath = |path| {
        rustix::fs::openat2(
            &root,
            path,
            OFlags::RDONLY,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
        .map(drop)
    };
    assert_eq!([beneath("d/linked"), beneath("../x"), beneath("link")], [Ok(()), Err(Errno::XDEV), Err(Errno::LOOP)]);

    // More entries than a single read returns; `remove_dir_all` removes names between two reads.
    for number in 0..1_000 {
        fs::write(at(&format!("d/e/{number:050}")), "").unwrap();
    }
    assert_eq!(fs::read_dir(at("d/e")).unwrap().count(), 1_000);
    fs::remove_dir_all(at("d")).unwrap();
    assert_eq!(mount.disk().paths(), ["c", "link"].map(std::path::PathBuf::from));
}

#[test]
fn a_folding_file_system_takes_different_names_for_the_same() {
    if let Some(reason) = missing() {
        println!("skipped: {reason}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mount = PowerCut::mount(directory.path(), Disk::folding()).unwrap();
    let at = |name: &str| mount.path().join(name);
    fs::create_dir(at("Dir")).unwrap();
    fs::write(at("dir/One"), "one").unwrap();
    for same in ["DIR/one", "dir./ONE.", "d\u{200c}ir/one "] {
        assert_eq!(fs::read(at(same)).unwrap(), b"one", "{same:?}");
    }
    assert_eq!(File::create_new(at("dir/oNE")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    fs::write(at("dir/two"), "two").unwrap();
    fs::rename(at("DIR/TWO"), at("dir/ONE")).unwrap();
    assert_eq!(fs::read(at("dir/one")).unwrap(), b"two");
    let names = fs::read_dir(at("dir")).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(names, ["One"], "it keeps the name that was given first");
    fs::remove_file(at("dir/ONE.")).unwrap();
    assert!(!at("dir/one").exists());
    fs::remove_dir(at("DIR")).unwrap();
    assert!(!at("Dir").exists());
}

#[test]
fn attributes_and_locks_are_kept() {
    let Some((mount, _directory)) = mounted() else { return };
    let path = mount.path().join("a");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::new(1_000, 7)).unwrap();
    let status = fs::metadata(&path).unwrap();
    assert_eq!((status.mode(), status.mtime(), status.mtime_nsec()), (0o100_640, 1_000, 7));
    assert_eq!(mount.disk().mode("a"), Some(0o640));

    rustix::fs::setxattr(&path, "user.one", b"1", XattrFlags::CREATE).unwrap();
    assert_eq!(rustix::fs::setxattr(&path, "user.one", b"1", XattrFlags::CREATE), Err(Errno::EXIST));
    rustix::fs::setxattr(&path, "user.two", b"22", XattrFlags::empty()).unwrap();
    let mut value = [0; 20];
    assert_eq!(rustix::fs::getxattr(&path, "user.two", &mut value), Ok(2));
    assert_eq!(rustix::fs::listxattr(&path, &mut value), Ok(18));
    rustix::fs::removexattr(&path, "user.two").unwrap();
    assert_eq!(rustix::fs::getxattr(&path, "user.two", &mut value), Err(Errno::NODATA));

    file.try_lock().unwrap();
    assert!(matches!(File::open(&path).unwrap().try_lock(), Err(TryLockError::WouldBlock)));
}

/// Programs use alternative calls if these fail.
#[test]
fn what_it_does_not_support_is_refused() {
    let Some((mount, _directory)) = mounted() else { return };
    let at = |name: &str| mount.path().join(name);
    fs::write(at("a"), "one").unwrap();
    fs::write(at("b"), "two").unwrap();
    let unnamed = rustix::fs::open(mount.path(), OFlags::WRONLY | OFlags::TMPFILE, Mode::RUSR);
    let exchanged = rustix::fs::renameat_with(CWD, at("a"), CWD, at("b"), RenameFlags::EXCHANGE);
    let file = File::options().write(true).open(at("a")).unwrap();
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 10_000);
    assert_eq!(
        (unnamed.map(drop), exchanged, allocated),
        (Err(Errno::OPNOTSUPP), Err(Errno::INVAL), Err(Errno::OPNOTSUPP))
    );
    // The result depends on the kernel's version; the call flushes nothing.
    let _ignored = rustix::fs::syncfs(&file);
    assert_eq!((fs::read(at("a")).unwrap(), mount.disk().read_durable("a")), (b"one".into(), None));
    assert!(fs::metadata(at("a")).unwrap().created().is_err(), "no time of creation is kept");
}

#[test]
fn a_full_disk_is_told() {
    let Some((mount, _directory)) = mounted() else { return };
    mount.set_free_bytes(1_000_000);
    let figures = rustix::fs::statvfs(mount.path()).unwrap();
    assert_eq!(figures.f_bavail * figures.f_frsize, 999_424);
    let error = fs::write(mount.path().join("a"), vec![1; 2_000_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(mount.disk().read("a"), Some(vec![1; 999_424]));
    fs::remove_file(mount.path().join("a")).unwrap();
    fs::write(mount.path().join("b"), vec![1; 999_424]).unwrap();
}

#[test]
fn operations_are_counted_and_fail_from_the_cut_on() {
    let Some((mount, directory)) = mounted() else { return };
    let at = |name: &str| mount.path().join(name);
    let file = File::create(at("a")).unwrap();
    file.write_all_at(b"content", 0).unwrap();
    file.sync_all().unwrap();
    fs::rename(at("a"), at("b")).unwrap();
    File::open(mount.path()).unwrap().sync_all().unwrap();
    let log: Vec<String> = mount.log().iter().map(ToString::to_string).collect();
    assert_eq!(
        log,
        ["1: create a", "2: write a, 7 bytes at 0", "3: fsync a", "4: rename a to b", "5: fsync directory ."]
    );
    mount.cut_at(7);
    file.write_all_at(b"CON", 0).unwrap();
    assert!(!mount.is_cut());
    assert_eq!(fs::create_dir(at("d")).unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!((mount.is_cut(), mount.operations()), (true, 7));
    let killed = mount.after_kill();
    assert_eq!((killed.read("b"), killed.read_durable("b")), (Some(b"CONtent".into()), Some(b"content".into())));

    // The mount point is free, although the file is still open.
    let again = PowerCut::mount(directory.path(), killed.clone()).unwrap();
    assert_eq!(fs::read(again.path().join("b")).unwrap(), b"CONtent");
    let left: Vec<_> = (0..20).map(|seed| killed.after_power_cut(seed).read("b").unwrap()).collect();
    assert!(left.contains(&b"CONtent".to_vec()) && left.contains(&b"content".to_vec()), "{left:?}");
    assert_eq!(again.after_power_cut(3), killed.after_power_cut(3));
}

#[test]
fn a_program_that_hangs_is_killed_and_told() {
    let Some((mount, _directory)) = mounted() else { return };
    let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let error = mount.watch(&mut child, Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(!child.try_wait().unwrap().unwrap().success());
}
