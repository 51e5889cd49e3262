//! Every bound on what the relay holds.

use std::time::Duration;

/// Most client addresses served at once, each with a socket of its own towards the target.
pub(super) const CLIENTS_MAX: usize = 256;

/// A client silent in both directions for this long is forgotten (RFC 4787 recommends 5 minutes for UDP mappings).
pub(super) const CLIENT_IDLE_MAX: Duration = Duration::from_secs(300);

/// Interval of the search for silent clients.
pub(super) const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes on each direction's link, waiting and travelling: 1 Gbit/s for 2 s.
pub(super) const HELD_BYTES_MAX: u64 = 256 << 20;

/// Socket buffers asked for, bytes; the kernel may grant less (`net.core.rmem_max`, `net.core.wmem_max`).
pub(super) const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Largest UDP payload with or without GRO: what one receive buffer must hold.
pub(super) const RECEIVE_BYTES_MAX: usize = 65_535;

/// Largest payload of one segmented send: what fits an IPv4 packet (RFC 768, RFC 791).
pub(super) const SEND_BYTES_MAX: usize = 65_507;

/// Batches taken from one socket before the others have their turn.
pub(super) const BATCHES_PER_TURN: usize = 4;

/// A datagram's kernel timestamp is believed when it is at most this old; older, the wall clock was set.
pub(super) const TIMESTAMP_AGE_MAX: Duration = Duration::from_secs(1);
