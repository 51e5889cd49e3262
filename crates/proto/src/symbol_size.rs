//! Bounds of a symbol's size.

use crate::proof::SECRET_BYTES;

/// The least size of a symbol, in bytes.
pub(crate) const SYMBOL_SIZE_MIN: u16 = 64;

/// The largest symbol, in bytes: the datagram must hold the rest of a data segment, too, and if it is sealed the secret
/// which proves decoding.
pub(crate) const fn symbol_size_max(sealed: bool) -> u16 {
    let payload_bytes = dfcp_wire::payload_bytes_max(sealed);
    (if sealed { payload_bytes - SECRET_BYTES } else { payload_bytes }) as u16
}
