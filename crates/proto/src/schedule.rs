//! Order in which a sender sends symbols.

/// Order in which a sender sends symbols.
///
/// The variants of the classic profile exist with the feature `classic` only.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Schedule {
    /// Classic: round robin over all unacknowledged blocks, without end (thesis §3.8.2).
    #[cfg(feature = "classic")]
    Flood,
    /// Classic: `(1 + ε)·k` encoded bytes of each block, then the next block. ε is relative to k = 63 536. A block that
    /// is still unacknowledged gets another ε·k bytes after every acknowledgement timeout, because no block is ever
    /// given up.
    #[cfg(feature = "classic")]
    OpenLoop {
        /// Redundancy ε, 0 to 16.
        redundancy: f64,
    },
    /// Modern: as many symbols as each block still needs according to feedback (`spec/protocol.md`, "Adaptive").
    Adaptive,
}
