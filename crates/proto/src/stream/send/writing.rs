//! How much the application may write, and when.

use dfcp_time::Time;

use super::{BLOCKS_PER_WINDOW_MIN, LOW_LATENCY_BLOCK_SYMBOLS, SendStream};
use crate::config::{SendBuffering, Traffic};
use crate::limits;
use crate::path::flight::Flight;
use crate::session::sharing::WriteAllowance;
use crate::stream::send::plan;

impl SendStream {
    pub(crate) fn write(&mut self, now: Time, data: &[u8], flight: &Flight) -> usize {
        let taken = self.source.write(now, data, self.space_bytes(flight), self.block_bytes(flight));
        self.more_to_come = taken < data.len();
        if let WriteAllowance::Bytes(left_bytes) = &mut self.allowance {
            *left_bytes = left_bytes.saturating_sub(taken as u64);
        }
        taken
    }

    /// Bytes which a write could take now.
    pub(crate) fn space_bytes(&self, flight: &Flight) -> u64 {
        let waiting = self.source.waiting_bytes();
        let kept = self.buffer.bytes().saturating_sub(self.open_bytes + waiting);
        let space = kept.min(self.unsent_bytes_max(flight).saturating_sub(waiting));
        match self.allowance {
            WriteAllowance::Any => space,
            // A block which cannot be filled would wait until it is cut for its age.
            WriteAllowance::Bytes(left_bytes) => space.min(left_bytes.max(self.source.room_in_begun_block() as u64)),
        }
    }

    /// Whether a writer who waits is to be woken, as it is worth it.
    pub(crate) fn asks_for_more(&self, flight: &Flight) -> bool {
        self.source.waiting_bytes() <= self.unsent_bytes_max(flight) / 2 && self.space_bytes(flight) > 0
    }

    /// Written bytes of which no block has been cut yet, at the most.
    fn unsent_bytes_max(&self, flight: &Flight) -> u64 {
        match self.send_buffering {
            SendBuffering::Deep => limits::UNSENT_BYTES_MAX,
            SendBuffering::Shallow => {
                // A block which cannot be filled waits until it is cut for its age; while one is sent, the next is written.
                let block_bytes = self.block_bytes(flight) as u64;
                let most = limits::UNSENT_SHALLOW_BYTES_MAX.max(2 * block_bytes);
                most.min((flight.room() * self.symbol_size) as u64).max(block_bytes)
            }
        }
    }

    pub(crate) fn block_bytes(&self, flight: &Flight) -> usize {
        let symbols = match self.traffic {
            Traffic::Bulk => plan::bulk_block_symbols(flight.loss().low()),
            Traffic::LowLatency => LOW_LATENCY_BLOCK_SYMBOLS,
        };
        let share = self.flow.memory_bytes().min(self.buffer.bytes()) / BLOCKS_PER_WINDOW_MIN;
        let symbols_max = usize::try_from(share).unwrap_or(usize::MAX) / self.symbol_size;
        symbols.min(symbols_max).max(1) * self.symbol_size
    }

    pub(crate) fn flush(&mut self) {
        self.source.flush();
    }

    pub(crate) fn shut_down(&mut self) {
        self.more_to_come = false;
        self.source.shut_down();
    }

    pub(crate) fn set_send_buffering(&mut self, send_buffering: SendBuffering) {
        self.send_buffering = send_buffering;
    }

    pub(crate) fn allow(&mut self, allowance: WriteAllowance) {
        self.allowance = allowance;
    }

    /// Whether more datagrams are in flight or wait to be, as far as the window permits it, than always may be in flight.
    pub(crate) fn is_under_way(&self, flight: &Flight) -> bool {
        let least = limits::PEER_QUEUE_DATAGRAMS_MIN as u64;
        let waiting_bytes = if self.may_begin_block() { self.source.waiting_bytes() } else { 0 };
        let mut datagrams = flight.len() as u64 + waiting_bytes.div_ceil(self.symbol_size as u64);
        for block in self.active.iter().map_while(|id| self.get(id)) {
            if datagrams > least {
                break;
            }
            datagrams += u64::from(block.target);
        }
        datagrams > least
    }

    /// Whether the window has room for what was written next, if anything was.
    pub(crate) fn may_begin_block(&self) -> bool {
        self.window_is_open(self.source.next_bytes())
    }

    /// Whether all that may be written has been, or all that there was.
    pub(crate) fn has_used_allowance(&self) -> bool {
        self.allowance == WriteAllowance::Bytes(0) || !self.more_to_come
    }
}
