//! Test of the queueing delay that a DFCP sender estimates for its datagrams, against the delay that the link reports.

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_proto::{Config, Rate, Stats};
use dfcp_sim::{Counting, DfcpConfig, End, FlowConfig, Nobody, Pair, Row, Simulation, Transport};
use dfcp_time::Time;

const MBIT: u64 = 1_000_000;
const RTT: Duration = Duration::from_millis(20);

fn link(rate_bps: u64, packets: usize) -> LinkConfig {
    LinkConfig::default().with_rate_bps(rate_bps).with_queue(QueueLimit::packets(packets))
}

/// Runs an endless stream at `rate_bps` for 1.5 s. Returns the sender's statistics and the bottleneck's queueing delay
/// at that time.
fn known(rate_bps: u64, there: LinkConfig, back: LinkConfig) -> (Stats, Duration) {
    let mut row = Row::new([(there.clone(), back)]);
    assert!(row.add_pair(
        Pair { access_bps: Some(100 * MBIT), rtt: RTT, jitter: Duration::ZERO, batch: Duration::ZERO },
        0,
        0
    ));
    let ((sender, receiver), bottleneck) = (row.hosts[0], row.bottlenecks[0].0);
    let mut simulation = Simulation::new(11, Nobody);
    let network = row.graph.build(&mut simulation).expect("valid links");
    let config = Config::danger_unsealed().with_rate(Rate::Fixed { rate_bps }).with_codec(&Counting);
    let flow = simulation
        .add_flow(FlowConfig {
            start: Time::ZERO,
            stop: None,
            rebinds: Vec::new(),
            bytes: None,
            forward: network.route(sender, receiver).expect("connected"),
            back: network.route(receiver, sender).expect("connected"),
            transport: Transport::Dfcp(Box::new(DfcpConfig::both(config))),
        })
        .expect("a valid flow");
    simulation.run_until(Time::from_ms(1_500));
    let waiting_bytes = simulation.link(network.link(bottleneck)).queue_bytes();
    let queue = Duration::from_secs_f64(waiting_bytes as f64 * 8.0 / there.rate_bps.expect("it has a rate") as f64);
    let End::Dfcp(end) = simulation.end(flow, false) else { panic!("a flow of DFCP") };
    (end.stats(), queue)
}

fn told(stats: &Stats) -> Duration {
    stats.queue.expect("the peer's clock tells")
}

#[test]
fn within_the_rate_of_the_path_there_is_no_queue_whatever_is_lost() {
    for loss in [0.0, 0.3] {
        let there = link(20 * MBIT, 50).with_loss(Loss::bernoulli(loss));
        let (stats, _) = known(10 * MBIT, there, link(20 * MBIT, 50));
        assert!(told(&stats) < Duration::from_millis(1), "loss {loss}: {:?}", stats.queue);
    }
}

#[test]
fn above_it_the_queue_which_is_told_is_that_of_the_link() {
    for packets in [20, 50, 200] {
        let (stats, queue) = known(30 * MBIT, link(20 * MBIT, packets), link(20 * MBIT, 50));
        let ratio = told(&stats).as_secs_f64() / queue.as_secs_f64();
        assert!(
            queue > Duration::from_millis(10) && (0.9..1.1).contains(&ratio),
            "{packets}: {:?}, {queue:?}",
            stats.queue
        );
    }
}

/// Reports wait in a queue on the return path: the RTT grows, but the estimated queueing delay of the data does not.
#[test]
fn a_congested_way_back_is_no_queue_of_ours() {
    let (stats, _) = known(10 * MBIT, link(20 * MBIT, 50), link(MBIT / 20, 50));
    assert!(stats.rtt > RTT * 3, "{:?}", stats.rtt);
    assert!(told(&stats) < Duration::from_millis(1), "{:?}", stats.queue);
}
