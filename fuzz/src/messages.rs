//! An application that uses the messages of a session.

use std::collections::BTreeMap;
use std::time::Duration;

use dfcp_proto::{Connection, Deadline};
use dfcp_time::Time;

use crate::input::Input;

/// Lengths of messages, from less than a datagram to several.
const LENGTHS: [usize; 6] = [8, 100, 1_300, 2_000, 9_000, 60_000];

/// Messages that one end has sent and received.
#[derive(Debug, Default)]
pub struct SideMessages {
    /// Messages that the connection has accepted. Each begins with its number.
    sent: u64,
    /// Lengths of the received messages of the peer, by number.
    got: BTreeMap<u64, usize>,
}

impl SideMessages {
    /// Sends a message with length and deadline from the input.
    pub fn send(&mut self, now: Time, connection: &mut Connection, input: &mut Input<'_>) {
        let Some(mut messages) = connection.messages() else { return };
        let within = Duration::from_millis(input.u8().into());
        let deadline = if input.rarely(8) { Deadline::RELIABLE } else { Deadline::within(within) };
        let bytes = message(self.sent, input.pick(&LENGTHS));
        if messages.send(now, &bytes, deadline).is_ok() {
            self.sent += 1;
        }
    }

    /// Reads all messages that have arrived. Panics if a message arrives twice, was never sent, or differs from the
    /// sent one.
    pub fn receive(&mut self, connection: &mut Connection, peer: &Self) {
        let Some(mut messages) = connection.messages() else { return };
        while let Some(got) = messages.receive() {
            let number = got.bytes.first_chunk().map(|number| u64::from_be_bytes(*number));
            let number = number.filter(|&number| number < peer.sent).expect("a message that was never sent has come");
            assert_eq!(got.bytes, message(number, got.bytes.len()), "message {number} is not the one that was sent");
            assert!(LENGTHS.contains(&got.bytes.len()), "message {number} is cut");
            assert_eq!(self.got.insert(number, got.bytes.len()), None, "message {number} has come twice");
        }
    }

    /// Number of messages received.
    #[must_use]
    pub fn received(&self) -> usize {
        self.got.len()
    }
}

/// Message that begins with its number, followed by bytes computed from it.
fn message(number: u64, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|at| (at as u64).wrapping_mul(31).wrapping_add(number) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}
