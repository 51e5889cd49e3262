//! Figures of an endpoint: what it holds, and what it can hold at the most.

use crate::endpoint::Endpoint;
use crate::endpoint::accept::Accept;
use crate::endpoint::half_open::HalfOpens;
use crate::endpoint::last_words::KeptWords;
use crate::limits;

/// Figures of an endpoint: what it holds, and what it has turned away.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::EndpointStats;
///
/// /// True if somebody tries to wear the listener out.
/// fn is_under_attack(before: &EndpointStats, now: &EndpointStats) -> bool {
///     now.cookies_sent > before.cookies_sent || now.proofs_failed > before.proofs_failed + 100
/// }
/// assert!(!is_under_attack(&EndpointStats::default(), &EndpointStats::default()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EndpointStats {
    /// Connections in any state.
    pub connections: usize,
    /// Initiators whose proof is awaited.
    pub half_open: usize,
    /// Bytes which the sealed ones of these take.
    pub half_open_bytes: usize,
    /// Answers which asked for a cookie and kept nothing.
    pub cookies_sent: u64,
    /// SYNs refused, or dropped for want of room.
    pub refused: u64,
    /// Datagrams which should have proven an initiator and did not. Each cost up to three multiplications on the curve;
    /// those which [`PROOF_RETRY_MIN`](crate::limits::PROOF_RETRY_MIN) or
    /// [`PROOF_RETRIES_PER_S`](crate::limits::PROOF_RETRIES_PER_S) holds off cost nothing and are not counted.
    pub proofs_failed: u64,
    /// First messages on which multiplications on the curve were spent, answered or not: one to four each. Copies of those
    /// which were refused, and what [`FIRST_MESSAGES_FAILED_PER_S`](crate::limits::FIRST_MESSAGES_FAILED_PER_S) holds off,
    /// cost none and are not counted.
    pub first_messages_computed: u64,
    /// Peers of sessions which are lost here that were told so, at most 100 in a second.
    pub stateless_resets_sent: u64,
    /// Connections accepted at once, at the most: [`Accept::connections_max`], or as many as have a reserve of memory.
    pub connections_max: usize,
    /// Bytes which the blocks of accepted connections take at present, reserves included: at most
    /// [`Accept::memory_bytes_max`].
    pub memory_bytes: u64,
    /// Bytes which peers can make this endpoint hold at the very most, whatever they do: all of that memory, all
    /// half-open connections, spare blocks, and all others with everything that is kept for each.
    pub memory_bytes_max: u64,
    /// Bytes which what is written to accepted connections can take at the very most, on top of that: all send buffers
    /// full, and nothing acknowledged. A server with many clients writes less at a time, or sets smaller buffers.
    pub send_memory_bytes_max: u64,
}

impl Endpoint {
    /// Its figures: what it holds, and what it has turned away.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        let half_opens = self.half_opens.as_ref();
        let accept = self.accept.as_ref();
        let half_open_bytes_max = half_opens.map_or(0, HalfOpens::memory_bytes_max);
        let by_accept = accept.map_or(0, |accept| accept.memory_budget_bytes().saturating_add(accept.fixed_bytes()));
        EndpointStats {
            connections: self.entries.len(),
            half_open: self.half_open + half_opens.map_or(0, HalfOpens::len),
            half_open_bytes: half_opens.map_or(0, HalfOpens::memory_bytes),
            cookies_sent: half_opens.map_or(0, HalfOpens::cookies_sent),
            refused: self.refused,
            proofs_failed: half_opens.map_or(0, HalfOpens::proofs_failed),
            first_messages_computed: half_opens.map_or(0, HalfOpens::first_messages_computed),
            stateless_resets_sent: self.resets.sent(),
            connections_max: accept.map_or(0, Accept::connections_bound),
            memory_bytes: self.memory.used_bytes(),
            memory_bytes_max: by_accept
                .saturating_add((half_open_bytes_max + limits::SPARE_BYTES_MAX + KeptWords::BYTES_MAX) as u64),
            send_memory_bytes_max: accept.map_or(0, Accept::send_memory_bytes),
        }
    }
}
