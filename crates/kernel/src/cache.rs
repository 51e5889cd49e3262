//! Built kernels in the user's cache directory: `dfcp/kernel/<release>-<hash>/linux`, and how each was built.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, KernelError};
use crate::limits::BUILD_INFO_BYTES_MAX;

/// Name of a kernel's program in its directory.
pub(crate) const PROGRAM: &str = "linux";

/// Name of the file beside it that says how it was built.
pub(crate) const BUILD_INFO: &str = "build.json";

/// A directory of built kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache(PathBuf);

/// One entry of the cache.
#[derive(Debug)]
pub struct Cached {
    /// The entry's directory.
    pub directory: PathBuf,
    /// The kernel in it, or why it cannot be used.
    pub kernel: Result<Kernel, KernelError>,
    /// Its build record; `None` if `build.json` is missing or damaged.
    pub info: Option<BuildInfo>,
}

/// The record of a kernel's build: `build.json` beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// The kernel's release, as `6.12.117`.
    pub release: String,
    /// Debian's package of its source, as `linux-source-6.12`.
    pub package: String,
    /// The package's version, as `6.12.117-1~deb12u1`.
    pub package_version: String,
    /// Hash of the source package, the options and the way of building: hex digits.
    pub hash: String,
    /// The options asked for, as `CONFIG_NET=y`.
    pub options: Vec<String>,
    /// The compiler, as it names itself.
    pub compiler: String,
    /// Duration of the whole build, seconds.
    pub seconds: f64,
}

impl Cache {
    /// The user's cache: `dfcp/kernel` in `$XDG_CACHE_HOME` or `~/.cache`. It need not exist.
    ///
    /// # Errors
    /// There is no home directory.
    pub fn of_user() -> Result<Self, KernelError> {
        let strategy = etcetera::choose_base_strategy().map_err(|_| KernelError::NoCache)?;
        Ok(Self::at(&strategy.cache_dir().join("dfcp").join("kernel")))
    }

    /// The directory at `path`.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All entries, the newest release first; unusable ones come last.
    ///
    /// # Errors
    /// The directory is there and cannot be read.
    pub fn entries(&self) -> Result<Vec<Cached>, KernelError> {
        let unreadable = |error| KernelError::Io { path: self.0.clone(), error };
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        let mut cached = Vec::new();
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            // Builds under way begin with a dot; a link may lead anywhere.
            let is_entry = !entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_entry && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let directory = entry.path();
                let info = BuildInfo::read(&directory);
                cached.push(Cached { kernel: program_in(&directory), info, directory });
            }
        }
        cached.sort_by_key(|cached| {
            // Of one release, that which was built last.
            let key = |kernel: &Kernel| {
                (kernel.version(), kernel.path().metadata().and_then(|metadata| metadata.modified()).ok())
            };
            (std::cmp::Reverse(cached.kernel.as_ref().ok().map(key)), cached.directory.clone())
        });
        Ok(cached)
    }

    /// The newest kernel in it, or the newest of a series as `6.12` or of a release as `6.12.117`, or the one of this id.
    ///
    /// # Errors
    /// There is none, or the cache cannot be read.
    pub fn find(&self, series: Option<&str>) -> Result<Kernel, KernelError> {
        let mut kernels = self.entries()?.into_iter().filter_map(|cached| cached.kernel.ok());
        let is_called = |kernel: &Kernel, name| [kernel.series(), kernel.release(), &kernel.id()].contains(&name);
        let fits = |kernel: &Kernel| series.is_none_or(|name| is_called(kernel, name));
        kernels.find(fits).ok_or_else(|| KernelError::NoneBuilt { series: series.map(str::to_owned) })
    }
}

impl BuildInfo {
    /// The record of the kernel in this directory; `None` if it is missing or damaged.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let mut text = String::new();
        let file = File::open(directory.join(BUILD_INFO)).ok()?;
        file.take(BUILD_INFO_BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// The kernel in an entry's directory.
fn program_in(directory: &Path) -> Result<Kernel, KernelError> {
    let path = directory.join(PROGRAM);
    let metadata = fs::symlink_metadata(&path).map_err(|error| KernelError::Io { path: path.clone(), error })?;
    if metadata.is_file() { Kernel::at(&path) } else { Err(KernelError::NotAFile { path }) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::kernel::{MARK, TIME_TRAVEL_MARK};
    use crate::testing::{self, fake};

    #[test]
    fn a_cache_with_anything_in_it_has_no_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(&directory.path().join("kernel"));
        let none = |series| cache.find(series).unwrap_err().to_string();
        assert_eq!(none(None), "no kernel is built; run: dfcp lab kernel build");
        assert_eq!(none(Some("6.1")), "no 6.1 kernel is built; run: dfcp lab kernel build 6.1");
        let entry = |name: &str| {
            let entry = cache.path().join(name);
            fs::create_dir_all(&entry).unwrap();
            entry.join("linux")
        };
        fs::create_dir_all(entry("6.1.1-directory")).unwrap();
        symlink("/bin/sh", entry("6.1.2-link")).unwrap();
        symlink("/nonexistent", entry("6.1.3-broken-link")).unwrap();
        fake(&entry("6.1.4-not-executable"), &[MARK, TIME_TRAVEL_MARK], 0o644);
        entry("6.1.5-empty");
        fake(&entry(".build-half-made"), &[MARK, TIME_TRAVEL_MARK], 0o755);
        symlink(cache.path().join("6.1.1-directory"), cache.path().join("6.1.6-link")).unwrap();
        fs::write(cache.path().join("6.1.7-file"), "").unwrap();
        let entries = cache.entries().unwrap();
        assert_eq!(entries.len(), 5, "{entries:?}");
        assert!(entries.iter().all(|cached| cached.kernel.is_err() && cached.info.is_none()));
        assert_eq!(none(None), "no kernel is built; run: dfcp lab kernel build");
        assert!(Cache::at(&cache.path().join("6.1.7-file")).entries().is_err());
    }

    #[test]
    fn a_kernel_is_found_beside_what_is_none() {
        let Some(kernel) = testing::kernel() else { return };
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path());
        fs::create_dir(directory.path().join("6.99-broken")).unwrap();
        let entry = directory.path().join("any name");
        fs::create_dir(&entry).unwrap();
        let copy = |from: &Path, to: &Path| {
            // By a process of its own, as in `testing::script`.
            assert!(std::process::Command::new("cp").arg(from).arg(to).status().unwrap().success());
        };
        copy(kernel.path(), &entry.join("linux"));
        // It can be used without it; only a build wants to know more.
        fs::write(entry.join("build.json"), "{\"release\": \"6.").unwrap();
        let found = cache.find(None).unwrap();
        assert_eq!((found.id(), found.release()), (kernel.id(), kernel.release()));
        assert_eq!(cache.find(Some(kernel.series())).unwrap(), found);
        assert_eq!(cache.find(Some(kernel.release())).unwrap(), found);
        assert_eq!(cache.find(Some(&kernel.id())).unwrap(), found);
        assert!(cache.find(Some("6")).is_err());
        // Of two of one release the later is the default, whatever its name.
        let later = directory.path().join("zzz");
        fs::create_dir(&later).unwrap();
        copy(kernel.path(), &later.join("linux"));
        assert_eq!(cache.find(None).unwrap().path(), later.join("linux"));
        let entries = cache.entries().unwrap();
        assert!(entries[1].kernel.is_ok() && entries[1].info.is_none() && entries[2].kernel.is_err());
    }
}
