//! Every size and duration which is not asked for on the command line.

use std::time::Duration;

/// Longest lead-in of a flow before it is measured, until windows, buffers and rates are steady. A short
/// measurement has a quarter of its duration.
pub(crate) const LEAD_IN_MAX: Duration = Duration::from_secs(1);

/// Time beyond the plan after which a measurement is given up.
pub(crate) const OVERTIME_MAX: Duration = Duration::from_secs(60);

/// Bytes which a stream is read and written with at a time.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Bytes which `tcp` writes at a time: what one DFCP datagram carries.
pub(crate) const SMALL_WRITE_BYTES: usize = 1420;

/// Socket buffers asked for, bytes, by DFCP, quinn and the blasters alike; the kernel may grant less.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Bytes of one datagram of the blasters: a packet of 1500 bytes over IPv4.
pub(crate) const DATAGRAM_BYTES: usize = 1472;

/// Bytes which one send call of the blasters may carry.
pub(crate) const RUN_BYTES_MAX: usize = 65_000;

/// Datagrams which one send call of the blasters may carry: what kernels before 6.9 take.
pub(crate) const RUN_DATAGRAMS_MAX: usize = 64;

/// Interval at which a blaster that waits for its socket checks if it is to end.
pub(crate) const SOCKET_WAIT: Duration = Duration::from_millis(100);

/// quinn's windows of flow control, bytes: never the limit over a veth pair; and what either stream may keep unacknowledged,
/// which is DFCP's default.
pub(crate) const WINDOW_BYTES: u32 = 32 << 20;

/// Bytes which all senders of a process may keep unacknowledged together, so that a thousand of them neither use up the
/// memory nor spend the whole measurement filling their buffers.
pub(crate) const SEND_BUFFERS_BYTES_MAX: u32 = 256 << 20;

/// Connections which one endpoint takes in, more than any section opens.
pub(crate) const CONNECTIONS_MAX: usize = 16_384;

/// Bytes which DFCP's listener may use for received blocks: each of a thousand connections reserves 0.8 MB of it.
pub(crate) const LISTENER_MEMORY_BYTES: u64 = 8 << 30;

/// Connections which are being opened at the same time when many are wanted.
pub(crate) const OPENING_MAX: usize = 32;

/// Bytes of one ping-pong message.
pub(crate) const MESSAGE_BYTES: usize = 64;

/// Ping-pong messages which are not measured.
pub(crate) const WARM_UP_MESSAGES: u64 = 500;

/// Round trips from 1 ns to 60 s are told apart to three digits.
pub(crate) const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Rest of idle connections before their memory is measured.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// Longest wait for a lost ping-pong datagram.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);
