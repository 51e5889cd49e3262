use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use dfcp_framing::error::FailureCode;
use dfcp_framing::files::{Entry, Partial};

use super::*;
use crate::hash_tree::LEAF_BYTES;
use crate::limits::PARTIALS_PER_SENDER_MAX;
use crate::store::{
    Beginning, Changed, Completed, Finished, Over, Resumed, Slot, Staged, Store, StoreOptions, Unpublished,
};

const LEN: usize = 3_000_000;

fn content() -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn alice() -> Owner {
    Owner::from_fingerprint("SHA256:alice")
}

fn bob() -> Owner {
    Owner::from_fingerprint("SHA256:bob")
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
        name: b"d/f".to_vec(),
    }
}

fn name() -> RelativeName {
    RelativeName::parse(b"d/f").unwrap()
}

fn open(path: &Path) -> Store {
    fs::create_dir_all(path.join("d")).unwrap();
    Store::open(path, StoreOptions { keep_unfinished: true, sync: true, ..StoreOptions::default() }).unwrap()
}

fn begin(store: &Store, owner: &Owner, beginning: Beginning) -> Result<(Arc<Slot>, Option<Resumed>), Failure> {
    store.begin_of(owner, &name(), &entry(), beginning, &mut Changed::default())
}

fn resumable(store: &Store, owner: &Owner) -> Vec<Partial> {
    store.resumable(store.unfinished(owner))
}

/// Stores the first `bytes` of the file and leaves the rest to a later session.
fn leave(store: &Store, owner: &Owner, bytes: usize) {
    let (slot, _) = begin(store, owner, Beginning::New).unwrap();
    let mut staged = slot.lock().take().unwrap();
    staged.write(&content()[..bytes]).unwrap();
    staged.leave();
}

fn offset_of(bytes: usize) -> u64 {
    bytes as u64 / LEAF_BYTES * LEAF_BYTES
}

fn names_below(directory: &Path) -> Vec<String> {
    let all = walkdir::WalkDir::new(directory).sort_by_file_name().into_iter().map(|entry| entry.unwrap());
    let files = all.filter(|entry| !entry.file_type().is_dir());
    files.map(|entry| entry.path().strip_prefix(directory).unwrap().to_string_lossy().into_owned()).collect()
}

fn data_path(here: &Path) -> PathBuf {
    here.join("d").join(Id::of(&alice(), b"d/f").file_name())
}

fn journal_path(here: &Path) -> PathBuf {
    here.join(JOURNALS).join(Id::of(&alice(), b"d/f").journal_name())
}

/// Completes a received file, as if the sender had sent the hash of `content`.
fn completed(store: &Store, staged: Staged, len: usize, content: &[u8]) -> Result<Completed, Failure> {
    let name = RelativeName::parse(b"d/f").unwrap();
    store.finish(staged, (&name, &entry()), (len as u64, blake3::hash(content).as_bytes()), &Over::default())
}

fn new(completed: Result<Completed, Failure>) -> Box<Finished> {
    match completed.unwrap() {
        Completed::New(finished) => finished,
        other => panic!("{other:?}"),
    }
}

/// Sends the content from `offset` on. Returns the content stored under the final name.
fn finish(store: &Store, here: &Path, offset: u64) -> Vec<u8> {
    let content = content();
    let (slot, resumed) = begin(store, &alice(), Beginning::At(offset)).unwrap();
    let resumed = resumed.unwrap();
    let mut staged = slot.lock().take().unwrap();
    for part in resumed.shape.parts(0, offset) {
        let mut hasher = part.hasher();
        hasher.update(&content[part.start as usize..part.end as usize]);
        staged.insert(part, blake3::hazmat::HasherExt::finalize_non_root(&hasher));
    }
    staged.write(&content[offset as usize..]).unwrap();
    let batch = vec![Unpublished::File(new(completed(store, staged, LEN, &content)))];
    store.publish(batch, &mut Changed::default()).unwrap().remove(0).unwrap();
    fs::read(here.join("d/f")).unwrap()
}

/// A killed sender returns while a journal record of its first session is still being written.
#[test]
fn a_record_on_its_way_neither_hides_what_is_there_nor_takes_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for more in [0, LEN / 4] {
        let (slot, _) = begin(&store, &alice(), Beginning::New).unwrap();
        let on_its_way = {
            let mut guard = slot.lock();
            let staged = guard.as_mut().unwrap();
            staged.write(&content()[..LEN / 2]).unwrap();
            let checkpoint = staged.checkpoint().unwrap().unwrap();
            staged.write(&content()[LEN / 2..LEN / 2 + more]).unwrap();
            checkpoint
        };
        let offered = resumable(&store, &alice())[0].offset;
        assert_eq!(offered, offset_of(LEN / 2 + more));
        let (taken, resumed) = begin(&store, &alice(), Beginning::At(offered)).unwrap();
        assert_eq!(resumed.unwrap().offset, offered, "{more} bytes more");
        taken.lock().take().unwrap().leave();
        on_its_way.write().unwrap();
        assert_eq!(resumable(&store, &alice())[0].offset, offered, "{more} bytes more");
        assert_eq!(finish(&store, folder.path(), offered), content());
        fs::remove_file(folder.path().join("d/f")).unwrap();
    }
}

#[test]
fn what_came_is_there_for_its_sender_and_nobody_else() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    let expected =
        Partial { offset: offset_of(1_000_000), len: LEN as u64, mtime_s: 5, mtime_ns: 6, name: b"d/f".to_vec() };
    assert_eq!(resumable(&store, &alice()), [expected]);
    assert_eq!(resumable(&store, &bob()), []);
    assert!(begin(&store, &bob(), Beginning::At(offset_of(1_000_000))).is_err());
    // A receiver that is started later finds the same file. A receiver that keeps no partial files offers nothing.
    assert_eq!(resumable(&open(here.path()), &alice()).len(), 1);
    let forgetful = Store::open(here.path(), StoreOptions::default()).unwrap();
    assert_eq!(resumable(&forgetful, &alice()), []);
    assert_eq!(finish(&store, here.path(), offset_of(1_000_000)), content());
    assert_eq!(names_below(here.path()), ["d/f"], "neither the journal nor anything else is left");
}

#[test]
fn a_file_of_which_next_to_nothing_came_is_not_kept() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), LEAF_BYTES as usize - 1);
    assert_eq!((resumable(&store, &alice()), names_below(here.path())), (Vec::new(), Vec::new()));
}

/// After a crash, content that was not journalled does not count.
#[test]
fn a_file_is_worth_what_was_written_down() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    let (slot, _) = begin(&store, &alice(), Beginning::New).unwrap();
    let mut recorded = Vec::new();
    for (number, piece) in content().chunks(400_000).enumerate() {
        let mut slot = slot.lock();
        let staged = slot.as_mut().unwrap();
        staged.write(piece).unwrap();
        let came = (number + 1) * 400_000;
        if number % 2 == 0 && came < LEN {
            staged.checkpoint().unwrap().unwrap().write().unwrap();
            recorded.push(offset_of(came));
        }
        let after = tempfile::tempdir().unwrap();
        copy(here.path(), after.path());
        let crashed = open(after.path());
        let found = resumable(&crashed, &alice());
        assert_eq!(found[0].offset, *recorded.last().unwrap());
        assert_eq!(finish(&crashed, after.path(), found[0].offset), content(), "after {came} bytes");
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).min_depth(1) {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(target).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_file_that_lost_its_end_is_worth_what_is_left() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 2_000_000);
    let file = File::options().write(true).open(data_path(here.path())).unwrap();
    file.set_len(300_000).unwrap();
    drop(file);
    assert_eq!(resumable(&store, &alice())[0].offset, offset_of(300_000));
    // The file cannot be resumed at its previous offset any more.
    let Err(failure) = begin(&store, &alice(), Beginning::At(offset_of(2_000_000))) else { panic!("it goes on") };
    assert!(failure.sentence.contains("any more"), "{failure}");
}

#[test]
fn a_sender_that_is_back_takes_its_file_from_its_own_dead_session() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    let (dead, _) = begin(&store, &alice(), Beginning::New).unwrap();
    dead.lock().as_mut().unwrap().write(&content()[..1_000_000]).unwrap();
    let offset = resumable(&store, &alice())[0].offset;
    assert_eq!(offset, offset_of(1_000_000), "it is offered although nothing was written down yet");
    dead.lock().as_mut().unwrap().write(&content()[1_000_000..1_500_000]).unwrap();
    assert_eq!(finish(&store, here.path(), offset), content());
    assert!(dead.lock().is_none(), "its old session has nothing to write to");
    assert_eq!(names_below(here.path()), ["d/f"]);
}

/// Two sessions of a sender store the same file at the same time: the later session gets the file.
#[test]
fn a_file_that_begins_anew_is_taken_from_the_session_that_had_it() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    let (first, _) = begin(&store, &alice(), Beginning::New).unwrap();
    first.lock().as_mut().unwrap().write(&content()[..1_000_000]).unwrap();
    let (second, _) = begin(&store, &alice(), Beginning::New).unwrap();
    assert!(first.lock().is_none());
    assert_eq!(second.lock().as_ref().unwrap().len(), 0);
    // A sender with another key is not affected.
    let (other, _) = begin(&store, &bob(), Beginning::New).unwrap();
    assert!(second.lock().is_some() && other.lock().is_some());
}

#[test]
fn a_sender_goes_on_only_where_it_may() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    let whole = offset_of(1_000_000);
    for offset in [0, 1, LEAF_BYTES - 1, whole + LEAF_BYTES, whole + 1, LEN as u64, u64::MAX] {
        assert!(begin(&store, &alice(), Beginning::At(offset)).is_err(), "{offset}");
    }
    let other = |entry: Entry| store.begin_of(&alice(), &name(), &entry, Beginning::At(whole), &mut Changed::default());
    for entry in [
        Entry { len: Some(LEN as u64 + 1), ..entry() },
        Entry { len: None, ..entry() },
        Entry { mtime_s: 4, ..entry() },
        Entry { mtime_ns: 4, ..entry() },
    ] {
        assert!(other(entry).is_err());
    }
    assert_eq!(resumable(&store, &alice()).len(), 1, "none of that has harmed it");
}

/// A file of the same name was stored meanwhile. The partial file is of no use then, unless that file may be replaced.
#[test]
fn a_beginning_whose_file_is_there_is_not_offered() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    fs::write(here.path().join("d/f"), "something").unwrap();
    assert_eq!(resumable(&store, &alice()), []);
    assert!(begin(&store, &alice(), Beginning::At(offset_of(1_000_000))).is_err());
    let options = StoreOptions { keep_unfinished: true, replace: true.into(), ..StoreOptions::default() };
    assert_eq!(resumable(&Store::open(here.path(), options).unwrap(), &alice()).len(), 1);
}

/// Listing partial files locks each of them for a moment.
#[test]
fn a_lock_that_is_held_for_a_moment_keeps_nobody_from_going_on() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    let looking = File::open(data_path(here.path())).unwrap();
    looking.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(looking);
        });
        let (slot, _) = begin(&store, &alice(), Beginning::At(offset_of(1_000_000))).unwrap();
        slot.lock().take().unwrap().leave();
    });
    // If the file stays locked, another receiver is writing to it.
    let held = File::open(data_path(here.path())).unwrap();
    held.lock().unwrap();
    assert!(begin(&store, &alice(), Beginning::At(offset_of(1_000_000))).is_err());
}

#[test]
fn a_journal_that_was_never_finished_goes_with_time() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    let half = here.path().join(JOURNALS).join("0123.journal.new");
    fs::write(&half, "half").unwrap();
    let partials = Partials::at(here.path()).unwrap();
    assert_eq!(partials.list(None, SystemTime::now()).unwrap().len(), 1);
    assert!(half.exists(), "somebody may be making it");
    partials.list(None, SystemTime::now() + HALF_MADE_AGE).unwrap();
    assert!(!half.exists());
}

/// Otherwise, another user of the directory could redirect this user's writes to any file that this user may write.
#[cfg(unix)]
#[test]
fn what_somebody_else_put_there_is_neither_offered_nor_written_to() {
    use std::os::unix::fs::symlink;
    let victims = tempfile::tempdir().unwrap();
    let victim = victims.path().join("victim");
    type Attack = fn(&Path, &Path);
    let attacks: [(&str, Attack); 4] = [
        ("a link", |victim, there| symlink(victim, there).unwrap()),
        ("a second name", |victim, there| fs::hard_link(victim, there).unwrap()),
        ("a directory", |_, there| fs::create_dir(there).unwrap()),
        ("a pipe", |_, there| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, there, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
    ];
    for (what, attack) in attacks {
        let here = tempfile::tempdir().unwrap();
        let store = open(here.path());
        leave(&store, &alice(), 1_000_000);
        fs::write(&victim, vec![7; 2_000_000]).unwrap();
        fs::remove_file(data_path(here.path())).unwrap();
        attack(&victim, &data_path(here.path()));
        assert_eq!(resumable(&store, &alice()), [], "{what}");
        assert!(begin(&store, &alice(), Beginning::At(offset_of(1_000_000))).is_err(), "{what}");
        // The file can be started anew and completed, without touching the victim.
        let (slot, _) = begin(&store, &alice(), Beginning::New).unwrap();
        let mut staged = slot.lock().take().unwrap();
        staged.write(&content()).unwrap();
        new(completed(&store, staged, LEN, &content()));
        assert_eq!(fs::read(&victim).unwrap(), vec![7; 2_000_000], "{what}");
    }
}

#[cfg(unix)]
#[test]
fn a_journal_or_its_directory_behind_a_link_is_left_alone() {
    use std::os::unix::fs::symlink;
    let elsewhere = tempfile::tempdir().unwrap();
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    let moved = elsewhere.path().join("journal");
    fs::rename(journal_path(here.path()), &moved).unwrap();
    symlink(&moved, journal_path(here.path())).unwrap();
    assert_eq!(resumable(&store, &alice()), []);
    fs::remove_file(journal_path(here.path())).unwrap();
    fs::remove_dir(here.path().join(JOURNALS)).unwrap();
    symlink(elsewhere.path(), here.path().join(JOURNALS)).unwrap();
    let before = fs::read(&moved).unwrap();
    assert_eq!(resumable(&store, &alice()), []);
    leave(&store, &alice(), 1_000_000);
    assert_eq!(names_below(elsewhere.path()), ["journal"], "nothing is written there");
    assert_eq!(fs::read(&moved).unwrap(), before);
}

/// A journal under another name is ignored: otherwise one sender could be offered another sender's file.
#[test]
fn a_journal_counts_only_under_its_own_name() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    let as_bobs = here.path().join(JOURNALS).join(Id::of(&bob(), b"d/f").journal_name());
    fs::copy(journal_path(here.path()), &as_bobs).unwrap();
    assert_eq!((resumable(&store, &bob()), resumable(&store, &alice()).len()), (Vec::new(), 1));
    assert!(!as_bobs.exists());
}

#[test]
fn unfinished_files_are_given_up_when_nobody_goes_on_with_them() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    let partials = Partials::at(here.path()).unwrap();
    let at = |age: Duration| partials.list(None, SystemTime::now() + age).unwrap();
    let young = at(ABANDONED_AGE / 2);
    assert_eq!((young.len(), young[0].is_active), (1, false));
    // A file in progress never counts as abandoned.
    let (slot, _) = begin(&store, &alice(), Beginning::At(young[0].offset)).unwrap();
    assert!(at(ABANDONED_AGE * 2)[0].is_active);
    slot.lock().take().unwrap().leave();
    assert_eq!(at(ABANDONED_AGE * 2), []);
    assert_eq!(names_below(here.path()), Vec::<String>::new());
}

#[test]
fn a_file_that_is_gone_takes_its_journal_along() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    fs::remove_file(data_path(here.path())).unwrap();
    assert_eq!(resumable(&store, &alice()), []);
    assert_eq!(names_below(here.path()), Vec::<String>::new());
}

/// A sender that never completes its files must fill neither the inode table nor the receiver's memory.
#[test]
fn a_sender_leaves_only_so_many_files() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    for number in 0..PARTIALS_PER_SENDER_MAX + 2 {
        let name = RelativeName::parse(number.to_string().as_bytes()).unwrap();
        let entry = Entry { name: name.as_bytes().to_vec(), ..entry() };
        let (slot, _) = store.begin_of(&alice(), &name, &entry, Beginning::New, &mut Changed::default()).unwrap();
        let mut staged = slot.lock().take().unwrap();
        staged.write(&content()[..LEAF_BYTES as usize * 2]).unwrap();
        staged.leave();
    }
    assert_eq!(resumable(&store, &alice()).len(), PARTIALS_PER_SENDER_MAX);
    assert_eq!(names_below(here.path()).len(), 2 * PARTIALS_PER_SENDER_MAX);
}

/// Regression test: sixteen keys filled the table for a week, so that no other sender could resume.
#[test]
fn of_a_full_table_the_sender_with_most_files_gives_up_its_oldest_for_one_with_fewer() {
    let here = tempfile::tempdir().unwrap();
    let mut store = open(here.path());
    Arc::get_mut(&mut store.partials).unwrap().table.files_max = 6;
    let leave = |owner: &Owner, number: u32| {
        let name = RelativeName::parse(format!("{number}").as_bytes()).unwrap();
        let entry = Entry { name: name.as_bytes().to_vec(), ..entry() };
        let (slot, _) = store.begin_of(owner, &name, &entry, Beginning::New, &mut Changed::default()).unwrap();
        let mut staged = slot.lock().take().unwrap();
        staged.write(&content()[..LEAF_BYTES as usize * 2]).unwrap();
        staged.leave();
    };
    let names = |owner: &Owner| -> Vec<_> {
        resumable(&store, owner).into_iter().map(|partial| String::from_utf8(partial.name).unwrap()).collect()
    };
    (0..6).for_each(|number| leave(&alice(), number));
    leave(&alice(), 6);
    assert_eq!(names(&alice()), ["0", "1", "2", "3", "4", "5"], "nothing is given up for its own");
    for (number, left) in [(0, 5), (1, 4), (2, 3), (3, 3)] {
        leave(&bob(), number);
        assert_eq!((names(&alice()).len(), names(&bob()).len()), (left, 6 - left));
    }
    assert_eq!((names(&alice()), names(&bob())), (strings(&["3", "4", "5"]), strings(&["0", "1", "2"])));
    assert_eq!(names_below(here.path()).len(), 2 * 6, "with their journals");
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_file_that_turns_out_to_have_another_length_is_stored_all_the_same() {
    for len in [LEN - 500_000, LEN + 500_000] {
        let here = tempfile::tempdir().unwrap();
        let store = open(here.path());
        let (slot, _) = begin(&store, &alice(), Beginning::New).unwrap();
        let mut staged = slot.lock().take().unwrap();
        let content = content().into_iter().cycle().take(len).collect::<Vec<_>>();
        staged.write(&content).unwrap();
        let finished = new(completed(&store, staged, len, &content));
        store.publish(vec![Unpublished::File(finished)], &mut Changed::default()).unwrap().remove(0).unwrap();
        assert_eq!(fs::read(here.path().join("d/f")).unwrap(), content);
    }
}

#[test]
fn another_hash_is_refused_and_nothing_of_it_is_kept() {
    let here = tempfile::tempdir().unwrap();
    let store = open(here.path());
    leave(&store, &alice(), 1_000_000);
    let (slot, _) = begin(&store, &alice(), Beginning::At(offset_of(1_000_000))).unwrap();
    let mut staged = slot.lock().take().unwrap();
    staged.write(&content()[offset_of(1_000_000) as usize..]).unwrap();
    // The beginning was not verified, so the hash of the whole file is not available.
    let failure = completed(&store, staged, LEN, &content()).unwrap_err();
    assert_eq!(failure.code, FailureCode::Mismatch);
    assert_eq!(names_below(here.path()), Vec::<String>::new());
}

/// Creates `count` partial files of `owner`, each with one leaf, without going through a session.
fn fill(store: &Store, here: &Path, owner: &Owner, count: usize) {
    let journals = store.partials.journals_made().unwrap();
    for number in 0..count {
        let name = format!("of {owner} {number}").into_bytes();
        let id = Id::of(owner, &name);
        let file = UnfinishedFile { owner: owner.clone(), name, len: LEN as u64, mtime_s: 5, mtime_ns: 6 };
        File::create(here.join(id.file_name())).unwrap().set_len(LEAF_BYTES).unwrap();
        let state = State { offset: LEAF_BYTES, spans: Vec::new() };
        Journal::create(&journals, &id.journal_name(), &file, &state, false).unwrap();
    }
}

/// Returns the number of journals read and of active files examined so far.
fn visited(store: &Store) -> u64 {
    store.partials.visited.load(Ordering::Relaxed) + store.active.state().passed_through
}

/// Stores three leaves of a new file with two journal records. Returns the number of journals read and active files
/// examined for that.
fn visited_by_a_file(store: &Store, owner: &Owner, number: usize) -> u64 {
    let name = RelativeName::parse(format!("new {number}").as_bytes()).unwrap();
    let entry = Entry { name: name.as_bytes().to_vec(), ..entry() };
    let before = visited(store);
    let (slot, _) = store.begin_of(owner, &name, &entry, Beginning::New, &mut Changed::default()).unwrap();
    for _ in 0..2 {
        let written = slot.lock().as_mut().unwrap().write(&content()[..LEAF_BYTES as usize + 1]);
        written.unwrap();
        let checkpoint = slot.lock().as_mut().unwrap().checkpoint();
        let _too_many = checkpoint.unwrap().unwrap().write();
    }
    let taken = visited(store) - before;
    slot.lock().take().unwrap().leave();
    taken
}

/// A peer fills the table. The cost of later files, of any sender, must not grow with the number of partial files.
#[test]
fn a_file_costs_no_more_for_those_that_are_unfinished() {
    println!(
        "| unfinished before | visited by the first file | by another one | past the sender's limit | by a session's beginning |"
    );
    println!("|---|---:|---:|---:|---:|");
    for senders in [0, 4, 15, 16] {
        let here = tempfile::tempdir().unwrap();
        let store =
            Store::open(here.path(), StoreOptions { keep_unfinished: true, ..StoreOptions::default() }).unwrap();
        let sender = |number: usize| Owner::from_fingerprint(&format!("SHA256:{number}"));
        (0..senders).for_each(|number| fill(&store, here.path(), &sender(number), PARTIALS_PER_SENDER_MAX));
        let [first, second] = [0, 1].map(|number| visited_by_a_file(&store, &alice(), number));
        let past = visited_by_a_file(&store, &sender(0), 2);
        let before = visited(&store);
        store.unfinished(&bob());
        let begun = visited(&store) - before;
        println!("| {} | {first} | {second} | {past} | {begun} |", senders * PARTIALS_PER_SENDER_MAX);
        assert!([first, second, past, begun].iter().all(|visited| *visited <= 12), "with {senders} senders' files");
    }
}

/// The cost of a file must not grow with the number of files in progress either.
#[test]
fn a_file_costs_no_more_for_those_under_way() {
    let here = tempfile::tempdir().unwrap();
    let store = Store::open(here.path(), StoreOptions { keep_unfinished: true, ..StoreOptions::default() }).unwrap();
    let begin = |number: usize| {
        let name = RelativeName::parse(number.to_string().as_bytes()).unwrap();
        let entry = Entry { name: name.as_bytes().to_vec(), ..entry() };
        store.begin_of(&alice(), &name, &entry, Beginning::New, &mut Changed::default()).unwrap().0
    };
    let mut under_way = Vec::new();
    println!("| files under way | passed through for each that is begun |\n|---|---:|");
    for count in [1, 100, 400] {
        while under_way.len() < count {
            under_way.push(begin(under_way.len()));
        }
        let before = visited(&store);
        (0..100).for_each(|number| drop(begin(1_000 + number)));
        let passed = visited(&store) - before;
        println!("| {count} | {} |", passed as f64 / 100.0);
        assert!(passed <= 400, "{passed} for 100 files with {count} under way");
    }
}

#[test]
fn what_another_program_leaves_is_found_and_what_it_writes_to_is_not_given_up() {
    let here = tempfile::tempdir().unwrap();
    let (mut store, other) = (open(here.path()), open(here.path()));
    Arc::get_mut(&mut store.partials).unwrap().table.files_max = 3;
    assert_eq!(resumable(&store, &alice()), []);
    leave(&other, &alice(), 1_000_000);
    assert_eq!(resumable(&store, &alice()).len(), 1);
    fill(&store, here.path(), &alice(), 2);
    assert_eq!(resumable(&store, &alice()).len(), 3);
    // The oldest file of the full table is in use by the other store, so the next one is removed.
    let (slot, _) = begin(&other, &alice(), Beginning::At(offset_of(1_000_000))).unwrap();
    leave(&store, &bob(), 1_000_000);
    assert_eq!((resumable(&store, &bob()).len(), store.unfinished(&alice()).len()), (1, 2));
    assert!(data_path(here.path()).exists());
    slot.lock().take().unwrap().leave();
}
