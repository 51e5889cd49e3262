//! The messages of a session, in both directions.

use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;

use crate::message::recv::RecvMessages;
use crate::message::send::{Proven, SendMessages};

/// The part of their share of the rate that messages may save up: their next datagram may leave this much early.
const SAVED: Duration = Duration::from_millis(10);

/// Both directions' messages.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) send: SendMessages,
    pub(super) recv: RecvMessages,
    pub(super) share: Share,
    /// Datagrams of messages may be in flight.
    pub(super) are_in_flight: bool,
    /// Symbols and messages that the peer has proven to have.
    pub(super) proven: Proven,
}

impl Messages {
    /// Of a session with symbols of this size.
    pub(super) fn new(symbol_size: u16, is_sealed: bool) -> Self {
        let (kernel, proofs) = (Kernel::detect(), is_sealed);
        Self {
            send: SendMessages::new(kernel, proofs),
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
    /// Until then they have used up what they may.
    used_until: Time,
}

impl Share {
    /// Time from which the next datagram may leave.
    pub(super) fn ready_at(self) -> Time {
        self.used_until - SAVED
    }

    /// A datagram of as many bits leaves now, and messages may take `bps`.
    pub(super) fn on_sent(&mut self, now: Time, bits: u64, bps: u64) {
        let took = Duration::from_nanos(bits.saturating_mul(1_000_000_000) / bps.max(1));
        self.used_until = self.used_until.max(now) + took;
    }
}
