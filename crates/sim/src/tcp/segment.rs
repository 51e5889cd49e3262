//! Segments between the two ends.

use dfcp_netem::Ecn;
use dfcp_time::Time;

/// Maximum number of SACK blocks without timestamps; one less with them (RFC 2018).
pub const SACK_BLOCKS_MAX: usize = 4;

/// Modelled control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// SYN; takes sequence number 0.
    pub syn: bool,
    /// FIN; takes the number after the last byte of data.
    pub fin: bool,
    /// ACK: [`Segment::ack`] is valid.
    pub ack: bool,
    /// PSH, at the end of a burst: the receiver delivers the data and acknowledges (RFC 9293, 3.9.1; Linux sets it on each burst left to
    /// TSO, `__tcp_transmit_skb`).
    pub psh: bool,
    /// ECE: a mark has arrived (RFC 3168, section 6.1); in a SYN, with `cwr`: the sender supports ECN.
    pub ece: bool,
    /// CWR: the window was reduced, so the receiver need not repeat `ece`.
    pub cwr: bool,
}

/// Ranges of bytes received above the cumulative acknowledgement, most recent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    /// First byte, and one past the last, relative to the acknowledgement.
    blocks: [(u32, u32); SACK_BLOCKS_MAX],
    count: u8,
    duplicate: Option<(u64, u64)>,
}

impl SackBlocks {
    /// Adds the bytes `start..end`, above `ack`. Empty blocks, those beyond the fourth, and those not above `ack` or ending 4 GiB beyond it
    /// are omitted.
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

    /// Reports the bytes `start..end` as a duplicate (D-SACK, RFC 2883), replacing an earlier report.
    pub fn set_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end));
    }

    /// Duplicate data: first byte, and one past the last; the first block on the wire.
    #[must_use]
    pub fn duplicate(&self) -> Option<(u64, u64)> {
        self.duplicate
    }

    /// Number of blocks, including that of a duplicate.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count) + usize::from(self.duplicate.is_some())
    }

    /// True without any block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks above the acknowledgement as sequence numbers; `ack` is that of the same segment.
    pub fn iter(&self, ack: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.blocks[..usize::from(self.count)]
            .iter()
            .map(move |&(start, end)| (ack + u64::from(start), ack + u64::from(end)))
    }
}

/// TCP segment, whose data is replaced by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte of data (or of the SYN).
    pub seq: u64,
    /// Next expected sequence number.
    pub ack: u64,
    /// Timestamp of departure (RFC 7323).
    pub ts_val: Time,
    /// Echoed `ts_val`.
    pub ts_ecr: Time,
    /// SACK blocks above `ack`.
    pub sack: SackBlocks,
    /// Receive window beyond `ack`, bytes.
    pub window_bytes: u32,
    /// Length of the data, without SYN and FIN.
    pub len_bytes: u32,
    /// Size of the IP packet.
    pub wire_bytes: u32,
    /// Control bits.
    pub flags: Flags,
    /// ECN codepoint of the IP packet.
    pub ecn: Ecn,
}

impl Segment {
    /// The sequence number after this segment, counting SYN and FIN.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len_bytes) + u64::from(self.flags.syn) + u64::from(self.flags.fin)
    }
}
