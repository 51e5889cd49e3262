//! Two endpoints in virtual time, and addresses of those who attack them.

use std::net::SocketAddr;

use dfcp_testkit::{DelayLine, Testbed};

/// A client, a server, 5 ms between them, and room for an attacker's datagrams.
pub type World = Testbed<DelayLine>;

/// An address of an attacker's, or of an attacker's victim.
#[must_use]
pub fn stranger(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    ([198, 51, high, low], 7_000).into()
}
