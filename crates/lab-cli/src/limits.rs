//! Limits of this program's memory for data from other machines.

/// Largest record accepted from another machine, bytes. Most of a record are queue lengths over time.
pub(crate) const RECORD_BYTES_MAX: u64 = 64 << 20;
