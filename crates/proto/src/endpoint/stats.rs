//! Statistics of an endpoint: its current and maximum memory, and refused connections.

use crate::endpoint::Endpoint;
use crate::endpoint::accept::Accept;
use crate::endpoint::half_open::HalfOpens;
use crate::endpoint::last_words::KeptWords;
use crate::limits;

/// Statistics of an endpoint: its current and maximum memory, and refused connections.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::EndpointStats;
///
/// /// True if somebody tries to exhaust the listener.
/// fn is_under_attack(before: &EndpointStats, now: &EndpointStats) -> bool {
///     now.cookies_sent > before.cookies_sent || now.proofs_failed > before.proofs_failed + 100
/// }
/// assert!(!is_under_attack(&EndpointStats::default(), &EndpointStats::default()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EndpointStats {
    /// Number of connections in any state.
    pub connections: usize,
    /// Number of initiators whose proof is awaited.
    pub half_open: usize,
    /// Memory of the sealed half-open connections, bytes.
    pub half_open_bytes: usize,
    /// Number of answers that required a cookie, so that no state was kept.
    pub cookies_sent: u64,
    /// Number of SYNs refused, or dropped for lack of room.
    pub refused: u64,
    /// Number of datagrams that failed as an initiator's proof. Each cost up to three curve multiplications. Datagrams
    /// held off by [`PROOF_RETRY_MIN`](crate::limits::PROOF_RETRY_MIN) or
    /// [`PROOF_RETRIES_PER_S`](crate::limits::PROOF_RETRIES_PER_S) cost none and are not counted.
    pub proofs_failed: u64,
    /// Number of first messages that cost curve multiplications, one to four each, whether they were answered or
    /// refused. Copies of refused messages, and messages held off by
    /// [`FIRST_MESSAGES_FAILED_PER_S`](crate::limits::FIRST_MESSAGES_FAILED_PER_S), cost none and are not counted.
    pub first_messages_computed: u64,
    /// Number of answers to queries about lost sessions, at most 100 per second.
    pub stateless_resets_sent: u64,
    /// Maximum number of simultaneous connections: [`Accept::connections_max`], or less if the memory for their
    /// reserves is less.
    pub connections_max: usize,
    /// Memory of the blocks of accepted connections, bytes, reserves included. At most [`Accept::memory_bytes_max`].
    pub memory_bytes: u64,
    /// Upper bound of the memory that peers can make this endpoint use, bytes: all memory for blocks, all half-open
    /// connections, spare blocks, and the fixed state of all connections.
    pub memory_bytes_max: u64,
    /// Upper bound of the additional memory for data written to accepted connections, bytes: all send buffers full, and
    /// nothing acknowledged. A server with many clients should write less at a time, or configure smaller buffers.
    pub send_memory_bytes_max: u64,
}

impl Endpoint {
    /// Returns the statistics of the endpoint.
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
