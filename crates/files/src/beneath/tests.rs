use std::ffi::OsStr;
#[cfg(unix)]
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use filetime::FileTime;

use super::{Kind, Resolution, portable};

/// Tests of every implementation, in a directory that nobody else changes.
macro_rules! ordinary_use {
    ($test:ident, $implementation:ident, $resolution:expr) => {
        #[test]
        fn $test() {
            let outside = tempfile::tempdir().unwrap();
            let root = $implementation::Directory::open(outside.path(), $resolution).unwrap();
            let name = OsStr::new;
            root.make_directory(name("d"), 0o755).unwrap();
            assert_eq!(root.make_directory(name("d"), 0o755).unwrap_err().kind(), ErrorKind::AlreadyExists);
            root.directory(Path::new("d")).unwrap().make_directory(name("e"), 0o755).unwrap();
            let inner = root.directory(Path::new("d/e")).unwrap();
            inner.create_file(name("f"), 0o600).unwrap().write_all(b"content").unwrap();
            assert_eq!(inner.create_file(name("f"), 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists);

            let mut file = root.file(Path::new("d/e/f")).unwrap();
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content, "content");
            let (of_file, of_name) = ($implementation::status_of(&file).unwrap(), inner.status(name("f")).unwrap());
            let of_path = $implementation::status_of_named(&outside.path().join("d/e/f")).unwrap();
            for status in [of_file, of_name, of_path] {
                assert_eq!((status.kind, status.len, status.identity), (Kind::File, 7, of_file.identity));
                assert!((status.mtime_s, status.mtime_ns) == (of_file.mtime_s, of_file.mtime_ns));
                assert!(
                    status.mode & 0o400 != 0 && status.changed >= of_file.changed && status.allocated_bytes < 1 << 20
                );
            }
            $implementation::open_named(&outside.path().join("d/e/f")).unwrap();
            assert_eq!(
                root.own_status().unwrap().identity,
                root.directory(Path::new("")).unwrap().own_status().unwrap().identity
            );
            assert_eq!(root.status(name("d")).unwrap().kind, Kind::Directory);

            inner.create_file(name("g"), 0o600).unwrap();
            assert_eq!(inner.rename(name("g"), name("f"), false).unwrap_err().kind(), ErrorKind::AlreadyExists);
            inner.rename(name("g"), name("f"), true).unwrap();
            inner.rename(name("f"), name("h"), false).unwrap();
            assert_eq!(inner.names().unwrap().map(Result::unwrap).collect::<Vec<_>>(), [name("h")]);
            inner.remove_file(name("h")).unwrap();
            assert_eq!(inner.status(name("h")).unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(root.file(Path::new("d/x/f")).unwrap_err().kind(), ErrorKind::NotFound);
            assert!(root.free_bytes().unwrap().is_none_or(|free| free > 0));
            if let Some(flushable) = root.flushable().unwrap() {
                flushable.sync_all().unwrap();
            }
            if let Err(error) = $implementation::flush_file_system(&file) {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
            }
            let time = FileTime::from_unix_time(-1, 250_000_000);
            root.directory(Path::new("d")).unwrap().set_metadata(0o700, time).unwrap();
            let staged = inner.create_file(name("i"), 0o600).unwrap();
            $implementation::set_metadata(&staged, 0o640, time).unwrap();
            for status in [root.status(name("d")).unwrap(), inner.status(name("i")).unwrap()] {
                assert_eq!((status.mtime_s, status.mtime_ns), (-1, 250_000_000));
            }
        }
    };
}

ordinary_use!(paths_serve, portable, Resolution::Stepwise);
#[cfg(unix)]
use super::unix;
#[cfg(unix)]
ordinary_use!(descriptors_serve_step_by_step, unix, Resolution::Stepwise);
#[cfg(unix)]
ordinary_use!(descriptors_serve_as_the_system_can, unix, Resolution::of_system());

#[test]
fn links_are_refused_by_paths_too() {
    #[cfg(unix)]
    {
        let here = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", here.path().join("link")).unwrap();
        let root = portable::Directory::open(here.path(), Resolution::Stepwise).unwrap();
        assert!(portable::is_link(&root.directory(Path::new("link")).unwrap_err()));
        assert!(portable::is_link(&root.file(Path::new("link/passwd")).unwrap_err()));
        assert!(portable::is_link(&root.file(Path::new("link")).unwrap_err()));
    }
}

#[cfg(unix)]
fn both() -> [Resolution; 2] {
    if Resolution::of_system() == Resolution::Stepwise {
        eprintln!("this system has no openat2: only the resolution step by step is tested");
    }
    [Resolution::of_system(), Resolution::Stepwise]
}

#[cfg(unix)]
#[test]
fn a_link_anywhere_on_the_way_is_refused_and_known_as_one() {
    use std::os::unix::fs::symlink;
    for resolution in both() {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir_all(here.path().join("root/d")).unwrap();
        fs::create_dir_all(here.path().join("outside/d")).unwrap();
        fs::write(here.path().join("outside/d/f"), b"secret").unwrap();
        symlink(here.path().join("outside"), here.path().join("root/absolute")).unwrap();
        symlink("../outside", here.path().join("root/relative")).unwrap();
        symlink("../../outside/d/f", here.path().join("root/d/f")).unwrap();
        // Links that stay inside are refused as well, since they may lead elsewhere at the next call.
        symlink("d", here.path().join("root/inside")).unwrap();
        let root = unix::Directory::open(&here.path().join("root"), resolution).unwrap();
        for path in ["absolute", "relative", "inside", "absolute/d", "relative/d"] {
            let error = root.directory(Path::new(path)).unwrap_err();
            assert!(unix::is_link(&error), "{resolution:?} {path}: {error}");
        }
        for path in ["d/f", "absolute/d/f", "relative/d/f", "inside/f"] {
            let error = root.file(Path::new(path)).unwrap_err();
            assert!(unix::is_link(&error), "{resolution:?} {path}: {error}");
        }
        for path in ["..", "../outside/d", "d/../../outside", "/etc"] {
            assert!(root.directory(Path::new(path)).is_err(), "{resolution:?} {path}");
        }
        assert_eq!(root.status(OsStr::new("inside")).unwrap().kind, Kind::Link);
        // A file in the place of a directory gives another error than a link.
        fs::write(here.path().join("root/file"), b"").unwrap();
        let error = root.directory(Path::new("file/d")).unwrap_err();
        assert!(!unix::is_link(&error) && error.kind() == ErrorKind::NotADirectory, "{resolution:?}: {error}");
    }
}

#[cfg(unix)]
#[test]
fn a_directory_stays_the_same_one_whatever_gets_its_name() {
    use std::os::unix::fs::symlink;
    for resolution in both() {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir_all(here.path().join("root/d")).unwrap();
        fs::create_dir(here.path().join("outside")).unwrap();
        let root = unix::Directory::open(&here.path().join("root"), resolution).unwrap();
        let inner = root.directory(Path::new("d")).unwrap();
        fs::rename(here.path().join("root/d"), here.path().join("root/away")).unwrap();
        symlink(here.path().join("outside"), here.path().join("root/d")).unwrap();
        inner.create_file(OsStr::new("staged"), 0o600).unwrap();
        inner.rename(OsStr::new("staged"), OsStr::new("f"), false).unwrap();
        inner.make_directory(OsStr::new("e"), 0o700).unwrap();
        assert!(here.path().join("root/away/f").is_file() && here.path().join("root/away/e").is_dir());
        assert_eq!(fs::read_dir(here.path().join("outside")).unwrap().count(), 0, "{resolution:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_opened_without_waiting_and_known_as_none() {
    for resolution in both() {
        let here = tempfile::tempdir().unwrap();
        assert!(std::process::Command::new("mkfifo").arg(here.path().join("pipe")).status().unwrap().success());
        let root = unix::Directory::open(here.path(), resolution).unwrap();
        assert_eq!(unix::status_of(&root.file(Path::new("pipe")).unwrap()).unwrap().kind, Kind::Other);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_may_be_searched_and_not_listed_serves() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may list every directory, so this shows nothing");
        return;
    }
    for resolution in both() {
        let here = tempfile::tempdir().unwrap();
        let directory = here.path().join("d");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o300)).unwrap();
        let root = unix::Directory::open(here.path(), resolution).unwrap();
        root.directory(Path::new("d")).unwrap().create_file(OsStr::new("f"), 0o600).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn file_systems_are_flushed_where_that_tells_of_errors() {
    for (release, expected) in [
        ("6.18.44", true),
        ("5.17", true),
        ("5.17.0-rc1", true),
        ("5.16.20", false),
        ("5.8.0", false),
        ("4.19.0-9-amd64", false),
        ("", false),
    ] {
        assert_eq!(unix::tells_of_errors(release), expected, "{release}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_without_figures_is_not_full() {
    let procfs = unix::Directory::open(Path::new("/proc"), Resolution::of_system()).unwrap();
    assert_eq!(procfs.free_bytes().unwrap(), None);
}

#[cfg(target_os = "linux")]
#[test]
fn only_file_systems_known_to_reach_the_disk_are_flushed_as_a_whole() {
    let (ext4, btrfs, tmpfs) = (0xEF53_i64, 0x9123_683E_i64, 0x0102_1994_i64);
    let (fuse, cifs, smb2, ninep, nfs, overlay) =
        (0x6573_5546, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x6969, 0x794C_7630);
    assert!([ext4, btrfs, tmpfs].into_iter().all(unix::reaches_the_disk));
    assert!(![fuse, cifs, smb2, ninep, nfs, overlay, -1_i64].into_iter().any(unix::reaches_the_disk));
    let unknown = fs::File::open("/proc/version").unwrap();
    assert_eq!(unix::flush_file_system(&unknown).unwrap_err().kind(), ErrorKind::Unsupported);
}
