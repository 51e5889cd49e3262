//! Changes of bottlenecks during a run, and the resulting state: the same on every platform.

use std::time::Duration;

use dfcp_netem::{LinkChange, Loss};
use serde::{Deserialize, Serialize};

use super::layout::loss;
use super::{LinkSpec, Scenario, is_default};

/// A change of a bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeSpec {
    /// Time of the change, ns.
    pub at_ns: u64,
    /// Index of the link.
    pub link: usize,
    /// True for a change of the reverse direction.
    #[serde(skip_serializing_if = "is_default", default)]
    pub is_back: bool,
    /// New rate, bit/s.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bps: Option<u64>,
    /// New one-way delay, ns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_ns: Option<u64>,
    /// True if the link's own losses start.
    pub own_loss: bool,
    /// New probability of independent loss.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<f64>,
    /// True if an outage starts, false if it ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outage: Option<bool>,
}

impl ChangeSpec {
    /// Effect on the link of `scenario`.
    ///
    /// # Errors
    /// Fails with one sentence about an invalid loss.
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

/// State of a bottleneck at some time of a run, in the direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Its present rate, bit/s.
    pub rate_bps: u64,
    is_out: bool,
}

impl LinkState {
    /// Initial states of the links of `scenario`.
    #[must_use]
    pub fn all(scenario: &Scenario) -> Vec<Self> {
        scenario.links.iter().map(|link| Self { rate_bps: link.rate_bps, is_out: false }).collect()
    }

    /// Applies `change`, which is for this link.
    pub fn change(&mut self, change: &ChangeSpec) {
        if !change.is_back {
            self.rate_bps = change.rate_bps.unwrap_or(self.rate_bps);
            self.is_out = change.outage.unwrap_or(self.is_out);
        }
    }

    /// Present capacity, bit/s.
    #[must_use]
    pub fn capacity_bps(&self, link: &LinkSpec) -> u64 {
        if self.is_out { 0 } else { link.policed_bps(self.rate_bps) }
    }
}
