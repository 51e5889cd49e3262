//! The `dfcp` command: parses arguments, runs one command, prints at most one error, and reports success by the exit code.

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dfcp_terminal::output;
use dfcp_terminal::program::{self, End};
use dfcp_terminal::signals::EndSignals;
use tokio::time::timeout;

use dfcp_cli::args::PerfSide;
use dfcp_cli::cli::{Cli, Command};
#[cfg(target_os = "linux")]
use dfcp_cli::emulate;
use dfcp_cli::estimate::args::Source;
use dfcp_cli::limits::GOODBYE_MAX;
use dfcp_cli::stop::{Interrupted, Stop};
use dfcp_cli::{decrypt, estimate, generate, id, laboratory, perf, pipe, receive, relay, send};

/// Time limit after an interruption for the disk threads to record the progress of unfinished files or remove them.
const CLEAN_UP_MAX: Duration = Duration::from_secs(5);

/// Time to notify the peers of aborted connections; unnotified peers wait for their idle timeout.
const FAREWELL: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if laboratory::is_called(&arguments) {
        return laboratory::start(&arguments).unwrap_or_else(|error| program::exit_code(Err(error)));
    }
    let cli = match Cli::of_command_line().and_then(Cli::checked) {
        Ok(cli) => cli,
        Err(error) => return program::usage(&error),
    };
    program::start_log();
    if cli.quiet {
        output::be_quiet();
    }
    #[cfg(target_os = "linux")]
    if let Some(code) = without_threads(&cli.command) {
        return code;
    }
    program::exit_code(start(cli))
}

/// Runs a command that may create a user namespace, and returns its exit code. Called before the runtime starts: only a
/// single-threaded process can create a user namespace.
#[cfg(target_os = "linux")]
fn without_threads(command: &Command) -> Option<ExitCode> {
    let outcome = match command {
        Command::Emulate(args) => emulate::run(args),
        Command::EmulateInit => emulate::init(),
        _ => return None,
    };
    Some(outcome.unwrap_or_else(|error| {
        output::always(&format!("dfcp: {error:#}"));
        ExitCode::from(emulate::EXIT_FAILURE)
    }))
}

/// Runs the command.
fn start(cli: Cli) -> anyhow::Result<End> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")?;
    // A relay ends normally by Ctrl-C, and handles it to print its summary.
    let ends_itself = matches!(cli.command, Command::Relay(_));
    let (hears_stop, interruption) = (hears_stop(&cli.command), interruption(&cli.command));
    let (ask, stop) = Stop::new();
    let outcome = runtime.block_on(async {
        // Install the handlers before the command can print that it listens.
        let mut signals = (!ends_itself).then(EndSignals::catch);
        // Run the command as a task: on this thread, each wake-up would cost a context switch.
        let mut command = tokio::spawn(run(cli.command, stop));
        let outcome = tokio::select! {
            outcome = &mut command => program::joined(outcome).map(|()| End::Done),
            () = next_of(&mut signals) => {
                let tell = async {
                    if !hears_stop || ask.send(true).is_err() {
                        return None;
                    }
                    tokio::select! {
                        ended = timeout(GOODBYE_MAX, &mut command) => ended.ok(),
                        // A second signal does not wait for the orderly end.
                        () = next_of(&mut signals) => None,
                    }
                };
                // The command may have ended by itself at the same moment.
                let ended = if let Some(ended) = tell.await {
                    ended
                } else {
                    command.abort();
                    command.await
                };
                match ended {
                    Ok(Ok(())) => Ok(End::Done),
                    Ok(Err(error)) => match error.downcast::<Interrupted>() {
                        Ok(Interrupted(sentence)) => Ok(End::Interrupted(sentence)),
                        // An error after a stop request is a consequence of the stop.
                        Err(_) if hears_stop => Ok(End::Interrupted(interruption.to_owned())),
                        Err(error) => Err(error),
                    },
                    Err(_) => Ok(End::Interrupted(interruption.to_owned())),
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

/// Waits for the next signal; pending for ever for a command that handles signals itself.
async fn next_of(signals: &mut Option<EndSignals>) {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

/// Returns true for commands that end in order on a stop request: they have peers to notify or results to print.
fn hears_stop(command: &Command) -> bool {
    match command {
        Command::Receive(_) | Command::Pipe(_) => true,
        Command::Send(args) => args.listen.is_some(),
        Command::Perf(args) => matches!(args.side, PerfSide::Server(_)),
        Command::Estimate(args) => !matches!(args.source, Source::Trace(_)),
        _ => false,
    }
}

/// Returns the sentence about an interrupted command that printed nothing more specific.
fn interruption(command: &Command) -> &'static str {
    match command {
        Command::Send(args) if args.dry_run => "interrupted: nothing was sent",
        Command::Send(args) if args.no_resume || args.path.insecure_flag().is_some() => {
            "interrupted; send again what the receiver has not confirmed"
        }
        Command::Send(_) => "interrupted; send again: it goes on where it was",
        _ => "interrupted; start again when ready",
    }
}

async fn run(command: Command, stop: Stop) -> anyhow::Result<()> {
    match command {
        Command::Send(args) => send::run(args, stop).await,
        Command::Receive(args) => receive::run(args, stop).await,
        Command::Relay(args) => Ok(relay::run(args).await?),
        #[cfg(target_os = "linux")]
        Command::Emulate(_) | Command::EmulateInit => Ok(()), // has been run by `without_threads`
        Command::Pipe(args) => pipe::run(args, stop).await,
        Command::Estimate(args) => estimate::run(args, stop).await,
        Command::Decrypt(args) => {
            let work = tokio::task::spawn_blocking(move || decrypt::run(&args));
            work.await.context("the capture was given up; report this")?
        }
        Command::Id(args) => id::run(&args),
        Command::Generate(args) => generate::run(args, Cli::full_command()),
        Command::Perf(args) => match args.side {
            PerfSide::Server(args) => perf::server::run(args, stop).await,
            PerfSide::Client(args) => perf::client::run(args).await,
            PerfSide::Local(args) => perf::local::run(args).await,
        },
    }
}
