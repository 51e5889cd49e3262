//! Errors of a network.

use std::io;

use super::netlink::Refusal;

/// Reason for which a network could not be built, changed or measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The layout is invalid, or uses a feature that the kernel lacks.
    #[error("{0}")]
    Layout(String),
    /// The kernel refused a request.
    #[error("{what}: {refusal}")]
    Refused {
        /// Request and device, as a sentence.
        what: String,
        /// Answer of the kernel.
        refusal: Refusal,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// Failed operation, as a sentence.
        what: String,
        /// Error of the system.
        error: io::Error,
    },
}

impl NetworkError {
    pub(super) fn system(what: impl Into<String>, error: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), error: error.into() }
    }

    pub(super) fn layout(what: impl Into<String>) -> Self {
        Self::Layout(what.into())
    }
}

/// Adds the request and its device to an error.
pub(super) trait Asked<T> {
    fn asked(self, what: impl FnOnce() -> String) -> Result<T, NetworkError>;
}

impl<T> Asked<T> for Result<T, Refusal> {
    fn asked(self, what: impl FnOnce() -> String) -> Result<T, NetworkError> {
        self.map_err(|refusal| NetworkError::Refused { what: what(), refusal })
    }
}
