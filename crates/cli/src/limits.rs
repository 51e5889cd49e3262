//! Bounds on everything that a peer, a file tree or the command line can make this program hold or do. Bounds on frames and names are in
//! [`dfcp_framing::limits`], on file transfers in [`dfcp_files::limits`].

use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_files::limits::CLOSE_WAIT_MAX;

/// Maximum number of symbolic links followed to a trusted file, as in Linux.
pub const PATH_LINKS_MAX: usize = 40;

/// Failure reasons listed one by one at the end; entries with further reasons are only counted.
pub const GROUPS_MAX: usize = 100;

/// Names listed per failure reason.
pub const NAMES_SHOWN_MAX: usize = 5;

/// Local addresses that a listener prints, per IP version. Servers may have more than fit on a terminal.
pub const ADDRESSES_SHOWN_MAX: usize = 4;

/// Default limit of concurrent senders of `receive`, and of receivers of `send --listen --keep`.
pub const SENDERS_DEFAULT: usize = 16;

/// Maximum ratio of one key's sessions to the free places. With [`SENDERS_DEFAULT`] places, one key can hold 12.
pub const PLACES_PER_FREE_ONE: usize = 3;

/// Default limit of concurrent clients of `perf server`.
pub const PERF_CLIENTS_DEFAULT: usize = 4;

/// Limit on connections that are not admitted yet. At the limit, a newcomer replaces one from the address with most of
/// them ([`crate::serving::places`]), or is refused as busy.
pub const UNADMITTED_MAX: usize = 64;

/// Time limit for the first bytes of a connection; a sender writes them immediately.
pub const OPENING_MAX: Duration = Duration::from_secs(30);

/// Limit on refusal messages in progress; further connections are dropped silently.
pub const REFUSALS_MAX: usize = 64;

/// Time for a stopped receiver to notify its senders. Each session waits up to [`CLOSE_WAIT_MAX`] for pending answers,
/// flushes complete files, and waits up to [`CLOSE_WAIT_MAX`] for the connection to close.
pub const GOODBYE_MAX: Duration = CLOSE_WAIT_MAX.saturating_mul(2).saturating_add(Duration::from_secs(4));

/// Limit on interval results kept for the JSON summary of a measurement: one day of 1 s intervals.
pub const PERF_INTERVALS_MAX: usize = 24 * 60 * 60;

/// Time for which a source without a stop message still sends after the duration. The receiver's clock starts later, at
/// the first byte that arrives.
pub const PERF_OVERTIME_MAX: Duration = Duration::from_secs(10);

/// Range of the duration of `perf local`.
pub const PERF_LOCAL_DURATION: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);

/// Default number of rounds of `perf local`.
pub const PERF_LOCAL_ROUNDS_DEFAULT: u32 = 3;

/// Maximum number of rounds of `perf local`; their results are kept until the end.
pub const PERF_LOCAL_ROUNDS_MAX: u32 = 100;

/// Time that a measurement of `perf local` may take beyond its duration, for start and confirmation. The buffers of
/// both ends, 64 MiB, drain in 27 s at 20 Mbit/s.
pub const PERF_LOCAL_OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Wait at the end of a measurement for data in flight and the final counts that follow the data.
pub const PERF_TAIL_MAX: Duration = Duration::from_secs(3);

/// Wait beyond the deadline for the peer's report on the last messages.
pub const MESSAGES_TAIL_MAX: Duration = Duration::from_secs(1);

/// Polling interval until all messages are settled.
pub const MESSAGES_LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Default limit of concurrent pipes of `pipe serve`.
pub const PIPE_CALLERS_DEFAULT: usize = 16;

/// Silence after which a local source loses its claim on the answers, so that a restarted program with a new port gets
/// them soon. At least the interval of RTCP (5 s, RFC 3550 §6.2).
pub const PIPE_SOURCE_SILENCE: Duration = Duration::from_secs(5);

/// Interval of the reception reports between the two ends of a pipe.
pub const PIPE_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of the printed text lines of a pipe.
pub const PIPE_SHOWN_INTERVAL: Duration = Duration::from_secs(10);

/// Longest datagram that a pipe accepts, bytes: the limit of UDP.
pub const PIPE_DATAGRAM_BYTES_MAX: usize = 65_535;

/// Limit on datagrams queued at the receiving end of a pipe. Together with `PIPE_HELD_BYTES_MAX`, it allows 2 s at 26
/// Mbit/s.
pub const PIPE_HELD_MAX: usize = 16_384;

/// Limit on the bytes of datagrams queued at the receiving end of a pipe.
pub const PIPE_HELD_BYTES_MAX: usize = 8 << 20;

/// Bytes that a measurement's source may always write beyond the acknowledged ones: more than two blocks of the maximum
/// length.
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

/// Wrong guesses over all codes of a listener after which it makes no further codes. An attacker's chance over the
/// listener's life is 30 in 6 553 600, or 1 in 218 000. A mistyping user has ten times the guesses of one code.
pub const PAIRING_WRONG_MAX: u32 = 30;

/// Lifetime of a pairing code: long enough to dictate and type the code, short enough that the code is not forgotten.
pub const PAIRING_CODE_AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// Time limit of one pairing run, enough for two round trips on any path (`spec/pairing.md` \[pair-5\]).
pub const PAIRING_RUN_MAX: Duration = Duration::from_secs(30);

/// Longest answer line read from a terminal, bytes.
pub const ANSWER_BYTES_MAX: u64 = 1024;

/// Times that the user is asked whether to remember a peer, while the answer is neither yes nor no.
pub const ANSWERS_MAX: usize = 3;

/// Time that the question whether to remember a peer stays open: a user who is present answers within it.
pub const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Default of `--mtu`, bytes: the MTU of Ethernet.
pub const MTU_DEFAULT_BYTES: u16 = 1500;

/// Minimum of `--mtu`, bytes: the minimum MTU of IPv6 (RFC 8200).
pub const MTU_MIN_BYTES: u16 = 1280;

/// Longest capture block that is read, bytes: four times the maximum snap length of tcpdump.
pub const CAPTURE_BLOCK_BYTES_MAX: usize = 1024 * 1024;

/// Limit on interfaces remembered per section of a capture: `dfcp lab trace --pcap` writes one per flow.
pub const CAPTURE_INTERFACES_MAX: usize = 65_536;

/// Limit on connections whose keys one program logs and `decrypt` loads. With 260 bytes per connection, reconnecting
/// peers can cause 4 MB of log. `decrypt` keeps one key per connection and direction.
pub const KEY_LOG_CONNECTIONS_MAX: usize = 16_384;

/// Longest key log line that is read, bytes: twice the length of a valid one.
pub const KEY_LOG_LINE_BYTES_MAX: u64 = 512;

/// Limit on key log lines that are read, including comments and lines of other programs.
pub const KEY_LOG_LINES_MAX: u64 = 1 << 20;

/// Limit on connections of a key log with the same connection id, a random 32-bit number. Each of them costs one
/// decryption attempt per datagram.
pub const KEYS_OF_ID_MAX: usize = 4;

/// Longest captured packet that is split into datagrams, bytes: the limit of UDP segmentation offload.
pub const SUPERPACKET_BYTES_MAX: usize = 65_535;

/// Limit on `--qlog` events waiting to be written, 0.2 s of traffic at 1 Gbit/s. Further events are counted and
/// dropped.
pub const QLOG_QUEUE_MAX: usize = 16_384;

/// Limit on connections in a qlog trace, so that reconnecting peers cannot fill the disk.
pub const QLOG_CONNECTIONS_MAX: u64 = 1000;

/// Longest qlog trace, bytes; its last event may exceed the limit. It holds the datagrams of about 8 GB of data.
pub const QLOG_BYTES_MAX: u64 = 1 << 30;

/// Interval at which a trace's buffer is flushed to the system.
pub const QLOG_FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Wait at the end of a command for its trace to be written.
pub const QLOG_FINISH_MAX: Duration = Duration::from_secs(2);

/// Limit on busy periods kept for `estimate --json`; further ones are only counted.
pub const BUSY_PERIODS_KEPT_MAX: usize = 10_000;

/// Limit on concurrent clients of `--metrics`, each with a descriptor and buffers. A further client replaces the
/// oldest.
pub const SCRAPES_MAX: usize = 16;

/// Time limit for one metrics request and its response.
pub const SCRAPE_TIME_MAX: Duration = Duration::from_secs(5);

/// Longest request head for metrics, bytes: the minimum that hyper supports.
pub const SCRAPE_HEAD_BYTES_MAX: usize = 8192;

/// Age up to which a cached metrics page is served. Rendering the page briefly locks every connection.
pub const METRICS_AGE_MAX: Duration = Duration::from_millis(100);

/// Pause of the metrics server after a failed accept.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Limit on audit log lines about rejected peers within [`STRANGERS_LOGGED_SPAN`]; further ones are counted. At 400
/// bytes per line, strangers can cause 35 MB a day.
pub const STRANGERS_LOGGED_MAX: u32 = 60;

/// Limit on audit log lines about rejected peers of one address prefix within [`STRANGERS_LOGGED_SPAN`].
pub const STRANGER_LOGGED_MAX: u32 = 15;

/// Time span of [`STRANGERS_LOGGED_MAX`].
pub const STRANGERS_LOGGED_SPAN: Duration = Duration::from_secs(60);

/// Default of `--retry`: covers a reboot, a tunnel, a change of networks.
pub const RETRY_DEFAULT: Duration = Duration::from_secs(3600);

/// Silence of a session after which a new connection attempt probes the peer. A live peer sends every
/// [`REPORT_INTERVAL`](dfcp_files::limits::REPORT_INTERVAL); even with 50 % loss and an RTT of 1 s, such a gap is rare.
pub const SESSION_SILENCE_MAX: Duration = Duration::from_secs(2);

/// Additional silence accepted after the peer has answered that connection attempt: on a live session, the peer sends
/// at least once a second over the same path.
pub const SESSION_SILENCE_MORE: Duration = Duration::from_millis(1250);

/// Interval between connection attempts to a lost peer if attempts fail immediately, during [`CALLS_FREQUENT`].
pub const CALL_INTERVAL: Duration = Duration::from_secs(1);

/// Duration of frequent connection attempts, before [`CALL_INTERVAL_LATER`] applies.
pub const CALLS_FREQUENT: Duration = Duration::from_secs(60);

/// Interval between later connection attempts to a lost peer. A returned peer is noticed soon, and each of many
/// interrupted transfers sends only a few small datagrams a second.
pub const CALL_INTERVAL_LATER: Duration = Duration::from_secs(2);

/// Limit on concurrent connection attempts to a peer whose name keeps resolving to new addresses.
pub const CALLS_AT_ONCE_MAX: usize = 4;

/// Limit on confirmed entries that a transfer over several sessions remembers, 16 bytes each. Further entries count as
/// unchanged if they are offered again.
pub const CONFIRMED_KNOWN_MAX: usize = 1 << 20;

/// Time limit for a DNS lookup, after which a connection attempt uses the last known addresses.
pub const LOOKUP_TIME_MAX: Duration = Duration::from_millis(500);

/// Time for which a single-peer server waits, after its peer has left, for a session of the same peer on a new
/// connection.
pub const RETURNS_SOON: Duration = Duration::from_secs(3);

/// Age after which a transfer that was paired by code can no longer be resumed. It covers an overnight interruption.
pub const PAIRED_TRANSFER_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Limit on remembered transfers that were paired by code; a further one replaces the oldest.
pub const PAIRED_TRANSFERS_MAX: usize = 64;

/// Largest list of transfers that were paired by code, bytes: 64 times 256 names of 33 bytes.
pub const PAIRED_TRANSFERS_BYTES_MAX: u64 = 1 << 20;

/// Limit on keys that a listener remembers: keys that have paired (a used code is then refused with the hint that codes
/// work once), and keys that the user was asked to remember without an answer.
pub const PAIRED_KEYS_MAX: usize = 1024;
