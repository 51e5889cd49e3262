//! Sending state that the streams of a session share: the peer's memory, the send buffer, and the counts.

use std::collections::BTreeSet;

use dfcp_fountain::kernel::Kernel;
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
use crate::stream::send::proofs::Secrets;
use crate::stream::send::repair_targets::RepairTargets;
use crate::stream::send::write_turns::{WriteAllowance, WriteTurns};
use crate::stream::window::GrowingWindow;

/// A stream leaves to the others at least a seventh of what it holds: one alone takes seven eighths of
/// all that there is, and stalled ones never take all.
const SHARE_PARTS: u64 = 8;

/// Bytes of a block of `length_bytes` in flow control.
pub(crate) fn block_cost(length_bytes: u64) -> u64 {
    length_bytes.max(limits::BLOCK_COUNT_BYTES_MIN)
}

/// Bytes that a stream may hold without taking any of the shared memory: one symbol, and the rest that a report in whole KiB cuts
/// off. Without that rest, a stream of which all was read might seem to hold too much to send a symbol.
pub(crate) fn own_place_bytes(symbol_size: usize) -> u64 {
    block_cost(symbol_size as u64) + KIB_BYTES - 1
}

/// Bytes more that a stream may take which has `own` of the shared memory, with `free` of it left (\[window-7\]).
pub(crate) fn share(free: u64, own: u64) -> u64 {
    (free.saturating_mul(SHARE_PARTS - 1).saturating_sub(own) / SHARE_PARTS).min(free)
}

/// The memory which the peer lends to all streams together ([window-1]).
#[derive(Debug)]
pub(crate) struct PeerMemory {
    /// Memory in the newest report, bytes.
    pub(crate) bytes: u64,
    /// Bytes that the streams hold of it, each less its own place.
    pub(crate) held_bytes: u64,
}

impl PeerMemory {
    fn free_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.held_bytes)
    }

    /// True if a stream which holds `own` of it may hold `more`.
    pub(crate) fn has_room(&self, own: u64, more: u64) -> bool {
        more <= share(self.free_bytes(), own)
    }
}

/// Unit of memory in reports.
pub(crate) const KIB_BYTES: u64 = 1024;

/// State that all streams of a session share when they send.
#[derive(Debug)]
pub(crate) struct SendShared {
    pub(crate) kernel: Kernel,
    pub(crate) codec: &'static dyn Codec,
    pub(crate) secrets: Option<Secrets>,
    pub(crate) spare: SpareBlocks,
    /// The connection's symbol size z: the most bytes of data in a symbol.
    pub(crate) symbol_size: u16,
    /// The same of blocks that are cut now: what packets have room for.
    packet_symbol_size: u16,
    /// The same in packets of the base size.
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
    /// Streams with data that wait or are under way.
    pub(crate) busy_streams: u64,
    /// Blocks of all of them from the oldest that is not acknowledged on.
    pub(crate) blocks_open: usize,
    /// Streams with blocks besides the first one, by the number of their oldest block.
    pub(crate) oldest: BTreeSet<(u64, StreamId)>,
    /// Blocks begun by all of them.
    pub(crate) blocks_begun: u64,
    /// Half of the credit, or more, is used up.
    pub(crate) is_thrifty: bool,
    /// Symbols which can have served unacknowledged blocks, all together
    /// ([`SendBlock::served_max`](crate::stream::send::block::SendBlock::served_max)).
    pub(crate) served_max: u64,
    /// Symbols of streams that were reset which served although their blocks were not acknowledged.
    pub(crate) reset_symbols: u64,
    /// Symbols of streams that ended without a proof, which may have served.
    pub(crate) unproven_max: u64,
    pub(crate) repair_targets: RepairTargets,
    pub(crate) counters: SendCounters,
}

impl SendShared {
    /// Asks for proofs of decoding if it gets a secret for them.
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
            served_max: 0,
            reset_symbols: 0,
            unproven_max: 0,
            repair_targets: RepairTargets::default(),
            counters: SendCounters::default(),
        }
    }

    /// The handshake is done: the peer takes symbols of `symbol_size` and the given window.
    pub(crate) fn establish(&mut self, symbol_size: u16, window_blocks: u32, window_bytes: u64) {
        self.symbol_size = self.symbol_size.min(symbol_size);
        self.set_packet_symbol_size(usize::MAX);
        self.peer_window_blocks = window_blocks.min(limits::WINDOW_BLOCKS_MAX);
        self.peer_memory.bytes = window_bytes;
    }

    /// Number of parts into which an encoding symbol of `symbol_bytes` must be cut now.
    pub(crate) fn parts_of(&self, symbol_bytes: usize) -> u8 {
        let secret_bytes = if self.secrets.is_some() { proof::SECRET_BYTES } else { 0 };
        parts::count(symbol_bytes, self.packet_symbol_size() + secret_bytes)
    }

    /// Bytes of data in a symbol of a block that is cut now.
    pub(crate) fn packet_symbol_size(&self) -> usize {
        self.packet_symbol_size.into()
    }

    /// Packets have room for symbols of `bytes`, secrets excluded.
    pub(crate) fn set_packet_symbol_size(&mut self, bytes: usize) {
        self.packet_symbol_size = bytes.min(self.symbol_size.into()) as u16;
    }

    /// The least packets, which every path carries, have room for the present symbols.
    pub(crate) fn set_base(&mut self) {
        self.base_symbol_size = self.packet_symbol_size;
    }

    /// True if packets with symbols of `bytes` of data are above the base size, or full while all have the base size: their fate shows the
    /// size that the path carries (\[size-6\], \[size-9\]).
    pub(crate) fn is_telling(&self, bytes: usize) -> bool {
        let base: usize = self.base_symbol_size.into();
        let are_all_base = self.packet_symbol_size <= self.base_symbol_size;
        bytes > base || are_all_base && bytes + usize::from(NEARLY_FULL_BYTES) >= base
    }

    /// The newest report tells how much of the peer's memory is ours.
    pub(crate) fn on_report(&mut self, report: &Report) {
        self.peer_memory.bytes = u64::from(report.memory_kib) * KIB_BYTES;
    }

    /// Each stream's own place in the peer's memory: one symbol, which the others' blocks cannot take ([window-2]).
    pub(crate) fn own_place_bytes(&self) -> u64 {
        own_place_bytes(self.symbol_size.into())
    }

    /// Bytes of the send buffer which a stream that has `own` in it may fill.
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
        /// However many take as much as they may, and in whatever order: there is always something left for a newcomer, until
        /// so little is left that its eighth is less than a byte.
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
