//! Every limit which keeps a peer, a path or a caller from making this crate grow without bound, and the sizes which
//! bound its work.

use std::time::Duration;

/// Bytes of received datagrams which may wait for one connection's driver; more are dropped and counted. At 1 Gbit/s
/// this is 32 ms.
pub(crate) const INBOX_BYTES_MAX: usize = 4 << 20;

/// Bytes which may wait over all connections of an endpoint, besides [`INBOX_OWN_BYTES`] of each. No connection gets more
/// of them than it leaves free.
pub(crate) const INBOXES_SHARED_BYTES_MAX: usize = 64 << 20;

/// Bytes which may wait for each connection whatever waits for the others: one run of datagrams.
pub(crate) const INBOX_OWN_BYTES: usize = BUFFER_BYTES;

/// Bytes which this crate keeps for each connection, its task and buffers included, besides what waits.
pub(crate) const CONNECTION_BYTES_MAX: usize = 80 << 10;

/// Bytes which an endpoint takes with no connection.
pub(crate) const ENDPOINT_BYTES_MAX: usize = 4 << 20;

/// What a waiting datagram counts at least, so that many tiny ones cost a peer as much as they cost us.
pub(crate) const INBOX_DATAGRAM_BYTES_MIN: usize = 256;

/// Datagrams which a driver hands to its connection at one go, so that a reader or a writer never waits long for the
/// lock.
pub(crate) const DATAGRAMS_PER_LOCK: usize = 64;

/// Bytes taken from one write, for the same reason.
pub(crate) const WRITE_BYTES_PER_LOCK: usize = 256 << 10;

/// Established connections which wait to be accepted; further ones are reset.
pub(crate) const ACCEPT_BACKLOG_MAX: usize = 1_024;

/// Socket buffers asked for, bytes. The system may grant less.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Bytes of a socket's buffer which one received byte may take: systems count their own headers and what is left empty of
/// pages, too.
pub(crate) const SOCKET_BYTES_PER_BYTE: usize = 2;

/// Bytes of one buffer: a whole run of datagrams, which the kernel has joined (GRO) or will split (GSO).
pub(crate) const BUFFER_BYTES: usize = 1 << 16;

/// Buffers which are kept when nobody needs them, over all endpoints of the process.
pub(crate) const BUFFERS_KEPT_MAX: usize = 16;

/// Buffers which one receive call may fill with runs. More of them would be cold by the time that the last is read. Where
/// the kernel joins little, as after losses, there are as many as a call can fill.
pub(crate) const BUFFERS_PER_RECEIVE_CALL: usize = 8;

/// Bytes received for one connection which are copied if they have to wait; with more, their buffer waits itself.
pub(crate) const COPIED_BYTES_MAX: usize = 1 << 14;

/// Bytes of a buffer's part which takes one packet where the kernel joins none: the longest datagram (1500 bytes) with
/// the longest IP header (60). A longer packet is cut, and dropped.
pub(crate) const PACKET_BYTES_MAX: usize = 1 << 11;

/// Datagrams which a connection on raw IP fills at one go, and sends one by one.
pub(crate) const RAW_DATAGRAMS_PER_TURN: usize = 32;

/// Receive calls after which the endpoint's driver lets other tasks run.
pub(crate) const RECEIVE_CALLS_PER_TURN: usize = 4;

/// Bytes sent with one call at most: a buffer, and behind it must be room for one datagram more.
pub(crate) const TRANSMIT_BYTES_MAX: usize = BUFFER_BYTES - dfcp_proto::DATAGRAM_BUFFER_BYTES;

/// How long a connection whose stream was dropped after `shutdown` waits for the peer to end its half.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(60);

/// How long a full socket is waited for before timers are looked after.
pub(crate) const BLOCKED_MAX: Duration = Duration::from_millis(100);

/// A deadline nearer than this is waited for by yielding: the runtime's timer may take 2 ms, and what a pacer owes
/// after that is less than one batch only if its datagrams are at least this far apart.
pub(crate) const YIELD_BELOW: Duration = Duration::from_micros(50);

/// How long the endpoint pauses after a receive error which is not a peer's doing.
pub(crate) const RECEIVE_ERROR_PAUSE: Duration = Duration::from_millis(10);
