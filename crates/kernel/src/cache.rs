//! The directory of built kernels: `dfcp/kernel/<release>-<hash>/linux` in the user's cache directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::build::BuildInfo;
use crate::kernel::{Kernel, KernelError};

/// Name of a kernel's program in its directory.
pub(crate) const PROGRAM: &str = "linux";

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
}

/// The kernel in an entry's directory.
fn program_in(directory: &Path) -> Result<Kernel, KernelError> {
    let path = directory.join(PROGRAM);
    let metadata = fs::symlink_metadata(&path).map_err(|error| KernelError::Io { path: path.clone(), error })?;
    if metadata.is_file() { Kernel::at(&path) } else { Err(KernelError::NotAFile { path }) }
}
