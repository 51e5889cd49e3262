//! Bounds on everything that a peer or a file tree can make a transfer hold or do. Bounds on frames and names are in
//! [`dfcp_framing::limits`].

use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_framing::limits::DATA_BYTES_MAX;

/// Chunks of [`DATA_BYTES_MAX`] queued between a disk thread and the connection, each way: 2 MiB hide a seek.
pub const CHUNKS_WAITING_MAX: usize = 8;

/// Additional streams over which a sender sends files in parallel, and which a receiver permits. A lost datagram or a long file delays an
/// eighth of the files. Each stream costs the sender a thread and three chunks, and the receiver a buffer of [`DATA_BYTES_MAX`].
pub const FILE_STREAMS_MAX: u16 = 8;

/// Bytes of content that a sender puts on the first stream before the receiver permits others: this saves a round trip, and delays later
/// frames little.
pub const FIRST_STREAM_BYTES_MAX: u64 = DATA_BYTES_MAX as u64;

/// The same limit for a receiver whose key was known before: its files may have come from this sender. A small file still costs no round
/// trip.
pub const FIRST_STREAM_BYTES_KNOWN_MAX: u64 = 16 * 1024;

/// Files that a sender opens before a stream is free for them; they keep the streams busy, and hold descriptors.
pub const FILES_OPENED_AHEAD_MAX: usize = 16;

/// Time for which a sender delays directories in order to send several together, while their files wait at the receiver.
pub const DIRECTORIES_WAIT: Duration = Duration::from_millis(5);

/// Directories of a session that may still get content, or have files in progress, so that their time is not set yet: at most 16 MiB of
/// names. At the limit, the sender waits until some are complete.
pub const OPEN_DIRECTORIES_MAX: usize = 1024;

/// Chunks queued for each additional stream of a sender, as in [`CHUNKS_WAITING_MAX`].
pub const STREAM_CHUNKS_WAITING_MAX: usize = 2;

/// Read-ahead of a receiver on each additional stream, bytes: several small files per call.
pub const STREAM_READ_AHEAD_BYTES: usize = 32 * 1024;

/// Entries found in the file tree before they are read.
pub const WALK_AHEAD_MAX: usize = 4096;

/// Entries that the receiver has not answered yet. The limit also bounds a sender's memory with a silent receiver, and the gaps that a
/// receiver tracks.
pub const UNANSWERED_MAX: usize = 65_536;

/// Verdicts waiting to be written to the sender.
pub const VERDICTS_WAITING_MAX: usize = 1024;

/// Failures remembered by name for the closing list; the rest are counted.
pub const FAILURES_KEPT_MAX: usize = 100;

/// Length and alignment of the zeros that are stored as holes, bytes: the block size of most file systems, below which no hole is possible.
pub const HOLE_BYTES_MIN: usize = 4096;

/// Random names tried for a partial file. One suffices, unless an attacker fills the directory with candidates.
pub const TEMPORARY_NAMES_TRIED_MAX: usize = 16;

/// Remembered name hashes of a session on a file system that folds names, 8 bytes each, two per file. Beyond the limit nothing is replaced
/// there.
pub const SPELLINGS_MAX: usize = 1 << 19;

/// Age since the last change at which a partial file that no receiver holds is removed by the next receiver: the user may want to look at
/// it first.
pub const ABANDONED_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Names read in the search for abandoned files at a receiver's start, so that a large tree does not delay the start.
pub const ABANDONED_SEARCH_MAX: usize = 100_000;

/// Entries of a session that are flushed together. A flush then serves many small files; a larger batch would hold more descriptors, and
/// lose more work if the sender disappears.
pub const BATCH_ENTRIES_MAX: usize = 256;

/// Bytes of content in a batch; a file of this length is flushed alone.
pub const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Time for which complete files wait for the next frame before they are flushed and confirmed. A sender needs no verdict before its end
/// frame, which ends the wait at once.
pub const BATCH_WAIT: Duration = Duration::from_millis(50);

/// Time for which complete files wait while frames keep arriving, such as those of a large file.
pub const BATCH_AGE_MAX: Duration = Duration::from_millis(500);

/// Descriptors of files and directories that wait for a flush, over all sessions; also limited to a quarter of the process's limit, since
/// connections and files in progress need some.
pub const UNPUBLISHED_DESCRIPTORS_MAX: usize = 512;

/// Directories that a session flushes at a time; each takes a second descriptor.
pub const DIRECTORIES_FLUSHED_MAX: usize = 32;

/// Number of files from which the whole file system is flushed instead of each file: with fewer, other programs' writes are not waited for.
pub const FLUSHED_TOGETHER_MIN: usize = 8;

/// Time per file that flushing the whole file system may take. Longer probably means that other programs write much, and each file is then
/// flushed alone. The value is an assumption about disks with a write cache, not a measurement; it decides only the method of flushing.
pub const FLUSH_WORTH_PER_FILE: Duration = Duration::from_millis(1);

/// Flushes file by file after a slow flush of the file system; doubled after each further slow one, up to the maximum.
pub const FLUSH_PAUSE: RangeInclusive<usize> = 8..=1024;

/// Threads of a session that flush files in parallel, if file systems cannot be flushed as a whole.
pub const FLUSHES_AT_ONCE_MAX: usize = 16;

/// Time that a receiver waits for the next frame of a sender whose connection is alive.
pub const SENDER_SILENCE_MAX: Duration = Duration::from_secs(300);

/// Interval of a sender's presence frames while its source is idle: several within [`SENDER_SILENCE_MAX`], whatever is lost.
pub const QUIET_SOURCE_INTERVAL: Duration = Duration::from_secs(30);

/// Time that a sender waits for frames of a receiver, which reports every [`REPORT_INTERVAL`] even while its disk is busy.
pub const RECEIVER_SILENCE_MAX: Duration = Duration::from_secs(60);

/// Interval at which a receiver reports its progress.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Time that either side waits for the other half of an orderly close, after everything is confirmed.
pub const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Parts of a file whose hashes a receiver stores, and compares on resumption: 2 MiB of hashes.
pub const PARTS_MAX: u64 = 65_536;

/// Shortest of the largest parts, bytes: a differing part is sent again as a whole.
pub const SPAN_BYTES_MIN: u64 = 1 << 20;

/// Longest journal of a partial file, bytes: chaining values of all parts, and a week of progress records.
pub const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// Partial files that an output directory keeps for resumption, over all senders; further ones are removed at the end of their sessions.
pub const PARTIALS_MAX: usize = 4096;

/// Partial files kept per sender, as in [`PARTIALS_MAX`].
pub const PARTIALS_PER_SENDER_MAX: usize = 256;

/// Partial files tried for removal in favour of another one; files in use stay.
pub const PARTIALS_GIVEN_UP_TRIES_MAX: usize = 8;

/// Interval at which a receiver journals the progress of partial files: with the duration of the write, within a second.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(500);

/// Time that a receiver waits for the rest of a data frame before it stores the part that has arrived.
pub const PIECE_WAIT: Duration = Duration::from_millis(100);

/// Patterns of `--exclude`. With `--delete` a receiver compares each with the names that it would delete.
pub const PATTERNS_MAX: usize = 1024;

/// Total length of these patterns, bytes: a receiver holds 32 times as much, and takes at most as many steps per byte of a name.
pub const PATTERNS_BYTES_MAX: usize = 64 << 10;

/// Names of a listing that a receiver holds before it sweeps the directory, bytes, plus 4 each. Each such piece costs two passes over the
/// directory, whose own names are not held.
pub const LISTING_BYTES_HELD_MAX: usize = 4 << 20;

/// Deletions per report of a receiver, which bounds the names that it holds.
pub const DELETIONS_TOGETHER_MAX: usize = 256;

/// Sent directories that either side remembers in a session with `--delete`, 8 bytes each. Beyond the limit nothing is deleted.
pub const DIRECTORIES_KNOWN_MAX: usize = 1 << 20;

/// Attempts of a receiver to lock a partial file that another receiver may be reading.
pub const LOCK_TRIES_MAX: usize = 20;

/// Pause between attempts to lock a partial file.
pub const LOCK_TRY_INTERVAL: Duration = Duration::from_millis(5);

/// Age at which an unnamed journal is known to be left by a killed receiver.
pub const HALF_MADE_AGE: Duration = Duration::from_secs(60);

/// Range of mean chunk lengths of an older version, bytes: shorter chunks find more matches, and cost 20 bytes each.
pub const BASIS_CHUNK_BYTES: RangeInclusive<u32> = 16 * 1024..=4 * 1024 * 1024;

/// Chunks of an older version that a receiver names and a sender remembers: 2.6 MB on the wire.
pub const BASIS_CHUNKS_MAX: usize = 131_072;

/// Shortest file that is sent as a delta, bytes: below, naming the chunks saves next to nothing.
pub const BASIS_BYTES_MIN: u64 = 256 * 1024;

/// Full reads of a receiver's file per session that are triggered by little data: an offer with a hash, an offer for a delta, the beginning
/// of a partial file. A result is cached until the file changes, so one read usually suffices.
pub const READINGS_PER_FILE_MAX: u32 = 4;

/// Files whose read results a session caches; a further one evicts the oldest.
pub const FILES_READ_REMEMBERED_MAX: usize = 65_536;

/// Older versions of a session that a receiver chunks in parallel, each on its own thread.
pub const BASES_MAX: usize = 16;

/// Offered files of a session that wait for chunking; further ones are requested in full.
pub const BASES_WAITING_MAX: usize = 4096;

/// Links that a receiver follows to resolve another link: the limit of Linux.
pub const LINK_HOPS_MAX: usize = 40;

/// Components that a receiver looks up to resolve a link; a link that needs more is refused.
pub const LINK_STEPS_MAX: usize = 512;

/// Files with hard links in a session: a sender remembers their inode numbers and names, a receiver 16 bytes each. Every name of further
/// ones is sent as a separate file.
pub const HARD_LINKED_FILES_MAX: usize = 65_536;

/// Bytes of link names and targets that a sender holds until all files are sent; the same again for files with hard links. Links beyond the
/// limit are skipped and reported.
pub const LINK_BYTES_MAX: usize = 64 << 20;

/// Longest copy from an older version at a time, bytes: the longest chunk. Other files of the session wait meanwhile.
pub const COPY_BYTES_MAX: u32 = 4 * *BASIS_CHUNK_BYTES.end();

/// First name components recorded per pairing; files beyond need another code after an interruption.
pub const PAIRED_NAMES_MAX: usize = 256;
