//! Bounds on what other machines can make this program hold.

/// Longest record accepted from another machine, bytes; most of it are queue lengths over time.
pub(crate) const RECORD_BYTES_MAX: u64 = 64 << 20;
