//! Segments exchanged by the two ends.

use dfcp_netem::Ecn;
use dfcp_time::Time;

/// Maximum number of SACK blocks without timestamps. With timestamps, one block less fits (RFC 2018).
pub const SACK_BLOCKS_MAX: usize = 4;

/// Control bits, as far as they are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// SYN, which takes sequence number 0.
    pub syn: bool,
    /// FIN, which takes the sequence number after the last byte of data.
    pub fin: bool,
    /// ACK: the field [`Segment::ack`] is valid.
    pub ack: bool,
    /// PSH, set at the end of a burst: the receiver delivers the data and acknowledges it (RFC 9293, 3.9.1). Linux sets
    /// PSH on each burst that it leaves to TSO (`__tcp_transmit_skb`).
    pub psh: bool,
    /// ECE: a marked segment has arrived (RFC 3168, section 6.1). In a SYN, together with `cwr`: the sender supports
    /// ECN.
    pub ece: bool,
    /// CWR: the sender has reduced its window, so the receiver need not repeat ECE.
    pub cwr: bool,
}

/// Ranges of bytes that were received above the cumulative acknowledgement, most recent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    /// First byte of each block and one past its last byte, relative to the acknowledgement.
    blocks: [(u32, u32); SACK_BLOCKS_MAX],
    count: u8,
    duplicate: Option<(u64, u64)>,
}

impl SackBlocks {
    /// Adds the block of bytes `start..end`. The block is ignored if it is empty, would be the fifth, does not start
    /// above `ack`, or ends 4 GiB or more above `ack`.
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

    /// Reports the bytes `start..end` as received twice (D-SACK, RFC 2883). Replaces an earlier such report.
    pub fn set_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end));
    }

    /// Returns the bytes reported as received twice: the first byte, and one past the last. On the wire, this is the
    /// first block.
    #[must_use]
    pub fn duplicate(&self) -> Option<(u64, u64)> {
        self.duplicate
    }

    /// Returns the number of blocks, including the report of duplicate data.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count) + usize::from(self.duplicate.is_some())
    }

    /// Returns true if there is no block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the blocks as sequence numbers, without the report of duplicate data. `ack` is the acknowledgement of
    /// the same segment.
    pub fn iter(&self, ack: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.blocks[..usize::from(self.count)]
            .iter()
            .map(move |&(start, end)| (ack + u64::from(start), ack + u64::from(end)))
    }
}

/// TCP segment. Its data is represented by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte of data, or of the SYN.
    pub seq: u64,
    /// Next expected sequence number.
    pub ack: u64,
    /// Timestamp: the time of sending (RFC 7323).
    pub ts_val: Time,
    /// Echo of the other end's `ts_val`.
    pub ts_ecr: Time,
    /// SACK blocks above `ack`.
    pub sack: SackBlocks,
    /// Receive window beyond `ack`, bytes.
    pub window_bytes: u32,
    /// Length of the data without SYN and FIN, bytes.
    pub len_bytes: u32,
    /// Size of the IP packet, bytes.
    pub wire_bytes: u32,
    /// Control bits.
    pub flags: Flags,
    /// ECN codepoint of the IP packet.
    pub ecn: Ecn,
}

impl Segment {
    /// Returns the sequence number after this segment, counting SYN and FIN.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len_bytes) + u64::from(self.flags.syn) + u64::from(self.flags.fin)
    }
}
