//! Files private to their owner that a command creates or appends to: key logs, audit logs, traces.
//!
//! Without the checks, another user with write access to the directory, or the creator of the file, could read or
//! change its content, or redirect the writes into another file. All checks use the opened file, so that it cannot be
//! swapped meanwhile.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::ensure;

/// File types permitted at an existing path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permits {
    /// Regular files.
    Files,
    /// Regular files, and devices such as a terminal, which store nothing and are not checked.
    FilesAndDevices,
}

/// Opens the file for appending, created if missing. Also returns true if the file ends in the middle of a line.
///
/// # Errors
/// Fails if the file cannot be opened, or [`check`] refuses it.
pub(crate) fn append(path: &Path, permits: Permits) -> anyhow::Result<(File, bool)> {
    let (mut file, there) = open(path, OpenOptions::new().append(true))?;
    check(&there, permits)?;
    let mut last = [b'\n'];
    if there.is_file() && there.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok((file, last != *b"\n"))
}

/// Opens the file with `options` and for reading, created with mode 0600 if missing. Refuses symbolic links, and never
/// blocks. The caller must [`check`] the file before it writes.
///
/// # Errors
/// Passes on errors of the system, and refuses symbolic links.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> anyhow::Result<(File, Metadata)> {
    options.read(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A link could lead anywhere; opening a pipe would wait for a reader.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let file = options.open(path).map_err(|error| explain(path, error))?;
    #[cfg(unix)]
    {
        // Writes must block again: a stopped terminal should delay output, not fail it.
        let flags = rustix::fs::fcntl_getfl(&file).map_err(io::Error::from)?;
        rustix::fs::fcntl_setfl(&file, flags - rustix::fs::OFlags::NONBLOCK).map_err(io::Error::from)?;
    }
    let there = file.metadata()?;
    Ok((file, there))
}

/// Rewords the system's error for a refused symbolic link.
fn explain(path: &Path, error: io::Error) -> anyhow::Error {
    let is_link = path.symlink_metadata().is_ok_and(|there| there.file_type().is_symlink());
    if is_link { anyhow::anyhow!("it is a symbolic link, which is not followed") } else { error.into() }
}

/// Checks that the file belongs to this user, is inaccessible to group and others, and has no other hard link.
///
/// # Errors
/// Returns the fault with its remedy.
pub(crate) fn check(there: &Metadata, permits: Permits) -> anyhow::Result<()> {
    if permits == Permits::FilesAndDevices && is_device(there) {
        return Ok(());
    }
    ensure!(
        there.is_file(),
        "{}",
        if permits == Permits::Files { "it is no file" } else { "it is neither a file nor a device" }
    );
    check_private(there)
}

#[cfg(unix)]
fn check_private(there: &Metadata) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let (user, mode) = (rustix::process::geteuid().as_raw(), there.mode() & 0o7777);
    ensure!(there.uid() == user, "it belongs to user {}, and you are {user}", there.uid());
    ensure!(mode & 0o077 == 0, "it has mode {mode:04o}, so others can use it: run chmod 600 on it");
    ensure!(there.nlink() == 1, "it has {} names (hard links)", there.nlink());
    Ok(())
}

/// Accepts every file: this system has no Unix owners and modes.
#[cfg(not(unix))]
fn check_private(_: &Metadata) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn is_device(there: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_char_device(&there.file_type())
}

#[cfg(not(unix))]
fn is_device(_: &Metadata) -> bool {
    false
}

#[cfg(unix)]
#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Tests that a writer of private files refuses every kind of file that another user could have put in its place.
    /// `begin` opens a path and returns the refusal, if any; `content` is file content that the writer accepts.
    pub(crate) fn refuses_what_others_can_use(content: &str, begin: impl Fn(&std::path::Path) -> Option<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let refused = |name: &str, why: &str| {
            let said = begin(&path(name)).unwrap_or_else(|| panic!("{name} was taken"));
            assert!(said.contains(why), "{name}: {said}");
        };
        assert_eq!(begin(&path("new")), None);
        assert_eq!(fs::metadata(path("new")).unwrap().permissions().mode() & 0o7777, 0o600);
        for mode in [0o666, 0o644, 0o640, 0o620, 0o602, 0o611] {
            fs::write(path("open"), content).unwrap();
            fs::set_permissions(path("open"), Permissions::from_mode(mode)).unwrap();
            refused("open", "chmod 600");
            assert_eq!(fs::read_to_string(path("open")).unwrap(), content, "mode {mode:04o}");
        }
        fs::write(path("target"), content).unwrap();
        fs::set_permissions(path("target"), Permissions::from_mode(0o600)).unwrap();
        symlink(path("target"), path("link")).unwrap();
        symlink(path("nothing"), path("dangling")).unwrap();
        refused("link", "symbolic link");
        refused("dangling", "symbolic link");
        assert!(!path("nothing").exists());
        fs::hard_link(path("target"), path("second")).unwrap();
        refused("second", "2 names");
        assert_eq!(fs::read_to_string(path("target")).unwrap(), content);
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        refused("pipe", "neither a file");
        refused("", "directory");
    }
}
