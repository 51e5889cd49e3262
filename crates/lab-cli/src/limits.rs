//! Bounds on what others can make this program hold.

/// Longest record of a run that is taken from another machine, bytes: queues over time are the most of it.
pub(crate) const RECORD_BYTES_MAX: u64 = 64 << 20;
