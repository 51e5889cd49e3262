//! Queue disciplines which plans can name.

use serde::{Deserialize, Serialize};

/// Queue disciplines by name, with their default parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First in, first out.
    #[default]
    DropTail,
    /// Deficit round robin.
    Drr,
    /// Stochastic fair queueing.
    Sfq,
    /// Weighted fair queueing.
    Wfq,
    /// CoDel with one queue for all flows; marks packets that ask for it.
    Codel,
    /// FQ-CoDel; marks, too.
    FqCodel,
    /// Random early detection; marks, too.
    Red,
}

impl Discipline {
    /// True if packets leave it by CoDel, which may have a threshold for marks.
    #[must_use]
    pub fn has_codel(self) -> bool {
        matches!(self, Self::Codel | Self::FqCodel)
    }
}
