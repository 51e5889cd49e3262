//! Construction of a simulation from a scenario.

use dfcp_sim::{Edge, FlowConfig, FlowId, LinkId, Network, Node, Observer, Simulation};
use dfcp_time::Time;

use super::layout::NO_ROUTE;
use super::{FlowSpec, Layout, Scenario};

/// Handles of a scenario's flows and links in a simulation.
#[derive(Clone, Debug)]
pub struct Built {
    /// Flows, in the scenario's order.
    pub flows: Vec<FlowId>,
    /// Flow of test packets for each flow's estimator; `None` without an estimator.
    pub probes: Vec<Option<FlowId>>,
    /// Links in the forward direction, in the scenario's order.
    pub links: Vec<LinkId>,
    /// The same links in the reverse direction.
    pub back_links: Vec<LinkId>,
}

/// Adds the network and flows of `scenario` to an empty simulation. Losses that begin with a later change are left out.
///
/// # Errors
/// Fails with a sentence about the invalid setting.
pub fn build<O: Observer>(scenario: &Scenario, simulation: &mut Simulation<O>) -> Result<Built, String> {
    let Layout { graph, links, hosts } = Layout::of(scenario)?;
    let network = graph.build(simulation).map_err(|error| error.to_string())?;
    let flows = hosts.into_iter().zip(&scenario.flows).map(|(hosts, flow)| config_of(&network, hosts, flow));
    let configs = flows.collect::<Result<Vec<_>, _>>()?;
    let mut add = |config: &FlowConfig| simulation.add_flow(config.clone()).map_err(|error| error.to_string());
    let flows = configs.iter().map(&mut add).collect::<Result<_, _>>()?;
    // Flows of estimators are added last, so that the other flows keep their indices from the scenario.
    let estimates = scenario.flows.iter().zip(configs);
    let probes =
        estimates.map(|(flow, config)| flow.estimate.map(|estimate| add(&estimate.probes(config))).transpose());
    let probes = probes.collect::<Result<_, _>>()?;
    let [links, back_links] = [|ways: &(Edge, Edge)| ways.0, |ways: &(Edge, Edge)| ways.1]
        .map(|way| links.iter().map(|ways| network.link(way(ways))).collect());
    Ok(Built { flows, probes, links, back_links })
}

fn config_of(network: &Network, (sender, receiver): (Node, Node), flow: &FlowSpec) -> Result<FlowConfig, String> {
    let route = |from, to| network.route(from, to).ok_or(NO_ROUTE);
    Ok(FlowConfig {
        start: Time::from_ns(flow.start_ns),
        stop: flow.stop_ns.map(Time::from_ns),
        rebinds: flow.rebinds_ns.iter().map(|&ns| Time::from_ns(ns)).collect(),
        bytes: flow.bytes,
        forward: route(sender, receiver)?,
        back: route(receiver, sender)?,
        transport: flow.carried_by()?,
    })
}
