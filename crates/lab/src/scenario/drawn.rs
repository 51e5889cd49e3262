//! Drawing of a scenario's random parts from the seed, before the run.

use super::{ChangeSpec, Scenario, WalkSpec};
use crate::draw::Draw;

impl Scenario {
    /// Returns the scenario with all random parts drawn from `seed`: start times, round-trip times, web pages and
    /// random walks. Recorded rates and outages become changes, too. Drawing a drawn scenario changes nothing.
    #[must_use]
    pub fn drawn(&self, seed: u64) -> Self {
        let mut drawn = Self {
            walks: Vec::new(),
            rates: Vec::new(),
            outages: Vec::new(),
            spread: super::Spread::default(),
            ..self.clone()
        };
        // The constant separates this sequence from the links' random numbers, which the simulation draws from the same
        // seed.
        let mut random = Draw(seed ^ 0x5851_F42D_4C95_7F2D);
        for flow in &mut drawn.flows {
            let later = self.spread.start_rtts * random.unit();
            let longer = self.spread.rtt * random.even((-1.0, 1.0));
            let later_ns = (later * flow.rtt_ns as f64).round() as u64;
            flow.start_ns += later_ns;
            flow.stop_ns = flow.stop_ns.map(|stop_ns| stop_ns + later_ns);
            flow.rtt_ns = (flow.rtt_ns as f64 * (1.0 + longer)).round() as u64;
        }
        for (flow, place) in drawn.flows.iter_mut().zip(1..) {
            let (start_ns, end_ns) = (flow.start_ns, flow.stop_ns.unwrap_or(self.duration_ns));
            if let Some(web) = &mut flow.web {
                // Pages have a sequence of their own, independent of other draws.
                let mut random = Draw(seed ^ 0x3C79_AC49_2BA7_B653_u64.wrapping_mul(place));
                web.draw(&mut random, (start_ns, end_ns.min(self.duration_ns)));
            }
        }
        for walk in &self.walks {
            drawn.changes.extend(self.steps(walk, &mut random));
        }
        drawn.changes.extend(self.rates.iter().flat_map(|rates| rates.changes(self.duration_ns)));
        drawn.changes.extend(self.outages.iter().flat_map(|outage| outage.changes(self)));
        drawn.changes.sort_by_key(|change| change.at_ns);
        drawn
    }

    /// Returns the rate changes of a random walk, which starts at its upper bound and is reflected at both bounds.
    fn steps(&self, walk: &WalkSpec, random: &mut Draw) -> Vec<ChangeSpec> {
        let (low, high) = walk.within;
        let rate_bps = self.links.get(walk.link).map_or(0, |link| link.rate_bps) as f64;
        let mut share = high;
        let count = self.duration_ns / walk.every_ns.max(1);
        let step = |number: u64| {
            share += walk.step * random.even((-1.0, 1.0));
            if share > high {
                share = 2.0 * high - share;
            }
            if share < low {
                share = 2.0 * low - share;
            }
            share = share.clamp(low, high);
            ChangeSpec {
                at_ns: number * walk.every_ns,
                link: walk.link,
                rate_bps: Some((rate_bps * share).round().max(1.0) as u64),
                ..ChangeSpec::default()
            }
        };
        (1..=count).map(step).collect()
    }
}
