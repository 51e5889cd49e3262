//! Program `dfcp-lab`: implements `dfcp lab` and `dfcp demo`.

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

/// Exit code of a failed testbed run, as for `dfcp emulate`.
#[cfg(target_os = "linux")]
const EXIT_FAILURE: u8 = 125;

/// Time limit after an interruption for the threads to write records and remove files.
const CLEAN_UP_MAX: Duration = Duration::from_secs(5);

/// Time to notify the peers of aborted connections.
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
    // A testbed run creates a user namespace, which only a single-threaded process can do.
    #[cfg(target_os = "linux")]
    if matches!(cli.command, Command::TestbedRun) {
        return dfcp_lab_cli::lab::testbed_run().unwrap_or_else(|error| {
            output::always(&format!("dfcp: {error:#}"));
            ExitCode::from(EXIT_FAILURE)
        });
    }
    program::exit_code(start(cli.command))
}

/// Runs the command until it ends or is interrupted.
fn start(command: Command) -> anyhow::Result<End> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")?;
    let outcome = runtime.block_on(async {
        let mut signals = EndSignals::catch();
        // Run the command as a task: on this thread, each wake-up would cost a context switch.
        let mut command = tokio::spawn(command.run());
        let outcome = tokio::select! {
            outcome = &mut command => program::joined(outcome).map(|()| End::Done),
            () = signals.next() => {
                command.abort();
                // The command may have ended at the same moment.
                match command.await {
                    Ok(outcome) => outcome.map(|()| End::Done),
                    Err(_) => Ok(End::Interrupted("interrupted; start again when ready".to_owned())),
                }
            }
        };
        if !matches!(outcome, Ok(End::Done)) {
            // Aborted connections are reset by their own tasks, which the end of the runtime would cancel.
            tokio::time::sleep(FAREWELL).await;
        }
        outcome
    });
    runtime.shutdown_timeout(CLEAN_UP_MAX);
    outcome
}
