//! Tests of resumed and offered files, and of senders that send false information about them.

#[cfg(target_os = "linux")]
mod full_disk;

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use blake3::hazmat::HasherExt;
use dfcp_framing::error::EXISTS;
use dfcp_framing::files::{Hello, Partial};

use super::*;
use crate::hash_tree::{LEAF_BYTES, Part, Shape};
use crate::store::{Store, StoreOptions};

const LEN: usize = 5_000_000;
/// Length of the content left by an earlier session, bytes.
const LEFT: usize = 3_000_000;

fn content(seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

pub(super) fn alice() -> Owner {
    Owner::from_fingerprint("SHA256:alice")
}

fn entry() -> Entry {
    Entry {
        index: 0,
        directories: 0,
        mode: 0o644,
        mtime_s: 5,
        mtime_ns: 6,
        size_hint_bytes: LEN as u64,
        len: Some(LEN as u64),
        name: b"f".to_vec(),
    }
}

fn shape() -> Shape {
    Shape::of(LEN as u64).unwrap()
}

/// Session driven by the test.
pub(super) struct Session {
    pub(super) assembler: Assembler,
    pokes: Receiver<Ready>,
}

impl Session {
    pub(super) fn open(output: &Path, owner: &Owner, options: StoreOptions) -> Self {
        Self::of(Arc::new(Store::open(output, options).unwrap()), owner)
    }

    /// Opens a session on `store`, which several sessions may share.
    pub(super) fn of(store: Arc<Store>, owner: &Owner) -> Self {
        let (poke, pokes) = channel();
        let poke = Mutex::new(poke);
        let poke: Poke = Arc::new(move |ready| {
            let _ = poke.lock().unwrap().send(ready);
        });
        Self { assembler: Assembler::new(store, Some(owner.clone()), poke), pokes }
    }

    pub(super) fn say(&mut self, frame: &ToReceiver) -> Result<Vec<ToSender>, TransferError> {
        self.assembler.handle(0, frame)?;
        Ok(self.assembler.take_answers())
    }

    pub(super) fn greeted(&mut self) -> Vec<ToSender> {
        self.assembler.greet();
        self.assembler.take_answers()
    }

    /// Waits for the result of a worker thread and processes it.
    pub(super) fn await_ready(&mut self) {
        let ready = self.pokes.recv_timeout(Duration::from_secs(60)).unwrap();
        self.assembler.ready(ready).unwrap();
    }

    /// Sends `content` in data frames.
    pub(super) fn data(&mut self, content: &[u8]) {
        for piece in content.chunks(200_000) {
            assert_eq!(self.say(&ToReceiver::Data(piece.to_vec())).unwrap(), []);
        }
    }

    /// Sends the chaining values of the first `offset` bytes. Returns the start offsets of the parts that the receiver
    /// requests again.
    fn compare(&mut self, content: &[u8], offset: u64) -> Vec<u64> {
        let parts: Vec<_> = shape().parts(0, offset).collect();
        let values = parts.iter().map(|part| value(content, *part)).collect::<Vec<_>>();
        let mut answers = self.say(&ToReceiver::Tree(values)).unwrap();
        let mut asked = Vec::new();
        loop {
            for answer in answers {
                let ToSender::Checked { index: 0, end, differ } = answer else { panic!("{answer:?}") };
                asked.extend(differ);
                if end == offset {
                    asked.sort_unstable();
                    return asked;
                }
            }
            let ready = self.pokes.recv_timeout(Duration::from_secs(60)).unwrap();
            self.assembler.ready(ready).unwrap();
            answers = self.assembler.take_answers();
        }
    }

    /// Sends the end frame of the file and returns the file's outcome.
    pub(super) fn end(&mut self, content: &[u8]) -> Result<Confirmed, Failure> {
        let hash = *blake3::hash(content).as_bytes();
        self.assembler.handle(0, &ToReceiver::FileEnd { len: content.len() as u64, hash }).unwrap();
        self.assembler.publish().unwrap();
        let answers = self.assembler.take_answers();
        let [ToSender::Verdict { outcome, .. }] = &answers[..] else { panic!("{answers:?}") };
        outcome.clone()
    }
}

fn value(content: &[u8], part: Part) -> [u8; 32] {
    part.hasher().update(&content[part.start as usize..part.end as usize]).finalize_non_root()
}

pub(super) fn keeping() -> StoreOptions {
    StoreOptions { keep_unfinished: true, ..StoreOptions::default() }
}

/// Returns an output directory after an interrupted session of `alice`.
fn cut_off() -> tempfile::TempDir {
    let output = tempfile::tempdir().unwrap();
    let mut session = Session::open(output.path(), &alice(), keeping());
    assert_eq!(session.greeted(), [ToSender::Hello(Hello { keeps_links: cfg!(unix), ..Hello::default() })]);
    session.say(&ToReceiver::File(entry())).unwrap();
    session.data(&content(1)[..LEFT]);
    drop(session);
    output
}

/// Returns the offset at which the session can resume, bytes.
fn offset(session: &mut Session) -> u64 {
    let greeting = session.greeted();
    let [ToSender::Hello(Hello { partials: 1, .. }), ToSender::Partial(Partial { offset, .. })] = &greeting[..] else {
        panic!("{greeting:?}")
    };
    assert_eq!(*offset, LEFT as u64 / LEAF_BYTES * LEAF_BYTES);
    *offset
}

/// Returns a new session that has sent the rest of the content.
fn resumed(output: &Path) -> (Session, u64) {
    let mut session = Session::open(output, &alice(), keeping());
    let offset = offset(&mut session);
    session.say(&ToReceiver::Resume { offset, entry: entry() }).unwrap();
    session.data(&content(1)[offset as usize..]);
    (session, offset)
}

#[test]
fn a_file_that_was_cut_off_goes_on_where_it_was() {
    let output = cut_off();
    let (mut session, offset) = resumed(output.path());
    assert_eq!(session.compare(&content(1), offset), Vec::<u64>::new());
    assert_eq!(session.end(&content(1)), Ok(Confirmed::Stored));
    assert_eq!(fs::read(output.path().join("f")).unwrap(), content(1));
    assert_eq!(session.assembler.take_outcomes()[0].resumed_bytes, offset);
}

#[test]
fn what_has_changed_at_either_side_comes_again_and_nothing_else() {
    let mut changed = content(1);
    changed[2_500_000] ^= 1;
    for (is_disk, first) in [(false, 0_usize), (true, 1_100_000)] {
        let output = cut_off();
        let mut mine = content(1);
        mine[first] ^= 1;
        let theirs = if is_disk { content(1) } else { changed.clone() };
        if is_disk {
            let partial = fs::read_dir(output.path()).unwrap().map(|entry| entry.unwrap());
            let path = partial.map(|entry| entry.path()).find(|path| path.is_file()).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            bytes[first] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        let mut session = Session::open(output.path(), &alice(), keeping());
        let offset = offset(&mut session);
        session.say(&ToReceiver::Resume { offset, entry: entry() }).unwrap();
        session.data(&theirs[offset as usize..]);
        let asked = session.compare(&theirs, offset);
        let place = if is_disk { first as u64 } else { 2_500_000 };
        let expected = shape().parts(0, offset).find(|part| (part.start..part.end).contains(&place)).unwrap();
        assert_eq!(asked, [expected.start]);
        session.say(&ToReceiver::Again { start: expected.start }).unwrap();
        session.data(&theirs[expected.start as usize..expected.end as usize]);
        assert_eq!(session.end(&theirs), Ok(Confirmed::Stored));
        assert_eq!(fs::read(output.path().join("f")).unwrap(), theirs);
    }
}

/// The file has the same length and time as the partial file, but no content in common with it.
#[test]
fn a_file_that_is_another_one_comes_again_as_a_whole() {
    let output = cut_off();
    let mut session = Session::open(output.path(), &alice(), keeping());
    let offset = offset(&mut session);
    session.say(&ToReceiver::Resume { offset, entry: entry() }).unwrap();
    session.data(&content(2)[offset as usize..]);
    let asked = session.compare(&content(2), offset);
    let parts: Vec<_> = shape().parts(0, offset).collect();
    assert_eq!(asked, parts.iter().map(|part| part.start).collect::<Vec<_>>());
    // Requested parts may arrive in any order.
    for part in parts.iter().rev() {
        session.say(&ToReceiver::Again { start: part.start }).unwrap();
        session.data(&content(2)[part.start as usize..part.end as usize]);
    }
    assert_eq!(session.end(&content(2)), Ok(Confirmed::Stored));
    assert_eq!(fs::read(output.path().join("f")).unwrap(), content(2));
}

#[test]
fn a_sender_that_lies_about_its_hashes_gets_no_other_file_stored() {
    // Lie: the hashes of the beginning are correct, and the final hash is that of another file.
    let output = cut_off();
    let (mut session, offset) = resumed(output.path());
    assert_eq!(session.compare(&content(1), offset), Vec::<u64>::new());
    assert_eq!(session.end(&content(2)).unwrap_err().code, FailureCode::Mismatch);
    assert!(!output.path().join("f").exists());
    assert_eq!(Session::open(output.path(), &alice(), keeping()).greeted().len(), 1, "nothing of it is kept");
    // Lie: a part is reported as changed, and other data follows for it.
    let output = cut_off();
    let (mut session, offset) = resumed(output.path());
    let mut lie = content(1);
    lie[0] ^= 1;
    let asked = session.compare(&lie, offset);
    let part = shape().parts(0, offset).next().unwrap();
    assert_eq!(asked, [part.start]);
    session.say(&ToReceiver::Again { start: part.start }).unwrap();
    session.data(&content(2)[..part.bytes() as usize]);
    assert_eq!(session.end(&content(1)).unwrap_err().code, FailureCode::Mismatch);
    assert!(!output.path().join("f").exists());
}

#[test]
fn a_sender_that_says_what_has_no_place_ends_its_session() {
    let parts: Vec<_> = shape().parts(0, LEFT as u64 / LEAF_BYTES * LEAF_BYTES).collect();
    let hash = *blake3::hash(&content(1)).as_bytes();
    let end = ToReceiver::FileEnd { len: LEN as u64, hash };
    let frames: [(&str, Vec<ToReceiver>); 6] = [
        ("the end before anything was compared", vec![end]),
        ("more hashes than parts", vec![ToReceiver::Tree(vec![[0; 32]; parts.len() + 1])]),
        ("a part again that nobody asked for", vec![ToReceiver::Again { start: 0 }]),
        ("a part again from its middle", vec![ToReceiver::Tree(vec![[0; 32]]), ToReceiver::Again { start: 1 }]),
        (
            "more than the part has",
            vec![
                ToReceiver::Tree(vec![[0; 32]]),
                ToReceiver::Again { start: 0 },
                ToReceiver::Data(vec![0; parts[0].bytes() as usize + 1]),
            ],
        ),
        (
            "another part inside of one",
            vec![
                ToReceiver::Tree(vec![[0; 32]; 2]),
                ToReceiver::Again { start: 0 },
                ToReceiver::Again { start: parts[1].start },
            ],
        ),
    ];
    for (what, frames) in frames {
        let output = cut_off();
        let (mut session, _) = resumed(output.path());
        let (last, before) = frames.split_last().unwrap();
        for frame in before {
            session.say(frame).unwrap();
        }
        let said = session.say(last);
        assert!(matches!(said, Err(TransferError::Protocol(_))), "{what}: {said:?}");
        drop(session);
        assert!(!output.path().join("f").exists());
    }
    // A file sent from its start has no beginning to compare.
    for frame in [ToReceiver::Tree(vec![[0; 32]]), ToReceiver::Again { start: 0 }] {
        let output = tempfile::tempdir().unwrap();
        let mut session = Session::open(output.path(), &alice(), keeping());
        session.say(&ToReceiver::File(entry())).unwrap();
        assert!(matches!(session.say(&frame), Err(TransferError::Protocol(_))));
    }
}

#[test]
fn a_file_that_cannot_go_on_is_refused_alone() {
    let output = cut_off();
    let mut session = Session::open(output.path(), &alice(), keeping());
    let offset = offset(&mut session);
    let answers = session.say(&ToReceiver::Resume { offset: offset + LEAF_BYTES, entry: entry() }).unwrap();
    let [ToSender::Verdict { index: 0, outcome: Err(failure) }] = &answers[..] else { panic!("{answers:?}") };
    assert!(failure.sentence.contains("send it again"), "{failure}");
    // Further frames of the failed file are ignored until the sender has learnt of the failure.
    for frame in [
        ToReceiver::Data(vec![0; 100]),
        ToReceiver::Tree(vec![[0; 32]]),
        ToReceiver::Again { start: 0 },
        ToReceiver::FileAbort(String::new()),
        ToReceiver::File(Entry { index: 1, len: None, name: b"g".to_vec(), ..entry() }),
    ] {
        assert_eq!(session.say(&frame).unwrap(), []);
    }
}

/// The file was stored in another way after this receiver had offered its partial file.
#[test]
fn a_file_that_is_there_by_now_is_refused_alone() {
    let output = cut_off();
    let mut session = Session::open(output.path(), &alice(), keeping());
    let offset = offset(&mut session);
    fs::write(output.path().join("f"), "something").unwrap();
    let answers = session.say(&ToReceiver::Resume { offset, entry: entry() }).unwrap();
    let [ToSender::Verdict { index: 0, outcome: Err(failure) }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(failure.code, FailureCode::Exists);
    for frame in [ToReceiver::Data(vec![0; 100]), ToReceiver::Tree(vec![[0; 32]]), ToReceiver::FileAbort(String::new())]
    {
        assert_eq!(session.say(&frame).unwrap(), []);
    }
}

/// Partial files count towards the limit: otherwise a sender could fill the disk with beginnings of files.
#[test]
fn what_is_left_counts_against_what_a_session_may_store() {
    let limited = |bytes: usize| StoreOptions { session_bytes_max: Some(bytes as u64), ..keeping() };
    // Within the limit, the rest of the file fits, but a second file does not.
    let output = cut_off();
    let mut session = Session::open(output.path(), &alice(), limited(LEN));
    let offset = offset(&mut session);
    let other =
        |index| Entry { index, len: Some(2_500_000), size_hint_bytes: 2_500_000, name: b"g".to_vec(), ..entry() };
    let refused = session.say(&ToReceiver::File(other(1))).unwrap();
    assert!(
        matches!(&refused[..], [ToSender::Verdict { outcome: Err(failure), .. }] if failure.code == FailureCode::DiskFull)
    );
    session.say(&ToReceiver::FileAbort(String::new())).unwrap();
    session.say(&ToReceiver::Resume { offset, entry: entry() }).unwrap();
    session.data(&content(1)[offset as usize..]);
    assert_eq!(session.compare(&content(1), offset), Vec::<u64>::new());
    assert_eq!(session.end(&content(1)), Ok(Confirmed::Stored));
    // A file that is restarted returns its reserved bytes.
    let output = cut_off();
    let mut session = Session::open(output.path(), &alice(), limited(LEN));
    session.greeted();
    session.say(&ToReceiver::File(entry())).unwrap();
    session.data(&content(2));
    assert_eq!(session.end(&content(2)), Ok(Confirmed::Stored));
}

mod offers {
    use super::*;

    fn store(output: &Path, owner: &Owner) {
        let mut session = Session::open(output, owner, keeping());
        session.say(&ToReceiver::File(entry())).unwrap();
        session.data(&content(1));
        assert_eq!(session.end(&content(1)), Ok(Confirmed::Stored));
    }

    /// Returns the answer to an offer in a session of `owner`.
    fn offer(output: &Path, owner: &Owner, options: StoreOptions, entry: Entry, hash: Option<[u8; 32]>) -> ToSender {
        let mut session = Session::open(output, owner, options);
        let mut answers =
            session.say(&ToReceiver::Offer { hash, asks_only: false, takes_basis: false, entry }).unwrap();
        session.assembler.publish().unwrap();
        answers.extend(session.assembler.take_answers());
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    const UNCHANGED: ToSender = ToSender::Verdict { index: 0, outcome: Ok(Confirmed::Unchanged) };
    const WANTED: ToSender = ToSender::Want { index: 0 };

    #[test]
    fn only_the_sender_of_a_file_learns_whether_it_is_there() {
        let output = tempfile::tempdir().unwrap();
        assert_eq!(offer(output.path(), &alice(), keeping(), entry(), None), WANTED, "there is none");
        store(output.path(), &alice());
        let answer = |owner: &Owner, entry, hash| offer(output.path(), owner, keeping(), entry, hash);
        assert_eq!(answer(&alice(), entry(), None), UNCHANGED);
        let bob = Owner::from_fingerprint("SHA256:bob");
        let hash = Some(*blake3::hash(&content(1)).as_bytes());
        let exists = Failure::new(FailureCode::Exists, EXISTS);
        let exists = ToSender::Verdict { index: 0, outcome: Err(exists) };
        let replacing = StoreOptions { replace: true.into(), ..keeping() };
        for (entry, hash) in [(entry(), None), (entry(), hash), (Entry { mtime_s: 1, ..entry() }, None)] {
            assert_eq!(answer(&bob, entry.clone(), hash), exists, "whatever it asks");
            assert_eq!(offer(output.path(), &bob, replacing.clone(), entry, hash), WANTED, "whatever it asks");
        }
        let all = StoreOptions { allow_update: true, ..keeping() };
        assert_eq!(offer(output.path(), &bob, all, entry(), None), UNCHANGED);
    }

    #[test]
    fn a_file_is_unchanged_by_size_and_time_or_by_its_hash() {
        let output = tempfile::tempdir().unwrap();
        store(output.path(), &alice());
        let replacing = StoreOptions { replace: true.into(), ..keeping() };
        let answer = |options, entry, hash| offer(output.path(), &alice(), options, entry, hash);
        let hash = |seed| Some(*blake3::hash(&content(seed)).as_bytes());
        let touched = || Entry { mtime_s: 9, ..entry() };
        assert_eq!(answer(keeping(), touched(), hash(1)), UNCHANGED);
        assert_eq!(answer(replacing.clone(), touched(), hash(1)), UNCHANGED);
        let time = fs::metadata(output.path().join("f")).map(|it| filetime::FileTime::from_last_modification_time(&it));
        assert_eq!(time.unwrap().unix_seconds(), 9, "where it may be replaced, it gets its time");
        for (entry, hash) in [
            (Entry { mtime_s: 11, ..entry() }, None),
            (entry(), hash(2)),
            (Entry { len: Some(LEN as u64 + 1), ..entry() }, None),
            (Entry { len: Some(LEN as u64 - 1), ..entry() }, hash(1)),
        ] {
            assert_eq!(answer(replacing.clone(), entry.clone(), hash), WANTED);
            if hash.is_none() && entry.len == Some(LEN as u64) {
                assert_eq!(answer(keeping(), entry, hash), WANTED, "its content may be the same");
                continue;
            }
            // If the file must not be replaced, the offer is refused, so its content is not sent.
            let refused = answer(keeping(), entry, hash);
            assert!(
                matches!(&refused, ToSender::Verdict { outcome: Err(failure), .. } if failure.code == FailureCode::Exists),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn an_offer_that_is_wanted_is_an_entry_once() {
        let output = tempfile::tempdir().unwrap();
        let mut session = Session::open(output.path(), &alice(), keeping());
        let offer = ToReceiver::Offer { hash: None, asks_only: false, takes_basis: false, entry: entry() };
        assert_eq!(session.say(&offer).unwrap(), [WANTED]);
        session.say(&ToReceiver::File(entry())).unwrap();
        session.data(&content(1));
        assert_eq!(session.end(&content(1)), Ok(Confirmed::Stored));
        session.say(&ToReceiver::End { entries: 1, streams: 0 }).unwrap();
        session.assembler.finish().unwrap();
        // A second offer of the same ordinal violates the protocol.
        let mut session = Session::open(output.path(), &alice(), keeping());
        session.say(&offer).unwrap();
        assert!(matches!(session.say(&offer), Err(TransferError::Protocol(_))));
    }

    #[test]
    fn a_sender_that_cannot_be_known_again_offers_nothing() {
        let output = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(output.path(), keeping()).unwrap());
        let mut assembler = Assembler::new(store, None, Arc::new(|_| {}));
        assembler.greet();
        assert_eq!(assembler.take_answers(), [ToSender::Hello(Hello { keeps_links: cfg!(unix), ..Hello::default() })]);
        let offered = assembler
            .handle(0, &ToReceiver::Offer { hash: None, asks_only: false, takes_basis: false, entry: entry() });
        assert!(matches!(offered, Err(TransferError::Protocol(_))));
        let mut assembler =
            Assembler::new(Arc::new(Store::open(output.path(), keeping()).unwrap()), None, Arc::new(|_| {}));
        assembler.handle(0, &ToReceiver::Resume { offset: LEAF_BYTES, entry: entry() }).unwrap();
        let answers = assembler.take_answers();
        assert!(matches!(&answers[..], [ToSender::Verdict { outcome: Err(_), .. }]), "{answers:?}");
    }
}

/// Tests of files sent as deltas.
mod deltas {
    use std::collections::BTreeSet;

    use dfcp_framing::files::Basis;

    use super::*;
    use crate::basis::{Alive, Cut, Known};
    use crate::limits::{BASES_MAX, COPY_BYTES_MAX};

    fn replacing() -> StoreOptions {
        StoreOptions { replace: true.into(), ..keeping() }
    }

    /// Returns an output directory in which `alice` has stored the file.
    fn stored() -> tempfile::TempDir {
        let output = tempfile::tempdir().unwrap();
        let mut session = Session::open(output.path(), &alice(), replacing());
        session.say(&ToReceiver::File(entry())).unwrap();
        session.data(&content(1));
        assert_eq!(session.end(&content(1)), Ok(Confirmed::Stored));
        output
    }

    fn offer() -> ToReceiver {
        ToReceiver::Offer { hash: None, asks_only: false, takes_basis: true, entry: Entry { mtime_s: 9, ..entry() } }
    }

    /// Offers a new version in a session of `owner`. Returns the chunks of the older version that the receiver reports
    /// before requesting the file.
    fn offered(output: &Path, owner: &Owner) -> (Session, Vec<Basis>) {
        let mut session = Session::open(output, owner, replacing());
        let mut answers = session.say(&offer()).unwrap();
        let mut bases = Vec::new();
        loop {
            for answer in answers {
                match answer {
                    ToSender::Basis(basis) => bases.push(basis),
                    ToSender::Want { index: 0 } => return (session, bases),
                    answer => panic!("{answer:?}"),
                }
            }
            let ready = session.pokes.recv_timeout(Duration::from_secs(60)).unwrap();
            session.assembler.ready(ready).unwrap();
            answers = session.assembler.take_answers();
        }
    }

    #[test]
    fn what_the_older_version_has_is_copied() {
        let output = stored();
        let (mut session, bases) = offered(output.path(), &alice());
        let mut known = Known::new(Cut::from_peer(bases[0].average_bytes).unwrap(), &Alive::default());
        bases.iter().for_each(|basis| known.add(&basis.chunks).unwrap());
        let old = content(1);
        let new = [&old[..2_000_000], b"inserted", &old[2_000_000..]].concat();
        session.say(&ToReceiver::File(Entry { mtime_s: 9, ..entry() })).unwrap();
        let mut sent = 0;
        for chunk in known.cut().chunks(&new[..]) {
            let chunk = chunk.unwrap().data;
            let frame = match known.find(&chunk) {
                Some((start, len)) => ToReceiver::Copy { start, len },
                None => {
                    sent += chunk.len();
                    ToReceiver::Data(chunk)
                }
            };
            assert_eq!(session.say(&frame).unwrap(), []);
        }
        assert!(sent < 300_000, "{sent}");
        assert_eq!(session.end(&new), Ok(Confirmed::Stored));
        assert!(fs::read(output.path().join("f")).unwrap() == new);
    }

    /// Any number of offers may be pending: only changes are requested for each of them.
    #[test]
    fn more_older_versions_than_are_open_at_a_time_wait_for_each_other() {
        let output = tempfile::tempdir().unwrap();
        let count = BASES_MAX as u32 + 2;
        let entry = |index| Entry { index, name: format!("f{index}").into_bytes(), ..entry() };
        let mut session = Session::open(output.path(), &alice(), replacing());
        for index in 0..count {
            session.say(&ToReceiver::File(entry(index))).unwrap();
            session.data(&content(1));
            assert_eq!(session.end(&content(1)), Ok(Confirmed::Stored));
        }
        let changed = |index| Entry { mtime_s: 9, ..entry(index) };
        let mut session = Session::open(output.path(), &alice(), replacing());
        for index in 0..count {
            let entry = changed(index);
            let offer = ToReceiver::Offer { hash: None, asks_only: false, takes_basis: true, entry };
            assert_eq!(session.say(&offer).unwrap(), []);
        }
        let (mut based, mut wanted) = (BTreeSet::new(), BTreeSet::new());
        for stored in 0..=count {
            while wanted.len() < count.min(stored + BASES_MAX as u32) as usize {
                let ready = session.pokes.recv_timeout(Duration::from_secs(60)).unwrap();
                session.assembler.ready(ready).unwrap();
                for answer in session.assembler.take_answers() {
                    match answer {
                        ToSender::Basis(basis) => based.insert(basis.index),
                        ToSender::Want { index } => wanted.insert(index),
                        answer => panic!("{answer:?}"),
                    };
                }
            }
            assert!(session.pokes.try_recv().is_err());
            if stored < count {
                assert_eq!(session.say(&ToReceiver::File(changed(stored))).unwrap(), []);
                session.data(&content(2));
                assert_eq!(session.end(&content(2)), Ok(Confirmed::Stored));
            }
        }
        assert_eq!((based.len(), wanted.len()), (count as usize, count as usize));
    }

    /// Chunk hashes reveal as much as the content.
    #[test]
    fn only_the_sender_of_a_file_learns_of_what_it_consists() {
        let output = stored();
        let (_, bases) = offered(output.path(), &Owner::from_fingerprint("SHA256:bob"));
        assert_eq!(bases, []);
        assert!(!offered(output.path(), &alice()).1.is_empty());
    }

    #[test]
    fn a_sender_that_copies_what_is_not_there_gets_nothing_stored() {
        // Without a reported older version there is nothing to copy.
        let output = stored();
        let mut session = Session::open(output.path(), &alice(), replacing());
        session.say(&ToReceiver::File(entry())).unwrap();
        assert!(matches!(session.say(&ToReceiver::Copy { start: 0, len: 1 }), Err(TransferError::Protocol(_))));
        let (_, bases) = offered(output.path(), &alice());
        let end = u64::from(bases[0].chunks[0].len);
        for (start, len) in [
            // A single copy of this length would delay the other files of the session too long.
            (0, COPY_BYTES_MAX + 1),
            (LEN as u64, 1),
            (LEN as u64 - 1, 2),
            (u64::MAX, 1),
            (1 << 62, COPY_BYTES_MAX),
            // These ranges are not whole chunks: hashes of smaller ranges would reveal unknown content byte by byte.
            (0, 1),
            (0, end as u32 - 1),
            (1, end as u32 - 1),
            (end - 1, 1),
        ] {
            let (mut session, _) = offered(output.path(), &alice());
            session.say(&ToReceiver::File(entry())).unwrap();
            let copied = session.say(&ToReceiver::Copy { start, len });
            assert!(matches!(copied, Err(TransferError::Protocol(_))), "{start}: {copied:?}");
        }
        // This file was not offered, so it cannot be copied from the offered file.
        let (mut session, _) = offered(output.path(), &alice());
        session.say(&ToReceiver::File(Entry { name: b"mine".to_vec(), ..entry() })).unwrap();
        let copied = session.say(&ToReceiver::Copy { start: 0, len: end as u32 });
        assert!(matches!(copied, Err(TransferError::Protocol(_))), "{copied:?}");
        assert!(fs::read(output.path().join("f")).unwrap() == content(1));
    }

    /// The older version is truncated during the copy.
    #[test]
    fn an_older_version_that_becomes_shorter_fails_its_file_alone() {
        let output = stored();
        let (mut session, bases) = offered(output.path(), &alice());
        session.say(&ToReceiver::File(entry())).unwrap();
        fs::OpenOptions::new().write(true).open(output.path().join("f")).unwrap().set_len(10).unwrap();
        let answers = session.say(&ToReceiver::Copy { start: 0, len: bases[0].chunks[0].len }).unwrap();
        assert!(matches!(&answers[..], [ToSender::Verdict { outcome: Err(_), .. }]), "{answers:?}");
        // Frames that were already on their way are dropped.
        assert_eq!(session.say(&ToReceiver::Copy { start: 0, len: 1 }).unwrap(), []);
    }

    /// Each offer costs a thread that reads a file, whatever comes of it.
    #[test]
    fn no_more_older_versions_are_read_than_may_be_and_none_for_longer_than_it_is_waited_for() {
        let output = tempfile::tempdir().unwrap();
        let options = StoreOptions { allow_update: true, ..replacing() };
        let name = |index: u32| format!("f{index}");
        for index in 0..200 {
            fs::File::create(output.path().join(name(index))).unwrap().set_len(1 << 40).unwrap();
        }
        let mut session = Session::open(output.path(), &alice(), options);
        let cutting = session.assembler.cutting();
        for index in 0..200 {
            let entry = Entry { index, name: name(index).into(), ..entry() };
            let offer = ToReceiver::Offer { hash: None, asks_only: false, takes_basis: true, entry: entry.clone() };
            session.say(&offer).unwrap();
            let again = Entry { mtime_s: 5, ..entry.clone() };
            let again = ToReceiver::Offer { hash: None, asks_only: false, takes_basis: true, entry: again };
            if index == 100 {
                assert!(matches!(session.say(&again), Err(TransferError::Protocol(_))));
            }
            assert!(cutting.count() <= BASES_MAX, "{}", cutting.count());
            if index % 2 == 0 {
                session.say(&ToReceiver::File(entry)).unwrap();
                session.say(&ToReceiver::FileAbort("no".to_owned())).unwrap();
            }
        }
        drop(session);
        let started = Instant::now();
        while cutting.count() > 0 {
            assert!(started.elapsed() < Duration::from_secs(60), "{} still read", cutting.count());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Copied content counts like received content: otherwise a few frames could fill the disk.
    #[test]
    fn what_is_copied_counts_against_what_a_session_may_store() {
        let output = stored();
        let options = StoreOptions { session_bytes_max: Some(LEN as u64), ..replacing() };
        let mut session = Session::open(output.path(), &alice(), options);
        session.say(&offer()).unwrap();
        let ready = session.pokes.recv_timeout(Duration::from_secs(60)).unwrap();
        session.assembler.ready(ready).unwrap();
        let answers = session.assembler.take_answers();
        let [ToSender::Basis(basis), ..] = &answers[..] else { panic!("{answers:?}") };
        let (chunk, mut copied) = (basis.chunks[0].len, 0);
        session.say(&ToReceiver::File(entry())).unwrap();
        let answers = loop {
            let answers = session.say(&ToReceiver::Copy { start: 0, len: chunk }).unwrap();
            copied += chunk;
            if !answers.is_empty() {
                break answers;
            }
        };
        assert!(copied as usize > LEN && copied as usize <= LEN + chunk as usize, "{copied}");
        assert!(
            matches!(&answers[..], [ToSender::Verdict { outcome: Err(failure), .. }] if failure.code == FailureCode::DiskFull),
            "{answers:?}"
        );
    }
}

/// Offers that cost the sender a few bytes, and make the receiver read a file.
mod readings {
    use super::*;
    use crate::store::READ_BYTES;

    fn stored() -> tempfile::TempDir {
        let output = tempfile::tempdir().unwrap();
        let mut session = Session::open(output.path(), &alice(), keeping());
        session.say(&ToReceiver::File(entry())).unwrap();
        session.data(&content(1));
        assert_eq!(session.end(&content(1)), Ok(Confirmed::Stored));
        output
    }

    #[test]
    fn a_file_is_not_read_again_for_each_offer_that_has_a_hash() {
        let hash = |seed| Some(*blake3::hash(&content(seed)).as_bytes());
        for (replace, asks_only) in [(false, false), (true, false), (false, true), (true, true)] {
            let output = stored();
            let mut session =
                Session::open(output.path(), &alice(), StoreOptions { replace: replace.into(), ..keeping() });
            READ_BYTES.set(0);
            for index in 0..100 {
                // With `replace`, a file whose hash is equal gets the time of the offer.
                let entry = Entry { index, mtime_s: index.into(), ..entry() };
                let hash = hash(1 + (index % 3) as u8 / 2);
                session.say(&ToReceiver::Offer { hash, asks_only, takes_basis: false, entry }).unwrap();
            }
            let times = READ_BYTES.get() as f64 / LEN as f64;
            assert!(times <= 4.0, "100 offers, replace {replace}, asks only {asks_only}: read {times} times");
        }
    }

    /// One file is offered repeatedly, so the receiver could have to chunk it repeatedly.
    #[test]
    fn an_older_version_is_not_cut_again_for_each_offer_that_takes_a_basis() {
        let output = stored();
        let mut session = Session::open(output.path(), &alice(), StoreOptions { replace: true.into(), ..keeping() });
        let mut cut = 0;
        for index in 0..20 {
            let entry = Entry { index, mtime_s: 9, ..entry() };
            let offer = ToReceiver::Offer { hash: None, asks_only: false, takes_basis: true, entry: entry.clone() };
            if session.say(&offer).unwrap().is_empty() {
                cut += 1;
                session.await_ready();
                session.assembler.take_answers();
            }
            session.say(&ToReceiver::File(entry)).unwrap();
            session.say(&ToReceiver::FileAbort(String::new())).unwrap();
            session.assembler.take_answers();
        }
        assert!(cut <= 4, "20 offers: cut {cut} times");
    }

    /// Streams of one session take the file over from each other.
    #[test]
    fn a_beginning_is_not_verified_again_each_time_that_a_stream_goes_on_with_it() {
        let output = cut_off();
        let mut session = Session::open(output.path(), &alice(), keeping());
        let offset = offset(&mut session);
        let mut begun = 0;
        for index in 0..20 {
            let stream = index as usize % 2;
            let _ = session.assembler.handle(stream, &ToReceiver::FileAbort(String::new()));
            let frame = ToReceiver::Resume { offset, entry: Entry { index, ..entry() } };
            session.assembler.handle(stream, &frame).unwrap();
            let is_refused = |answer: &ToSender| matches!(answer, ToSender::Verdict { index: it, .. } if *it == index);
            begun += u32::from(!session.assembler.take_answers().iter().any(is_refused));
        }
        assert!(begun <= 4, "20 times: verified {begun} times");
        // The partial file remains available to another session.
        drop(session);
        assert_eq!(Session::open(output.path(), &alice(), keeping()).greeted().len(), 2);
    }

    #[test]
    fn nothing_is_read_for_a_sender_that_is_gone() {
        let output = stored();
        let mut session = Session::open(output.path(), &alice(), keeping());
        session.assembler.over().set();
        READ_BYTES.set(0);
        let hash = Some(*blake3::hash(&content(1)).as_bytes());
        let offer = ToReceiver::Offer { hash, asks_only: false, takes_basis: false, entry: entry() };
        assert_eq!(session.say(&offer).unwrap(), []);
        assert_eq!((READ_BYTES.get(), session.assembler.totals()), (0, (0, 0)));
    }
}
