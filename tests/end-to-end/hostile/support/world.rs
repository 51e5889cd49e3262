//! Two endpoints in virtual time, and addresses of attackers.

use std::net::SocketAddr;

use dfcp_testkit::{DelayLine, Testbed};

/// A client and a server with a delay of 5 ms between them, and space for an attacker's datagrams.
pub type World = Testbed<DelayLine>;

/// Address of an attacker, or of an attacker's victim.
#[must_use]
pub fn stranger(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    ([198, 51, high, low], 7_000).into()
}
