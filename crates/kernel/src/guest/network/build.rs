//! Construction of a network from its layout.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;

use dfcp_lab::scenario::Layout;
use dfcp_sim::Node;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::device::{End, LOOPBACK, Route, RouteMetrics};
use super::error::{Asked, NetworkError};
use super::ethtool::Ethtool;
use super::namespace::{self, Namespace};
use super::nat::Nats;
use super::wire::{self, Wire};
use super::{Network, system};

/// Most nodes: classes of DRR are numbered by the lower halves of nodes' addresses, and class 0 does not exist.
const NODES_MAX: usize = u16::MAX as usize - 1;
/// File descriptors reserved in addition to the two of each namespace.
const FILES_SPARE: u64 = 4096;

pub(super) fn build(layout: &Layout, seed: u64) -> Result<Network, NetworkError> {
    let wires = wires(layout)?;
    let routes = routes(layout, &wires)?;
    raise_file_limit(layout.graph.nodes())?;
    let home = namespace::current().map_err(system("cannot open the network namespace"))?;
    let new = || Namespace::new(&home).map_err(system("cannot make a network namespace"));
    let nodes = (0..layout.graph.nodes()).map(|_| new()).collect::<Result<Vec<_>, _>>()?;
    let ether = new()?;
    let mut network = Network { home, nodes, ether, wires, routes, seed, is_seeded: false, nats: Nats::default() };
    for node in 0..network.nodes.len() {
        network.set_up_node(node)?;
    }
    for pair in 0..network.wires.len() / 2 {
        network.connect(2 * pair)?;
    }
    network.turn_offloads_off()?;
    for node in 0..network.nodes.len() {
        network.add_routes(node)?;
    }
    for edge in 0..network.wires.len() {
        network.add_policer(edge)?;
        network.set_transmitter(edge)?;
        network.set_netem(edge)?;
    }
    network.is_seeded = network.took_seed()?;
    Ok(network)
}

/// Address of a node: 10.0.0.1 for the first one, and so on.
pub(super) fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + node as u32)
}

fn wires(layout: &Layout) -> Result<Vec<Wire>, NetworkError> {
    if layout.graph.nodes() > NODES_MAX {
        return Err(NetworkError::layout(format!("a network has at most {NODES_MAX} nodes")));
    }
    let hosts: BTreeSet<Node> = layout.hosts.iter().flat_map(|&(sender, receiver)| [sender, receiver]).collect();
    let edges = layout.graph.edges();
    let wires = edges.map(|(from, to, link)| Wire::new(from, to, link, hosts.contains(&from)));
    let mut wires = wires.collect::<Result<Vec<_>, _>>()?;
    let is_pair = |pair: &[Wire]| pair.len() == 2 && (pair[0].from, pair[0].to) == (pair[1].to, pair[1].from);
    if !wires.chunks(2).all(is_pair) {
        return Err(NetworkError::layout("a link of the layout has one direction only"));
    }
    for flow in 0..layout.hosts.len() {
        let (sender, receiver) = layout.hosts[flow];
        let routes = layout.routes(flow).map_err(NetworkError::layout)?;
        for (route, source) in routes.iter().zip([sender, receiver]) {
            route.iter().for_each(|edge| wires[edge.index()].add_source(source.index()));
        }
    }
    Ok(wires)
}

/// Routes of each node, along the paths of the flows only.
fn routes(layout: &Layout, wires: &[Wire]) -> Result<Vec<Vec<Route>>, NetworkError> {
    let mut all = vec![Vec::new(); layout.graph.nodes()];
    for (flow, &(sender, receiver)) in layout.hosts.iter().enumerate() {
        let routes = layout.routes(flow).map_err(NetworkError::layout)?;
        for (route, to) in routes.iter().zip([receiver, sender]) {
            for edge in route {
                let wire = &wires[edge.index()];
                let device = wire::device(edge.index());
                let route =
                    Route { to: address(to.index()), via: address(wire.to), device, source: address(wire.from) };
                all[wire.from].push(route);
            }
        }
    }
    Ok(all)
}

fn raise_file_limit(nodes: usize) -> Result<(), NetworkError> {
    let failed = |error| NetworkError::system("cannot raise the limit of open files", error);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    let wanted = 2 * nodes as u64 + FILES_SPARE;
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).map_err(failed)?;
    }
    Ok(())
}

impl Network {
    fn set_up_node(&mut self, node: usize) -> Result<(), NetworkError> {
        let namespace = &mut self.nodes[node];
        namespace.netlink.set_up(LOOPBACK).asked(|| format!("cannot bring up node {node}'s loopback device"))?;
        let added = namespace.netlink.add_address(LOOPBACK, address(node));
        added.asked(|| format!("cannot give node {node} its address"))?;
        // In a graph the reverse path may differ, and a reverse path filter would drop its packets.
        let is_host = self.wires.iter().any(|wire| wire.from == node && wire.is_of_host);
        let forward = if is_host { "0" } else { "1" };
        let set = [("ip_forward", forward), ("conf/all/rp_filter", "0"), ("conf/default/rp_filter", "0")];
        let write = || set.iter().try_for_each(|(name, value)| fs::write(format!("/proc/sys/net/ipv4/{name}"), value));
        let written = namespace.enter(&self.home, write).and_then(|written| written);
        written.map_err(|error| NetworkError::system(format!("cannot set node {node}'s forwarding"), error))
    }

    /// Creates the devices of a pair of edges, one at each node, connected in the ether.
    fn connect(&mut self, edge: usize) -> Result<(), NetworkError> {
        for edge in [edge, wire::back(edge)] {
            let Wire { from, to, .. } = self.wires[edge];
            let back = wire::back(edge);
            // In the ether, the device towards A receives A's packets and sends those of the reverse direction.
            let inner = End { name: format!("w{back}"), index: wire::device(back), mac: wire::mac(back) };
            let outer = End { name: format!("e{edge}"), index: wire::device(edge), mac: wire::mac(edge) };
            let node = &self.nodes[from];
            let added = self.ether.netlink.add_pair(&inner, &outer, node);
            added.asked(|| format!("cannot make device {} of node {from}", outer.name))?;
            let up = [(&mut self.ether.netlink, &inner), (&mut self.nodes[from].netlink, &outer)];
            for (netlink, end) in up {
                netlink.set_up(end.index).asked(|| format!("cannot bring up device {}", end.name))?;
            }
            let added = self.nodes[from].netlink.add_neighbour(outer.index, address(to), wire::mac(back));
            added.asked(|| format!("cannot add node {from}'s neighbour {to} at device {}", outer.name))?;
        }
        for edge in [edge, wire::back(edge)] {
            let joined = self.ether.netlink.redirect(wire::device(wire::back(edge)), wire::device(edge));
            joined.asked(|| format!("cannot join the devices of edge {edge}"))?;
        }
        Ok(())
    }

    fn turn_offloads_off(&self) -> Result<(), NetworkError> {
        let open = |namespace: &Namespace| {
            let opened = namespace.enter(&self.home, Ethtool::open);
            opened.map_err(system("cannot enter a network namespace"))?
        };
        let mut ether = open(&self.ether)?;
        for (number, node) in self.nodes.iter().enumerate() {
            let mut ethtool = open(node)?;
            let from = self.wires.iter().enumerate().filter(|(_, wire)| wire.from == number);
            for (edge, _) in from {
                ethtool.turn_offloads_off(wire::device(edge))?;
                ether.turn_offloads_off(wire::device(edge))?;
            }
        }
        Ok(())
    }

    fn add_routes(&mut self, node: usize) -> Result<(), NetworkError> {
        for route in &self.routes[node] {
            let added = self.nodes[node].netlink.set_route(route, RouteMetrics::default());
            added.asked(|| format!("cannot add node {node}'s route to {}", route.to))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_their_lower_halves_are_unique() {
        assert_eq!(address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(255), Ipv4Addr::new(10, 0, 1, 0));
        assert_eq!(address(NODES_MAX - 1).to_bits() & 0xffff, 0xfffe);
    }
}
