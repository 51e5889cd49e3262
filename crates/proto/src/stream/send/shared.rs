//! Sending state that the streams of a session share: the peer's memory, the send buffer, and the counts.

use std::collections::BTreeSet;
use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;
use dfcp_wire::StreamId;
use dfcp_wire::feedback::Report;

use crate::codec::Codec;
use crate::config::{Config, SendBuffering};
use crate::limits;
use crate::path::packet_size::NEARLY_FULL_BYTES;
use crate::proof;
use crate::spare::SpareBlocks;
use crate::stream::send::counters::SendCounters;
use crate::stream::send::parts;
use crate::stream::send::plan;
use crate::stream::send::proofs::Secrets;
use crate::stream::send::repair_targets::RepairTargets;
use crate::stream::send::write_turns::{WriteAllowance, WriteTurns};
use crate::stream::window::GrowingWindow;

/// Divisor of [`share`]: each stream leaves at least a seventh of its own holdings free. One stream alone takes seven
/// eighths of the total, and stalled streams never take all of it.
const SHARE_PARTS: u64 = 8;

/// Returns the charge for a block of `length_bytes` in flow control, bytes.
pub(crate) fn block_cost(length_bytes: u64) -> u64 {
    length_bytes.max(limits::BLOCK_COUNT_BYTES_MIN)
}

/// Bytes that a stream may hold without using shared memory: one symbol, and the remainder that reports in whole KiB
/// cut off. Without this remainder, a wholly read stream might appear to hold too much to send a symbol.
pub(crate) fn own_place_bytes(symbol_size: usize) -> u64 {
    block_cost(symbol_size as u64) + KIB_BYTES - 1
}

/// Returns how many more bytes a stream may take if it holds `own` bytes of the shared memory and `free` bytes are left
/// (\[window-7\]).
pub(crate) fn share(free: u64, own: u64) -> u64 {
    (free.saturating_mul(SHARE_PARTS - 1).saturating_sub(own) / SHARE_PARTS).min(free)
}

/// Memory that the peer advertises for all streams together ([window-1]).
#[derive(Debug)]
pub(crate) struct PeerMemory {
    /// Memory according to the newest report, bytes.
    pub(crate) bytes: u64,
    /// Bytes held by the streams, without each stream's own place.
    pub(crate) held_bytes: u64,
}

impl PeerMemory {
    fn free_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.held_bytes)
    }

    /// Returns true if a stream that holds `own` bytes may take `more` bytes.
    pub(crate) fn has_room(&self, own: u64, more: u64) -> bool {
        more <= share(self.free_bytes(), own)
    }
}

/// Round trips for which a hold-up counts as recent. A block's rounds take two to six round trips, so an event within
/// this time shows that the window does not span them.
const HOLD_UP_RTTS: u32 = 8;

/// State of what holds the sender back although it may send: the window, the send buffer, or the length of a report's
/// list (\[window-8\]).
#[derive(Debug, Default)]
pub(crate) struct HoldUp {
    /// True if the window or the buffer has held the sender back since the last [`update`](Self::update).
    pub(crate) is_new: bool,
    /// True if rounds are planned for a sender that is held back.
    pub(crate) is_recent: bool,
    until: Time,
    /// Number of unacknowledged blocks of all streams, which reports list one by one.
    pub(crate) blocks: u32,
}

impl HoldUp {
    /// Takes in the time and the smoothed `rtt` of the path. Called for each symbol.
    pub(crate) fn update(&mut self, now: Time, rtt: Duration) {
        if std::mem::take(&mut self.is_new) {
            self.until = now + rtt * HOLD_UP_RTTS;
        }
        self.is_recent = now < self.until || self.blocks as usize > plan::LISTED_BLOCKS;
    }
}

/// Unit of memory in reports, bytes.
pub(crate) const KIB_BYTES: u64 = 1024;

/// Sending state that all streams of a session share.
#[derive(Debug)]
pub(crate) struct SendShared {
    pub(crate) kernel: Kernel,
    pub(crate) codec: &'static dyn Codec,
    pub(crate) secrets: Option<Secrets>,
    pub(crate) spare: SpareBlocks,
    /// Symbol size z of the connection: the largest number of data bytes in a symbol.
    pub(crate) symbol_size: u16,
    /// Data bytes per symbol of blocks cut now: as many as packets of the current size carry.
    packet_symbol_size: u16,
    /// Data bytes per symbol in packets of the base size.
    base_symbol_size: u16,
    pub(crate) window_blocks: u32,
    pub(crate) peer_window_blocks: u32,
    pub(crate) peer_memory: PeerMemory,
    pub(crate) buffer: GrowingWindow,
    /// Bytes written to any stream and not acknowledged.
    pub(crate) buffered_bytes: u64,
    pub(crate) send_buffering: SendBuffering,
    pub(crate) allowance: WriteAllowance,
    pub(crate) write_turns: WriteTurns,
    /// Number of streams with unsent or unacknowledged data.
    pub(crate) busy_streams: u64,
    /// Number of blocks of all streams, counted in each stream from its oldest unacknowledged block.
    pub(crate) blocks_open: usize,
    /// Streams with blocks, except the first stream, ordered by the number of their oldest block.
    pub(crate) oldest: BTreeSet<(u64, StreamId)>,
    /// Number of blocks begun by all streams.
    pub(crate) blocks_begun: u64,
    /// True if half of the credit, or more, is used up.
    pub(crate) is_thrifty: bool,
    pub(crate) hold_up: HoldUp,
    /// Symbols sent that may have been useful to the peer for unacknowledged blocks, over all streams
    /// ([`SendBlock::served_max`](crate::stream::send::block::SendBlock::served_max)).
    pub(crate) served_max: u64,
    /// Symbols of reset streams that were useful for unacknowledged blocks, according to the peer.
    pub(crate) reset_symbols: u64,
    /// Symbols that may have been useful for streams that ended without a proof.
    pub(crate) unproven_max: u64,
    pub(crate) repair_targets: RepairTargets,
    pub(crate) counters: SendCounters,
}

impl SendShared {
    /// Creates the state. With a seed in `proofs`, blocks carry secrets and acknowledgements need proofs of decoding.
    pub(crate) fn new(config: &Config, kernel: Kernel, proofs: Option<[u8; 32]>) -> Self {
        let secrets = proofs.map(Secrets::new);
        Self {
            kernel,
            codec: config.codec,
            symbol_size: proof::data_bytes_max(config.symbol_size, secrets.is_some()) as u16,
            packet_symbol_size: proof::data_bytes_max(config.symbol_size, secrets.is_some()) as u16,
            base_symbol_size: 0,
            secrets,
            spare: SpareBlocks::default(),
            window_blocks: config.blocks_in_window(),
            peer_window_blocks: config.blocks_in_window(),
            peer_memory: PeerMemory { bytes: limits::RECEIVE_MEMORY_BYTES_MIN, held_bytes: 0 },
            buffer: GrowingWindow::new(config.send_buffer_bytes),
            buffered_bytes: 0,
            send_buffering: SendBuffering::Deep,
            allowance: WriteAllowance::Any,
            write_turns: WriteTurns::default(),
            busy_streams: 0,
            blocks_open: 0,
            oldest: BTreeSet::new(),
            blocks_begun: 0,
            is_thrifty: false,
            hold_up: HoldUp::default(),
            served_max: 0,
            reset_symbols: 0,
            unproven_max: 0,
            repair_targets: RepairTargets::default(),
            counters: SendCounters::default(),
        }
    }

    /// Applies the peer's parameters after the handshake: symbols of `symbol_size`, and the given window.
    pub(crate) fn establish(&mut self, symbol_size: u16, window_blocks: u32, window_bytes: u64) {
        self.symbol_size = self.symbol_size.min(symbol_size);
        self.set_packet_symbol_size(usize::MAX);
        self.peer_window_blocks = window_blocks.min(limits::WINDOW_BLOCKS_MAX);
        self.peer_memory.bytes = window_bytes;
    }

    /// Returns the number of parts into which an encoding symbol of `symbol_bytes` must be cut now.
    pub(crate) fn parts_of(&self, symbol_bytes: usize) -> u8 {
        let secret_bytes = if self.secrets.is_some() { proof::SECRET_BYTES } else { 0 };
        parts::count(symbol_bytes, self.packet_symbol_size() + secret_bytes)
    }

    /// Returns the data bytes per symbol of a block that is cut now.
    pub(crate) fn packet_symbol_size(&self) -> usize {
        self.packet_symbol_size.into()
    }

    /// Sets the data bytes per symbol, secrets excluded, that packets have room for.
    pub(crate) fn set_packet_symbol_size(&mut self, bytes: usize) {
        self.packet_symbol_size = bytes.min(self.symbol_size.into()) as u16;
    }

    /// Records the current symbol size as that of the base packets, which every path carries.
    pub(crate) fn set_base(&mut self) {
        self.base_symbol_size = self.packet_symbol_size;
    }

    /// Returns true if a packet with `bytes` of data shows by its fate which size the path carries: it is larger than
    /// base packets, or a full packet while all packets have the base size (\[size-6\], \[size-9\]).
    pub(crate) fn is_telling(&self, bytes: usize) -> bool {
        let base: usize = self.base_symbol_size.into();
        let are_all_base = self.packet_symbol_size <= self.base_symbol_size;
        bytes > base || are_all_base && bytes + usize::from(NEARLY_FULL_BYTES) >= base
    }

    /// Takes the peer's memory from its newest report.
    pub(crate) fn on_report(&mut self, report: &Report) {
        self.peer_memory.bytes = u64::from(report.memory_kib) * KIB_BYTES;
    }

    /// Returns a stream's own place in the peer's memory, bytes: one symbol, unavailable to blocks of other streams
    /// ([window-2]).
    pub(crate) fn own_place_bytes(&self) -> u64 {
        own_place_bytes(self.symbol_size.into())
    }

    /// Returns the bytes of the send buffer that a stream may still fill if it has `own` bytes in it.
    pub(crate) fn buffer_room(&self, own: u64) -> u64 {
        share(self.buffer.bytes().saturating_sub(self.buffered_bytes), own)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_alone_takes_seven_eighths() {
        assert_eq!(share(800, 0), 700);
        assert_eq!(share(100, 700), 0);
        assert_eq!(share(200, 0), 175);
    }

    proptest! {
        /// For any number and order of takers something is left for a newcomer, until an eighth of the rest is less
        /// than a byte.
        #[test]
        fn nobody_takes_all(size in 0_u64..1 << 40, takers in proptest::collection::vec(1_u64..=8, 0..40)) {
            let mut free = size;
            for part in takers {
                let taken = share(free, 0) / part;
                prop_assert!(taken <= free);
                free -= taken;
                prop_assert!(share(free, taken) <= free && (free > 0 || size == 0));
            }
        }
    }
}
