//! Every bound on what a peer or a file tree can make a transfer hold or do. Those on frames and names are
//! [`dfcp_framing::limits`].

use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_framing::limits::DATA_BYTES_MAX;

/// Chunks of [`DATA_BYTES_MAX`] waiting between a disk thread and the connection, each way: 2 MiB hide a seek.
pub const CHUNKS_WAITING_MAX: usize = 8;

/// Streams beside the first one over which a sender sends files at once, and which a receiver permits. A lost datagram or a long file
/// holds up an eighth of the files. Each stream costs the sender a thread and three chunks, and the receiver a buffer of [`DATA_BYTES_MAX`].
pub const FILE_STREAMS_MAX: u16 = 8;

/// Content that a sender puts on the first stream before the receiver is ready for others, bytes: no round trip is lost, and what
/// follows there waits for little.
pub const FIRST_STREAM_BYTES_MAX: u64 = DATA_BYTES_MAX as u64;

/// As [`FIRST_STREAM_BYTES_MAX`], to a receiver whose key was known before: what it has may have come from this sender. A small file
/// still costs no round trip.
pub const FIRST_STREAM_BYTES_KNOWN_MAX: u64 = 16 * 1024;

/// Files that a sender has opened before a stream is free for them. They keep the streams busy and hold descriptors.
pub const FILES_OPENED_AHEAD_MAX: usize = 16;

/// Time for which a sender holds directories back in order to send several together. Files in them wait at the receiver.
pub const DIRECTORIES_WAIT: Duration = Duration::from_millis(5);

/// Directories of a session which may still get content or have files under way, so that their time is not set yet: at most 16 MiB of
/// names. A sender with more waits until the files in some have come.
pub const OPEN_DIRECTORIES_MAX: usize = 1024;

/// As [`CHUNKS_WAITING_MAX`], for each stream beside the first one of a sender.
pub const STREAM_CHUNKS_WAITING_MAX: usize = 2;

/// Bytes that a receiver reads ahead on each stream beside the first one: several small files with one call.
pub const STREAM_READ_AHEAD_BYTES: usize = 32 * 1024;

/// Entries found in the file tree ahead of being read.
pub const WALK_AHEAD_MAX: usize = 4096;

/// Entries sent and not answered by the receiver yet. Also bounds what a silent receiver makes the sender remember, and the gaps that a
/// receiver remembers in the order of what came.
pub const UNANSWERED_MAX: usize = 65_536;

/// Verdicts waiting to be written to the sender.
pub const VERDICTS_WAITING_MAX: usize = 1024;

/// Failures remembered by name for the closing list; the rest are counted.
pub const FAILURES_KEPT_MAX: usize = 100;

/// Length and alignment of a piece of zeros that is left out of a file that is written, bytes: the blocks of most file
/// systems, none of which makes holes of less than one.
pub const HOLE_BYTES_MIN: usize = 4096;

/// Random names tried for an unfinished file. One is enough, unless somebody fills a directory with all of them.
pub const TEMPORARY_NAMES_TRIED_MAX: usize = 16;

/// Names and numbers of files of one session that are remembered on a file system which takes different names for the same, 8 bytes each: two for
/// a file. Behind that nothing is replaced there.
pub const SPELLINGS_MAX: usize = 1 << 19;

/// Age, since its last change, at which an unfinished file that no receiver holds is removed by the next receiver: its user may want to see
/// it first.
pub const ABANDONED_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Names read in the search for such files when a receiver starts, so that a large tree does not keep it from starting.
pub const ABANDONED_SEARCH_MAX: usize = 100_000;

/// Entries of a session that become durable together. Each flush then pays for many small files; more would hold more
/// descriptors and lose more work of a sender that goes away.
pub const BATCH_ENTRIES_MAX: usize = 256;

/// Content that waits for that, bytes: one file of this length is flushed by itself.
pub const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Time for which complete files wait for the next frame before they are made durable and confirmed. A sender waits for no verdict before
/// its end frame, which ends this waiting at once.
pub const BATCH_WAIT: Duration = Duration::from_millis(50);

/// Time for which complete files wait if frames keep coming, such as those of a large file.
pub const BATCH_AGE_MAX: Duration = Duration::from_millis(500);

/// Descriptors of files and directories which wait to be durable, of all sessions together; and at most a quarter of what the
/// system allows this program, which needs some for its connections and for what is under way.
pub const UNPUBLISHED_DESCRIPTORS_MAX: usize = 512;

/// Directories that a session flushes at a time, each of which takes a second descriptor for it.
pub const DIRECTORIES_FLUSHED_MAX: usize = 32;

/// Files from which on their file system is flushed instead of each: below, what others have written there is not waited for.
pub const FLUSHED_TOGETHER_MIN: usize = 8;

/// Time that flushing a file system may take for each of the files that need it. Beyond, other programs probably write much to it, and each
/// file is flushed by itself. The value is an assumption about disks with a write cache, not a measurement. It decides only how files are
/// flushed, not whether.
pub const FLUSH_WORTH_PER_FILE: Duration = Duration::from_millis(1);

/// Flushes done file by file after one of a file system took longer; twice as many after each further one, up to the most.
pub const FLUSH_PAUSE: RangeInclusive<usize> = 8..=1024;

/// Threads of a session that flush files at the same time where file systems cannot be flushed as a whole.
pub const FLUSHES_AT_ONCE_MAX: usize = 16;

/// Time that a receiver waits for the next frame of a sender which keeps its connection alive but sends none.
pub const SENDER_SILENCE_MAX: Duration = Duration::from_secs(300);

/// Interval at which a sender reports its presence while its source has nothing: several times within [`SENDER_SILENCE_MAX`], whatever is
/// lost on the way.
pub const QUIET_SOURCE_INTERVAL: Duration = Duration::from_secs(30);

/// Time that a sender waits for a receiver, which reports every [`REPORT_INTERVAL`] even while its disk is busy.
pub const RECEIVER_SILENCE_MAX: Duration = Duration::from_secs(60);

/// Interval at which a receiver reports its progress.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Time that either side waits for the other's half of an orderly close, once all is confirmed.
pub const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Parts of a file whose hashes a receiver keeps, and which are compared when it is resumed: 2 MiB of them.
pub const PARTS_MAX: u64 = 65_536;

/// Shortest of these parts, bytes: what differs is sent again as a whole.
pub const SPAN_BYTES_MIN: u64 = 1 << 20;

/// Longest journal of an unfinished file, bytes: the chaining values of all parts, and what is written down in a week.
pub const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// Unfinished files which an output directory keeps to go on with, of all senders together; those beyond are removed when their sessions end.
pub const PARTIALS_MAX: usize = 4096;

/// As [`PARTIALS_MAX`], of one sender.
pub const PARTIALS_PER_SENDER_MAX: usize = 256;

/// Unfinished files that are tried to be given up for another one: those in use stay.
pub const PARTIALS_GIVEN_UP_TRIES_MAX: usize = 8;

/// Interval at which a receiver writes down the progress of unfinished files: with the time that takes, within a second.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(500);

/// Time that a receiver waits for the rest of a frame of data before it stores the part that has come.
pub const PIECE_WAIT: Duration = Duration::from_millis(100);

/// Patterns of `--exclude`. With `--delete` a receiver compares each with what it would delete.
pub const PATTERNS_MAX: usize = 1024;

/// These patterns together, bytes: a receiver holds 32 times as much, and takes at most as many steps for each byte of a name.
pub const PATTERNS_BYTES_MAX: usize = 64 << 10;

/// Names of a listing that a receiver holds before it goes through its directory, bytes, 4 more for each. It goes through it twice for every such
/// piece, and holds none of its own names.
pub const LISTING_BYTES_HELD_MAX: usize = 4 << 20;

/// Deletions after which a receiver says what it has deleted, so that it holds few names.
pub const DELETIONS_TOGETHER_MAX: usize = 256;

/// Directories of a session with `--delete` of which either side knows that they were sent, 8 bytes each. With more nothing is deleted.
pub const DIRECTORIES_KNOWN_MAX: usize = 1 << 20;

/// Attempts of a receiver, and the pauses between them, to lock an unfinished file that another receiver may be reading.
pub const LOCK_TRIES_MAX: usize = 20;

/// As [`LOCK_TRIES_MAX`].
pub const LOCK_TRY_INTERVAL: Duration = Duration::from_millis(5);

/// Age at which a journal without its name is that of a receiver that was killed.
pub const HALF_MADE_AGE: Duration = Duration::from_secs(60);

/// Mean lengths of the chunks into which an older version of a file is cut, bytes: short ones find more, and cost 20 bytes each.
pub const BASIS_CHUNK_BYTES: RangeInclusive<u32> = 16 * 1024..=4 * 1024 * 1024;

/// Chunks of an older version that a receiver names and a sender remembers: 2.6 MB on their way.
pub const BASIS_CHUNKS_MAX: usize = 131_072;

/// Shortest file of which only what has changed is sent, bytes: below, naming its chunks saves next to nothing.
pub const BASIS_BYTES_MIN: u64 = 256 * 1024;

/// Times that one session has a file of the receiver read as a whole for less than its content: an offer with a hash, one that takes a
/// basis, the beginning of an unfinished file. A reading is remembered until the file changes, so one is enough.
pub const READINGS_PER_FILE_MAX: u32 = 4;

/// Files of which a session remembers what it has read; the oldest is forgotten for a further one.
pub const FILES_READ_REMEMBERED_MAX: usize = 65_536;

/// Older versions of a session of which a receiver says at a time of what they consist, each by a thread of its own.
pub const BASES_MAX: usize = 16;

/// Files of a session which are offered and wait for that; of any further ones all is wanted.
pub const BASES_WAITING_MAX: usize = 4096;

/// Links which a receiver follows to see where another one leads; as many as Linux does.
pub const LINK_HOPS_MAX: usize = 40;

/// Components that it looks up for that. A link which takes more is refused.
pub const LINK_STEPS_MAX: usize = 512;

/// Files of a session that have more names: a sender remembers their numbers and names, a receiver 16 bytes for each. Of further ones every name is
/// sent as a file of its own.
pub const HARD_LINKED_FILES_MAX: usize = 65_536;

/// The names of links and their targets that a sender holds until all files are sent, bytes; and as much for files with more names. Links beyond are
/// not sent, and told.
pub const LINK_BYTES_MAX: usize = 64 << 20;

/// Longest piece of an older version that is copied at a time, bytes: the longest chunk. Others of the session wait meanwhile.
pub const COPY_BYTES_MAX: u32 = 4 * *BASIS_CHUNK_BYTES.end();

/// Names of each, by their first parts; what begins behind them needs another code after an interruption.
pub const PAIRED_NAMES_MAX: usize = 256;
