//! Every bound on what a frame or a name may hold.

use std::time::Duration;

/// Largest body of a data frame, bytes. At 1 Gbit/s a frame then lasts 2 ms: few system calls, smooth progress.
pub const DATA_BYTES_MAX: usize = 256 * 1024;

/// Largest body of any other frame, bytes: the longest name, its metadata and room to spare.
pub const CONTROL_BYTES_MAX: usize = 8 * 1024;

/// Longest name of a file relative to the output directory, bytes (`PATH_MAX` of Linux).
pub const NAME_BYTES_MAX: usize = 4096;

/// Longest component of such a name, bytes (`NAME_MAX` of Linux).
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Most components of such a name, and so how deep a search of a file tree goes.
pub const DEPTH_MAX: usize = 64;

/// Longest target of a link, bytes (4095 on Linux): with the longest name it still fits into a frame.
pub const LINK_TARGET_BYTES_MAX: usize = 4000;

/// Links of one session.
pub const LINKS_MAX: u32 = 1 << 20;

/// Longest explanation sent to a peer or believed from one, bytes.
pub const SENTENCE_BYTES_MAX: usize = 1024;

/// Longest pattern of names that are left out, bytes. Matching one takes at most as many steps for each byte of a name.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Longest test a `perf server` lets itself be asked for.
pub const PERF_DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Streams that carry the data of one measurement. The cost of an open stream is charged to the connection's memory; more would measure
/// the bookkeeping.
pub const PERF_STREAMS_MAX: u16 = 128;

/// Longest message that a measurement may ask for, bytes: as long as messages can be.
pub const MESSAGE_BYTES_MAX: u32 = 256 * 1024;

/// Longest time from one message of a measurement to the next.
pub const MESSAGE_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Longest time for which messages may be worth something.
pub const MESSAGE_WITHIN_MAX: Duration = Duration::from_secs(60 * 60);
