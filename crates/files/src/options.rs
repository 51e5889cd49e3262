//! Options of a sender.

use std::sync::Arc;

use dfcp_framing::frame::Service;

use crate::exclude::Exclude;
use crate::permission::Permission;

/// Options of a sender. By default nothing is deleted, and links inside a directory are not followed.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// Resume partial files that the receiver has kept.
    pub resume: bool,
    /// Compare files with the receiver's by hash instead of size and modification time.
    pub checksum: bool,
    /// Send only the changed parts of files of which the receiver has an older version.
    pub delta: bool,
    /// Send no content; only report what would be sent.
    pub dry_run: bool,
    /// Ask the receiver to delete files in the sent directories that this side does not have.
    pub delete: bool,
    /// Send symbolic links that stay inside the sent tree, and hard links between its files, as links.
    pub links: bool,
    /// Follow a symbolic link inside a directory: its target is sent under the link's name, and the link itself is not
    /// sent. The permission is checked for the path of each link.
    pub follow: Permission,
    /// Treat skipped entries as failures.
    pub strict: bool,
    /// Patterns of excluded files.
    pub exclude: Arc<Exclude>,
    /// Service requested in the preamble: [`Service::Files`] if this side has called, [`Service::FilesToCaller`] if the
    /// receiver has.
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
