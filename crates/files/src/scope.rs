//! Names that a sender may store: all names, or only those of a transfer that was started with a one-time code
//! (`spec/pairing.md` \[pair-7\]).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::names::RelativeName;

use crate::limits::PAIRED_NAMES_MAX;

/// Hash of a name, or of the output directory's path, as 32 hexadecimal digits. A file that contains such hashes does
/// not reveal the names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hashed(String);

/// Number of hexadecimal digits of a [`Hashed`].
const DIGITS: usize = 32;

impl Hashed {
    /// Hashes a name or path.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex()[..DIGITS].to_owned())
    }

    /// Parses hexadecimal digits; `None` if the text is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())).then(|| Self(text.to_owned()))
    }

    /// Returns the hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names that a session may store, and first components of the names that it has started.
pub struct Scope {
    only: Option<BTreeSet<Hashed>>,
    begun: Mutex<BTreeSet<Hashed>>,
    /// Callback for each new first name component.
    note: Option<Note>,
}

/// Callback with the set of all first name components started so far.
pub type Note = Box<dyn Fn(&BTreeSet<Hashed>) + Send + Sync>;

impl Scope {
    /// Returns the scope of all names.
    #[must_use]
    pub fn everything() -> Self {
        Self { only: None, begun: Mutex::default(), note: None }
    }

    /// Returns the scope of all names, with a callback for each new first name component.
    #[must_use]
    pub fn noted(note: Note) -> Self {
        Self { note: Some(note), ..Self::everything() }
    }

    /// Returns the scope of these first name components and everything below them. Existing files in it must not be
    /// replaced.
    #[must_use]
    pub fn only(names: BTreeSet<Hashed>) -> Self {
        Self { only: Some(names), ..Self::everything() }
    }

    /// Returns true if only some names are permitted. Replacing, deleting and listing are then forbidden, too.
    pub fn is_limited(&self) -> bool {
        self.only.is_some()
    }

    /// Returns true if this name may be stored. Records nothing.
    pub fn permits(&self, name: &RelativeName) -> bool {
        self.only.as_ref().is_none_or(|only| first(name).is_some_and(|first| only.contains(&first)))
    }

    /// Records that this name is being stored, and returns it.
    ///
    /// # Errors
    /// Fails if the name is forbidden.
    pub fn admit(&self, name: RelativeName) -> Result<RelativeName, Failure> {
        if !self.permits(&name) {
            return Err(Failure::new(FailureCode::Permission, OTHERS));
        }
        if let Some(first) = first(&name).filter(|_| self.note.is_some() || self.is_limited()) {
            let mut begun = self.begun();
            if begun.len() < PAIRED_NAMES_MAX
                && begun.insert(first)
                && let Some(note) = &self.note
            {
                note(&begun);
            }
        }
        Ok(name)
    }

    /// Returns the first components of the names recorded by [`Scope::admit`], hashed.
    pub fn begun(&self) -> MutexGuard<'_, BTreeSet<Hashed>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sentence for a paired sender that sends another name.
const OTHERS: &str =
    "the code was good for one transfer, of which this is no part: send it with a new code of the receiver";

/// Sentence for a paired sender that would replace a file.
pub(super) const NO_REPLACING: &str = "it is complete at the receiver, and the code was good for one transfer: replace it with a new code of the receiver";

fn first(name: &RelativeName) -> Option<Hashed> {
    name.as_bytes().split(|byte| *byte == b'/').next().map(Hashed::of)
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("only", &self.only).finish_non_exhaustive()
    }
}
