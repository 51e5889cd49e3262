//! Bounds on the memory, files and work that a peer or a file tree can demand of a transfer. Bounds on frames and names
//! are in [`dfcp_framing::limits`].

use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_framing::limits::DATA_BYTES_MAX;

/// Chunks of [`DATA_BYTES_MAX`] queued between a disk thread and the connection, per direction. The resulting 2 MiB
/// bridge a disk seek.
pub const CHUNKS_WAITING_MAX: usize = 8;

/// Additional streams on which a sender sends files in parallel and which a receiver permits. With 8 streams, a lost
/// datagram or a long file delays an eighth of the files. Each stream costs the sender a thread and three chunks, and
/// the receiver a buffer of [`DATA_BYTES_MAX`].
pub const FILE_STREAMS_MAX: u16 = 8;

/// Bytes of content that a sender puts on the first stream before the receiver has permitted additional streams. Doing
/// so saves a round trip and hardly delays later frames.
pub const FIRST_STREAM_BYTES_MAX: u64 = DATA_BYTES_MAX as u64;

/// Like [`FIRST_STREAM_BYTES_MAX`], for a receiver whose key was known before the connection: it may already have these
/// files. Small files still need no extra round trip.
pub const FIRST_STREAM_BYTES_KNOWN_MAX: u64 = 16 * 1024;

/// Files that a sender opens before a stream is free for them. They keep the streams busy, but hold descriptors.
pub const FILES_OPENED_AHEAD_MAX: usize = 16;

/// Time for which a sender delays directory entries in order to send several together. Their files wait at the receiver
/// meanwhile.
pub const DIRECTORIES_WAIT: Duration = Duration::from_millis(5);

/// Directories of a session whose time is not set yet because content may follow or files are in progress: at most 16
/// MiB of names. At the limit, the sender waits until some directories are complete.
pub const OPEN_DIRECTORIES_MAX: usize = 1024;

/// Chunks queued for each additional stream of a sender; compare [`CHUNKS_WAITING_MAX`].
pub const STREAM_CHUNKS_WAITING_MAX: usize = 2;

/// Read-ahead of a receiver on each additional stream, bytes. One read call then delivers several small files.
pub const STREAM_READ_AHEAD_BYTES: usize = 32 * 1024;

/// Entries queued between the walk of the file tree and the reading of their content.
pub const WALK_AHEAD_MAX: usize = 4096;

/// Entries without a verdict from the receiver yet. The limit also bounds a sender's memory with a silent receiver, and
/// the gaps that a receiver tracks.
pub const UNANSWERED_MAX: usize = 65_536;

/// Verdicts waiting to be written to the sender.
pub const VERDICTS_WAITING_MAX: usize = 1024;

/// Failures whose names are kept for the closing list; further failures are only counted.
pub const FAILURES_KEPT_MAX: usize = 100;

/// Length and alignment of blocks of zeros that are stored as holes, bytes. Most file systems have this block size and
/// store no shorter holes.
pub const HOLE_BYTES_MIN: usize = 4096;

/// Random names tried for a partial file. One suffices unless an attacker creates many files with such names.
pub const TEMPORARY_NAMES_TRIED_MAX: usize = 16;

/// Name hashes that a session remembers on a file system that folds names (by case, for example), 8 bytes each, two per
/// file. Beyond the limit, no existing file is replaced on that file system.
pub const SPELLINGS_MAX: usize = 1 << 19;

/// Time since the last change after which the next receiver removes a partial file that no receiver has locked. Until
/// then, the user may want to look at the file.
pub const ABANDONED_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Names examined for abandoned files when a receiver starts. The limit keeps a large tree from delaying the start.
pub const ABANDONED_SEARCH_MAX: usize = 100_000;

/// Entries of a session that are flushed together. A larger batch amortises a flush over more small files, but holds
/// more descriptors and loses more work if the sender disappears.
pub const BATCH_ENTRIES_MAX: usize = 256;

/// Bytes of content in a batch. A file of this length or longer is flushed alone.
pub const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Time for which complete files wait for the next frame before they are flushed and confirmed. A sender needs no
/// verdict before its end frame, which ends the wait immediately.
pub const BATCH_WAIT: Duration = Duration::from_millis(50);

/// Longest time for which complete files wait while frames keep arriving, for example those of a large file.
pub const BATCH_AGE_MAX: Duration = Duration::from_millis(500);

/// Descriptors of files and directories that wait for a flush, over all sessions. A quarter of the process's descriptor
/// limit applies as well, since connections and files in progress need descriptors too.
pub const UNPUBLISHED_DESCRIPTORS_MAX: usize = 512;

/// Directories that a session flushes in one step; each takes a second descriptor during the flush.
pub const DIRECTORIES_FLUSHED_MAX: usize = 32;

/// Number of waiting files from which the whole file system is flushed instead of each file. With fewer files, waiting
/// for the writes of other programs would cost more.
pub const FLUSHED_TOGETHER_MIN: usize = 8;

/// Time per file that flushing the whole file system may take. A longer flush probably means that other programs write
/// much, and files are then flushed one by one. The value is an assumption about disks with a write cache, not a
/// measurement. It affects only the method of flushing.
pub const FLUSH_WORTH_PER_FILE: Duration = Duration::from_millis(1);

/// Number of flushes that are done file by file after a slow flush of the whole file system. The number doubles after
/// each further slow flush, up to the end of this range.
pub const FLUSH_PAUSE: RangeInclusive<usize> = 8..=1024;

/// Threads of a session that flush files in parallel if the file system cannot be flushed as a whole.
pub const FLUSHES_AT_ONCE_MAX: usize = 16;

/// Time that a receiver waits for the next frame of a sender while the connection is alive.
pub const SENDER_SILENCE_MAX: Duration = Duration::from_secs(300);

/// Interval at which a sender sends presence frames while its source delivers no data. Several fit into
/// [`SENDER_SILENCE_MAX`], so single losses do no harm.
pub const QUIET_SOURCE_INTERVAL: Duration = Duration::from_secs(30);

/// Time that a sender waits for the next frame of a receiver. Receivers report every [`REPORT_INTERVAL`] even while
/// their disk is busy.
pub const RECEIVER_SILENCE_MAX: Duration = Duration::from_secs(60);

/// Interval at which a receiver reports its progress.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Time that either side waits for the peer to complete an orderly close, after everything is confirmed.
pub const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Parts of a file whose hashes a receiver stores and compares on resumption. Their hashes take 2 MiB.
pub const PARTS_MAX: u64 = 65_536;

/// Minimum size of the largest parts, bytes. A part that differs is sent again as a whole.
pub const SPAN_BYTES_MIN: u64 = 1 << 20;

/// Longest journal of a partial file, bytes: enough for the chaining values of all parts and a week of progress
/// records.
pub const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// Partial files that an output directory keeps for resumption, over all senders. Further partial files are removed at
/// the end of their sessions.
pub const PARTIALS_MAX: usize = 4096;

/// Partial files kept per sender; compare [`PARTIALS_MAX`].
pub const PARTIALS_PER_SENDER_MAX: usize = 256;

/// Attempts to remove a partial file in favour of a new one. An attempt fails if the chosen file is in use.
pub const PARTIALS_GIVEN_UP_TRIES_MAX: usize = 8;

/// Interval at which a receiver journals the progress of partial files. Including the write itself, at most about one
/// second of progress is lost.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(500);

/// Time that a receiver waits for the rest of a data frame before it stores the part that has arrived.
pub const PIECE_WAIT: Duration = Duration::from_millis(100);

/// Patterns given by `--exclude`. With `--delete`, a receiver compares each with every name that it would delete.
pub const PATTERNS_MAX: usize = 1024;

/// Total length of all `--exclude` patterns, bytes. A receiver uses 32 times as much memory, and at most as many steps
/// per byte of a name.
pub const PATTERNS_BYTES_MAX: usize = 64 << 10;

/// Names of a listing that a receiver holds before it deletes unlisted entries, bytes, plus 4 bytes per name. Each such
/// piece of a listing costs two passes over the directory; the names found in the directory are not held.
pub const LISTING_BYTES_HELD_MAX: usize = 4 << 20;

/// Deletions per report of a receiver. The limit bounds the names held for a report.
pub const DELETIONS_TOGETHER_MAX: usize = 256;

/// Directories of a session with `--delete` that either side remembers as sent, 8 bytes each. Beyond the limit, nothing
/// is deleted.
pub const DIRECTORIES_KNOWN_MAX: usize = 1 << 20;

/// Attempts of a receiver to lock a partial file that another receiver may be reading.
pub const LOCK_TRIES_MAX: usize = 20;

/// Pause between attempts to lock a partial file.
pub const LOCK_TRY_INTERVAL: Duration = Duration::from_millis(5);

/// Age from which a journal without its final name counts as the remains of a killed receiver.
pub const HALF_MADE_AGE: Duration = Duration::from_secs(60);

/// Mean chunk length of an older version of a file, bytes. Shorter chunks find more matches, but each chunk costs 20
/// bytes on the wire.
pub const BASIS_CHUNK_BYTES: RangeInclusive<u32> = 16 * 1024..=4 * 1024 * 1024;

/// Chunks of an older version that a receiver describes and a sender remembers: 2.6 MB on the wire.
pub const BASIS_CHUNKS_MAX: usize = 131_072;

/// Shortest file that is sent as a delta, bytes. For shorter files, the description of the chunks costs about as much
/// as the delta saves.
pub const BASIS_BYTES_MIN: u64 = 256 * 1024;

/// Full reads of one of the receiver's files per session that a sender can cause with little data: by an offer with a
/// hash, an offer for a delta, or a resumption. The result is cached until the file changes, so one read usually
/// suffices.
pub const READINGS_PER_FILE_MAX: u32 = 4;

/// Files whose hashes a session caches; each further file evicts the oldest one.
pub const FILES_READ_REMEMBERED_MAX: usize = 65_536;

/// Older versions of files that a receiver chunks in parallel per session, each on its own thread.
pub const BASES_MAX: usize = 16;

/// Offered files of a session that wait for chunking of their older version. Further files are requested in full.
pub const BASES_WAITING_MAX: usize = 4096;

/// Links followed to resolve the target of another link; Linux has the same limit.
pub const LINK_HOPS_MAX: usize = 40;

/// Path components looked up to resolve the target of a link. A link that needs more is refused.
pub const LINK_STEPS_MAX: usize = 512;

/// Files with several hard links that a session tracks. The sender remembers their inode numbers and names, the
/// receiver 16 bytes each. Each name of a further such file is sent as a separate file.
pub const HARD_LINKED_FILES_MAX: usize = 65_536;

/// Bytes of symbolic-link names and targets that a sender holds until all files are sent. The same limit applies
/// separately to files with hard links. Links beyond the limit are skipped and reported.
pub const LINK_BYTES_MAX: usize = 64 << 20;

/// Longest single copy from an older version, bytes: the length of the longest chunk. Other files of the session wait
/// during a copy.
pub const COPY_BYTES_MAX: u32 = 4 * *BASIS_CHUNK_BYTES.end();

/// First name components recorded per pairing. After an interruption, files with further first components need a new
/// pairing code.
pub const PAIRED_NAMES_MAX: usize = 256;
