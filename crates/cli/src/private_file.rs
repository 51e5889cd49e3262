//! Files that are their owner's alone, which a command makes or goes on with: key logs, audit logs, traces.
//!
//! A user who could write to the directory, or had made the file, could otherwise read what is written, change it, or have it written into
//! another file of the user's. Everything is checked of the opened file, so that nothing can be exchanged meanwhile.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::ensure;

/// Kinds of file that may be at the path, beside nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permits {
    /// A file.
    Files,
    /// A file, or a device such as a terminal, which is not checked: it keeps nothing.
    FilesAndDevices,
}

/// The file for appending, made if it is missing, and whether it ends within a line.
///
/// # Errors
/// It cannot be opened, or [`check`] refuses it.
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

/// Opens the file by `options` and for reading, and makes it if it is missing, for its owner alone. Follows no link and waits for nobody.
/// Nothing is checked yet, so nothing may be written.
///
/// # Errors
/// Those of the system, and symbolic links.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> anyhow::Result<(File, Metadata)> {
    options.read(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A link leads where its maker wants; opening a pipe would wait for a reader.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let file = options.open(path).map_err(|error| explain(path, error))?;
    #[cfg(unix)]
    {
        // A terminal that is held is waited for.
        let flags = rustix::fs::fcntl_getfl(&file).map_err(io::Error::from)?;
        rustix::fs::fcntl_setfl(&file, flags - rustix::fs::OFlags::NONBLOCK).map_err(io::Error::from)?;
    }
    let there = file.metadata()?;
    Ok((file, there))
}

/// The system's word for a link that is not followed, in ours.
fn explain(path: &Path, error: io::Error) -> anyhow::Error {
    let is_link = path.symlink_metadata().is_ok_and(|there| there.file_type().is_symlink());
    if is_link { anyhow::anyhow!("it is a symbolic link, which is not followed") } else { error.into() }
}

/// Neither group nor others may do anything with the file, it is this user's, and it has no other name.
///
/// # Errors
/// The fault, and its remedy.
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

/// There are no such owners and modes on this system.
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

    /// Tries a writer of such a file with all that others could have put in its place. `begin` says why it refuses, and `content` is what
    /// it would take.
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
