//! Limits on the memory and work that a peer, a path or a caller can cause in this crate.

use std::time::Duration;

/// Bytes that this crate keeps for each connection, in addition to the bytes of [`dfcp_proto`].
pub(crate) const CONNECTION_BYTES_MAX: usize = 2 << 10;

/// Bytes of an endpoint without connections.
pub(crate) const ENDPOINT_BYTES_MAX: usize = 4 << 20;

/// Least memory for received blocks, bytes, even if the system has less: the reserves of about forty connections.
pub(crate) const ENDPOINT_MEMORY_BYTES_MIN: u64 = 32 << 20;

/// Datagrams that a connection processes under one lock, so that a reader or a writer never waits long for the lock.
pub(crate) const DATAGRAMS_PER_LOCK: usize = 64;

/// Bytes taken from one write, or returned by one read, under one lock, so that the endpoint's thread never waits long
/// for the lock.
pub(crate) const STREAM_BYTES_PER_LOCK: usize = 64 << 10;

/// Time without an answer after which a connection attempt probes for a closed port. A nearby listener has answered by
/// then, so it is not probed.
pub(crate) const CLOSED_PORT_DELAY: Duration = Duration::from_millis(50);

/// Least time to wait for a handshake answer before an ICMP refusal that quotes the probe is believed.
pub(crate) const CLOSED_PORT_PATIENCE: Duration = Duration::from_millis(300);

/// Time between two probes. Systems answer for a closed port about once a second.
pub(crate) const CLOSED_PORT_INTERVAL: Duration = Duration::from_secs(1);

/// Number of refusals that are believed without a quote of the probe, if they span [`CLOSED_PORT_SPAN`]: an ICMP
/// message is not authenticated.
pub(crate) const CLOSED_PORT_REFUSALS: u32 = 3;

/// Time span of [`CLOSED_PORT_REFUSALS`]. Any listener answers sooner than this.
pub(crate) const CLOSED_PORT_SPAN: Duration = Duration::from_secs(2);

/// Interval at which refusals are read while an answer may arrive.
pub(crate) const CLOSED_PORT_GLANCE: Duration = Duration::from_millis(20);

/// ICMP messages read per [`CLOSED_PORT_GLANCE`]: a flood of them must not keep a thread busy.
pub(crate) const CLOSED_PORT_MESSAGES_MAX: usize = 16;

/// Connection attempts that probe at a time, over all endpoints of the process: each has a thread and a socket.
pub(crate) const CLOSED_PORT_ASKERS_MAX: usize = 8;

/// Established connections that wait to be accepted; further ones are reset.
pub(crate) const ACCEPT_BACKLOG_MAX: usize = 1_024;

/// Requested size of the socket buffers, bytes. The system may grant less.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Bytes of socket buffer that one received byte may take: systems also count their own headers and the empty rest of
/// pages.
pub(crate) const SOCKET_BYTES_PER_BYTE: usize = 2;

/// Size of one buffer, bytes: one run of datagrams that the kernel has joined (GRO) or will split (GSO).
pub(crate) const BUFFER_BYTES: usize = 1 << 16;

/// Unused buffers that are kept, over all endpoints of the process.
pub(crate) const BUFFERS_KEPT_MAX: usize = 16;

/// Buffers that one receive call may fill with runs. With more buffers, the last one would have left the cache before
/// it is read. [`BUFFERS_KEPT_MAX`] are used if the kernel joins few datagrams, as after losses.
pub(crate) const BUFFERS_PER_RECEIVE_CALL: usize = 8;

/// Below this many bytes per buffer and call, the kernel counts as joining few datagrams.
pub(crate) const SCATTERED_BYTES_MAX: usize = 1 << 14;

/// Size of the part of a buffer that holds one packet if the kernel joins none, bytes: room for the longest datagram
/// (1500 bytes) with the longest IP header (60). A longer packet is truncated, and dropped.
pub(crate) const PACKET_BYTES_MAX: usize = 1 << 11;

/// Datagrams that a connection on raw IP encodes under one lock, and sends one by one.
pub(crate) const RAW_DATAGRAMS_PER_TURN: usize = 32;

/// Receive calls before connections are served.
pub(crate) const RECEIVE_CALLS_PER_TURN: usize = 4;

/// Batches sent before the endpoint polls the socket for received datagrams.
pub(crate) const BATCHES_PER_TURN: usize = 4;

/// Most bytes sent with one call: the buffer must have room for one more datagram behind them.
pub(crate) const TRANSMIT_BYTES_MAX: usize = BUFFER_BYTES - dfcp_proto::DATAGRAM_BUFFER_BYTES;

/// Connections to one peer that send at a time. With more of them, their data would leave the processor's caches
/// between turns (`docs/decisions/0017`).
pub(crate) const ACTIVE_CONNECTIONS_MAX: usize = 16;

/// Like [`ACTIVE_CONNECTIONS_MAX`], for an otherwise idle endpoint: with fewer, it would often only wait for reports.
pub(crate) const ACTIVE_CONNECTIONS_MAX_IDLE: usize = 32;

/// Bytes that an application may write in a turn, plus the rest of the last block. A quantum is a few blocks. The
/// quanta of all active connections together are about the size of the peer's socket buffer.
pub(crate) const QUANTUM_BYTES: u64 = 160 << 10;

/// Longest turn, for an application that writes less than its quantum while other connections wait.
pub(crate) const QUANTUM_TIME_MAX: Duration = Duration::from_millis(20);

/// Time that a connection, whose stream was dropped after `shutdown`, waits for the peer to end the other half.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(60);

/// Longest wait for a full socket before timers are served.
pub(crate) const BLOCKED_MAX: Duration = Duration::from_millis(100);

/// Time that an ended endpoint keeps its driver to send the last datagrams. A socket that never has room again must not
/// keep the driver for ever.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause of a connection that has just used up its pacer's allowance. Datagrams that become due in the pause leave in
/// one batch. Other events end the pause.
pub(crate) const SLOT: Duration = Duration::from_micros(250);

/// Shortest time over which the drain rate of a full socket is measured: a shorter one would cover single packets.
pub(crate) const DRAIN_MEASURED_MIN: Duration = Duration::from_millis(2);

/// Time for which a measured drain rate stays valid after the socket was full.
pub(crate) const DRAIN_VALID: Duration = Duration::from_millis(100);

/// Upper bound for [`Config::connect_timeout`](crate::Config::connect_timeout) in the modern profile ([open-10] of
/// `spec/protocol.md`). A shorter idle timeout ends the attempt sooner.
pub(crate) const CONNECT_TIME_MODERN: Duration = Duration::from_secs(30);

/// Upper bound for the connect timeout in the classic profile ([open-20]).
pub(crate) const CONNECT_TIME_CLASSIC: Duration = Duration::from_secs(63);

/// Least time for an attempt at one of several addresses, unless it is more than half of the remaining time.
/// Unauthenticated answers are believed after [`DOUBT`](dfcp_proto::limits::DOUBT), and a wrong key is certain after
/// 2 × `DOUBT`. An attempt that ends earlier counts as unanswered.
pub(crate) const ATTEMPT_TIME_MIN: Duration = Duration::from_secs(7);

/// Longest wait of the endpoint's loop; wake-ups end it earlier.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Least time between two notifications of a path watch: reports may arrive every millisecond.
pub(crate) const PATH_WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// Least time between two log lines about values that can change with every report.
pub(crate) const STORY_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which an endpoint still receives from its old socket after a rebind, because peers send to the old address
/// until they have validated the new one. Three round trips of the longest paths (1 s).
pub(crate) const REBIND_OVERLAP: Duration = Duration::from_secs(3);

/// Pause of the endpoint after a receive error that no peer has caused.
pub(crate) const RECEIVE_ERROR_PAUSE: Duration = Duration::from_millis(10);
