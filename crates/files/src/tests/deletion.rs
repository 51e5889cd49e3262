//! Tests of deletion: after failures, at interruptions, and on random trees.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

use dfcp::{Cipher, Pattern, StaticKey};
use dfcp_framing::names::is_temporary;

use super::*;
use crate::exclude::Exclude;
use crate::seal::Seal;
use crate::skipped::SKIPPED_AFTER_FAILURE;
use crate::transport::memory::{Memory, connection};

/// Runs the closure without the root user's capability to ignore permissions.
pub(crate) fn without_override<T>(run: impl FnOnce() -> T) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let before = capabilities(None).unwrap();
    let mut fewer = before;
    fewer.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    set_capabilities(None, fewer).unwrap();
    let done = catch_unwind(AssertUnwindSafe(run));
    set_capabilities(None, before).unwrap();
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Mounted file system, which is unmounted when dropped.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// Bind-mounts the directory `source` at `path`, or mounts a new file system there. `None` if mounting is not
    /// permitted.
    pub(crate) fn new(source: Option<&Path>, path: &Path) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        // Do not start the program `mount`: a child process would briefly inherit the locks of other tests.
        let mounted = match source {
            Some(source) => rustix::mount::mount_bind(source, path),
            None => rustix::mount::mount("none", path, "tmpfs", rustix::mount::MountFlags::empty(), None),
        };
        mounted.is_ok().then(|| Self(path.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        assert!(unmounted.is_ok() || std::thread::panicking());
    }
}

/// Returns a connection on which the receiver knows the sender's key.
pub(super) fn known() -> (Memory, Memory) {
    let (near, mut far) = connection(8, 100_000);
    far.seal = Some(Seal {
        pattern: Pattern::Pinned,
        peer: Some(StaticKey::from_seed(&[1; 32]).public()),
        pre_shared: None,
        handshake_hash: [0; 32],
        cipher: Cipher::ChaCha20Poly1305,
    });
    (near, far)
}

/// Sender and receiver, each with a tree `t`.
struct Sides {
    here: tempfile::TempDir,
    there: tempfile::TempDir,
}

/// Results of a session.
struct Done {
    sent: Result<Report, TransferError>,
    received: Result<Report, TransferError>,
    log: Arc<Log>,
}

impl Sides {
    fn new() -> Self {
        Self { here: tempfile::tempdir().unwrap(), there: tempfile::tempdir().unwrap() }
    }

    fn write(&self, is_here: bool, name: &str) -> PathBuf {
        let path = (if is_here { &self.here } else { &self.there }).path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, name).unwrap();
        path
    }

    fn options(patterns: &[&str]) -> SendOptions {
        let patterns: Vec<_> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        SendOptions { delete: true, exclude: Arc::new(Exclude::new(&patterns).unwrap()), ..SendOptions::default() }
    }

    /// Sends the tree. If `path_bytes` is given, additional streams stop after this many bytes.
    fn send(&self, options: SendOptions, replace: bool, path_bytes: Option<usize>) -> Option<Done> {
        let store_options = StoreOptions {
            allow_delete: true.into(),
            allow_update: true,
            replace: replace.into(),
            keep_unfinished: true,
            ..StoreOptions::default()
        };
        let store = Arc::new(Store::open(self.there.path(), store_options).unwrap());
        let log = Arc::new(Log::default());
        run(async {
            let (near, far) = known();
            let left = Arc::clone(&near.beside.path_bytes);
            left.store(path_bytes.unwrap_or(usize::MAX), Ordering::SeqCst);
            let both = async {
                tokio::join!(
                    send(near, roots(&[self.here.path().join("t")]), options, Arc::clone(&log) as _),
                    receive(far, store, Arc::new(Log::default()) as _, std::future::pending())
                )
            };
            let dead = async {
                while left.load(Ordering::SeqCst) > 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                (sent, received) = both => Some(Done { sent, received, log: Arc::clone(&log) }),
                () = dead => None,
            }
        })
    }

    /// Returns all names at the receiver, directories with a trailing slash. Content of mounted file systems is left
    /// out.
    fn there(&self) -> BTreeSet<String> {
        names(self.there.path())
    }
}

fn names(root: &Path) -> BTreeSet<String> {
    let all = walkdir::WalkDir::new(root).min_depth(1).into_iter().map(Result::unwrap);
    all.map(|found| {
        let name = found.path().strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if found.file_type().is_dir() { name + "/" } else { name }
    })
    .collect()
}

impl Done {
    /// Returns the names reported as deleted or, in a dry run, as to be deleted.
    fn deleted(&self) -> BTreeSet<String> {
        let all = self.log.0.lock().unwrap();
        all.iter().filter(|outcome| outcome.is_deleted).map(|outcome| outcome.name.clone()).collect()
    }
}

#[test]
fn both_sides_are_the_same_afterwards_with_their_times() {
    let sides = Sides::new();
    for name in ["t/a", "t/d/b", "t/d/e/c"] {
        sides.write(true, name);
    }
    for name in ["t/old", "t/d/old/x", "t/d/e/old", "u/stays"] {
        sides.write(false, name);
    }
    let time = filetime::FileTime::from_unix_time(1_000_000, 0);
    filetime::set_file_mtime(sides.here.path().join("t/d"), time).unwrap();
    let done = sides.send(Sides::options(&[]), true, None).unwrap();
    let (sent, received) = (done.sent.unwrap(), done.received.unwrap());
    assert_eq!((sent.deleted, sent.failed, sent.deletion_skipped), (4, 0, None));
    assert_eq!((received.deleted, received.failed), (4, 0));
    assert_eq!(names(&sides.there.path().join("t")), names(&sides.here.path().join("t")));
    assert!(sides.there.path().join("u/stays").exists());
    let metadata = fs::metadata(sides.there.path().join("t/d")).unwrap();
    assert_eq!(filetime::FileTime::from_last_modification_time(&metadata), time);
}

/// Regression test: a file was renamed and could not be read, and its only copy at the receiver was deleted.
#[test]
fn nothing_is_deleted_after_a_failure_on_either_side() {
    use std::os::unix::fs::PermissionsExt;
    let forbid = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    for what in [
        "a file here",
        "a directory here",
        "a name here",
        "a file for a directory",
        "a directory for a file",
        "the right",
    ] {
        let sides = Sides::new();
        for name in ["t/a", "t/d/b", "t/z"] {
            sides.write(true, name);
        }
        for name in ["t/old", "t/d/old"] {
            sides.write(false, name);
        }
        match what {
            "a file here" => forbid(&sides.write(true, "t/new")),
            "a directory here" => forbid(sides.write(true, "t/new/x").parent().unwrap()),
            "a name here" => drop(sides.write(true, &format!("t{}", "/x".repeat(70)))),
            "a file for a directory" => {
                sides.write(true, "t/e/c");
                sides.write(false, "t/e");
            }
            "a directory for a file" => drop(sides.write(false, "t/z/x")),
            _ => {
                let forbidden = sides.write(false, "t/e/old");
                sides.write(true, "t/e/new");
                std::os::unix::fs::chown(forbidden.parent().unwrap(), Some(65534), Some(65534)).unwrap();
            }
        }
        let before = sides.there();
        // A dry run reports the same, except for failures that show only when something is stored.
        let dry = SendOptions { dry_run: true, ..Sides::options(&[]) };
        let done = without_override(|| sides.send(dry, true, None)).unwrap();
        let (sent, _) = (done.sent.unwrap(), done.received.unwrap());
        if !matches!(what, "the right") {
            assert_eq!((sent.deleted, sent.deletion_skipped), (0, Some(SKIPPED_AFTER_FAILURE)), "{what}");
        }
        let done = without_override(|| sides.send(Sides::options(&[]), true, None)).unwrap();
        assert_eq!(done.deleted(), BTreeSet::new(), "{what}");
        let (sent, received) = (done.sent.unwrap(), done.received.unwrap());
        assert!(sent.failed > 0, "{what}");
        assert_eq!(sent.deletion_skipped, Some(SKIPPED_AFTER_FAILURE), "{what}: {:?}", sent.failures);
        // If an entry fails at the sender before it has an ordinal, the receiver does not learn of the failure. It gets
        // no listing then.
        assert_eq!(received.deleted, 0, "{what}");
        let after = sides.there();
        assert!(before.is_subset(&after), "{what}: {before:?} {after:?}");
        assert!(after.contains("t/a") && after.contains("t/d/b"), "{what}: the rest is stored");
    }
}

/// Pseudo-random numbers from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

const COMPONENTS: [&str; 6] = ["a", "b", "c.o", "d", "e", "cache"];

/// Creates a random tree below `root`. If a name is drawn as both file and directory, the first one is created.
fn grow(root: &Path, draws: &mut Draws) {
    fs::create_dir_all(root).unwrap();
    for _ in 0..draws.below(14) {
        let depth = 1 + draws.below(3);
        let name: Vec<_> = (0..depth).map(|_| draws.pick(&COMPONENTS)).collect();
        let path = root.join(name.join("/"));
        if draws.below(6) == 0 {
            let _ = fs::create_dir_all(path);
        } else if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
            fs::write(path, name.join("/")).unwrap();
        }
    }
}

/// Names that must never be deleted.
struct Protected {
    exclude: Exclude,
    /// Names in the sender's tree.
    here: BTreeSet<String>,
    /// Names of locked temporary files, and names below mount points.
    others: Vec<String>,
}

impl Protected {
    /// Returns true if a pattern excludes this name or one of its parent directories.
    fn is_excluded(&self, name: &str) -> bool {
        let path = Path::new(name.trim_end_matches('/'));
        path.ancestors()
            .filter(|above| !above.as_os_str().is_empty())
            .any(|above| self.exclude.matches(above, above != path || name.ends_with('/')))
    }

    fn is_other(&self, name: &str) -> bool {
        self.others.iter().any(|other| name.trim_end_matches('/') == other || name.starts_with(&format!("{other}/")))
    }

    fn is_here(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        self.here.contains(name) || self.here.contains(&format!("{name}/"))
    }
}

#[derive(Debug, Default)]
struct Tally {
    failed: u32,
    vanished: u32,
    complete: u32,
    deleted: usize,
}

/// Sessions with random trees, patterns, failures, partial files and mount points. Entries are never deleted if they
/// exist at the sender, are excluded, are in progress, or lie on another file system. After a failure, nothing is
/// deleted. In all other sessions, both sides are equal in the end.
#[test]
fn deleting_keeps_its_promises_for_random_trees_and_failures() {
    let mut tally = Tally::default();
    for seed in 0..150 {
        let caught = catch_unwind(AssertUnwindSafe(|| random_session(seed, &mut tally)));
        if let Err(panic) = caught {
            eprintln!("seed {seed}");
            resume_unwind(panic);
        }
    }
    // The random sessions must have covered every kind of case.
    assert!(tally.failed > 10 && tally.vanished > 3 && tally.complete > 40 && tally.deleted > 100, "{tally:?}");
}

fn random_session(seed: u64, tally: &mut Tally) {
    use std::os::unix::fs::PermissionsExt;
    let mut draws = Draws(seed);
    let sides = Sides::new();
    grow(&sides.here.path().join("t"), &mut draws);
    grow(&sides.there.path().join("t"), &mut draws);
    let patterns: &[&str] = match draws.below(4) {
        0 => &["*.o"],
        1 => &["cache/", "/t/a/**"],
        _ => &[],
    };
    let replace = draws.below(3) > 0;
    let exclude = Exclude::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>()).unwrap();
    let mut protected = Protected { exclude, here: names(sides.here.path()), others: Vec::new() };
    // A file that another program is receiving.
    let mut locked = Vec::new();
    let directories: Vec<String> = sides.there().into_iter().filter(|name| name.ends_with('/')).collect();
    let any = |draws: &mut Draws| directories[draws.below(directories.len() as u64) as usize].clone();
    if draws.below(3) == 0 {
        let name = any(&mut draws) + ".dfcp-0123456789abcdef.part";
        let file = fs::File::create(sides.there.path().join(&name)).unwrap();
        file.lock().unwrap();
        locked.push(file);
        protected.others.push(name);
    }
    // A mount point in the receiver's tree.
    let mut mounts = Vec::new();
    if draws.below(6) == 0 {
        let name = any(&mut draws) + "mounted";
        mounts.extend(Mount::new(None, &sides.there.path().join(&name)));
        protected.others.push(name.clone());
        fs::write(sides.there.path().join(&name).join("x"), "x").unwrap();
    }
    // An unreadable file or directory at the sender.
    if draws.below(5) == 0 {
        let all: Vec<_> = protected.here.iter().filter(|name| !protected.is_excluded(name)).collect();
        let name = all[draws.below(all.len() as u64) as usize];
        fs::set_permissions(sides.here.path().join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let path_bytes = (draws.below(8) == 0).then(|| draws.below(300) as usize);
    let before = sides.there();

    let options = || Sides::options(patterns);
    let dry = without_override(|| sides.send(SendOptions { dry_run: true, ..options() }, replace, None)).unwrap();
    assert_eq!(sides.there(), before, "a dry run changes nothing");
    let done = without_override(|| sides.send(options(), replace, path_bytes));
    let after = sides.there();
    let gone: BTreeSet<_> = before.difference(&after).cloned().collect();
    for name in &gone {
        assert!(!protected.is_here(name), "{name} is at the sender");
        assert!(!protected.is_excluded(name), "{name} is left out");
        assert!(!protected.is_other(name), "{name} is another's");
    }
    let Some(done) = done else {
        tally.vanished += 1;
        return assert_eq!(gone, BTreeSet::new(), "the sender has vanished");
    };
    let sent = done.sent.as_ref().unwrap();
    done.received.as_ref().unwrap();
    if sent.failed > 0 {
        tally.failed += 1;
        assert_eq!(sent.deletion_skipped, Some(SKIPPED_AFTER_FAILURE), "{:?}", sent.failures);
        return assert_eq!(gone, BTreeSet::new(), "{:?}", sent.failures);
    }
    tally.complete += 1;
    tally.deleted += gone.len();
    assert_eq!(done.deleted(), gone.iter().map(|name| name.trim_end_matches('/').to_owned()).collect());
    assert_eq!(dry.sent.as_ref().unwrap().deletion_skipped, None);
    assert_eq!(dry.deleted(), done.deleted(), "a dry run tells the same");
    // Both sides must be equal, except for protected entries and their parents.
    let stays: BTreeSet<_> =
        before.iter().filter(|name| protected.is_excluded(name) || protected.is_other(name)).cloned().collect();
    for name in &after {
        let holds = name.ends_with('/') && stays.iter().any(|stays| stays.starts_with(name.as_str()));
        // The sender may have a file under a name that is excluded only as a directory.
        let has_name = protected.is_here(name) && protected.is_excluded(&format!("{name}/"));
        let is_right = protected.here.contains(name) || stays.contains(name) || holds || has_name;
        assert!(is_right, "{name} is left of {before:?}, with {:?} here", protected.here);
    }
    let missing = protected.here.difference(&after).find(|name| !protected.is_excluded(name));
    assert_eq!(missing, None);
    let told: BTreeSet<_> = done.log.1.lock().unwrap().iter().cloned().collect();
    for mount in &mounts {
        // The mount point must be reported, unless it is excluded.
        let name = mount.path().strip_prefix(sides.there.path()).unwrap().to_str().unwrap();
        assert!(told.contains(name) || protected.is_excluded(name), "{name}: {told:?}");
    }
    assert!(after.iter().all(|name| !is_temporary(Path::new(name).file_name().unwrap()) || protected.is_other(name)));
}
