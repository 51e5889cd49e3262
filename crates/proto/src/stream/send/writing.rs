//! Writes of the application: their size, and wake-ups of waiting writers.

use dfcp_time::Time;

use super::shared::SendShared;
use super::{BLOCKS_PER_WINDOW_MIN, LOW_LATENCY_BLOCK_SYMBOLS, SendStream};
use crate::config::{SendBuffering, Traffic};
use crate::limits;
use crate::path::flight::Flight;
use crate::stream::send::plan;
use crate::stream::send::write_turns::WriteAllowance;

impl SendStream {
    /// Takes as much of `data` as there is room for. Returns the number of bytes taken.
    pub(crate) fn write(&mut self, now: Time, data: &[u8], flight: &Flight, shared: &mut SendShared) -> usize {
        let (mut space, block_bytes) = (self.space_bytes(flight, shared), self.block_bytes(flight, shared));
        let has_allowance = matches!(shared.allowance, WriteAllowance::Bytes(1..));
        let gives_way = has_allowance && shared.write_turns.gives_way(now, self.id, self.write_turn);
        if gives_way {
            space = space.min(self.source.room_in_begun_block() as u64);
        }
        let before = self.buffered_bytes();
        let taken = self.source.write(now, data, space, block_bytes);
        self.on_buffered_change(before, shared);
        self.more_to_come = taken < data.len();
        self.write_blocked = self.more_to_come;
        if let WriteAllowance::Bytes(left_bytes) = &mut shared.allowance {
            *left_bytes = left_bytes.saturating_sub(taken as u64);
            let is_used_up = *left_bytes == 0;
            if has_allowance && !gives_way && taken > 0 {
                shared.write_turns.on_written(self.id, &mut self.write_turn, is_used_up);
            }
            if self.more_to_come && (gives_way || is_used_up) {
                shared.write_turns.on_held_up(&mut self.write_turn);
            }
        } else {
            shared.write_turns.leave(&mut self.write_turn);
        }
        taken
    }

    /// Updates the session's sums over all streams, after this stream's bytes in the send buffer have changed. `before`
    /// is the number of these bytes before the change.
    pub(super) fn on_buffered_change(&self, before: u64, shared: &mut SendShared) {
        let after = self.buffered_bytes();
        shared.buffered_bytes = shared.buffered_bytes - before + after;
        shared.busy_streams = shared.busy_streams + u64::from(after > 0) - u64::from(before > 0);
    }

    /// Returns the number of bytes that a write could take now.
    pub(crate) fn space_bytes(&self, flight: &Flight, shared: &SendShared) -> u64 {
        let (waiting, own) = (self.source.waiting_bytes(), self.buffered_bytes());
        // A stream without data in the buffer may write one symbol, even if other streams fill the buffer.
        let least = shared.buffer.bytes().min(shared.symbol_size.into()).saturating_sub(own);
        let space =
            shared.buffer_room(own).max(least).min(self.unsent_bytes_max(flight, shared).saturating_sub(waiting));
        match shared.allowance {
            WriteAllowance::Any => space,
            // The allowance extends to the end of a begun block: otherwise the block would wait until its linger time
            // ends.
            WriteAllowance::Bytes(left_bytes) => space.min(left_bytes.max(self.source.room_in_begun_block() as u64)),
        }
    }

    /// Returns true if a waiting writer should be woken: at most half of the permitted unsent bytes are waiting, and a
    /// write has room.
    pub(crate) fn asks_for_more(&self, flight: &Flight, shared: &SendShared) -> bool {
        self.source.waiting_bytes() <= self.unsent_bytes_max(flight, shared) / 2 && self.space_bytes(flight, shared) > 0
    }

    /// Returns true once when the buffer has room again, after a write had found no room.
    pub(crate) fn wakes_writer(&mut self, flight: &Flight, shared: &SendShared) -> bool {
        let wakes = self.write_blocked && self.asks_for_more(flight, shared);
        self.write_blocked &= !wakes;
        wakes
    }

    /// Returns true once after a write that was cut short, even if there is still no room.
    pub(crate) fn take_write_blocked(&mut self) -> bool {
        std::mem::take(&mut self.write_blocked)
    }

    pub(crate) fn is_write_blocked(&self) -> bool {
        self.write_blocked
    }

    /// Returns the limit on written bytes that have not been cut into blocks.
    fn unsent_bytes_max(&self, flight: &Flight, shared: &SendShared) -> u64 {
        match shared.send_buffering {
            SendBuffering::Deep => limits::UNSENT_BYTES_MAX,
            SendBuffering::Shallow => {
                // At least one block, as a partial block would wait for its linger time; two blocks, so that one is
                // written while the other is sent.
                let block_bytes = self.block_bytes(flight, shared) as u64;
                let most = limits::UNSENT_SHALLOW_BYTES_MAX.max(2 * block_bytes);
                most.min((flight.room() * shared.packet_symbol_size()) as u64).max(block_bytes)
            }
        }
    }

    pub(crate) fn block_bytes(&self, flight: &Flight, shared: &SendShared) -> usize {
        let symbols = match self.traffic {
            Traffic::Bulk => {
                let window_blocks = shared.window_blocks.min(shared.peer_window_blocks);
                plan::bulk_block_symbols(flight.loss().low(), window_blocks, flight.len())
            }
            Traffic::LowLatency => LOW_LATENCY_BLOCK_SYMBOLS,
        };
        // The blocks that several streams have in flight together must fit into the same windows.
        let parts = BLOCKS_PER_WINDOW_MIN * shared.busy_streams.max(1);
        let share = shared.peer_memory.bytes.min(shared.buffer.bytes()) / parts;
        let symbols_max = usize::try_from(share).unwrap_or(usize::MAX) / shared.packet_symbol_size();
        symbols.min(symbols_max).max(1) * shared.packet_symbol_size()
    }

    pub(crate) fn flush(&mut self) {
        self.source.flush();
    }

    /// Returns the number of datagrams that wait to be sent, as far as the window permits. Stops counting above
    /// `enough`.
    pub(crate) fn waiting_datagrams(&self, enough: u64, shared: &SendShared) -> u64 {
        let waiting_bytes = if self.next_fits(shared) { self.source.waiting_bytes() } else { 0 };
        let mut datagrams = waiting_bytes.div_ceil(shared.packet_symbol_size() as u64);
        for block in self.active.iter().map_while(|id| self.get(id)) {
            if datagrams > enough {
                break;
            }
            datagrams += u64::from(block.target);
        }
        datagrams
    }

    /// Returns true if the window has room for the next written block.
    pub(crate) fn next_fits(&self, shared: &SendShared) -> bool {
        self.window_is_open(self.source.next_bytes() as u64, shared)
    }

    /// Returns true if the latest write was cut short, so the writer has more data.
    pub(crate) fn has_more_to_come(&self) -> bool {
        self.more_to_come
    }
}
