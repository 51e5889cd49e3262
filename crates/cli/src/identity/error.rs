//! Errors of the identity files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use dfcp_framing::printable;
use dfcp_secure::{Fingerprint, KeyError, PublicKey};

use super::host_name::HostName;

/// Reason why an identity file cannot be used, as one sentence with the next step; [`ChangedKey`] is longer on purpose.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There is no home directory.
    #[error("cannot find the home directory for the configuration; set HOME, or DFCP_CONFIG_DIR to a directory")]
    NoConfigDir,
    /// An operation on a file failed. The message includes the cause, so `source` is empty.
    #[error("cannot {what} {} ({error}); check that the path and its permissions are right", shown(path))]
    Io {
        /// Operation that failed: "read", "create".
        what: &'static str,
        /// The file or directory of the operation.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// A secret file is readable by other users.
    #[error(
        "{} has mode {mode:04o}, so others can read the secret in it; replace the secret if they may have done so, or \
         else run: chmod 600 {}",
        shown(path),
        quoted(path)
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Other users can write a list of trusted keys, or the directory of such a list or of a secret file.
    #[error(
        "{} has mode {mode:04o}, so others can change what it trusts; look through it, then run: chmod go-w {}",
        shown(path),
        quoted(path)
    )]
    Writable {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file or directory belongs to another user.
    #[error(
        "{} belongs to user {owner}, who is neither you (user {user}) nor root and can change it; use one of your own, or \
         look through it, then run: sudo chown {user} {}",
        shown(path),
        quoted(path)
    )]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
        /// User id of this process.
        user: u32,
    },
    /// A file exceeds the size limit of its kind.
    #[error("{} is larger than the {bytes_max} bytes allowed; is it the right file?", shown(path))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Size limit in bytes.
        bytes_max: u64,
    },
    /// The private key file is damaged.
    #[error(
        "the key file {} is damaged ({reason}); restore it from a backup, or move it away to get a new key, which others \
         then have to be told",
        shown(path)
    )]
    DamagedKey {
        /// The file.
        path: PathBuf,
        /// Reason why the content is unusable.
        reason: &'static str,
    },
    /// The file of the reset key is damaged.
    #[error(
        "the file {} is damaged ({reason}); remove it to get a new key: only sessions of before will not hear of a restart",
        shown(path)
    )]
    DamagedResetKey {
        /// The file.
        path: PathBuf,
        /// Reason why the content is unusable.
        reason: &'static str,
    },
    /// A line does not parse.
    #[error("line {line} of {} is wrong: {reason}; correct or remove it", shown(path))]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Reason why the line does not parse.
        reason: String,
    },
    /// The list has no file to which keys could be added.
    #[error("the list of authorized keys is not in a regular file, so no key can be added to it; name one that is")]
    NoList,
    /// The text is not a host with a port.
    #[error(
        "\"{}\" is no host and port such as there.example:4433, 192.0.2.7:4433 or [2001:db8::7]:4433", printable(.0)
    )]
    HostName(String),
    /// A host showed a different key from the stored one.
    #[error(transparent)]
    Changed(Box<ChangedKey>),
    /// The file has no usable pre-shared key.
    #[error("{}: {error}", shown(path))]
    PreShared {
        /// The file.
        path: PathBuf,
        /// Fault of the key.
        error: KeyError,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers ({0}); no key can be made until it does")]
    Random(getrandom::Error),
}

impl IdentityError {
    pub(super) fn io(what: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), error }
    }
}

/// Host that shows another key than the one in `known_hosts`: its key was replaced, or another host answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedKey {
    /// Name of the host.
    pub host: HostName,
    /// Key in `known_hosts`.
    pub known: PublicKey,
    /// Fingerprint of the key that the host shows now.
    pub shown: Fingerprint,
    /// Path of `known_hosts`.
    pub path: PathBuf,
    /// The line of the known key, counted from 1.
    pub line: usize,
}

impl std::error::Error for ChangedKey {}

impl fmt::Display for ChangedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, known, shown: now, path, line } = self;
        let rule = "@".repeat(78);
        writeln!(f, "\n{rule}\nTHE KEY OF {host} HAS CHANGED. SOMEBODY MAY BE POSING AS THIS HOST.\n{rule}")?;
        writeln!(f, "known:  {}\nshown:  {now}", known.fingerprint())?;
        writeln!(f, "Nothing was sent. Ask the host's owner, by another way than this connection, which fingerprint")?;
        writeln!(f, "`dfcp id` shows there. If it is the second one, and only then, the change is expected:")?;
        write!(f, "remove line {line} of {} and try again.", shown(path))
    }
}

/// Path for display, with control characters escaped.
pub(super) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// Path quoted for a shell.
fn quoted(path: &Path) -> String {
    let text = shown(path);
    let plain = |c: char| c.is_alphanumeric() || "/._-+,@".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
