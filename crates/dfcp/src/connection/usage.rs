//! The use that the application makes of a connection.

/// The application's use of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Usage {
    /// It waits to be accepted.
    #[default]
    Undecided,
    /// Its first stream is all.
    Stream,
    /// The first stream only says when all others have ended.
    Session,
    /// Others are opened beside its first stream.
    StreamInSession,
}
