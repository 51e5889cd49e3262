//! Changes of a link while packets cross it.

use std::time::Duration;

use crate::loss::Loss;

/// A change of a link; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// bit/s.
    pub rate_bps: Option<u64>,
    /// One way, for packets which leave the transmitter from now on. They do not overtake those already travelling.
    pub delay: Option<Duration>,
    /// Loss model of packets that leave the transmitter from now on.
    pub loss: Option<Loss>,
    /// An outage begins (`true`) or ends: what leaves the transmitter meanwhile is gone.
    pub outage: Option<bool>,
}
