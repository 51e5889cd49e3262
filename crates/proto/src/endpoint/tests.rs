//! Endpoints on raw IP: the host passes every datagram to all of them, the sender included.

use super::*;
use crate::security::PeerKey;
use crate::shared::DATAGRAM_BUFFER_BYTES;
use crate::state::State;

const HOST: [u8; 4] = [127, 0, 0, 1];
const STEPS_MAX: usize = 10_000;

fn at(port: u16) -> SocketAddr {
    (HOST, port).into()
}

fn sealed() -> Config {
    Config::sealed(PeerKey::Any)
}

fn listener(port: u16, accept: impl Into<Accept>, seed: u8) -> Endpoint {
    Endpoint::on_raw_ip(port, Some(accept.into()), [seed; 32])
}

/// One endpoint of the host, with its connections.
struct Node {
    endpoint: Endpoint,
    connections: Vec<(Handle, Connection)>,
}

struct Host {
    now: Time,
    nodes: Vec<Node>,
    /// For each answer without a connection: the node that sent it.
    replies: Vec<usize>,
    /// Sender and receiver of each datagram that was routed to a connection.
    taken: Vec<(usize, usize)>,
}

impl Host {
    fn new(endpoints: Vec<Endpoint>) -> Self {
        let nodes = endpoints.into_iter().map(|endpoint| Node { endpoint, connections: Vec::new() }).collect();
        Self { now: Time::from_s(1), nodes, replies: Vec::new(), taken: Vec::new() }
    }

    fn connect(&mut self, node: usize, port: u16, config: Config) {
        let node = &mut self.nodes[node];
        node.connections.push(node.endpoint.connect(self.now, at(port), config).unwrap());
    }

    /// Passes a datagram to every endpoint, as raw sockets do. The source address has no port.
    fn deliver(&mut self, sender: usize, datagram: &[u8]) {
        let mut replies = Vec::new();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let mut reply = [0; DATAGRAM_BUFFER_BYTES];
            match node.endpoint.handle_datagram(self.now, at(0), datagram, &mut reply) {
                Routed::Connection(handle, remote) => {
                    self.taken.push((sender, index));
                    let (_, connection) = node.connections.iter_mut().find(|(known, _)| *known == handle).unwrap();
                    connection.handle_datagram(self.now, remote, &mut datagram.to_vec());
                }
                Routed::Opened(handle, connection) => node.connections.push((handle, connection)),
                Routed::Reply(length) => replies.push((index, reply[..length].to_vec())),
                Routed::Dropped => {}
            }
        }
        for (index, reply) in replies {
            self.replies.push(index);
            self.deliver(index, &reply);
        }
    }

    /// Runs for `steps` milliseconds.
    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let mut sent = Vec::new();
            for (index, node) in self.nodes.iter_mut().enumerate() {
                for (_, connection) in &mut node.connections {
                    connection.handle_timeout(self.now);
                    let mut out = [0; DATAGRAM_BUFFER_BYTES];
                    while let Some(transmit) = connection.poll_transmit(self.now, &mut out) {
                        sent.push((index, out[..transmit.length].to_vec()));
                        assert!(sent.len() < STEPS_MAX, "it never stops sending");
                    }
                }
            }
            for (index, datagram) in sent {
                self.deliver(index, &datagram);
            }
            self.now += std::time::Duration::from_millis(1);
        }
    }

    fn states(&self, node: usize) -> Vec<State> {
        self.nodes[node].connections.iter().map(|(_, connection)| connection.state()).collect()
    }
}

#[test]
fn each_syn_opens_a_connection_where_its_port_is_and_nowhere_else() {
    for config in [sealed(), Config::danger_unsealed(), Config::danger_classic()] {
        let client = Endpoint::on_raw_ip(40_000, None, [3; 32]);
        let listeners = [listener(9_000, config.clone(), 1), listener(9_001, config.clone(), 2)];
        let mut host = Host::new(listeners.into_iter().chain([client]).collect());
        host.connect(2, 9_001, config.clone());
        host.connect(2, 9_000, config.clone());
        host.connect(2, 9_001, config.clone());
        host.run(50);
        assert_eq!(host.states(0), [State::Established; 1], "{:?}", config.profile);
        assert_eq!(host.states(1), [State::Established; 2], "{:?}", config.profile);
        assert_eq!(host.states(2), [State::Established; 3], "{:?}", config.profile);
        assert!(host.taken.iter().all(|(sender, taker)| sender != taker), "a copy of one's own was taken");
        assert!(!host.replies.contains(&2), "only the host that was asked answers");
        let remotes = host.nodes[0].connections.iter().map(|&(handle, _)| host.nodes[0].endpoint.remote(handle));
        assert_eq!(remotes.collect::<Vec<_>>(), [Some(at(40_000))], "the port is the header's");
    }
}

#[test]
fn only_the_listener_that_was_asked_refuses() {
    let (unsealed, classic) = (Config::danger_unsealed(), Config::danger_classic());
    for (offered, wanted) in
        [(sealed(), classic.clone()), (classic, sealed()), (sealed(), unsealed.clone()), (unsealed, sealed())]
    {
        let client = Endpoint::on_raw_ip(40_000, None, [3; 32]);
        let listeners = [listener(9_000, offered.clone(), 1), listener(9_001, offered.clone(), 2)];
        let mut host = Host::new(listeners.into_iter().chain([client]).collect());
        host.connect(2, 9_001, wanted);
        host.run(3_100);
        assert!(!host.replies.is_empty() && host.replies.iter().all(|&node| node == 1), "{:?}", host.replies);
        assert_eq!(host.states(2), [State::Closed]);
        assert_eq!(host.nodes[0].endpoint.stats().refused, 0);
    }
}

/// Without a listener, the initiator only receives its own SYNs.
#[test]
fn an_initiator_does_not_open_a_connection_with_itself() {
    for config in [sealed(), Config::danger_unsealed(), Config::danger_classic()] {
        // The called port is its own, so it takes another local port.
        let mut host = Host::new(vec![Endpoint::on_raw_ip(9_000, None, [3; 32])]);
        host.connect(0, 9_000, config);
        host.run(3_000);
        assert_eq!(host.states(0), [State::SynSent]);
        assert!(host.taken.is_empty() && host.replies.is_empty());
    }
}

#[test]
fn two_that_call_each_other_meet() {
    for config in [Config::danger_unsealed(), Config::danger_classic()] {
        let callers = [40_000, 40_001].map(|port| Endpoint::on_raw_ip(port, None, [port as u8; 32]));
        let mut host = Host::new(callers.into_iter().collect());
        host.connect(0, 40_001, config.clone());
        host.connect(1, 40_000, config);
        host.run(50);
        assert_eq!([host.states(0), host.states(1)], [[State::Established], [State::Established]]);
    }
}

/// Hints about paths to accepted peers are not kept, since anybody can call.
#[test]
fn paths_of_connections_opened_here_are_remembered_and_no_others() {
    let mut host = Host::new(vec![listener(5, sealed(), 1), Endpoint::on_raw_ip(6, None, [2; 32])]);
    host.connect(1, 5, sealed());
    host.run(STEPS_MAX);
    let hint = PathHint { rate_bps: 80_000_000, rtt: std::time::Duration::from_millis(3) };
    for (node, expected) in [(0, None), (1, Some(hint))] {
        let node = &mut host.nodes[node];
        let handle = node.connections[0].0;
        node.endpoint.remember_path(host.now, handle, hint);
        node.endpoint.forget(handle);
        assert_eq!(node.endpoint.paths.hint(host.now, at(0).ip()), expected);
    }
    let (_, connection) = host.nodes[1].endpoint.connect(host.now, at(5), sealed()).unwrap();
    assert!(format!("{connection:?}").contains(&format!("{hint:?}")), "it begins with it");
}
