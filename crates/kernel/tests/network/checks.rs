//! Inside: the checks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dfcp_kernel::guest::init;
use dfcp_kernel::guest::network::Network;
use dfcp_lab::scenario::Layout;
use dfcp_netem::{LinkConfig, QueueLimit};
use dfcp_sim::{Pair as HostPair, Row};

use crate::traffic::Pair;

type Check = (&'static str, fn());

const CHECKS: &[Check] =
    &[("a packet takes its transmission times and delays", one_packet), ("jitter is even and keeps order", jitter)];

pub(crate) fn run() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let shared = PathBuf::from(arguments.next().unwrap_or_default());
    let filters: Vec<String> = arguments.collect();
    let outcome = init::run(&shared, || {
        std::fs::write("/proc/sys/net/core/rmem_max", "134217728").map_err(|error| error.to_string())?;
        std::fs::write("/proc/sys/net/core/wmem_max", "134217728").map_err(|error| error.to_string())?;
        let chosen =
            CHECKS.iter().filter(|(name, _)| filters.is_empty() || filters.iter().any(|filter| name.contains(filter)));
        for (name, check) in chosen {
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(check));
            println!(
                "{} {name} ({:.1} virtual s)",
                if outcome.is_ok() { "ok" } else { "FAILED" },
                start.elapsed().as_secs_f64()
            );
        }
        println!("complete");
        Ok::<_, String>(())
    });
    outcome.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// One bottleneck, the way back without a queue's limit; each pair's own links add `rtt`.
fn dumbbell(bottleneck: LinkConfig, pairs: usize, pair: HostPair) -> Layout {
    let back = LinkConfig { loss: dfcp_netem::Loss::None, ..bottleneck.clone() };
    let mut row = Row::new([(bottleneck, back)]);
    for _ in 0..pairs {
        assert!(row.add_pair(pair, 0, 0));
    }
    Layout { graph: row.graph, links: row.bottlenecks, hosts: row.hosts }
}

fn plain(rtt: Duration) -> HostPair {
    HostPair { access_bps: None, rtt, jitter: Duration::ZERO }
}

fn link(rate_bps: u64, delay: Duration, packets: usize) -> LinkConfig {
    LinkConfig::default().with_rate_bps(rate_bps).with_delay(delay).with_queue(QueueLimit::packets(packets))
}

#[track_caller]
fn near(what: &str, is: Duration, expected: Duration, tolerance: Duration) {
    assert!(is.abs_diff(expected) <= tolerance, "{what}: {is:?} instead of {expected:?} ± {tolerance:?}");
}

fn one_packet() {
    let layout = dumbbell(link(10_000_000, ms(5), 10), 1, plain(ms(8)));
    let network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    for bytes in [1500, 100] {
        let [arrival] = pair.burst(1, bytes)[..] else { panic!("not one packet came") };
        let expected = ms(2) + us(bytes as u64 * 8 / 10) + ms(5) + ms(2);
        near("one-way delay", arrival.after, expected, us(2));
    }
}

fn jitter() {
    let pair = HostPair { jitter: ms(4), ..plain(ms(40)) };
    let layout = dumbbell(link(1_000_000_000, ms(0), 1000), 1, pair);
    let network = Network::build(&layout, 7).unwrap();
    // Far apart, so that no packet catches up with another.
    let packets = 1000;
    let pace = ms(6);
    let arrivals = Pair::new(&network, layout.hosts[0]).stream(packets, 1500, pace);
    assert_eq!(arrivals.iter().map(|arrival| arrival.number).collect::<Vec<_>>(), (0..packets).collect::<Vec<_>>());
    let added = arrivals.iter().map(|arrival| arrival.after - pace * arrival.number - ms(20) - us(12));
    let added: Vec<f64> = added.map(|delay| delay.as_secs_f64() * 1e3).collect();
    let mean = added.iter().sum::<f64>() / added.len() as f64;
    let below = added.iter().filter(|&&ms| ms < 1.0).count();
    // Four standard deviations: 4 ms / √12 / √1000, and √(1000 · 1/4 · 3/4).
    assert!((mean - 2.0).abs() < 0.15, "mean {mean} ms");
    assert!(below.abs_diff(250) < 55, "{below} of 1000 below a quarter");
    assert!(added.iter().all(|&ms| (-0.002..4.1).contains(&ms)), "{added:?}");
    // Close together they catch up, and none overtakes.
    let arrivals = Pair::new(&network, layout.hosts[0]).burst(500, 1500);
    assert_eq!(arrivals.iter().map(|arrival| arrival.number).collect::<Vec<_>>(), (0..500).collect::<Vec<_>>());
    near("the first", arrivals[0].after, ms(22), ms(3));
}
