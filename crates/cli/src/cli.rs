//! Command line of the program: every command with its arguments. The module lies above the commands, which do not use it.

use clap::error::ErrorKind;
use clap::{CommandFactory, Error, FromArgMatches, Parser, Subcommand};

use crate::args::{IdArgs, PathArgs, PerfArgs, PerfSide, ReceiveArgs, SendArgs};
use crate::decrypt::args::DecryptArgs;
#[cfg(target_os = "linux")]
use crate::emulate::{self, EmulateArgs};
use crate::estimate::args::EstimateArgs;
use crate::generate::GenerateArgs;
use crate::laboratory;
use crate::pipe::args::{PipeArgs, PipeSide};
use crate::relay::RelayArgs;

/// Move data over lossy and long paths.
#[derive(Debug, Parser)]
#[command(name = "dfcp", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Example:
  there:  dfcp receive --output incoming
  here:   dfcp send film.mkv photos/ there.example --code -

The second command asks for the code which `dfcp receive` prints there. Everything is encrypted and authenticated. If only \
the sender can be called, `dfcp send FILE.. --listen` and `dfcp receive --from HOST` do the same.

Exit codes: 0 everything done and verified, 1 something failed, 2 wrong arguments, 130 interrupted. A listener that is interrupted while \
nobody is being served ends with 0; one for a single peer (--once, `dfcp send --listen`) that has not come, with 130.

Rates are bits of IP packets per second: 20M or 20mbit is 20·10⁶, as in iperf3. Sizes are bytes: 64M or 64MiB is 64·2²⁰, 64MB is 64·10⁶.

DFCP_LOG=debug tells the course of each connection on standard error: calls, keys, moves of the peer, rate and circuit \
breaker, blocks that needed more rounds, streams in sums, and why it ended, with totals. DFCP_LOG=dfcp::session=debug \
tells that alone, DFCP_LOG=dfcp::session=trace also the opening and end of each stream.")]
pub struct Cli {
    /// Print nothing but errors, warnings, codes and results
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of the program. (`lab` and `demo` belong to another program: [`crate::laboratory`].)
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send files and directories to a `dfcp receive`
    Send(SendArgs),
    /// Receive files from `dfcp send`; each appears only after its hash is verified
    Receive(ReceiveArgs),
    /// Relay UDP with loss, delay, jitter, a rate limit and other impairments
    Relay(RelayArgs),
    /// Run any program behind an emulated path
    #[cfg(target_os = "linux")]
    Emulate(EmulateArgs),
    /// First process of an emulation's namespace. `emulate` starts it, and its exit kills the other processes.
    #[cfg(target_os = "linux")]
    #[command(name = emulate::INIT, hide = true)]
    EmulateInit,
    /// Measure a path, like iperf3
    Perf(PerfArgs),
    /// Carry a UDP stream, such as live video, within a deadline
    Pipe(PipeArgs),
    /// Estimate the throughput that a path gives its user, live or from a capture
    Estimate(EstimateArgs),
    /// Decrypt the datagrams in a capture, with a key log
    Decrypt(DecryptArgs),
    /// Show this user's public key, for others to trust
    Id(IdArgs),
    /// Write man pages, and completions for shells
    Generate(GenerateArgs),
}

impl Command {
    /// Returns the path options of the command, if it has them.
    const fn path(&self) -> Option<&PathArgs> {
        match self {
            Self::Send(args) => Some(&args.path),
            Self::Receive(args) => Some(&args.path),
            Self::Perf(PerfArgs { side: PerfSide::Server(args) }) => Some(&args.path),
            Self::Perf(PerfArgs { side: PerfSide::Client(args) }) => Some(&args.path),
            Self::Pipe(PipeArgs { side: PipeSide::Udp(args) }) => Some(&args.path),
            Self::Pipe(PipeArgs { side: PipeSide::Serve(args) }) => Some(&args.path),
            _ => None,
        }
    }
}

impl Cli {
    /// Definition of the command line, with the commands of the laboratory program.
    #[must_use]
    pub fn full_command() -> clap::Command {
        laboratory::added_to(Self::command())
    }

    /// Parses the arguments of this process.
    ///
    /// # Errors
    /// Fails for invalid arguments, or if help was requested.
    pub fn of_command_line() -> Result<Self, Error> {
        Self::from_arg_matches(&Self::full_command().try_get_matches()?)
    }

    /// Checks the arguments whose validity depends on which side opens the connection. For `send`, also moves the
    /// receiver's address from the end of the files into [`SendArgs::to`](crate::args::SendArgs::to).
    ///
    /// # Errors
    /// Fails if arguments contradict each other.
    pub fn checked(mut self) -> Result<Self, Error> {
        let checked = match &mut self.command {
            Command::Send(args) => args.check(),
            Command::Receive(args) => args.check(),
            _ => Ok(()),
        };
        let path = self.command.path();
        checked
            .and_then(|()| path.map_or(Ok(()), PathArgs::check))
            .map(|()| self)
            .map_err(|sentence| Self::command().error(ErrorKind::ArgumentConflict, sentence))
    }
}

#[cfg(test)]
mod tests;
