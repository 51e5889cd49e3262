//! Addresses and seeds of the ends that run real protocol code.

use std::net::SocketAddr;

/// Address of the end that opens the connection.
pub(crate) const SENDER: ([u8; 4], u16) = ([192, 0, 2, 1], 40_000);
/// Address of the end that accepts the connection.
pub(crate) const RECEIVER: ([u8; 4], u16) = ([192, 0, 2, 2], 9_000);

/// Returns an end's address with this number. Each NAT rebinding changes the port.
pub(crate) fn numbered(first: SocketAddr, number: u16) -> SocketAddr {
    SocketAddr::new(first.ip(), first.port().wrapping_add(number))
}

/// Derives 32 bytes from `seed`; different values of `salt` give different results.
pub(crate) fn seed32(seed: u64, salt: u8) -> [u8; 32] {
    let mut out = [salt; 32];
    out[..8].copy_from_slice(&seed.to_le_bytes());
    out
}
