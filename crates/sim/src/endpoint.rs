//! Addresses and seeds of endpoints whose own code runs here.

use std::net::SocketAddr;

/// Address of the end that opens the connection.
pub(crate) const SENDER: ([u8; 4], u16) = ([192, 0, 2, 1], 40_000);
/// Address of the other one.
pub(crate) const RECEIVER: ([u8; 4], u16) = ([192, 0, 2, 2], 9_000);

/// The address number `number` of an end: a NAT which has forgotten one gives another port.
pub(crate) fn numbered(first: SocketAddr, number: u16) -> SocketAddr {
    SocketAddr::new(first.ip(), first.port().wrapping_add(number))
}

/// 32 bytes of a seed, different ones for each `salt`.
pub(crate) fn seed32(seed: u64, salt: u8) -> [u8; 32] {
    let mut out = [salt; 32];
    out[..8].copy_from_slice(&seed.to_le_bytes());
    out
}
