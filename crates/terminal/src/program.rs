//! Frame of a program: log, at most one printed error, and exit code.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use clap::error::ErrorKind;
use tokio::task::JoinError;

use crate::output;

/// Exit code of failed, incomplete or unverified work.
const EXIT_FAILURE: u8 = 1;
/// Exit code of a wrong command line.
const EXIT_USAGE: u8 = 2;
/// Exit code after Ctrl-C or SIGTERM, like in shells.
const EXIT_INTERRUPTED: u8 = 130;

/// Environment variable by which `dfcp` passes its version to `dfcp-lab`: both must have the same version.
pub const VERSION_VARIABLE: &str = "DFCP_VERSION";

/// End of a command without failure.
#[derive(Debug)]
pub enum End {
    /// The work is done.
    Done,
    /// The command was interrupted. The sentence states at which point, and the next step.
    Interrupted(String),
}

/// Starts the log on standard error, filtered by the environment variable `DFCP_LOG`.
pub fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DFCP_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    // Colour codes would garble a log file.
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(is_terminal).init();
}

/// Prints help and version unchanged, and a usage error as one sentence with the next step. Returns the exit code.
#[must_use]
pub fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        output::line(error.render().to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::always(text.trim_end());
        return ExitCode::from(EXIT_USAGE);
    }
    // clap's message has several lines, with an empty line before usage and hints.
    let words: Vec<_> =
        text.lines().take_while(|line| !line.trim().is_empty()).flat_map(str::split_whitespace).collect();
    let sentence = words.join(" ");
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    output::always(&format!("dfcp: {sentence}; see the same command with --help"));
    ExitCode::from(EXIT_USAGE)
}

/// Prints the error or interruption of a command, and returns the exit code. Successful work fails if its results could
/// not be printed.
#[must_use]
pub fn exit_code(outcome: anyhow::Result<End>) -> ExitCode {
    match outcome {
        Ok(End::Done) => match output::lost() {
            None => ExitCode::SUCCESS,
            Some(error) => {
                output::always(&format!(
                    "dfcp: the work is done, but standard output cannot be written ({error}); write it elsewhere"
                ));
                ExitCode::from(EXIT_FAILURE)
            }
        },
        Ok(End::Interrupted(sentence)) => {
            output::always(&format!("dfcp: {sentence}"));
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Err(error) => {
            output::always(&format!("dfcp: {error:#}"));
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

/// Unwraps the outcome of a command that ran as a task. A panic of the task is propagated.
///
/// # Errors
/// Fails if the command failed or its task was aborted.
pub fn joined(outcome: Result<anyhow::Result<()>, JoinError>) -> anyhow::Result<()> {
    match outcome.map_err(JoinError::try_into_panic) {
        Ok(outcome) => outcome,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(error)) => Err(error).context("the command was given up; report this"),
    }
}
