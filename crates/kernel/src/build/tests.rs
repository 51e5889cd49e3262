use std::sync::Mutex;

use super::*;
use crate::testing::{kernel, script};

/// Fake Debian programs at the start of the search path.
struct Machine {
    directory: TempDir,
    cache: Cache,
}

const APT_CACHE: &str = r#"case "$1 $2" in
    "policy linux-source-6.12") printf 'x:\n  Installed: (none)\n  Candidate: 6.12.9-1\n' ;;
    pkgnames*) printf 'linux-source-6.12\nlinux-source-6.1\n' ;;
esac"#;
const APT_GET: &str = r#"for last; do :; done; touch "$last.deb""#;
const DPKG_DEB: &str = r#"mkdir -p "$3/usr/src"; touch "$3/usr/src/linux-source-6.12.tar.xz""#;
const MAKE: &str =
    r#"case "$*" in *allnoconfig) cp "$KCONFIG_ALLCONFIG" .config ;; *) echo "  CC      a.o"; echo x > linux ;; esac"#;

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(&directory.path().join("cache"));
        fs::create_dir(directory.path().join("bin")).unwrap();
        let machine = Self { directory, cache };
        let gcc = r#"[ "$1" != --version ] || echo gcc 12"#;
        let programs =
            [("apt-cache", APT_CACHE), ("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB), ("make", MAKE), ("gcc", gcc)];
        let others = ["bc", "bison", "flex", "m4", "xz", "tar"].map(|name| (name, ""));
        for (name, lines) in programs.into_iter().chain(others) {
            machine.set(name, lines);
        }
        machine
    }

    fn set(&self, name: &str, lines: &str) {
        script(&self.directory.path().join("bin").join(name), lines);
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.directory.path().join("bin").join(name)).unwrap();
    }

    fn path(&self, rest: &str) -> OsString {
        format!("{}{rest}", self.directory.path().join("bin").display()).into()
    }

    fn build(&self) -> Result<Built, BuildError> {
        let build = Build { version: "6.12", jobs: NonZeroUsize::MIN, keeps_source: false, cache: &self.cache };
        build.run_with(self.path(":/usr/bin:/bin"), &AtomicBool::new(false), &nobody())
    }

    /// Error of a build that fails and leaves only its log and lock.
    fn refused(&self) -> String {
        let error = self.build().unwrap_err().to_string();
        assert_eq!(self.left(), Vec::<String>::new(), "{error}");
        error
    }

    /// Names in the cache, except logs and locks.
    fn left(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.cache.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with(".lock-") && name != "build-6.12.log").collect()
    }
}

fn nobody() -> Tell {
    Arc::new(|_| ())
}

/// A fake `make` that compiles nothing and counts its calls.
fn make_of(kernel: &Path, count: &Path) -> String {
    let compile = format!("echo x >> '{}'; sleep 0.3; cp '{}' linux", count.display(), kernel.display());
    format!("case \"$*\" in *allnoconfig) cp \"$KCONFIG_ALLCONFIG\" .config ;; *) {compile} ;; esac")
}

#[test]
fn versions_are_numbers() {
    for right in ["6.1", "6.12", "6.8.0"] {
        assert!(is_version(right), "{right}");
    }
    for wrong in ["", "6", "6.", ".12", "6.12-rc1", "6.1.2.3", "../6.1", "6.12 ", "-o.x", "6.12345"] {
        assert!(!is_version(wrong), "{wrong}");
        let build =
            Build { version: wrong, jobs: NonZeroUsize::MIN, keeps_source: false, cache: &Cache::at(Path::new("/")) };
        assert!(matches!(build.run(&AtomicBool::new(false), &nobody()), Err(BuildError::Version { .. })), "{wrong}");
    }
}

#[test]
fn the_hash_is_of_the_package() {
    let package =
        SourcePackage { name: "linux-source-6.12".to_owned(), version: "6.12.1-1".to_owned(), is_installed: false };
    let other = SourcePackage { version: "6.12.2-1".to_owned(), ..package.clone() };
    assert_eq!(hash(&package), hash(&SourcePackage { is_installed: true, ..package.clone() }));
    assert_ne!(hash(&package), hash(&other));
    assert_eq!(hash(&package).len(), HASH_DIGITS);
}

#[test]
fn a_cache_which_make_cannot_use_is_refused() {
    let build = |path: &Path| {
        let cache = Cache::at(path);
        let build = Build { version: "6.12", jobs: NonZeroUsize::MIN, keeps_source: false, cache: &cache };
        build.run(&AtomicBool::new(false), &nobody()).unwrap_err().to_string()
    };
    assert!(build(Path::new("/tmp/with a space")).contains("space or colon"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = build(file.path());
    assert!(error.contains("cannot make") && error.contains("XDG_CACHE_HOME"), "{error}");
}

#[test]
fn a_system_without_debians_programs_or_a_compiler_is_named() {
    let machine = Machine::new();
    let build = Build { version: "6.12", jobs: NonZeroUsize::MIN, keeps_source: false, cache: &machine.cache };
    let error = build.run_with(OsString::from("/nonexistent"), &AtomicBool::new(false), &nobody()).unwrap_err();
    assert!(error.to_string().contains("apt-cache is not on PATH"), "{error}");
    machine.set("gcc", "echo 'probe.c:1:10: fatal error: stdio.h: No such file'; exit 1");
    let error = machine.refused();
    assert!(error.contains("stdio.h") && error.contains("apt-get install gcc libc6-dev make"), "{error}");
    machine.remove("gcc");
    machine.remove("make");
    let error = build.run_with(machine.path(""), &AtomicBool::new(false), &nobody()).unwrap_err().to_string();
    assert!(error.contains("no gcc and no make"), "{error}");
}

#[test]
fn an_unknown_version_and_a_failed_download_say_what_to_do() {
    let machine = Machine::new();
    machine.set("apt-cache", "case $1 in pkgnames) printf 'linux-source-6.12\\nlinux-source-6.1\\n' ;; esac");
    let error = machine.refused();
    assert!(error.contains("apt-get update") && error.ends_with("or build one of: 6.1, 6.12"), "{error}");
    machine.set("apt-cache", APT_CACHE);
    machine.set("apt-get", "echo 'E: Failed to fetch x'; exit 100");
    let error = machine.refused();
    assert!(
        error.contains("cannot download linux-source-6.12=6.12.9-1") && error.contains("Failed to fetch"),
        "{error}"
    );
    let log = machine.cache.path().join("build-6.12.log");
    assert!(error.contains(&log.display().to_string()), "{error}");
    assert!(fs::read_to_string(log).unwrap().contains("Failed to fetch"));
    machine.set("apt-get", "echo 'E: You have no space: No space left on device'; exit 100");
    assert!(machine.refused().contains("is full"));
    machine.set("apt-get", APT_GET);
    machine.set("dpkg-deb", "mkdir -p \"$3\"");
    assert!(machine.refused().contains("no archive of a kernel's source"));
}

#[test]
fn an_option_that_is_not_granted_and_a_compiler_error_are_shown() {
    let machine = Machine::new();
    machine.set("make", "grep -v NETEM \"$KCONFIG_ALLCONFIG\" > .config");
    let error = machine.refused();
    assert!(error.contains("does not grant CONFIG_NET_SCH_NETEM=y;"), "{error}");
    let compile =
        "echo 'a.c:1: error: bad'; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do echo \"  CC      $i.o\"; done; exit 2";
    machine.set("make", &format!("case $2 in allnoconfig) cp \"$KCONFIG_ALLCONFIG\" .config ;; *) {compile} ;; esac"));
    let error = machine.refused();
    assert!(error.contains("compiling the kernel failed (exit status: 2)"), "{error}");
    assert!(error.contains("a.c:1: error: bad") && !error.contains("13.o"), "{error}");
    machine.set("make", "exec /bin/false");
    assert!(machine.refused().contains("configuring the kernel failed"));
}

#[test]
fn what_is_no_kernel_never_gets_into_the_cache() {
    let machine = Machine::new();
    let error = machine.refused();
    assert!(error.contains("no Linux kernel that runs as a program"), "{error}");
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    let machine = Machine::new();
    machine.set("make", "case $2 in allnoconfig) cp \"$KCONFIG_ALLCONFIG\" .config ;; *) sleep 60 & sleep 60 ;; esac");
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let tell: Tell = Arc::new(move |progress| {
        if progress == Progress::Began(Step::Compile) {
            flag.store(true, Ordering::Relaxed);
        }
    });
    let start = Instant::now();
    let build = Build { version: "6.12", jobs: NonZeroUsize::MIN, keeps_source: false, cache: &machine.cache };
    let error = build.run_with(machine.path(":/usr/bin:/bin"), &stop, &tell).unwrap_err();
    assert!(matches!(error, BuildError::Stopped), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(machine.left(), Vec::<String>::new());
    assert!(!machine.cache.path().join("build-6.12.log").exists());
}

#[test]
fn two_builds_at_a_time_compile_once_and_both_have_the_kernel() {
    let Some(kernel) = kernel() else { return };
    let machine = Machine::new();
    let count = machine.directory.path().join("count");
    machine.set("make", &make_of(kernel.path(), &count));
    let (first, second) = thread::scope(|scope| {
        let [first, second] = [(); 2].map(|()| scope.spawn(|| machine.build().unwrap()));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!(first.kernel, second.kernel);
    assert!(first.is_new != second.is_new);
    assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), 1);
    let directory = first.kernel.path().parent().unwrap();
    assert_eq!(machine.left(), [directory.file_name().unwrap().to_str().unwrap()]);
    let info = BuildInfo::read(directory).unwrap();
    assert_eq!(info, first.info);
    assert_eq!((info.package_version.as_str(), info.compiler.as_str()), ("6.12.9-1", "gcc 12"));
}

#[test]
fn a_damaged_entry_is_built_anew_and_a_killed_builds_rest_removed() {
    let Some(kernel) = kernel() else { return };
    let machine = Machine::new();
    let count = machine.directory.path().join("count");
    machine.set("make", &make_of(kernel.path(), &count));
    let steps = Arc::new(Mutex::new(Vec::new()));
    let first = machine.build().unwrap();
    let directory = first.kernel.path().parent().unwrap();
    fs::write(directory.join("build.json"), "{\"release\":").unwrap();
    let stale = machine.cache.path().join(format!(".build-{}-killed/entry", first.info.hash));
    fs::create_dir_all(&stale).unwrap();
    fs::write(stale.join("linux"), "half").unwrap();
    let log = Arc::clone(&steps);
    let tell: Tell = Arc::new(move |progress| log.lock().unwrap().push(progress));
    let build = Build { version: "6.12", jobs: NonZeroUsize::MIN, keeps_source: true, cache: &machine.cache };
    let second = build.run_with(machine.path(":/usr/bin:/bin"), &AtomicBool::new(false), &tell).unwrap();
    assert!(second.is_new && second.kernel == first.kernel);
    assert_eq!(second.source.as_deref(), Some(&*directory.join("source")));
    assert_eq!(machine.left().len(), 1, "{:?}", machine.left());
    let began: Vec<_> =
        steps.lock().unwrap().iter().copied().filter(|step| matches!(step, Progress::Began(_))).collect();
    let all = [Step::Tools, Step::Source, Step::Configure, Step::Compile, Step::Check];
    assert_eq!(began, all.map(Progress::Began));
}
