//! The figures of both directions.

use crate::perf::{Measured, Side};

/// Both directions of a measurement, so far or at its end. Both sides call them the same.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Both {
    /// Data which the client sends.
    pub to_server: Measured,
    /// Data which the server sends.
    pub to_client: Measured,
}

impl Both {
    /// Figures of a side that has sent and received this.
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
