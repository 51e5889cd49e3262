//! Results of both directions.

use crate::perf::{Measured, Side};

/// Results of both directions, so far or final; both sides use the same names.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Both {
    /// Data from the client to the server.
    pub to_server: Measured,
    /// Data from the server to the client.
    pub to_client: Measured,
}

impl Both {
    /// Results at a `side` that has sent and received this.
    pub(super) fn new(side: Side, sent: Measured, received: Measured) -> Self {
        match side {
            Side::Client => Self { to_server: sent, to_client: received },
            Side::Server => Self { to_server: received, to_client: sent },
        }
    }

    /// Each direction behind its displayed name.
    pub fn named(&self) -> [(&'static str, &Measured); 2] {
        [("to server", &self.to_server), ("to client", &self.to_client)]
    }
}
