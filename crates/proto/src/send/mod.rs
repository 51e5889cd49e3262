//! The sending half of a modern connection: what the application wrote, until the peer has it.

pub(crate) mod adaptive;
pub(crate) mod aims;
pub(crate) mod block;
pub(crate) mod counters;
pub(crate) mod credit;
pub(crate) mod due;
pub(crate) mod peer_queue;
pub(crate) mod plan;
pub(crate) mod proofs;
pub(crate) mod repairs;
pub(crate) mod symbol;
