//! Limits of frames and names.

use std::time::Duration;

/// Largest body of a data frame, bytes. At 1 Gbit/s such a frame takes 2 ms, so system calls are few and progress is
/// smooth.
pub const DATA_BYTES_MAX: usize = 256 * 1024;

/// Largest body of any other frame, bytes: room for the longest name with its metadata, and a reserve.
pub const CONTROL_BYTES_MAX: usize = 8 * 1024;

/// Longest name of a file relative to the output directory, bytes (`PATH_MAX` of Linux).
pub const NAME_BYTES_MAX: usize = 4096;

/// Longest component of a name, bytes (`NAME_MAX` of Linux).
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Largest number of components of a name, which also bounds the depth of a search in a file tree.
pub const DEPTH_MAX: usize = 64;

/// Longest target of a link, bytes (Linux: 4095). Together with the longest name, it must fit into a frame.
pub const LINK_TARGET_BYTES_MAX: usize = 4000;

/// Largest number of symbolic links that a session transfers.
pub const LINKS_MAX: u32 = 1 << 20;

/// Longest sentence sent to a peer or accepted from one, bytes.
pub const SENTENCE_BYTES_MAX: usize = 1024;

/// Longest exclude pattern, bytes. Matching takes at most this many steps per byte of a name.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Longest measurement that a `perf server` accepts.
pub const PERF_DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Largest number of data streams of a measurement. Open streams are charged to the connection's memory, and more
/// streams would only measure the bookkeeping.
pub const PERF_STREAMS_MAX: u16 = 128;

/// Longest message of a measurement, bytes: the longest message of the protocol.
pub const MESSAGE_BYTES_MAX: u32 = 256 * 1024;

/// Longest interval between messages of a measurement.
pub const MESSAGE_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Longest deadline of a message in a measurement.
pub const MESSAGE_WITHIN_MAX: Duration = Duration::from_secs(60 * 60);
