//! What a sender knows of its path: round-trip time, loss, and what left but has no known fate.

pub(crate) mod arrivals;
pub(crate) mod breaker;
pub(crate) mod in_flight;
pub(crate) mod loss;
pub(crate) mod numbers;
pub(crate) mod pacing;
pub(crate) mod rtt;
pub(crate) mod windowed;
