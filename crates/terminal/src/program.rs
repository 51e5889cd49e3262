//! The frame of a program: its log, at most one error, and an exit code which says whether the work is done.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use clap::error::ErrorKind;
use tokio::task::JoinError;

use crate::output;

/// Not everything asked for is done and verified.
const EXIT_FAILURE: u8 = 1;
/// The command line is wrong.
const EXIT_USAGE: u8 = 2;
/// Ended by Ctrl-C or SIGTERM, as shells number it.
const EXIT_INTERRUPTED: u8 = 130;

/// Environment variable by which `dfcp` tells `dfcp-lab` its version: both have to be of one.
pub const VERSION_VARIABLE: &str = "DFCP_VERSION";

/// The end of a command that has not failed.
#[derive(Debug)]
pub enum End {
    /// Its work is done.
    Done,
    /// It was told to end before: what was broken off, and the next step.
    Interrupted(String),
}

/// Begins the log on standard error, of what the environment variable `DFCP_LOG` names.
pub fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DFCP_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    // Colours would be rubbish in a file.
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(is_terminal).init();
}

/// Help and version as they are; anything wrong as one sentence with the next step.
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
    // clap spreads its message over lines, a blank one before usage and hints.
    let words: Vec<_> =
        text.lines().take_while(|line| !line.trim().is_empty()).flat_map(str::split_whitespace).collect();
    let sentence = words.join(" ");
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    output::always(&format!("dfcp: {sentence}; see the same command with --help"));
    ExitCode::from(EXIT_USAGE)
}

/// Prints the error or interruption by which a command ended; done work fails if its results could not be printed.
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

/// Outcome of a command that ran as a task. A panic in it is a panic here.
///
/// # Errors
/// The command failed, or was given up.
pub fn joined(outcome: Result<anyhow::Result<()>, JoinError>) -> anyhow::Result<()> {
    match outcome.map_err(JoinError::try_into_panic) {
        Ok(outcome) => outcome,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(error)) => Err(error).context("the command was given up; report this"),
    }
}
