//! Limits that keep a guest or a tool from making this crate grow or wait without bound.

use std::time::Duration;

/// Most bytes kept of the output of a guest or a tool; older ones are dropped.
pub const CONSOLE_BYTES_MAX: usize = 64 << 10;

/// Most lines of output in an error.
pub const CONSOLE_LINES_SHOWN: usize = 12;

/// Most bytes of each line of output in an error.
pub const CONSOLE_LINE_BYTES_SHOWN: usize = 400;

/// Longest wait for the last output after all processes have ended.
pub const CONSOLE_DRAIN: Duration = Duration::from_secs(2);

/// Most bytes of a kernel's command line (`COMMAND_LINE_SIZE` of `arch/um`), without those that the kernel adds (`root=98:0 console=tty0`).
pub const COMMAND_LINE_BYTES_MAX: usize = 4096 - 64;

/// Most arguments of init, and most variables (`CONFIG_INIT_ENV_ARG_LIMIT`). The kernel sets two variables itself.
pub const INIT_ARGUMENTS_MAX: usize = 30;

/// Most bytes of a file that may be a kernel. A kernel has 7 MB, or 200 MB with debug information.
pub const KERNEL_BYTES_MAX: u64 = 1 << 30;

/// Most packets waiting at one instant for the NAT of a host: a window of 200 Mbit/s and 1 s. Linux 6.12 refuses 2¹⁶.
pub const NAT_QUEUE_PACKETS: u32 = 1 << 14;

/// Most bytes of a frame that a NAT reads; packets on links have 1500.
pub const NAT_FRAME_BYTES_MAX: usize = 1 << 14;

/// Longest run of a kernel with `--version`.
pub const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Interval at which a running process checks the caller's stop flag.
pub const STOP_POLL: Duration = Duration::from_millis(100);

/// Most bytes of a `build.json`; a usual one has about 4000.
pub const BUILD_INFO_BYTES_MAX: u64 = 1 << 20;

/// Free bytes required for a build: source archive, source, and objects.
pub const BUILD_BYTES_MIN: u64 = 2_000_000_000;
