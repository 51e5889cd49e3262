//! Configuration directory, with the files of the user's identity.

use std::fs;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::error::IdentityError;
use super::guard::Guard;

/// Environment variable that overrides the directory.
pub const VARIABLE: &str = "DFCP_CONFIG_DIR";

/// Configuration directory of a user, created at the first write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigDir(PathBuf);

impl ConfigDir {
    /// Returns `$DFCP_CONFIG_DIR` if it is set and not empty, otherwise `dfcp` in the user's configuration directory
    /// (`$XDG_CONFIG_HOME` or `~/.config`; on Windows `%APPDATA%`).
    ///
    /// # Errors
    /// Fails if neither the variable nor a home directory is set.
    pub fn of_user() -> Result<Self, IdentityError> {
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            return Self::at(Path::new(&path));
        }
        let strategy = etcetera::choose_base_strategy().map_err(|_| IdentityError::NoConfigDir)?;
        Self::at(&strategy.config_dir().join("dfcp"))
    }

    /// Directory at `path`, made absolute.
    ///
    /// # Errors
    /// Fails if the path is empty, or relative without a current directory.
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

    /// Path of `known_hosts`.
    pub fn known_hosts(&self) -> PathBuf {
        self.0.join("known_hosts")
    }

    /// Path of `authorized_keys`.
    pub fn authorized_keys(&self) -> PathBuf {
        self.0.join("authorized_keys")
    }

    /// Path of the list of transfers that were paired by code.
    pub fn paired_transfers(&self) -> PathBuf {
        self.0.join("paired_transfers")
    }

    /// Creates the directory with mode 0700 if it is missing. An existing directory may be readable by others: each
    /// secret in it has its own mode.
    ///
    /// # Errors
    /// Fails if the directory cannot be created, or if a user other than this one and root owns it or can write to it,
    /// and can thus replace its files.
    pub fn create(&self) -> Result<(), IdentityError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.0).map_err(|error| IdentityError::io("create", &self.0, error))?;
        self.check()
    }

    /// Checks that only root and this user can replace files in the directory. A missing directory passes.
    ///
    /// # Errors
    /// Fails if other users can replace files, or if the metadata cannot be read.
    pub fn check(&self) -> Result<(), IdentityError> {
        match fs::metadata(&self.0) {
            Ok(metadata) => Guard::Trusted.check(&self.0, &metadata),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(IdentityError::io("look at", &self.0, error)),
        }
    }

    /// Flushes the entries of `directory` to the disk, after a file was created or replaced.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(super) fn sync(directory: &Path) -> Result<(), IdentityError> {
        // Other systems cannot open a directory as a file, and flush renames themselves.
        #[cfg(unix)]
        fs::File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| IdentityError::io("flush", directory, error))?;
        let _ = directory;
        Ok(())
    }
}
