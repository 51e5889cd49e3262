//! Limit of what may wait.

/// Packets that may wait unless told otherwise: 15 MB of full-sized ones, 120 ms at 1 Gbit/s.
pub const QUEUE_PACKETS_DEFAULT: usize = 10_000;

/// Limit of packets waiting for the transmitter. The packet being sent does not count, so a limit of zero packets is a link
/// without a queue: a packet that finds the transmitter busy is dropped. A link without a rate never queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Most packets waiting.
    pub packets: Option<usize>,
    /// Most bytes waiting.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// A limit of `packets` waiting packets of any size.
    #[must_use]
    pub const fn packets(packets: usize) -> Self {
        Self { packets: Some(packets), bytes: None }
    }

    /// A limit of `bytes` waiting bytes in any number of packets.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { packets: None, bytes: Some(bytes) }
    }

    /// True if `packets` of altogether `bytes` may wait.
    pub(crate) fn allows(self, packets: usize, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| packets <= limit) && self.bytes.is_none_or(|limit| bytes <= limit)
    }

    /// True if one more packet of `size_bytes` may join `packets` of altogether `bytes`.
    pub(crate) fn admits(self, packets: usize, bytes: u64, size_bytes: u32) -> bool {
        self.allows(packets.saturating_add(1), bytes.saturating_add(u64::from(size_bytes)))
    }
}

impl Default for QueueLimit {
    /// [`QUEUE_PACKETS_DEFAULT`].
    fn default() -> Self {
        Self::packets(QUEUE_PACKETS_DEFAULT)
    }
}
