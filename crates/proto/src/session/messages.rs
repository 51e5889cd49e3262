//! State of a session's messages, in both directions.

use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;

use crate::message::recv::RecvMessages;
use crate::message::send::{Proven, SendMessages};

/// Burst allowance of the messages' share of the rate: their next datagram may leave this much early.
const SAVED: Duration = Duration::from_millis(10);

/// Messages of both directions.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) send: SendMessages,
    pub(super) recv: RecvMessages,
    pub(super) share: Share,
    /// Datagrams with messages may be in flight.
    pub(super) are_in_flight: bool,
    /// Symbols and messages whose arrival the peer has proven.
    pub(super) proven: Proven,
}

impl Messages {
    /// Creates the state for a session with symbols of `symbol_size` bytes. Packets of the base size have room for
    /// symbols of `base_symbol_size` bytes.
    pub(super) fn new(symbol_size: u16, base_symbol_size: usize, is_sealed: bool) -> Self {
        let (kernel, proofs) = (Kernel::detect(), is_sealed);
        Self {
            send: SendMessages::new(kernel, proofs, base_symbol_size),
            recv: RecvMessages::new(kernel, proofs, symbol_size.into()),
            share: Share::default(),
            are_in_flight: false,
            proven: Proven::default(),
        }
    }
}

/// The messages' share of the session's rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// Time until which the messages' share is used up by datagrams already sent.
    used_until: Time,
}

impl Share {
    /// Returns the time from which the next datagram may leave.
    pub(super) fn ready_at(self) -> Time {
        self.used_until - SAVED
    }

    /// Charges a datagram of `bits` bits that is sent now, at a permitted rate of `bps` bits per second.
    pub(super) fn on_sent(&mut self, now: Time, bits: u64, bps: u64) {
        let took = Duration::from_nanos(bits.saturating_mul(1_000_000_000) / bps.max(1));
        self.used_until = self.used_until.max(now) + took;
    }
}
