//! Small messages beside a stream of bulk data, on a path with loss in both directions: they arrive.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::Rate;
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, sealed};

const DELAY: Duration = Duration::from_millis(5);
const EVERY: Duration = Duration::from_millis(250);
const MESSAGE_BYTES: u64 = 21;
const MESSAGES: u64 = 40;

/// Number of messages that have arrived one second after the last was written.
fn arrived(seed: u64, loss: f64) -> (u64, String) {
    let config = sealed().with_rate(Rate::Fixed { rate_bps: 5_000_000 });
    let link = LinkConfig::default().with_delay(DELAY).with_loss(Loss::bernoulli(loss));
    let links = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 };
    let bulk = Job { shut_down: false, ..Job::send(u64::MAX) };
    let answers = Job { shut_down: false, ..Job::send(0) };
    let mut pair = Pair::over(seed, links, (config.clone(), bulk), (config, answers)).unwrap();
    for _ in 0..MESSAGES {
        pair.run_until(pair.now + EVERY);
        pair.server.job.send_bytes += MESSAGE_BYTES;
        pair.server.work(pair.now);
    }
    pair.run_until(pair.now + Duration::from_secs(1));
    (pair.client.read / MESSAGE_BYTES, pair.describe())
}

#[test]
fn small_messages_arrive_whatever_is_lost_both_ways() {
    for loss in [0.0, 0.1, 0.3, 0.5] {
        for seed in 1..=6 {
            let (messages, description) = arrived(seed, loss);
            assert!(messages >= MESSAGES - 1, "loss {loss}, seed {seed}: {messages} of {MESSAGES}: {description}");
        }
    }
}
