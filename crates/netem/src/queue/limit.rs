//! Limit of a queue.

/// Default queue limit in packets: 15 MB of full-sized ones, 120 ms at 1 Gbit/s.
pub const QUEUE_PACKETS_DEFAULT: usize = 10_000;

/// Limit of packets queued for the transmitter. The packet being sent does not count: with a limit of zero, a packet that finds the
/// transmitter busy is dropped. A link without a rate never queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Maximum number of queued packets.
    pub packets: Option<usize>,
    /// Maximum number of queued bytes.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// Limit of `packets` of any size.
    #[must_use]
    pub const fn packets(packets: usize) -> Self {
        Self { packets: Some(packets), bytes: None }
    }

    /// Limit of `bytes` in any number of packets.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { packets: None, bytes: Some(bytes) }
    }

    /// True if `packets` with `bytes` in total are within the limit.
    pub(crate) fn allows(self, packets: usize, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| packets <= limit) && self.bytes.is_none_or(|limit| bytes <= limit)
    }

    /// True if a packet of `size_bytes` may join `packets` with `bytes` in total.
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
