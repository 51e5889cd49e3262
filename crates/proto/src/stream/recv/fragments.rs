//! Parts of encoding symbols, until a symbol is complete (`spec/wire-format.md` §5, \[stream-11\]).

use std::collections::VecDeque;

use dfcp_wire::segment::Data;
use dfcp_wire::{BlockInfo, StreamId};

use crate::limits::SYMBOLS_IN_PARTS_MAX;
use crate::stream::recv::memory::ReceiveMemory;

/// Memory of an incomplete symbol, bytes, besides its payload.
const SYMBOL_STATE_BYTES: u64 = 96;

/// Result of adding a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The part was stored; other parts are missing.
    Kept,
    /// The part was already present.
    Duplicate,
    /// The part contradicts another part of the same symbol.
    Inconsistent,
    /// The part was the last missing one. Contains the whole symbol.
    Whole(Vec<u8>),
}

/// A symbol with missing parts.
#[derive(Debug)]
struct Incomplete {
    stream: StreamId,
    block_id: u32,
    esi: u32,
    block: BlockInfo,
    count: u8,
    /// Bit mask of the parts present.
    have: u8,
    is_paid: bool,
    bytes: Vec<u8>,
}

/// Symbols with missing parts, oldest first: at most [`SYMBOLS_IN_PARTS_MAX`]. When full, the oldest symbol is dropped.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    /// `None` while there are no symbols.
    #[expect(clippy::box_collection, reason = "hardly any connection ever has one")]
    symbols: Option<Box<VecDeque<Incomplete>>>,
}

impl Fragments {
    /// Adds the part `data`, of the correct length, to its symbol of `symbol_bytes`.
    pub(super) fn add(
        &mut self,
        memory: &mut ReceiveMemory,
        data: &Data,
        payload: &[u8],
        symbol_bytes: usize,
    ) -> Added {
        let is_same = |it: &Incomplete| (it.stream, it.block_id, it.esi) == (data.stream, data.block_id, data.esi);
        let symbols = &mut **self.symbols.get_or_insert_default();
        let index = symbols.iter().position(is_same).unwrap_or_else(|| {
            begin(symbols, memory, data, symbol_bytes);
            symbols.len() - 1
        });
        let symbol = &mut symbols[index];
        if symbol.block != data.block || symbol.count != data.fragment.count() {
            return Added::Inconsistent;
        }
        let bit = 1 << data.fragment.index();
        if symbol.have & bit != 0 {
            return Added::Duplicate;
        }
        symbol.have |= bit;
        if let Some(place) = symbol.bytes.get_mut(data.fragment.range(symbol_bytes)) {
            place.copy_from_slice(payload);
        }
        if symbol.have.count_ones() < u32::from(symbol.count) {
            return Added::Kept;
        }
        let whole = symbols.remove(index).map(|symbol| {
            give_back(memory, &symbol);
            symbol.bytes
        });
        if symbols.is_empty() {
            self.symbols = None;
        }
        Added::Whole(whole.unwrap_or_default())
    }

    /// Drops the parts of a block, or of the whole stream, that are no longer needed.
    pub(crate) fn forget(&mut self, memory: &mut ReceiveMemory, stream: StreamId, block_id: Option<u32>) {
        let Some(symbols) = &mut self.symbols else { return };
        symbols.retain(|symbol| {
            let is_kept = symbol.stream != stream || block_id.is_some_and(|id| id != symbol.block_id);
            if !is_kept {
                give_back(memory, symbol);
            }
            is_kept
        });
        if symbols.is_empty() {
            self.symbols = None;
        }
    }
}

/// Creates an entry for a symbol whose first part has come, and charges its memory. Without memory, the newest such
/// symbol of the session is kept nevertheless: so the block needed next can always be decoded.
fn begin(symbols: &mut VecDeque<Incomplete>, memory: &mut ReceiveMemory, data: &Data, symbol_bytes: usize) {
    if symbols.len() == SYMBOLS_IN_PARTS_MAX
        && let Some(oldest) = symbols.pop_front()
    {
        give_back(memory, &oldest);
    }
    let is_paid = memory.pay(symbol_bytes as u64 + SYMBOL_STATE_BYTES);
    if !is_paid {
        symbols.retain(|symbol| symbol.is_paid);
    }
    let &Data { stream, block_id, esi, block, fragment } = data;
    let (count, bytes) = (fragment.count(), vec![0; symbol_bytes]);
    symbols.push_back(Incomplete { stream, block_id, esi, block, count, have: 0, is_paid, bytes });
}

fn give_back(memory: &mut ReceiveMemory, symbol: &Incomplete) {
    if symbol.is_paid {
        memory.give_back(symbol.bytes.len() as u64 + SYMBOL_STATE_BYTES);
    }
}
