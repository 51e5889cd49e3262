//! Completely received file.

use std::sync::Arc;

use super::staged::Staged;

/// Verified file that only lacks its name. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(super) staged: Staged,
    /// Counts the descriptors over all sessions.
    pub(super) _counted: Arc<()>,
}
