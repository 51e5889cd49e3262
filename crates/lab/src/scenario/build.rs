//! From a scenario to a simulation.

use dfcp_sim::{FlowConfig, FlowId, LinkId, Network, Node, Observer, Simulation};
use dfcp_time::Time;

use super::layout::NO_ROUTE;
use super::{FlowSpec, Layout, Scenario};

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
    let Layout { graph, links, hosts } = Layout::of(scenario)?;
    let network = graph.build(simulation).map_err(|error| error.to_string())?;
    let flows = hosts.into_iter().zip(&scenario.flows).map(|(hosts, flow)| add_flow(simulation, &network, hosts, flow));
    let flows = flows.collect::<Result<_, _>>()?;
    Ok(Built { flows, links: links.into_iter().map(|(there, _)| network.link(there)).collect() })
}

fn add_flow<O: Observer>(
    simulation: &mut Simulation<O>,
    network: &Network,
    (sender, receiver): (Node, Node),
    flow: &FlowSpec,
) -> Result<FlowId, String> {
    let route = |from, to| network.route(from, to).ok_or(NO_ROUTE);
    let config = FlowConfig {
        start: Time::from_ns(flow.start_ns),
        stop: flow.stop_ns.map(Time::from_ns),
        bytes: flow.bytes,
        forward: route(sender, receiver)?,
        back: route(receiver, sender)?,
        transport: flow.carried_by()?,
    };
    simulation.add_flow(config).map_err(|error| error.to_string())
}
