//! Bytes that a session may store, over all of its streams.

use std::collections::BTreeMap;

use dfcp_framing::error::Failure;

use crate::store::too_much;

/// Counts content that is stored or about to be.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes_max: Option<u64>,
    /// Content that came, also of files that failed in the end.
    taken_bytes: u64,
    /// Bytes that files under way have announced and not sent yet. Without it, concurrent files would each begin to use what is left,
    /// and all fail.
    reserved_bytes: u64,
    /// Bytes of this sender's unfinished files, by their names.
    held: BTreeMap<Vec<u8>, u64>,
}

/// The part of an allowance that a file under way has announced and not sent yet. To be given back by [`Allowance::release`].
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Reserved(u64);

impl Allowance {
    pub(super) fn new(bytes_max: Option<u64>) -> Self {
        Self { bytes_max, taken_bytes: 0, reserved_bytes: 0, held: BTreeMap::new() }
    }

    /// Counts what there is of a file that an earlier session has not finished.
    pub(super) fn hold(&mut self, name: &[u8], bytes: u64) {
        self.held.insert(name.to_vec(), bytes);
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
    }

    /// A file has begun of which `known_bytes` are there. The rest that was left of it is gone.
    pub(super) fn begin(&mut self, name: &[u8], known_bytes: u64) {
        let held = self.held.remove(name).unwrap_or_default();
        self.taken_bytes = self.taken_bytes.saturating_sub(held).saturating_add(known_bytes);
    }

    /// Sets aside what a file announces.
    ///
    /// # Errors
    /// There is not as much left.
    pub(super) fn reserve(&mut self, announced_bytes: u64) -> Result<Reserved, Failure> {
        self.check(announced_bytes)?;
        self.reserved_bytes = self.reserved_bytes.saturating_add(announced_bytes);
        Ok(Reserved(announced_bytes))
    }

    /// Counts content that is to be written, first against what its file has announced.
    ///
    /// # Errors
    /// It is more than that and than what is left.
    pub(super) fn take(&mut self, reserved: &mut Reserved, bytes: u64) -> Result<(), Failure> {
        let announced = reserved.0.min(bytes);
        self.check(bytes - announced)?;
        reserved.0 -= announced;
        self.reserved_bytes = self.reserved_bytes.saturating_sub(announced);
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
        Ok(())
    }

    /// The file has ended, one way or the other.
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
