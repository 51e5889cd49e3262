//! A symbol that is longer than current packets and is sent in parts: its block was cut for longer packets
//! (\[size-5\]).

use dfcp_wire::{FRAGMENTS_MAX, Fragment};

use crate::stream::send::symbol::{CodeError, Symbol};

/// Returns the number of parts of a symbol of `symbol_bytes`, with at most `payload_bytes_max` per part.
pub(crate) fn count(symbol_bytes: usize, payload_bytes_max: usize) -> u8 {
    (symbol_bytes.div_ceil(payload_bytes_max.max(1)) as u8).clamp(1, FRAGMENTS_MAX)
}

/// Returns the loss rate of symbols if each symbol is sent in `parts` datagrams and datagrams have the loss rate
/// `loss`.
pub(crate) fn symbol_loss(loss: f64, parts: u8) -> f64 {
    if parts == 1 { loss } else { 1.0 - (1.0 - loss).powi(parts.into()) }
}

/// A symbol of which some parts have been sent. The other parts are sent before anything else.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) whole: Symbol,
    count: u8,
    next: u8,
    /// Bytes of the symbol, filled when the first part is written.
    bytes: Vec<u8>,
}

impl Parts {
    pub(crate) fn new(whole: Symbol, count: u8) -> Self {
        Self { whole, count, next: 0, bytes: Vec::new() }
    }

    /// Returns the part to send next.
    pub(crate) fn next(&self) -> Option<Symbol> {
        let fragment = Fragment::new(self.next, self.count)?;
        let symbol_size = fragment.range(self.whole.symbol_size).len();
        Some(Symbol { fragment, symbol_size, ..self.whole })
    }

    /// Records that a part has been sent. Returns true if it was the last one.
    pub(crate) fn on_sent(&mut self) -> bool {
        self.next += 1;
        self.next == self.count
    }

    /// Writes the next part to `out`. `encode` writes the whole symbol, of which packets carry `whole_bytes`.
    ///
    /// # Errors
    /// An error of `encode`, or `out` does not have the length of the part.
    pub(crate) fn write(
        &mut self,
        whole_bytes: usize,
        encode: impl FnOnce(&mut [u8]) -> Result<(), CodeError>,
        out: &mut [u8],
    ) -> Result<(), CodeError> {
        if self.bytes.is_empty() {
            self.bytes.resize(whole_bytes, 0);
            encode(&mut self.bytes)?;
        }
        let part = Fragment::new(self.next, self.count).map(|fragment| fragment.range(self.bytes.len()));
        let part = part.and_then(|range| self.bytes.get(range)).filter(|part| part.len() == out.len());
        out.copy_from_slice(part.ok_or(CodeError)?);
        Ok(())
    }
}
