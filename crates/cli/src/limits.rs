//! Bounds on everything that a peer, a file tree or the command line can make this program hold or do. Bounds on frames and names are in
//! [`dfcp_framing::limits`], on file transfers in [`dfcp_files::limits`].

use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_files::limits::CLOSE_WAIT_MAX;

/// Symbolic links followed on the way to a trusted file: the limit of Linux.
pub const PATH_LINKS_MAX: usize = 40;

/// Failure reasons listed one by one at the end; entries with further reasons are only counted.
pub const GROUPS_MAX: usize = 100;

/// Names listed for each of these reasons.
pub const NAMES_SHOWN_MAX: usize = 5;

/// Local addresses that a listener prints, per IP version. Servers may have more than fit on a terminal.
pub const ADDRESSES_SHOWN_MAX: usize = 4;

/// Default limit of concurrent senders of `receive`, and of receivers of `send --listen --keep`.
pub const SENDERS_DEFAULT: usize = 16;

/// Largest ratio of one key's sessions to the free places: a key can hold 12 of [`SENDERS_DEFAULT`].
pub const PLACES_PER_FREE_ONE: usize = 3;

/// Default limit of concurrent clients of `perf server`.
pub const PERF_CLIENTS_DEFAULT: usize = 4;

/// Connections that are not admitted yet. At this number, the address with most of them loses one to a newcomer from another address
/// ([`crate::serving::places`]); otherwise the newcomer is refused as busy.
pub const UNADMITTED_MAX: usize = 64;

/// Time limit for the first bytes of a connection, which a sender writes at once.
pub const OPENING_MAX: Duration = Duration::from_secs(30);

/// Refusals in progress that report "busy"; further connections are dropped silently.
pub const REFUSALS_MAX: usize = 64;

/// Time for a stopped receiver to notify its senders. Each session may wait [`CLOSE_WAIT_MAX`] for pending answers, flushes complete files,
/// and may wait as long again for its close.
pub const GOODBYE_MAX: Duration = CLOSE_WAIT_MAX.saturating_mul(2).saturating_add(Duration::from_secs(4));

/// Interval lines kept for the JSON summary of a measurement.
pub const PERF_INTERVALS_MAX: usize = 24 * 60 * 60;

/// Time beyond the duration for which a source sends without a stop message: the receiver's clock starts at the first byte that arrives.
pub const PERF_OVERTIME_MAX: Duration = Duration::from_secs(10);

/// Range of the duration of `perf local`.
pub const PERF_LOCAL_DURATION: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);

/// Default number of rounds of `perf local`.
pub const PERF_LOCAL_ROUNDS_DEFAULT: u32 = 3;

/// Maximum number of rounds of `perf local`, whose results are kept until the end.
pub const PERF_LOCAL_ROUNDS_MAX: u32 = 100;

/// Time beyond the duration that a measurement of `perf local` may take for start and confirmation: the buffers of both ends, 64 MiB, at 20
/// Mbit/s.
pub const PERF_LOCAL_OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Wait at the end of a measurement for data in flight and the final counts behind them.
pub const PERF_TAIL_MAX: Duration = Duration::from_secs(3);

/// Wait beyond the deadline for the peer's report on the last messages.
pub const MESSAGES_TAIL_MAX: Duration = Duration::from_secs(1);

/// Polling interval until all messages are settled.
pub const MESSAGES_LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Default limit of concurrent pipes of `pipe serve`.
pub const PIPE_CALLERS_DEFAULT: usize = 16;

/// Silence after which a source gives up its claim on the answers. Seconds, because a restarted program sends from another port; at least
/// the interval of RTCP (5 s, RFC 3550 §6.2).
pub const PIPE_SOURCE_SILENCE: Duration = Duration::from_secs(5);

/// Interval of the reception reports between the two ends of a pipe.
pub const PIPE_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of the printed text lines of a pipe.
pub const PIPE_SHOWN_INTERVAL: Duration = Duration::from_secs(10);

/// Longest datagram that a pipe accepts, bytes: the limit of UDP.
pub const PIPE_DATAGRAM_BYTES_MAX: usize = 65_535;

/// Datagrams queued at the end of a pipe: with the byte limit below, two seconds of 26 Mbit/s.
pub const PIPE_HELD_MAX: usize = 16_384;

/// Bytes of the datagrams queued at the end of a pipe.
pub const PIPE_HELD_BYTES_MAX: usize = 8 << 20;

/// Bytes that a measurement's source may always write ahead of the acknowledgements: more than two blocks of the maximum length.
pub const PERF_AHEAD_BYTES_MIN: u64 = 768 << 10;

/// Largest private key file that is read, bytes: one line and room for comments.
pub const KEY_FILE_BYTES_MAX: u64 = 4 << 10;

/// Largest `known_hosts` that is read or written, bytes: about ten thousand hosts.
pub const KNOWN_HOSTS_BYTES_MAX: u64 = 1 << 20;

/// Largest `authorized_keys` that is read, bytes.
pub const AUTHORIZED_KEYS_BYTES_MAX: u64 = 1 << 20;

/// Largest file with a pre-shared key that is read, bytes.
pub const PSK_FILE_BYTES_MAX: u64 = 64 << 10;

/// Longest host name with port, bytes: a DNS name has at most 253.
pub const HOST_NAME_BYTES_MAX: usize = 300;

/// Longest comment written into `known_hosts`, bytes.
pub const COMMENT_BYTES_MAX: usize = 200;

/// Longest text that is parsed as a pairing code, bytes.
pub const PAIRING_TEXT_BYTES_MAX: usize = 100;

/// Wrong guesses after which a pairing code is void. With 6 553 600 codes, an attacker's chance is 1 in 2 million (`spec/pairing.md`
/// \[once-2\]).
pub const PAIRING_GUESSES_MAX: u8 = 3;

/// Wrong guesses over all codes of a listener after which it makes no more. An attacker's chance over the listener's life is 30 in 6 553
/// 600, or 1 in 218 000; a mistyping user has ten times the guesses of one code.
pub const PAIRING_WRONG_MAX: u32 = 30;

/// Lifetime of a pairing code: time to dictate and type it, short enough not to be forgotten.
pub const PAIRING_CODE_AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// Time limit of one pairing run: two round trips on any path (`spec/pairing.md` \[pair-5\]).
pub const PAIRING_RUN_MAX: Duration = Duration::from_secs(30);

/// Longest answer line read from a terminal, bytes.
pub const ANSWER_BYTES_MAX: u64 = 1024;

/// Repetitions of a deferrable question while the answer is neither yes nor no.
pub const ANSWERS_MAX: usize = 3;

/// Time that a deferrable question stays open: a user who is present answers within it.
pub const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Default of `--mtu`, bytes: the MTU of Ethernet.
pub const MTU_DEFAULT_BYTES: u16 = 1500;

/// Minimum of `--mtu`, bytes: the minimum MTU of IPv6 (RFC 8200).
pub const MTU_MIN_BYTES: u16 = 1280;

/// Longest capture block that is read, bytes: four times the maximum snap length of tcpdump.
pub const CAPTURE_BLOCK_BYTES_MAX: usize = 1024 * 1024;

/// Interfaces remembered per section of a capture: `dfcp lab trace --pcap` writes one per flow.
pub const CAPTURE_INTERFACES_MAX: usize = 65_536;

/// Connections whose keys one program logs, and that `decrypt` loads: at 260 bytes each, reconnecting peers can make 4 MB of log. `decrypt`
/// keeps one key per direction of each.
pub const KEY_LOG_CONNECTIONS_MAX: usize = 16_384;

/// Longest key log line that is read, bytes: twice the length of a valid one.
pub const KEY_LOG_LINE_BYTES_MAX: u64 = 512;

/// Key log lines that are read, including comments and lines of other programs.
pub const KEY_LOG_LINES_MAX: u64 = 1 << 20;

/// Connections of a key log with the same connection id, a random 32-bit number. Each costs one decryption attempt per datagram.
pub const KEYS_OF_ID_MAX: usize = 4;

/// Longest captured packet that is split into datagrams, bytes: the limit of UDP segmentation offload.
pub const SUPERPACKET_BYTES_MAX: usize = 65_535;

/// `--qlog` events waiting to be written, a fifth of a second at 1 Gbit/s; further ones are counted and dropped.
pub const QLOG_QUEUE_MAX: usize = 16_384;

/// Connections in a qlog trace: reconnecting peers must not fill the disk.
pub const QLOG_CONNECTIONS_MAX: u64 = 1000;

/// Longest qlog trace, bytes, to within one event: the datagrams of about 8 GB of data.
pub const QLOG_BYTES_MAX: u64 = 1 << 30;

/// Interval at which a trace's buffer is flushed to the system.
pub const QLOG_FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Wait at the end of a command for its trace to be written.
pub const QLOG_FINISH_MAX: Duration = Duration::from_secs(2);

/// Busy periods kept for `estimate --json`; further ones are only counted.
pub const BUSY_PERIODS_KEPT_MAX: usize = 10_000;

/// Concurrent clients of `--metrics`, each with a descriptor and buffers. A further one replaces the oldest.
pub const SCRAPES_MAX: usize = 16;

/// Time limit for one request and its answer.
pub const SCRAPE_TIME_MAX: Duration = Duration::from_secs(5);

/// Longest request head for metrics, bytes: the minimum that hyper supports.
pub const SCRAPE_HEAD_BYTES_MAX: usize = 8192;

/// Age up to which a cached metrics page is served. Rendering the page briefly locks every connection.
pub const METRICS_AGE_MAX: Duration = Duration::from_millis(100);

/// Pause of the metrics server after a failed accept.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Audit log lines about rejected peers within [`STRANGERS_LOGGED_SPAN`]; further ones are counted. At 400 bytes each, strangers can write
/// 35 MB a day.
pub const STRANGERS_LOGGED_MAX: u32 = 60;

/// Share of these lines for peers at one address.
pub const STRANGER_LOGGED_MAX: u32 = 15;

/// Time span of [`STRANGERS_LOGGED_MAX`].
pub const STRANGERS_LOGGED_SPAN: Duration = Duration::from_secs(60);

/// Default of `--retry`: covers a reboot, a tunnel, a change of networks.
pub const RETRY_DEFAULT: Duration = Duration::from_secs(3600);

/// Silence of a session after which the peer is probed by a new call. A live peer sends every
/// [`REPORT_INTERVAL`](dfcp_files::limits::REPORT_INTERVAL); even with 50 % loss and an RTT of 1 s, such a gap is rare.
pub const SESSION_SILENCE_MAX: Duration = Duration::from_secs(2);

/// Additional silence accepted after such a probe was answered: the session itself sends at least once a second on the same path.
pub const SESSION_SILENCE_MORE: Duration = Duration::from_millis(1250);

/// Interval between calls to a lost peer while calls fail at once, during [`CALLS_FREQUENT`].
pub const CALL_INTERVAL: Duration = Duration::from_secs(1);

/// Duration of the frequent calls, before [`CALL_INTERVAL_LATER`] applies.
pub const CALLS_FREQUENT: Duration = Duration::from_secs(60);

/// Interval between later calls to a lost peer: a returned peer is noticed soon, and each of many interrupted transfers sends only a few
/// small datagrams a second.
pub const CALL_INTERVAL_LATER: Duration = Duration::from_secs(2);

/// Concurrent calls to a peer whose name keeps resolving to new addresses.
pub const CALLS_AT_ONCE_MAX: usize = 4;

/// Confirmed entries that a transfer over several sessions remembers, 16 bytes each. Further ones are counted as unchanged when they are
/// offered again.
pub const CONFIRMED_KNOWN_MAX: usize = 1 << 20;

/// Time limit for a DNS lookup, after which a call uses the last known addresses.
pub const LOOKUP_TIME_MAX: Duration = Duration::from_millis(500);

/// Wait of a single-peer server after a session ended, for a peer that has already reconnected.
pub const RETURNS_SOON: Duration = Duration::from_secs(3);

/// Age after which a transfer begun by code can no longer be resumed: an overnight interruption can.
pub const PAIRED_TRANSFER_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Remembered transfers begun by code; a further one replaces the oldest.
pub const PAIRED_TRANSFERS_MAX: usize = 64;

/// Largest list of transfers begun by code, bytes: 64 times 256 names of 33 bytes.
pub const PAIRED_TRANSFERS_BYTES_MAX: u64 = 1 << 20;

/// Remembered paired keys of a listener, so that such a peer with a used code is told that codes work once.
pub const PAIRED_KEYS_MAX: usize = 1024;
