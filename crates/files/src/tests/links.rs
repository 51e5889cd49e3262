//! Tests of trees with links, from the search to the stored result.

use std::os::unix::fs::{MetadataExt, symlink};

use dfcp::{Cipher, Pattern, StaticKey};

use super::*;
use crate::EntryKind;
use crate::exclude::Exclude;
use crate::limits::FAILURES_KEPT_MAX;
use crate::seal::Seal;
use crate::transport::memory::connection;

/// Sender and receiver; the sender's tree `t` is sent.
struct Sides {
    here: tempfile::TempDir,
    there: tempfile::TempDir,
}

struct Done {
    sent: Report,
    received: Report,
    told: Vec<EntryOutcome>,
    /// Skipped names, with the reason.
    skipped: Vec<(String, Skipped)>,
}

#[derive(Default)]
struct Watch(Mutex<Vec<EntryOutcome>>, Mutex<Vec<(String, Skipped)>>);

impl Observer for Watch {
    fn entry(&self, outcome: &EntryOutcome) {
        self.0.lock().unwrap().push(outcome.clone());
    }
    fn skipped(&self, name: &str, what: Skipped) {
        let name = name.rsplit_once("/t/").map_or(name, |(_, below)| below);
        self.1.lock().unwrap().push((name.to_owned(), what));
    }
    fn progress(&self, _snapshot: &Snapshot) {}
}

fn linking() -> SendOptions {
    SendOptions { links: true, ..SendOptions::default() }
}

fn replacing() -> StoreOptions {
    StoreOptions { replace: true.into(), allow_delete: true.into(), keep_unfinished: true, ..StoreOptions::default() }
}

impl Sides {
    fn new() -> Self {
        let sides = Self { here: tempfile::tempdir().unwrap(), there: tempfile::tempdir().unwrap() };
        fs::create_dir(sides.here.path().join("t")).unwrap();
        sides
    }

    fn path(&self, name: &str) -> PathBuf {
        self.here.path().join("t").join(name)
    }

    fn write(&self, name: &str) -> &Self {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), name).unwrap();
        self
    }

    fn link(&self, target: &str, name: &str) -> &Self {
        symlink(target, self.path(name)).unwrap();
        self
    }

    fn name(&self, first: &str, name: &str) -> &Self {
        fs::hard_link(self.path(first), self.path(name)).unwrap();
        self
    }

    fn send_to(&self, options: SendOptions, store: StoreOptions) -> Done {
        let store = Arc::new(Store::open(self.there.path(), store).unwrap());
        let watch = Arc::new(Watch::default());
        let (near, mut far) = connection(8, 100_000);
        far.seal = Some(Seal {
            pattern: Pattern::Pinned,
            peer: Some(StaticKey::from_seed(&[1; 32]).public()),
            pre_shared: None,
            handshake_hash: [0; 32],
            cipher: Cipher::ChaCha20Poly1305,
        });
        let (sent, received) = run(async {
            tokio::join!(
                send(near, roots(&[self.here.path().join("t")]), options, Arc::clone(&watch) as _),
                receive(far, store, Arc::new(Log::default()) as _, std::future::pending())
            )
        });
        let (told, skipped) = (watch.0.lock().unwrap().clone(), watch.1.lock().unwrap().clone());
        Done { sent: sent.unwrap(), received: received.unwrap(), told, skipped }
    }

    fn send(&self, options: SendOptions) -> Done {
        self.send_to(options, StoreOptions { keep_unfinished: true, ..StoreOptions::default() })
    }

    #[track_caller]
    fn assert_same(&self) {
        assert_eq!(described(&self.there.path().join("t")), described(&self.here.path().join("t")));
    }
}

/// Describes everything below `root`: kinds, contents, targets, times, and hard links.
fn described(root: &Path) -> Vec<String> {
    let mut first_names = BTreeMap::new();
    let all = walkdir::WalkDir::new(root).sort_by_file_name().into_iter().map(Result::unwrap);
    all.map(|found| {
        let (path, metadata) = (found.path(), found.path().symlink_metadata().unwrap());
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let content = match () {
            () if metadata.is_symlink() => format!("-> {}", fs::read_link(path).unwrap().display()),
            () if metadata.is_dir() => "directory".to_owned(),
            () => {
                let first = first_names.entry(metadata.ino()).or_insert_with(|| name.clone()).clone();
                format!("{:?} as {first}", fs::read(path).unwrap())
            }
        };
        format!("{name}: {content} {:?}", (metadata.mtime(), metadata.mtime_nsec()))
    })
    .collect()
}

fn sample() -> Sides {
    let sides = Sides::new();
    sides.write("lib/libx.so.1.2").link("libx.so.1.2", "lib/libx.so.1").link("libx.so.1", "lib/libx.so");
    sides.write("bin/tool").name("bin/tool", "bin/a-tool").name("bin/tool", "other");
    sides.link("../lib", "bin/lib").link("bin/lib/libx.so", "through").link("missing", "dangling").link(".", "self");
    sides.link("ab\nc\u{1b}[1m", "odd\ttarget");
    for time in ["lib", "bin", ""] {
        filetime::set_file_mtime(sides.path(time), filetime::FileTime::from_unix_time(1_000, 5)).unwrap();
    }
    sides
}

#[test]
fn a_tree_with_links_is_the_same_on_both_sides_and_unchanged_afterwards() {
    let sides = sample();
    let done = sides.send(linking());
    sides.assert_same();
    assert_eq!((done.sent.failed, done.sent.skipped, done.sent.links), (0, 0, 9), "{:?}", done.sent.failures);
    assert_eq!((done.received.links, done.received.stored, done.received.failed), (9, done.sent.stored, 0));
    // The content of a hard-linked file is sent only once.
    assert_eq!(done.sent.bytes, ("lib/libx.so.1.2".len() + "bin/tool".len()) as u64);
    let links = done.told.iter().filter(|outcome| outcome.kind == EntryKind::Link).map(|outcome| outcome.name.as_str());
    assert!(links.clone().any(|name| name == "t/lib/libx.so") && links.count() == 9);
    let again = sides.send(linking());
    assert_eq!((again.sent.unchanged, again.sent.stored, again.sent.failed), (11, 3, 0), "{:?}", again.sent.failures);
    sides.assert_same();
}

#[test]
fn without_the_option_links_are_named_and_only_strictly_a_failure() {
    let sides = sample();
    for strict in [false, true] {
        let done = sides.send(SendOptions { strict, ..SendOptions::default() });
        let of = |what| done.skipped.iter().filter(move |skipped| skipped.1 == what).map(|skipped| skipped.0.as_str());
        assert_eq!(of(Skipped::Link).count(), 7);
        // In the order of the search, `bin/tool` and `other` are found after the first names of their files.
        assert_eq!(of(Skipped::Copy).collect::<Vec<_>>(), ["bin/tool", "other"]);
        assert_eq!((done.sent.failed, done.sent.skipped, done.sent.left_out), (0, 7, 9));
        assert_eq!(done.sent.is_complete(), !strict);
    }
    assert!(!names(sides.there.path()).iter().any(|name| name.contains("->")));
    assert_eq!(fs::metadata(sides.there.path().join("t/bin/tool")).unwrap().nlink(), 1);
}

fn names(root: &Path) -> Vec<String> {
    described(root)
}

#[test]
fn what_may_not_be_kept_is_named_and_what_is_excluded_is_not_left_out() {
    let sides = Sides::new();
    sides.write("a").write("d/b").link("/etc/passwd", "absolute").link("../x", "up").link("d/../a", "inside");
    sides
        .link("../../x", "d/far")
        .link("../a", "d/near")
        .link("a", "excluded.l")
        .link("a", ".dfcp-0123456789abcdef.part");
    sides.name("a", "excluded.h");
    let exclude = Exclude::new(&["excluded.*".to_owned()]).unwrap();
    let mut options = SendOptions { strict: true, exclude: Arc::new(exclude), ..linking() };
    let done = sides.send(options.clone());
    let mut skipped = done.skipped.clone();
    skipped.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        skipped.iter().map(|(name, what)| (name.as_str(), *what)).collect::<Vec<_>>(),
        [
            (".dfcp-0123456789abcdef.part", Skipped::Unfinished),
            ("absolute", Skipped::LinkOutside),
            ("d/far", Skipped::LinkOutside),
            ("excluded.h", Skipped::Excluded),
            ("excluded.l", Skipped::Excluded),
            ("inside", Skipped::LinkOutside),
            ("up", Skipped::LinkOutside),
        ]
    );
    assert_eq!((done.sent.failed, done.sent.left_out, done.sent.is_complete()), (0, 5, false));
    for name in ["absolute", "d/far", "inside", "up", ".dfcp-0123456789abcdef.part"] {
        fs::remove_file(sides.path(name)).unwrap();
    }
    // A hard link of `t/a` exists outside the sent tree.
    options.strict = true;
    assert!(sides.send(options).sent.is_complete());
    assert_eq!(fs::metadata(sides.there.path().join("t/a")).unwrap().nlink(), 1);
    assert!(sides.there.path().join("t/d/near").is_symlink());
}

/// A file whose other hard link is outside the sent tree is an ordinary file.
#[test]
fn a_name_outside_of_what_is_sent_does_not_matter() {
    let sides = Sides::new();
    sides.write("a");
    fs::hard_link(sides.path("a"), sides.here.path().join("outside")).unwrap();
    for options in [linking(), SendOptions::default()] {
        let done = sides.send(SendOptions { strict: true, ..options });
        assert!(done.sent.is_complete() && done.skipped.is_empty());
    }
    assert_eq!(names(sides.there.path()).len(), 3);
}

#[test]
fn an_update_makes_links_of_files_and_files_of_links() {
    let sides = Sides::new();
    sides.write("a").write("b").write("d/x").link("a", "l").name("b", "h").link("d", "gone");
    assert_eq!(sides.send_to(linking(), replacing()).sent.failed, 0);
    sides.assert_same();
    for name in ["a", "l", "h", "gone"] {
        fs::remove_file(sides.path(name)).unwrap();
    }
    sides.write("l").link("l", "a").write("h").name("d/x", "d/y");
    let delete = SendOptions { delete: true, ..linking() };
    let dry = sides.send_to(SendOptions { dry_run: true, ..delete.clone() }, replacing());
    let wanted = |done: &Done| {
        let all = done.told.iter().filter(|outcome| outcome.is_wanted).map(|outcome| outcome.name.clone());
        all.collect::<BTreeSet<_>>()
    };
    assert_eq!(wanted(&dry), ["t/a", "t/d/y", "t/h", "t/l"].map(str::to_owned).into());
    assert_eq!((dry.sent.failed, dry.sent.unnamed + dry.sent.deleted), (0, 1), "{:?}", dry.sent.failures);
    let done = sides.send_to(delete, replacing());
    assert_eq!((done.sent.failed, done.sent.deleted), (0, 1), "{:?}", done.sent.failures);
    sides.assert_same();
}

/// A link that cannot be created prevents deletion.
#[test]
fn a_link_that_fails_keeps_what_would_be_deleted() {
    let sides = Sides::new();
    sides.write("a").link("a", "l");
    fs::create_dir_all(sides.there.path().join("t/l")).unwrap();
    fs::write(sides.there.path().join("t/old"), "old").unwrap();
    let done = sides.send_to(SendOptions { delete: true, ..linking() }, replacing());
    assert_eq!((done.sent.failed, done.sent.deleted), (1, 0));
    assert!(done.sent.deletion_skipped.is_some() && sides.there.path().join("t/old").exists());
}

#[test]
fn more_links_than_are_answered_at_a_time_arrive() {
    const LINKS: usize = 600;
    let sides = Sides::new();
    sides.write("a");
    for number in 0..LINKS {
        sides.link("a", &format!("l{number}"));
    }
    let done = sides.send(linking());
    assert_eq!((done.sent.links, done.sent.failed), (LINKS as u64, 0));
    sides.assert_same();
    // All failures are counted, but only some are listed by name.
    let other = Sides { here: sides.here, there: tempfile::tempdir().unwrap() };
    fs::create_dir_all(other.there.path().join("t")).unwrap();
    for number in 0..LINKS {
        fs::write(other.there.path().join(format!("t/l{number}")), "").unwrap();
    }
    let done = other.send(linking());
    assert_eq!((done.sent.failed, done.sent.failures.len()), (LINKS as u64, FAILURES_KEPT_MAX.min(LINKS)));
}

/// The HELLO of an older receiver does not announce support for links.
#[test]
fn a_receiver_that_keeps_no_links_ends_it_before_anything_is_sent() {
    let sides = sample();
    let (here, mut there) = duplex(1 << 16);
    let old = async move {
        let mut bytes = Service::Files.preamble().to_vec();
        ToSender::Hello(Hello { takes_offers: true, ..Hello::default() }).encode(&mut bytes);
        there.write_all(&bytes).await.unwrap();
        let mut said = Vec::new();
        there.read_to_end(&mut said).await.unwrap();
        said
    };
    let root = [sides.here.path().join("t")];
    let (sent, said) =
        run(async { tokio::join!(send(here, roots(&root), linking(), Arc::new(Log::default()) as _), old) });
    assert!(matches!(sent, Err(TransferError::NoLinks)), "{sent:?}");
    assert_eq!(said, Service::Files.preamble());
}

/// A receiver must not confirm a link as created in a dry run, nor request a link outside of a dry run.
#[test]
fn a_receiver_that_lies_about_links_ends_the_session() {
    let sides = Sides::new();
    sides.link("a", "l");
    for (dry_run, answer) in [
        (true, ToSender::Verdict { index: 0, outcome: Ok(Confirmed::Stored) }),
        (false, ToSender::Want { index: 1 }),
        (false, ToSender::Verdict { index: 2, outcome: Ok(Confirmed::Stored) }),
    ] {
        let (here, mut there) = duplex(1 << 16);
        let liar = async move {
            let mut bytes = Service::Files.preamble().to_vec();
            ToSender::Hello(Hello { keeps_links: true, ..Hello::default() }).encode(&mut bytes);
            there.write_all(&bytes).await.unwrap();
            // Read everything that the sender sends up to the link, which is the last frame.
            let mut said = Vec::new();
            there.read_to_end(&mut said).await.unwrap();
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            there.write_all(&bytes).await.unwrap();
            there
        };
        let (root, options) = ([sides.here.path().join("t")], SendOptions { dry_run, ..linking() });
        let (sent, _there) =
            run(async { tokio::join!(send(here, roots(&root), options, Arc::new(Log::default()) as _), liar) });
        assert!(matches!(sent, Err(TransferError::Protocol(ProtocolError::StrayVerdict { .. }))), "{sent:?}");
    }
}
