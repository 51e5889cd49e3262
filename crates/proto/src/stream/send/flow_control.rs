//! What of a stream the peer's application has yet to read, and what the peer lends to that (`spec/protocol.md` \[window-1\]).
//!
//! All numbers are absolute, so that a report which is lost or late only makes the sender cautious. A window relative to what is
//! under way would bound nothing: what is decoded and unread has left it.

use dfcp_wire::feedback::StreamState;

use crate::error::PeerMisbehaved;
use crate::limits;
use crate::stream::window::{counted_bytes, free_bytes};

/// Bytes of a KiB, in which reports count.
const KIB: u64 = 1024;

#[derive(Debug)]
pub(crate) struct FlowControl {
    /// Blocks which the peer keeps from the oldest one on that is not wholly read.
    window_blocks: u32,
    /// What the peer lends to blocks which are not read.
    memory_bytes: u64,
    /// What all blocks cut so far count as.
    cut_bytes: u64,
    /// What the newest report said of the peer's reading.
    blocks_read: u32,
    kib_read: u64,
}

impl FlowControl {
    pub(crate) fn new(window_blocks: u32) -> Self {
        let memory_bytes = limits::RECEIVE_MEMORY_BYTES_MIN;
        Self { window_blocks, memory_bytes, cut_bytes: 0, blocks_read: 0, kib_read: 0 }
    }

    /// What the peer's handshake says.
    pub(crate) fn establish(&mut self, window_blocks: u32, memory_bytes: u64) {
        self.window_blocks = window_blocks.min(limits::WINDOW_BLOCKS_MAX);
        self.memory_bytes = memory_bytes;
    }

    /// What the peer lends to blocks which are not read.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Whether the block of this id and length may be cut, on a connection of `symbol_size`.
    pub(crate) fn permits(&self, id: u32, length_bytes: usize, symbol_size: usize) -> bool {
        let held_bytes = self.cut_bytes.saturating_sub(self.kib_read * KIB) + counted_bytes(length_bytes);
        id.saturating_sub(self.blocks_read) < self.window_blocks
            && held_bytes <= self.memory_bytes.saturating_add(free_bytes(symbol_size))
    }

    pub(crate) fn on_cut(&mut self, length_bytes: usize) {
        self.cut_bytes += counted_bytes(length_bytes);
    }

    /// The newest report tells this memory. It never falls.
    pub(crate) fn on_memory(&mut self, memory_kib: u32) {
        self.memory_bytes = self.memory_bytes.max(u64::from(memory_kib) * KIB);
    }

    /// Takes in what the newest report says of the peer's reading, when the blocks that it needs or could list count as
    /// `undecoded_bytes`.
    ///
    /// # Errors
    /// It says that more was read than has been decoded, or less than was read before.
    pub(crate) fn on_read(&mut self, state: &StreamState, undecoded_bytes: u64) -> Result<(), PeerMisbehaved> {
        let kib_read = self.kib_read + u64::from(state.kib_read.wrapping_sub(self.kib_read as u32));
        let is_decoded = kib_read <= self.cut_bytes.saturating_sub(undecoded_bytes) / KIB;
        if !is_decoded || !(self.blocks_read..=state.next_needed).contains(&state.blocks_read) {
            return Err(PeerMisbehaved::InconsistentReading { blocks: state.blocks_read, kib: kib_read });
        }
        (self.blocks_read, self.kib_read) = (state.blocks_read, kib_read);
        Ok(())
    }

    /// As if the peer had read so many blocks, which counted for nothing.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, blocks: u32) {
        self.blocks_read = blocks;
    }

    #[cfg(test)]
    pub(crate) fn set_window_blocks(&mut self, blocks: u32) {
        self.window_blocks = blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Z: usize = 1000;

    fn flow(memory_bytes: u64) -> FlowControl {
        let mut flow = FlowControl::new(10);
        flow.establish(10, memory_bytes);
        flow
    }

    fn read(next_needed: u32, blocks_read: u32, kib_read: u32) -> StreamState {
        StreamState { next_needed, blocks_read, kib_read, ..StreamState::default() }
    }

    #[test]
    fn short_blocks_count_as_256_bytes() {
        let mut flow = flow(10 * KIB);
        let cut = (0..100)
            .take_while(|_| {
                let may = flow.permits(0, 1, Z);
                flow.on_cut(1);
                may
            })
            .count();
        assert_eq!(cut as u64, (10 * KIB + free_bytes(Z)) / 256);
    }

    #[test]
    fn a_stream_which_holds_nothing_may_always_cut_one_symbol() {
        for symbol_size in [64, 1000] {
            let mut flow = flow(0);
            assert!(flow.permits(0, symbol_size, symbol_size) && !flow.permits(0, 4 * Z, symbol_size));
            flow.on_cut(symbol_size);
            assert!(!flow.permits(1, symbol_size + 1023, symbol_size));
            // All of it is read; what the report cut off does not stop the stream.
            let kib = (counted_bytes(symbol_size) / KIB) as u32;
            flow.on_read(&read(1, 1, kib), 0).unwrap();
            assert!(flow.permits(1, symbol_size, symbol_size));
        }
    }

    #[test]
    fn blocks_count_from_the_oldest_unread_one() {
        let mut flow = flow(1 << 30);
        assert!(flow.permits(9, Z, Z) && !flow.permits(10, Z, Z));
        flow.on_read(&read(5, 3, 0), 0).unwrap();
        assert!(flow.permits(12, Z, Z) && !flow.permits(13, Z, Z));
    }

    #[test]
    fn kib_go_on_past_two_to_the_32() {
        let mut flow = flow(1 << 30);
        flow.cut_bytes = 5 << 42;
        let mut told = 0_u64;
        for _ in 0..3 {
            told += 3 << 30;
            flow.on_read(&read(1, 1, told as u32), 0).unwrap();
        }
        assert_eq!(flow.kib_read, 9 << 30);
    }

    #[test]
    fn memory_never_falls() {
        let mut flow = flow(100 * KIB);
        flow.on_memory(50);
        assert_eq!(flow.memory_bytes(), 100 * KIB);
        flow.on_memory(200);
        assert_eq!(flow.memory_bytes(), 200 * KIB);
    }

    #[test]
    fn what_cannot_have_been_read_is_misbehaviour() {
        let mut flow = flow(1 << 30);
        (0..4).for_each(|_| flow.on_cut(4 * 1024));
        assert!(flow.on_read(&read(2, 3, 8), 8 * KIB).is_err(), "blocks which it has not decoded");
        assert!(flow.on_read(&read(2, 2, 9), 8 * KIB).is_err(), "bytes which it has not decoded");
        assert!(flow.on_read(&read(2, 2, 8), 8 * KIB).is_ok());
        assert!(flow.on_read(&read(2, 1, 8), 8 * KIB).is_err(), "fewer blocks than before");
        assert!(flow.on_read(&read(2, 2, 7), 8 * KIB).is_err(), "fewer bytes than before");
    }
}
