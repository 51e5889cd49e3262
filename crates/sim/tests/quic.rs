//! Tests of QUIC by quinn in the simulator.

mod dumbbell;

use std::time::Duration;

use dfcp_netem::{Discipline, Drr, LinkConfig, QueueLimit};
use dfcp_sim::{
    End, Fingerprint, FlowConfig, FlowError, FlowReport, Nobody, Observer, Packet, QuicConfig, QuicCongestion,
    QuicError, Simulation, Transport, Verifier,
};
use dfcp_time::Time;
use dumbbell::{Dumbbell, Flow, Path};

const ALL: [QuicCongestion; 3] = [QuicCongestion::Cubic, QuicCongestion::NewReno, QuicCongestion::Bbr];
/// Share of overhead in a full packet, 0 to 1: flags, connection ID, packet number, frame header with offset,
/// authentication tag, UDP and IP headers.
const OVERHEAD_SHARE: f64 = 0.04;

fn flow(congestion: QuicCongestion, rtt_ms: u64, bytes: Option<u64>) -> Flow {
    Flow::new(Transport::Quic(QuicConfig::new(congestion)), Duration::from_millis(rtt_ms), bytes)
}

/// Returns everything that could depend on more than the seed: the fingerprint and the reports of two flows over a
/// lossy link. One flow is finite.
fn course(congestion: QuicCongestion, seed: u64) -> (u64, Vec<FlowReport>) {
    let flows = vec![flow(congestion, 20, None), flow(congestion, 30, Some(1_000_000))];
    let mut path = Path::drop_tail(10_000_000, 40, 0.01, seed);
    path.bottleneck = path.bottleneck.with_duplicate(0.01).with_corrupt(0.01).with_jitter(Duration::from_millis(1));
    let mut dumbbell = Dumbbell::new(path, flows, Fingerprint::default());
    // BBR probes for the smallest RTT every 10 s, and then starts its gain cycle at a random place.
    dumbbell.simulation.run_until(Time::from_s(25));
    (dumbbell.simulation.observer().value(), vec![dumbbell.report(0), dumbbell.report(1)])
}

#[test]
fn the_same_seed_gives_the_same_course() {
    for congestion in ALL {
        let first = course(congestion, 7);
        assert_eq!(first, course(congestion, 7), "{congestion:?}");
        assert_ne!(first.0, course(congestion, 8).0, "{congestion:?}");
    }
}

/// Random values in TLS and BBR differ between processes and must have no effect. CUBIC is left out, because its cube
/// root depends on the mathematics library of the platform.
#[test]
fn the_course_is_the_same_in_every_process() {
    for (congestion, expected) in
        [(QuicCongestion::NewReno, 0xECC0_3B3F_29D1_9019), (QuicCongestion::Bbr, 0x9252_B051_6B66_920F)]
    {
        let fingerprint = course(congestion, 7).0;
        assert_eq!(
            fingerprint, expected,
            "{congestion:?}: the course of events has changed; if that was meant, write down {fingerprint:#018X}"
        );
    }
}

#[test]
fn a_finite_stream_completes_and_is_confirmed_in_spite_of_loss() {
    for congestion in ALL {
        for bytes in [1, 1_000_000] {
            let path = Path::drop_tail(20_000_000, 50, 0.02, 1);
            let mut dumbbell = Dumbbell::new(path, vec![flow(congestion, 20, Some(bytes))], Nobody);
            dumbbell.simulation.run_until(Time::from_s(60));
            let report = dumbbell.report(0);
            assert_eq!((report.delivered_bytes, &report.failure), (bytes, &None), "{congestion:?}");
            let times = [report.first_byte_at, report.completed_at, report.confirmed_at].map(Option::unwrap);
            // Handshake and first byte take 1.5 RTT.
            assert!(times[0] >= Time::from_ms(30) && times.is_sorted(), "{congestion:?}: {report:?}");
            // No packet is sent after the end.
            let (packets, _) = dumbbell.simulation.packets_and_hops();
            dumbbell.simulation.run_until(Time::from_s(300));
            assert_eq!(dumbbell.simulation.packets_and_hops().0, packets, "{congestion:?}");
        }
    }
}

#[test]
fn a_link_without_loss_is_filled() {
    for congestion in ALL {
        let path = Path::drop_tail(50_000_000, 100, 0.0, 1);
        let mut dumbbell = Dumbbell::new(path, vec![flow(congestion, 20, None)], Nobody);
        let mbps = dumbbell.goodput_mbps(Time::from_s(2), Time::from_s(10))[0];
        assert!(mbps > 50.0 * 0.93 && mbps < 50.0 * (1.0 - 0.5 * OVERHEAD_SHARE), "{congestion:?}: {mbps}");
    }
}

/// A real socket is full long before the window is. Data then waits in the socket instead of the network device, whose
/// queue would otherwise grow with the window as long as there is no loss.
#[test]
fn a_device_as_slow_as_the_path_has_no_queue() {
    for congestion in ALL {
        let path = Path { access_bps: 50_000_000, ..Path::drop_tail(50_000_000, 100, 0.0, 1) };
        let mut dumbbell = Dumbbell::new(path, vec![flow(congestion, 20, None)], Nobody);
        let mbps = dumbbell.goodput_mbps(Time::from_s(2), Time::from_s(5))[0];
        assert!(mbps > 50.0 * 0.93, "{congestion:?}: {mbps}");
        let End::Quic(end) = dumbbell.simulation.end(dumbbell.flows[0], false) else { panic!("not QUIC") };
        let rtt = end.stats().unwrap().path.rtt;
        assert!(rtt < Duration::from_millis(45), "{congestion:?}: {rtt:?}");
    }
}

#[test]
fn two_flows_share_a_fair_queue() {
    for congestion in ALL {
        let mut path = Path::drop_tail(20_000_000, 100, 0.0, 1);
        path.bottleneck = path.bottleneck.with_discipline(Discipline::Drr(Drr::default()));
        let flows = vec![flow(congestion, 20, None), flow(congestion, 60, None)];
        let mut dumbbell = Dumbbell::new(path, flows, Nobody);
        let mbps = dumbbell.goodput_mbps(Time::from_s(5), Time::from_s(20));
        assert!((mbps[0] / mbps[1] - 1.0).abs() < 0.1, "{congestion:?}: {mbps:?}");
        assert!(mbps.iter().sum::<f64>() > 20.0 * 0.9, "{congestion:?}: {mbps:?}");
    }
}

/// Sizes of the packets sent by the flow's sender, bytes.
#[derive(Debug, Default)]
struct Sizes(Vec<u32>);

impl Observer for Sizes {
    fn sent(&mut self, _now: Time, packet: &Packet) {
        if !packet.is_back {
            self.0.push(packet.size_bytes);
        }
    }
}

#[test]
fn packets_are_as_large_as_asked_for() {
    for (udp_payload_bytes, mtu_discovery, largest) in
        [(1_200, false, 1_228), (1_452, false, 1_480), (1_200, true, 1_480)]
    {
        let config = QuicConfig { udp_payload_bytes, mtu_discovery, ..QuicConfig::new(QuicCongestion::Cubic) };
        let flows = vec![Flow::new(Transport::Quic(config), Duration::from_millis(20), None)];
        let mut dumbbell = Dumbbell::new(Path::drop_tail(10_000_000, 50, 0.0, 1), flows, Sizes::default());
        dumbbell.simulation.run_until(Time::from_s(5));
        let sizes = &dumbbell.simulation.observer().0;
        assert_eq!(sizes.iter().max(), Some(&largest));
        // An endless stream fills its packets. The other packets are those of the handshake, acknowledgements and
        // probes.
        let full = sizes.iter().filter(|&&size| size == largest).count();
        assert!(full as f64 > 0.9 * sizes.len() as f64, "{full} of {}", sizes.len());
    }
}

#[test]
fn a_dark_link_delays_the_handshake_and_no_more() {
    let mut path = Path::drop_tail(10_000_000, 50, 0.0, 1);
    path.bottleneck.blackouts = vec![(Time::ZERO, Time::from_ms(2_500))];
    let mut dumbbell = Dumbbell::new(path, vec![flow(QuicCongestion::Cubic, 20, Some(10_000))], Nobody);
    dumbbell.simulation.run_until(Time::from_s(20));
    let report = dumbbell.report(0);
    assert!(report.first_byte_at.unwrap() > Time::from_ms(2_500), "{report:?}");
    assert!(report.confirmed_at.is_some() && report.failure.is_none(), "{report:?}");
}

#[test]
fn no_law_is_broken() {
    let path = Path::drop_tail(20_000_000, 50, 0.02, 1);
    let bottleneck = path.bottleneck.clone();
    let flows = vec![flow(QuicCongestion::Cubic, 20, None), flow(QuicCongestion::Bbr, 40, Some(2_000_000))];
    let mut dumbbell = Dumbbell::new(path, flows, Verifier::default());
    dumbbell.simulation.observer_mut().watch(dumbbell.bottleneck, bottleneck);
    dumbbell.simulation.run_until(Time::from_s(5));
    let verdict = Verifier::verdict(&mut dumbbell.simulation);
    assert!(verdict.is_empty(), "{verdict:#?}");
    assert!(dumbbell.simulation.packets_and_hops().0 > 500);
}

#[test]
fn the_window_can_be_looked_at() {
    let path = Path::drop_tail(20_000_000, 50, 0.0, 1);
    let mut dumbbell = Dumbbell::new(path, vec![flow(QuicCongestion::Cubic, 20, None)], Nobody);
    let stats = |dumbbell: &Dumbbell| match dumbbell.simulation.end(dumbbell.flows[0], false) {
        End::Quic(end) => end.stats(),
        other => panic!("not QUIC: {other:?}"),
    };
    assert!(stats(&dumbbell).is_none());
    dumbbell.simulation.run_until(Time::from_s(3));
    let path = stats(&dumbbell).unwrap().path;
    assert!((20..60).contains(&path.rtt.as_millis()), "{path:?}");
    // The bandwidth-delay product is 50 kB, and the queue holds 74 kB.
    assert!((40_000..150_000).contains(&path.cwnd), "{path:?}");
    assert_eq!(path.current_mtu, 1_452);
}

#[test]
fn settings_without_sense_are_refused() {
    let mut simulation = Simulation::new(1, Nobody);
    let link = simulation.add_link(LinkConfig::default().with_queue(QueueLimit::packets(1))).unwrap();
    for udp_payload_bytes in [0, 1_199, 1_453, u16::MAX] {
        let config = QuicConfig { udp_payload_bytes, ..QuicConfig::new(QuicCongestion::Cubic) };
        let refused = simulation.add_flow(FlowConfig {
            start: Time::ZERO,
            stop: None,
            rebinds: Vec::new(),
            bytes: None,
            forward: vec![link],
            back: vec![link],
            transport: Transport::Quic(config),
        });
        assert_eq!(refused, Err(FlowError::Quic(QuicError::UdpPayload(udp_payload_bytes))));
    }
}
