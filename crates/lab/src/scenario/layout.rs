//! Network graph of a scenario, for every platform.

use std::time::Duration;

use dfcp_netem::{self as netem, LinkConfig, Loss, QueueLimit};
use dfcp_sim::{Edge, Graph, Node, Pair, Row};

use super::{FlowSpec, LinkSpec, Scenario};
use crate::plan::Discipline;

/// Error for a flow without a path.
pub(super) const NO_ROUTE: &str = "a flow's nodes are not connected; add a link between them";

/// Graph of a scenario's hosts, routers and links. A link is a pair of edges, one per direction.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Graph of nodes and edges.
    pub graph: Graph,
    /// Edges (forward, reverse) of each link of the scenario. Two opposite one-way links of a graph share one pair of
    /// edges.
    pub links: Vec<(Edge, Edge)>,
    /// Hosts (sender, receiver) of each flow.
    pub hosts: Vec<(Node, Node)>,
}

impl Layout {
    /// Builds the layout of `scenario`. Losses that begin with a later change are left out.
    ///
    /// # Errors
    /// Fails with a sentence about the invalid setting.
    pub fn of(scenario: &Scenario) -> Result<Self, String> {
        let is_late = |link| scenario.changes.iter().any(|change| change.link == link && change.own_loss);
        let links = scenario.links.iter().enumerate();
        let configs = links.map(|(at, link)| both_ways(link, is_late(at))).collect::<Result<Vec<_>, _>>()?;
        if scenario.nodes.is_empty() { row(scenario, configs) } else { Ok(named(scenario, configs)) }
    }

    /// Returns the edges that a flow's packets cross, forward and reverse.
    ///
    /// # Errors
    /// Fails if the hosts are not connected, or there is no such flow.
    pub fn routes(&self, flow: usize) -> Result<[Vec<Edge>; 2], String> {
        let &(sender, receiver) = self.hosts.get(flow).ok_or_else(|| format!("there is no flow {}", flow + 1))?;
        let route = |from, to| self.graph.route(from, to).ok_or(NO_ROUTE);
        Ok([route(sender, receiver)?, route(receiver, sender)?])
    }
}

/// Lays out bottlenecks in a row.
fn row(scenario: &Scenario, configs: Vec<(LinkConfig, LinkConfig)>) -> Result<Layout, String> {
    let mut row = Row::new(configs);
    for flow in &scenario.flows {
        let jitter = Duration::from_nanos(flow.jitter_ns);
        let batch = receive_batch(flow);
        let pair = Pair { access_bps: access(flow), rtt: Duration::from_nanos(flow.rtt_ns), jitter, batch };
        if !row.add_pair(pair, flow.over.0, flow.over.1) {
            return Err(format!("there are no bottlenecks {} to {}", flow.over.0 + 1, flow.over.1 + 1));
        }
    }
    let turned =
        |((left, right), flow): ((Node, Node), &FlowSpec)| if flow.is_back { (right, left) } else { (left, right) };
    let hosts = row.hosts.into_iter().zip(&scenario.flows).map(turned).collect();
    Ok(Layout { graph: row.graph, links: row.bottlenecks, hosts })
}

/// Lays out a graph of named nodes.
fn named(scenario: &Scenario, configs: Vec<(LinkConfig, LinkConfig)>) -> Layout {
    let mut graph = Graph::default();
    let nodes: Vec<Node> = scenario.nodes.iter().map(|_| graph.add_node()).collect();
    let mut links: Vec<(Edge, Edge)> = Vec::new();
    for (place, (link, (there, back))) in scenario.links.iter().zip(&configs).enumerate() {
        let opposite = scenario.opposite(place);
        let edges = match opposite.and_then(|other| links.get(other)) {
            Some(&(first, second)) => (second, first),
            None => {
                let (a, b) = link.between.unwrap_or_default();
                let back = opposite.map_or(back, |other| &configs[other].0);
                graph.connect(nodes[a], nodes[b], there.clone(), back.clone())
            }
        };
        links.push(edges);
    }
    let hosts = scenario.flows.iter().map(|flow| attach(&mut graph, &nodes, flow)).collect();
    Layout { graph, links, hosts }
}

fn receive_batch(flow: &FlowSpec) -> Duration {
    Duration::from_nanos((flow.ends.receive_batch_ms.unwrap_or(0.0) * 1e6).round() as u64)
}

fn access(flow: &FlowSpec) -> Option<u64> {
    (flow.access_bps > 0).then_some(flow.access_bps)
}

/// Adds the hosts of a flow at its nodes of a graph, and returns (sender, receiver).
fn attach(graph: &mut Graph, nodes: &[Node], flow: &FlowSpec) -> (Node, Node) {
    let link =
        LinkConfig { rate_bps: access(flow), delay: Duration::from_nanos(flow.rtt_ns / 4), ..LinkConfig::default() };
    let (sender, receiver) = (graph.add_node(), graph.add_node());
    let first = link.clone().with_jitter(Duration::from_nanos(flow.jitter_ns));
    graph.connect(sender, nodes[flow.over.0], first, link.clone());
    graph.connect(nodes[flow.over.1], receiver, link.clone().with_batch(receive_batch(flow)), link);
    (sender, receiver)
}

/// Returns the configurations of a link, forward and reverse. With `loss_is_late`, a later change adds the loss.
fn both_ways(link: &LinkSpec, loss_is_late: bool) -> Result<(LinkConfig, LinkConfig), String> {
    let way = |rate_bps, queue_packets| {
        LinkConfig::default()
            .with_rate_bps(rate_bps)
            .with_delay(Duration::from_nanos(link.delay_ns))
            .with_queue(QueueLimit::packets(queue_packets))
            .with_discipline(discipline(link))
    };
    let loss = if loss_is_late { Loss::None } else { loss(link)? };
    let there = way(link.rate_bps, link.queue_packets).with_loss(loss);
    let back = way(link.back_bps.unwrap_or(link.rate_bps), link.back_queue_packets.unwrap_or(link.queue_packets));
    let back = back.with_loss(link.impairments.back_loss.map_or(Loss::None, Loss::bernoulli));
    let [on_there, on_back] = link.impairments.ways.unwrap_or_default().each();
    let there = if on_there { impaired(there, link)? } else { there };
    let back = if on_back { impaired(back, link)? } else { back };
    there.validate().and_then(|()| back.validate()).map_err(|error| error.to_string())?;
    Ok((there, back))
}

/// Default additional delay of reordered packets, ms.
const REORDER_MS_DEFAULT: f64 = 5.0;

/// Adds the link's impairments to the configuration of one direction.
fn impaired(way: LinkConfig, link: &LinkSpec) -> Result<LinkConfig, String> {
    let own = link.impairments;
    let ms = |ms: Option<f64>| Duration::from_nanos((ms.unwrap_or(0.0) * 1e6).round() as u64);
    let way = way
        .with_jitter(ms(own.jitter_ms))
        .with_batch(ms(own.batch_ms))
        .with_reorder(own.reorder.unwrap_or(0.0), ms(own.reorder_ms.or(Some(REORDER_MS_DEFAULT))));
    let Some(packets) = own.policer_packets else { return Ok(way) };
    let policer_bps = own.policer_mbps.map(|mbps| (mbps * 1e6).round() as u64);
    way.policed(policer_bps, packets).map_err(|error| error.to_string())
}

/// Returns the loss model of a link.
///
/// # Errors
/// Fails with a sentence about the invalid setting.
pub(super) fn loss(link: &LinkSpec) -> Result<Loss, String> {
    if link.loss == 0.0 {
        Ok(Loss::None)
    } else if link.loss_burst_packets > 0.0 {
        Loss::bursts(link.loss, link.loss_burst_packets).map_err(|error| error.to_string())
    } else {
        Ok(Loss::bernoulli(link.loss))
    }
}

/// Returns the queue discipline of a link. Disciplines that support ECN mark ECN-capable packets, and drop other
/// packets.
fn discipline(link: &LinkSpec) -> netem::Discipline {
    let codel = |queues: netem::FqCodel| {
        let ce_threshold = link.ce_threshold_ns.map(Duration::from_nanos);
        netem::Discipline::FqCodel(netem::FqCodel { ecn: true, ce_threshold, ..queues })
    };
    match link.discipline {
        Discipline::DropTail => netem::Discipline::DropTail,
        Discipline::Drr => netem::Discipline::Drr(netem::Drr::default()),
        Discipline::Sfq => netem::Discipline::Sfq(netem::Sfq::default()),
        Discipline::Wfq => netem::Discipline::Wfq(netem::Wfq::default()),
        Discipline::Codel => codel(netem::FqCodel::single_queue()),
        Discipline::FqCodel => codel(netem::FqCodel::default()),
        Discipline::Red => netem::Discipline::Red(netem::Red { ecn: true, ..netem::Red::default() }),
    }
}
