//! Options of a sender.

use std::sync::Arc;

use dfcp_framing::frame::Service;

use crate::exclude::Exclude;
use crate::permission::Permission;

/// Options of sending files. Without any, nothing is deleted and no link inside a directory is followed.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// Resumes a file of which the receiver has the beginning.
    pub resume: bool,
    /// Tells by their hashes which files the receiver has already, not by size and time.
    pub checksum: bool,
    /// Sends of files that have changed only what has.
    pub delta: bool,
    /// Sends nothing, and only asks what would be sent.
    pub dry_run: bool,
    /// Has the receiver delete what is not in the directories that are sent.
    pub delete: bool,
    /// Keeps symbolic links that lead inside of what is sent, and hard links between files of it.
    pub links: bool,
    /// Sends what a symbolic link inside a directory leads to, under the link's name: asked about the path of each. The link itself is not sent then.
    pub follow: Permission,
    /// Counts anything that is left out as a failure.
    pub strict: bool,
    /// Patterns of the files that are left out.
    pub exclude: Arc<Exclude>,
    /// Their direction: [`Service::Files`] if this side has called, else [`Service::FilesToCaller`].
    pub service: Service,
}

impl Default for SendOptions {
    fn default() -> Self {
        let exclude = Arc::default();
        Self {
            resume: true,
            checksum: false,
            delta: false,
            dry_run: false,
            delete: false,
            links: false,
            follow: Permission::NEVER,
            strict: false,
            exclude,
            service: Service::Files,
        }
    }
}
