//! Malicious senders: hostile names and frames, sent over an encrypted stream.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use dfcp::{Config, Listener, PeerKey, Stream};
use dfcp_end_to_end_tests::live::local;
use dfcp_files::transport::Transport;
use dfcp_files::{
    EntryOutcome, Observer, Receiver, Report, Root, Sender, Skipped, Snapshot, Store, StoreOptions, TransferError,
};
use dfcp_framing::files::{Entry, ToReceiver};
use dfcp_framing::frame::Service;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// An encrypted stream as a transport.
struct Sealed(Stream);

impl Transport for Sealed {}

impl AsyncRead for Sealed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Sealed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[derive(Default)]
struct Log(Mutex<Vec<EntryOutcome>>);

impl Observer for Log {
    fn entry(&self, outcome: &EntryOutcome) {
        self.0.lock().unwrap().push(outcome.clone());
    }
    fn skipped(&self, _name: &str, _what: Skipped) {}
    fn progress(&self, _snapshot: &Snapshot) {}
}

/// All files and directories below `root`, by relative name, with the content of files.
fn tree(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let is_directory = path.symlink_metadata().unwrap().is_dir();
            if path.is_symlink() {
                continue;
            }
            found.insert(name, (!is_directory).then(|| fs::read(&path).unwrap()));
            if is_directory {
                directories.push(path);
            }
        }
    }
    found
}

/// Receiver's result for `bytes` that a sender writes after the preamble.
async fn say(output: &Path, bytes: Vec<u8>) -> (Result<Report, TransferError>, Vec<EntryOutcome>) {
    let config = Config::sealed(PeerKey::Any).with_time_wait(Duration::from_millis(100));
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = tokio::join!(Stream::connect(address, config), listener.accept());
    let (mut reader, mut writer) = sender.unwrap().into_split();
    let log = Arc::new(Log::default());
    let store = Arc::new(Store::open(output, StoreOptions::default()).unwrap());
    let receiving =
        tokio::spawn(Receiver::new(store).observer(Arc::clone(&log) as _).receive(Sealed(receiver.unwrap())).finish());
    let writing = tokio::spawn(async move {
        writer.write_all(&Service::Files.preamble()).await?;
        writer.write_all(&bytes).await?;
        writer.shutdown().await
    });
    let reading = tokio::spawn(async move {
        let mut answers = Vec::new();
        reader.read_to_end(&mut answers).await
    });
    let report = tokio::time::timeout(Duration::from_secs(60), receiving).await.unwrap().unwrap();
    // The receiver may close during the writing.
    let _closed = writing.await.unwrap();
    let _closed = reading.await.unwrap();
    let outcomes = log.0.lock().unwrap().clone();
    (report, outcomes)
}

/// Entry number `index`, without directories before it.
fn entry(index: u32, name: &[u8]) -> Entry {
    Entry {
        index,
        directories: 0,
        mode: 0o6777,
        mtime_s: 1,
        mtime_ns: 0,
        size_hint_bytes: 0,
        len: None,
        name: name.to_vec(),
    }
}

fn end(entries: u32, out: &mut Vec<u8>) {
    ToReceiver::End { entries, streams: 0 }.encode(out);
}

fn file(index: u32, name: &[u8], content: &[u8], out: &mut Vec<u8>) {
    ToReceiver::File(entry(index, name)).encode(out);
    if !content.is_empty() {
        ToReceiver::Data(content.to_vec()).encode(out);
    }
    ToReceiver::FileEnd { len: content.len() as u64, hash: *blake3::hash(content).as_bytes() }.encode(out);
}

fn hostile_names() -> Vec<Vec<u8>> {
    let texts = [
        "",
        "/",
        "/etc/passwd",
        "..",
        "../evil",
        "a/../../evil",
        "./evil",
        "a//b",
        "evil/",
        "a/./b",
        "link/evil",
        "link",
        ".dfcp-x.part",
        "a/.dfcp-evil.part",
        "nul\0byte",
        "missing/evil",
        "//evil",
        "kept/../../evil",
    ];
    let mut names: Vec<Vec<u8>> = texts.into_iter().map(|text| text.as_bytes().to_vec()).collect();
    names.push(vec![b'n'; 256]);
    names.push(vec![b'n'; 4_097]);
    names.push([b"d/".repeat(64), b"evil".to_vec()].concat());
    names.push(b"bad\xFF/../../evil".to_vec());
    names.push(b"bad\xFF\0".to_vec());
    names.push(b"\xC0\xAE\xC0\xAE/evil".to_vec());
    names
}

#[tokio::test]
async fn hostile_names_leave_the_directory_alone_and_the_others_go_on() {
    let around = tempfile::tempdir().unwrap();
    let (output, outside) = (around.path().join("output"), around.path().join("outside"));
    fs::create_dir_all(&output).unwrap();
    fs::create_dir_all(&outside).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&outside, output.join("link")).unwrap();
    let mut bytes = Vec::new();
    file(0, b"first", b"one", &mut bytes);
    let names = hostile_names();
    let last = names.len() as u32 + 2;
    for (index, name) in (1..).zip(&names) {
        file(index, name, b"evil", &mut bytes);
    }
    ToReceiver::Directory(entry(last - 1, b"kept")).encode(&mut bytes);
    file(last, b"kept/last", b"two", &mut bytes);
    end(last + 1, &mut bytes);
    let (report, outcomes) = say(&output, bytes).await;
    let report = report.unwrap();
    assert_eq!((report.stored, report.failed), (3, names.len() as u64), "{:?}", report.failures);
    assert_eq!(outcomes.len(), names.len() + 3);
    assert_eq!(tree(&outside), BTreeMap::new());
    let found = tree(around.path());
    let files: Vec<&str> =
        found.iter().filter(|(_, content)| content.is_some()).map(|(name, _)| name.as_str()).collect();
    let expected: &[&str] = &["output/first", "output/kept/last"];
    assert_eq!(files, expected);
    assert!(outcomes.iter().all(|it| it.name.chars().all(|c| !c.is_control())), "a name is not fit for a terminal");
    #[cfg(unix)]
    for stored in ["first", "kept", "kept/last"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(output.join(stored)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7000, 0, "set-user-id or its like was granted: {stored} {mode:o}");
        assert_eq!(mode & 0o022, 0, "others may write: {stored} {mode:o}");
    }
}

#[tokio::test]
async fn more_than_the_disk_has_room_for_is_refused_and_the_others_go_on() {
    let output = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    for (index, size_hint_bytes) in [(0, u64::MAX), (1, 1 << 60)] {
        ToReceiver::File(Entry { size_hint_bytes, ..entry(index, b"huge") }).encode(&mut bytes);
        ToReceiver::Data(b"data".to_vec()).encode(&mut bytes);
        ToReceiver::FileAbort("refused".to_owned()).encode(&mut bytes);
    }
    file(2, b"small", b"small", &mut bytes);
    end(3, &mut bytes);
    let (report, outcomes) = say(output.path(), bytes).await;
    assert_eq!(report.map(|it| (it.stored, it.failed)).unwrap(), (1, 2));
    assert!(outcomes[0].failure.as_ref().unwrap().contains("free some space"), "{outcomes:?}");
    assert_eq!(tree(output.path()).into_keys().collect::<Vec<_>>(), ["small"]);
}

#[tokio::test]
async fn content_which_is_not_what_its_hash_says_is_not_kept() {
    let output = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    let lies: [(&[u8], u64, [u8; 32]); 3] =
        [(b"hash", 4, [7; 32]), (b"length", 5, *blake3::hash(b"data").as_bytes()), (b"both", u64::MAX, [0; 32])];
    for (index, (name, len, hash)) in (0..).zip(lies) {
        ToReceiver::File(entry(index, name)).encode(&mut bytes);
        ToReceiver::Data(b"data".to_vec()).encode(&mut bytes);
        ToReceiver::FileEnd { len, hash }.encode(&mut bytes);
    }
    end(3, &mut bytes);
    let (report, _) = say(output.path(), bytes).await;
    assert_eq!(report.map(|it| (it.stored, it.failed)).unwrap(), (0, 3));
    assert_eq!(tree(output.path()), BTreeMap::new());
}

#[tokio::test]
async fn frames_cut_or_overlong_or_out_of_place_end_the_session_and_leave_nothing_half() {
    let mut whole = Vec::new();
    file(0, b"first", b"one", &mut whole);
    ToReceiver::File(entry(1, b"second")).encode(&mut whole);
    let complete_bytes = whole.len();
    ToReceiver::Data(vec![5; 5_000]).encode(&mut whole);
    let header = |kind: u8, length: u32| [[kind].as_slice(), &length.to_be_bytes()].concat();
    let tails = [
        ("cut in a header", vec![3, 0]),
        ("cut in a body", header(3, 1_000)),
        ("four gigabytes announced", header(3, u32::MAX)),
        ("a name of 16 MB announced", header(2, 16 << 20)),
        ("an unknown type", header(0x7F, 0)),
        ("an answer", header(0x41, 5)),
        ("no data", header(3, 0)),
        ("a file inside a file", {
            let mut out = Vec::new();
            file(2, b"third", b"", &mut out);
            out
        }),
        ("an end inside a file", {
            let mut out = Vec::new();
            end(2, &mut out);
            out
        }),
    ];
    for (name, tail) in tails {
        let output = tempfile::tempdir().unwrap();
        let (report, _) = say(output.path(), [whole.clone(), tail].concat()).await;
        let error = report.map(|it| it.stored).expect_err(name).to_string();
        assert!(error.len() > 20, "{name}: {error}");
        let expected = BTreeMap::from([("first".to_owned(), Some(b"one".to_vec()))]);
        assert_eq!(tree(output.path()), expected, "{name}");
    }
    assert!(complete_bytes > 0);
}

#[tokio::test]
async fn random_frames_end_in_an_error_and_write_nothing_outside() {
    for seed in 0..25 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let around = tempfile::tempdir().unwrap();
        let output = around.path().join("output");
        let mut bytes = Vec::new();
        file(0, b"first", b"one", &mut bytes);
        for _ in 0..random.random_range(1..20) {
            let mut body = vec![0; random.random_range(0..200)];
            random.fill_bytes(&mut body);
            let length = if random.random_bool(0.8) { body.len() as u32 } else { random.random() };
            bytes.push(random.random_range(0..12));
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&body);
        }
        let (report, _) = say(&output, bytes).await;
        assert!(report.is_err(), "seed {seed}");
        let outside = tree(around.path()).keys().filter(|name| !name.starts_with("output")).count();
        assert_eq!(outside, 0, "seed {seed}");
        let unfinished = tree(&output).keys().filter(|name| name.ends_with(".part")).count();
        assert_eq!(unfinished, 0, "seed {seed}");
    }
}

/// Another user of the receiver's machine, who can rename entries in the output directory: while 2000 files are sent into `d`, it is
/// alternately a directory and a link to an outside one.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_becomes_a_link_and_back_leads_nothing_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    const FILES: u32 = 2_000;
    let around = tempfile::tempdir().unwrap();
    let (output, outside) = (around.path().join("output"), around.path().join("outside"));
    fs::create_dir_all(output.join("d")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    let link = around.path().join("link");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let attacker = std::thread::spawn({
        let (over, directory) = (Arc::clone(&over), output.join("d"));
        move || {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, &link, CWD, &directory, RenameFlags::EXCHANGE).unwrap();
            }
        }
    });
    let mut bytes = Vec::new();
    ToReceiver::Directory(entry(0, b"d")).encode(&mut bytes);
    for number in 1..=FILES {
        file(number, format!("d/{number}").as_bytes(), b"evil", &mut bytes);
    }
    end(FILES + 1, &mut bytes);
    let (report, _) = say(&output, bytes).await;
    over.store(true, Ordering::Relaxed);
    attacker.join().unwrap();
    let report = report.unwrap();
    assert_eq!(report.stored + report.failed, u64::from(FILES) + 1);
    assert_eq!(tree(&outside).len(), 0, "files were written outside");
}

/// Observer that signals the end of a sender's search.
#[cfg(unix)]
#[derive(Default)]
struct Searched(tokio::sync::Notify);

#[cfg(unix)]
impl Observer for Searched {
    fn entry(&self, _outcome: &EntryOutcome) {}
    fn skipped(&self, _name: &str, _what: Skipped) {}
    fn progress(&self, snapshot: &Snapshot) {
        if snapshot.total_is_final {
            self.0.notify_one();
        }
    }
}

/// Another user of the sender's machine, who can write to the sent tree: a file becomes a link, a directory becomes a link, and a file
/// becomes a pipe, all after the search and before they are read.
#[cfg(unix)]
#[tokio::test]
async fn links_and_pipes_that_appear_in_a_tree_while_it_is_sent_are_not_read() {
    use std::os::unix::fs::symlink;

    let around = tempfile::tempdir().unwrap();
    let (root, outside) = (around.path().join("tree"), around.path().join("outside"));
    fs::create_dir_all(root.join("directory")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), b"secret").unwrap();
    // The first file keeps the reader busy: more than all buffers on the path. It takes no disk space.
    fs::File::create(root.join("0")).unwrap().set_len(12 << 20).unwrap();
    for name in ["directory/secret", "file", "last", "pipe"] {
        fs::write(root.join(name), b"inside").unwrap();
    }
    let config = Config::sealed(PeerKey::Any)
        .with_time_wait(Duration::from_millis(100))
        .with_send_buffer_bytes(1 << 20)
        .with_receive_memory_bytes(1 << 20);
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let (sender, receiver) = tokio::join!(Stream::connect(listener.local_addr().unwrap(), config), listener.accept());
    let searched = Arc::new(Searched::default());
    let roots = Root::from_arguments(std::slice::from_ref(&root), None).unwrap();
    let sending =
        tokio::spawn(Sender::new().observer(Arc::clone(&searched) as _).send(Sealed(sender.unwrap()), roots).finish());
    searched.0.notified().await;
    fs::remove_file(root.join("file")).unwrap();
    symlink(outside.join("secret"), root.join("file")).unwrap();
    fs::rename(root.join("directory"), around.path().join("away")).unwrap();
    symlink(&outside, root.join("directory")).unwrap();
    fs::remove_file(root.join("pipe")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());

    let output = around.path().join("output");
    let store = Arc::new(Store::open(&output, StoreOptions::default()).unwrap());
    let received =
        Receiver::new(store).observer(Arc::new(Log::default()) as _).receive(Sealed(receiver.unwrap())).finish();
    let received = tokio::time::timeout(Duration::from_secs(60), received).await.expect("it hangs").unwrap();
    let sent = tokio::time::timeout(Duration::from_secs(60), sending).await.unwrap().unwrap().unwrap();
    let stored: Vec<String> = tree(&output).into_keys().collect();
    assert_eq!(stored, ["tree", "tree/0", "tree/directory", "tree/last"]);
    assert_eq!((sent.stored, sent.failed, received.stored), (4, 3, 4), "{:?}", sent.failures);
}
