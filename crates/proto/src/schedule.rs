//! Order of sending.

/// The sender's choice of what to send next.
///
/// Classic's exist with the feature `classic` only.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Schedule {
    /// Classic: round robin over all unacknowledged blocks, without end (thesis §3.8.2).
    #[cfg(feature = "classic")]
    Flood,
    /// Classic: `(1 + ε)·k` encoded bytes of every block, then the next one. ε is relative to k = 63 536. A block which
    /// has not been acknowledged after that gets ε·k more after every acknowledgement timeout, because a block that
    /// does not decode is never given up.
    #[cfg(feature = "classic")]
    OpenLoop {
        /// The redundancy ε, 0 to 16.
        redundancy: f64,
    },
    /// Modern: as many symbols as feedback says each block still needs (`spec/protocol.md`, "Adaptive").
    Adaptive,
}
