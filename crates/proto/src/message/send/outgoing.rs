//! An outgoing message: its source symbols, its secrets and its deadline.

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Encoder};
use dfcp_time::Time;
use dfcp_wire::segment::MessageInfo;

use crate::message::rows::RowHead;
use crate::proof::SECRET_BYTES;

/// A message that is queued or in flight, until the peer has it or its deadline has passed.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) id: u32,
    pub(super) info: MessageInfo,
    pub(super) created: Time,
    /// Lifetime field of the message's segments, µs.
    pub(super) lifetime_us: u32,
    /// Latest departure time of a symbol.
    pub(super) send_by: Time,
    pub(super) is_reliable: bool,
    /// Concatenated source symbols, each followed by its secret.
    pub(super) rows: Vec<u8>,
    /// Length of a symbol with its secret, bytes.
    pub(super) symbol_bytes: usize,
}

impl Outgoing {
    /// Splits a message into `k` symbols, each followed by a secret if there are proofs. Returns the concatenated
    /// symbols, and the length of one in bytes.
    pub(super) fn lay_out(bytes: &[u8], k: usize, mut secret: Option<impl FnMut() -> u32>) -> (Vec<u8>, usize) {
        let data_bytes = bytes.len().div_ceil(k);
        let symbol_bytes = data_bytes + if secret.is_some() { SECRET_BYTES } else { 0 };
        let mut rows = vec![0; k * symbol_bytes];
        for i in 0..k {
            let Some(row) = rows.get_mut(i * symbol_bytes..(i + 1) * symbol_bytes) else { break };
            let from = (i * data_bytes).min(bytes.len());
            let data = bytes.get(from..(from + data_bytes).min(bytes.len())).unwrap_or_default();
            row[..data.len()].copy_from_slice(data);
            if let Some(secret) = &mut secret {
                row[data_bytes..].copy_from_slice(&secret().to_be_bytes());
            }
        }
        (rows, symbol_bytes)
    }

    pub(super) fn k(&self) -> usize {
        self.info.k.into()
    }

    pub(super) fn created_us(&self) -> u32 {
        (self.created.as_ns() / 1_000) as u32
    }

    pub(super) fn is_over(&self, now: Time) -> bool {
        now > self.send_by
    }

    /// Returns the secrets of the message's source symbols.
    pub(super) fn secrets(&self) -> impl Iterator<Item = u32> {
        let rows = self.rows.chunks_exact(self.symbol_bytes.max(1));
        rows.filter_map(|row| row.last_chunk().map(|secret| u32::from_be_bytes(*secret)))
    }

    /// Writes symbol `esi` of this message. Returns false if the symbol does not exist.
    pub(super) fn write_symbol(&self, kernel: Kernel, esi: u32, out: &mut [u8]) -> bool {
        if (esi as usize) < self.k() {
            let at = esi as usize * self.symbol_bytes;
            let Some(row) = self.rows.get(at..at + self.symbol_bytes).filter(|row| row.len() == out.len()) else {
                return false;
            };
            out.copy_from_slice(row);
            return true;
        }
        if self.rows.is_empty() {
            return out.is_empty();
        }
        let shape = BlockShape::new(self.k(), self.rows.len());
        let encoder = shape.ok().and_then(|shape| Encoder::new(kernel, shape, &self.rows).ok());
        encoder.is_some_and(|encoder| encoder.write_symbol(esi, out).is_ok())
    }

    /// Writes this message's row, the padded form in which it is coded together with others. Only messages of one
    /// symbol have one.
    pub(super) fn write_row(&self, proofs: bool, row: &mut [u8]) {
        let length = self.info.length_bytes as usize;
        let head = RowHead {
            length_bytes: self.info.length_bytes,
            created_us: self.created_us(),
            lifetime_us: self.lifetime_us,
        };
        let secret = if proofs { self.secrets().next() } else { None };
        head.write(self.rows.get(..length).unwrap_or_default(), secret, row);
    }
}
