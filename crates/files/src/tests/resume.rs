//! Tests of interrupted and resumed transfers, and of receivers that send false information about their partial files.

use std::io::Write;
use std::sync::atomic::Ordering;

use dfcp::{Cipher, Pattern, StaticKey};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::{Basis, Partial};
use dfcp_framing::frame::kind;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::hash_tree::{LEAF_BYTES, Shape};
use crate::limits::{BASES_MAX, PIECE_WAIT};
use crate::reading::{read_frame, read_preamble};
use crate::seal::Seal;
use crate::transport::memory::{Memory, connection};
use crate::transport::{RecvStream, Streams, Transport};

const STREAMS: u32 = 8;
const LEN: usize = 3_000_000;

fn content(seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

/// Returns a connection on which the receiver knows the sender's key, made from the seed `sender`.
fn known(sender: u8) -> (Memory, Memory) {
    let (near, mut far) = connection(STREAMS, 100_000);
    far.seal = Some(Seal {
        pattern: Pattern::Pinned,
        peer: Some(StaticKey::from_seed(&[sender; 32]).public()),
        pre_shared: None,
        handshake_hash: [0; 32],
        cipher: Cipher::ChaCha20Poly1305,
    });
    (near, far)
}

fn keeping(output: &Path) -> Arc<Store> {
    let options = StoreOptions { keep_unfinished: true, ..StoreOptions::default() };
    Arc::new(Store::open(output, options).unwrap())
}

/// Returns the total length of the partial files in `output`, bytes.
fn unfinished(output: &Path) -> usize {
    let parts = walkdir::WalkDir::new(output).into_iter().filter_map(Result::ok);
    let parts = parts.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"));
    parts.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file).map(|file| file.len() as usize).sum()
}

/// Sends `root` over a path that dies after `cut` bytes on the additional streams.
fn send_until(root: &Path, output: &Path, cut: usize) {
    let store = keeping(output);
    run(async {
        let (near, far) = known(1);
        let path_bytes = Arc::clone(&near.beside.path_bytes);
        path_bytes.store(cut, Ordering::SeqCst);
        let both = async {
            tokio::join!(
                send(near, roots(&[root.to_owned()]), SendOptions::default(), Arc::new(Log::default()) as _),
                receive(far, store, Arc::new(Log::default()) as _, std::future::pending())
            )
        };
        let dead = async {
            while path_bytes.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Wait until the receiver has stored the content received so far.
            tokio::time::sleep(2 * PIECE_WAIT).await;
        };
        tokio::select! {
            () = dead => {}
            done = both => panic!("it was not cut: {done:?}"),
        }
    });
}

async fn send_again(root: &Path, output: &Path, options: SendOptions) -> (Report, Arc<Log>) {
    let (near, far) = known(1);
    let log = Arc::new(Log::default());
    let (sent, received) = tokio::join!(
        send(near, roots(&[root.to_owned()]), options, Arc::clone(&log) as _),
        receive(far, keeping(output), Arc::new(Log::default()) as _, std::future::pending())
    );
    received.unwrap();
    (sent.unwrap(), log)
}

/// Creates a tree with two long files and some short ones.
fn sample(directory: &Path) -> PathBuf {
    let root = directory.join("tree");
    fs::create_dir_all(root.join("d")).unwrap();
    fs::write(root.join("d/one"), content(1)).unwrap();
    fs::write(root.join("two"), content(2)).unwrap();
    for number in 0..20 {
        fs::write(root.join(format!("d/small{number}")), vec![number; 1000]).unwrap();
    }
    root
}

#[test]
fn a_transfer_cut_off_anywhere_goes_on_and_arrives_whole() {
    let here = tempfile::tempdir().unwrap();
    let root = sample(here.path());
    for cut in [1, 100_000, 1_000_000, 3_000_000, 5_000_000, 2 * LEN] {
        let there = tempfile::tempdir().unwrap();
        send_until(&root, there.path(), cut);
        let (report, log) = run(send_again(&root, there.path(), SendOptions::default()));
        assert!(report.is_complete(), "{cut}: {:?}", report.failures);
        assert!(tree(&there.path().join("tree")) == tree(&root), "{cut}");
        let resumed: u64 = log.0.lock().unwrap().iter().map(|outcome| outcome.resumed_bytes).sum();
        assert_eq!(resumed, report.resumed_bytes);
        let is_whole = |outcome: &&EntryOutcome| outcome.is_unchanged && outcome.bytes == LEN as u64;
        let whole = log.0.lock().unwrap().iter().filter(is_whole).count() as u64 * LEN as u64;
        // Content that may be sent twice: one leaf of each long file, and frame headers.
        assert!(resumed + whole + 2 * LEAF_BYTES + 2000 >= cut as u64, "{cut}: {resumed}");
        assert_eq!(unfinished(there.path()), 0);
    }
}

#[test]
fn a_file_changed_in_between_arrives_as_it_is_then() {
    let here = tempfile::tempdir().unwrap();
    let root = sample(here.path());
    let one = root.join("d/one");
    let time = filetime::FileTime::from_last_modification_time(&fs::metadata(&one).unwrap());
    for is_told in [false, true] {
        let there = tempfile::tempdir().unwrap();
        send_until(&root, there.path(), 2_500_000);
        let mut changed = content(1);
        changed[70_000] ^= 1 + u8::from(is_told);
        fs::write(&one, &changed).unwrap();
        if !is_told {
            filetime::set_file_mtime(&one, time).unwrap();
        }
        let (report, log) = run(send_again(&root, there.path(), SendOptions::default()));
        assert!(report.is_complete(), "{:?}", report.failures);
        assert!(tree(&there.path().join("tree")) == tree(&root));
        let log = log.0.lock().unwrap();
        let outcome = log.iter().find(|outcome| outcome.name == "tree/d/one").unwrap();
        assert_eq!(outcome.resumed_bytes > 0, !is_told, "one with another time begins anew");
    }
}

#[test]
fn a_sender_that_is_told_to_begins_anew() {
    let here = tempfile::tempdir().unwrap();
    let root = sample(here.path());
    let there = tempfile::tempdir().unwrap();
    send_until(&root, there.path(), 2_500_000);
    let options = SendOptions { resume: false, ..SendOptions::default() };
    let (report, _) = run(send_again(&root, there.path(), options));
    assert!(report.is_complete() && report.resumed == 0, "{:?}", report.failures);
    assert!(tree(&there.path().join("tree")) == tree(&root));
    assert_eq!(unfinished(there.path()), 0);
}

#[test]
fn what_is_there_already_is_not_sent() {
    let here = tempfile::tempdir().unwrap();
    let root = sample(here.path());
    let there = tempfile::tempdir().unwrap();
    let (first, _) = run(send_again(&root, there.path(), SendOptions::default()));
    assert_eq!((first.stored, first.unchanged), (24, 0));
    for checksum in [false, true] {
        let options = SendOptions { checksum, ..SendOptions::default() };
        let (again, log) = run(send_again(&root, there.path(), options));
        assert_eq!((again.stored, again.unchanged, again.failed), (2, 22, 0), "two directories");
        // Content that is sent before the receiver's first frame is not offered, but compared at the receiver.
        assert!(again.last.done_bytes <= crate::limits::FIRST_STREAM_BYTES_MAX, "{}", again.last.done_bytes);
        assert!(again.last.total_bytes.unwrap() <= crate::limits::FIRST_STREAM_BYTES_MAX);
        let log = log.0.lock().unwrap();
        let one = log.iter().find(|outcome| outcome.name == "tree/d/one").unwrap();
        assert_eq!((one.bytes, one.hash.is_some()), (LEN as u64, checksum));
    }
    // The file has new content and the old time: a comparison by time would find it equal, a comparison by hash does
    // not.
    let one = root.join("d/one");
    let time = filetime::FileTime::from_last_modification_time(&fs::metadata(&one).unwrap());
    fs::write(&one, content(3)).unwrap();
    filetime::set_file_mtime(&one, time).unwrap();
    let (report, _) = run(send_again(&root, there.path(), SendOptions { checksum: true, ..SendOptions::default() }));
    assert_eq!((report.failed, report.failures[0].0.as_str()), (1, "tree/d/one"));
}

/// With --force, unchanged files of the same sender are not rewritten. Even their inodes stay the same, because
/// snapshots may contain hard links to them.
#[cfg(unix)]
#[test]
fn own_files_that_are_the_same_are_not_written_again_with_force() {
    use std::os::unix::fs::MetadataExt;
    const FILES: u64 = 300;
    let here = tempfile::tempdir().unwrap();
    let root = here.path().join("tree");
    fs::create_dir(&root).unwrap();
    for number in 0..FILES {
        fs::write(root.join(format!("f{number}")), number.to_string().repeat(if number % 3 == 0 { 0 } else { 250 }))
            .unwrap();
    }
    let there = tempfile::tempdir().unwrap();
    let replacing = StoreOptions { replace: true.into(), keep_unfinished: true, ..StoreOptions::default() };
    for (has_met, is_first) in [(false, true), (false, false), (true, false)] {
        let states = || {
            let found = walkdir::WalkDir::new(there.path()).sort_by_file_name().into_iter().map(Result::unwrap);
            let files = found.filter(|found| found.file_type().is_file());
            files.map(|file| file.metadata().unwrap()).map(|it| (it.ino(), it.ctime_nsec())).collect::<Vec<_>>()
        };
        let before = states();
        let report = run(async {
            let (mut near, far) = known(1);
            let seal = far.seal.unwrap();
            let pattern = if has_met { Pattern::Pinned } else { Pattern::FirstContact };
            near.seal = Some(Seal { pattern, peer: Some(StaticKey::from_seed(&[9; 32]).public()), ..seal });
            let store = Arc::new(Store::open(there.path(), replacing.clone()).unwrap());
            let (sent, received) = tokio::join!(
                send(near, roots(std::slice::from_ref(&root)), SendOptions::default(), Arc::new(Log::default()) as _),
                receive(far, store, Arc::new(Log::default()) as _, std::future::pending())
            );
            received.unwrap();
            sent.unwrap()
        });
        if is_first {
            assert_eq!((report.stored, report.unchanged, report.failed), (FILES + 1, 0, 0));
            continue;
        }
        let rewritten = before.iter().zip(&states()).filter(|(before, now)| before != now).count();
        assert_eq!((report.unchanged, rewritten), (FILES, 0), "of {FILES} files");
        let sent = report.last.done_bytes;
        assert!(
            !has_met || sent <= crate::limits::FIRST_STREAM_BYTES_KNOWN_MAX,
            "{sent} bytes were sent before the answer"
        );
    }
}

/// A request of about a hundred bytes makes the receiver read a file for hours, unless reading stops with the session.
#[cfg(target_os = "linux")]
#[test]
fn a_receiver_reads_nothing_more_for_a_sender_that_is_gone() {
    let there = tempfile::tempdir().unwrap();
    let long = fs::File::create(there.path().join("f")).unwrap();
    long.set_len(1 << 42).unwrap();
    let ended = run(async {
        let (mut near, far) = known(1);
        let owner = crate::owner::Owner::of(far.seal.as_ref()).unwrap();
        crate::beneath::set_sender(&long, Some(owner.as_str())).unwrap();
        let receiving =
            tokio::spawn(receive(far, keeping(there.path()), Arc::new(Log::default()) as _, std::future::pending()));
        let entry = Entry {
            index: 0,
            directories: 0,
            mode: 0o644,
            mtime_s: 0,
            mtime_ns: 0,
            size_hint_bytes: 0,
            len: Some(1 << 42),
            name: b"f".to_vec(),
        };
        let mut bytes = Service::Files.preamble().to_vec();
        ToReceiver::Offer { hash: Some([7; 32]), asks_only: false, takes_basis: false, entry }.encode(&mut bytes);
        near.write_all(&bytes).await.unwrap();
        // Wait until the receiver is reading the file.
        read_preamble(&mut near, Service::Files).await.unwrap();
        tokio::time::sleep(2 * PIECE_WAIT).await;
        drop(near);
        tokio::time::timeout(Duration::from_secs(60), receiving).await.expect("it still reads").unwrap()
    });
    assert!(ended.is_err(), "{ended:?}");
}

#[test]
fn a_file_that_becomes_shorter_while_it_goes_on_is_sent_as_a_whole() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("f");
    fs::write(&file, content(1)).unwrap();
    let script = |offset: u64| async move {
        // The receiver never sends its comparison, so the sender waits. Meanwhile, the file is truncated.
        let (near, mut far) = known(1);
        let (partial, beside) = (partial_of(&file, offset), far.streams().unwrap());
        far.write_all(&greeting(&[partial])).await.unwrap();
        let file_in = file.clone();
        let read = async {
            let (mut bytes, mut stream) = first_data(&*beside).await;
            fs::OpenOptions::new().write(true).open(&file_in).unwrap().set_len(offset + 10).unwrap();
            stream.read_to_end(&mut bytes).await.unwrap();
            bytes
        };
        let sending = send(near, roots(&[file]), SendOptions::default(), Arc::new(Log::default()) as _);
        tokio::select! {
            bytes = read => bytes,
            sent = sending => panic!("{sent:?}"),
        }
    };
    let bytes = run(script(LEAF_BYTES));
    let mut end = Vec::new();
    let whole = &content(1)[..LEAF_BYTES as usize + 10];
    ToReceiver::FileEnd { len: whole.len() as u64, hash: *blake3::hash(whole).as_bytes() }.encode(&mut end);
    assert!(bytes.ends_with(&end));
}

/// Returns content longer than all buffers.
fn long(seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; 8_000_000];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

/// Sends `file`, which is overwritten with `after` once `bytes` of its content have arrived on additional streams.
fn send_changing(file: &Path, output: &Path, options: SendOptions, bytes: usize, after: &[u8]) -> Report {
    let store = StoreOptions { keep_unfinished: true, replace: true.into(), ..StoreOptions::default() };
    let store = Arc::new(Store::open(output, store).unwrap());
    run(async {
        let (near, far) = known(1);
        let path_bytes = Arc::clone(&near.beside.path_bytes);
        path_bytes.store(bytes, Ordering::SeqCst);
        let meanwhile = async {
            while path_bytes.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Overwrite in place, so that the file is never shorter.
            fs::OpenOptions::new().write(true).open(file).unwrap().write_all(after).unwrap();
            path_bytes.store(usize::MAX, Ordering::SeqCst);
        };
        let (sent, received, ()) = tokio::join!(
            send(near, roots(&[file.to_owned()]), options, Arc::new(Log::default()) as _),
            receive(far, store, Arc::new(Log::default()) as _, std::future::pending()),
            meanwhile
        );
        received.unwrap();
        sent.unwrap()
    })
}

#[test]
fn a_file_that_changes_while_it_goes_on_is_sent_as_a_whole() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = here.path().join("f");
    fs::write(&file, long(1)).unwrap();
    send_until(&file, there.path(), 2_000_000);
    let report = send_changing(&file, there.path(), SendOptions::default(), 500_000, &long(2));
    assert!(fs::read(there.path().join("f")).unwrap() == long(2), "a mixture was stored");
    assert_eq!((report.stored, report.failed, report.resumed), (1, 0, 0), "{:?}", report.failures);
    assert_eq!(unfinished(there.path()), 0);
}

#[test]
fn a_file_of_which_only_changes_are_sent_is_sent_anew_if_it_changes_meanwhile() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = here.path().join("f");
    fs::write(&file, long(1)).unwrap();
    assert!(run(send_again(&file, there.path(), SendOptions::default())).0.is_complete());
    // Both versions share a part with the receiver's file, so that part is copied.
    let (old, new) =
        ([&long(1)[..2_000_000], &long(2)[2_000_000..]].concat(), [&long(3)[..], &long(1)[..2_000_000]].concat());
    fs::write(&file, old).unwrap();
    let options = SendOptions { delta: true, ..SendOptions::default() };
    let report = send_changing(&file, there.path(), options, 500_000, &new);
    assert!(fs::read(there.path().join("f")).unwrap() == new, "a mixture was stored");
    assert_eq!((report.stored, report.failed, report.copied), (1, 0, 1), "{:?}", report.failures);
}

/// Returns the first bytes of the first stream that carries data, and the rest of that stream.
async fn first_data(beside: &dyn Streams) -> (Vec<u8>, RecvStream) {
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..STREAMS {
        let mut stream = beside.accept().await.unwrap();
        readers.spawn(async move {
            let mut bytes = Vec::new();
            while bytes.is_empty() && stream.read_buf(&mut bytes).await.unwrap() > 0 {}
            (bytes, stream)
        });
    }
    loop {
        let (bytes, stream) = readers.join_next().await.unwrap().unwrap();
        if !bytes.is_empty() {
            return (bytes, stream);
        }
    }
}

fn partial_of(file: &Path, offset: u64) -> Partial {
    let time = filetime::FileTime::from_last_modification_time(&fs::metadata(file).unwrap());
    let (mtime_s, mtime_ns) = (time.unix_seconds(), time.nanoseconds());
    let name = file.file_name().unwrap().to_string_lossy().into_owned().into_bytes();
    Partial { offset, len: LEN as u64, mtime_s, mtime_ns, name }
}

fn greeting(partials: &[Partial]) -> Vec<u8> {
    let mut bytes = Service::Files.preamble().to_vec();
    let partials_count = u32::try_from(partials.len()).unwrap();
    ToSender::Hello(Hello { takes_offers: true, partials: partials_count, ..Hello::default() }).encode(&mut bytes);
    for partial in partials {
        ToSender::Partial(partial.clone()).encode(&mut bytes);
    }
    bytes
}

/// Returns the result of a sender of one file whose receiver sends `answers` and then nothing.
fn lied_to(partial: Option<u64>, answers: &[ToSender]) -> Result<Report, TransferError> {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("f");
    fs::write(&file, content(1)).unwrap();
    let partials: Vec<_> = partial.into_iter().map(|offset| partial_of(&file, offset)).collect();
    let mut bytes = greeting(&partials);
    for answer in answers {
        answer.encode(&mut bytes);
    }
    run(async {
        let (near, mut far) = known(1);
        let lie = async {
            far.write_all(&bytes[..]).await.unwrap();
            // Read everything from the sender, which might otherwise wait.
            let beside = far.streams().unwrap();
            let mut readers = tokio::task::JoinSet::new();
            let (mut first, mut is_ended) = (Vec::new(), false);
            loop {
                tokio::select! {
                    stream = beside.accept() => {
                        let Some(mut stream) = stream else { break };
                        readers.spawn(async move { drop(tokio::io::copy(&mut stream, &mut tokio::io::sink()).await) });
                    }
                    read = far.read_buf(&mut first), if !is_ended => is_ended = matches!(read, Ok(0) | Err(_)),
                }
            }
        };
        let sending = send(near, roots(&[file]), SendOptions::default(), Arc::new(Log::default()) as _);
        let lied = async {
            lie.await;
            std::future::pending().await
        };
        tokio::select! {
            sent = sending => sent,
            () = lied => unreachable!(),
            () = tokio::time::sleep(Duration::from_secs(20)) => panic!("the sender waits for {answers:?}"),
        }
    })
}

#[test]
fn a_receiver_that_lies_about_what_it_has_ends_the_session() {
    let offset = LEAF_BYTES * 20;
    let last = Shape::of(LEN as u64).unwrap().parts(0, offset).last().unwrap();
    let checked = |end, differ: &[u64]| ToSender::Checked { index: 0, end, differ: differ.to_vec() };
    let again = |answers: &[ToSender]| lied_to(Some(offset), answers);
    for (what, result) in [
        ("a second greeting", again(&[ToSender::Hello(Hello::default())])),
        ("one partial too many", again(&[ToSender::Partial(partial_of_nothing())])),
        ("a file that was not offered", again(&[ToSender::Want { index: 7 }])),
        ("one that is sent already", again(&[ToSender::Want { index: 0 }])),
        ("more than it has", again(&[checked(offset + LEAF_BYTES, &[])])),
        ("a part that it does not have", again(&[checked(offset, &[offset])])),
        ("the middle of a part", again(&[checked(offset, &[1])])),
        ("the same part twice", again(&[checked(last.end, &[last.start, last.start])])),
        (
            "of what a file consists, unasked",
            again(&[ToSender::Basis(Basis { index: 0, average_bytes: 1 << 16, chunks: Vec::new() })]),
        ),
        ("a directory of partials", lied_to(None, &[ToSender::Hello(Hello { partials: 1 << 30, ..Hello::default() })])),
        (
            "a file that it does not want, stored",
            lied_to(None, &[ToSender::Verdict { index: 0, outcome: Ok(Confirmed::Stored) }]),
        ),
    ] {
        let error = result.expect_err(what);
        assert!(matches!(error, TransferError::Protocol(_)), "{what}: {error}");
    }
}

/// Each reported older version takes memory until its file is requested.
#[test]
fn a_receiver_that_tells_of_more_older_versions_than_it_may_ends_the_session() {
    const FILES: u32 = 32;
    let here = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..FILES).map(|index| here.path().join(format!("f{index}"))).collect();
    // This length is too long for content sent before the receiver's first frame.
    let long = crate::limits::FIRST_STREAM_BYTES_MAX + 1;
    files.iter().for_each(|file| fs::File::create(file).unwrap().set_len(long).unwrap());
    let (refused, most) = run(async {
        let (near, mut far) = known(1);
        let options = SendOptions { delta: true, ..SendOptions::default() };
        let sending = send(near, roots(&files), options, Arc::new(Log::default()) as _);
        let mut told = 0;
        let lie = async {
            far.write_all(&greeting(&[])).await.unwrap();
            read_preamble(&mut far, Service::Files).await.unwrap();
            let (mut body, mut bytes) = (Vec::new(), Vec::new());
            for index in 0..FILES {
                assert_eq!(read_frame(&mut far, &mut body).await.unwrap(), Some(kind::OFFER));
                ToSender::Basis(Basis { index, average_bytes: 1 << 16, chunks: Vec::new() }).encode(&mut bytes);
            }
            for basis in bytes.chunks(bytes.len() / FILES as usize) {
                far.write_all(basis).await.unwrap();
                tokio::task::yield_now().await;
                told += 1;
            }
            std::future::pending::<()>().await
        };
        let refused = tokio::select! {
            sent = sending => sent.expect_err("it has to end"),
            () = lie => unreachable!(),
            () = tokio::time::sleep(Duration::from_secs(20)) => panic!("the sender takes {FILES} of them"),
        };
        (refused, told)
    });
    assert!(matches!(refused, TransferError::Protocol(ProtocolError::OutOfPlace { frame: "basis" })), "{refused}");
    assert!(most > BASES_MAX, "{most}");
}

fn partial_of_nothing() -> Partial {
    Partial { offset: 0, len: 1, mtime_s: 0, mtime_ns: 0, name: b"x".to_vec() }
}

/// If a partial file does not match by length, time or offset, the file is sent as a whole.
#[test]
fn what_does_not_fit_the_file_is_not_gone_on_with() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("f");
    fs::write(&file, content(1)).unwrap();
    let good = partial_of(&file, LEAF_BYTES);
    for (what, partial) in [
        ("its place", Partial { offset: LEAF_BYTES + 1, ..good.clone() }),
        ("nothing", Partial { offset: 0, ..good.clone() }),
        ("all of it", Partial { offset: LEN as u64, ..good.clone() }),
        ("its length", Partial { len: LEN as u64 - 1, ..good.clone() }),
        ("its time", Partial { mtime_ns: good.mtime_ns ^ 1, ..good.clone() }),
        ("its name", Partial { name: b"g".to_vec(), ..good }),
    ] {
        let file = file.clone();
        let kind = run(async move {
            let (near, mut far) = known(1);
            let mut bytes = Service::Files.preamble().to_vec();
            ToSender::Hello(Hello { partials: 1, ..Hello::default() }).encode(&mut bytes);
            ToSender::Partial(partial).encode(&mut bytes);
            far.write_all(&bytes).await.unwrap();
            let beside = far.streams().unwrap();
            let first = async { first_data(&*beside).await.0[0] };
            tokio::select! {
                kind = first => kind,
                sent = send(near, roots(&[file]), SendOptions::default(), Arc::new(Log::default()) as _) => panic!("{sent:?}"),
            }
        });
        assert_eq!(kind, kind::FILE, "{what}");
    }
}
