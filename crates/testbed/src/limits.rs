//! Bounds on the runs that the testbed accepts.

use std::time::Duration;

/// Fastest link, including access links, bit/s: what two cores emulate in time beside DFCP's codec at both ends. Faster plans have a small
/// form.
pub const RATE_BPS_MAX: u64 = 200_000_000;

/// Maximum number of flows per run: all ends are tasks of one thread.
pub const FLOWS_MAX: usize = 100;

/// Delay up to which packets due shortly after each other are coalesced, as in `dfcp emulate`.
pub const COALESCE: Duration = Duration::from_micros(100);

/// Time that a run may take beyond the scenario's duration, for set-up and end.
pub const OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Polling interval for the end of a run's process.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Longest job, bytes: a scenario with many changes.
pub(crate) const JOB_BYTES_MAX: u64 = 256 << 20;

/// Longest answer of a run's process, bytes: a queue trace has 200 000 numbers per link.
pub(crate) const ANSWER_BYTES_MAX: u64 = 256 << 20;
