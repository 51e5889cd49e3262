//! Every limit which keeps a peer, a path or a caller from making this crate grow without bound, and the sizes which
//! bound its work.

use std::time::Duration;

/// Bytes which this crate keeps for each connection, besides [`dfcp_proto`]'s.
pub(crate) const CONNECTION_BYTES_MAX: usize = 2 << 10;

/// Bytes which an endpoint takes with no connection.
pub(crate) const ENDPOINT_BYTES_MAX: usize = 4 << 20;

/// Received blocks may take as much at least, however little memory there is: the reserves of some forty connections.
pub(crate) const ENDPOINT_MEMORY_BYTES_MIN: u64 = 32 << 20;

/// Datagrams which a connection takes in at one go, so that a reader or a writer never waits long for the lock.
pub(crate) const DATAGRAMS_PER_LOCK: usize = 64;

/// Bytes taken from one write, or given to one read, so that the endpoint's thread never waits long for the lock.
pub(crate) const STREAM_BYTES_PER_LOCK: usize = 64 << 10;

/// Time without an answer after which an attempt to connect asks whether anything listens there. A near listener has answered by then, and is
/// not asked.
pub(crate) const CLOSED_PORT_DELAY: Duration = Duration::from_millis(50);

/// Least time for an answer to the handshake before a refusal that repeats the question is believed.
pub(crate) const CLOSED_PORT_PATIENCE: Duration = Duration::from_millis(300);

/// The time between two questions. Systems answer a closed port about once a second.
pub(crate) const CLOSED_PORT_INTERVAL: Duration = Duration::from_secs(1);

/// Refusals that are believed although they do not repeat the question, if they span [`CLOSED_PORT_SPAN`]: an ICMP message has no author.
pub(crate) const CLOSED_PORT_REFUSALS: u32 = 3;

/// See [`CLOSED_PORT_REFUSALS`]. No listener needs longer to be heard first.
pub(crate) const CLOSED_PORT_SPAN: Duration = Duration::from_secs(2);

/// Interval at which refusals are read while an answer may come.
pub(crate) const CLOSED_PORT_GLANCE: Duration = Duration::from_millis(20);

/// Messages taken in at each look: a flood of them must not keep a thread busy.
pub(crate) const CLOSED_PORT_MESSAGES_MAX: usize = 16;

/// Attempts to connect that ask at a time, over all endpoints of the process: each has a thread and a socket.
pub(crate) const CLOSED_PORT_ASKERS_MAX: usize = 8;

/// Established connections which wait to be accepted; further ones are reset.
pub(crate) const ACCEPT_BACKLOG_MAX: usize = 1_024;

/// Socket buffers asked for, bytes. The system may grant less.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Bytes of a socket's buffer which one received byte may take: systems count their own headers and what is left empty of
/// pages, too.
pub(crate) const SOCKET_BYTES_PER_BYTE: usize = 2;

/// Bytes of one buffer: a whole run of datagrams, which the kernel has joined (GRO) or will split (GSO).
pub(crate) const BUFFER_BYTES: usize = 1 << 16;

/// Buffers which are kept while unused, over all endpoints of the process.
pub(crate) const BUFFERS_KEPT_MAX: usize = 16;

/// Buffers which one receive call may fill with runs. More of them would be cold by the time that the last is read. If
/// the kernel joins little, as after losses, there are [`BUFFERS_KEPT_MAX`].
pub(crate) const BUFFERS_PER_RECEIVE_CALL: usize = 8;

/// Bytes per buffer of a call below which the kernel joins little.
pub(crate) const SCATTERED_BYTES_MAX: usize = 1 << 14;

/// Bytes of a buffer's part which takes one packet where the kernel joins none: the longest datagram (1500 bytes) with
/// the longest IP header (60). A longer packet is cut, and dropped.
pub(crate) const PACKET_BYTES_MAX: usize = 1 << 11;

/// Datagrams which a connection on raw IP fills at one go, and sends one by one.
pub(crate) const RAW_DATAGRAMS_PER_TURN: usize = 32;

/// Receive calls after which connections are served.
pub(crate) const RECEIVE_CALLS_PER_TURN: usize = 4;

/// Batches which are sent before the endpoint looks whether something has arrived.
pub(crate) const BATCHES_PER_TURN: usize = 4;

/// Bytes sent with one call at most: a buffer, and behind it must be room for one datagram more.
pub(crate) const TRANSMIT_BYTES_MAX: usize = BUFFER_BYTES - dfcp_proto::DATAGRAM_BUFFER_BYTES;

/// Scheduled connections with one peer which send at a time. With more, their data leaves the processor's caches between turns
/// (`docs/decisions/0017`).
pub(crate) const ACTIVE_CONNECTIONS_MAX: usize = 16;

/// The same when the endpoint has nothing else to do: fewer would leave it waiting for reports.
pub(crate) const ACTIVE_CONNECTIONS_MAX_IDLE: usize = 32;

/// Bytes that an application may write in a turn; it may also complete the last block. A quantum is a few blocks. The quanta of
/// all active connections are about as much as the peer's socket buffer holds.
pub(crate) const QUANTUM_BYTES: u64 = 160 << 10;

/// Longest turn, if the application writes less than its quantum while others wait.
pub(crate) const QUANTUM_TIME_MAX: Duration = Duration::from_millis(20);

/// Time that a connection whose stream was dropped after `shutdown` waits for the peer to end its half.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(60);

/// Time that a full socket is waited for before timers are served.
pub(crate) const BLOCKED_MAX: Duration = Duration::from_millis(100);

/// Time that an endpoint which is over keeps its driver to send the last datagrams. A socket which never has room again must not hold it
/// for ever.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection which has just sent all that its pacer allowed is not served again before this much later, unless
/// something happens to it: what may leave meanwhile leaves together.
pub(crate) const SLOT: Duration = Duration::from_micros(250);

/// Shortest time over which the drain of a full socket is measured: less would be single packets.
pub(crate) const DRAIN_MEASURED_MIN: Duration = Duration::from_millis(2);

/// Time for which the measurement of a full socket holds after it was full.
pub(crate) const DRAIN_VALID: Duration = Duration::from_millis(100);

/// Longest attempt to connect, whatever [`Config::connect_timeout`](crate::Config::connect_timeout) says: modern ([open-10] of
/// `spec/protocol.md`; the idle timeout, if shorter, ends it sooner), ...
pub(crate) const CONNECT_TIME_MODERN: Duration = Duration::from_secs(30);

/// ... and classic ([open-20]).
pub(crate) const CONNECT_TIME_CLASSIC: Duration = Duration::from_secs(63);

/// Each of several addresses is given at least this if it is at most half of what is left: answers which are not authenticated are
/// believed after [`DOUBT`](dfcp_proto::limits::DOUBT), and a wrong key is certain after two of them. An attempt that ends before
/// takes it for silence.
pub(crate) const ATTEMPT_TIME_MIN: Duration = Duration::from_secs(7);

/// Longest wait of the endpoint; wake-ups end it earlier.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Watches of a path are told of changes no more often than this: reports may come every millisecond.
pub(crate) const PATH_WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// Shortest time between log lines about values that can change with every report.
pub(crate) const STORY_INTERVAL: Duration = Duration::from_secs(1);

/// For so long an endpoint receives from the socket before, when another has taken its place: what peers send before they have heard of the
/// new address, and validated it. Three round trips of the longest paths (1 s).
pub(crate) const REBIND_OVERLAP: Duration = Duration::from_secs(3);

/// Pause of the endpoint after a receive error which is not a peer's doing.
pub(crate) const RECEIVE_ERROR_PAUSE: Duration = Duration::from_millis(10);
