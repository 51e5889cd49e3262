//! Keys of a key log (`spec/security.md` §6), by connection id. The file is untrusted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read};

use dfcp_secure::{OpenError, RecordedKeys, Role};
use zeroize::Zeroizing;

use crate::key_log::line::{Line, parse};
use crate::limits::{KEY_LOG_CONNECTIONS_MAX, KEY_LOG_LINE_BYTES_MAX, KEY_LOG_LINES_MAX, KEYS_OF_ID_MAX};

/// Reason why a key log cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    /// Reading the file failed.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Io(#[from] io::Error),
    /// The log has keys of too many connections.
    #[error(
        "has the keys of more than {KEY_LOG_CONNECTIONS_MAX} connections: take out those that are not in the capture"
    )]
    TooManyConnections,
    /// The log has too many lines.
    #[error("has more than {KEY_LOG_LINES_MAX} lines: give a key log, which {variable} names", variable = crate::key_log::VARIABLE)]
    TooManyLines,
    /// No line has a valid key.
    #[error("has no keys: give the file which {variable} named when the connection was made with --key-log{why}", variable = crate::key_log::VARIABLE)]
    None {
        /// Fault of the first damaged line, if any.
        why: String,
    },
}

/// Reason why a datagram could not be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// The key log lacks the datagram's connection id.
    NoKey,
    /// No key authenticates the datagram.
    Forged,
}

/// Set of keys that decrypt datagrams.
#[derive(Debug, Default)]
pub(super) struct KeyRing {
    /// Keys by connection id; most ids have one connection.
    by_id: BTreeMap<u32, Vec<RecordedKeys>>,
    known: BTreeSet<[u8; 32]>,
    /// Number of damaged lines, with line number and fault of the first one.
    damaged: (u64, Option<(u64, &'static str)>),
}

impl KeyRing {
    /// Reads a key log.
    ///
    /// # Errors
    /// Fails if the log cannot be read, exceeds the limits, or has no key.
    pub(super) fn read(file: impl Read) -> Result<Self, KeysError> {
        let mut ring = Self::default();
        let mut file = BufReader::new(file);
        let mut line = Zeroizing::new(Vec::with_capacity(KEY_LOG_LINE_BYTES_MAX as usize + 1));
        let mut number = 0;
        while let Some(is_whole) = next_line(&mut file, &mut line)? {
            number += 1;
            if number > KEY_LOG_LINES_MAX {
                return Err(KeysError::TooManyLines);
            }
            match parse(&line) {
                Ok(Some(line)) if is_whole => ring.add(&line)?,
                Err(why) if is_whole => ring.note_damaged(number, why),
                // Comment lines may have any length.
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => ring.note_damaged(number, "it is too long"),
            }
        }
        if ring.known.is_empty() {
            let why = ring.describe_damage().map_or_else(String::new, |it| format!(" ({it})"));
            return Err(KeysError::None { why });
        }
        Ok(ring)
    }

    fn note_damaged(&mut self, number: u64, why: &'static str) {
        self.damaged.0 += 1;
        self.damaged.1.get_or_insert((number, why));
    }

    /// Describes the damaged lines, if any.
    pub(super) fn describe_damage(&self) -> Option<String> {
        let (count, (number, why)) = (self.damaged.0, self.damaged.1?);
        Some(format!("damaged lines: {count}, the first is line {number}: {why}"))
    }

    /// Returns the number of connections.
    pub(super) fn connections(&self) -> usize {
        self.known.len()
    }

    pub(super) fn add(&mut self, line: &Line) -> Result<(), KeysError> {
        // Both ends of a connection log the same line, so duplicates are normal.
        if self.known.contains(&line.handshake_hash) {
            return Ok(());
        }
        if self.known.len() >= KEY_LOG_CONNECTIONS_MAX {
            return Err(KeysError::TooManyConnections);
        }
        self.known.insert(line.handshake_hash);
        for (id, sender, secret) in [
            (line.responder_id, Role::Initiator, &line.from_initiator),
            (line.initiator_id, Role::Responder, &line.from_responder),
        ] {
            let of_id = self.by_id.entry(id).or_default();
            if of_id.len() == KEYS_OF_ID_MAX {
                self.damaged.0 += 1;
                self.damaged.1.get_or_insert((0, "too many connections have one id"));
            } else {
                of_id.push(RecordedKeys::new(line.cipher, sender, secret));
            }
        }
        Ok(())
    }

    /// Decrypts the payload after `header` into `out`. `id` is the connection id in the datagram's address field, and
    /// `low` the low 32 bits of its packet number. Returns the payload's length.
    ///
    /// # Errors
    /// Returns the reason if decryption failed.
    pub(super) fn open(
        &mut self,
        id: u32,
        low: u32,
        (header, sealed): (&[u8], &[u8]),
        out: &mut [u8],
    ) -> Result<usize, Closed> {
        let of_id = self.by_id.get_mut(&id).ok_or(Closed::NoKey)?;
        let out = out.get_mut(..sealed.len()).ok_or(Closed::Forged)?;
        for keys in of_id {
            out.copy_from_slice(sealed);
            match keys.open(low, header, out) {
                Ok(length) => return Ok(length),
                Err(OpenError::TooShort(_)) => return Err(Closed::Forged),
                Err(_) => {}
            }
        }
        Err(Closed::Forged)
    }
}

/// Reads the next line into `line`, without its newline and truncated at the limit. Returns true if the line is
/// complete; `None` at the end of the file.
fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let read = file.by_ref().take(KEY_LOG_LINE_BYTES_MAX).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_some() || (read as u64) < KEY_LOG_LINE_BYTES_MAX {
        return Ok(Some(true));
    }
    file.skip_until(b'\n')?;
    Ok(Some(false))
}
