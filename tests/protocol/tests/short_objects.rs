//! Tests of a 150 kB object at RTT 100 ms, from `connect` to the sender's confirmation: at most 2 RTT + 1.3·size/C + 5 ms with at least 995
//! of 1000 seeds, for independent loss up to 5 % in each direction.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::{Rate, Traffic};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, sealed};
use dfcp_time::Time;

const SIZE: u64 = 150_000;
const RATE_BPS: u64 = 100_000_000;
const RTT: Duration = Duration::from_millis(100);

/// Time from `connect` to the confirmation of the last byte.
fn confirmed_after(seed: u64, loss: f64, traffic: Traffic) -> Duration {
    let link = LinkConfig::default().with_rate_bps(RATE_BPS).with_delay(RTT / 2).with_loss(Loss::bernoulli(loss));
    let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 };
    let config = sealed().with_rate(Rate::Fixed { rate_bps: RATE_BPS }).with_traffic(traffic);
    let mut pair = Pair::over(seed, path, (config.clone(), Job::send(SIZE)), (config, Job::send(0))).unwrap();
    pair.run_until(Time::from_s(11));
    pair.client.confirmed_at.unwrap() - Time::from_s(1)
}

fn check(loss: f64, traffic: Traffic) {
    let limit = RTT * 2 + Duration::from_secs_f64(1.3 * SIZE as f64 * 8.0 / RATE_BPS as f64) + Duration::from_millis(5);
    let mut times: Vec<_> = (0..1000).map(|seed| confirmed_after(seed, loss, traffic)).collect();
    times.sort_unstable();
    let in_time = times.iter().filter(|&&time| time <= limit).count();
    assert!(
        in_time >= 995,
        "{in_time} of 1000 within {limit:?} at loss {loss}, {traffic:?}; median {:?}, 99.5 % {:?}, longest {:?}",
        times[500],
        times[994],
        times[999]
    );
}

// Separate tests, so that they run in parallel.

#[test]
fn an_object_of_150_kb_needs_two_round_trips_at_any_loss_up_to_five_per_cent() {
    [0.0, 0.01, 0.05].into_iter().for_each(|loss| check(loss, Traffic::Bulk));
}

#[test]
fn so_does_one_of_low_latency_traffic() {
    [0.0, 0.01, 0.05].into_iter().for_each(|loss| check(loss, Traffic::LowLatency));
}
