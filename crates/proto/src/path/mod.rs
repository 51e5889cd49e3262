//! A sender's view of its path: round-trip time, loss, marks, and datagrams of unknown fate.

pub(crate) mod arrivals;
pub(crate) mod breaker;
pub(crate) mod credit;
pub(crate) mod ecn;
pub(crate) mod flight;
pub(crate) mod hint;
pub(crate) mod in_flight;
pub(crate) mod least_delay;
pub(crate) mod loss;
pub(crate) mod numbers;
pub(crate) mod pacing;
pub(crate) mod packet_size;
pub(crate) mod queue_delay;
pub(crate) mod rate_control;
pub(crate) mod receiver_flow_control;
pub(crate) mod rtt;
pub(crate) mod unjudged;
pub(crate) mod windowed;
