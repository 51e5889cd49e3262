//! Tests of sessions over several streams, and of peers that misuse streams.

use std::sync::atomic::Ordering;

use dfcp_framing::error::ProtocolError;
use tokio::io::AsyncWrite;

use super::*;
use crate::basis::Alive;
use crate::limits::{FILE_STREAMS_MAX, FIRST_STREAM_BYTES_MAX, OPEN_DIRECTORIES_MAX, UNANSWERED_MAX};
use crate::source::{Event, Known, Shared, produce};
use crate::transport::memory::{Memory, connection};
use crate::transport::{SendStream, Transport};

const STREAMS: u32 = FILE_STREAMS_MAX as u32;

/// Creates a tree with more content than the first stream may carry before the receiver's first frame.
fn larger_sample(directory: &Path) -> PathBuf {
    let root = sample(directory);
    for number in 0..300 {
        let place = root.join(format!("d{}", number / 10));
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(format!("f{number}")), vec![number as u8; 3 * number]).unwrap();
    }
    root
}

#[test]
fn a_tree_arrives_whole_over_as_many_streams_as_the_receiver_permits() {
    for permitted in [0, STREAMS, STREAMS + 1] {
        for buffer_bytes in [1000, 1 << 20] {
            let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let root = larger_sample(here.path());
            let time = filetime::FileTime::from_unix_time(-5, 250_000_000);
            filetime::set_file_mtime(root.join("d7"), time).unwrap();
            let (near, far) = connection(permitted, buffer_bytes);
            let beside = Arc::clone(&near.beside);
            let (sent, received) = run(async {
                tokio::join!(
                    send(
                        near,
                        roots(std::slice::from_ref(&root)),
                        SendOptions::default(),
                        Arc::new(Log::default()) as _
                    ),
                    receive(far, flushing(there.path()), Arc::new(Log::default()) as _, std::future::pending())
                )
            });
            let (sent, received) = (sent.unwrap(), received.unwrap());
            assert_eq!((sent.stored, sent.failed, received.stored), (337, 0, 337));
            assert_eq!(beside.opened.load(Ordering::SeqCst), permitted.min(STREAMS));
            assert_eq!(tree(&there.path().join("tree")), tree(&root));
            let metadata = fs::metadata(there.path().join("tree/d7")).unwrap();
            assert_eq!(filetime::FileTime::from_last_modification_time(&metadata), time);
        }
    }
}

/// Returns the number of bytes that a sender of one file writes to the first stream before it waits for a silent
/// receiver.
fn unanswered(len: u64) -> u64 {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("f");
    fs::write(&file, vec![1; len as usize]).unwrap();
    let (near, mut far) = connection(STREAMS, 1 << 20);
    run(async {
        let reading = async {
            let mut heard = Vec::new();
            // After a second of silence, the sender is waiting; a sender that had finished would have closed the
            // stream.
            let quiet = Duration::from_secs(1);
            while let Ok(Ok(1..)) = tokio::time::timeout(quiet, far.read_buf(&mut heard)).await {}
            heard.len() as u64
        };
        tokio::select! {
            heard = reading => heard,
            _ = send(near, roots(&[file]), SendOptions::default(), Arc::new(Log::default()) as _) => panic!("it was not answered"),
        }
    })
}

#[test]
fn a_small_file_waits_for_no_answer_and_a_large_one_for_the_streams() {
    assert!(unanswered(FIRST_STREAM_BYTES_MAX) > FIRST_STREAM_BYTES_MAX);
    assert_eq!(unanswered(FIRST_STREAM_BYTES_MAX + 1), 8, "the preamble alone");
}

/// Sender driven by a test, which has already sent its preamble.
struct Speaker {
    near: Memory,
    streams: Vec<SendStream>,
}

impl Speaker {
    async fn say(&mut self, stream: usize, frames: &[ToReceiver]) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        let writer: &mut (dyn AsyncWrite + Unpin + Send) =
            if stream == 0 { &mut self.near } else { &mut *self.streams[stream - 1] };
        // Errors are ignored, because the receiver may close first.
        let _ = writer.write_all(&bytes).await;
    }

    /// Waits until the receiver has sent this frame.
    async fn hear(&mut self, expected: &ToSender) {
        let (mut said, mut sought) = (Vec::new(), Vec::new());
        expected.encode(&mut sought);
        while !said.windows(sought.len()).any(|window| window == sought) {
            assert!(self.near.read_buf(&mut said).await.unwrap() > 0, "it never said {expected:?}");
        }
    }

    /// Sends the end frame and closes all streams.
    async fn end(&mut self, entries: u32) {
        let streams = self.streams.len() as u32;
        self.say(0, &[ToReceiver::End { entries, streams }]).await;
        for stream in &mut self.streams {
            let _ = stream.shutdown().await;
        }
        let _ = self.near.shutdown().await;
    }
}

/// Runs `speak` against a receiver, over `streams` additional streams. Returns the receiver's result and the stored
/// files.
fn spoken(
    streams: u32,
    options: StoreOptions,
    speak: impl AsyncFnOnce(&mut Speaker, &Path),
) -> (Result<Report, TransferError>, BTreeMap<String, Vec<u8>>) {
    let output = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(output.path(), options).unwrap());
    let (near, far) = connection(streams, 1 << 16);
    let received = run(async {
        let speaking = async {
            let beside = near.streams().unwrap();
            let mut speaker = Speaker { near, streams: Vec::new() };
            speaker.near.write_all(&Service::Files.preamble()).await.unwrap();
            for _ in 0..streams {
                speaker.streams.push(beside.open().await.unwrap().unwrap());
            }
            speak(&mut speaker, output.path()).await;
            // Wait until the receiver has closed the connection.
            let _ = speaker.near.read_to_end(&mut Vec::new()).await;
        };
        let receiving = receive(far, store, Arc::new(Log::default()) as _, std::future::pending());
        let both = async { tokio::join!(receiving, speaking).0 };
        tokio::time::timeout(Duration::from_secs(60), both).await.expect("it hangs")
    });
    (received, tree(output.path()))
}

fn file(index: u32, name: &str, content: &[u8]) -> [ToReceiver; 3] {
    [ToReceiver::File(entry(index, 0, name)), ToReceiver::Data(content.to_vec()), end_of(content)]
}

fn end_of(content: &[u8]) -> ToReceiver {
    ToReceiver::FileEnd { len: content.len() as u64, hash: *blake3::hash(content).as_bytes() }
}

const STORED: Result<Confirmed, Failure> = Ok(Confirmed::Stored);

#[test]
fn a_file_that_is_held_up_holds_up_no_other() {
    let (received, files) = spoken(2, StoreOptions::default(), async |speaker, _| {
        speaker.say(1, &file(0, "large", b"first half")[..2]).await;
        speaker.say(2, &file(1, "small", b"small")).await;
        speaker.hear(&ToSender::Verdict { index: 1, outcome: STORED }).await;
        speaker.say(1, &[end_of(b"first half")]).await;
        speaker.end(2).await;
    });
    assert!(received.unwrap().is_complete());
    assert_eq!(files.len(), 2);
}

#[test]
fn what_comes_before_its_directory_waits_for_it() {
    let (received, files) = spoken(1, StoreOptions::default(), async |speaker, output| {
        speaker.say(1, &[ToReceiver::File(entry(1, 1, "d/f")), end_of(b"")]).await;
        assert!(!output.join("d").exists());
        speaker.say(0, &[ToReceiver::Directory(entry(0, 0, "d"))]).await;
        speaker.end(2).await;
    });
    assert!(received.unwrap().is_complete());
    assert_eq!(files.into_keys().collect::<Vec<_>>(), ["d/f"]);
}

#[test]
fn a_file_which_waits_for_directories_that_never_come_ends_the_session() {
    let (received, files) = spoken(1, StoreOptions::default(), async |speaker, _| {
        speaker.say(1, &[ToReceiver::File(entry(0, 1, "f")), end_of(b"")]).await;
        speaker.end(1).await;
    });
    assert!(matches!(received, Err(TransferError::Protocol(ProtocolError::Ordinal { .. }))), "{received:?}");
    assert!(files.is_empty());
}

#[test]
fn one_file_on_two_streams_ends_the_session_and_keeps_what_is_whole() {
    let (received, files) = spoken(2, StoreOptions::default(), async |speaker, _| {
        speaker.say(1, &file(0, "whole", b"whole")).await;
        speaker.hear(&ToSender::Verdict { index: 0, outcome: STORED }).await;
        speaker.say(1, &file(1, "f", b"one")[..2]).await;
        speaker.say(2, &file(1, "f", b"two")).await;
    });
    assert!(matches!(received, Err(TransferError::Protocol(ProtocolError::Ordinal { .. }))), "{received:?}");
    assert_eq!(files.get("whole").map(Vec::as_slice), Some(&b"whole"[..]));
    assert!(files.get("f").is_none_or(|content| content == b"two") && files.len() <= 2, "{files:?}");
}

#[test]
fn files_beyond_those_told_of_end_the_session() {
    let (received, _) = spoken(1, StoreOptions::default(), async |speaker, _| {
        speaker.say(1, &file(0, "a", b"a")).await;
        speaker.say(1, &file(7, "b", b"b")).await;
        speaker.end(1).await;
    });
    assert!(matches!(received, Err(TransferError::Protocol(ProtocolError::Summary))), "{received:?}");
}

#[test]
fn more_or_less_content_than_told_is_not_stored() {
    for content in [&b"mor"[..], b"more!", b"MORE", b""] {
        let (received, files) = spoken(1, StoreOptions::default(), async |speaker, _| {
            let [begin, _, end] = file(0, "f", b"more");
            speaker.say(1, &[begin, ToReceiver::Data(content.to_vec()), end]).await;
            speaker.end(1).await;
        });
        assert_eq!(received.unwrap().failed, 1);
        assert!(files.is_empty(), "{files:?}");
    }
}

#[test]
fn a_stream_that_is_cut_or_reset_inside_of_a_file_ends_the_session_and_leaves_nothing_half() {
    let mut bytes = Vec::new();
    file(1, "f", b"content").iter().for_each(|frame| frame.encode(&mut bytes));
    for is_reset in [false, true] {
        for cut in 1..bytes.len() {
            let (received, files) = spoken(2, StoreOptions::default(), async |speaker, _| {
                speaker.say(2, &file(0, "whole", b"whole")).await;
                speaker.streams[0].write_all(&bytes[..cut]).await.unwrap();
                if is_reset {
                    drop(speaker.streams.remove(0));
                } else {
                    speaker.streams[0].shutdown().await.unwrap();
                }
                speaker.say(0, &[ToReceiver::End { entries: 2, streams: 2 }]).await;
            });
            let error = received.unwrap_err();
            let is_expected = match error {
                TransferError::Interrupted => is_reset,
                TransferError::Protocol(ProtocolError::CutFile) => !is_reset,
                _ => false,
            };
            assert!(is_expected, "cut at {cut}, reset {is_reset}: {error}");
            assert!(files.iter().all(|(name, content)| name == "whole" && content == b"whole"), "{cut}: {files:?}");
        }
    }
}

#[test]
fn more_streams_than_permitted_or_told_of_end_the_session() {
    for (opened, told) in [(STREAMS + 1, STREAMS + 1), (3, 2), (0, STREAMS + 1)] {
        let (received, files) = spoken(opened, StoreOptions::default(), async |speaker, _| {
            if opened == 3 {
                // Make sure that the third stream was accepted before the end frame arrives.
                speaker.say(3, &file(0, "f", b"f")).await;
                speaker.hear(&ToSender::Verdict { index: 0, outcome: STORED }).await;
            }
            speaker.say(0, &[ToReceiver::End { entries: 0, streams: told }]).await;
        });
        let error = received.unwrap_err();
        assert!(matches!(error, TransferError::Protocol(ProtocolError::TooManyStreams)), "{opened} {told}: {error}");
        assert!(files.len() <= 1);
    }
}

#[test]
fn a_sender_that_goes_away_before_it_has_opened_what_it_told_of_has_not_finished() {
    let output = tempfile::tempdir().unwrap();
    let (Memory { mut first, beside, .. }, far) = connection(1, 1 << 16);
    let received = run(async {
        let mut bytes = Service::Files.preamble().to_vec();
        ToReceiver::End { entries: 0, streams: 1 }.encode(&mut bytes);
        first.write_all(&bytes).await.unwrap();
        drop(beside);
        receive(far, flushing(output.path()), Arc::new(Log::default()) as _, std::future::pending()).await
    });
    assert!(matches!(received, Err(TransferError::PeerClosed)), "{received:?}");
}

#[test]
fn the_limit_of_a_session_holds_over_all_streams() {
    let limited = StoreOptions { session_bytes_max: Some(10_000), ..StoreOptions::default() };
    let (received, files) = spoken(STREAMS, limited, async |speaker, _| {
        for round in 0..4 {
            for stream in 1..=STREAMS {
                let index = round * STREAMS + stream - 1;
                speaker.say(stream as usize, &file(index, &index.to_string(), &[7; 999])).await;
            }
        }
        speaker.end(4 * STREAMS).await;
    });
    let report = received.unwrap();
    assert_eq!(report.stored + report.failed, u64::from(4 * STREAMS));
    let stored_bytes = files.values().map(Vec::len).sum::<usize>();
    // Content of failed files counts too, so each stream may be within a file when the limit is reached.
    assert!(stored_bytes <= 10_000 && stored_bytes % 999 == 0 && report.failed >= 22, "{stored_bytes} {report:?}");
}

#[test]
fn directories_whose_files_do_not_come_are_bounded_and_go_on_when_they_do() {
    let count = OPEN_DIRECTORIES_MAX as u32 + 100;
    let (received, files) = spoken(1, StoreOptions::default(), async |speaker, output| {
        let directories: Vec<_> =
            (0..count).map(|n| ToReceiver::Directory(entry(2 * n, n, &format!("d{n:04}")))).collect();
        speaker.say(0, &directories).await;
        let made = || fs::read_dir(output).unwrap().count();
        while made() < OPEN_DIRECTORIES_MAX {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(made(), OPEN_DIRECTORIES_MAX);
        for n in 0..count {
            speaker.say(1, &[ToReceiver::File(entry(2 * n + 1, n + 1, &format!("d{n:04}/f"))), end_of(b"")]).await;
        }
        speaker.end(2 * count).await;
    });
    assert!(received.unwrap().is_complete());
    assert_eq!(files.len(), count as usize);
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_opens_all_streams_and_says_nothing_is_silent() {
    let (mut near, far) = connection(STREAMS, 1 << 16);
    near.write_all(&Service::Files.preamble()).await.unwrap();
    let beside = near.streams().unwrap();
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(beside.open().await.unwrap().unwrap());
    }
    // A file on one stream waits for its directory, which never comes. The delay is the sender's fault.
    let mut bytes = Vec::new();
    ToReceiver::File(entry(0, 1, "f")).encode(&mut bytes);
    streams[0].write_all(&bytes).await.unwrap();
    let counters = Arc::new(Counters::new(tokio::time::Instant::now()));
    let (frames, _taken) = mpsc::channel(1);
    let inlet = Inlet {
        frames,
        spares: Arc::default(),
        open_directories: Arc::new(Semaphore::new(1)),
        counters: Arc::clone(&counters),
    };
    let beside = far.streams();
    let silent = tokio::select! {
        heard = hear(far, Service::Files, beside, inlet) => panic!("{heard:?}"),
        silent = watch_silence(&counters) => silent,
    };
    assert!(matches!(silent, TransferError::Silent { seconds: 300 }), "{silent}");
}

/// A sender is not silent while the receiver reads an older version, however long that takes.
#[tokio::test(start_paused = true)]
async fn a_sender_that_waits_for_an_older_version_is_not_taken_for_silent() {
    let started = tokio::time::Instant::now();
    let counters = Counters::new(started);
    let cutting = Alive::default();
    counters.waits_for(cutting.clone());
    let reading = cutting.begin();
    let silent = async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        drop(reading);
        std::future::pending().await
    };
    tokio::select! {
        ended = watch_silence(&counters) => assert!(matches!(ended, TransferError::Silent { .. })),
        () = silent => unreachable!(),
    }
    assert!(started.elapsed() > Duration::from_secs(3600 + 299), "{:?}", started.elapsed());
}

/// Returns the first bytes of a receiver that has no files of this sender.
fn greeting() -> Vec<u8> {
    let mut bytes = Service::Files.preamble().to_vec();
    ToSender::Hello(Hello::default()).encode(&mut bytes);
    bytes
}

#[test]
fn a_receiver_that_stops_one_stream_is_never_taken_for_success() {
    let here = tempfile::tempdir().unwrap();
    for number in 0..20 {
        fs::write(here.path().join(number.to_string()), vec![1; 300_000]).unwrap();
    }
    let (near, mut far) = connection(STREAMS, 1 << 16);
    let sent = run(async {
        let stop = async {
            far.write_all(&greeting()).await.unwrap();
            let beside = far.streams().unwrap();
            let mut kept = Vec::new();
            for stream in 0..STREAMS {
                let accepted = beside.accept().await.unwrap();
                if stream != 3 {
                    kept.push(accepted);
                }
            }
            let _ = far.read_to_end(&mut Vec::new()).await;
        };
        let sending =
            send(near, roots(&[here.path().to_owned()]), SendOptions::default(), Arc::new(Log::default()) as _);
        let both = async { tokio::join!(sending, stop).0 };
        tokio::time::timeout(Duration::from_secs(60), both).await.expect("it hangs")
    });
    let sentence = sent.unwrap_err().to_string();
    assert!(sentence.contains("the other side was interrupted"), "{sentence}");
}

#[test]
fn a_receiver_that_dies_with_streams_open_is_never_taken_for_success() {
    let here = tempfile::tempdir().unwrap();
    let root = larger_sample(here.path());
    let (near, mut far) = connection(STREAMS, 1000);
    let sent = run(async {
        let die = async {
            far.write_all(&greeting()).await.unwrap();
            far.streams().unwrap().accept().await.unwrap();
            drop(far);
        };
        tokio::join!(send(near, roots(&[root]), SendOptions::default(), Arc::new(Log::default()) as _), die).0
    });
    sent.unwrap_err();
}

#[test]
fn a_sender_waits_for_verdicts_before_it_has_too_many_entries_without() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("f"), b"").unwrap();
    let shared = Arc::new(Shared::new());
    let (events_in, mut events) = mpsc::channel(2 * UNANSWERED_MAX);
    let root = vec![here.path().join("f")];
    // All permits for unanswered entries except one are taken.
    (1..UNANSWERED_MAX).for_each(|_| shared.take_place());
    run(async {
        let begin = |events_in| {
            let observer = Arc::new(Log::default());
            let (producer, feed, opener) = produce(
                roots(&root),
                SendOptions::default(),
                (FIRST_STREAM_BYTES_MAX, None),
                events_in,
                Arc::clone(&shared),
                observer,
            );
            drop(opener.open(Known::default()));
            (tokio::task::spawn_blocking(move || producer.run()), feed)
        };
        let (first, _feed) = begin(events_in.clone());
        first.await.unwrap();
        let (mut second, _feed) = begin(events_in);
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
        assert!(waits.is_err(), "it has begun one too many");
        shared.answered();
        second.await.unwrap();
    });
    let begun = std::iter::from_fn(|| events.try_recv().ok()).filter(|event| matches!(event, Event::Entry { .. }));
    assert_eq!(begun.count(), 2);
}
