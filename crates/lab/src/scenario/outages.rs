//! Outages: intervals during which a bottleneck delivers no packets.

use serde::{Deserialize, Serialize};

use super::quantity::{DURATION_S_MAX, not_negative, ns, positive};
use super::{ChangeSpec, Scenario};
use crate::plan::Plan;

/// Maximum number of outages in a plan; random loss describes more frequent ones better.
const OUTAGES_MAX: usize = 10_000;

/// An interval during which a link delivers no packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutageSpec {
    /// Index of the link.
    pub link: usize,
    /// Start of the outage, ns from the start of the run.
    pub at_ns: u64,
    /// Length of the outage, ns.
    pub lasts_ns: u64,
}

/// Adds the plan's outages to `scenario`, ordered by link and time.
pub(super) fn add(scenario: &mut Scenario, plan: &Plan) -> Result<(), String> {
    if plan.outages.len() > OUTAGES_MAX {
        return Err(format!("there are more than {OUTAGES_MAX} [[outages]]; leave some out"));
    }
    for outage in plan.outages.iter().map(toml::Spanned::get_ref) {
        let links = scenario.links.len();
        let Some(link) = outage.bottleneck.checked_sub(1).filter(|&link| link < links) else {
            let place = outage.bottleneck;
            return Err(format!("[[outages]] names bottleneck {place}, but they are counted from 1 to {links}"));
        };
        let at_ns = ns(not_negative("at_s", outage.at_s, DURATION_S_MAX)?);
        let lasts_ns = ns(positive("lasts_s", outage.lasts_s, DURATION_S_MAX)?);
        scenario.outages.push(OutageSpec { link, at_ns, lasts_ns });
    }
    scenario.outages.sort_by_key(|outage| (outage.link, outage.at_ns));
    let overlap = |pair: &&[OutageSpec]| pair[0].link == pair[1].link && pair[1].at_ns <= pair[0].end_ns();
    if let Some(pair) = scenario.outages.windows(2).find(overlap) {
        let (first, second) = (pair[0].at_ns as f64 / 1e9, pair[1].at_ns as f64 / 1e9);
        return Err(format!("the outage at {first} s lasts until that at {second} s begins; join them to one"));
    }
    Ok(())
}

impl OutageSpec {
    fn end_ns(self) -> u64 {
        self.at_ns.saturating_add(self.lasts_ns)
    }

    /// Returns the changes at start and end of the outage, for each direction of the link.
    pub(super) fn changes(self, scenario: &Scenario) -> impl Iterator<Item = ChangeSpec> + use<> {
        let ways = if scenario.is_one_way(self.link) { &[false][..] } else { &[false, true] };
        let times = [(self.at_ns, true), (self.end_ns(), false)];
        times.into_iter().flat_map(move |(at_ns, is_out)| {
            let change = move |&is_back: &bool| ChangeSpec {
                at_ns,
                link: self.link,
                is_back,
                outage: Some(is_out),
                ..ChangeSpec::default()
            };
            ways.iter().map(change)
        })
    }
}
