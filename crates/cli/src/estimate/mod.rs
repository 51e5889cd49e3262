//! `dfcp estimate`: how fast a path serves its user, by busy periods of the bottleneck's queue (`dfcp-estimate`), on a live path or in a capture.

pub mod args;
mod capture;
mod figures;
mod packet;
pub mod trace;

use self::args::{EstimateArgs, Source};

/// Runs the command.
///
/// # Errors
/// What was asked for cannot be read or measured, or there is no estimate.
pub async fn run(args: EstimateArgs) -> anyhow::Result<()> {
    match args.source {
        // Reading a file holds up nothing else: it is all that this program does.
        Source::Trace(args) => trace::run(&args),
    }
}
