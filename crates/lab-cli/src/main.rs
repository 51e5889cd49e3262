//! Program `dfcp-lab`, which implements `dfcp lab` and `dfcp demo`.

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use dfcp_terminal::output;
use dfcp_terminal::program::{self, End, VERSION_VARIABLE};
use dfcp_terminal::signals::EndSignals;

use dfcp_lab_cli::cli::{Cli, Command};

const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Exit code of a failed testbed run, the same as for `dfcp emulate`.
#[cfg(target_os = "linux")]
const EXIT_FAILURE: u8 = 125;

/// Time limit for threads to write records and remove files after an interruption.
const CLEAN_UP_MAX: Duration = Duration::from_secs(5);

/// Time in which connection resets reach the peers.
const FAREWELL: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    if let Some(version) = env::var_os(VERSION_VARIABLE).filter(|version| version != OWN_VERSION) {
        return program::exit_code(Err(anyhow::anyhow!(
            "dfcp is {} and dfcp-lab is {OWN_VERSION}; install both of one version",
            version.display()
        )));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return program::usage(&error),
    };
    program::start_log();
    if cli.quiet {
        output::be_quiet();
    }
    // A testbed run creates a user namespace, which requires a single-threaded process. It must therefore start before
    // the runtime.
    #[cfg(target_os = "linux")]
    if matches!(cli.command, Command::TestbedRun) {
        return dfcp_lab_cli::lab::testbed_run().unwrap_or_else(|error| {
            output::always(&format!("dfcp: {error:#}"));
            ExitCode::from(EXIT_FAILURE)
        });
    }
    program::exit_code(start(cli.command))
}

/// Runs the command until it ends or the user interrupts it.
fn start(command: Command) -> anyhow::Result<End> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")?;
    let outcome = runtime.block_on(async {
        let mut signals = EndSignals::catch();
        // The command runs as a task of its own: on this thread, each wake-up would cost a context switch.
        let mut command = tokio::spawn(command.run());
        let outcome = tokio::select! {
            outcome = &mut command => program::joined(outcome).map(|()| End::Done),
            () = signals.next() => {
                command.abort();
                // The command may have ended at the moment of the interruption.
                match command.await {
                    Ok(outcome) => outcome.map(|()| End::Done),
                    Err(_) => Ok(End::Interrupted("interrupted; start again when ready".to_owned())),
                }
            }
        };
        if !matches!(outcome, Ok(End::Done)) {
            // Aborted connections send their resets from tasks, which would be cancelled at the end of the runtime.
            tokio::time::sleep(FAREWELL).await;
        }
        outcome
    });
    runtime.shutdown_timeout(CLEAN_UP_MAX);
    outcome
}
