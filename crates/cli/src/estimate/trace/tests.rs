use dfcp_netem::{LinkConfig, QueueLimit};
use dfcp_sim::messages::{Messages, ModelConfig, Recovery};
use dfcp_sim::tcp::{self, Congestion};
use dfcp_sim::{Captured as Kept, FlowConfig, Pcapng, Simulation, Transport};

use super::*;
use crate::cli::{Cli, Command};
use crate::estimate::args::Source;
use clap::Parser;

const RATE_BPS: u64 = 4_000_000;

/// Capture of `seconds` behind a bottleneck of 4 Mbit/s. Test packets of 60 bytes go to 10.2.0.1:9000 every 100 ms.
/// From 2 s on, every 3 s, four CUBIC connections carry a page of 400 kB; the queueing delay is then 12 to 27 ms.
pub(crate) fn simulated(seconds: u64) -> (Vec<u8>, Kept) {
    let mut simulation = Simulation::new(7, None);
    let access = LinkConfig::default().with_rate_bps(100_000_000).with_delay(Duration::from_millis(10));
    let bottleneck = access.clone().with_rate_bps(RATE_BPS).with_queue(QueueLimit::packets(300));
    let there = [bottleneck, access.clone()].map(|link| simulation.add_link(link).unwrap()).to_vec();
    let back = vec![simulation.add_link(access).unwrap()];
    let flow = |at_ms, bytes, transport| FlowConfig {
        start: Time::from_ms(at_ms),
        stop: None,
        rebinds: Vec::new(),
        bytes,
        forward: there.clone(),
        back: back.clone(),
        transport,
    };
    let every = Duration::from_millis(100);
    let messages = Messages { bytes: 16, every, deadline: every, target: 0.9, beside_stream: false };
    let probes = Transport::Model(ModelConfig { messages, recovery: Recovery::Arq });
    simulation.add_flow(flow(0, None, probes)).unwrap();
    for start_s in (2..seconds).step_by(3) {
        for _ in 0..4 {
            let part = Transport::Tcp(tcp::Config::modern(Congestion::Cubic));
            simulation.add_flow(flow(start_s * 1_000, Some(100_000), part)).unwrap();
        }
    }
    *simulation.observer_mut() = Some(Pcapng::new(Vec::new(), there[1]).unwrap());
    simulation.run_until(Time::from_s(seconds));
    let capture = simulation.observer_mut().take().unwrap();
    let kept = capture.captured();
    (capture.finish().unwrap(), kept)
}

/// Arguments parsed from a command line.
fn args(more: &[&str]) -> TraceArgs {
    let cli = Cli::try_parse_from([&["dfcp", "estimate", "trace", "file"], more].concat()).unwrap();
    match cli.command {
        Command::Estimate(args) => match args.source {
            Source::Trace(args) => args,
            _ => panic!("not trace"),
        },
        _ => panic!("not estimate"),
    }
}

#[test]
fn the_rate_of_a_simulated_bottleneck_is_found_in_its_capture() {
    let (bytes, _) = simulated(62);
    let args = args(&["--probes", "10.2.0.1:9000", "--to", "10.2.0.0/16", "--threshold", "10ms"]);
    let (figures, is_whole) = figures(&bytes[..], &args).unwrap();
    let json = figures.to_json();
    let estimate_bps = json["estimate_bps"].as_f64().unwrap();
    assert!(is_whole && (estimate_bps / RATE_BPS as f64 - 1.0).abs() < 0.01, "{json}");
    assert!(json["busy_periods"].as_u64().unwrap() >= 15, "{json}");
    assert!(json["low_bps"].as_f64().unwrap() <= estimate_bps && estimate_bps <= json["high_bps"].as_f64().unwrap());
    assert_eq!(json["probes"]["missing"], 0);
    assert_eq!(json["periods"].as_array().unwrap().len() as u64, json["busy_periods"].as_u64().unwrap());
    figures.check().unwrap();
    assert!(figures.lines()[0].contains("Mbit/s, between"), "{:?}", figures.lines());
}

#[test]
fn only_the_user_s_traffic_counts() {
    // Without --to, the user is the destination of the test packets, which receives nothing else.
    let (bytes, _) = simulated(20);
    let (figures, _) = figures(&bytes[..], &args(&["--probes", "10.2.0.1:9000", "--threshold", "10ms"])).unwrap();
    let json = figures.to_json();
    assert!(json["estimate_bps"].as_f64().unwrap() < 60_000.0, "{json}");
    assert!(json["busy_periods"].as_u64().unwrap() >= 5, "the queue was modelled all the same");
}

#[test]
fn a_capture_without_test_packets_or_busy_periods_says_what_to_do() {
    let (bytes, _) = simulated(2);
    let error = figures(&bytes[..], &args(&[])).unwrap_err();
    assert!(error.to_string().contains("dfcp estimate client") && error.to_string().contains("--probes"), "{error}");
    let (idle, _) = figures(&bytes[..], &args(&["--probes", "9000"])).unwrap();
    let error = idle.check().unwrap_err().to_string();
    assert!(
        error.starts_with("no estimate")
            && error.contains("1.9 s")
            && error.contains("20 ms or longer, and the longest wait was 0 ms"),
        "{error}"
    );
    assert_eq!(idle.to_json()["estimate_bps"], serde_json::Value::Null);
}

#[test]
fn times_that_do_not_go_together_are_refused() {
    let (bytes, _) = simulated(1);
    let error = figures(&bytes[..], &args(&["--probes", "9000", "--gap", "50ms"])).unwrap_err();
    assert!(error.to_string().contains("gap is 50ms"), "{error}");
}

/// Raw-IP capture in pcap format, of UDP from port 9 to 10.0.0.2:7. Each packet has a time in µs, a payload and a
/// length on the wire.
fn pcap(packets: &[(u64, Vec<u8>, u16)]) -> Vec<u8> {
    let mut file = [0xA1B2_C3D4_u32.to_le_bytes(), [2, 0, 4, 0], [0; 4], [0; 4], [0xFF; 4], [101, 0, 0, 0]].concat();
    for (at_us, payload, wire_bytes) in packets {
        let udp = (payload.len() as u16 + 8).to_be_bytes();
        let size = wire_bytes.to_be_bytes();
        let ip = [0x45, 0, size[0], size[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let packet = [&ip[..], &[0, 9, 0, 7], &udp, &[0, 0], payload].concat();
        let words =
            [(at_us / 1_000_000) as u32, (at_us % 1_000_000) as u32, packet.len() as u32, u32::from(*wire_bytes)];
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(packet);
    }
    file
}

/// DFCP test packet that was sent `number` intervals of 20 ms after 5 s, and that arrives at `at_ms`.
fn own(session: u64, number: u32, at_ms: u64) -> (u64, Vec<u8>, u16) {
    let sent = Time::from_ms(5_000 + 20 * u64::from(number));
    let probe = Answer::Probe(ProbeDatagram { session, number, interval_us: 20_000, sent });
    (at_ms * 1_000, probe.encode().as_ref().to_vec(), 60)
}

#[test]
fn own_test_packets_are_recognised_with_their_interval_and_numbers() {
    // Test packets 4 and 6 arrive 30 ms late, and 5 is lost. Between the arrivals of 4 and 6, 5000 bytes of traffic
    // arrive in 40 ms. With the 60 bytes of test packet 6, the rate is 1.012 Mbit/s.
    let packets = [
        own(1, 0, 100),
        own(1, 1, 120),
        own(1, 2, 140),
        own(1, 3, 160),
        own(1, 4, 210),
        (220_000, vec![0; 8], 5_000),
        own(1, 6, 250),
        own(1, 7, 251),
        own(1, 8, 260),
    ];
    let (found, _) = figures(&pcap(&packets)[..], &args(&[])).unwrap();
    let json = found.to_json();
    assert_eq!(
        (&json["estimate_bps"], &json["busy_periods"]),
        (&serde_json::json!(1_012_000.0), &serde_json::json!(1))
    );
    assert_eq!(
        (&json["model"]["interval_ms"], &json["probes"]["missing"]),
        (&serde_json::json!(20.0), &serde_json::json!(1))
    );
    assert!(found.lines()[0].contains("cannot say how sure"), "{:?}", found.lines());
}

#[test]
fn a_client_that_called_again_begins_a_new_model_and_others_count_as_traffic() {
    // The second session starts 400 ms later, with numbers from 0.
    let sessions = |second: u64| -> Vec<_> {
        let first = (0..5).map(|number| own(1, number, 100 + 20 * u64::from(number)));
        first.chain((0..5).map(|number| own(second, number, 600 + 20 * u64::from(number)))).collect()
    };
    let json = figures(&pcap(&sessions(2))[..], &args(&[])).unwrap().0.to_json();
    assert_eq!((&json["probes"]["arrived"], &json["model"]["begun"]), (&serde_json::json!(10), &serde_json::json!(2)));
    let json = figures(&pcap(&sessions(1))[..], &args(&[])).unwrap().0.to_json();
    assert_eq!((&json["probes"]["arrived"], &json["probes"]["late"]), (&serde_json::json!(5), &serde_json::json!(5)));
}

#[test]
fn a_capture_out_of_order_is_refused() {
    let packets = [own(1, 0, 100), own(1, 1, 120), own(1, 2, 50)];
    let error = figures(&pcap(&packets)[..], &args(&[])).unwrap_err();
    assert!(error.to_string().contains("reordercap"), "{error}");
}
