//! Tests of web traffic: each connection behaves as if it were alone, and together they deliver everything.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_sim::tcp::{self, Congestion};
use dfcp_sim::{
    End, FlowConfig, FlowError, FlowId, Nobody, Simulation, Transport, WebConfig, WebConnection, WebError, WebStats,
};
use dfcp_time::Time;

const CONFIGS: [fn(Congestion) -> tcp::Config; 2] = [tcp::Config::modern, tcp::Config::linux_2008];

/// Creates a flow over 10 Mbit/s and an RTT of 40 ms, with this loss.
fn simulation(transport: Transport, bytes: Option<u64>, loss: f64) -> Result<(Simulation<Nobody>, FlowId), FlowError> {
    let mut simulation = Simulation::new(3, Nobody);
    let link = LinkConfig::default().with_rate_bps(10_000_000).with_delay(Duration::from_millis(20));
    let there = link.clone().with_queue(QueueLimit::packets(60)).with_loss(Loss::bernoulli(loss));
    let there = simulation.add_link(there).unwrap();
    let back = simulation.add_link(link.with_loss(Loss::bernoulli(loss))).unwrap();
    let config = FlowConfig {
        start: Time::ZERO,
        stop: None,
        rebinds: Vec::new(),
        bytes,
        forward: vec![there],
        back: vec![back],
        transport,
    };
    let flow = simulation.add_flow(config)?;
    Ok((simulation, flow))
}

fn web(tcp: tcp::Config, connections: &[(u64, u64)]) -> Transport {
    let connection = |&(ms, bytes): &(u64, u64)| WebConnection { start: Time::from_ms(ms), bytes };
    Transport::Web(WebConfig { tcp, connections: connections.iter().map(connection).collect() })
}

fn stats(simulation: &Simulation<Nobody>, flow: FlowId) -> WebStats {
    let End::WebSender(sender) = simulation.end(flow, false) else { panic!("web traffic") };
    sender.stats()
}

#[test]
fn a_connection_alone_is_tcp() {
    for config in CONFIGS.map(|of| of(Congestion::Cubic)) {
        for loss in [0.0, 0.01] {
            let (mut alone, tcp_flow) = simulation(Transport::Tcp(config), Some(2_000_000), loss).unwrap();
            let (mut among, web_flow) = simulation(web(config, &[(0, 2_000_000)]), None, loss).unwrap();
            for ms in (0..12_000).step_by(50) {
                alone.run_until(Time::from_ms(ms));
                among.run_until(Time::from_ms(ms));
                let delivered = (alone.flow(tcp_flow).delivered_bytes, among.flow(web_flow).delivered_bytes);
                assert_eq!(delivered.0, delivered.1, "at {ms} ms, loss {loss}");
            }
            assert_eq!(alone.packets_and_hops(), among.packets_and_hops());
            assert_eq!(stats(&among, web_flow).finished, 1);
        }
    }
}

#[test]
fn many_connections_over_a_lossy_link_deliver_everything_once() {
    for config in CONFIGS.map(|of| of(Congestion::Cubic)) {
        // The start times are not sorted, and some are equal.
        let connections: Vec<(u64, u64)> = (0..60).map(|n| (n * 37 % 60 / 3 * 500, 1 + n * n * 20)).collect();
        let (mut simulation, flow) = simulation(web(config, &connections), None, 0.05).unwrap();
        simulation.run_until(Time::from_ms(5_000));
        let halfway = stats(&simulation, flow);
        assert!(halfway.opened == 33 && halfway.finished < 33 && halfway.retransmissions > 0, "{halfway:?}");
        simulation.run_until(Time::from_s(200));
        let WebStats { opened, finished, .. } = stats(&simulation, flow);
        assert_eq!((opened, finished), (60, 60));
        let all: u64 = connections.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(simulation.flow(flow).delivered_bytes, all);
        assert_eq!(simulation.flow(flow).completed_at, None, "web traffic has no end");
        let sent = simulation.packets_and_hops();
        simulation.run_until(Time::from_s(2_000));
        assert_eq!(simulation.packets_and_hops(), sent, "finished connections are silent");
    }
}

#[test]
fn web_traffic_without_sense_is_refused() {
    let modern = tcp::Config::modern(Congestion::Cubic);
    let refused = simulation(web(modern, &[]), Some(1), 0.0).map(|_| ()).unwrap_err();
    assert_eq!(refused, FlowError::Web(WebError::Sized));
    let broken = tcp::Config { mss_bytes: 0, ..modern };
    assert!(matches!(simulation(web(broken, &[(0, 1)]), None, 0.0), Err(FlowError::Tcp(_))));
    // An empty list of connections is valid.
    let (mut idle, flow) = simulation(web(modern, &[]), None, 0.0).unwrap();
    idle.run_until(Time::from_s(10));
    assert_eq!((idle.flow(flow).delivered_bytes, idle.packets_and_hops()), (0, (0, 0)));
}
