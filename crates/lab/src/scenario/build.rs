//! From a scenario to a simulation.

use std::time::Duration;

use dfcp_netem::{self as netem, LinkConfig, Loss, QueueLimit};
use dfcp_sim::{FlowConfig, FlowId, Graph, LinkId, Network, Node, Observer, Pair, Row, Simulation};
use dfcp_time::Time;

use super::{FlowSpec, LinkSpec, Scenario};
use crate::plan::Discipline;

/// What was built: a simulation's flows in their order, and its links in data's direction.
#[derive(Clone, Debug)]
pub struct Built {
    /// One for each of the scenario's.
    pub flows: Vec<FlowId>,
    /// One for each of the scenario's.
    pub links: Vec<LinkId>,
}

/// Builds `scenario` in an empty simulation. Losses which a change brings later are not there yet.
///
/// # Errors
/// One sentence about what makes no sense.
pub fn build<O: Observer>(scenario: &Scenario, simulation: &mut Simulation<O>) -> Result<Built, String> {
    let is_late = |link| scenario.changes.iter().any(|change| change.link == link && change.own_loss);
    let links = scenario.links.iter().enumerate();
    let configs = links.map(|(at, link)| both_ways(link, is_late(at))).collect::<Result<Vec<_>, _>>()?;
    let (network, edges, hosts) = if scenario.nodes.is_empty() {
        let mut row = Row::new(configs);
        for flow in &scenario.flows {
            let jitter = Duration::from_nanos(flow.jitter_ns);
            let pair = Pair { access_bps: access(flow), rtt: Duration::from_nanos(flow.rtt_ns), jitter };
            if !row.add_pair(pair, flow.over.0, flow.over.1) {
                return Err(format!("there are no bottlenecks {} to {}", flow.over.0 + 1, flow.over.1 + 1));
            }
        }
        let (edges, hosts) = (row.bottlenecks, row.hosts);
        (row.graph.build(simulation), edges, hosts)
    } else {
        let mut graph = Graph::default();
        let nodes: Vec<Node> = scenario.nodes.iter().map(|_| graph.add_node()).collect();
        let between = scenario.links.iter().map(|link| link.between.unwrap_or_default());
        let edges = between.zip(configs).map(|((a, b), (there, back))| graph.connect(nodes[a], nodes[b], there, back));
        let edges = edges.collect();
        let hosts = scenario.flows.iter().map(|flow| attach(&mut graph, &nodes, flow)).collect();
        (graph.build(simulation), edges, hosts)
    };
    let network = network.map_err(|error| error.to_string())?;
    let flows = hosts.into_iter().zip(&scenario.flows).map(|(hosts, flow)| add_flow(simulation, &network, hosts, flow));
    let flows = flows.collect::<Result<_, _>>()?;
    Ok(Built { flows, links: edges.into_iter().map(|(there, _)| network.link(there)).collect() })
}

fn access(flow: &FlowSpec) -> Option<u64> {
    (flow.access_bps > 0).then_some(flow.access_bps)
}

/// Hosts of a flow at the nodes of a graph.
fn attach(graph: &mut Graph, nodes: &[Node], flow: &FlowSpec) -> (Node, Node) {
    let link =
        LinkConfig { rate_bps: access(flow), delay: Duration::from_nanos(flow.rtt_ns / 4), ..LinkConfig::default() };
    let (sender, receiver) = (graph.add_node(), graph.add_node());
    let first = link.clone().with_jitter(Duration::from_nanos(flow.jitter_ns));
    graph.connect(sender, nodes[flow.over.0], first, link.clone());
    graph.connect(nodes[flow.over.1], receiver, link.clone(), link);
    (sender, receiver)
}

fn add_flow<O: Observer>(
    simulation: &mut Simulation<O>,
    network: &Network,
    (sender, receiver): (Node, Node),
    flow: &FlowSpec,
) -> Result<FlowId, String> {
    let route = |from, to| network.route(from, to).ok_or("a flow's nodes are not connected; add a link between them");
    let config = FlowConfig {
        start: Time::from_ns(flow.start_ns),
        bytes: flow.bytes,
        forward: route(sender, receiver)?,
        back: route(receiver, sender)?,
        transport: flow.transport.transport(flow.share_bps, flow.loss)?,
    };
    simulation.add_flow(config).map_err(|error| error.to_string())
}

fn both_ways(link: &LinkSpec, loss_is_late: bool) -> Result<(LinkConfig, LinkConfig), String> {
    let there = LinkConfig::default()
        .with_rate_bps(link.rate_bps)
        .with_delay(Duration::from_nanos(link.delay_ns))
        .with_queue(QueueLimit::packets(link.queue_packets))
        .with_discipline(discipline(link.discipline));
    let back = there.clone();
    let loss = if loss_is_late { Loss::None } else { loss(link)? };
    let there = there.with_loss(loss);
    there.validate().map_err(|error| error.to_string())?;
    Ok((there, back))
}

/// The loss model of a link.
pub(crate) fn loss(link: &LinkSpec) -> Result<Loss, String> {
    if link.loss == 0.0 {
        Ok(Loss::None)
    } else if link.loss_burst_packets > 0.0 {
        Loss::bursts(link.loss, link.loss_burst_packets).map_err(|error| error.to_string())
    } else {
        Ok(Loss::bernoulli(link.loss))
    }
}

fn discipline(discipline: Discipline) -> netem::Discipline {
    match discipline {
        Discipline::DropTail => netem::Discipline::DropTail,
        Discipline::Drr => netem::Discipline::Drr(netem::Drr::default()),
        Discipline::Sfq => netem::Discipline::Sfq(netem::Sfq::default()),
        Discipline::Wfq => netem::Discipline::Wfq(netem::Wfq::default()),
        Discipline::FqCodel => netem::Discipline::FqCodel(netem::FqCodel::default()),
        Discipline::Red => netem::Discipline::Red(netem::Red::default()),
    }
}
