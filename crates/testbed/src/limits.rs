//! Limits on the runs that the testbed accepts.

use std::time::Duration;

/// Fastest link, bit/s, including access links. Two cores can emulate it in real time while they run DFCP's codec at
/// both ends. Faster plans have a small form.
pub const RATE_BPS_MAX: u64 = 200_000_000;

/// Maximum number of flows per run: all endpoints share one thread.
pub const FLOWS_MAX: usize = 100;

/// Greatest delay by which the emulator may batch packets that are due shortly after each other, as in `dfcp emulate`.
pub const COALESCE: Duration = Duration::from_micros(100);

/// Time that a run may take in addition to the scenario's duration, for set-up and end.
pub const OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Interval at which the end of a run's process is polled.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Largest job, bytes: a scenario with many changes.
pub(crate) const JOB_BYTES_MAX: u64 = 256 << 20;

/// Largest answer of a run's process, bytes: a queue trace has up to 200 000 numbers per link.
pub(crate) const ANSWER_BYTES_MAX: u64 = 256 << 20;
