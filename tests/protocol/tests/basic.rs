//! The plainest stories, one per line of the protocol's promise.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::{Config, Rate};
use dfcp_protocol_tests::{Job, Pair, PathConfig};
use dfcp_time::Time;

fn path(loss: f64, one_way_ms: u64) -> PathConfig {
    let link = LinkConfig::default()
        .with_rate_bps(100_000_000)
        .with_delay(Duration::from_millis(one_way_ms))
        .with_loss(Loss::bernoulli(loss));
    PathConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 }
}

#[test]
fn a_modern_stream_crosses_a_clean_path() {
    let mut pair =
        Pair::new(1, path(0.0, 10), (Config::modern(), Job::send(1_000_000)), (Config::modern(), Job::send(0))).unwrap();
    let outcome = pair.run(Time::from_s(60)).unwrap();
    let stats = pair.client.stats();
    println!("{outcome:?} {stats:?}");
    assert_eq!(stats.stream_bytes_acknowledged, 1_000_000);
}

#[test]
fn a_modern_stream_crosses_a_lossy_path() {
    for seed in 0..20 {
        let mut pair =
            Pair::new(seed, path(0.3, 50), (Config::modern(), Job::send(1_000_000)), (Config::modern(), Job::send(1000)))
                .unwrap();
        let outcome = pair.run(Time::from_s(60)).unwrap();
        println!("{outcome:?}");
    }
}

#[test]
fn a_classic_stream_crosses_a_lossy_path() {
    let config = Config { rate: Rate::Fixed { rate_bps: 50_000_000 }, ..Config::classic() };
    let mut pair =
        Pair::new(5, path(0.1, 10), (config.clone(), Job::send(300_000)), (config, Job::send(100))).unwrap();
    let outcome = pair.run(Time::from_s(200)).unwrap();
    println!("{outcome:?} {:?}", pair.client.stats());
}
