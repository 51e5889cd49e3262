//! Permissions for actions that are off by default.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Permission to overwrite, delete or follow. It is given never (the default), always, or by a callback for each name.
///
/// A callback blocks the transfer's disk threads. It may be called more than once per name and should then give the
/// same answer. If answers differ, the last one counts, and no data is lost.
#[derive(Clone, Default)]
pub struct Permission(Inner);

#[derive(Clone, Default)]
enum Inner {
    #[default]
    Never,
    Always,
    Ask(Arc<dyn Fn(&Path) -> bool + Send + Sync>),
}

impl Permission {
    /// Permission for no name.
    pub const NEVER: Self = Self(Inner::Never);

    /// Permission for every name.
    pub const ALWAYS: Self = Self(Inner::Always);

    /// Permission by callback. `question` receives a path: below the output directory at a receiver, as found in the
    /// file tree at a sender.
    pub fn ask(question: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Inner::Ask(Arc::new(question)))
    }

    /// Returns false if the permission is never given.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        !matches!(self.0, Inner::Never)
    }

    /// Returns true if the permission is given for every name.
    #[must_use]
    pub fn is_always(&self) -> bool {
        matches!(self.0, Inner::Always)
    }

    /// Returns true if the permission is given for this name.
    #[must_use]
    pub fn permits(&self, name: &Path) -> bool {
        match &self.0 {
            Inner::Never => false,
            Inner::Always => true,
            Inner::Ask(question) => question(name),
        }
    }
}

impl From<bool> for Permission {
    fn from(is_given: bool) -> Self {
        Self(if is_given { Inner::Always } else { Inner::Never })
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Never => "Never",
            Inner::Always => "Always",
            Inner::Ask(_) => "Ask",
        })
    }
}
