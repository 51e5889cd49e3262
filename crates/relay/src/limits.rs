//! Limits on the relay's resources.

use std::time::Duration;

/// Maximum number of clients, each with a socket towards the target.
pub(super) const CLIENTS_MAX: usize = 256;

/// Idle time after which a client is removed (RFC 4787 recommends 5 minutes for UDP mappings).
pub(super) const CLIENT_IDLE_MAX: Duration = Duration::from_secs(300);

/// Interval of the search for idle clients.
pub(super) const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes on each direction's link, queued and in flight: enough for 1 Gbit/s over 2 s.
pub(super) const HELD_BYTES_MAX: u64 = 256 << 20;

/// Requested size of socket buffers, bytes; the kernel may grant less (`net.core.rmem_max`, `net.core.wmem_max`).
pub(super) const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Size of the buffer for one received message, bytes: the largest UDP payload, with or without GRO.
pub(super) const RECEIVE_BYTES_MAX: usize = 65_535;

/// Largest payload of one GSO send, bytes: the limit of an IPv4 packet (RFC 768, RFC 791).
pub(super) const SEND_BYTES_MAX: usize = 65_507;

/// Batches read from one socket before the next socket is read.
pub(super) const BATCHES_PER_TURN: usize = 4;

/// Maximum age of a kernel timestamp that is trusted. An older one means that the wall clock was changed.
pub(super) const TIMESTAMP_AGE_MAX: Duration = Duration::from_secs(1);
