//! The names that a sender may store: all, or what a transfer has begun that a code admitted once (`spec/pairing.md` \[pair-7\]).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::names::RelativeName;

use crate::hashed::Hashed;
use crate::limits::PAIRED_NAMES_MAX;

/// The names that a session may store, and those which it has begun.
pub struct Scope {
    only: Option<BTreeSet<Hashed>>,
    begun: Mutex<BTreeSet<Hashed>>,
    /// Told of the first parts of names, each once.
    note: Option<Note>,
}

/// Hears what has begun, as a whole.
pub type Note = Box<dyn Fn(&BTreeSet<Hashed>) + Send + Sync>;

impl Scope {
    /// Everything, and nobody wants to know.
    #[must_use]
    pub fn everything() -> Self {
        Self { only: None, begun: Mutex::default(), note: None }
    }

    /// Everything, and `note` hears of it.
    #[must_use]
    pub fn noted(note: Note) -> Self {
        Self { note: Some(note), ..Self::everything() }
    }

    /// Only what is at or below these names, as far as it is not complete.
    #[must_use]
    pub fn only(names: BTreeSet<Hashed>) -> Self {
        Self { only: Some(names), ..Self::everything() }
    }

    /// True if there is something that may not be stored. Then nothing is replaced, deleted or listed either.
    pub fn is_limited(&self) -> bool {
        self.only.is_some()
    }

    /// True if something of this name may be stored. Changes nothing.
    pub fn permits(&self, name: &RelativeName) -> bool {
        self.only.as_ref().is_none_or(|only| first(name).is_some_and(|first| only.contains(&first)))
    }

    /// Something of this name is to be stored.
    ///
    /// # Errors
    /// It may not.
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

    /// The names that were admitted.
    pub fn begun(&self) -> MutexGuard<'_, BTreeSet<Hashed>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a pair that sends something else.
const OTHERS: &str =
    "the code was good for one transfer, of which this is no part: send it with a new code of the receiver";

/// The answer to a pair that would replace a file.
pub(super) const NO_REPLACING: &str = "it is complete at the receiver, and the code was good for one transfer: replace it with a new code of the receiver";

fn first(name: &RelativeName) -> Option<Hashed> {
    name.as_bytes().split(|byte| *byte == b'/').next().map(Hashed::of)
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("only", &self.only).finish_non_exhaustive()
    }
}
