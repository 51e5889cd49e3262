//! Tests of whole sessions over an in-memory connection, with peers that die or corrupt data at every byte.

mod api;
mod closing;
pub(super) mod deletion;
#[cfg(unix)]
mod links;
mod resume;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dfcp_framing::error::{Failure, FailureCode, ProtocolError};
use dfcp_framing::files::{Confirmed, Entry, Hello, Progress, ToReceiver, ToSender};
use dfcp_framing::frame::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Semaphore, mpsc};

use super::assembler::Assembler;
use super::error::TransferError;
use super::receive::streams::{Heard, Inlet, hear, watch_silence};
use super::receive::{Counters, receive_within, refuse};
use super::scope::Scope;
use super::send::{pump, send};
use super::source::{Chunk, Feed, Root, RootError};
use super::store::{Store, StoreOptions};
use super::target::Target;
use super::transport::Transport;
use super::{EntryOutcome, Observer, Report, SendOptions, Skipped, Snapshot};

#[derive(Default)]
struct Log(Mutex<Vec<EntryOutcome>>, Mutex<Vec<String>>);

impl Observer for Log {
    fn entry(&self, outcome: &EntryOutcome) {
        self.0.lock().unwrap().push(outcome.clone());
    }
    fn skipped(&self, name: &str, _what: Skipped) {
        self.1.lock().unwrap().push(name.to_owned());
    }
    fn progress(&self, _snapshot: &Snapshot) {}
}

/// Receives from a sender that has called this side.
pub(crate) async fn receive<T: Transport>(
    transport: T,
    target: impl Into<Target>,
    observer: Arc<dyn Observer>,
    stop: impl Future<Output = ()> + Send,
) -> Result<Report, TransferError> {
    receive_over(transport, Service::Files, target, observer, stop).await
}

/// Like [`receive`], but `service` states which side has called.
async fn receive_over<T: Transport>(
    transport: T,
    service: Service,
    target: impl Into<Target>,
    observer: Arc<dyn Observer>,
    stop: impl Future<Output = ()> + Send,
) -> Result<Report, TransferError> {
    receive_within(transport, service, (target, Arc::new(Scope::everything())), observer, stop).await
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Returns every file under `root` with its content, by relative name.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    walkdir::WalkDir::new(root)
        .into_iter()
        .map(Result::unwrap)
        .filter(|found| found.file_type().is_file())
        .map(|found| {
            let name = found.path().strip_prefix(root).unwrap().to_string_lossy().into_owned();
            (name, fs::read(found.path()).unwrap())
        })
        .collect()
}

fn roots(paths: &[PathBuf]) -> Vec<Root> {
    Root::from_arguments(paths, None).unwrap()
}

async fn transfer(
    paths: &[PathBuf],
    output: &Path,
    buffer_bytes: usize,
) -> (Result<Report, TransferError>, Result<Report, TransferError>, Arc<Log>) {
    let (here, there) = duplex(buffer_bytes);
    let log = Arc::new(Log::default());
    let store = Arc::new(Store::open(output, StoreOptions::default()).unwrap());
    let (sent, received) = tokio::join!(
        send(here, roots(paths), SendOptions::default(), Arc::clone(&log) as _),
        receive(there, store, Arc::new(Log::default()) as _, std::future::pending())
    );
    (sent, received, log)
}

/// Creates a tree with all relevant kinds of entries: empty, small and nested files, a file longer than a frame, and an
/// empty directory.
fn sample(directory: &Path) -> PathBuf {
    let root = directory.join("tree");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    fs::write(root.join("zero"), b"").unwrap();
    fs::write(root.join("a/small"), b"hello").unwrap();
    let large: Vec<u8> = (0..700_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(root.join("a/b/large"), large).unwrap();
    root
}

#[test]
fn a_tree_arrives_whole_with_its_times() {
    for buffer_bytes in [1, 1 << 20] {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = sample(here.path());
        if buffer_bytes == 1 {
            fs::write(root.join("a/b/large"), [9; 3000]).unwrap();
        }
        let time = filetime::FileTime::from_unix_time(-5, 250_000_000);
        filetime::set_file_mtime(root.join("a/small"), time).unwrap();
        filetime::set_file_mtime(root.join("a"), time).unwrap();
        let (sent, received, log) = run(transfer(std::slice::from_ref(&root), there.path(), buffer_bytes));
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!((sent.stored, sent.failed), (7, 0));
        assert_eq!((received.stored, received.failed, received.bytes), (7, 0, sent.bytes));
        assert_eq!(tree(&there.path().join("tree")), tree(&root));
        assert!(there.path().join("tree/empty").is_dir());
        for kept in ["tree/a/small", "tree/a"] {
            let metadata = fs::metadata(there.path().join(kept)).unwrap();
            assert_eq!(filetime::FileTime::from_last_modification_time(&metadata), time, "{kept}");
        }
        let log = log.0.lock().unwrap();
        let small = log.iter().find(|outcome| outcome.name == "tree/a/small").unwrap();
        assert_eq!(small.hash, Some(blake3::hash(b"hello")));
    }
}

#[test]
fn many_small_files_and_several_arguments() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (many, one) = (here.path().join("many"), here.path().join("one"));
    fs::create_dir(&many).unwrap();
    for number in 0..1500 {
        fs::write(many.join(format!("f{number}")), vec![number as u8; number % 7]).unwrap();
    }
    fs::write(&one, b"1").unwrap();
    let (sent, _, _) = run(transfer(&[many, one], there.path(), 1 << 16));
    assert_eq!(sent.unwrap().stored, 1502);
    assert_eq!(tree(there.path()), tree(here.path()));
}

#[test]
fn failed_files_are_named_and_the_others_go_on() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = sample(here.path());
    fs::create_dir_all(there.path().join("tree/a/b")).unwrap();
    fs::write(there.path().join("tree/a/b/large"), b"precious").unwrap();
    let (sent, received, _) = run(transfer(&[root], there.path(), 4096));
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.stored, sent.failed), (6, 1));
    assert_eq!(received.failed, 1);
    assert_eq!(sent.failures[0].0, "tree/a/b/large");
    assert!(sent.failures[0].1.contains("--force"), "{:?}", sent.failures);
    assert_eq!(fs::read(there.path().join("tree/a/b/large")).unwrap(), b"precious");
    assert_eq!(fs::read(there.path().join("tree/a/small")).unwrap(), b"hello");
}

#[cfg(unix)]
#[test]
fn links_inside_directories_are_skipped_and_modes_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = sample(here.path());
    symlink("/etc", root.join("link")).unwrap();
    fs::set_permissions(root.join("a/small"), fs::Permissions::from_mode(0o750)).unwrap();
    // A read-only directory must be filled before it gets its mode.
    fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o555)).unwrap();
    let top = here.path().join("top");
    symlink(root.join("a/small"), &top).unwrap();
    let (sent, _, log) = run(transfer(&[root, top], there.path(), 4096));
    let sent = sent.unwrap();
    assert_eq!((sent.failed, sent.skipped), (0, 1));
    assert!(log.1.lock().unwrap()[0].ends_with("tree/link"));
    let mode = |name: &str| fs::metadata(there.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("tree/a/small"), mode("tree/a/b"), mode("top")), (0o750, 0o555, 0o750));
    assert_eq!(fs::read(there.path().join("top")).unwrap(), b"hello");
    fs::set_permissions(there.path().join("tree/a/b"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(here.path().join("tree/a/b"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn arguments_are_checked_before_anything_is_sent() {
    let here = tempfile::tempdir().unwrap();
    let root = sample(here.path());
    let missing = Root::from_arguments(&[root.join("nothing")], None).unwrap_err();
    assert!(matches!(missing, RootError::Missing { .. }) && missing.to_string().contains("nothing"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
        let dangling = Root::from_arguments(&[root.join("dangling")], None);
        assert!(matches!(dangling, Err(RootError::Dangling(name)) if name.ends_with("dangling")));
    }
    assert!(matches!(
        Root::from_arguments(&[root.join("zero"), root.join("zero")], None),
        Err(RootError::Twice(name)) if name.ends_with("tree/zero")
    ));
    // `..` gets the name of the directory to which it leads.
    assert!(Root::from_arguments(&[root.join("a/..")], None).is_ok());
}

fn entry(index: u32, directories: u32, name: &str) -> Entry {
    Entry { index, directories, mode: 0o644, mtime_s: 1, mtime_ns: 2, size_hint_bytes: 3, len: None, name: name.into() }
}

/// Returns the frames of a correct sender of two files.
fn script() -> Vec<u8> {
    let mut bytes = Service::Files.preamble().to_vec();
    for frame in [
        ToReceiver::Directory(Entry { mode: 0o755, ..entry(0, 0, "d") }),
        ToReceiver::File(entry(1, 1, "d/one")),
        ToReceiver::Data(b"first ".to_vec()),
        ToReceiver::Data(b"file".to_vec()),
        ToReceiver::FileEnd { len: 10, hash: *blake3::hash(b"first file").as_bytes() },
        ToReceiver::File(entry(2, 1, "two")),
        ToReceiver::Data(b"second".to_vec()),
        ToReceiver::FileEnd { len: 6, hash: *blake3::hash(b"second").as_bytes() },
        ToReceiver::End { entries: 3, streams: 0 },
    ] {
        frame.encode(&mut bytes);
    }
    bytes
}

/// Sends `bytes` to a receiver and closes. Returns the receiver's result, the stored files, and the receiver's answers.
async fn play(bytes: &[u8]) -> (Result<Report, TransferError>, BTreeMap<String, Vec<u8>>, Vec<u8>) {
    let output = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(output.path(), StoreOptions::default()).unwrap());
    let (mut here, there) = duplex(1 << 16);
    let speak = async {
        // Errors are ignored, because the receiver may close first.
        let _ = here.write_all(bytes).await;
        let _ = here.shutdown().await;
        let mut said = Vec::new();
        let _ = here.read_to_end(&mut said).await;
        said
    };
    let (received, said) =
        tokio::join!(receive(there, store, Arc::new(Log::default()) as _, std::future::pending()), speak);
    (received, tree(output.path()), said)
}

#[test]
fn a_sender_dying_at_any_byte_leaves_only_whole_files() {
    let bytes = script();
    run(async {
        let (complete, files, _) = play(&bytes).await;
        assert!(complete.unwrap().is_complete());
        assert_eq!(files.len(), 2);
        for cut in 0..bytes.len() {
            let (received, files, _) = play(&bytes[..cut]).await;
            assert!(matches!(received, Err(TransferError::PeerClosed)), "cut at {cut}: {received:?}");
            for (name, content) in files {
                let whole: &[u8] = if name == "two" { b"second" } else { b"first file" };
                assert!(["d/one", "two"].contains(&name.as_str()) && content == whole, "cut at {cut}: {name}");
            }
        }
    });
}

#[test]
fn a_flipped_bit_anywhere_never_stores_other_content() {
    let bytes = script();
    run(async {
        for at in 0..bytes.len() {
            let mut garbled = bytes.clone();
            garbled[at] ^= 1 << (at % 8);
            let (_, files, _) = play(&garbled).await;
            for content in files.values() {
                assert!(content == b"first file" || content == b"second", "byte {at}: {content:?}");
            }
        }
    });
}

#[test]
fn a_sender_that_breaks_the_protocol_is_told_why() {
    let mut bytes = Service::Files.preamble().to_vec();
    ToReceiver::Data(b"x".to_vec()).encode(&mut bytes);
    let (received, _, said) = run(play(&bytes));
    assert!(matches!(received, Err(TransferError::Protocol(_))), "{received:?}");
    assert!(String::from_utf8_lossy(&said).contains("data frame where none is allowed"));
    let (received, _, _) = run(play(b"GET / HTTP/1.1\r\n\r\n"));
    assert!(received.unwrap_err().to_string().contains("file transfer"));
}

/// Returns the answers of a correct receiver to one file.
fn answers() -> Vec<u8> {
    let mut bytes = Service::Files.preamble().to_vec();
    for frame in [
        ToSender::Progress(Progress { received_bytes: 1, disk_us: 1 }),
        ToSender::Verdict { index: 0, outcome: Ok(Confirmed::Stored) },
        ToSender::Summary { stored: 1, failed: 0, progress: Progress::default() },
    ] {
        frame.encode(&mut bytes);
    }
    bytes
}

/// Runs a sender of one file against a peer that reads everything and then answers `bytes`.
async fn answer(file: &Path, bytes: &[u8]) -> Result<Report, TransferError> {
    let (here, mut there): (DuplexStream, DuplexStream) = duplex(1 << 16);
    let respond = async {
        let mut heard = Vec::new();
        there.read_to_end(&mut heard).await.unwrap();
        // Errors are ignored, because the sender may close first.
        let _ = there.write_all(bytes).await;
        drop(there);
    };
    tokio::join!(send(here, roots(&[file.to_owned()]), SendOptions::default(), Arc::new(Log::default()) as _), respond)
        .0
}

#[test]
fn a_receiver_dying_at_any_byte_is_never_taken_for_success() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("f");
    fs::write(&file, b"x").unwrap();
    let bytes = answers();
    run(async {
        assert!(answer(&file, &bytes).await.unwrap().is_complete());
        for cut in 0..bytes.len() {
            let sent = answer(&file, &bytes[..cut]).await;
            assert!(matches!(sent, Err(TransferError::PeerClosed)), "cut at {cut}: {sent:?}");
        }
    });
}

#[test]
fn a_receiver_which_garbles_its_answers_is_never_taken_for_success() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("f");
    fs::write(&file, b"x").unwrap();
    let bytes = answers();
    // Bytes whose corruption does no harm: a reserved byte of the preamble, and statistics that are only displayed.
    let header = 5;
    let progress = 8 + header..8 + header + 16;
    let harmless: BTreeSet<_> = std::iter::once(7).chain(progress).chain(bytes.len() - 16..bytes.len()).collect();
    run(async {
        for at in 0..bytes.len() {
            let mut garbled = bytes.clone();
            garbled[at] ^= 0x11;
            let succeeded = answer(&file, &garbled).await.is_ok_and(|report| report.is_complete());
            assert_eq!(succeeded, harmless.contains(&at), "byte {at}");
        }
    });
}

#[test]
fn a_busy_receiver_is_reported_in_its_own_words() {
    let here = tempfile::tempdir().unwrap();
    let root = sample(here.path());
    let (near, far) = duplex(64);
    let busy = refuse(far, Service::Files, Failure::new(FailureCode::Busy, "it is busy\x1b[2J"));
    let (sent, ()) = run(async {
        tokio::join!(send(near, roots(&[root]), SendOptions::default(), Arc::new(Log::default()) as _), busy)
    });
    let sentence = sent.unwrap_err().to_string();
    assert!(sentence.contains("it is busy") && !sentence.contains('\x1b'), "{sentence}");
}

fn flushing(output: &Path) -> Arc<Store> {
    Arc::new(Store::open(output, StoreOptions { sync: true, ..StoreOptions::default() }).unwrap())
}

/// Returns all frames of [`script`] except the end frame: one directory and two whole files.
fn unended() -> Vec<u8> {
    let bytes = script();
    let mut end = Vec::new();
    ToReceiver::End { entries: 3, streams: 0 }.encode(&mut end);
    bytes[..bytes.len() - end.len()].to_vec()
}

#[test]
fn files_are_confirmed_although_nothing_more_comes() {
    let output = tempfile::tempdir().unwrap();
    let (mut here, there) = duplex(1 << 16);
    let mut expected = Vec::new();
    ToSender::Verdict { index: 2, outcome: Ok(Confirmed::Stored) }.encode(&mut expected);
    let wait = async {
        here.write_all(&unended()).await.unwrap();
        let mut said = Vec::new();
        while !said.windows(expected.len()).any(|window| window == expected) {
            assert!(here.read_buf(&mut said).await.unwrap() > 0);
        }
        drop(here);
    };
    let both = async {
        tokio::join!(
            receive(there, flushing(output.path()), Arc::new(Log::default()) as _, std::future::pending()),
            wait
        )
    };
    let (received, ()) = run(async { tokio::time::timeout(Duration::from_secs(60), both).await.unwrap() });
    assert!(matches!(received, Err(TransferError::PeerClosed)), "{received:?}");
}

#[test]
fn files_are_confirmed_while_a_long_one_comes() {
    const FRAMES_MAX: usize = 1 << 20;
    let output = tempfile::tempdir().unwrap();
    let (here, there) = duplex(1 << 16);
    let (mut answers, mut frames) = tokio::io::split(here);
    let mut expected = Vec::new();
    ToSender::Verdict { index: 2, outcome: Ok(Confirmed::Stored) }.encode(&mut expected);
    let speak = async {
        let mut bytes = unended();
        ToReceiver::File(entry(3, 1, "long")).encode(&mut bytes);
        for _ in 0..FRAMES_MAX {
            frames.write_all(&bytes).await.unwrap();
            bytes.clear();
            ToReceiver::Data(vec![0; 256]).encode(&mut bytes);
        }
    };
    let hear = async {
        let mut said = Vec::new();
        while !said.windows(expected.len()).any(|window| window == expected) {
            assert!(answers.read_buf(&mut said).await.unwrap() > 0);
        }
    };
    let talk = async {
        tokio::select! {
            () = speak => panic!("a file was not confirmed in {FRAMES_MAX} frames"),
            () = hear => {}
        }
    };
    run(async {
        let receiving = tokio::spawn(receive(
            there,
            flushing(output.path()),
            Arc::new(Log::default()) as _,
            std::future::pending(),
        ));
        talk.await;
        receiving.abort();
    });
}

#[test]
fn whole_files_stay_when_their_sender_goes_away() {
    for garbage in [&[][..], &[0x7F, 0, 0, 0, 0]] {
        let output = tempfile::tempdir().unwrap();
        let (mut here, there) = duplex(1 << 16);
        let log = Arc::new(Log::default());
        let speak = async {
            here.write_all(&[&unended(), garbage].concat()).await.unwrap();
            drop(here);
        };
        let receiving = receive(there, flushing(output.path()), Arc::clone(&log) as _, std::future::pending());
        let (received, ()) = run(async { tokio::join!(receiving, speak) });
        received.unwrap_err();
        let expected = BTreeMap::from([("d/one".into(), b"first file".to_vec()), ("two".into(), b"second".to_vec())]);
        assert_eq!(tree(output.path()), expected);
        // Only the two files have an outcome: the directory was not complete yet.
        assert_eq!(log.0.lock().unwrap().len(), 2);
    }
}

#[test]
fn a_receiver_which_is_stopped_says_so_and_the_sender_blames_no_path() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = sample(here.path());
    let (near, far) = duplex(1000);
    let store = Arc::new(Store::open(there.path(), StoreOptions::default()).unwrap());
    let (ask, asked) = tokio::sync::oneshot::channel::<()>();
    let stop = async move { asked.await.unwrap() };
    ask.send(()).unwrap();
    let (sent, received) = run(async {
        tokio::join!(
            send(near, roots(&[root]), SendOptions::default(), Arc::new(Log::default()) as _),
            receive(far, store, Arc::new(Log::default()) as _, stop)
        )
    });
    assert!(matches!(received, Err(TransferError::Stopped)), "{received:?}");
    let sentence = sent.unwrap_err().to_string();
    assert!(sentence.contains("the receiver was stopped") && !sentence.contains("path"), "{sentence}");
    let reset = TransferError::Connection(std::io::ErrorKind::ConnectionReset.into()).to_string();
    assert!(reset.contains("stopped or has failed") && !reset.contains("path"), "{reset}");
    let lost = TransferError::Connection(std::io::ErrorKind::TimedOut.into()).to_string();
    assert!(lost.contains("path"), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn how_long_nothing_was_heard_is_known() {
    #[derive(Default)]
    struct Longest(Mutex<Duration>);
    impl Observer for Longest {
        fn entry(&self, _outcome: &EntryOutcome) {}
        fn skipped(&self, _name: &str, _what: Skipped) {}
        fn progress(&self, snapshot: &Snapshot) {
            let mut longest = self.0.lock().unwrap();
            *longest = longest.max(snapshot.silence);
        }
    }
    let here = tempfile::tempdir().unwrap();
    let (_silent, far) = duplex(1000);
    let observer = Arc::new(Longest::default());
    let root = sample(here.path());
    assert!(send(far, roots(&[root]), SendOptions::default(), Arc::clone(&observer) as _).await.is_err());
    assert!(*observer.0.lock().unwrap() > Duration::from_secs(59));
}

/// Returns the frames that a receiver gets from a sender whose source is idle for the time `quiet`, within a file
/// (`is_live`) or between files.
async fn heard_of_a_quiet_source(is_live: bool, quiet: Duration) -> (Result<(), TransferError>, Vec<Heard>) {
    let (mut here, there) = duplex(1 << 16);
    let (chunks, chunks_out) = mpsc::channel(8);
    let (spare, _spares) = std::sync::mpsc::channel();
    let (frames_in, mut frames) = mpsc::channel(1000);
    let part = |frames: &[ToReceiver], is_live| {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        Chunk { bytes, is_live }
    };
    let data = || ToReceiver::Data(b"x".to_vec());
    let end = ToReceiver::FileEnd { len: 2, hash: *blake3::hash(b"xx").as_bytes() };
    let source = async {
        for (frames, is_live) in [
            (vec![ToReceiver::File(entry(0, 0, "f")), data()], is_live),
            (vec![data(), end, ToReceiver::End { entries: 1, streams: 0 }], false),
        ] {
            chunks.send(part(&frames, is_live)).await.unwrap();
            tokio::time::sleep(quiet).await;
        }
        drop(chunks);
    };
    here.write_all(&Service::Files.preamble()).await.unwrap();
    let counters = Arc::new(Counters::new(tokio::time::Instant::now()));
    let inlet = Inlet {
        frames: frames_in,
        spares: Arc::default(),
        open_directories: Arc::new(Semaphore::new(1)),
        counters: Arc::clone(&counters),
    };
    let mut all = Vec::new();
    let take = async {
        while let Some(frame) = frames.recv().await {
            counters.handled();
            all.push(frame);
        }
    };
    let hear = async {
        tokio::select! {
            heard = hear(there, Service::Files, None, inlet) => heard,
            silent = watch_silence(&counters) => Err(silent),
        }
    };
    let (_, pumped, heard, ()) = tokio::join!(source, pump(here, Feed { chunks: chunks_out, spare }), hear, take);
    assert!(pumped.is_ok() || heard.is_err(), "{pumped:?}");
    (heard, all)
}

#[tokio::test(start_paused = true)]
async fn a_sender_whose_input_is_quiet_for_long_is_not_taken_for_dead() {
    let (heard, frames) = heard_of_a_quiet_source(true, Duration::from_secs(3600)).await;
    heard.unwrap();
    let output = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(output.path(), StoreOptions::default()).unwrap());
    let mut assembler = Assembler::new(store, None, Arc::new(|_| {}));
    let mut empty = 0;
    for heard in &frames {
        match heard {
            Heard::Frame(stream, frame) => {
                empty += u32::from(matches!(frame, ToReceiver::Data(data) if data.is_empty()));
                assembler.handle(*stream, frame).unwrap();
            }
            Heard::Ready(_) | Heard::FirstEnded => {}
            Heard::AllEnded => assembler.finish().unwrap(),
        }
    }
    assert!((100..=120).contains(&empty), "{empty} in an hour");
    assert_eq!(fs::read(output.path().join("f")).unwrap(), b"xx");
    // After the end frame no file can follow, so no presence frames are sent.
    assert!(matches!(frames[frames.len() - 2..], [Heard::Frame(0, ToReceiver::End { .. }), Heard::AllEnded]));
}

#[tokio::test(start_paused = true)]
async fn a_sender_whose_disk_hangs_is_silent_after_five_minutes() {
    let (heard, _) = heard_of_a_quiet_source(false, Duration::from_secs(3600)).await;
    assert!(matches!(heard, Err(TransferError::Silent { seconds: 300 })), "{heard:?}");
}

/// Observer whose audit log cannot be written from the first entry on.
struct Unrecorded;

impl Observer for Unrecorded {
    fn entry(&self, _outcome: &EntryOutcome) {}
    fn is_recorded(&self) -> bool {
        false
    }
    fn skipped(&self, _name: &str, _what: Skipped) {}
    fn progress(&self, _snapshot: &Snapshot) {}
}

#[test]
fn what_cannot_be_written_down_is_not_confirmed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("one"), "one").unwrap();
    let (here, there) = duplex(1 << 20);
    let store = Arc::new(Store::open(to.path(), StoreOptions::default()).unwrap());
    let log = Arc::new(Log::default());
    let (sent, received) = run(async {
        tokio::join!(
            send(here, roots(&[from.path().join("one")]), SendOptions::default(), Arc::clone(&log) as _),
            receive(there, store, Arc::new(Unrecorded) as _, std::future::pending())
        )
    });
    assert!(matches!(received, Err(TransferError::NotRecorded)), "{received:?}");
    assert!(sent.unwrap_err().to_string().contains("audit log"));
    assert!(log.0.lock().unwrap().iter().all(|outcome| outcome.hash.is_none()), "nothing is confirmed");
}

/// Each side learns that the other side has the same role, even with data left to send.
#[tokio::test(start_paused = true)]
async fn two_senders_or_two_receivers_end_and_say_so() {
    let (here, one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = sample(here.path());
    let log = || Arc::new(Log::default()) as Arc<dyn Observer>;
    for buffer_bytes in [64, 1 << 20] {
        let (near, far) = duplex(buffer_bytes);
        // A listening sender refuses a calling sender in this way.
        let answer = refuse(far, Service::FilesToCaller, Failure::new(FailureCode::Unsuited, "it sends"));
        let calls = send(near, roots(std::slice::from_ref(&root)), SendOptions::default(), log());
        let sentence = tokio::join!(calls, answer).0.unwrap_err().to_string();
        assert!(sentence.contains("sends files, too: one of the two must receive"), "{sentence}");
        let (near, far) = duplex(buffer_bytes);
        let (calls, listens) = tokio::join!(
            receive_over(near, Service::FilesToCaller, flushing(one.path()), log(), std::future::pending()),
            receive(far, flushing(other.path()), log(), std::future::pending())
        );
        for ended in [calls, listens] {
            let sentence = ended.unwrap_err().to_string();
            assert!(sentence.contains("receives files, too: one of the two must send"), "{sentence}");
        }
    }
    assert!(tree(one.path()).is_empty() && tree(other.path()).is_empty());
}

#[test]
fn a_receiver_that_calls_gets_a_tree_and_hears_a_refusal() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = sample(here.path());
    let log = || Arc::new(Log::default()) as Arc<dyn Observer>;
    let receiving =
        |near| receive_over(near, Service::FilesToCaller, flushing(there.path()), log(), std::future::pending());
    run(async {
        let (near, far) = duplex(64);
        let failure = Failure::new(FailureCode::NotAdmitted, "no code\x1b[2J");
        let (received, ()) = tokio::join!(receiving(near), refuse(far, Service::FilesToCaller, failure));
        let sentence = received.unwrap_err().to_string();
        assert!(sentence.contains("no code") && !sentence.contains('\x1b'), "{sentence}");
        let (near, far) = duplex(1 << 16);
        let options = SendOptions { service: Service::FilesToCaller, ..SendOptions::default() };
        let (sent, received) =
            tokio::join!(send(far, roots(std::slice::from_ref(&root)), options, log()), receiving(near));
        assert_eq!((sent.unwrap().stored, received.unwrap().stored), (7, 7));
    });
    assert_eq!(tree(&there.path().join("tree")), tree(&root));
}

/// The audit log cannot be written from the first entry on.
#[test]
fn a_sender_that_cannot_write_down_what_it_sends_ends() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("one"), "one").unwrap();
    let (here, there) = duplex(1 << 20);
    let (sent, _) = run(async {
        tokio::join!(
            send(here, roots(&[from.path().join("one")]), SendOptions::default(), Arc::new(Unrecorded) as _),
            receive(there, flushing(to.path()), Arc::new(Log::default()) as _, std::future::pending())
        )
    });
    assert!(matches!(sent, Err(TransferError::SentNotRecorded)), "{sent:?}");
}

/// A stream is reset with code 0 if it was dropped, as at a program's end. The message states this instead of the code.
#[test]
fn a_peer_that_was_interrupted_is_called_so() {
    use dfcp::StreamError;
    for code_0 in [StreamError::Reset { code: 0 }, StreamError::Stopped { code: 0 }] {
        let sentence = TransferError::of_stream(code_0.into()).to_string();
        assert!(sentence.starts_with("the other side was interrupted") && !sentence.contains('0'), "{sentence}");
    }
    let other = TransferError::of_stream(StreamError::Reset { code: 7 }.into()).to_string();
    assert!(other.contains("code 7"), "{other}");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_with_the_way_to_send_it() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, kind) in [(pipe, "a pipe"), (socket, "a socket"), (PathBuf::from("/dev/null"), "a device")] {
        let sentence = Root::from_arguments(std::slice::from_ref(&path), None).unwrap_err().to_string();
        let shown = path.to_string_lossy();
        assert!(sentence.starts_with(&format!("cannot send {shown}: it is {kind}, not a file; ")), "{sentence}");
        assert!(sentence.ends_with("send its output as standard input"), "{sentence}");
    }
    let sentence = Root::from_arguments(&["/".into()], None).unwrap_err().to_string();
    assert!(sentence.starts_with("cannot send /: it has no name"), "{sentence}");
}

/// An error and its source are displayed in one line, so neither may repeat the other.
#[test]
fn a_name_that_leads_elsewhere_is_refused_once() {
    let error = anyhow::Error::from(Root::from_arguments(&["-".into()], Some("../x".as_ref())).unwrap_err());
    assert_eq!(format!("{error:#}"), "the name has a component which leaves its directory");
}
