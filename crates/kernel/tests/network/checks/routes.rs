//! Checks of routes through networks of several links, and of the environment of packets.

use std::process::Command;
use std::time::Instant;

use dfcp_kernel::guest::network::Network;
use dfcp_lab::scenario::{Layout, Scenario};
use dfcp_netem::LinkConfig;
use dfcp_sim::{Graph, Row};

use super::{Check, dumbbell, link, ms, near, plain, us};
use crate::traffic::Pair;

pub(super) const CHECKS: &[Check] = &[
    ("packets cross the edges of their routes, and no others", parking_lot),
    ("packets take the shortest way of a graph", graph),
    ("a scenario is built as it is written", scenario),
    ("a hundred hosts reach each other", many_hosts),
    ("a command runs in its node", commands),
    ("a link of one direction is refused", one_direction),
];

/// Sends a different number of packets on each flow, and checks that every edge carried those of its flows.
fn crossed(layout: &Layout, network: &mut Network) {
    let mut expected = vec![0; layout.graph.edges().count()];
    for (flow, &hosts) in layout.hosts.iter().enumerate() {
        let [there, back] = layout.routes(flow).unwrap();
        for (route, (from, to), packets) in [(there, hosts, 1 << flow), (back, (hosts.1, hosts.0), 100 << flow)] {
            assert_eq!(Pair::new(network, (from, to)).burst(packets, 200).len(), packets as usize);
            route.iter().for_each(|edge| expected[edge.index()] += u64::from(packets));
        }
    }
    let edges = layout.hosts.iter().enumerate().flat_map(|(flow, _)| layout.routes(flow).unwrap().concat());
    let all = edges.chain(layout.links.iter().flat_map(|&(there, back)| [there, back]));
    for edge in all {
        let sent = network.sample(edge).unwrap().sent;
        let packets = expected[edge.index()];
        assert_eq!((sent.packets, sent.ip_bytes), (packets, packets * 200), "edge {}", edge.index());
    }
}

fn parking_lot() {
    let bottleneck = || link(100_000_000, ms(3), 1000);
    let mut row = Row::new((0..3).map(|_| (bottleneck(), bottleneck())));
    for (first, last) in [(0, 2), (0, 0), (1, 1), (1, 2)] {
        assert!(row.add_pair(plain(ms(4)), first, last));
    }
    let layout = Layout { graph: row.graph, links: row.bottlenecks, hosts: row.hosts };
    let network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    near("over three bottlenecks", pair.burst(1, 1500)[0].after, ms(11) + us(120) * 3, us(5));
    drop(pair);
    let mut network = Network::build(&layout, 1).unwrap();
    crossed(&layout, &mut network);
}

fn graph() {
    let mut graph = Graph::default();
    let [a, b, c] = [(); 3].map(|()| graph.add_node());
    let hosts: Vec<_> = (0..2).map(|_| (graph.add_node(), graph.add_node())).collect();
    let of = |delay: u64| link(100_000_000, ms(delay), 1000);
    // Forward via b, and back directly: the delays differ.
    let links =
        vec![graph.connect(a, b, of(5), of(5)), graph.connect(b, c, of(5), of(5)), graph.connect(a, c, of(20), of(7))];
    for &(sender, receiver) in &hosts {
        graph.connect(sender, a, LinkConfig::default(), LinkConfig::default());
        graph.connect(c, receiver, LinkConfig::default(), LinkConfig::default());
    }
    let layout = Layout { graph, links, hosts };
    let mut network = Network::build(&layout, 1).unwrap();
    let (sender, receiver) = layout.hosts[1];
    for (hosts, expected) in [((sender, receiver), ms(10) + us(240)), ((receiver, sender), ms(7) + us(120))] {
        near("one-way delay", Pair::new(&network, hosts).burst(1, 1500)[0].after, expected, us(4));
    }
    drop(network);
    network = Network::build(&layout, 1).unwrap();
    crossed(&layout, &mut network);
}

/// Three nodes in a row with two flows, over one and two links, in the form of the job file.
const SCENARIO: &str = r#"{
    "nodes": ["left", "middle", "right"],
    "links": [
        {"rate_bps": 12000000, "delay_ns": 5000000, "loss": 0, "loss_burst_packets": 0, "discipline": "fq-codel",
         "queue_packets": 100, "between": [0, 1]},
        {"rate_bps": 6000000, "delay_ns": 10000000, "loss": 1, "loss_burst_packets": 0, "discipline": "drop-tail",
         "queue_packets": 100, "between": [1, 2]}
    ],
    "flows": [
        {"transport": {"kind": "cubic"}, "start_ns": 0, "rtt_ns": 8000000, "access_bps": 0, "over": [0, 1], "share_bps": 1, "loss": 0},
        {"transport": {"kind": "cubic"}, "start_ns": 0, "rtt_ns": 4000000, "access_bps": 0, "over": [0, 2], "share_bps": 1, "loss": 0}
    ],
    "changes": [{"at_ns": 1, "link": 1, "own_loss": true}],
    "duration_ns": 1, "warm_up_ns": 0, "bin_ns": 0, "queue_trace_ns": 0
}"#;

fn scenario() {
    let scenario: Scenario = serde_json::from_str(SCENARIO).unwrap();
    let layout = Layout::of(&scenario).unwrap();
    let mut network = Network::build(&layout, 1).unwrap();
    let (near_one, far_one) = (layout.hosts[0], layout.hosts[1]);
    let one = |network: &Network, hosts| Pair::new(network, hosts).burst(1, 1500).first().map(|arrival| arrival.after);
    near("over one link", one(&network, near_one).unwrap(), ms(4 + 5 + 1), us(3));
    near("over two", one(&network, far_one).unwrap(), ms(2 + 5 + 1 + 10 + 2), us(4));
    // Losses of the second link start with a change, and only in the direction of data.
    let own = dfcp_lab::scenario::ChangeSpec { link: 1, own_loss: true, ..Default::default() };
    let change = own.link_change(&scenario).unwrap();
    network.change(layout.links[1].0, &change).unwrap();
    assert_eq!(one(&network, far_one), None);
    assert!(one(&network, (far_one.1, far_one.0)).is_some());
}

fn many_hosts() {
    let layout = dumbbell(link(1_000_000_000, ms(1), 1000), 100, plain(ms(4)));
    println!("building 202 nodes");
    let network = Network::build(&layout, 1).unwrap();
    println!("built");
    for &(sender, receiver) in &layout.hosts {
        for hosts in [(sender, receiver), (receiver, sender)] {
            let pair = Pair::new(&network, hosts);
            pair.receiver.set_read_timeout(Some(ms(100))).unwrap();
            let start = Instant::now();
            pair.send(0, 1500);
            near("one-way delay", pair.receive(start)[0].after, ms(3) + us(12), us(3));
        }
    }
}

fn commands() {
    let layout = dumbbell(link(1_000_000, ms(1), 10), 1, plain(ms(4)));
    let network = Network::build(&layout, 1).unwrap();
    let (sender, receiver) = layout.hosts[0];
    let here = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let home = here();
    let inside = network.enter(sender, here).unwrap();
    let other = network.enter(receiver, here).unwrap();
    assert_eq!(here(), home);
    assert!(home != inside && home != other && inside != other);
    let mut command = Command::new("readlink");
    command.arg("/proc/self/ns/net").env("PATH", "/usr/bin:/bin");
    let output = network.enter(sender, || command.output()).unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), inside.to_string_lossy());
    let panics = || network.enter(sender, || panic!("as it shall"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert_eq!(here(), home);
}

fn one_direction() {
    let mut graph = Graph::default();
    let (a, b) = (graph.add_node(), graph.add_node());
    graph.add_edge(a, b, LinkConfig::default());
    let layout = Layout { graph, links: Vec::new(), hosts: Vec::new() };
    assert_eq!(Network::build(&layout, 1).unwrap_err().to_string(), "a link of the layout has one direction only");
}
