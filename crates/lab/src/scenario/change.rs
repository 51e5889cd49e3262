//! Changes of bottlenecks during a run, and the resulting link state, for every platform.

use std::time::Duration;

use dfcp_netem::{LinkChange, Loss};
use serde::{Deserialize, Serialize};

use super::layout::loss;
use super::{LinkSpec, Scenario, is_default};

/// A scheduled change of a bottleneck's properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeSpec {
    /// Time of the change, ns from the start of the run.
    pub at_ns: u64,
    /// Index of the link.
    pub link: usize,
    /// True if the change applies to the reverse direction.
    #[serde(skip_serializing_if = "is_default", default)]
    pub is_back: bool,
    /// New rate, bit/s; `None` leaves it unchanged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bps: Option<u64>,
    /// New one-way delay, ns; `None` leaves it unchanged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_ns: Option<u64>,
    /// True if the link's configured loss model starts at this time.
    pub own_loss: bool,
    /// New probability of independent loss; `None` leaves it unchanged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<f64>,
    /// Start (true) or end (false) of an outage; `None` for neither.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outage: Option<bool>,
}

impl ChangeSpec {
    /// Converts the change for the link of `scenario` that it applies to.
    ///
    /// # Errors
    /// Fails with a sentence about an invalid loss probability.
    pub fn link_change(&self, scenario: &Scenario) -> Result<LinkChange, String> {
        let loss = match self.loss {
            Some(p) => Some(Loss::bernoulli(p)),
            None if self.own_loss => Some(loss(&scenario.links[self.link])?),
            None => None,
        };
        let delay = self.delay_ns.map(Duration::from_nanos);
        Ok(LinkChange { rate_bps: self.rate_bps, delay, loss, outage: self.outage })
    }
}

/// State of a bottleneck in the forward direction at some time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Present rate, bit/s.
    pub rate_bps: u64,
    is_out: bool,
}

impl LinkState {
    /// Returns the initial state of each link of `scenario`.
    #[must_use]
    pub fn all(scenario: &Scenario) -> Vec<Self> {
        scenario.links.iter().map(|link| Self { rate_bps: link.rate_bps, is_out: false }).collect()
    }

    /// Applies `change` to this link; changes of the reverse direction are ignored.
    pub fn change(&mut self, change: &ChangeSpec) {
        if !change.is_back {
            self.rate_bps = change.rate_bps.unwrap_or(self.rate_bps);
            self.is_out = change.outage.unwrap_or(self.is_out);
        }
    }

    /// Returns the present capacity of `link`, bit/s; 0 during an outage.
    #[must_use]
    pub fn capacity_bps(&self, link: &LinkSpec) -> u64 {
        if self.is_out { 0 } else { link.policed_bps(self.rate_bps) }
    }
}
