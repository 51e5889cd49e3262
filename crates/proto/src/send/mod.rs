//! The sending half of a connection: what the application wrote, until the peer has it.

pub(crate) mod adaptive;
pub(crate) mod aims;
pub(crate) mod block;
pub(crate) mod classic;
pub(crate) mod counters;
pub(crate) mod credit;
pub(crate) mod due;
pub(crate) mod open_loop;
pub(crate) mod peer_queue;
pub(crate) mod plan;
pub(crate) mod proofs;
pub(crate) mod repairs;
pub(crate) mod source;
pub(crate) mod symbol;
