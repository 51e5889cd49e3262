//! The directory in which the files of an identity are.

use std::fs;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::error::IdentityError;
use super::guard::Guard;

/// The variable which names another directory.
pub const VARIABLE: &str = "DFCP_CONFIG_DIR";

/// The configuration directory of a user. It need not exist until something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigDir(PathBuf);

impl ConfigDir {
    /// `$DFCP_CONFIG_DIR` if it is set and not empty, else `dfcp` in the user's configuration directory
    /// (`$XDG_CONFIG_HOME` or `~/.config`; on Windows `%APPDATA%`).
    ///
    /// # Errors
    /// There is neither the variable nor a home directory.
    pub fn of_user() -> Result<Self, IdentityError> {
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            return Self::at(Path::new(&path));
        }
        let strategy = etcetera::choose_base_strategy().map_err(|_| IdentityError::NoConfigDir)?;
        Self::at(&strategy.config_dir().join("dfcp"))
    }

    /// The directory at `path`, made absolute.
    ///
    /// # Errors
    /// The path is empty, or relative while there is no current directory.
    pub fn at(path: &Path) -> Result<Self, IdentityError> {
        std::path::absolute(path).map(Self).map_err(|error| IdentityError::io("find", path, error))
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of the private key.
    pub fn key_file(&self) -> PathBuf {
        self.0.join("key")
    }

    /// Path of the reset key.
    pub fn reset_key_file(&self) -> PathBuf {
        self.0.join("reset_key")
    }

    /// Path of the keys of hosts.
    pub fn known_hosts(&self) -> PathBuf {
        self.0.join("known_hosts")
    }

    /// The file of the keys that may connect.
    pub fn authorized_keys(&self) -> PathBuf {
        self.0.join("authorized_keys")
    }

    /// The file of the transfers which codes have begun.
    pub fn paired_transfers(&self) -> PathBuf {
        self.0.join("paired_transfers")
    }

    /// Makes the directory, for its owner alone, unless it is there. One that is there may be read by others: a secret in
    /// it has a mode of its own.
    ///
    /// # Errors
    /// It cannot be made, or somebody else than this user and root owns it or can write to it, and so replace the files in
    /// it.
    pub fn create(&self) -> Result<(), IdentityError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.0).map_err(|error| IdentityError::io("create", &self.0, error))?;
        self.check()
    }

    /// Checks that nobody but root and this user can replace the files in it. A missing directory is in order.
    ///
    /// # Errors
    /// They can, or the metadata of the directory cannot be read.
    pub fn check(&self) -> Result<(), IdentityError> {
        match fs::metadata(&self.0) {
            Ok(metadata) => Guard::Trusted.check(&self.0, &metadata),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(IdentityError::io("look at", &self.0, error)),
        }
    }

    /// Flushes the names in `directory` to the disk, after one was made or replaced.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn sync(directory: &Path) -> Result<(), IdentityError> {
        // Elsewhere a directory cannot be opened as a file, and renaming is flushed by the system.
        #[cfg(unix)]
        fs::File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| IdentityError::io("flush", directory, error))?;
        let _ = directory;
        Ok(())
    }
}
