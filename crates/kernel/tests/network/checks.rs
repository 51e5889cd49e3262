//! Checks that run inside the guest.

mod nat;
mod queues;
mod routes;
mod tcp;
mod wire;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dfcp_kernel::guest::init;
use dfcp_lab::scenario::Layout;
use dfcp_netem::{LinkConfig, QueueLimit};
use dfcp_sim::{Pair as HostPair, Row};

type Check = (&'static str, fn());

const CHECKS: &[&[Check]] = &[wire::CHECKS, queues::CHECKS, routes::CHECKS, tcp::CHECKS, nat::CHECKS];

pub(crate) fn run() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let shared = PathBuf::from(arguments.next().unwrap_or_default());
    let filters: Vec<String> = arguments.collect();
    let outcome = init::run(&shared, || {
        std::fs::write("/proc/sys/net/core/rmem_max", "134217728").map_err(|error| error.to_string())?;
        std::fs::write("/proc/sys/net/core/wmem_max", "134217728").map_err(|error| error.to_string())?;
        let job = std::fs::read_to_string(format!("{}/job", init::JOB_DIR)).map_err(|error| error.to_string())?;
        let answer = std::fs::write(format!("{}/answer", init::JOB_DIR), format!("{job}, read"));
        answer.map_err(|error| error.to_string())?;
        let chosen = CHECKS
            .iter()
            .copied()
            .flatten()
            .filter(|(name, _)| filters.is_empty() || filters.iter().any(|filter| name.contains(filter)));
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

/// One bottleneck, with an unlimited queue in the reverse direction; each pair's own links add `rtt`.
fn dumbbell(bottleneck: LinkConfig, pairs: usize, pair: HostPair) -> Layout {
    let back = LinkConfig { loss: dfcp_netem::Loss::None, ..bottleneck.clone() };
    let mut row = Row::new([(bottleneck, back)]);
    for _ in 0..pairs {
        assert!(row.add_pair(pair, 0, 0));
    }
    Layout { graph: row.graph, links: row.bottlenecks, hosts: row.hosts }
}

fn plain(rtt: Duration) -> HostPair {
    HostPair { access_bps: None, rtt, jitter: Duration::ZERO, batch: Duration::ZERO }
}

fn link(rate_bps: u64, delay: Duration, packets: usize) -> LinkConfig {
    LinkConfig::default().with_rate_bps(rate_bps).with_delay(delay).with_queue(QueueLimit::packets(packets))
}

#[track_caller]
fn near(what: &str, is: Duration, expected: Duration, tolerance: Duration) {
    assert!(is.abs_diff(expected) <= tolerance, "{what}: {is:?} instead of {expected:?} ± {tolerance:?}");
}
