//! Obstacles to storing an entry that can be found without storing it.

use std::io;
use std::path::Path;

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::names::RelativeName;

use super::{Store, through_link};
use crate::beneath::{Kind, is_link};

impl Store {
    /// Checks that no entry of another kind has the name of a file or directory, or is on the path to it.
    ///
    /// # Errors
    /// Returns the failure that storing the entry would have.
    pub(crate) fn would_store(&self, name: &RelativeName, is_directory: bool) -> Result<(), Failure> {
        let exists = |sentence| Err(Failure::new(FailureCode::Exists, sentence));
        let path = name.path();
        let parent = match self.root.directory(path.parent().unwrap_or_else(|| Path::new(""))) {
            Ok(parent) => parent,
            // Storing would create the missing directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if is_link(&error) => return Err(through_link()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return exists("a file is in the place of one of its directories");
            }
            Err(error) => return Err(Failure::from_io("find its directory", &error)),
        };
        match parent.status(path.file_name().unwrap_or_default()).map(|status| status.kind) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Failure::from_io("look it up", &error)),
            Ok(Kind::Directory) if !is_directory => exists("a directory of that name exists at the receiver"),
            Ok(Kind::Link) if is_directory => Err(through_link()),
            Ok(Kind::File | Kind::Other) if is_directory => exists("a file of that name is in the directory's place"),
            Ok(_) => Ok(()),
        }
    }
}
