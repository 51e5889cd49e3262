//! Every bound on what the emulator holds.

use std::time::Duration;

/// Largest IP packet which a device hands out: 65 535 bytes behind an IPv6 header.
pub(crate) const PACKET_BYTES_MAX: usize = 65_535 + 40;

/// Most segments of a superpacket. The kernel's own have at most 65 535 / 48 (the least MSS of TCP); a forged one of a byte each
/// would have 65 000.
pub(crate) const SEGMENTS_MAX: usize = 1366;

/// Extension headers of an IPv6 packet that are skipped to find its transport header (RFC 8200 has six kinds of them).
pub(crate) const EXTENSION_HEADERS_MAX: usize = 8;

/// Bytes on each direction's link, waiting and travelling: 1 Gbit/s for 2 s.
pub(crate) const HELD_BYTES_MAX: u64 = 256 << 20;

/// Reads from a device before what is due is released.
pub(crate) const READS_PER_TURN: usize = 64;

/// Packets that the kernel keeps for the emulator, `txqueuelen`. Beyond it the device drops them, which is counted. TCP does not notice
/// that its packets wait in a TUN device, so a whole congestion window must fit: 64 kB each makes that 640 MB.
pub(crate) const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// Pairs of hosts at the ends of one network: the last 16 bits of an address number them, from 1.
pub const PAIRS_MAX: u16 = 1_000;

/// Greatest age of a reading of links while packets cross them.
pub(crate) const READING_AGE_MAX: Duration = Duration::from_micros(500);

/// Lateness above this counts as this.
pub(crate) const LATENESS_MAX: Duration = Duration::from_secs(60);

/// Longest delay of `COMMAND` for a server that does not listen yet.
pub(crate) const SERVER_START_MAX: Duration = Duration::from_secs(2);

/// Interval between checks of the server's sockets.
pub(crate) const SERVER_START_STEP: Duration = Duration::from_millis(5);

/// Interval between checks that a killed process has ended.
pub(crate) const KILLED_STEP: Duration = Duration::from_millis(1);

/// Time that processes get to end after they were asked to.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Size of an address's socket table in `/proc` that is read: 150 bytes for each socket.
pub(crate) const SOCKET_TABLE_BYTES_MAX: u64 = 1 << 20;
