//! Every bound on what the testbed takes on.

use std::time::Duration;

/// The fastest link, access links included, bit/s: what two cores emulate in time with DFCP's codec at both ends beside it. Faster plans
/// have a small form.
pub const RATE_BPS_MAX: u64 = 200_000_000;

/// Flows of a run: all ends are tasks of one thread.
pub const FLOWS_MAX: usize = 100;

/// A packet waits up to this long for others which are due shortly after it, as `dfcp emulate` has it.
pub const COALESCE: Duration = Duration::from_micros(100);

/// Time that a run may take beyond the scenario's duration: setting up, and ending.
pub const OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Interval between checks that a run's process has ended.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The longest job, bytes: a scenario with many changes.
pub(crate) const JOB_BYTES_MAX: u64 = 256 << 20;

/// The longest answer of a run's process, bytes: a trace of queues has 200 000 numbers for each link.
pub(crate) const ANSWER_BYTES_MAX: u64 = 256 << 20;
