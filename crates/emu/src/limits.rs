//! Bounds on what the emulator holds.

use std::time::Duration;

/// Largest IP packet from a device: 65 535 bytes after an IPv6 header.
pub(crate) const PACKET_BYTES_MAX: usize = 65_535 + 40;

/// Maximum number of segments of a superpacket. The kernel's own have at most 65 535 / 48 segments (the minimum MSS of
/// TCP); a forged one could have 65 000 segments of a byte each.
pub(crate) const SEGMENTS_MAX: usize = 1366;

/// Extension headers of an IPv6 packet that are skipped to find its transport header (RFC 8200 has six kinds).
pub(crate) const EXTENSION_HEADERS_MAX: usize = 8;

/// Bytes on each direction's link, queued and in flight: 1 Gbit/s for 2 s.
pub(crate) const HELD_BYTES_MAX: u64 = 256 << 20;

/// Reads from a device before due packets are released.
pub(crate) const READS_PER_TURN: usize = 64;

/// Device queue in packets, `txqueuelen`; overflows are dropped and counted. TCP cannot see this queue, so a whole congestion window must
/// fit: at 64 kB each, 640 MB.
pub(crate) const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// Maximum number of host pairs in one network: the last 16 bits of an address number them, from 1.
pub const PAIRS_MAX: u16 = 1_000;

/// Maximum age of link readings while packets cross the links.
pub(crate) const READING_AGE_MAX: Duration = Duration::from_micros(500);

/// Upper end of the lateness histogram.
pub(crate) const LATENESS_MAX: Duration = Duration::from_secs(60);

/// Longest delay of `COMMAND` for a server that does not listen yet.
pub(crate) const SERVER_START_MAX: Duration = Duration::from_secs(2);

/// Polling interval of the server's sockets.
pub(crate) const SERVER_START_STEP: Duration = Duration::from_millis(5);

/// Polling interval for the end of a killed process.
pub(crate) const KILLED_STEP: Duration = Duration::from_millis(1);

/// Time for processes to end after they were asked to.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Bytes read of a socket table in `/proc`; a socket has 150.
pub(crate) const SOCKET_TABLE_BYTES_MAX: u64 = 1 << 20;
