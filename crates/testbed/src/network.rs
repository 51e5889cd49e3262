//! Emulated network of a scenario, with sending and receiving hosts.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use dfcp_emu::{DirectionConfig, PairConfig, PairNetwork, Side, pair_address};
use dfcp_flows::Hosts;
use dfcp_lab::scenario::{ChangeSpec, Layout, Scenario};
use dfcp_netem::LinkChange;
use dfcp_sim::{Edge, Node};

use crate::limits::COALESCE;

/// Emulated network with the hosts of a layout. The near end has the senders of forward flows, and the far end their
/// receivers.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) pairs: PairNetwork,
    /// Index of each scenario link's reverse direction in the list of backward links; `None` if no flow crosses it.
    back_links: Vec<Option<usize>>,
    hosts: BTreeMap<usize, (Side, u16)>,
}

/// Links and routes of a layout, for both directions.
#[derive(Clone, Debug, Default, PartialEq)]
struct Ways {
    forward: Numbered,
    backward: Numbered,
    back_links: Vec<Option<usize>>,
    hosts: BTreeMap<usize, (Side, u16)>,
}

/// Links and routes of one direction. `links` maps edges of the layout to indices in `config.links`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Numbered {
    config: DirectionConfig,
    links: BTreeMap<usize, usize>,
}

impl Numbered {
    /// Returns the index of the link for `edge`, and adds the link if necessary.
    fn link(&mut self, layout: &Layout, edge: Edge) -> Result<usize, String> {
        if let Some(&link) = self.links.get(&edge.index()) {
            return Ok(link);
        }
        let config = layout.graph.edges().nth(edge.index()).map(|(_, _, config)| config.clone());
        self.config.links.push(config.ok_or("a route has a link that is not there; report this")?);
        self.links.insert(edge.index(), self.config.links.len() - 1);
        Ok(self.config.links.len() - 1)
    }

    fn add_route(&mut self, layout: &Layout, edges: &[Edge]) -> Result<(), String> {
        let route = edges.iter().map(|&edge| self.link(layout, edge)).collect::<Result<_, _>>()?;
        self.config.routes.push(route);
        Ok(())
    }
}

impl Ways {
    /// Computes the routes of all flows over bottlenecks in a row. A flow in the reverse direction has its sender at
    /// the far end.
    fn of(layout: &Layout, scenario: &Scenario) -> Result<Self, String> {
        let mut ways = Self::default();
        // The scenario's links are added first, so that they keep their indices.
        for &(there, _) in &layout.links {
            ways.forward.link(layout, there)?;
        }
        for (place, (spec, &(sender, receiver))) in scenario.flows.iter().zip(&layout.hosts).enumerate() {
            let pair = u16::try_from(place).map_err(|_| "there are too many flows".to_owned())?;
            let [there, back] = layout.routes(place)?;
            let (near, far, to_far, to_near) =
                if spec.is_back { (receiver, sender, back, there) } else { (sender, receiver, there, back) };
            ways.forward.add_route(layout, &to_far)?;
            ways.backward.add_route(layout, &to_near)?;
            ways.hosts.insert(near.index(), (Side::Near, pair));
            ways.hosts.insert(far.index(), (Side::Far, pair));
        }
        // A reverse link that no route crosses has no index.
        let place = |(_, back): &(Edge, Edge)| ways.backward.links.get(&back.index()).copied();
        ways.back_links = layout.links.iter().map(place).collect();
        Ok(ways)
    }
}

impl Network {
    /// Creates the network; see [`PairNetwork::start`].
    ///
    /// # Errors
    /// Fails with a sentence if the network cannot be created.
    pub(crate) fn start(layout: &Layout, scenario: &Scenario, seed: u64) -> Result<Self, String> {
        let Ways { forward, backward, back_links, hosts } = Ways::of(layout, scenario)?;
        let config = PairConfig {
            forward: forward.config,
            backward: backward.config,
            watched: (0..layout.links.len()).collect(),
            patience: COALESCE,
            seed,
        };
        Ok(Self { pairs: PairNetwork::start(config).map_err(|error| error.to_string())?, back_links, hosts })
    }

    /// Applies a change to a scenario link immediately.
    ///
    /// # Errors
    /// Fails if the emulator does not respond.
    pub(crate) fn change(&self, spec: &ChangeSpec, change: LinkChange) -> Result<(), String> {
        let (from, link) = if spec.is_back {
            (Side::Far, self.back_links.get(spec.link).copied().flatten())
        } else {
            (Side::Near, Some(spec.link))
        };
        let change = link.map(|link| self.pairs.change(from, link, change));
        change.transpose().map(drop).map_err(|error| error.to_string())
    }

    fn place(&self, host: Node) -> (Side, u16) {
        // All hosts of flows are in the table, so the default is never used.
        self.hosts.get(&host.index()).copied().unwrap_or((Side::Near, u16::MAX))
    }
}

impl Hosts for Network {
    fn enter<T>(&self, host: Node, f: impl FnOnce() -> T) -> Result<T, String> {
        self.pairs.enter(self.place(host).0, f).map_err(|error| error.to_string())
    }

    fn address(&self, host: Node) -> Ipv4Addr {
        let (side, pair) = self.place(host);
        pair_address(side, pair)
    }
}

#[cfg(test)]
mod tests {
    use dfcp_lab::reading::parse;
    use dfcp_lab::{Choice, expand};

    use super::*;

    fn ways(topology: &str) -> Ways {
        let text = format!(
            "id = \"t\"\ntitle = \"\"\nsource = \"ours\"\nquestion = \"\"\n[run]\n[topology]\n{topology}\n[[series]]\nlabel = \"A\"\n\
             transport = \"cubic\"\n[metrics]\nplot = [\"jain\"]\n"
        );
        let runs = expand(&parse("t.toml", &text).unwrap(), Choice::default()).unwrap();
        let scenario = &runs[0].scenario;
        Ways::of(&Layout::of(scenario).unwrap(), scenario).unwrap()
    }

    #[test]
    fn flows_share_the_bottleneck_and_have_access_links_of_their_own() {
        let ways = ways("rate_mbps = 10\nrtt_ms = 20\n[[flows]]\n[[flows]]\nrtt_ms = 40\n[[flows]]\nis_back = true");
        let forward = &ways.forward.config;
        assert_eq!(forward.links[0].rate_bps, Some(10_000_000));
        let ends: Vec<_> = forward.routes.iter().map(|route| (route.len(), route[1])).collect();
        assert_eq!(ends, [(3, 0); 3], "{:?}", forward.routes);
        let delay_ms = |config: &DirectionConfig, pair: usize| {
            config.routes[pair].iter().map(|&link| config.links[link].delay.as_secs_f64() * 1e3).sum::<f64>()
        };
        assert_eq!([0, 1, 2].map(|pair| delay_ms(forward, pair)), [10.0, 20.0, 10.0]);
        assert_eq!([0, 1, 2].map(|pair| delay_ms(&ways.backward.config, pair)), [10.0, 20.0, 10.0]);
        let sides: Vec<_> = ways.hosts.values().map(|(side, _)| *side).collect();
        assert_eq!(sides.iter().filter(|side| **side == Side::Near).count(), 3);
    }

    #[test]
    fn each_way_has_its_own_rate() {
        let ways = ways("rate_mbps = 2\nup_mbps = 10\n[[flows]]\n[[flows]]\nis_back = true");
        let back = ways.back_links[0].unwrap();
        assert_eq!(ways.forward.config.links[0].rate_bps, Some(10_000_000));
        assert_eq!(ways.backward.config.links[back].rate_bps, Some(2_000_000));
        assert!(ways.backward.config.routes.iter().all(|route| route.contains(&back)));
    }

    #[test]
    fn a_parking_lot_is_a_row_of_links() {
        let ways = ways(
            "kind = \"parking-lot\"\n[[topology.bottlenecks]]\nrate_mbps = 10\n[[topology.bottlenecks]]\nrate_mbps = 5\n\
             [[flows]]\nover = [1, 2]\n[[flows]]\nover = [1, 1]\n[[flows]]\nover = [2, 2]",
        );
        let inner: Vec<_> = ways.forward.config.routes.iter().map(|route| route[1..route.len() - 1].to_vec()).collect();
        assert_eq!(inner, [vec![0, 1], vec![0], vec![1]]);
    }
}
