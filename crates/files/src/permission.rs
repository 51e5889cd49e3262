//! Permissions for what is not done unasked.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Permission to overwrite, delete or follow something: no unless it is given, for everything or by a callback that is asked about each name.
///
/// A callback runs on the transfer's disk threads, which wait for it. It may be asked more than once about a name: it should give the same
/// answer then, and where it does not, the last one counts and nothing is lost.
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
    /// For no name.
    pub const NEVER: Self = Self(Inner::Never);

    /// For every name.
    pub const ALWAYS: Self = Self(Inner::Always);

    /// Asks `question` about each name: a path below the output directory of a receiver, or as a sender has found it.
    pub fn ask(question: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Inner::Ask(Arc::new(question)))
    }

    /// True if it may be given for some name.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        !matches!(self.0, Inner::Never)
    }

    /// True if it is given for every name.
    #[must_use]
    pub fn is_always(&self) -> bool {
        matches!(self.0, Inner::Always)
    }

    /// True if it is given for this one.
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
