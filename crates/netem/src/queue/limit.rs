//! Limit of a queue, in packets and bytes.

/// Default queue limit, packets: 15 MB of full-sized packets, or 120 ms at 1 Gbit/s.
pub const QUEUE_PACKETS_DEFAULT: usize = 10_000;

/// Limit of packets that wait for the transmitter. The packet being sent is not counted: with a limit of zero, a packet
/// is dropped if it finds the transmitter busy. A link without a rate never queues packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Maximum number of queued packets; `None` for no limit.
    pub packets: Option<usize>,
    /// Maximum number of queued bytes; `None` for no limit.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// Creates a limit of `packets`, whatever their size.
    #[must_use]
    pub const fn packets(packets: usize) -> Self {
        Self { packets: Some(packets), bytes: None }
    }

    /// Creates a limit of `bytes`, in any number of packets.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { packets: None, bytes: Some(bytes) }
    }

    /// Returns true if `packets` with a total of `bytes` are within the limit.
    pub(crate) fn allows(self, packets: usize, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| packets <= limit) && self.bytes.is_none_or(|limit| bytes <= limit)
    }

    /// Returns true if a packet of `size_bytes` fits in addition to `packets` with a total of `bytes`.
    pub(crate) fn admits(self, packets: usize, bytes: u64, size_bytes: u32) -> bool {
        self.allows(packets.saturating_add(1), bytes.saturating_add(u64::from(size_bytes)))
    }
}

impl Default for QueueLimit {
    /// Default: [`QUEUE_PACKETS_DEFAULT`].
    fn default() -> Self {
        Self::packets(QUEUE_PACKETS_DEFAULT)
    }
}
