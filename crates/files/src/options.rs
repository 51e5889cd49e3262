//! Options of a sender.

use std::sync::Arc;

use dfcp_framing::frame::Service;

use crate::exclude::Exclude;
use crate::permission::Permission;

/// Options of a sender. By default nothing is deleted, and links inside a directory are not followed.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// Resume partial files of the receiver.
    pub resume: bool,
    /// Compare files that the receiver has by hash, not by size and time.
    pub checksum: bool,
    /// Send only the changed parts of files.
    pub delta: bool,
    /// Send nothing; ask what would be sent.
    pub dry_run: bool,
    /// Let the receiver delete files that are missing in the sent directories.
    pub delete: bool,
    /// Keep symbolic links that stay inside the sent tree, and hard links between its files.
    pub links: bool,
    /// Follow a symbolic link inside a directory and send its target under the link's name; asked about each link's path. The link itself
    /// is then not sent.
    pub follow: Permission,
    /// Count skipped entries as failures.
    pub strict: bool,
    /// Patterns of excluded files.
    pub exclude: Arc<Exclude>,
    /// Direction of the files: [`Service::Files`] if this side called, else [`Service::FilesToCaller`].
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
