//! Limits that keep peers, paths and callers from making this crate's memory or work grow without bound.
//!
//! Every number that a peer names is clamped to one of these limits before memory is allocated (`spec/protocol.md`
//! \[safe-2\]).

use std::time::Duration;

/// Connections per endpoint, in any state.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Connections per endpoint in SYN_RECV. At this limit a new SYN is dropped and counted.
pub const HALF_OPEN_MAX: usize = 1_024;

/// Largest window of one direction of a modern connection, in blocks (`spec/protocol.md` \[window-4\]).
pub const WINDOW_BLOCKS_MAX: u32 = 16_384;

/// Window bytes per block in the default window: it has one block per 16 KiB, and at least
/// [`WINDOW_BLOCKS_DEFAULT_MIN`] blocks.
pub const MEMORY_BYTES_PER_BLOCK: u64 = 16 << 10;

/// Least default window, in blocks. See [`MEMORY_BYTES_PER_BLOCK`].
pub const WINDOW_BLOCKS_DEFAULT_MIN: u32 = 4_096;

/// Default window of a classic connection, in blocks.
pub const CLASSIC_WINDOW_BLOCKS_DEFAULT: u32 = 128;

/// Largest window of a *classic* connection, in blocks; the documents use up to 1000. Each block costs a sender about
/// 130 KiB. A receiver keeps up to [`CLASSIC_SEGMENTS_PER_BLOCK_MAX`] segments per block with their neighbour graphs:
/// about 5 MB per block if the peer never repeats a generator state. Blocks of honest peers share graphs: about 90 KB
/// per block, and 5 MB in total for the graphs.
pub const CLASSIC_WINDOW_BLOCKS_MAX: u32 = 4_096;

/// Least symbol size that a configuration may have and a peer may offer, bytes.
pub(crate) const SYMBOL_SIZE_MIN: u16 = 64;

/// Largest configurable number of streams of one kind that a peer may have open at the same time.
pub const STREAMS_MAX: u32 = 16_384;

/// Memory of an idle stream, bytes, at most: both halves, and the entries in the session's tables.
pub const STREAM_BYTES_MAX: u64 = 1 << 10;

/// Largest configurable receive memory of a connection, bytes.
pub const RECEIVE_MEMORY_BYTES_MAX: u64 = 4 << 30;

/// Default receive memory and default send buffer, bytes; windows grow up to this size. 64 MiB is about eight times the
/// bandwidth-delay product of 100 Mbit/s and 500 ms, enough for 50 % loss. 1 Gbit/s over 500 ms at 50 % loss takes 500
/// MB.
pub const MEMORY_BYTES_DEFAULT: u64 = 64 << 20;

/// Initial window in bytes at both ends, shared by the streams of a session. Each time that half of it has been decoded
/// or proven, the window grows to four times these bytes (`spec/protocol.md` \[window-6\]). 8 MiB is about the
/// bandwidth-delay product of 100 Mbit/s and 600 ms.
pub const WINDOW_BYTES_START: u64 = 8 << 20;

/// Least charge for a block in modern flow control, bytes: 16 384 blocks of one byte take 2 MB of memory, not 16 KB
/// (`spec/protocol.md` \[window-1\]).
pub const BLOCK_COUNT_BYTES_MIN: u64 = 256;

/// Largest permitted K of a received block, as a multiple of the K that the block's length requires (`spec/protocol.md`
/// \[stream-2\]).
pub const SYMBOLS_PER_LENGTH_FACTOR: usize = 4;

/// Least room for a report, bytes, even if the connection's symbols are smaller (`spec/protocol.md` \[report-5\]).
pub const REPORT_ROOM_BYTES_MIN: usize = 256;

/// Message ids that a receiver remembers, so that no message is delivered twice (`spec/protocol.md` \[message-8\]).
/// Equal to the replay window, because each message takes at least one datagram number. Each id takes 9 bytes of the
/// session's reserve, 5 in plaintext.
pub const MESSAGE_IDS_MAX: usize = 16_384;

/// Memory of a receiver for messages, bytes: incomplete ones, and complete ones that may help to decode others
/// (`spec/protocol.md` \[message-6\]).
pub const MESSAGES_HELD_BYTES_MAX: usize = 4 << 20;

/// Incomplete messages that a receiver keeps: as many small ones as [`MESSAGES_HELD_BYTES_MAX`] has room for. When the
/// table is full, the message whose lifetime ends first is dropped.
pub const MESSAGES_PARTIAL_MAX: usize = 2_048;
/// Groups of messages that a receiver keeps, each with the repair symbols received for it. See
/// [`MESSAGES_PARTIAL_MAX`].
pub const MESSAGE_GROUPS_HELD_MAX: usize = 2_048;

/// Allocation unit for the rows of complete messages, bytes. One page holds a few messages of full length, or some
/// hundreds of short ones, and is freed as a whole.
pub const MESSAGE_PAGE_BYTES: usize = 8_192;

/// Messages received in time that the application has not read. When the queue is full, the oldest message is dropped.
pub const MESSAGES_UNREAD_MAX: usize = 4_096;
/// Bytes of the messages in that queue. See [`MESSAGES_UNREAD_MAX`].
pub const MESSAGES_UNREAD_BYTES_MAX: usize = 4 << 20;

/// Messages written by the application of which no symbol has been sent yet.
pub const MESSAGES_QUEUED_MAX: usize = 4_096;
/// Bytes of the messages in that queue. See [`MESSAGES_QUEUED_MAX`].
pub const MESSAGES_QUEUED_BYTES_MAX: usize = 4 << 20;

/// Classes of messages, by deadline and size, for which a sender keeps coding plans.
pub const MESSAGE_CLASSES_MAX: usize = 16;

/// Messages that a sender codes together.
pub const MESSAGE_GROUP_MAX: usize = 64;

/// Written bytes that a modern connection accepts before they are cut into blocks. With more, the data would leave the
/// processor's caches before they are sent, and blocks would be cut for an outdated loss rate.
pub const UNSENT_BYTES_MAX: u64 = 2 << 20;

/// Like [`UNSENT_BYTES_MAX`], with [`SendBuffering::Shallow`](crate::SendBuffering::Shallow): room for a few write
/// calls, or for two blocks if these are larger.
pub const UNSENT_SHALLOW_BYTES_MAX: u64 = 256 << 10;

/// Least receive memory, bytes: two blocks of the largest size, so that the next needed block always has room.
pub const RECEIVE_MEMORY_BYTES_MIN: u64 = 2 * BLOCK_BYTES_MAX as u64;

/// Largest modern block, bytes: 256 symbols of the largest size that the code takes.
pub const BLOCK_BYTES_MAX: usize = dfcp_fountain::random_linear::K_MAX * dfcp_fountain::random_linear::SYMBOL_SIZE_MAX;

/// Data datagrams per connection whose fate is unknown. At 1 Gbit/s and 1420-byte symbols this is 12 s of sending.
pub const IN_FLIGHT_MAX: usize = 1 << 20;

/// Data datagrams that may always be in flight, however small the receive queue that the peer advertises: a sender
/// slows down, but never stops.
pub const PEER_QUEUE_DATAGRAMS_MIN: usize = 16;

/// Largest least-RTT at which connections with one peer take turns
/// ([`Sending::takes_turns`](crate::Sending::takes_turns)). On such a short path a connection can send its share, and
/// receive the report of it, before the other connections run out of data.
pub const SHORT_PATH_RTT_MAX: Duration = Duration::from_millis(4);

/// Replay window: a late datagram at most this far behind the highest number can be told from a duplicate.
pub const REPLAY_WINDOW_DATAGRAMS: u64 = dfcp_secure::REPLAY_WINDOW_DATAGRAMS;

/// Arrival marks (highest number, count, time) kept to measure the lateness of reordered datagrams; reports carry some
/// of them.
pub const REORDER_MARKS_MAX: usize = 128;

/// Least time for which the least one-way delay is remembered as the delay without a queue. It is remembered for a
/// fifth longer at most.
pub const QUEUE_MEMORY: Duration = Duration::from_secs(20);

/// Parts of [`QUEUE_MEMORY`], each with its own minimum.
pub const QUEUE_MEMORY_PARTS: usize = 6;

/// Arrival marks that a rate controller keeps, enough for two round trips and more.
pub const RATE_MARKS_MAX: usize = 512;

/// Peers whose path an endpoint remembers (`spec/protocol.md` \[auto-12\]). The oldest entry is replaced first.
pub const PATHS_REMEMBERED_MAX: usize = 64;

/// Time for which a path is remembered. See [`PATHS_REMEMBERED_MAX`].
pub const PATH_MEMORY_TIME: Duration = Duration::from_secs(600);

/// Least interval over which bytes proven to be decoded are averaged, for the rate that is remembered of a path.
pub const PROVEN_RATE_INTERVAL: Duration = Duration::from_secs(1);

/// Largest plausible queueing delay. A larger measured value means that the peer's clock was set.
pub const QUEUE_DELAY_MAX: Duration = Duration::from_secs(60);

/// Longest wait for a late datagram before it counts as lost.
pub const REORDER_DELAY_MAX: Duration = Duration::from_millis(250);

/// Encoding symbols of one block that a classic receiver keeps: four times the number needed at ε = 5 %
/// (`spec/protocol.md` \[classic-8\]).
pub const CLASSIC_SEGMENTS_PER_BLOCK_MAX: usize = 192;

/// Range of the classic parameter *Redundancy*, the bytes of a block from which the receiver tries to decode: from one
/// segment to all segments that are kept.
pub const REDUNDANCY_BYTES: (u64, u64) = {
    let segment = dfcp_fountain::raptor::SEGMENT_BYTES as u64;
    (segment, CLASSIC_SEGMENTS_PER_BLOCK_MAX as u64 * segment)
};

/// Neighbour graphs in a classic connection's cache; each takes about 20 KiB.
pub const CLASSIC_GRAPHS_MAX: usize = 1_024;

/// Longest time between two probes of a packet size while data are waiting.
pub const PROBE_SPACING_MAX: Duration = Duration::from_secs(1);

/// Time for which a path may lose all packets of 1280 bytes while smaller ones pass, before the session ends. Applies
/// only to a path that has carried packets of 1280 bytes before.
pub const NARROW_PATIENCE: Duration = Duration::from_secs(10);

/// Encoding symbols per session of which only some parts have arrived (`spec/wire-format.md` §5). A sender sends the
/// parts of a symbol consecutively.
pub const SYMBOLS_IN_PARTS_MAX: usize = 32;

/// Cap on the loss rate that a sender assumes for proactive repair, for the limit of data in flight, and for the credit
/// of the oldest block. Without this cap a lying peer could multiply traffic.
pub const LOSS_BELIEVED_MAX: f64 = 0.75;

/// Cap on the loss rate that a sender assumes for the rounds and the symbol ceiling of a block. A path whose rate falls
/// to a twentieth of the sender's rate loses 95 % until the circuit breaker acts. With a lower cap each block would get
/// too few symbols, and nothing would be delivered until then.
pub const ROUND_LOSS_BELIEVED_MAX: f64 = 0.95;

/// Ceiling on the symbols sent for a block of K source symbols: the expected number of arrivals, in multiples of K.
/// Each symbol sent counts as `1 − min(p̂, ROUND_LOSS_BELIEVED_MAX)` arrivals. Above the ceiling a block gets one
/// symbol per round trip.
pub const SYMBOLS_PER_BLOCK_FACTOR: f64 = 4.0;

/// Rise of the ceiling of [`SYMBOLS_PER_BLOCK_FACTOR`], in symbols, for each of the block's symbols that reports show
/// to have arrived. A block at one symbol per round trip doubles the number in each round trip in which all of them
/// arrive.
pub const SYMBOLS_PER_ARRIVAL: f64 = 2.0;

/// Least interval between two symbols of a block above the ceiling of [`SYMBOLS_PER_BLOCK_FACTOR`]: a peer gains
/// nothing by reporting a tiny round-trip time.
pub const CAPPED_BLOCK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Least time for which a sender may use its full rate without proof of decoding; 8·RTT if that is longer
/// (`spec/protocol.md` \[credit-2\]).
pub const CREDIT_SPAN_MIN: Duration = Duration::from_secs(2);

/// Largest RTT that counts for the 8·RTT of [`CREDIT_SPAN_MIN`]. A peer can delay its reports at will.
pub const CREDIT_RTT_MAX: Duration = Duration::from_millis(600);

/// Least connect timeout. A shorter attempt could not succeed over the Internet.
pub const CONNECT_TIMEOUT_MIN: Duration = Duration::from_millis(10);

/// Cap on the RTT that is estimated from the time between two handshake messages.
pub const RTT_GUESS_MAX: Duration = Duration::from_millis(600);

/// Least time for which proven bytes raise the credit above its fixed part; 16·RTT if that is longer
/// (`spec/protocol.md` \[credit-1\]).
pub const CREDIT_MEMORY_MIN: Duration = Duration::from_secs(10);

/// Parts of the time of [`CREDIT_MEMORY_MIN`], each with a sum of the bytes proven in it.
pub const CREDIT_PARTS: usize = 4;

/// Bytes sent before a peer's first report: the lesser of this value and one second of the rate.
pub const CREDIT_BEFORE_REPORT_BYTES: u64 = 1 << 20;

/// Rate that counts for the credit of a sender at line rate, bit/s. The peer's cap can lower this value, never raise
/// it.
pub const CREDIT_LINE_RATE_BPS: u64 = 1_000_000_000;

/// Rate that counts for the credit of a sender with automatic rate, bit/s. A peer whose reports raise the automatic
/// rate gets no more credit.
pub const CREDIT_AUTO_RATE_BPS: u64 = 100_000_000;

/// Reciprocal of the share of the rate that is sent without credit, at most.
pub const CREDIT_TRICKLE_SHARE: u64 = 64;

/// Period for which the traffic that a lying peer can draw is bounded. Without credit, at least one datagram is sent
/// per period.
pub const CREDIT_PERIOD: Duration = Duration::from_secs(60);

/// Largest number of source symbols in a block.
pub const SYMBOLS_PER_BLOCK_MAX: usize = dfcp_fountain::random_linear::K_MAX;

/// Copies of a handshake segment, or of a FIN, that wait for an answer.
pub const ANSWERS_OWED_MAX: u8 = 8;

/// Own handshake segments whose sending time is remembered, to measure the RTT by the peer's echo.
pub const ECHOES_MAX: usize = 32;

/// Blocks above the newest known one that a report lists as empty, so that blocks lost as a whole are reported too.
pub const EMPTY_TAIL_BLOCKS: u32 = 256;

/// Queued events of a connection: one of each kind. A stream queues one event per write that was cut short.
pub const EVENTS_MAX: usize = 3;

/// Addresses of a peer that wait for validation. A further address replaces the oldest.
pub const PATH_CANDIDATES_MAX: usize = 4;

/// Responses to the peer's path challenges that wait to be sent.
pub const PATH_RESPONSES_MAX: usize = 8;

/// Least interval between path challenges of one connection, over all its unproven addresses.
pub const PATH_CHALLENGE_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// Longest wait between two challenges to one address that does not answer.
pub const PATH_CHALLENGE_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Challenges to one address whose sending times are remembered. They cover the whole time since the first challenge:
/// see [`PATH_CHALLENGE_PARTS`].
pub const PATH_CHALLENGES_MAX: usize = 32;

/// Divisor of the time since the first challenge to an address: the next challenge waits for the quotient. The 32
/// remembered challenges span a factor of e² of that time. A response is therefore matched up to an RTT of six times
/// the time for which challenges had been sent.
pub const PATH_CHALLENGE_PARTS: u32 = 16;

/// Challenges owed to one address. Each datagram from the address adds one.
pub const PATH_CHALLENGES_OWED_MAX: u8 = 8;

/// Silence beyond the probe timeout from which missing reports count as an outage. A receiver that does not know the
/// RTT reports every 10 ms, and at 50 % loss fifteen reports in a row are not lost by chance.
pub const REPORTS_LOST: Duration = Duration::from_millis(150);

/// Datagrams sent to unproven addresses that are remembered until their fate is known: at least one second of them.
pub const ELSEWHERE_MAX: usize = 64;

/// Time for which losses must have been judged before losses are excluded again for the same reason (`spec/protocol.md`
/// \[loss-3\]).
pub const JUDGED_MIN: Duration = Duration::from_secs(1);

/// Least length of an encrypted connection's SYN, bytes. It is longer than any answer, so a SYN with a forged source
/// address does not amplify traffic.
pub const SEALED_SYN_BYTES_MIN: usize = 256;

/// Time for which an initiator continues after an unauthenticated rejection. Any observer of the SYN who is as fast as
/// the path can forge such a rejection. The time must suffice for a genuine answer that is repeated after a loss on a
/// slow path; copies of the SYN are up to 1 s apart.
pub const DOUBT: Duration = Duration::from_secs(3);

/// Answers per second and endpoint to peers of lost sessions (`spec/protocol.md` \[rst-8\]). With
/// [`STATELESS_RESETS_BURST`] there are at most 100 answers in any second. One address gets a share of them
/// ([`ADDRESS_SHARE`]).
pub const STATELESS_RESETS_PER_S: u32 = 80;

/// Largest burst of answers within the limit of [`STATELESS_RESETS_PER_S`].
pub const STATELESS_RESETS_BURST: u32 = 20;

/// Time for which the RST of an ended session is kept for a peer that has missed it (`spec/protocol.md` \[rst-10\]). It
/// is longer than the peer's idle timeout, after which the peer stops asking.
pub const LAST_WORDS_KEPT: Duration = Duration::from_secs(60);

/// Ended sessions whose RST is kept. The oldest RST is replaced first.
pub const LAST_WORDS_MAX: usize = 1_024;

/// Memory of one kept RST, bytes, at most, with its entries in two tables.
pub const LAST_WORDS_PLACE_BYTES: usize = 160;

/// Longest RST that is kept, bytes: header, code and tag.
pub const LAST_WORDS_BYTES_MAX: usize = 64;

/// Least time between two copies of the RST of a session that has ended and is still in memory.
pub const LAST_WORDS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Least silence of a peer before it is asked if it has lost the session; 4·RTT if that is longer.
pub const SESSION_QUERY_AFTER_MIN: Duration = Duration::from_millis(200);

/// Least time between two session queries. A peer that is back is noticed within 1 s.
pub const SESSION_QUERY_INTERVAL: Duration = Duration::from_millis(500);

/// Least time between two session queries after the first [`SESSION_QUERIES_OFTEN`].
pub const SESSION_QUERY_INTERVAL_LATER: Duration = Duration::from_secs(1);

/// Session queries that are sent at the shorter interval: one minute of them.
pub const SESSION_QUERIES_OFTEN: u8 = 120;

/// Age at which a session sends its reset ticket; a shorter session sends no ticket (`spec/protocol.md`
/// \[rst-9\]). Equal to the least silence before a session query.
pub const RESET_TICKET_AFTER: Duration = Duration::from_millis(200);

/// Interval between copies of the reset ticket. A copy is sent only if the peer was heard since the last one and has
/// not acknowledged it.
pub const RESET_TICKET_INTERVAL: Duration = Duration::from_secs(1);

/// Payload of a session query, bytes. The query is longer than its answer.
pub const SESSION_QUERY_PAYLOAD_BYTES: usize = 32;

/// Memory of one half-open encrypted connection, bytes, all indices included.
pub const HALF_OPEN_BYTES_MAX: usize = 640;

/// Time for which a half-open connection is protected from replacement by a newcomer with a proven address when the
/// table is full.
pub const HALF_OPEN_SPARED: Duration = Duration::from_secs(2);

/// Half-open encrypted connections above which further initiators must show a cookie. Initiators with a cookie get as
/// many places again.
pub const HALF_OPEN_WITHOUT_COOKIE_MAX: usize = 256;

/// Failed first messages without a cookie in one [`COOKIE_STEP`]. Above this number initiators must show a cookie until
/// the step ends. Each such message costs one or two multiplications on the curve, so only initiators with a validated
/// address may cause more of them.
pub const FIRST_MESSAGES_FAILED_MAX: u32 = 256;

/// Failed first messages with a cookie that an endpoint computes per second. At 0.11 to 0.21 ms each this is at most a
/// twentieth of a core. One address gets a share of them ([`ADDRESS_SHARE`]).
pub const FIRST_MESSAGES_FAILED_PER_S: u32 = 200;

/// Largest burst of failed first messages within the limit of [`FIRST_MESSAGES_FAILED_PER_S`].
pub const FIRST_MESSAGES_FAILED_BURST: u32 = 32;

/// Refused first messages that are remembered, so that copies cost no computation: as many as can fail in about 5 s, 16
/// bytes each.
pub const REFUSED_MESSAGES_MAX: usize = 1_024;

/// Lifetime of a half-open encrypted connection. An initiator repeats its proof for 30 s (\[open-13\]), and 2 s are
/// added for the path. If the entry expired earlier, an outage of 10 s after the SYN would fail the connection, because
/// only this entry has the keys.
pub const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(32);

/// Time step of cookies. A cookie is valid for one to two steps.
pub const COOKIE_STEP: Duration = Duration::from_secs(15);

/// Wait after a first false proof until the next proof of that half-open connection is checked; doubled after each
/// further one. A check costs three multiplications on the curve.
pub const PROOF_RETRY_MIN: Duration = Duration::from_millis(1);

/// Longest wait between two checks, where the doubling of [`PROOF_RETRY_MIN`] ends.
pub const PROOF_RETRY_MAX: Duration = Duration::from_millis(64);

/// Checks per second and endpoint that may fail again, for half-open connections that have already had a false proof.
/// At 0.2 ms each this is a twentieth of a core. The first proof of each connection is exempt, so false proofs of one
/// peer never block the genuine proof of another.
pub const PROOF_RETRIES_PER_S: u32 = 200;

/// Largest burst of checks within the limit of [`PROOF_RETRIES_PER_S`].
pub const PROOF_RETRIES_BURST: u32 = 32;

/// Reciprocal of the share of one IP address (IPv6: a /64 prefix) in the places of half-open connections, with and
/// without a cookie, in [`PROOF_RETRIES_PER_S`] and in [`FIRST_MESSAGES_FAILED_PER_S`].
pub const ADDRESS_SHARE: usize = 4;

/// Default limit of accepted connections per address (IPv6: per /64 prefix).
pub const CONNECTIONS_PER_ADDRESS_DEFAULT: usize = 256;

/// Default memory for received blocks, bytes, over all connections that an endpoint has accepted.
pub const ENDPOINT_MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// Reciprocal of the share of an endpoint's block memory that is kept free for the reserves of further connections.
pub const RESERVES_MEMORY_SHARE: u64 = 4;

/// Reciprocal of the share of an endpoint's block memory that plaintext connections may reserve before their address is
/// proven.
pub const HALF_OPEN_MEMORY_SHARE: u64 = 4;

/// Memory of an accepted connection, bytes, at most, its entries in the endpoint's tables included; received blocks and
/// written data come on top.
pub const CONNECTION_BYTES_MAX: u64 = 16 << 10;

/// Memory of the table of datagrams in flight, bytes, at most: 24 per datagram, doubled because probes may still be
/// sent when the table is full.
pub const IN_FLIGHT_BYTES_MAX: u64 = 2 * 24 * IN_FLIGHT_MAX as u64;

/// Memory of finished blocks and their decoders that an endpoint keeps for reuse, bytes.
pub const SPARE_BYTES_MAX: usize = 4 << 20;

/// Reciprocal of the share of [`SPARE_BYTES_MAX`] that decoders may take.
pub const SPARE_DECODERS_SHARE: usize = 4;

/// Decoders that an endpoint keeps for reuse.
pub const SPARE_DECODERS_MAX: usize = 256;

/// Repair symbols of a block that a sender computes together and keeps until they are sent.
pub const REPAIRS_TOGETHER_MAX: u32 = 16;

/// Memory of the repair symbols that a sender computes together, bytes.
pub const REPAIRS_BYTES_MAX: u64 = REPAIRS_TOGETHER_MAX as u64 * dfcp_fountain::random_linear::SYMBOL_SIZE_MAX as u64;

/// Overhead of a modern block in the send buffer, bytes, besides its data.
pub const SEND_BYTES_PER_BLOCK_MAX: u64 = 1 << 10;

/// Overhead of a classic block in the send buffer, bytes, short or not, besides the written data.
pub const CLASSIC_SEND_BYTES_PER_BLOCK_MAX: u64 = 66 << 10;

/// Memory of [`CLASSIC_GRAPHS_MAX`] cached graphs, bytes.
pub const CLASSIC_GRAPHS_BYTES_MAX: u64 = (24 << 10) * CLASSIC_GRAPHS_MAX as u64;

/// Finished streams whose end is remembered. A peer that has missed the acknowledgement of such an end gets it again
/// with its proof. For older streams the peer learns only that they are gone.
pub const GONE_STREAMS_MAX: usize = 256;

/// Streams of one kind (scheduled, waiting for a report, stuck, or with unfinished writing) that are visited to
/// estimate a value for all of them. The cost does not grow with the number of streams.
pub(crate) const STREAMS_LOOKED_AT_MAX: usize = 64;

/// Queued answers about streams, at most one per stream. A peer that gets no answer asks again.
pub const STREAM_ANSWERS_MAX: usize = 64;

/// Longest interval between repeats of a stream's end, until the peer acknowledges it.
pub(crate) const STREAM_END_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Streams per second that a peer may open in place of streams that were reset, because such streams cost both ends
/// work and deliver nothing. The place of a stream that was read is free again immediately.
pub const STREAM_RESETS_PER_S: u32 = 250;

/// Largest burst of streams within the limit of [`STREAM_RESETS_PER_S`].
pub const STREAM_RESETS_BURST: u32 = 32;

/// Least time between two reports.
pub(crate) const REPORT_SPACING_MIN: Duration = Duration::from_millis(1);

/// Assumed processing time of a report, without [`REPORT_PER_ITEM`].
pub const REPORT_READING: Duration = Duration::from_micros(2);

/// Assumed processing time of a report for each block that it may name and each stream that waits for it.
pub const REPORT_PER_ITEM: Duration = Duration::from_nanos(30);

/// Reciprocal of the share of time that the processing of a peer's reports may take.
pub const REPORTS_SHARE: u32 = 8;

/// Additional processing time for a burst of reports after a pause: as much as the reports of one second on a busy path
/// need.
pub const REPORTS_AT_ONCE: Duration = Duration::from_millis(25);

/// Least keep-alive interval, whatever idle timeout the peer declares.
pub(crate) const KEEP_ALIVE_MIN: Duration = Duration::from_millis(500);

/// Time after which an unanswered keep-alive is repeated; two round trips if that is longer.
pub(crate) const KEEP_ALIVE_REPEAT: Duration = Duration::from_secs(1);
