//! Small messages against a stream of bulk data, both ways of the path losing: they arrive.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_proto::Rate;
use dfcp_testkit::{DelayLine, Job, Testbed, sealed};

const DELAY: Duration = Duration::from_millis(5);
const EVERY: Duration = Duration::from_millis(250);
const MESSAGE_BYTES: u64 = 21;
const MESSAGES: u64 = 40;

/// How many messages have arrived when the last has been out for a second.
fn arrived(seed: u64, loss: f64) -> (u64, String) {
    let config = sealed().with_rate(Rate::Fixed { rate_bps: 5_000_000 });
    let mut testbed = Testbed::with_path(seed, config.clone(), DelayLine::new(DELAY));
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    testbed.tap = Box::new(move |_, packet| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let is_lost = ((random >> 33) as f64) < loss * (1_u64 << 31) as f64;
        if is_lost { Vec::new() } else { vec![packet] }
    });
    testbed.client.job = Job { shut_down: false, ..Job::send(u64::MAX) };
    testbed.server.job = Job { shut_down: false, ..Job::send(0) };
    testbed.connect(config).unwrap();
    for _ in 0..MESSAGES {
        let until = testbed.now + EVERY;
        testbed.run_until(until);
        testbed.server.job.send_bytes += MESSAGE_BYTES;
        testbed.server.work(testbed.now);
    }
    let until = testbed.now + Duration::from_secs(1);
    testbed.run_until(until);
    (testbed.client.read / MESSAGE_BYTES, testbed.describe())
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
