//! Tests with senders that send forbidden links, and with obstacles that honest senders meet.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dfcp_framing::error::EXISTS;
use dfcp_framing::files::{HAS_MORE_NAMES, Hello, Link, LinkKind};
use dfcp_framing::limits::LINKS_MAX;
use filetime::FileTime;
use proptest::prelude::*;

use super::resume_tests::alice;
use super::*;
use crate::beneath::set_sender;
use crate::store::{Store, StoreOptions};

fn replacing_options() -> StoreOptions {
    StoreOptions { replace: true.into(), ..careful_options() }
}

fn careful_options() -> StoreOptions {
    StoreOptions {
        replace: false.into(),
        sync: false,
        preserve_modes: false,
        session_bytes_max: None,
        keep_unfinished: false,
        allow_update: false,
        allow_delete: false.into(),
    }
}

/// Session of a sender driven by the test. Ordinals are assigned in order.
struct Sender {
    assembler: Assembler,
    entries: u32,
    directories: u32,
}

impl Sender {
    fn new(output: &Path, options: StoreOptions) -> Self {
        let store = Arc::new(Store::open(output, options).unwrap());
        Self { assembler: Assembler::new(store, Some(alice()), Arc::new(|_| {})), entries: 0, directories: 0 }
    }

    fn entry(&mut self, name: &str, mode: u32) -> Entry {
        let (index, directories) = (self.entries, self.directories);
        self.entries += 1;
        let (mtime_s, mtime_ns, size_hint_bytes, len) = (7, 0, 0, None);
        Entry { index, directories, mode, mtime_s, mtime_ns, size_hint_bytes, len, name: name.as_bytes().to_vec() }
    }

    fn directory(&mut self, name: &str, mode: u32) -> &mut Self {
        let entry = self.entry(name, mode);
        self.assembler.handle(0, &ToReceiver::Directory(entry)).unwrap();
        self.directories += 1;
        self
    }

    /// Sends a file whose content is its own name.
    fn file(&mut self, name: &str, mode: u32) -> &mut Self {
        let entry = self.entry(name, mode);
        let data = name.as_bytes();
        for frame in [
            ToReceiver::File(entry),
            ToReceiver::Data(data.to_vec()),
            ToReceiver::FileEnd { len: data.len() as u64, hash: *blake3::hash(data).as_bytes() },
        ] {
            self.assembler.handle(0, &frame).unwrap();
        }
        self
    }

    /// Sends a file that may get hard links.
    fn shared(&mut self, name: &str) -> &mut Self {
        self.file(name, 0o644 | HAS_MORE_NAMES)
    }

    /// Ends the files after announcing `links` links. Returns the outcomes of the files.
    fn end(&mut self, links: usize) -> Vec<Option<FailureCode>> {
        let count = u32::try_from(links).unwrap();
        self.assembler.handle(0, &ToReceiver::Links { count }).unwrap();
        self.assembler.handle(0, &ToReceiver::End { entries: self.entries, streams: 0 }).unwrap();
        self.assembler.finish().unwrap();
        self.codes()
    }

    fn link(&mut self, link: Link) -> Result<(), TransferError> {
        let index = self.entries;
        self.entries += 1;
        self.assembler.handle(0, &ToReceiver::Link(Link { index, ..link }))
    }

    /// Sends these links and returns their outcomes.
    fn links(&mut self, links: &[Link]) -> Vec<Result<Confirmed, Failure>> {
        self.end(links.len());
        for link in links {
            self.link(link.clone()).unwrap();
        }
        let outcomes = self.outcomes();
        assert_eq!(outcomes.len(), links.len());
        outcomes
    }

    fn outcomes(&mut self) -> Vec<Result<Confirmed, Failure>> {
        let answers = self.assembler.take_answers();
        let verdict = |answer| match answer {
            ToSender::Verdict { index, outcome } => Some((index, outcome)),
            _ => None,
        };
        // Sort, because failures are answered before entries that wait for a flush.
        let mut outcomes: Vec<_> = answers.into_iter().filter_map(verdict).collect();
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn codes(&mut self) -> Vec<Option<FailureCode>> {
        self.outcomes().into_iter().map(|outcome| outcome.err().map(|failure| failure.code)).collect()
    }
}

fn symbolic(name: &str, target: &str) -> Link {
    let (name, target) = (name.as_bytes().to_vec(), target.as_bytes().to_vec());
    let (index, mtime_s, mtime_ns) = (0, 1_000_000_000, 123_456_789);
    Link { index, kind: LinkKind::Symbolic, asks_only: false, mtime_s, mtime_ns, target, name }
}

fn hard(name: &str, first: &str) -> Link {
    Link { kind: LinkKind::Hard, mtime_s: 0, mtime_ns: 0, ..symbolic(name, first) }
}

fn codes(outcomes: Vec<Result<Confirmed, Failure>>) -> Vec<Option<FailureCode>> {
    outcomes.into_iter().map(|outcome| outcome.err().map(|failure| failure.code)).collect()
}

/// Returns all names below `root`, symbolic links with their targets.
fn names(root: &Path) -> Vec<String> {
    let all = walkdir::WalkDir::new(root).min_depth(1).sort_by_file_name().into_iter().map(Result::unwrap);
    all.map(|found| {
        let name = found.path().strip_prefix(root).unwrap().display().to_string();
        match fs::read_link(found.path()) {
            Ok(target) => format!("{name} -> {}", target.display()),
            Err(_) => name,
        }
    })
    .collect()
}

fn inode(path: PathBuf) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[test]
fn links_are_made_with_their_times_and_the_session_counts_them() {
    let output = tempfile::tempdir().unwrap();
    let mut sender = Sender::new(output.path(), StoreOptions { sync: true, ..careful_options() });
    sender.directory("t", 0o755).shared("t/a").directory("t/d", 0o755);
    let made = sender.links(&[symbolic("t/l", "a"), symbolic("t/d/up", "../a"), hard("t/d/b", "t/a")]);
    assert_eq!(made, vec![Ok(Confirmed::Stored); 3]);
    assert_eq!(names(output.path()), ["t", "t/a", "t/d", "t/d/b", "t/d/up -> ../a", "t/l -> a"]);
    assert_eq!(inode(output.path().join("t/a")), inode(output.path().join("t/d/b")));
    let time = FileTime::from_last_modification_time(&fs::symlink_metadata(output.path().join("t/l")).unwrap());
    assert_eq!(time, FileTime::from_unix_time(1_000_000_000, 123_456_789));
    assert_eq!(sender.assembler.totals(), (6, 0));
    assert!(sender.assembler.is_finished);
    sender.assembler.finish_first_stream().unwrap();
}

/// Attack known from archives: a symbolic link to another directory, then a file whose path leads through the link.
#[test]
fn nothing_comes_through_a_link() {
    let output = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let mut first = Sender::new(output.path(), careful_options());
    first.directory("t", 0o755).directory("t/d", 0o755);
    assert_eq!(first.links(&[symbolic("t/l1", "."), symbolic("t/l2", "d")]), vec![Ok(Confirmed::Stored); 2]);
    // In the same session, no file may follow the links.
    let file = first.entry("t/l2/x", 0o644);
    let refused = first.assembler.handle(0, &ToReceiver::File(file)).unwrap_err();
    assert!(matches!(refused, TransferError::Protocol(ProtocolError::OutOfPlace { .. })), "{refused}");
    symlink(outside.path(), output.path().join("t/foreign")).unwrap();
    fs::write(output.path().join("t/d/there"), "there").unwrap();
    let before = names(output.path());
    let mut second = Sender::new(output.path(), replacing_options());
    second.directory("t", 0o755).directory("t/l2", 0o755).file("t/l2/x", 0o644).shared("t/foreign/x").shared("t/a");
    let codes_of_files = [None, Some(FailureCode::Name), Some(FailureCode::Name), Some(FailureCode::Name), None];
    assert_eq!(second.end(5), codes_of_files);
    for link in [
        symbolic("t/l2/x", "there"),
        symbolic("t/l1/l3", "a"),
        hard("t/l2/y", "t/a"),
        hard("t/z", "t/l2/there"),
        hard("t/foreign/y", "t/a"),
    ] {
        second.link(link).unwrap();
    }
    let expected = [FailureCode::Name, FailureCode::Name, FailureCode::Name, FailureCode::Name, FailureCode::Name];
    assert_eq!(second.codes(), expected.map(Some));
    assert_eq!(names(output.path()), [&["t".to_owned(), "t/a".to_owned()], &before[1..]].concat());
    assert_eq!(names(outside.path()), [""; 0]);
}

#[test]
fn links_come_behind_everything_in_order_and_no_more_than_were_announced() {
    let output = tempfile::tempdir().unwrap();
    let link = |index| ToReceiver::Link(Link { index, ..symbolic("t/l", "a") });
    let begun = |announced: &[u32]| {
        let mut sender = Sender::new(output.path(), careful_options());
        sender.directory("t", 0o755);
        for count in announced {
            sender.assembler.handle(0, &ToReceiver::Links { count: *count })?;
        }
        Ok::<_, TransferError>(sender)
    };
    let end = ToReceiver::End { entries: 1, streams: 0 };
    let is_out_of_place = |result| matches!(result, Err(TransferError::Protocol(ProtocolError::OutOfPlace { .. })));
    assert!(is_out_of_place(begun(&[1, 1]).map(drop)), "announced twice");
    assert!(is_out_of_place(begun(&[1]).unwrap().assembler.handle(0, &link(1))), "before the end");
    for announced in [&[][..], &[1]] {
        let mut sender = begun(announced).unwrap();
        sender.assembler.handle(0, &end).unwrap();
        assert!(is_out_of_place(sender.assembler.handle(0, &link(1))), "before all streams have ended");
    }
    let mut sender = begun(&[1]).unwrap();
    sender.assembler.handle(0, &end).unwrap();
    assert!(is_out_of_place(sender.assembler.handle(1, &link(1))), "on another stream");
    for index in [0, 2, u32::MAX] {
        let mut sender = begun(&[2]).unwrap();
        sender.assembler.handle(0, &end).unwrap();
        sender.assembler.finish().unwrap();
        assert!(!sender.assembler.is_finished);
        let refused = sender.assembler.handle(0, &link(index)).unwrap_err();
        assert!(matches!(refused, TransferError::Protocol(ProtocolError::Ordinal { .. })), "{index}: {refused}");
    }
    let mut sender = begun(&[1]).unwrap();
    sender.assembler.handle(0, &end).unwrap();
    sender.assembler.finish().unwrap();
    assert!(matches!(sender.assembler.finish_first_stream(), Err(TransferError::PeerClosed)), "one is missing");
    sender.assembler.handle(0, &link(1)).unwrap();
    assert!(is_out_of_place(sender.assembler.handle(0, &link(2))), "one too many");
    // Announcing the maximum number of links must not allocate memory for them.
    assert!(begun(&[LINKS_MAX]).unwrap().assembler.awaits_more());
}

#[test]
fn hostile_targets_and_names_are_refused_and_nothing_is_made() {
    let output = tempfile::tempdir().unwrap();
    let mut sender = Sender::new(output.path(), replacing_options());
    sender.directory("t", 0o755).directory("t/d", 0o755).shared("t/a");
    let links = [
        symbolic("t/l", ""),
        symbolic("t/l", "/etc/passwd"),
        symbolic("t/l", "../t/a"),
        symbolic("t/d/l", "../../a"),
        symbolic("t/l", "d/../a"),
        symbolic("t/l", "a\0b"),
        symbolic("t/l", ".dfcp-0123456789abcdef.part"),
        symbolic("t/l", ".DFCP-x.PART"),
        symbolic("t/l", ".dfcp-journals.part/x"),
        symbolic("t/l", &["x"; 65].join("/")),
        symbolic("l", "t"),
        symbolic(".", "t"),
        symbolic("../l", "a"),
        symbolic("/tmp/l", "a"),
        symbolic("t/../l", "a"),
        symbolic("t//l", "a"),
        symbolic("t/.dfcp-0123456789abcdef.part", "a"),
        hard("t/b", "../x"),
        hard("t/b", "/etc/passwd"),
        hard("t/b", ""),
        hard("t/b", "t/.dfcp-journals.part"),
        hard("../b", "t/a"),
    ];
    let refused = codes(sender.links(&links));
    assert_eq!(refused, vec![Some(FailureCode::Name); links.len()]);
    assert_eq!(names(output.path()), ["t", "t/a", "t/d"]);
}

/// `..` after a link leads to the parent of the link's target.
#[test]
fn a_chain_of_links_does_not_climb() {
    let output = tempfile::tempdir().unwrap();
    let mut sender = Sender::new(output.path(), careful_options());
    sender.directory("t", 0o755).directory("t/d", 0o755);
    let links = [
        symbolic("t/l1", "."),
        symbolic("t/l2", "l1/../x"),
        symbolic("t/l3", "l1/l1/l1"),
        symbolic("t/d/l4", "../l1/d"),
        symbolic("t/loop", "loop"),
        symbolic("t/far", "loop/x"),
    ];
    assert_eq!(codes(sender.links(&links)), [None, Some(FailureCode::Name), None, None, None, None]);
    let root = output.path().canonicalize().unwrap().join("t");
    for link in ["t/l1", "t/l3", "t/d/l4"] {
        assert!(output.path().join(link).canonicalize().unwrap().starts_with(&root), "{link}");
    }
}

/// Links that exist at the receiver and would lead a received link outside.
#[test]
fn a_link_which_leads_outside_by_one_that_is_there_is_refused() {
    let output = tempfile::tempdir().unwrap();
    fs::create_dir_all(output.path().join("t/d")).unwrap();
    for (target, link) in [("/etc", "out"), ("d/../../x", "up"), ("up", "d/chain"), ("d", "in"), ("..", "d/back")] {
        symlink(target, output.path().join("t").join(link)).unwrap();
    }
    let mut sender = Sender::new(output.path(), careful_options());
    sender.directory("t", 0o755);
    let links = [
        symbolic("t/l1", "out"),
        symbolic("t/l2", "out/passwd"),
        symbolic("t/l3", "up"),
        symbolic("t/l4", "in/back/up"),
        symbolic("t/l5", "in"),
        symbolic("t/l6", "in/back/in/missing"),
        symbolic("t/l7", "d/chain/y"),
    ];
    let is_refused = [true, true, true, true, false, false, false];
    let refused = is_refused.map(|is_refused| is_refused.then_some(FailureCode::Name));
    assert_eq!(codes(sender.links(&links)), refused);
}

/// Links that exist at the receiver form a cycle; resolving them must end.
#[test]
fn a_walk_along_links_is_bounded() {
    let output = tempfile::tempdir().unwrap();
    fs::create_dir_all(output.path().join("t/d")).unwrap();
    let long = "d/".to_owned() + &"../d/".repeat(300) + "x";
    for (target, name) in [("loop", "loop"), ("two", "one"), ("one/d", "two"), (&long, "long")] {
        symlink(target, output.path().join("t").join(name)).unwrap();
    }
    let mut sender = Sender::new(output.path(), careful_options());
    sender.directory("t", 0o755);
    let links = [symbolic("t/1", "loop"), symbolic("t/2", "one/x"), symbolic("t/3", "long")];
    assert_eq!(codes(sender.links(&links)), [None, None, Some(FailureCode::Name)]);
}

#[test]
fn what_is_there_is_replaced_only_where_files_are() {
    for (options, expected) in [(careful_options(), [true; 4]), (replacing_options(), [false, false, false, true])] {
        let output = tempfile::tempdir().unwrap();
        fs::create_dir_all(output.path().join("t/directory/inside")).unwrap();
        fs::write(output.path().join("t/file"), "precious").unwrap();
        symlink("elsewhere", output.path().join("t/link")).unwrap();
        symlink("directory", output.path().join("t/to-directory")).unwrap();
        let there = names(output.path());
        for kind in [LinkKind::Symbolic, LinkKind::Hard] {
            let mut sender = Sender::new(output.path(), options.clone());
            sender.directory("t", 0o755).shared("t/a");
            let links = ["t/file", "t/link", "t/to-directory", "t/directory"].map(|name| match kind {
                LinkKind::Symbolic => symbolic(name, "a"),
                LinkKind::Hard => hard(name, "t/a"),
            });
            let outcomes = sender.links(&links);
            if options.replace.is_always() {
                let inodes = ["t/a", "t/file", "t/link", "t/to-directory"].map(|name| inode(output.path().join(name)));
                let is_hard = kind == LinkKind::Hard;
                assert_eq!(inodes[1..].iter().all(|inode| *inode == inodes[0]), is_hard);
            } else {
                fs::remove_file(output.path().join("t/a")).unwrap();
                assert_eq!(names(output.path()), there);
            }
            let is_exists = |outcome: &Result<Confirmed, Failure>| {
                outcome.as_ref().is_err_and(|failure| failure.code == FailureCode::Exists)
            };
            assert_eq!(outcomes.iter().map(is_exists).collect::<Vec<_>>(), expected, "{kind:?} {outcomes:?}");
            assert!(output.path().join("t/directory/inside").is_dir());
            if !options.replace.is_always() {
                assert_eq!(outcomes[0].as_ref().unwrap_err().sentence, EXISTS);
            }
        }
        assert!(!names(output.path()).iter().any(|name| name.contains(".part")), "something is left over");
    }
}

/// Cases: a link becomes a file, a file becomes a link, and a directory is to replace each of them.
#[test]
fn what_was_a_link_may_be_a_file_now_and_no_directory() {
    let output = tempfile::tempdir().unwrap();
    let mut sender = Sender::new(output.path(), replacing_options());
    sender.directory("t", 0o755).file("t/f", 0o644).directory("t/d", 0o755);
    assert_eq!(sender.links(&[symbolic("t/l", "d")]), [Ok(Confirmed::Stored)]);
    let mut sender = Sender::new(output.path(), replacing_options());
    sender.directory("t", 0o755).file("t/l", 0o644);
    assert_eq!(sender.links(&[symbolic("t/f", "l")]), [Ok(Confirmed::Stored)]);
    assert_eq!(names(output.path()), ["t", "t/d", "t/f -> l", "t/l"]);
    let mut sender = Sender::new(output.path(), replacing_options());
    sender.directory("t", 0o755).directory("t/f", 0o755).file("t/f/x", 0o644);
    assert_eq!(sender.end(1), [None, Some(FailureCode::Name), Some(FailureCode::Name)]);
    sender.link(symbolic("t/d", "l")).unwrap();
    assert_eq!(sender.codes(), [Some(FailureCode::Exists)]);
    assert_eq!(names(output.path()), ["t", "t/d", "t/f -> l", "t/l"]);
}

/// The creator of a link is unknown. Only a sender that also knows the link's time learns that it has guessed the
/// target.
#[test]
fn the_target_of_a_link_cannot_be_guessed() {
    let there = symbolic("t/l", "a-secret");
    let answers = |options: StoreOptions, link: Link| {
        let output = tempfile::tempdir().unwrap();
        let mut sender = Sender::new(output.path(), careful_options());
        sender.directory("t", 0o755);
        assert_eq!(sender.links(std::slice::from_ref(&there)), [Ok(Confirmed::Stored)]);
        let mut sender = Sender::new(output.path(), options);
        sender.directory("t", 0o755);
        sender.links(&[link]).remove(0)
    };
    let with_other_time = Link { mtime_ns: 0, ..there.clone() };
    assert_eq!(answers(careful_options(), there.clone()), Ok(Confirmed::Unchanged));
    assert_eq!(
        answers(careful_options(), with_other_time.clone()),
        answers(careful_options(), symbolic("t/l", "a-guess"))
    );
    let asking = |link: &Link| Link { asks_only: true, ..link.clone() };
    assert_eq!(
        answers(careful_options(), asking(&with_other_time)),
        answers(careful_options(), asking(&symbolic("t/l", "a-guess")))
    );
    // With --force, a wrong guess replaces the link.
    assert_eq!(
        answers(replacing_options(), with_other_time.clone()),
        answers(replacing_options(), symbolic("t/l", "a-guess"))
    );
    let telling = StoreOptions { allow_update: true, ..careful_options() };
    assert_eq!(answers(telling, with_other_time), Ok(Confirmed::Unchanged));
}

#[test]
fn only_a_file_of_the_session_gets_a_further_name() {
    let output = tempfile::tempdir().unwrap();
    let path = |name: &str| output.path().join(name);
    fs::create_dir(path("t")).unwrap();
    for (name, owner) in [("t/foreign", None), ("t/bob", Some("SHA256:bob")), ("t/own", Some(alice().as_str()))] {
        fs::write(path(name), name).unwrap();
        set_sender(&fs::File::open(path(name)).unwrap(), owner).unwrap();
    }
    symlink("own", path("t/link")).unwrap();
    for options in [StoreOptions { allow_update: true, ..careful_options() }, careful_options()] {
        let mut sender = Sender::new(output.path(), options.clone());
        // Only the last two files are confirmed as this sender's own. The first two exist already, as foreign files.
        sender.directory("t", 0o755).shared("t/foreign").shared("t/bob").shared("t/own").file("t/unflagged", 0o644);
        let links = [
            hard("t/1", "t/foreign"),
            hard("t/2", "t/bob"),
            hard("t/3", "t/unflagged"),
            hard("t/4", "t"),
            hard("t/5", "t/link"),
            hard("t/6", "t/missing"),
            hard("t/own-too", "t/own"),
        ];
        let outcomes = codes(sender.links(&links));
        let stored = |outcome: &Option<FailureCode>| outcome.is_none();
        assert_eq!(outcomes.iter().map(stored).collect::<Vec<_>>(), [false, false, false, false, false, false, true]);
        assert!(outcomes[..6].iter().all(|code| *code == Some(FailureCode::FileSystem)), "{outcomes:?}");
        assert_eq!(fs::metadata(path("t/own")).unwrap().nlink(), 2);
        for name in ["t/foreign", "t/bob", "t/unflagged"] {
            assert_eq!(fs::metadata(path(name)).unwrap().nlink(), 1, "{name}");
        }
        fs::remove_file(path("t/unflagged")).unwrap();
    }
}

/// A sender must not learn whether two names of foreign files are hard links to the same file.
#[test]
fn what_others_files_have_in_common_cannot_be_found_out() {
    let answers = |is_one: bool, asks_only| {
        let output = tempfile::tempdir().unwrap();
        fs::create_dir(output.path().join("t")).unwrap();
        fs::write(output.path().join("t/a"), "x").unwrap();
        if is_one {
            fs::hard_link(output.path().join("t/a"), output.path().join("t/b")).unwrap();
        } else {
            fs::write(output.path().join("t/b"), "y").unwrap();
        }
        [careful_options(), replacing_options()].map(|options| {
            let mut sender = Sender::new(output.path(), options);
            sender.directory("t", 0o755);
            sender.end(1);
            sender.link(Link { asks_only, ..hard("t/b", "t/a") }).unwrap();
            sender.assembler.take_answers()
        })
    };
    for asks_only in [false, true] {
        assert_eq!(answers(true, asks_only), answers(false, asks_only));
    }
}

/// Another user with write access replaces the file after it was stored.
#[test]
fn a_file_that_was_exchanged_gets_no_further_name() {
    let output = tempfile::tempdir().unwrap();
    let mut sender = Sender::new(output.path(), careful_options());
    sender.directory("t", 0o755).shared("t/a").shared("t/b").shared("t/c");
    assert_eq!(sender.end(4), [None; 4]);
    let path = |name: &str| output.path().join(name);
    fs::write(path("other"), "other").unwrap();
    fs::rename(path("other"), path("t/a")).unwrap();
    fs::remove_file(path("t/b")).unwrap();
    symlink("c", path("t/b")).unwrap();
    fs::set_permissions(path("t/c"), fs::Permissions::from_mode(0o4755)).unwrap();
    for link in [hard("t/1", "t/a"), hard("t/2", "t/b"), hard("t/3", "t/c")] {
        sender.link(link).unwrap();
    }
    // With its mode reset, the same file gets the hard link, as its identity has not changed.
    fs::set_permissions(path("t/c"), fs::Permissions::from_mode(0o755)).unwrap();
    sender.link(hard("t/4", "t/c")).unwrap();
    let expected = [Some(FailureCode::FileSystem), Some(FailureCode::FileSystem), Some(FailureCode::Permission), None];
    assert_eq!(sender.codes(), expected);
    assert_eq!(names(output.path()), ["t", "t/4", "t/a", "t/b -> c", "t/c"]);
}

/// The first name could not be stored, so the hard link to it fails and is not created.
#[test]
fn a_further_name_of_a_file_that_failed_fails() {
    let output = tempfile::tempdir().unwrap();
    fs::create_dir(output.path().join("t")).unwrap();
    fs::write(output.path().join("t/a"), "somebody else's").unwrap();
    let mut sender = Sender::new(output.path(), careful_options());
    sender.directory("t", 0o755).shared("t/a");
    assert_eq!(sender.end(1), [None, Some(FailureCode::Exists)]);
    sender.link(hard("t/b", "t/a")).unwrap();
    assert_eq!(sender.codes(), [Some(FailureCode::FileSystem)]);
    assert_eq!(names(output.path()), ["t", "t/a"]);
    assert_eq!(sender.assembler.totals(), (1, 2));
}

#[test]
fn a_second_session_finds_everything_unchanged_and_repairs_what_is_not() {
    let output = tempfile::tempdir().unwrap();
    let all = [symbolic("t/l", "a"), hard("t/b", "t/a")];
    for expected in [Confirmed::Stored, Confirmed::Unchanged] {
        let mut sender = Sender::new(output.path(), careful_options());
        sender.directory("t", 0o755).shared("t/a");
        assert_eq!(sender.links(&all), [Ok(expected), Ok(expected)]);
    }
    // The hard link is replaced by a separate file with the same content.
    fs::remove_file(output.path().join("t/b")).unwrap();
    fs::write(output.path().join("t/b"), "t/a").unwrap();
    let mut sender = Sender::new(output.path(), replacing_options());
    sender.directory("t", 0o755).shared("t/a");
    assert_eq!(sender.links(&all), [Ok(Confirmed::Unchanged), Ok(Confirmed::Stored)]);
    assert_eq!(inode(output.path().join("t/a")), inode(output.path().join("t/b")));
}

/// Directories get their time and mode before links arrive, and may be read-only by then.
#[test]
fn a_directory_keeps_its_time_and_its_mode() {
    let output = tempfile::tempdir().unwrap();
    crate::tests::deletion::without_override(|| {
        let mut sender = Sender::new(output.path(), StoreOptions { sync: true, ..careful_options() });
        sender.directory("t", 0o555).shared("t/a").directory("t/d", 0o500);
        let links = [symbolic("t/l", "a"), symbolic("t/d/l", "../a"), hard("t/d/b", "t/a"), hard("t/c", "t/a")];
        assert_eq!(sender.links(&links), vec![Ok(Confirmed::Stored); 4]);
    });
    for (name, mode) in [("t", 0o555), ("t/d", 0o500)] {
        let metadata = fs::metadata(output.path().join(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
        assert_eq!(FileTime::from_last_modification_time(&metadata), FileTime::from_unix_time(7, 0), "{name}");
    }
    assert_eq!(names(output.path()).len(), 7);
    for name in ["t", "t/d"] {
        fs::set_permissions(output.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_sender_that_only_asks_is_told_what_would_be_made_and_nothing_is() {
    let output = tempfile::tempdir().unwrap();
    let mut sender = Sender::new(output.path(), careful_options());
    sender.directory("t", 0o755).shared("t/a");
    sender.links(&[symbolic("t/l", "a"), hard("t/b", "t/a")]);
    fs::write(output.path().join("t/file"), "precious").unwrap();
    let before = names(output.path());
    let mut sender = Sender::new(output.path(), careful_options());
    sender.end(7);
    let mut asked = Vec::new();
    for link in [
        symbolic("t/l", "a"),
        hard("t/b", "t/a"),
        symbolic("t/new", "a"),
        hard("t/new", "t/a"),
        symbolic("u/v/l", "../x"),
        symbolic("t/file", "a"),
        symbolic("t/l2", "../.."),
    ] {
        sender.link(Link { asks_only: true, ..link }).unwrap();
        sender.assembler.publish().unwrap();
        asked.extend(sender.assembler.take_answers().into_iter().filter_map(|answer| match answer {
            ToSender::Verdict { outcome, .. } => Some(outcome.err().map(|failure| failure.code).ok_or("unchanged")),
            ToSender::Want { .. } => Some(Err("wanted")),
            _ => None,
        }));
    }
    let expected = [
        Err("unchanged"),
        Err("unchanged"),
        Err("wanted"),
        Err("wanted"),
        Err("wanted"),
        Ok(FailureCode::Exists),
        Ok(FailureCode::Name),
    ];
    assert_eq!(asked, expected);
    assert_eq!(names(output.path()), before);
}

#[test]
fn the_texts_of_links_count_as_content() {
    let output = tempfile::tempdir().unwrap();
    let mut sender = Sender::new(output.path(), StoreOptions { session_bytes_max: Some(10), ..careful_options() });
    sender.directory("t", 0o755);
    let links = [symbolic("t/1", "12345"), symbolic("t/2", "123456"), symbolic("t/3", "12345"), symbolic("t/4", "1")];
    assert_eq!(codes(sender.links(&links)), [None, Some(FailureCode::DiskFull), None, Some(FailureCode::DiskFull)]);
}

/// An output stream receives a single file, so it supports no links.
#[test]
fn a_stream_takes_no_links_and_says_so() {
    let mut assembler = Assembler::new(Target::stream(Vec::new(), None), Some(alice()), Arc::new(|_| {}));
    assembler.greet();
    assert!(matches!(assembler.take_answers()[..], [ToSender::Hello(Hello { keeps_links: false, .. })]));
    let refused = assembler.handle(0, &ToReceiver::Links { count: 1 }).unwrap_err();
    assert!(matches!(refused, TransferError::Protocol(ProtocolError::OutOfPlace { .. })), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Property: no link created for a sender leads outside its tree.
    #[test]
    fn no_link_leads_out_of_its_tree(
        links in proptest::collection::vec(
            (0..4_usize, proptest::collection::vec(prop_oneof![Just(".."), Just("."), Just("d"), Just("e"), Just("l0"), Just("l1")], 1..5)),
            1..12,
        ),
    ) {
        let output = tempfile::tempdir().unwrap();
        let mut sender = Sender::new(output.path(), replacing_options());
        sender.directory("t", 0o755).directory("t/d", 0o755).directory("t/d/e", 0o755).file("t/x", 0o644);
        let links: Vec<_> = links
            .iter()
            .enumerate()
            .map(|(number, (place, target))| {
                let within = ["t", "t/d", "t/d/e", "t/l0"][*place];
                symbolic(&format!("{within}/l{}", number % 3), &target.join("/"))
            })
            .collect();
        sender.links(&links);
        let root = output.path().canonicalize().unwrap().join("t");
        for found in walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap) {
            if let Ok(leads_to) = found.path().canonicalize() {
                prop_assert!(leads_to.starts_with(&root), "{} -> {}", found.path().display(), leads_to.display());
            }
        }
    }
}

/// Tests on file systems that lack links, fold names, or are full.
#[cfg(target_os = "linux")]
mod file_systems {
    use dfcp_powercut::{Disk, PowerCut, missing};

    use super::*;

    fn told(reason: &str) {
        std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {reason}\n").as_bytes()).unwrap();
    }

    #[test]
    fn a_file_system_that_takes_different_names_for_the_same_loses_no_file() {
        if let Some(reason) = missing() {
            return told(&reason);
        }
        let directory = tempfile::tempdir().unwrap();
        let mount = PowerCut::mount(directory.path(), Disk::folding()).unwrap();
        let mut sender = Sender::new(mount.path(), replacing_options());
        sender.directory("t", 0o755).file("t/a", 0o644).shared("t/b");
        let links =
            [symbolic("t/A", "b"), hard("t/A", "t/b"), symbolic("t/l", "b"), symbolic("t/L", "a"), hard("t/B", "t/b")];
        let outcomes = codes(sender.links(&links));
        let exists = Some(FailureCode::Exists);
        // The last link's name exists and belongs to the linked file itself.
        assert_eq!(outcomes, [exists, exists, None, exists, None]);
        assert_eq!(fs::read(mount.path().join("t/a")).unwrap(), b"t/a");
        assert_eq!(fs::read_link(mount.path().join("t/l")).unwrap(), Path::new("b"));
    }

    #[test]
    fn a_link_that_was_confirmed_survives_a_power_cut() {
        if let Some(reason) = missing() {
            return told(&reason);
        }
        let lost = |sync| {
            let directory = tempfile::tempdir().unwrap();
            let mount = PowerCut::mount(directory.path(), Disk::new()).unwrap();
            let mut sender = Sender::new(mount.path(), StoreOptions { sync, ..careful_options() });
            sender.directory("t", 0o755).shared("t/a").directory("t/d", 0o755);
            let links = [symbolic("t/d/l", "../a"), hard("t/d/b", "t/a"), symbolic("t/l", "a")];
            assert_eq!(sender.links(&links), vec![Ok(Confirmed::Stored); 3]);
            let disk = mount.disk();
            let is_whole = |seed| {
                let there = disk.after_power_cut(seed).paths();
                links.iter().all(|link| there.iter().any(|path| path.as_os_str().as_encoded_bytes() == link.name))
            };
            (0..30).filter(|seed| !is_whole(*seed)).count()
        };
        assert_eq!(lost(true), 0);
        assert!(lost(false) > 0, "nothing can be lost here");
    }

    /// Mounts a tmpfs with `inodes` inodes. `None` if mounting is impossible.
    fn full(inodes: u32) -> Option<(tempfile::TempDir, Unmount)> {
        let directory = tempfile::tempdir().unwrap();
        let data = std::ffi::CString::new(format!("nr_inodes={inodes}")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", directory.path(), "tmpfs", flags, Some(data.as_c_str())).ok()?;
        let unmount = Unmount(directory.path().to_owned());
        Some((directory, unmount))
    }

    struct Unmount(PathBuf);

    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        }
    }

    #[test]
    fn a_full_disk_takes_some_links_and_names_the_others() {
        let Some((directory, _unmount)) = full(8) else { return told("nothing can be mounted here") };
        let mut sender = Sender::new(directory.path(), careful_options());
        sender.directory("t", 0o755);
        let links: Vec<_> = (0..20).map(|number| symbolic(&format!("t/{number:02}"), "a")).collect();
        let outcomes = codes(sender.links(&links));
        let made = outcomes.iter().filter(|code| code.is_none()).count();
        assert!((1..20).contains(&made), "{outcomes:?}");
        assert!(outcomes[made..].iter().all(|code| *code == Some(FailureCode::DiskFull)), "{outcomes:?}");
        assert_eq!(names(directory.path()).len(), 1 + made);
    }
}
