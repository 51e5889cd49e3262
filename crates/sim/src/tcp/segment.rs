//! Segments between the two ends.

use dfcp_netem::Ecn;
use dfcp_time::Time;

/// The most selective-acknowledgement blocks that fit a segment without timestamps; with them it is one less (RFC 2018).
pub const SACK_BLOCKS_MAX: usize = 4;

/// The control bits that are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Opens the stream; takes sequence number 0.
    pub syn: bool,
    /// Ends the stream; takes the number after the last byte of data.
    pub fin: bool,
    /// [`Segment::ack`] counts.
    pub ack: bool,
    /// The last of a burst: the receiver should pass the data on, and acknowledges (RFC 9293, 3.9.1; Linux sets it on
    /// each burst which it leaves to the interface to cut up, `__tcp_transmit_skb`).
    pub psh: bool,
    /// A mark has arrived (RFC 3168, section 6.1); of a SYN together with `cwr`: its sender takes part in ECN.
    pub ece: bool,
    /// The window has been reduced, so that the receiver need not repeat `ece`.
    pub cwr: bool,
}

/// Ranges of bytes received above the cumulative acknowledgement, most recent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    /// First byte and the one after the last, relative to the acknowledgement.
    blocks: [(u32, u32); SACK_BLOCKS_MAX],
    count: u8,
    duplicate: Option<(u64, u64)>,
}

impl SackBlocks {
    /// Adds the bytes from `start` up to but not including `end`, above `ack`. A block beyond the fourth, an empty one,
    /// and one that is not above `ack` or ends 4 GiB or more beyond it are left out.
    pub fn push(&mut self, ack: u64, start: u64, end: u64) {
        let count = usize::from(self.count);
        if count == SACK_BLOCKS_MAX || start <= ack || end <= start {
            return;
        }
        if let (Ok(start), Ok(end)) = (u32::try_from(start - ack), u32::try_from(end - ack)) {
            self.blocks[count] = (start, end);
            self.count += 1;
        }
    }

    /// Reports that the bytes from `start` up to but not including `end` arrived once more (RFC 2883). Replaces such a
    /// report.
    pub fn set_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end));
    }

    /// First byte, and the one after the last, of data that arrived once more: the first block on the wire.
    #[must_use]
    pub fn duplicate(&self) -> Option<(u64, u64)> {
        self.duplicate
    }

    /// Number of blocks, with the one that reports a duplicate.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count) + usize::from(self.duplicate.is_some())
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The blocks above the acknowledgement as sequence numbers, `ack` being that of the same segment.
    pub fn iter(&self, ack: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.blocks[..usize::from(self.count)]
            .iter()
            .map(move |&(start, end)| (ack + u64::from(start), ack + u64::from(end)))
    }
}

/// A TCP segment, with its data replaced by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of the first byte of data (or of the SYN).
    pub seq: u64,
    /// The next number which the sender of this segment expects.
    pub ack: u64,
    /// Sending time of this segment (RFC 7323).
    pub ts_val: Time,
    /// The `ts_val` which this segment answers.
    pub ts_ecr: Time,
    /// Blocks received above `ack`.
    pub sack: SackBlocks,
    /// Bytes beyond `ack` that may be sent.
    pub window_bytes: u32,
    /// Bytes of data; SYN and FIN are not counted.
    pub len_bytes: u32,
    /// Size as an IP packet, all headers included.
    pub wire_bytes: u32,
    /// Control bits.
    pub flags: Flags,
    /// ECN codepoint of its IP packet.
    pub ecn: Ecn,
}

impl Segment {
    /// The sequence number after this segment, counting SYN and FIN.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len_bytes) + u64::from(self.flags.syn) + u64::from(self.flags.fin)
    }
}
