//! Every bound on what a peer, a file tree or the command line can make this program hold or do. Those on frames and names
//! are [`dfcp_framing::limits`], those on transfers of files [`dfcp_files::limits`].

use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_files::limits::CLOSE_WAIT_MAX;

/// Symbolic links followed on the way to a file that this user trusts: as many as Linux follows.
pub const PATH_LINKS_MAX: usize = 40;

/// Reasons of failures that are told one by one at the end; entries that failed for others are counted.
pub const GROUPS_MAX: usize = 100;

/// Names that are told with each of these.
pub const NAMES_SHOWN_MAX: usize = 5;

/// Addresses of this machine that a listener shows, of each version of IP. Servers with many have them for many names, and no
/// terminal has room for all.
pub const ADDRESSES_SHOWN_MAX: usize = 4;

/// Senders served at once by `receive` unless told otherwise, and receivers by `send --listen --keep`.
pub const SENDERS_DEFAULT: usize = 16;

/// Largest ratio of the places of one key to the places that it leaves free: of [`SENDERS_DEFAULT`] it has 12.
pub const PLACES_PER_FREE_ONE: usize = 3;

/// Clients served at once by `perf server` unless told otherwise.
pub const PERF_CLIENTS_DEFAULT: usize = 4;

/// Connections which are not admitted yet. At this number, the address which has most of them gives one up for a
/// newcomer from another ([`crate::serving::places`]), or the newcomer is told that the server is busy.
pub const UNADMITTED_MAX: usize = 64;

/// Time that a listener waits for the first bytes of a connection, which a sender writes at once.
pub const OPENING_MAX: Duration = Duration::from_secs(30);

/// Connections being told that the server is busy; those beyond are dropped without a word.
pub const REFUSALS_MAX: usize = 64;

/// Time for a stopped receiver to tell its senders so. Each session may wait [`CLOSE_WAIT_MAX`] for the answers under way, flushes what is
/// whole, and may wait as long again for its close.
pub const GOODBYE_MAX: Duration = CLOSE_WAIT_MAX.saturating_mul(2).saturating_add(Duration::from_secs(4));

/// Interval lines kept for the JSON summary of a measurement.
pub const PERF_INTERVALS_MAX: usize = 24 * 60 * 60;

/// Time beyond the duration for which a measurement's source sends while nobody tells it that the time is up: the receiver's clock starts
/// with the first byte that arrives.
pub const PERF_OVERTIME_MAX: Duration = Duration::from_secs(10);

/// Shortest and longest measurement of `perf local`.
pub const PERF_LOCAL_DURATION: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);

/// Rounds of `perf local` unless told otherwise.
pub const PERF_LOCAL_ROUNDS_DEFAULT: u32 = 3;

/// Most rounds of `perf local`; all their figures are kept until the end.
pub const PERF_LOCAL_ROUNDS_MAX: u32 = 100;

/// Time beyond the duration that a measurement of `perf local` may take, before it starts and until all is confirmed: the buffers of both
/// ends, 64 MiB, at 20 Mbit/s.
pub const PERF_LOCAL_OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Time that a finished measurement waits for data under way, and for the last figures behind it.
pub const PERF_TAIL_MAX: Duration = Duration::from_secs(3);

/// Longest wait for messages at the end, beyond their deadline: for the peer's word on the last ones.
pub const MESSAGES_TAIL_MAX: Duration = Duration::from_secs(1);

/// Interval at which messages are checked until all are settled.
pub const MESSAGES_LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Pipes served at once by `pipe serve` unless told otherwise.
pub const PIPE_CALLERS_DEFAULT: usize = 16;

/// A source which has sent nothing for this long gives its answers up to the next one: seconds, as a program that was started again sends
/// from another port, and no less than the pauses of RTCP (5 s, RFC 3550 §6.2).
pub const PIPE_SOURCE_SILENCE: Duration = Duration::from_secs(5);

/// Interval at which both ends of a pipe tell each other what has arrived.
pub const PIPE_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which that is printed as text.
pub const PIPE_SHOWN_INTERVAL: Duration = Duration::from_secs(10);

/// Longest datagram that a pipe takes in, bytes: the longest of UDP.
pub const PIPE_DATAGRAM_BYTES_MAX: usize = 65_535;

/// Datagrams which wait for their turn at the end of a pipe, and their bytes: two seconds of 26 Mbit/s.
pub const PIPE_HELD_MAX: usize = 16_384;

/// As [`PIPE_HELD_MAX`].
pub const PIPE_HELD_BYTES_MAX: usize = 8 << 20;

/// Bytes that a measurement's source may write ahead of the acknowledgements however slow the path: more than two of the longest blocks.
pub const PERF_AHEAD_BYTES_MIN: u64 = 768 << 10;

/// Largest private key file that is read, bytes: its one line and room for comments.
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

/// Wrong guesses after which a pairing code is void. With 6 553 600 codes, guessing has a chance of 1 in 2 million
/// (`spec/pairing.md` \[once-2\]).
pub const PAIRING_GUESSES_MAX: u8 = 3;

/// Wrong guesses after which a listener makes no more codes, over all codes of its life, whether they were used, expired or
/// became void: guessing for as long as it runs has a chance of 30 in 6 553 600, 1 in 218 000, and people who
/// mistype have ten times what one code allows.
pub const PAIRING_WRONG_MAX: u32 = 30;

/// Lifetime of a pairing code: enough to say it on the telephone and type it, not to forget it.
pub const PAIRING_CODE_AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// Time that one run of the pairing may take: two round trips, on whatever path (`spec/pairing.md` \[pair-5\]).
pub const PAIRING_RUN_MAX: Duration = Duration::from_secs(30);

/// Longest line that is read as an answer from a terminal, bytes.
pub const ANSWER_BYTES_MAX: u64 = 1024;

/// Times that a question about something that can be done later is asked while the answer is neither yes nor no.
pub const ANSWERS_MAX: usize = 3;

/// Time that such a question stays open: the two users are still on the telephone then, or nobody is there.
pub const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Bytes of an IP packet unless `--mtu` says less: what Ethernet carries.
pub const MTU_DEFAULT_BYTES: u16 = 1500;

/// The least that `--mtu` takes, bytes: what every path of IPv6 carries (RFC 8200).
pub const MTU_MIN_BYTES: u16 = 1280;

/// Longest block of a capture that is read, bytes: four of the longest packets that tcpdump keeps.
pub const CAPTURE_BLOCK_BYTES_MAX: usize = 1024 * 1024;

/// Interfaces of a section of a capture which are remembered: `dfcp lab trace --pcap` has one for each flow.
pub const CAPTURE_INTERFACES_MAX: usize = 65_536;

/// Connections whose keys one program writes to a key log, and which `decrypt` remembers: at 260 bytes each, peers that call again and again
/// make 4 MB of it. `decrypt` has one key at hand for each direction of each.
pub const KEY_LOG_CONNECTIONS_MAX: usize = 16_384;

/// Longest line of a key log that is read, bytes: twice what one has.
pub const KEY_LOG_LINE_BYTES_MAX: u64 = 512;

/// Lines of a key log that are read, comments and those of other programs included.
pub const KEY_LOG_LINES_MAX: u64 = 1 << 20;

/// Connections of a key log which have the same connection id: ids are random numbers of 32 bits. Each costs a try for a datagram.
pub const KEYS_OF_ID_MAX: usize = 4;

/// Longest packet that is taken apart into datagrams, bytes: what systems put together at most (UDP segmentation offload).
pub const SUPERPACKET_BYTES_MAX: usize = 65_535;

/// Events of `--qlog` which wait to be written; further ones are counted. A fifth of a second at 1 Gbit/s.
pub const QLOG_QUEUE_MAX: usize = 16_384;

/// Connections of which a trace tells: peers that call again and again fill no disk.
pub const QLOG_CONNECTIONS_MAX: u64 = 1000;

/// Longest trace, bytes, within one event: the datagrams of about 8 GB of data.
pub const QLOG_BYTES_MAX: u64 = 1 << 30;

/// Time that a trace waits for events before its buffer is handed to the system.
pub const QLOG_FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Time that a command waits at its end until its trace is written.
pub const QLOG_FINISH_MAX: Duration = Duration::from_secs(2);

/// Busy periods kept for `estimate --json`; more are counted.
pub const BUSY_PERIODS_KEPT_MAX: usize = 10_000;

/// Clients of `--metrics` at once: each costs a descriptor and its buffers. A further one takes the place of the oldest.
pub const SCRAPES_MAX: usize = 16;

/// Time for its request and its answer.
pub const SCRAPE_TIME_MAX: Duration = Duration::from_secs(5);

/// Longest head of a request for metrics, bytes: the least that hyper takes.
pub const SCRAPE_HEAD_BYTES_MAX: usize = 8192;

/// Age up to which a page of metrics serves every client. Making it locks every connection for a moment.
pub const METRICS_AGE_MAX: Duration = Duration::from_millis(100);

/// Pause of the server of metrics after the system has given it no connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Lines of the audit log about peers that were not let in, within [`STRANGERS_LOGGED_SPAN`]; others are counted. At 400 bytes
/// each, strangers write 35 MB a day.
pub const STRANGERS_LOGGED_MAX: u32 = 60;

/// Of these, lines about peers at one address.
pub const STRANGER_LOGGED_MAX: u32 = 15;

/// As [`STRANGERS_LOGGED_MAX`].
pub const STRANGERS_LOGGED_SPAN: Duration = Duration::from_secs(60);

/// Time for which a side that calls tries to get on after a session was lost, unless `--retry` says otherwise: a reboot, a tunnel, a change of
/// networks.
pub const RETRY_DEFAULT: Duration = Duration::from_secs(3600);

/// Silence of a session after which the peer is called beside it. Peers that are there send something every [`REPORT_INTERVAL`](dfcp_files::limits::REPORT_INTERVAL),
/// and on a path that loses half of it and takes a second it is hardly ever missing for this long.
pub const SESSION_SILENCE_MAX: Duration = Duration::from_secs(2);

/// Further silence that is borne once such a call was answered: what the session sends itself, each second at least, has the same way.
pub const SESSION_SILENCE_MORE: Duration = Duration::from_millis(1250);

/// Calls to a peer of which a session was lost follow each other as soon as this, if they fail at once, ..
pub const CALL_INTERVAL: Duration = Duration::from_secs(1);

/// .. for as long as this ..
pub const CALLS_FREQUENT: Duration = Duration::from_secs(60);

/// .. and then as often as this: a peer that is back is noticed soon, and a network through which many transfers went gets a few small
/// datagrams a second of each.
pub const CALL_INTERVAL_LATER: Duration = Duration::from_secs(2);

/// Calls under way to a peer whose name leads elsewhere again and again.
pub const CALLS_AT_ONCE_MAX: usize = 4;

/// Entries of which a transfer over several sessions remembers that they were confirmed, 16 bytes each. Those beyond are counted as unchanged
/// when they are offered again.
pub const CONFIRMED_KNOWN_MAX: usize = 1 << 20;

/// A call waits so long for the addresses of a name before it goes to those that were known before.
pub const LOOKUP_TIME_MAX: Duration = Duration::from_millis(500);

/// A server of one peer waits so long for that after it has ended its session: one that has connected again has done so before.
pub const RETURNS_SOON: Duration = Duration::from_secs(3);

/// Age at which a transfer that a code has begun may not be gone on with any more: over a night it may.
pub const PAIRED_TRANSFER_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Transfers which codes have begun that are remembered; the oldest goes for a further one.
pub const PAIRED_TRANSFERS_MAX: usize = 64;

/// The file that has them, bytes: 64 times 256 names of 33.
pub const PAIRED_TRANSFERS_BYTES_MAX: u64 = 1 << 20;

/// Keys that have paired with a listener, of which one that comes with a wrong code is told that codes work once.
pub const PAIRED_KEYS_MAX: usize = 1024;
