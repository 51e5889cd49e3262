//! `dfcp estimate`: estimates the throughput that a path gives its user, from busy periods of the bottleneck's queue
//! (`dfcp-estimate`), live or from a capture.

pub mod args;
mod client;
#[cfg(target_os = "linux")]
mod counter;
mod figures;
mod server;
pub mod trace;

use std::time::Duration;

use anyhow::Context;
use dfcp_time::Time;
use tokio::time::Instant;

use self::args::{EstimateArgs, Source};
use crate::stop::Stop;

/// Runs the command; a live measurement ends early at `stop`.
///
/// # Errors
/// Fails if the source cannot be read or measured, or there is no estimate.
pub async fn run(args: EstimateArgs, stop: Stop) -> anyhow::Result<()> {
    match args.source {
        Source::Server(args) => server::run(&args, &stop).await,
        Source::Client(args) => client::run(&args, &stop).await,
        Source::Trace(args) => {
            let walk = tokio::task::spawn_blocking(move || trace::run(&args));
            walk.await.context("the capture was given up; report this")?
        }
    }
}

/// Clock of a live measurement, which reads zero at the start.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }

    fn instant(self, time: Time) -> Instant {
        // Limit the time to avoid an overflow: a measurement lasts a day at most.
        self.0 + time.since(Time::ZERO).min(Duration::from_secs(365 * 24 * 60 * 60))
    }
}
