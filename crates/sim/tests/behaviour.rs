//! Tests of ends that are slower than the path, have a drifting clock, or vanish.

use std::time::Duration;

use dfcp_netem::{LinkConfig, QueueLimit};
use dfcp_proto::{Config, Rate};
use dfcp_sim::{
    Behaviour, Counting, Demand, DfcpConfig, End, FlowConfig, FlowReport, Lie, Nobody, Pair, Row, Simulation, Transport,
};
use dfcp_time::Time;

const MBIT: u64 = 1_000_000;

/// Runs a flow with this behaviour at 40 Mbit/s over 50 Mbit/s, with a window of 4 MiB. Returns the reports at 10 s and
/// 20 s, and the number of data datagrams sent between them.
fn run(behaviour: Behaviour, stop: Option<Time>) -> ([FlowReport; 2], u64) {
    let link = LinkConfig::default().with_rate_bps(50 * MBIT).with_queue(QueueLimit::packets(400));
    let mut row = Row::new([(link.clone(), link)]);
    assert!(row.add_pair(
        Pair { access_bps: None, rtt: Duration::from_millis(20), jitter: Duration::ZERO, batch: Duration::ZERO },
        0,
        0
    ));
    let (sender, receiver) = row.hosts[0];
    let mut simulation = Simulation::new(5, Nobody);
    let network = row.graph.build(&mut simulation).expect("valid links");
    let config = Config::danger_unsealed()
        .with_rate(Rate::Fixed { rate_bps: 40 * MBIT })
        .with_receive_memory_bytes(4 << 20)
        .with_codec(&Counting);
    let config = FlowConfig {
        start: Time::ZERO,
        stop,
        rebinds: Vec::new(),
        bytes: None,
        forward: network.route(sender, receiver).expect("connected"),
        back: network.route(receiver, sender).expect("connected"),
        transport: Transport::Dfcp(Box::new(DfcpConfig::both(config).with_behaviour(behaviour))),
    };
    let flow = simulation.add_flow(config).expect("a valid flow");
    let mut look = |s: u64| {
        simulation.run_until(Time::from_ms(s * 1_000));
        let End::Dfcp(end) = simulation.end(flow, false) else { panic!("a flow of DFCP") };
        (simulation.flow(flow), end.stats().sent.source + end.stats().sent.repair + end.stats().sent.proactive)
    };
    let ((first, before), (second, after)) = (look(10), look(20));
    ([first, second], after - before)
}

fn mbps([first, second]: &[FlowReport; 2]) -> f64 {
    assert_eq!((&first.failure, &second.failure), (&None, &None));
    (second.delivered_bytes - first.delivered_bytes) as f64 * 8.0 / 10.0 / 1e6
}

#[test]
fn what_an_application_has_to_send_arrives_and_no_more() {
    let always = Demand { rate_bps: 10 * MBIT, on: Duration::ZERO, off: Duration::ZERO };
    let second = Duration::from_secs(1);
    for (demand, expected) in [(always, 10.0), (Demand { on: second, off: second, ..always }, 5.0)] {
        let (reports, _) = run(Behaviour { demand: Some(demand), ..Behaviour::default() }, None);
        let found = mbps(&reports);
        assert!((found / expected - 1.0).abs() < 0.01, "{found} instead of {expected}");
    }
}

#[test]
fn a_slow_reader_holds_up_its_sender() {
    let behaviour = Behaviour { read_bps: Some(20 * MBIT), ..Behaviour::default() };
    let (reports, sent) = run(behaviour, None);
    let found = mbps(&reports);
    assert!((found / 20.0 - 1.0).abs() < 0.01, "{found}");
    // The receiver buffers at most 4 MiB, which are full by now.
    let sent_mbps = sent as f64 * 1_420.0 * 8.0 / 10.0 / 1e6;
    assert!((19.0..22.0).contains(&sent_mbps), "{sent_mbps}");
}

#[test]
fn a_drifting_clock_changes_little() {
    for clock_ppm in [-100, 100] {
        let found = mbps(&run(Behaviour { clock_ppm, ..Behaviour::default() }, None).0);
        assert!((found / 38.4 - 1.0).abs() < 0.02, "{found}");
    }
}

#[test]
fn a_flow_which_is_stopped_is_silent() {
    let ([first, second], sent) = run(Behaviour::default(), Some(Time::from_ms(5_000)));
    assert!(first.delivered_bytes > 20_000_000 && first.delivered_bytes < 25_000_000, "{first:?}");
    assert_eq!((second.delivered_bytes, sent), (first.delivered_bytes, 0));
}

/// The receiver acknowledges blocks that need more datagrams than it claims to have received.
#[test]
fn a_receiver_which_hides_what_it_decoded_is_found_out() {
    let ([first, _], sent) = run(Behaviour { lie: Some(Lie::Losses), ..Behaviour::default() }, None);
    assert!(first.failure.as_ref().is_some_and(|why| why.contains("broke the protocol")), "{first:?}");
    assert_eq!(sent, 0);
}
