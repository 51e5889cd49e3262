//! Keys of the hosts that this user has connected to, one per line: `name:port  base64key  # comment`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use dfcp_framing::error::truncate;
use dfcp_framing::printable;
use dfcp_secure::{Fingerprint, PublicKey};

use super::config_dir::ConfigDir;
use super::error::{ChangedKey, IdentityError};
use super::guard::Guard;
use super::host_name::HostName;
use super::read::{lines, read, wrong_line};
use super::replace::{append_line, lock, replace};
use crate::limits::{COMMENT_BYTES_MAX, HOST_NAME_BYTES_MAX, KNOWN_HOSTS_BYTES_MAX};

impl FromStr for HostName {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        Self::parse(text).ok_or_else(|| {
            let mut text = text.to_owned();
            truncate(&mut text, HOST_NAME_BYTES_MAX);
            IdentityError::HostName(text)
        })
    }
}

/// Entry of the file for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The file has no line for the host.
    Unknown,
    /// The file has this key for the host.
    Known(PublicKey),
}

/// Outcome of adding a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// A line was added.
    New,
    /// The file already had the line.
    Already,
}

/// The `known_hosts` file. Every call rereads it, so that additions by other programs count.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    directory: ConfigDir,
    path: PathBuf,
}

/// Parsed line of the file.
#[derive(Debug)]
pub(super) struct Line {
    number: usize,
    pub(super) host: HostName,
    pub(super) key: PublicKey,
}

impl KnownHosts {
    /// Returns the file in this configuration directory; the file may be missing.
    pub fn of(directory: &ConfigDir) -> Self {
        Self { path: directory.known_hosts(), directory: directory.clone() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the key stored for `host`.
    ///
    /// # Errors
    /// Fails if the file cannot be used, other users can change it, or any line is malformed.
    pub fn lookup(&self, host: &HostName) -> Result<Lookup, IdentityError> {
        self.directory.check()?;
        let (_, lines) = self.load()?;
        Ok(lines.iter().find(|line| line.host == *host).map_or(Lookup::Unknown, |line| Lookup::Known(line.key)))
    }

    /// Compares the key that `host` shows with the stored one; `Unknown` if none is stored.
    ///
    /// # Errors
    /// Fails as [`KnownHosts::lookup`] does, and by [`IdentityError::Changed`] if the stored key differs.
    pub fn verify(&self, host: &HostName, key: &PublicKey) -> Result<Lookup, IdentityError> {
        self.directory.check()?;
        self.compare(&self.load()?.1, host, key)
    }

    /// Returns the error for a host that showed a key with another fingerprint than the stored key. `Ok` if the stored
    /// key has the fingerprint `shown`, or its line has disappeared.
    ///
    /// # Errors
    /// Fails as [`KnownHosts::verify`] does.
    pub fn refuse(&self, host: &HostName, shown: Fingerprint) -> Result<(), IdentityError> {
        let (_, lines) = self.load()?;
        match lines.iter().find(|line| line.host == *host) {
            Some(line) if line.key.fingerprint() != shown => Err(self.changed(line, shown)),
            _ => Ok(()),
        }
    }

    /// Adds `key` for `host`, unless it is stored already. `comment` is for readers of the file, and may be empty.
    /// Concurrent additions by several programs are all kept.
    ///
    /// # Errors
    /// Fails as [`KnownHosts::verify`] does, or if the file cannot be written or has become too large.
    pub fn add(&self, host: &HostName, key: &PublicKey, comment: &str) -> Result<Added, IdentityError> {
        self.directory.create()?;
        let _lock = lock(&self.path)?;
        let (mut content, lines) = self.load()?;
        if let Lookup::Known(_) = self.compare(&lines, host, key)? {
            return Ok(Added::Already);
        }
        let mut comment = printable(comment);
        truncate(&mut comment, COMMENT_BYTES_MAX);
        let mark = if comment.is_empty() { "" } else { "  # " };
        append_line(&mut content, &format!("{host}  {key}{mark}{comment}"));
        if content.len() as u64 > KNOWN_HOSTS_BYTES_MAX {
            return Err(IdentityError::TooLarge { path: self.path.clone(), bytes_max: KNOWN_HOSTS_BYTES_MAX });
        }
        replace(&self.path, &content)?;
        Ok(Added::New)
    }

    fn compare(&self, lines: &[Line], host: &HostName, key: &PublicKey) -> Result<Lookup, IdentityError> {
        let Some(line) = lines.iter().find(|line| line.host == *host) else { return Ok(Lookup::Unknown) };
        if line.key == *key {
            return Ok(Lookup::Known(*key));
        }
        Err(self.changed(line, key.fingerprint()))
    }

    fn changed(&self, line: &Line, shown: Fingerprint) -> IdentityError {
        IdentityError::Changed(Box::new(ChangedKey {
            host: line.host.clone(),
            known: line.key,
            shown,
            path: self.path.clone(),
            line: line.number,
        }))
    }

    fn load(&self) -> Result<(Vec<u8>, Vec<Line>), IdentityError> {
        let content = read(&self.path, KNOWN_HOSTS_BYTES_MAX, Guard::Trusted)?.map_or_else(Vec::new, |c| c.to_vec());
        let lines = parse(&self.path, &content)?;
        Ok((content, lines))
    }
}

/// Parses the content of a file; `path` appears in errors.
pub(super) fn parse(path: &Path, content: &[u8]) -> Result<Vec<Line>, IdentityError> {
    let mut parsed: Vec<Line> = Vec::new();
    for line in lines(path, content) {
        let (number, line) = line?;
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line.split_whitespace();
        let (Some(host), Some(key), None) = (words.next(), words.next(), words.next()) else {
            return Err(wrong_line(path, number, "it is not of the form `host:port key # comment`"));
        };
        let host = host.parse::<HostName>().map_err(|error| wrong_line(path, number, error.to_string()))?;
        let key = key.parse::<PublicKey>().map_err(|error| wrong_line(path, number, error.to_string()))?;
        parsed.push(Line { number, host, key });
    }
    refuse_contradictions(path, &parsed)?;
    Ok(parsed)
}

/// Refuses a file with two keys for one host: either could be the wrong one.
fn refuse_contradictions(path: &Path, lines: &[Line]) -> Result<(), IdentityError> {
    let mut sorted: Vec<&Line> = lines.iter().collect();
    sorted.sort_by(|a, b| (&a.host, a.number).cmp(&(&b.host, b.number)));
    for pair in sorted.windows(2) {
        if pair[0].host == pair[1].host && pair[0].key != pair[1].key {
            let reason = format!("it has another key for {} than line {}", pair[1].host, pair[0].number);
            return Err(wrong_line(path, pair[1].number, reason));
        }
    }
    Ok(())
}
