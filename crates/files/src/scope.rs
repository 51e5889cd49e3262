//! Names that a sender may store: all, or those of a transfer begun by a one-time code (`spec/pairing.md` \[pair-7\]).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::names::RelativeName;

use crate::limits::PAIRED_NAMES_MAX;

/// Hash of a name below the output directory, or of the directory itself, as 32 hexadecimal digits, so that a reader of the file that
/// holds it learns neither.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hashed(String);

/// Digits of a [`Hashed`].
const DIGITS: usize = 32;

impl Hashed {
    /// Hashes these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex()[..DIGITS].to_owned())
    }

    /// Parses the digits; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())).then(|| Self(text.to_owned()))
    }

    /// Hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names that a session may store, and names that it has begun.
pub struct Scope {
    only: Option<BTreeSet<Hashed>>,
    begun: Mutex<BTreeSet<Hashed>>,
    /// Callback for first name components, once each.
    note: Option<Note>,
}

/// Callback with the set of all names begun.
pub type Note = Box<dyn Fn(&BTreeSet<Hashed>) + Send + Sync>;

impl Scope {
    /// Scope of all names.
    #[must_use]
    pub fn everything() -> Self {
        Self { only: None, begun: Mutex::default(), note: None }
    }

    /// Scope of all names, with a callback.
    #[must_use]
    pub fn noted(note: Note) -> Self {
        Self { note: Some(note), ..Self::everything() }
    }

    /// Scope of these names and everything below them, as far as it is incomplete.
    #[must_use]
    pub fn only(names: BTreeSet<Hashed>) -> Self {
        Self { only: Some(names), ..Self::everything() }
    }

    /// True if some names are forbidden. Replacing, deleting and listing are then forbidden too.
    pub fn is_limited(&self) -> bool {
        self.only.is_some()
    }

    /// True if this name may be stored. Has no side effect.
    pub fn permits(&self, name: &RelativeName) -> bool {
        self.only.as_ref().is_none_or(|only| first(name).is_some_and(|first| only.contains(&first)))
    }

    /// Records that this name is being stored.
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

    /// Names that were admitted.
    pub fn begun(&self) -> MutexGuard<'_, BTreeSet<Hashed>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Failure sent to a pair that sends another name.
const OTHERS: &str =
    "the code was good for one transfer, of which this is no part: send it with a new code of the receiver";

/// Failure sent to a pair that would replace a file.
pub(super) const NO_REPLACING: &str = "it is complete at the receiver, and the code was good for one transfer: replace it with a new code of the receiver";

fn first(name: &RelativeName) -> Option<Hashed> {
    name.as_bytes().split(|byte| *byte == b'/').next().map(Hashed::of)
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("only", &self.only).finish_non_exhaustive()
    }
}
