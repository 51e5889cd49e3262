//! Answers to peers of sessions that this endpoint has lost (`spec/protocol.md` \[rst-8\]).

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_secure::EndpointResetKey;
use dfcp_time::Time;
use dfcp_wire::segment::{Ack, Address, Clear, Received, Reset, ResetReason, Segment};

use crate::endpoint::rate_limit::RateLimit;
use crate::limits;

/// Proofs that a session is lost, and a limit on the rate of giving them away.
#[derive(Debug)]
pub(super) struct StatelessResets {
    pub(super) key: Arc<EndpointResetKey>,
    limit: RateLimit,
    sent: u64,
}

impl StatelessResets {
    pub(super) fn new(key: Arc<EndpointResetKey>) -> Self {
        let limit = RateLimit::new(limits::STATELESS_RESETS_PER_S, limits::STATELESS_RESETS_BURST);
        Self { key, limit, sent: 0 }
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Answers a datagram for an unknown session, if it contains a query that this endpoint has issued and the rate
    /// limit permits. Returns the length of the answer, bytes, which is always less than that of the query.
    pub(super) fn answer(
        &mut self,
        now: Time,
        remote: SocketAddr,
        header: &Clear,
        datagram: &[u8],
        reply: &mut [u8],
    ) -> Option<usize> {
        if !self.limit.permits(now, remote.into()) {
            return None;
        }
        let Received { segment: Segment::Ack(Ack::SessionQuery { from }), payload, .. } =
            header.verify(datagram).ok()?
        else {
            return None;
        };
        let token = self.key.answer(header.connection_id(), payload.first_chunk()?).filter(|_| from != 0)?;
        let reset = Segment::Reset(Reset { reason: ResetReason::SessionUnknown });
        let mut draft = reset.begin_clear(Address::Connection(from), 0, reply.first_chunk_mut()?);
        draft.payload(token.len()).ok()?.copy_from_slice(&token);
        let length = draft.finish();
        if length >= datagram.len() {
            return None;
        }
        self.limit.charge(now, remote.into());
        self.sent += 1;
        Some(length)
    }
}

#[cfg(test)]
mod tests;
