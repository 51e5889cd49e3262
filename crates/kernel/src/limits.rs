//! Every limit which keeps a guest or a tool from making this crate grow or wait without bound.

use std::time::Duration;

/// Bytes kept of what a guest or a tool prints; older ones are dropped.
pub const CONSOLE_BYTES_MAX: usize = 64 << 10;

/// Lines of it which an error shows.
pub const CONSOLE_LINES_SHOWN: usize = 12;

/// Bytes of one such line.
pub const CONSOLE_LINE_BYTES_SHOWN: usize = 400;

/// Longest wait for the last output once all processes have ended.
pub const CONSOLE_DRAIN: Duration = Duration::from_secs(2);

/// Bytes of a kernel's command line (`COMMAND_LINE_SIZE` of `arch/um`), without those which the kernel itself adds
/// (`root=98:0 console=tty0`).
pub const COMMAND_LINE_BYTES_MAX: usize = 4096 - 64;

/// Arguments, and variables, which a kernel hands to init (`CONFIG_INIT_ENV_ARG_LIMIT`). It sets two variables itself.
pub const INIT_ARGUMENTS_MAX: usize = 30;

/// Bytes of a program that may be a kernel. One is 7 MB, with debug information 200 MB.
pub const KERNEL_BYTES_MAX: u64 = 1 << 30;

/// Packets which may wait at one instant for the NAT in front of a host: a window of 200 Mbit/s and 1 s. Linux 6.12 refuses 2¹⁶.
pub const NAT_QUEUE_PACKETS: u32 = 1 << 14;

/// Bytes of a frame which a NAT reads at once: links have packets of 1500.
pub const NAT_FRAME_BYTES_MAX: usize = 1 << 14;

/// Longest run of a kernel with `--version`.
pub const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Interval at which a running process is checked against the caller's wish to stop.
pub const STOP_POLL: Duration = Duration::from_millis(100);

/// Bytes of a `build.json`; one has about 4000.
pub const BUILD_INFO_BYTES_MAX: u64 = 1 << 20;

/// Bytes which must be free where a kernel is built: the source's archive, the source, and objects.
pub const BUILD_BYTES_MIN: u64 = 2_000_000_000;
