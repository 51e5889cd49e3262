//! A file that has come as a whole.

use std::sync::Arc;

use super::staged::Staged;

/// A file that is whole and verified and only lacks its name. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(super) staged: Staged,
    /// So that the store knows how many there are, of all sessions.
    pub(super) _counted: Arc<()>,
}
