//! The end of a connection.

use dfcp_proto::ConnectionError;

/// End of a connection.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    /// Both sides closed it.
    InOrder,
    /// This ended it.
    By(ConnectionError),
}
