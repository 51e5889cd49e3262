//! Whose unfinished files they are.

use std::fmt;
use std::sync::Arc;

use crate::seal::Seal;

/// A sender whom a receiver knows again: by the key which it has proven.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(Arc<str>);

impl Owner {
    /// From what protects the connection. Without a key of its own a sender cannot be told from others.
    pub fn of(seal: Option<&Seal>) -> Option<Self> {
        Some(Self::from_fingerprint(&seal?.peer?.fingerprint().to_string()))
    }

    /// From the fingerprint of its key.
    pub fn from_fingerprint(fingerprint: &str) -> Self {
        Self(fingerprint.into())
    }

    /// The fingerprint of its key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
