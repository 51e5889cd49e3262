//! Networks: nodes, the links between them, and routes.

use std::time::Duration;

use dfcp_netem::{ConfigError, LinkConfig};

use crate::observer::Observer;
use crate::packet::LinkId;
use crate::simulation::Simulation;

/// Host or router of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node(usize);

impl Node {
    /// Returns the index among the nodes of the graph, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// One direction of a link in a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge(usize);

impl Edge {
    /// Returns the index among the edges of the graph, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

#[derive(Clone, Debug)]
struct Connected {
    from: Node,
    to: Node,
    link: LinkConfig,
}

/// Nodes, and links between them.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: usize,
    edges: Vec<Connected>,
}

/// [`Graph`] whose links have been added to a simulation.
#[derive(Clone, Debug)]
pub struct Network {
    graph: Graph,
    links: Vec<LinkId>,
}

impl Graph {
    /// Adds a node.
    pub fn add_node(&mut self) -> Node {
        self.nodes += 1;
        Node(self.nodes - 1)
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns all edges in the order of addition: source, destination, and link.
    pub fn edges(&self) -> impl Iterator<Item = (Node, Node, &LinkConfig)> {
        self.edges.iter().map(|edge| (edge.from, edge.to, &edge.link))
    }

    /// Adds a link in one direction.
    pub fn add_edge(&mut self, from: Node, to: Node, link: LinkConfig) -> Edge {
        self.edges.push(Connected { from, to, link });
        Edge(self.edges.len() - 1)
    }

    /// Adds a link in both directions: `there` from `a` to `b`, and `back` from `b` to `a`.
    pub fn connect(&mut self, a: Node, b: Node, there: LinkConfig, back: LinkConfig) -> (Edge, Edge) {
        (self.add_edge(a, b, there), self.add_edge(b, a, back))
    }

    /// Returns the route from `from` to `to` with the smallest total delay. Among equal delays, the route with the
    /// fewest edges is chosen, then the edges added first. `None` if there is no route, or if `from` and `to` are the
    /// same node.
    #[must_use]
    pub fn route(&self, from: Node, to: Node) -> Option<Vec<Edge>> {
        // Bellman-Ford suffices: graphs are small, and every route is computed only once.
        let mut best: Vec<Option<(Duration, usize, Edge)>> = vec![None; self.nodes];
        let cost = |best: &[Option<(Duration, usize, Edge)>], node: Node| {
            if node == from { Some((Duration::ZERO, 0)) } else { best[node.0].map(|(delay, hops, _)| (delay, hops)) }
        };
        loop {
            let mut is_better = false;
            for (index, edge) in self.edges.iter().enumerate() {
                let Some((delay, hops)) = cost(&best, edge.from) else { continue };
                let reached = (delay + edge.link.delay, hops + 1);
                if edge.to != from && cost(&best, edge.to).is_none_or(|old| reached < old) {
                    best[edge.to.0] = Some((reached.0, reached.1, Edge(index)));
                    is_better = true;
                }
            }
            if !is_better {
                break;
            }
        }
        let mut route = Vec::new();
        let mut at = to;
        while at != from {
            let (_, _, edge) = best[at.0]?;
            route.push(edge);
            at = self.edges[edge.0].from;
        }
        route.reverse();
        (!route.is_empty()).then_some(route)
    }

    /// Adds the links of the graph to a simulation.
    ///
    /// # Errors
    /// Fails if a link's configuration is invalid.
    pub fn build<O: Observer>(self, simulation: &mut Simulation<O>) -> Result<Network, ConfigError> {
        let links = self.edges.iter().map(|edge| simulation.add_link(edge.link.clone())).collect::<Result<_, _>>()?;
        Ok(Network { graph: self, links })
    }
}

impl Network {
    /// Returns the link of an edge.
    #[must_use]
    pub fn link(&self, edge: Edge) -> LinkId {
        self.links[edge.0]
    }

    /// Returns the links on the route from `from` to `to`. `None` if there is no route, or if both are the same node.
    #[must_use]
    pub fn route(&self, from: Node, to: Node) -> Option<Vec<LinkId>> {
        let route = self.graph.route(from, to)?;
        Some(route.into_iter().map(|edge| self.link(edge)).collect())
    }
}

/// Configuration of a pair of hosts: a sender and a receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Rate of both access links, bit/s; `None` for infinite.
    pub access_bps: Option<u64>,
    /// RTT of the access links alone. Each of their four directions has a quarter of it as delay.
    pub rtt: Duration,
    /// Maximum random delay on the sender's access link, uniform and order-preserving. A value as large as a packet's
    /// transmission time at the bottleneck prevents phase effects (Floyd and Jacobson, "On traffic phase effects in
    /// packet-switched gateways", 1992, §4).
    pub jitter: Duration,
    /// Interval at which the receiver's access link delivers packets in batches; zero for no batching.
    pub batch: Duration,
}

/// Row of routers connected by bottlenecks, with pairs of hosts attached. One bottleneck makes a dumbbell, several make
/// a parking lot.
#[derive(Clone, Debug)]
pub struct Row {
    /// Graph of the network.
    pub graph: Graph,
    /// Bottlenecks from left to right, each with the edge back.
    pub bottlenecks: Vec<(Edge, Edge)>,
    /// Sender and receiver of each pair, in the order of addition.
    pub hosts: Vec<(Node, Node)>,
    routers: Vec<Node>,
}

impl Row {
    /// Creates a row of routers with these links between them: to the right, and back.
    #[must_use]
    pub fn new(links: impl IntoIterator<Item = (LinkConfig, LinkConfig)>) -> Self {
        let mut graph = Graph::default();
        let mut routers = vec![graph.add_node()];
        let mut bottlenecks = Vec::new();
        for (there, back) in links {
            let next = graph.add_node();
            bottlenecks.push(graph.connect(routers[routers.len() - 1], next, there, back));
            routers.push(next);
        }
        Self { graph, bottlenecks, hosts: Vec::new(), routers }
    }

    /// Adds a pair of hosts that sends over the bottlenecks `first ..= last`. Returns false, without any effect, if
    /// they do not exist.
    #[must_use]
    pub fn add_pair(&mut self, pair: Pair, first: usize, last: usize) -> bool {
        if first > last || last >= self.bottlenecks.len() {
            return false;
        }
        let access = LinkConfig { rate_bps: pair.access_bps, delay: pair.rtt / 4, ..LinkConfig::default() };
        let (sender, receiver) = (self.graph.add_node(), self.graph.add_node());
        let up = access.clone().with_jitter(pair.jitter);
        self.graph.connect(sender, self.routers[first], up, access.clone());
        self.graph.connect(self.routers[last + 1], receiver, access.clone().with_batch(pair.batch), access);
        self.hosts.push((sender, receiver));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> LinkConfig {
        LinkConfig::default().with_delay(Duration::from_millis(ms))
    }

    #[test]
    fn routes_are_the_shortest() {
        let mut graph = Graph::default();
        let [a, b, c, alone] = [(); 4].map(|()| graph.add_node());
        let (ab, ba) = graph.connect(a, b, ms(5), ms(5));
        let (bc, cb) = graph.connect(b, c, ms(5), ms(5));
        let direct = graph.add_edge(a, c, ms(11));
        assert_eq!(graph.route(a, c), Some(vec![ab, bc]));
        assert_eq!(graph.route(c, a), Some(vec![cb, ba]));
        let equal = graph.add_edge(a, c, ms(10));
        assert_eq!(graph.route(a, c), Some(vec![equal]));
        assert_ne!(equal, direct);
        assert_eq!(graph.route(a, alone), None);
        assert_eq!(graph.route(a, a), None);
    }

    #[test]
    fn a_parking_lot_shares_the_bottlenecks_which_it_says() {
        let mut row = Row::new([(ms(0), ms(0)), (ms(0), ms(0)), (ms(0), ms(0))]);
        let pair =
            Pair { access_bps: None, rtt: Duration::from_millis(8), jitter: Duration::ZERO, batch: Duration::ZERO };
        assert!(row.add_pair(pair, 0, 2) && row.add_pair(pair, 1, 1));
        assert!(!row.add_pair(pair, 1, 3) && !row.add_pair(pair, 2, 1));
        let over = |pair: usize| {
            let (sender, receiver) = row.hosts[pair];
            let there = row.graph.route(sender, receiver).unwrap();
            let back = row.graph.route(receiver, sender).unwrap();
            let shared = |edges: &[Edge], way: fn(&(Edge, Edge)) -> Edge| {
                row.bottlenecks.iter().map(|both| edges.contains(&way(both))).collect::<Vec<_>>()
            };
            assert_eq!(shared(&there, |both| both.0), shared(&back, |both| both.1));
            (shared(&there, |both| both.0), there.len())
        };
        assert_eq!(over(0), (vec![true, true, true], 5));
        assert_eq!(over(1), (vec![false, true, false], 3));
    }
}
