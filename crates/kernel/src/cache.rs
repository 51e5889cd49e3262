//! Built kernels in the user's cache directory: `dfcp/kernel/<release>-<hash>/linux`, with a build record each.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, KernelError};
use crate::limits::BUILD_INFO_BYTES_MAX;

/// File name of a kernel's program in its directory.
pub(crate) const PROGRAM: &str = "linux";

/// File name of a kernel's build record in its directory.
pub(crate) const BUILD_INFO: &str = "build.json";

/// A directory of built kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache(PathBuf);

/// One entry of the cache.
#[derive(Debug)]
pub struct Cached {
    /// Directory of the entry.
    pub directory: PathBuf,
    /// Kernel of the entry, or the reason for which it cannot be used.
    pub kernel: Result<Kernel, KernelError>,
    /// Build record; `None` if `build.json` is missing or damaged.
    pub info: Option<BuildInfo>,
}

/// Build record of a kernel, stored beside it as `build.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// Release of the kernel, such as `6.12.117`.
    pub release: String,
    /// Debian's source package, such as `linux-source-6.12`.
    pub package: String,
    /// Version of the package, such as `6.12.117-1~deb12u1`.
    pub package_version: String,
    /// Hash of the source package, the options and the build procedure, in hex.
    pub hash: String,
    /// Requested options, such as `CONFIG_NET=y`.
    pub options: Vec<String>,
    /// Compiler, with its version.
    pub compiler: String,
    /// Duration of the whole build, s.
    pub seconds: f64,
}

impl Cache {
    /// Cache of the user: `dfcp/kernel` in `$XDG_CACHE_HOME` or `~/.cache`, which need not exist.
    ///
    /// # Errors
    /// Fails if there is no home directory.
    pub fn of_user() -> Result<Self, KernelError> {
        let strategy = etcetera::choose_base_strategy().map_err(|_| KernelError::NoCache)?;
        Ok(Self::at(&strategy.cache_dir().join("dfcp").join("kernel")))
    }

    /// Cache in the directory `path`.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All entries, newest release first, unusable ones last.
    ///
    /// # Errors
    /// Fails if the directory exists but cannot be read.
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
            // Names of unfinished builds start with a dot; links are ignored, because they may point anywhere.
            let is_entry = !entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_entry && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let directory = entry.path();
                let info = BuildInfo::read(&directory);
                cached.push(Cached { kernel: program_in(&directory), info, directory });
            }
        }
        cached.sort_by_key(|cached| {
            // Among entries of the same release, the latest build is first.
            let key = |kernel: &Kernel| {
                (kernel.version(), kernel.path().metadata().and_then(|metadata| metadata.modified()).ok())
            };
            (std::cmp::Reverse(cached.kernel.as_ref().ok().map(key)), cached.directory.clone())
        });
        Ok(cached)
    }

    /// Finds the newest kernel, the newest of a series (`6.12`) or release (`6.12.117`), or the one with this id.
    ///
    /// # Errors
    /// Fails if there is no such kernel, or the cache cannot be read.
    pub fn find(&self, series: Option<&str>) -> Result<Kernel, KernelError> {
        let mut kernels = self.entries()?.into_iter().filter_map(|cached| cached.kernel.ok());
        let is_called = |kernel: &Kernel, name| [kernel.series(), kernel.release(), &kernel.id()].contains(&name);
        let fits = |kernel: &Kernel| series.is_none_or(|name| is_called(kernel, name));
        kernels.find(fits).ok_or_else(|| KernelError::NoneBuilt { series: series.map(str::to_owned) })
    }
}

impl BuildInfo {
    /// Reads the build record in this directory; `None` if it is missing or damaged.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let mut text = String::new();
        let file = File::open(directory.join(BUILD_INFO)).ok()?;
        file.take(BUILD_INFO_BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// Kernel in the directory of an entry.
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
            // Copied by a separate process, as in `testing::script`.
            assert!(std::process::Command::new("cp").arg(from).arg(to).status().unwrap().success());
        };
        copy(kernel.path(), &entry.join("linux"));
        // A kernel without a build record is usable; only a build needs the record.
        fs::write(entry.join("build.json"), "{\"release\": \"6.").unwrap();
        let found = cache.find(None).unwrap();
        assert_eq!((found.id(), found.release()), (kernel.id(), kernel.release()));
        assert_eq!(cache.find(Some(kernel.series())).unwrap(), found);
        assert_eq!(cache.find(Some(kernel.release())).unwrap(), found);
        assert_eq!(cache.find(Some(&kernel.id())).unwrap(), found);
        assert!(cache.find(Some("6")).is_err());
        // The later of two builds of one release is the default, regardless of its name.
        let later = directory.path().join("zzz");
        fs::create_dir(&later).unwrap();
        copy(kernel.path(), &later.join("linux"));
        assert_eq!(cache.find(None).unwrap().path(), later.join("linux"));
        let entries = cache.entries().unwrap();
        assert!(entries[1].kernel.is_ok() && entries[1].info.is_none() && entries[2].kernel.is_err());
    }
}
