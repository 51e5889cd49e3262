//! Bound of what the application may write, so that connections which are driven together take turns.

/// Bytes that the application may still write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteAllowance {
    /// As much as there is room for.
    #[default]
    Any,
    /// This many bytes, and what is then missing of a block.
    Bytes(u64),
}
