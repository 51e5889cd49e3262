//! Limit on the bytes that a session may store, over all streams.

use std::collections::BTreeMap;

use dfcp_framing::error::Failure;

use crate::store::too_much;

/// Account of the content stored or announced.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes_max: Option<u64>,
    /// Received content, including that of files that failed later.
    taken_bytes: u64,
    /// Bytes announced by files in progress and not received yet. Without reservations, concurrent files would each start on the same
    /// remaining bytes, and all fail.
    reserved_bytes: u64,
    /// Bytes of this sender's unfinished files, by name.
    held: BTreeMap<Vec<u8>, u64>,
}

/// Remaining reservation of a file in progress, to be returned by [`Allowance::release`].
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Reserved(u64);

impl Allowance {
    pub(super) fn new(bytes_max: Option<u64>) -> Self {
        Self { bytes_max, taken_bytes: 0, reserved_bytes: 0, held: BTreeMap::new() }
    }

    /// Adds an unfinished file of an earlier session.
    pub(super) fn hold(&mut self, name: &[u8], bytes: u64) {
        self.held.insert(name.to_vec(), bytes);
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
    }

    /// Starts a file of which `known_bytes` are stored; the rest of its old partial file is freed.
    pub(super) fn begin(&mut self, name: &[u8], known_bytes: u64) {
        let held = self.held.remove(name).unwrap_or_default();
        self.taken_bytes = self.taken_bytes.saturating_sub(held).saturating_add(known_bytes);
    }

    /// Reserves the announced bytes.
    ///
    /// # Errors
    /// Fails if fewer bytes are left.
    pub(super) fn reserve(&mut self, announced_bytes: u64) -> Result<Reserved, Failure> {
        self.check(announced_bytes)?;
        self.reserved_bytes = self.reserved_bytes.saturating_add(announced_bytes);
        Ok(Reserved(announced_bytes))
    }

    /// Charges content to be written, first to the file's reservation.
    ///
    /// # Errors
    /// Fails if the content exceeds the reservation and the remaining bytes.
    pub(super) fn take(&mut self, reserved: &mut Reserved, bytes: u64) -> Result<(), Failure> {
        let announced = reserved.0.min(bytes);
        self.check(bytes - announced)?;
        reserved.0 -= announced;
        self.reserved_bytes = self.reserved_bytes.saturating_sub(announced);
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
        Ok(())
    }

    /// Returns the reservation of a file that ended, stored or not.
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
