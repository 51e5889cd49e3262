//! Errors of the files of an identity.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use dfcp_framing::printable;
use dfcp_secure::{Fingerprint, KeyError, PublicKey};

use super::host_name::HostName;

/// Reason why a file of an identity cannot be used. One sentence each with the next step, except [`ChangedKey`], which
/// is meant to be seen.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There is no home directory.
    #[error("cannot find the home directory for the configuration; set HOME, or DFCP_CONFIG_DIR to a directory")]
    NoConfigDir,
    /// The system refuses to do something with a file. The sentence has the cause in it, so it is no source besides.
    #[error("cannot {what} {} ({error}); check that the path and its permissions are right", shown(path))]
    Io {
        /// The operation that failed: "read", "create".
        what: &'static str,
        /// The file or directory of the operation.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// A secret file which others can read.
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
    /// Other users can write a list of trusted keys, or the directory that such a list or a secret file is in.
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
    /// A file or directory of somebody else.
    #[error(
        "{} belongs to user {owner}, who is neither you (user {user}) nor root and can change it; use one of your own, or \
         look through it, then run: sudo chown {user} {}",
        shown(path),
        quoted(path)
    )]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
        /// This user's number.
        user: u32,
    },
    /// A file larger than its kind may be.
    #[error("{} is larger than the {bytes_max} bytes allowed; is it the right file?", shown(path))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// The private key file does not hold one key.
    #[error(
        "the key file {} is damaged ({reason}); restore it from a backup, or move it away to get a new key, which others \
         then have to be told",
        shown(path)
    )]
    DamagedKey {
        /// The file.
        path: PathBuf,
        /// The reason why the content is not usable.
        reason: &'static str,
    },
    /// The file of the reset key does not hold one.
    #[error(
        "the file {} is damaged ({reason}); remove it to get a new key: only sessions of before will not hear of a restart",
        shown(path)
    )]
    DamagedResetKey {
        /// The file.
        path: PathBuf,
        /// The reason why the content is not usable.
        reason: &'static str,
    },
    /// A line which does not parse.
    #[error("line {line} of {} is wrong: {reason}; correct or remove it", shown(path))]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The reason why the content is not usable.
        reason: String,
    },
    /// Keys cannot be added to a list which is not in a file.
    #[error("the list of authorized keys is not in a regular file, so no key can be added to it; name one that is")]
    NoList,
    /// The text is no host with a port.
    #[error(
        "\"{}\" is no host and port such as there.example:4433, 192.0.2.7:4433 or [2001:db8::7]:4433", printable(.0)
    )]
    HostName(String),
    /// A host has another key than before.
    #[error(transparent)]
    Changed(Box<ChangedKey>),
    /// The file has no usable pre-shared key in it.
    #[error("{}: {error}", shown(path))]
    PreShared {
        /// The file.
        path: PathBuf,
        /// The key's fault.
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

/// A host which shows another key than the one in `known_hosts`: either it has a new key, or it is not that host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedKey {
    /// The host.
    pub host: HostName,
    /// The key in the file.
    pub known: PublicKey,
    /// The fingerprint of the key it shows now.
    pub shown: Fingerprint,
    /// The file.
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

/// A path for people.
pub(super) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// A path to be pasted into a shell.
fn quoted(path: &Path) -> String {
    let text = shown(path);
    let plain = |c: char| c.is_alphanumeric() || "/._-+,@".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
