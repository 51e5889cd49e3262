//! Build of a kernel from Debian's source, into the cache.

mod error;
mod fragment;
mod packages;
mod runner;
#[cfg(test)]
mod tests;
mod tools;

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::statvfs;
use tempfile::TempDir;

pub use self::error::BuildError;
pub use self::fragment::{FRAGMENT, options};
pub use crate::cache::BuildInfo;

use self::packages::SourcePackage;
use self::runner::{Outcome, Runner};
use crate::cache::{BUILD_INFO, Cache, PROGRAM};
use crate::kernel::Kernel;
use crate::limits::{BUILD_BYTES_MIN, STOP_POLL};

/// Default version of the kernel.
pub const DEFAULT_VERSION: &str = "6.12";

/// Version of the build procedure; a new number leads to a new build from the same source and options.
const RECIPE: u32 = 1;

/// Hex digits of a build's hash in names.
const HASH_DIGITS: usize = 16;

/// Parts of the source that are not unpacked, two thirds of its bytes: drivers for other architectures, and files without code. Their
/// `Kconfig` and `Makefile`s are needed, and unpacked.
const NOT_UNPACKED: [&str; 12] = [
    "*/Documentation/*/*",
    "*/boot/dts/*",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/infiniband/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/drivers/scsi/*.[ch]",
    "*/drivers/staging/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/perf/*",
    "*/tools/testing/*",
];

/// A step of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waiting for another process that builds the same kernel.
    Wait,
    /// Search for tools, and download of those that are not installed.
    Tools,
    /// Download and unpacking of the source.
    Source,
    /// Resolution of the options, with a check that none was refused.
    Configure,
    /// Compilation.
    Compile,
    /// Check of the new kernel, and its move into the cache.
    Check,
}

/// Progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Start of a step.
    Began(Step),
    /// Files compiled since the start of [`Step::Compile`], of about 700.
    Compiled(usize),
    /// End of a step, with its duration.
    Ended(Step, Duration),
}

/// Callback for the progress of a build, called from several threads.
pub type Tell = Arc<dyn Fn(Progress) + Send + Sync>;

/// Settings of a build.
#[derive(Clone, Debug)]
pub struct Build<'host> {
    /// Series of the kernel, such as `6.12`: a version of the package `linux-source-…`.
    pub version: &'host str,
    /// Number of concurrent compilers.
    pub jobs: NonZeroUsize,
    /// True to keep the source beside the kernel, as `source/` (about 0.7 GB). A kernel found in the cache gets no source.
    pub keeps_source: bool,
    /// Cache for the kernel.
    pub cache: &'host Cache,
}

/// Result of a build: a kernel in the cache.
#[derive(Clone, Debug)]
pub struct Built {
    /// The kernel.
    pub kernel: Kernel,
    /// Build record of the kernel.
    pub info: BuildInfo,
    /// True if this call built the kernel, false if it was in the cache.
    pub is_new: bool,
    /// Path of the source, if it was kept.
    pub source: Option<PathBuf>,
}

/// True for a version like `6.12`.
fn is_version(version: &str) -> bool {
    let parts: Vec<_> = version.split('.').collect();
    let is_number = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    (2..=3).contains(&parts.len()) && parts.iter().all(is_number)
}

/// Hash of all inputs that decide the result, except the compiler.
fn hash(package: &SourcePackage) -> String {
    let text = format!("{RECIPE}\n{}={}\n{}", package.name, package.version, options(FRAGMENT).join("\n"));
    blake3::hash(text.as_bytes()).to_hex()[..HASH_DIGITS].to_owned()
}

/// Creates an empty directory for this build, and removes leftovers of killed builds of the same kernel (the caller has the lock). Names
/// are unique, because the watchdog of a killed build may still be removing an older directory.
fn scratch(cache: &Path, hash: &str) -> Result<TempDir, BuildError> {
    let prefix = format!(".build-{hash}-");
    for entry in fs::read_dir(cache).map_err(BuildError::io("read", cache))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // Fails if the watchdog has already removed the directory.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    tempfile::Builder::new().prefix(&prefix).tempdir_in(cache).map_err(BuildError::io("write in", cache))
}

/// Variables that keep user, host and time out of the program, so that builds are reproducible.
const REPRODUCIBLE: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "dfcp"),
    ("KBUILD_BUILD_HOST", "dfcp"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// True for a line of `make` that names a step, such as `  CC      kernel/fork.o`.
fn is_progress(line: &str) -> bool {
    line.strip_prefix("  ").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

/// Runs a step, and reports its start and end.
fn timed<T>(step: Step, tell: &Tell, work: impl FnOnce() -> Result<T, BuildError>) -> Result<T, BuildError> {
    let start = Instant::now();
    tell(Progress::Began(step));
    let done = work()?;
    tell(Progress::Ended(step, start.elapsed()));
    Ok(done)
}

/// Downloads the source, unless exactly this version is installed, and unpacks the necessary parts; returns the directory.
fn unpack_source(runner: &Runner<'_>, package: &SourcePackage, scratch: &Path) -> Result<PathBuf, BuildError> {
    let installed = package.is_installed.then(|| packages::archive(Path::new("/"), &package.name).ok()).flatten();
    let root = scratch.join("package");
    let archive = if let Some(archive) = installed {
        archive
    } else {
        packages::unpack(runner, &[format!("{}={}", package.name, package.version)], &root)?;
        packages::archive(&root, &package.name)?
    };
    let source = scratch.join("source");
    fs::create_dir(&source).map_err(BuildError::io("make", &source))?;
    runner.run("unpacking the source", "tar", |command| {
        command.arg("-xf").arg(&archive).arg("-C").arg(&source).arg("--strip-components=1");
        command.args(NOT_UNPACKED.map(|pattern| format!("--exclude={pattern}")));
    })?;
    if root.exists() {
        fs::remove_dir_all(&root).map_err(BuildError::io("remove", &root))?;
    }
    Ok(source)
}

/// Writes the configuration: the options of the fragment, their dependencies, and no others.
fn configure(runner: &Runner<'_>, source: &Path, scratch: &Path) -> Result<(), BuildError> {
    let file = scratch.join("fragment.config");
    fs::write(&file, FRAGMENT).map_err(BuildError::io("write", &file))?;
    runner.run("configuring the kernel", "make", |command| {
        command.args(["ARCH=um", "allnoconfig"]).env("KCONFIG_ALLCONFIG", &file).current_dir(source);
    })?;
    let file = source.join(".config");
    let resolved = fs::read_to_string(&file).map_err(BuildError::io("read", &file))?;
    let options = fragment::refused(FRAGMENT, &resolved);
    if options.is_empty() { Ok(()) } else { Err(BuildError::Refused { options }) }
}

impl Build<'_> {
    /// Builds the kernel, or finds it in the cache if Debian's package and the options are the same. A build takes minutes and 1.5 GB of
    /// disk. Concurrent builds, in several processes, are safe.
    ///
    /// # Errors
    /// Fails if the machine lacks a requirement, the package cannot be downloaded, a tool fails, or `stop` is set.
    pub fn run(&self, stop: &AtomicBool, tell: &Tell) -> Result<Built, BuildError> {
        self.run_with(std::env::var_os("PATH").unwrap_or_default(), stop, tell)
    }

    /// [`run`](Self::run) with this search path for programs.
    fn run_with(&self, path: OsString, stop: &AtomicBool, tell: &Tell) -> Result<Built, BuildError> {
        if !is_version(self.version) {
            return Err(BuildError::Version { version: self.version.to_owned() });
        }
        if std::env::consts::ARCH != "x86_64" {
            return Err(BuildError::Architecture { architecture: std::env::consts::ARCH });
        }
        let cache = self.cache.path();
        let path_text = cache.to_str().ok_or_else(|| BuildError::Path { path: cache.to_owned() })?;
        if path_text.contains([' ', '\t', '\n', ':']) {
            return Err(BuildError::Path { path: cache.to_owned() });
        }
        fs::create_dir_all(cache).map_err(BuildError::io("make", cache))?;
        // Steps before the lock write little to the log.
        let log = cache.join(format!("build-{}.log", self.version));
        let runner =
            Runner { scratch: None, log: log.clone(), kept_log: log.clone(), path, variables: Vec::new(), stop };
        let outcome = self.find_or_build(runner, tell);
        if matches!(outcome, Ok(_) | Err(BuildError::Stopped)) {
            // After a success no error message refers to the log.
            let _ = fs::remove_file(&log);
        }
        outcome
    }

    fn find_or_build(&self, runner: Runner<'_>, tell: &Tell) -> Result<Built, BuildError> {
        packages::check(&runner)?;
        let package = packages::source(&runner, self.version)?;
        let hash = hash(&package);
        if let Some(built) = self.cached(&hash)? {
            return Ok(built);
        }
        let _lock = self.lock(&hash, runner.stop, tell)?;
        // Another process may have built the kernel in the meantime.
        if let Some(built) = self.cached(&hash)? {
            return Ok(built);
        }
        let facts =
            statvfs(self.cache.path()).map_err(|error| BuildError::io("use", self.cache.path())(error.into()))?;
        if facts.f_bavail.saturating_mul(facts.f_frsize) < BUILD_BYTES_MIN {
            return Err(BuildError::DiskFull { path: self.cache.path().to_owned() });
        }
        let scratch = scratch(self.cache.path(), &hash)?;
        let log = scratch.path().join("log");
        let runner = Runner { scratch: Some(scratch.path()), log: log.clone(), ..runner };
        let kept_log = runner.kept_log.clone();
        let outcome = self.build(runner, &package, &hash, tell);
        if outcome.is_err() {
            // If the log cannot be kept, the error's text must suffice.
            let _ = fs::rename(log, kept_log);
        }
        outcome
    }

    /// Finds the kernel with this hash in the cache, if it is there and complete.
    fn cached(&self, hash: &str) -> Result<Option<Built>, BuildError> {
        for cached in self.cache.entries()? {
            let source = cached.directory.join("source");
            if let (Ok(kernel), Some(info)) = (cached.kernel, cached.info)
                && info.hash == hash
            {
                let source = source.is_dir().then_some(source);
                return Ok(Some(Built { kernel, info, is_new: false, source }));
            }
        }
        Ok(None)
    }

    /// Waits until no other process builds this kernel. The lock ends with the file descriptor, and so with this program.
    fn lock(&self, hash: &str, stop: &AtomicBool, tell: &Tell) -> Result<File, BuildError> {
        let path = self.cache.path().join(format!(".lock-{hash}"));
        let file = File::create(&path).map_err(BuildError::io("write", &path))?;
        let mut since = None;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(BuildError::io("lock", &path)(error)),
                Err(TryLockError::WouldBlock) if stop.load(Ordering::Relaxed) => return Err(BuildError::Stopped),
                Err(TryLockError::WouldBlock) => {
                    since.get_or_insert_with(|| {
                        tell(Progress::Began(Step::Wait));
                        Instant::now()
                    });
                    thread::sleep(STOP_POLL);
                }
            }
        }
        if let Some(since) = since {
            tell(Progress::Ended(Step::Wait, since.elapsed()));
        }
        Ok(file)
    }

    fn build(&self, runner: Runner<'_>, package: &SourcePackage, hash: &str, tell: &Tell) -> Result<Built, BuildError> {
        let start = Instant::now();
        let mut runner = runner;
        let Some(scratch) = runner.scratch else { return Err(BuildError::Stopped) };
        let entry = scratch.join("entry");
        let compiler = timed(Step::Tools, tell, || {
            let compiler = tools::compiler(&runner, scratch)?;
            tools::fetch(&mut runner, scratch)?;
            Ok(compiler)
        })?;
        let source = timed(Step::Source, tell, || unpack_source(&runner, package, scratch))?;
        timed(Step::Configure, tell, || configure(&runner, &source, scratch))?;
        timed(Step::Compile, tell, || self.compile(&runner, &source, tell))?;
        timed(Step::Check, tell, || {
            fs::create_dir(&entry).map_err(BuildError::io("make", &entry))?;
            let program = entry.join(PROGRAM);
            fs::rename(source.join("linux"), &program).map_err(BuildError::io("move", &program))?;
            let kernel = Kernel::at(&program)?;
            let info = BuildInfo {
                release: kernel.release().to_owned(),
                package: package.name.clone(),
                package_version: package.version.clone(),
                hash: hash.to_owned(),
                options: options(FRAGMENT),
                compiler,
                seconds: (start.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            };
            if self.keeps_source {
                fs::rename(&source, entry.join("source")).map_err(BuildError::io("move", &source))?;
            }
            self.install(&entry, &info)
        })
    }

    fn compile(&self, runner: &Runner<'_>, source: &Path, tell: &Tell) -> Result<(), BuildError> {
        let jobs = format!("-j{}", self.jobs);
        let (tell, files) = (Arc::clone(tell), AtomicUsize::new(0));
        let outcome = runner.attempt(
            "make",
            |command| {
                command.args(["ARCH=um", &jobs, "linux"]).current_dir(source).envs(REPRODUCIBLE);
            },
            move |bytes| {
                // Each compiled file prints a line that starts with `  CC `. A line split between two pieces is not
                // counted, which is harmless.
                let more = bytes.windows(5).filter(|window| window == b"  CC ").count();
                if more > 0 {
                    tell(Progress::Compiled(files.fetch_add(more, Ordering::Relaxed) + more));
                }
            },
        )?;
        // Parallel compilers may print many such lines after the error.
        let output = outcome.output.lines().filter(|line| !is_progress(line)).collect::<Vec<_>>().join("\n");
        runner.successful("compiling the kernel", Outcome { output, ..outcome }).map(|_| ())
    }

    /// Writes the build record, and moves the kernel into the cache atomically.
    fn install(&self, entry: &Path, info: &BuildInfo) -> Result<Built, BuildError> {
        let text = serde_json::to_string_pretty(info).unwrap_or_default() + "\n";
        let file = entry.join(BUILD_INFO);
        fs::write(&file, text).map_err(BuildError::io("write", &file))?;
        // The content of a file must be durable before its name is.
        for name in [PROGRAM, BUILD_INFO] {
            let file = entry.join(name);
            File::open(&file).and_then(|file| file.sync_all()).map_err(BuildError::io("write", &file))?;
        }
        let directory = self.cache.path().join(format!("{}-{}", info.release, info.hash));
        if fs::symlink_metadata(&directory).is_ok() {
            // An entry that exists here is damaged, or it would have been used.
            let old = entry.with_extension("old");
            fs::rename(&directory, &old).map_err(BuildError::io("replace", &directory))?;
        }
        fs::rename(entry, &directory).map_err(BuildError::io("make", &directory))?;
        let kernel = Kernel::at(&directory.join(PROGRAM))?;
        let source = Some(directory.join("source")).filter(|source| source.is_dir());
        Ok(Built { kernel, info: info.clone(), is_new: true, source })
    }
}
