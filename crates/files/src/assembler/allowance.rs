//! Limit on the bytes that a session may store, over all streams.

use std::collections::BTreeMap;

use dfcp_framing::error::Failure;

use crate::store::too_much;

/// Bytes that a session has stored or announced.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes_max: Option<u64>,
    /// Content received, including that of files that failed later.
    taken_bytes: u64,
    /// Bytes announced for files in progress and not received yet. Without reservations, files on several streams could
    /// all start on the same remaining bytes, and then all fail.
    reserved_bytes: u64,
    /// Bytes of this sender's partial files from earlier sessions, by file name. They are included in `taken_bytes`.
    held: BTreeMap<Vec<u8>, u64>,
}

/// Remaining reservation of a file in progress. The owner must return it by [`Allowance::release`].
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Reserved(u64);

impl Allowance {
    pub(super) fn new(bytes_max: Option<u64>) -> Self {
        Self { bytes_max, taken_bytes: 0, reserved_bytes: 0, held: BTreeMap::new() }
    }

    /// Adds a partial file of an earlier session.
    pub(super) fn hold(&mut self, name: &[u8], bytes: u64) {
        self.held.insert(name.to_vec(), bytes);
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
    }

    /// Starts a file. Of its old partial file, only `known_bytes` stay charged.
    pub(super) fn begin(&mut self, name: &[u8], known_bytes: u64) {
        let held = self.held.remove(name).unwrap_or_default();
        self.taken_bytes = self.taken_bytes.saturating_sub(held).saturating_add(known_bytes);
    }

    /// Reserves the announced bytes of a file.
    ///
    /// # Errors
    /// Fails if fewer bytes are left.
    pub(super) fn reserve(&mut self, announced_bytes: u64) -> Result<Reserved, Failure> {
        self.check(announced_bytes)?;
        self.reserved_bytes = self.reserved_bytes.saturating_add(announced_bytes);
        Ok(Reserved(announced_bytes))
    }

    /// Charges content about to be written. It is first taken from the file's reservation.
    ///
    /// # Errors
    /// Fails if the content beyond the reservation exceeds the remaining bytes.
    pub(super) fn take(&mut self, reserved: &mut Reserved, bytes: u64) -> Result<(), Failure> {
        let announced = reserved.0.min(bytes);
        self.check(bytes - announced)?;
        reserved.0 -= announced;
        self.reserved_bytes = self.reserved_bytes.saturating_sub(announced);
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
        Ok(())
    }

    /// Returns the unused reservation of a file that has ended, whether stored or not.
    pub(super) fn release(&mut self, reserved: Reserved) {
        self.reserved_bytes = self.reserved_bytes.saturating_sub(reserved.0);
    }

    fn check(&self, more_bytes: u64) -> Result<(), Failure> {
        let all_bytes = self.taken_bytes.saturating_add(self.reserved_bytes).saturating_add(more_bytes);
        match self.bytes_max {
            Some(max) if all_bytes > max => Err(too_much(max)),
            _ => Ok(()),
        }
    }
}
