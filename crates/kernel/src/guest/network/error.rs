//! Errors of a network.

use std::io;

use super::netlink::Refusal;

/// A network could not be built, changed or measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The layout asks for something which the kernel cannot do, or makes no sense.
    #[error("{0}")]
    Layout(String),
    /// The kernel refused a request.
    #[error("{what}: {refusal}")]
    Refused {
        /// The request and its device, as a sentence.
        what: String,
        /// The kernel's answer.
        refusal: Refusal,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The failed operation, as a sentence.
        what: String,
        /// The system's reason.
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

/// Says which device was meant, and what was asked of it.
pub(super) trait Asked<T> {
    fn asked(self, what: impl FnOnce() -> String) -> Result<T, NetworkError>;
}

impl<T> Asked<T> for Result<T, Refusal> {
    fn asked(self, what: impl FnOnce() -> String) -> Result<T, NetworkError> {
        self.map_err(|refusal| NetworkError::Refused { what: what(), refusal })
    }
}
