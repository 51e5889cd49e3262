//! Every limit which keeps a peer, a path or a caller from making this crate grow without bound.
//!
//! A peer can never make us allocate by naming a number: whatever it names is clamped here first (`spec/protocol.md`
//! \[safe-2\]).

use std::time::Duration;

/// Connections which one endpoint keeps, in any state.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Connections in SYN_RECV which one endpoint keeps. Past it, a new SYN is dropped and counted.
pub const HALF_OPEN_MAX: usize = 1_024;

/// Blocks which one direction of a modern connection may have open: the span of its window (`spec/protocol.md`
/// \[window-4\]).
pub const WINDOW_BLOCKS_MAX: u32 = 16_384;

/// The window in blocks, unless configured otherwise: one block for this much of a window in bytes …
pub const MEMORY_BYTES_PER_BLOCK: u64 = 16 << 10;

/// … and no less than this.
pub const WINDOW_BLOCKS_DEFAULT_MIN: u32 = 4_096;

/// The window of a classic connection, unless configured otherwise.
pub const CLASSIC_WINDOW_BLOCKS_DEFAULT: u32 = 128;

/// Blocks a *classic* connection may have open. The documents use up to 1000. Each costs a sender about 130 KiB. A
/// receiver keeps up to [`CLASSIC_SEGMENTS_PER_BLOCK_MAX`] segments of it with their neighbour graphs, about 5 MB if the
/// peer never uses a generator state twice. Blocks of honest peers share graphs: then it is about 90 KB, and 5 MB for the
/// graphs of all.
pub const CLASSIC_WINDOW_BLOCKS_MAX: u32 = 4_096;

/// Smallest symbol that a peer may offer and a configuration may have, bytes.
pub(crate) const SYMBOL_SIZE_MIN: u16 = 64;

/// Streams of one kind which a peer may be permitted to have open at once.
pub const STREAMS_MAX: u32 = 16_384;

/// Bytes which an idle stream takes at the most, both halves together, its place in its session's tables included.
pub const STREAM_BYTES_MAX: u64 = 1 << 10;

/// Bytes of receive memory a connection may be configured with.
pub const RECEIVE_MEMORY_BYTES_MAX: u64 = 4 << 30;

/// Receive memory, and send buffer, to which a connection's windows grow unless configured otherwise: eight times 100 Mbit/s over
/// an RTT of 500 ms, which half of all datagrams may be lost on. 1 Gbit/s over 500 ms at 50 % loss takes 500 MB.
pub const MEMORY_BYTES_DEFAULT: u64 = 64 << 20;

/// Bytes that the streams of a session may hold at either end before any of it has been read or proven; from there on windows double
/// (`spec/protocol.md` \[window-6\]). The bandwidth-delay product of 100 Mbit/s over 600 ms.
pub const WINDOW_BYTES_START: u64 = 8 << 20;

/// Least bytes that a block of a modern connection counts as where unread bytes are counted, however short it is: 16 384 blocks of one byte
/// take 2 MB, not 16 KB (`spec/protocol.md` \[window-1\]).
pub const BLOCK_COUNT_BYTES_MIN: u64 = 256;

/// Most symbols of a block, as a multiple of those that its length calls for (`spec/protocol.md` \[stream-2\]).
pub const SYMBOLS_PER_LENGTH_FACTOR: usize = 4;

/// Least room of a report, bytes, however small the connection's symbols are (`spec/protocol.md` \[report-5\]).
pub const REPORT_ROOM_BYTES_MIN: usize = 256;

/// Ids of messages which a session remembers: as many as datagram numbers, of which each message takes one at least. So none is delivered
/// twice (`spec/protocol.md` \[message-8\]). They take 9 bytes each of its reserve, 5 in plaintext.
pub const MESSAGE_IDS_MAX: usize = 16_384;

/// Bytes which a receiver keeps of messages that are not complete, and of complete ones that others may need (`spec/protocol.md`
/// \[message-6\]).
pub const MESSAGES_HELD_BYTES_MAX: usize = 4 << 20;

/// Messages of which too few symbols have come, and groups of messages of which repair symbols have, that a receiver keeps at most: as
/// many as [`MESSAGES_HELD_BYTES_MAX`] has room for if they are small. Those which end first make room.
pub const MESSAGES_PARTIAL_MAX: usize = 2_048;
/// See [`MESSAGES_PARTIAL_MAX`].
pub const MESSAGE_GROUPS_HELD_MAX: usize = 2_048;

/// Bytes of known messages which a receiver keeps and lets go of together: a few messages of full length, or some hundreds of short ones.
pub const MESSAGE_PAGE_BYTES: usize = 8_192;

/// Messages that have come in time and wait for the application, and their bytes; the oldest makes room.
pub const MESSAGES_UNREAD_MAX: usize = 4_096;
/// See [`MESSAGES_UNREAD_MAX`].
pub const MESSAGES_UNREAD_BYTES_MAX: usize = 4 << 20;

/// Messages of which nothing has been sent yet, and their bytes.
pub const MESSAGES_QUEUED_MAX: usize = 4_096;
/// See [`MESSAGES_QUEUED_MAX`].
pub const MESSAGES_QUEUED_BYTES_MAX: usize = 4 << 20;

/// Kinds of messages, by deadline and size, for which a sender keeps plans.
pub const MESSAGE_CLASSES_MAX: usize = 16;

/// Messages which a sender codes together at most.
pub const MESSAGE_GROUP_MAX: usize = 64;

/// Written bytes of a modern connection from which no block has been cut yet: more would be out of the processor's caches
/// before they are sent, and in blocks cut for a loss that is past.
pub const UNSENT_BYTES_MAX: u64 = 2 << 20;

/// The same where the application writes just in time ([`SendBuffering::Shallow`](crate::SendBuffering::Shallow)): a few calls' worth, or
/// two blocks where these take more.
pub const UNSENT_SHALLOW_BYTES_MAX: u64 = 256 << 10;

/// The least receive memory: the two largest blocks, so that the block needed next always has a place.
pub const RECEIVE_MEMORY_BYTES_MIN: u64 = 2 * BLOCK_BYTES_MAX as u64;

/// No modern block is larger: 256 of the largest symbols which the code takes.
pub const BLOCK_BYTES_MAX: usize = dfcp_fountain::random_linear::K_MAX * dfcp_fountain::random_linear::SYMBOL_SIZE_MAX;

/// Data datagrams whose fate is unknown, per connection. At 1 Gbit/s and 1420-byte symbols this is 12 s of sending.
pub const IN_FLIGHT_MAX: usize = 1 << 20;

/// Data datagrams which may be in flight however little a peer says that its system holds: a slow start, and no stop.
pub const PEER_QUEUE_DATAGRAMS_MIN: usize = 16;

/// Over a path whose least RTT is at most this, connections with one peer may take turns
/// ([`Sending::takes_turns`](crate::Sending::takes_turns)): each has sent its part, and heard of it, before others miss theirs.
pub const SHORT_PATH_RTT_MAX: Duration = Duration::from_millis(4);

/// Distance behind the highest datagram number up to which a late datagram is still told from a duplicate.
pub const REPLAY_WINDOW_DATAGRAMS: u64 = dfcp_secure::REPLAY_WINDOW_DATAGRAMS;

/// Marks kept to measure how late reordered datagrams arrive, and of which reports tell some.
pub const REORDER_MARKS_MAX: usize = 128;

/// For how long the least one-way delay is remembered, as that of a path without a queue, at least; at most a fifth longer.
pub const QUEUE_MEMORY: Duration = Duration::from_secs(20);

/// The parts of it that are remembered one by one.
pub const QUEUE_MEMORY_PARTS: usize = 6;

/// Marks of arrivals which the controller of a rate remembers: those of two round trips and more.
pub const RATE_MARKS_MAX: usize = 512;

/// Peers to which an endpoint remembers the paths, and for how long (`spec/protocol.md` \[auto-12\]). The oldest gives way.
pub const PATHS_REMEMBERED_MAX: usize = 64;

/// See [`PATHS_REMEMBERED_MAX`].
pub const PATH_MEMORY_TIME: Duration = Duration::from_secs(600);

/// Time within which the rate was proven that is remembered of a path.
pub const PROVEN_RATE_INTERVAL: Duration = Duration::from_secs(1);

/// A queue that would take longer is no queue: the peer's clock was set.
pub const QUEUE_DELAY_MAX: Duration = Duration::from_secs(60);

/// The longest time for which a late datagram is waited for before it counts as lost.
pub const REORDER_DELAY_MAX: Duration = Duration::from_millis(250);

/// Encoding symbols of one block which classic keeps at most: four times what ε = 5 % needs (`spec/protocol.md`
/// \[classic-8\]).
pub const CLASSIC_SEGMENTS_PER_BLOCK_MAX: usize = 192;

/// The values of *Redundancy*, the threshold in bytes from which classic tries to decode: a segment, and all that is kept.
pub const REDUNDANCY_BYTES: (u64, u64) = {
    let segment = dfcp_fountain::raptor::SEGMENT_BYTES as u64;
    (segment, CLASSIC_SEGMENTS_PER_BLOCK_MAX as u64 * segment)
};

/// Neighbour graphs a classic connection caches; each takes about 20 KiB.
pub const CLASSIC_GRAPHS_MAX: usize = 1_024;

/// The longest time between two probes of a packet size while data wait.
pub const PROBE_SPACING_MAX: Duration = Duration::from_secs(1);

/// A path that has carried packets of 1280 bytes may lose all of them for so long, while smaller ones pass, before that ends the session.
pub const NARROW_PATIENCE: Duration = Duration::from_secs(10);

/// Encoding symbols of which a session keeps parts until the others come (`spec/wire-format.md` §5). A sender sends the parts of
/// a symbol one behind the other.
pub const SYMBOLS_IN_PARTS_MAX: usize = 32;

/// The loss rate which a sender believes at most when it repairs without being asked, when it limits what is in flight,
/// and when it lends what the oldest block may take: beyond it, a lying peer would multiply traffic.
pub const LOSS_BELIEVED_MAX: f64 = 0.75;

/// The loss rate which a sender believes at most for a block's rounds and its ceiling. A path whose rate falls to a
/// twentieth of the sender's loses that much until the circuit breaker acts; a sender that believed less would send each
/// block too little, and nothing would be delivered until then.
pub const ROUND_LOSS_BELIEVED_MAX: f64 = 0.95;

/// Ceiling on the symbols of a block of K: how many may be expected to arrive, in multiples of K. A symbol counts as
/// `1 − min(p̂, ROUND_LOSS_BELIEVED_MAX)` when it is sent. Past the ceiling a block gets one symbol per round trip.
pub const SYMBOLS_PER_BLOCK_FACTOR: f64 = 4.0;

/// By how much that ceiling rises with each of the block's symbols that reports show to have arrived, so that a block which
/// gets one symbol per round trip has twice as many in the next one when these arrive.
pub const SYMBOLS_PER_ARRIVAL: f64 = 2.0;

/// Least interval between two symbols of a block after that: a peer which reports a tiny round-trip time gains nothing.
pub const CAPPED_BLOCK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// For how long a sender may use its rate without proof that anything is decoded: this or eight round trips.
pub const CREDIT_SPAN_MIN: Duration = Duration::from_secs(2);

/// The longest round-trip time which counts there. A peer can delay its reports at will.
pub const CREDIT_RTT_MAX: Duration = Duration::from_millis(600);

/// An attempt to connect that lasts less could not succeed over the Internet.
pub const CONNECT_TIMEOUT_MIN: Duration = Duration::from_millis(10);

/// The longest time between two handshake messages which is taken for a round trip.
pub const RTT_GUESS_MAX: Duration = Duration::from_millis(600);

/// For how long, or for 16 round trips if these are longer, proven bytes raise the credit above its fixed part.
pub const CREDIT_MEMORY_MIN: Duration = Duration::from_secs(10);

/// Parts of this time in which these bytes are remembered.
pub const CREDIT_PARTS: usize = 4;

/// Bytes sent to a peer which has never reported: no more than this, nor than a second of the rate.
pub const CREDIT_BEFORE_REPORT_BYTES: u64 = 1 << 20;

/// The rate that counts at the line rate, which is none. The peer's cap can lower it, never raise it.
pub const CREDIT_LINE_RATE_BPS: u64 = 1_000_000_000;

/// The rate that counts for an automatic rate: a peer whose reports raise that is lent no more.
pub const CREDIT_AUTO_RATE_BPS: u64 = 100_000_000;

/// Without credit, one in this many bytes of the rate is sent at the most.
pub const CREDIT_TRICKLE_SHARE: u64 = 64;

/// The time for which a bound on what a lying peer draws is promised. Without credit at least a datagram is sent in it.
pub const CREDIT_PERIOD: Duration = Duration::from_secs(60);

/// Source symbols of a block.
pub const SYMBOLS_PER_BLOCK_MAX: usize = dfcp_fountain::random_linear::K_MAX;

/// Copies of a handshake segment, or of a FIN, which wait for their answer.
pub const ANSWERS_OWED_MAX: u8 = 8;

/// Own handshake segments whose time of sending is remembered, for the peer's echo.
pub const ECHOES_MAX: usize = 32;

/// Blocks past the newest known one which a report lists as empty, so that blocks lost as a whole are reported too.
pub const EMPTY_TAIL_BLOCKS: u32 = 256;

/// Events of a connection waiting to be polled: one of each kind. Those of a stream: as many as it has had writes that were cut short.
pub const EVENTS_MAX: usize = 3;

/// Addresses of a peer which wait to be proven; a further one takes the place of the oldest.
pub const PATH_CANDIDATES_MAX: usize = 4;

/// Answers to the peer's path challenges which wait to be sent.
pub const PATH_RESPONSES_MAX: usize = 8;

/// Least interval between challenges to unproven addresses, all of a connection's together.
pub const PATH_CHALLENGE_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// The longest wait between two challenges to one address that answers none.
pub const PATH_CHALLENGE_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Challenges to one address whose times of leaving are remembered. They span the whole time that it has been asked: see
/// [`PATH_CHALLENGE_PARTS`].
pub const PATH_CHALLENGES_MAX: usize = 32;

/// The next challenge to an address waits for this part of the time that it has been asked. While e² times as long passes, 32 leave, so an
/// answer that takes six times as long as the asking has lasted still finds its challenge.
pub const PATH_CHALLENGE_PARTS: u32 = 16;

/// Challenges owed to one address, for as many datagrams that came from it.
pub const PATH_CHALLENGES_OWED_MAX: u8 = 8;

/// So much longer than an answer takes, nothing must have been heard before that says something: a receiver which does not know the round
/// trip reports every 10 ms, and at 50 % loss fifteen of its reports in a row are not lost by chance.
pub const REPORTS_LOST: Duration = Duration::from_millis(150);

/// Datagrams to addresses that are not proven which are remembered until their fate is known: as many as leave in a second and more.
pub const ELSEWHERE_MAX: usize = 64;

/// Losses are judged for this long before others are left out for the same reason (`spec/protocol.md` \[loss-3\]).
pub const JUDGED_MIN: Duration = Duration::from_secs(1);

/// The least length of a sealed connection's SYN, bytes: longer than any answer, so that a forged SYN gains nothing by
/// being answered to somebody else.
pub const SEALED_SYN_BYTES_MIN: usize = 256;

/// Time that an initiator goes on after an unauthenticated answer has said that it is in vain. Any observer of the SYN can forge such an
/// answer and needs to be no faster than the path; a genuine one that is repeated after a loss must still come in time over a slow path,
/// and the SYN's copies are up to 1 s apart.
pub const DOUBT: Duration = Duration::from_secs(3);

/// Answers to peers of lost sessions which an endpoint gives per second (`spec/protocol.md` \[rst-8\]). With
/// [`STATELESS_RESETS_BURST`] that is never more than 100 within a second. One address has its share of these ([`ADDRESS_SHARE`]).
pub const STATELESS_RESETS_PER_S: u32 = 80;

/// Most of these at once, when none came before.
pub const STATELESS_RESETS_BURST: u32 = 20;

/// Time for which the RST of a session that has ended here is kept for a peer that has missed it (`spec/protocol.md` \[rst-10\]): longer than
/// such a peer asks, which is its idle timeout.
pub const LAST_WORDS_KEPT: Duration = Duration::from_secs(60);

/// Sessions whose RST is kept at once; the oldest makes room.
pub const LAST_WORDS_MAX: usize = 1_024;

/// Bytes that each of them takes at most, with its places in two tables.
pub const LAST_WORDS_PLACE_BYTES: usize = 160;

/// The longest RST that is kept: header, code and tag.
pub const LAST_WORDS_BYTES_MAX: usize = 64;

/// The least time between two copies of an RST from a session that has ended and is not forgotten yet.
pub const LAST_WORDS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The least time for which a peer must have been silent before it is asked whether it has lost the session; four round trips if
/// that is more.
pub const SESSION_QUERY_AFTER_MIN: Duration = Duration::from_millis(200);

/// The least time between two such questions: a peer that is back is noticed within 1 s.
pub const SESSION_QUERY_INTERVAL: Duration = Duration::from_millis(500);

/// The same after [`SESSION_QUERIES_OFTEN`] of them.
pub const SESSION_QUERY_INTERVAL_LATER: Duration = Duration::from_secs(1);

/// So many are asked at the shorter interval: a minute of them.
pub const SESSION_QUERIES_OFTEN: u8 = 120;

/// A session that is over sooner tells no reset ticket (`spec/protocol.md` \[rst-9\]): it is as long as the least silence before a question.
pub const RESET_TICKET_AFTER: Duration = Duration::from_millis(200);

/// The time after which it is told again, if the peer has been heard and has not acknowledged it.
pub const RESET_TICKET_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of the payload of such a question, so that its datagram is longer than the answer's.
pub const SESSION_QUERY_PAYLOAD_BYTES: usize = 32;

/// Bytes which one half-open sealed connection takes, all indices included.
pub const HALF_OPEN_BYTES_MAX: usize = 640;

/// Time that a half-open connection is spared when newcomers have proven their address and there is no room for them.
pub const HALF_OPEN_SPARED: Duration = Duration::from_secs(2);

/// Half-open sealed connections from which on further initiators must show a cookie; there are as many again for these.
pub const HALF_OPEN_WITHOUT_COOKIE_MAX: usize = 256;

/// First messages without a cookie which were computed on in vain, in one time step of cookies: from then on until its end,
/// initiators must show a cookie. Each costs one multiplication on the curve or two, so that only those which receive at
/// their address may cause more of them.
pub const FIRST_MESSAGES_FAILED_MAX: u32 = 256;

/// First messages with a cookie which an endpoint computes on in vain, per second. With 0.11 to 0.21 ms each, that is at most
/// a twentieth of a core. One address has its share of these ([`ADDRESS_SHARE`]).
pub const FIRST_MESSAGES_FAILED_PER_S: u32 = 200;

/// Most of these at once, when none came before.
pub const FIRST_MESSAGES_FAILED_BURST: u32 = 32;

/// Refused first messages which are remembered, so that copies cost nothing: what may fail in some 5 s, in 16 bytes each.
pub const REFUSED_MESSAGES_MAX: usize = 1_024;

/// Lifetime of a half-open sealed connection. An initiator repeats its proof for 30 s (\[open-13\]); an entry that expires earlier
/// turns an outage of 10 s behind the SYN into a failed connection, because only this entry has the keys. 2 s are for the way.
pub const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(32);

/// The time step of cookies: one holds for one to two of them.
pub const COOKIE_STEP: Duration = Duration::from_secs(15);

/// After a false proof, the next one is checked no earlier than this, doubled each time: each costs three
/// multiplications on the curve.
pub const PROOF_RETRY_MIN: Duration = Duration::from_millis(1);

/// The doubling ends here.
pub const PROOF_RETRY_MAX: Duration = Duration::from_millis(64);

/// Proofs of half-open connections which have had a false one before, over all of them: an endpoint checks this many per
/// second which are false again. With 0.2 ms each that is a twentieth of a core. The first proof of each needs none of
/// these, so that false proofs of one peer do not keep another's genuine one out.
pub const PROOF_RETRIES_PER_S: u32 = 200;

/// Most of these at once, when none came before.
pub const PROOF_RETRIES_BURST: u32 = 32;

/// One IP address (IPv6: a prefix of 64 bits) gets one part in this many of the places of half-open connections, with and without
/// a cookie, of [`PROOF_RETRIES_PER_S`] and of [`FIRST_MESSAGES_FAILED_PER_S`].
pub const ADDRESS_SHARE: usize = 4;

/// Connections which an endpoint accepts from one address (IPv6: a prefix of 64 bits) unless configured otherwise.
pub const CONNECTIONS_PER_ADDRESS_DEFAULT: usize = 256;

/// Bytes which received blocks take over all connections that one endpoint has accepted, unless configured otherwise.
pub const ENDPOINT_MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// The part of that which is kept for the reserves of further connections, however many blocks wait: one part in this many.
pub const RESERVES_MEMORY_SHARE: u64 = 4;

/// The part of that which connections without seals may reserve before they have proven their address: one part in this many.
pub const HALF_OPEN_MEMORY_SHARE: u64 = 4;

/// Bytes which an accepted connection takes at the most besides received blocks and what is written to it, its places
/// in the endpoint's tables included.
pub const CONNECTION_BYTES_MAX: u64 = 16 << 10;

/// Bytes which the table of datagrams in flight takes at the most: 24 for each, and as many again for the probes of a
/// full one.
pub const IN_FLIGHT_BYTES_MAX: u64 = 2 * 24 * IN_FLIGHT_MAX as u64;

/// Bytes of blocks which are done with, and of their decoders, that an endpoint keeps for further ones.
pub const SPARE_BYTES_MAX: usize = 4 << 20;

/// The part of that which decoders may take: one part in this many.
pub const SPARE_DECODERS_SHARE: usize = 4;

/// Decoders among these.
pub const SPARE_DECODERS_MAX: usize = 256;

/// Repair symbols of a block which a sender makes together and keeps until they are sent.
pub const REPAIRS_TOGETHER_MAX: u32 = 16;

/// Bytes which these take at the most.
pub const REPAIRS_BYTES_MAX: u64 = REPAIRS_TOGETHER_MAX as u64 * dfcp_fountain::random_linear::SYMBOL_SIZE_MAX as u64;

/// Bytes which a modern block on its way takes besides its data.
pub const SEND_BYTES_PER_BLOCK_MAX: u64 = 1 << 10;

/// Bytes which a classic block on its way takes, short or not, besides what was written.
pub const CLASSIC_SEND_BYTES_PER_BLOCK_MAX: u64 = 66 << 10;

/// Bytes which [`CLASSIC_GRAPHS_MAX`] cached graphs take.
pub const CLASSIC_GRAPHS_BYTES_MAX: u64 = (24 << 10) * CLASSIC_GRAPHS_MAX as u64;

/// Streams that are gone whose end is remembered, so that a peer which has missed its acknowledgement gets it again with its
/// proof. Of others it is told only that they are gone.
pub const GONE_STREAMS_MAX: usize = 256;

/// Streams of one kind (with a turn, waiting for a report, stuck, not written to their end) which are visited to estimate something of
/// all of them: what that costs does not grow with their number.
pub(crate) const STREAMS_LOOKED_AT_MAX: usize = 64;

/// Answers about streams that wait to be sent, one for each stream. A peer which gets none asks again.
pub const STREAM_ANSWERS_MAX: usize = 64;

/// Longest interval between repeats of a stream's end, until the peer acknowledges it.
pub(crate) const STREAM_END_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Streams which a peer may open anew in a second in place of those which were reset: each costs both ends work and brings nothing.
/// Those which were read give their place back at once.
pub const STREAM_RESETS_PER_S: u32 = 250;

/// Most of these at once, when none came before.
pub const STREAM_RESETS_BURST: u32 = 32;

/// Reports are never closer together than this.
pub(crate) const REPORT_SPACING_MIN: Duration = Duration::from_millis(1);

/// Assumed cost of reading a report …
pub const REPORT_READING: Duration = Duration::from_micros(2);

/// … and each block which it may speak of and each stream that waits for it, besides.
pub const REPORT_PER_ITEM: Duration = Duration::from_nanos(30);

/// One part in this many of the time goes to a peer's reports at the most.
pub const REPORTS_SHARE: u32 = 8;

/// Reports that come together, after a pause, may take this much time besides: those of a second on a busy path.
pub const REPORTS_AT_ONCE: Duration = Duration::from_millis(25);

/// A keep-alive is never sent more often because of what a peer declares.
pub(crate) const KEEP_ALIVE_MIN: Duration = Duration::from_millis(500);

/// Time after which a keep-alive that brought no answer is repeated, or two round trips if that is more.
pub(crate) const KEEP_ALIVE_REPEAT: Duration = Duration::from_secs(1);
