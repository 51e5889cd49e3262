//! The keys of a key log (`spec/security.md` §6), by connection id. The file is hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read};

use dfcp_secure::{OpenError, RecordedKeys, Role};
use zeroize::Zeroizing;

use crate::key_log::line::{Line, parse};
use crate::limits::{KEY_LOG_CONNECTIONS_MAX, KEY_LOG_LINE_BYTES_MAX, KEY_LOG_LINES_MAX, KEYS_OF_ID_MAX};

/// A key log cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    /// The system says no.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Io(#[from] io::Error),
    /// More than is remembered.
    #[error(
        "has the keys of more than {KEY_LOG_CONNECTIONS_MAX} connections: take out those that are not in the capture"
    )]
    TooManyConnections,
    /// It has too many lines of any kind.
    #[error("has more than {KEY_LOG_LINES_MAX} lines: give a key log, which {variable} names", variable = crate::key_log::VARIABLE)]
    TooManyLines,
    /// None is a line of a key log, or all of these are damaged.
    #[error("has no keys: give the file which {variable} named when the connection was made with --key-log{why}", variable = crate::key_log::VARIABLE)]
    None {
        /// Fault of the first damaged line, if there is one.
        why: String,
    },
}

/// A datagram could not be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// No connection with its id is in the key log.
    NoKey,
    /// It is authentic under none of the keys.
    Forged,
}

/// Keys that open datagrams.
#[derive(Debug, Default)]
pub(super) struct KeyRing {
    /// Keys by connection id. Most ids belong to one connection.
    by_id: BTreeMap<u32, Vec<RecordedKeys>>,
    known: BTreeSet<[u8; 32]>,
    /// Lines that should be keys and are not: how many, and of the first one its number and what is wrong.
    damaged: (u64, Option<(u64, &'static str)>),
}

impl KeyRing {
    /// Reads a key log.
    ///
    /// # Errors
    /// It cannot be read, is longer than any, or has no key.
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
                // A comment may be as long as it likes.
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

    /// Count of damaged lines, with the first of them.
    pub(super) fn describe_damage(&self) -> Option<String> {
        let (count, (number, why)) = (self.damaged.0, self.damaged.1?);
        Some(format!("damaged lines: {count}, the first is line {number}: {why}"))
    }

    /// Connections.
    pub(super) fn connections(&self) -> usize {
        self.known.len()
    }

    pub(super) fn add(&mut self, line: &Line) -> Result<(), KeysError> {
        // Both ends of a connection write the same line.
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

    /// Opens the payload behind `header` in a datagram to the holder of `id`, whose number ends in `low`, into `out`. Returns the payload's
    /// length.
    ///
    /// # Errors
    /// The reason that it could not be decrypted.
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

/// Reads the next line without its end into `line`; of one that is too long, its beginning. Returns whether it is all of it, `None` at
/// the end of the file.
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
