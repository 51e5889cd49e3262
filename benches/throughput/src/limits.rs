//! Sizes and durations that are not set on the command line.

use std::time::Duration;

/// Longest lead-in of a flow before its measurement, until windows, buffers and rates are steady; a quarter of the duration of short
/// measurements.
pub(crate) const LEAD_IN_MAX: Duration = Duration::from_secs(1);

/// Time beyond the planned duration after which a measurement is aborted.
pub(crate) const OVERTIME_MAX: Duration = Duration::from_secs(60);

/// Bytes read from or written to a stream at a time.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Bytes that `tcp` writes at a time: the content of one DFCP datagram.
pub(crate) const SMALL_WRITE_BYTES: usize = 1420;

/// Requested socket buffers of DFCP, quinn and bare UDP, bytes; the kernel may grant less.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Bytes of a datagram of bare UDP: a packet of 1500 bytes over IPv4.
pub(crate) const DATAGRAM_BYTES: usize = 1472;

/// Maximum number of bytes per send call of bare UDP.
pub(crate) const RUN_BYTES_MAX: usize = 65_000;

/// Maximum number of datagrams per send call of bare UDP: the limit of kernels before 6.9.
pub(crate) const RUN_DATAGRAMS_MAX: usize = 64;

/// Interval at which bare UDP, waiting for its socket, checks for the end.
pub(crate) const SOCKET_WAIT: Duration = Duration::from_millis(100);

/// quinn's flow control windows, bytes: too large to limit a flow over a veth pair. Also the limit of unacknowledged
/// bytes per stream, DFCP's default.
pub(crate) const WINDOW_BYTES: u32 = 32 << 20;

/// Unacknowledged bytes of all senders of a process together, so that a thousand of them neither exhaust the memory nor spend the whole
/// measurement filling their buffers.
pub(crate) const SEND_BUFFERS_BYTES_MAX: u32 = 256 << 20;

/// Maximum number of connections accepted by an endpoint, more than any section opens.
pub(crate) const CONNECTIONS_MAX: usize = 16_384;

/// Memory of DFCP's listener for received blocks, bytes: each of a thousand connections reserves 0.8 MB.
pub(crate) const LISTENER_MEMORY_BYTES: u64 = 8 << 30;

/// Concurrent connection attempts when many connections are opened.
pub(crate) const OPENING_MAX: usize = 32;

/// Bytes of one ping-pong message.
pub(crate) const MESSAGE_BYTES: usize = 64;

/// Ping-pong messages before the measured ones.
pub(crate) const WARM_UP_MESSAGES: u64 = 500;

/// Maximum round-trip time of the histogram, ns. The histogram has three digits from 1 ns to this time.
pub(crate) const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Idle time of connections before their memory is measured.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// Longest wait for a lost ping-pong datagram.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);
