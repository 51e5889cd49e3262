//! `dfcp emulate`: runs a program behind an emulated path, by the crate `dfcp-emu`.

mod summary;

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use dfcp_emu::{Emulation, Error, FarEnd, PathConfig};

use crate::args::{LinkArgs, Path};
use crate::{output, units};
use summary::Summary;

/// Hidden command by which the program starts the namespace's first process.
pub const INIT: &str = "emulate-init";

/// Exit code if `dfcp emulate` itself failed, as for `timeout` and `env`.
pub const EXIT_FAILURE: u8 = 125;
/// Exit code if COMMAND cannot be run.
const EXIT_CANNOT_RUN: u8 = 126;
/// Exit code if COMMAND does not exist.
const EXIT_NOT_FOUND: u8 = 127;

/// A path between COMMAND and a server.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
COMMAND runs in a network of its own (near: 198.18.0.1 and 2001:2::1) from which the emulated path leads to another \
one (far: 198.18.0.2 and 2001:2::2), where the server runs. TCP is this machine's own. Other networks can be reached with --outside alone. \
Root is not needed where user namespaces are allowed. Up is from COMMAND to the other network. Times of --outage, --rebind and \
traces count from the start of COMMAND on.

Examples: TCP on a path of 50 Mbit/s and 40 ms of round-trip time that loses every hundredth packet; a shell beside a web server; round-trip \
times beside a download, with a queue that keeps itself short; a line of 50 Mbit/s down and 5 up that fails after 10 s
  dfcp emulate --rate 50mbit --delay 20ms --loss 1% --server 'iperf3 -s' -- iperf3 -c 198.18.0.2
  dfcp emulate --delay 100ms --server 'python3 -m http.server 80' -- bash
  sudo dfcp emulate --delay 300ms --loss 2% --outside -- curl -O http://there.example/film.mkv
  dfcp emulate --rate 9mbit --queue fq-codel --server 'iperf3 -s' -- sh -c 'iperf3 -c $DFCP_FAR & ping -c 9 $DFCP_FAR; wait'
  dfcp emulate --rate 50mbit --up-rate 5mbit --delay 15ms --outage 10s:2s --server 'iperf3 -s' -- iperf3 -c 198.18.0.2 -R -t 20

COMMAND and the server find the addresses in the environment: DFCP_NEAR, DFCP_FAR, and for IPv6 DFCP_NEAR6, DFCP_FAR6. COMMAND \
starts when the server listens, or after 2 s. When it ends, all processes inside end, and when this command ends in whatever way, too. They see the \
files of this machine, but only their own processes, and may change their own networks (ip, sysctl net.*, tcpdump).

At the end, standard error tells what became of the packets, and how late they left: a busy machine cannot keep up with every path. \
A warning says if more than one of a hundred left more than 0.5 ms too late. Root's emulations, and those of users with a limit for real-time \
priority (ulimit -r), go before other programs.

Exit codes: that of COMMAND, or 128 and the number of the signal that ended it; 125 the emulation failed, 126 COMMAND or the server cannot be \
run, 127 there is no such program.")]
pub struct EmulateArgs {
    /// Properties of the emulated link.
    #[command(flatten)]
    pub link: LinkArgs,

    /// A command line for the shell, run at the far end; its output goes to standard error
    #[arg(long, value_name = "COMMAND LINE")]
    pub server: Option<OsString>,

    /// Connect the path to this machine's network instead of a separate one, by NAT (nft): COMMAND reaches this machine at 198.18.0.2, and
    /// over IPv4 everything that this machine can reach, if forwarding is on. Needs root; one at a time
    #[arg(long, conflicts_with = "server")]
    pub outside: bool,

    /// Send packets together that are due within this time, as network cards do to save CPU: the first is delayed by up to this. 0ms sends
    /// each at its own time
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0.1ms")]
    pub coalesce: Duration,

    /// Seed of the random events, to repeat an earlier run [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Print the summary as JSON, as the last line on standard output
    #[arg(long)]
    pub json: bool,

    /// The program to run, and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<OsString>,
}

/// Runs the command and prints the summary. The process must be single-threaded at this point.
///
/// # Errors
/// Fails if no loss process has the requested loss and burst length.
pub fn run(args: &EmulateArgs) -> anyhow::Result<ExitCode> {
    let Path { links, schedule } = args.link.path()?;
    let [forward, backward] = links.map(|link| PathConfig { link, patience: args.coalesce });
    // A seed of 32 bits tells runs apart and is short to type.
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one("emulate") >> 32);
    let emulation = Emulation {
        command: args.command.clone(),
        far: if args.outside {
            FarEnd::Outside
        } else {
            FarEnd::Network(args.server.clone().map(|line| vec!["sh".into(), "-c".into(), line]))
        },
        forward,
        backward,
        schedule,
        seed,
        init: vec!["/proc/self/exe".into(), INIT.into()],
    };
    if args.outside && !dfcp_emu::is_forwarding() {
        output::always(
            "dfcp: this machine passes no packets on, so only itself can be reached; `sysctl net.ipv4.ip_forward=1` opens the rest",
        );
    }
    let outcome = match emulation.run() {
        Ok(outcome) => outcome,
        Err(error) => {
            output::always(&format!("dfcp: {error}"));
            return Ok(ExitCode::from(failure(&error)));
        }
    };
    if let Some(status) = outcome.server_status.filter(|status| !status.success()) {
        output::always(&format!("dfcp: the server failed before the command ended ({status})"));
    }
    let summary = Summary::new(&outcome, seed);
    for line in summary.warnings() {
        output::always(&format!("dfcp: warning: {line}"));
    }
    if args.json {
        output::json(&serde_json::to_value(&summary)?);
    } else {
        output::note(&format!("dfcp: {} (seed {seed})", args.link));
        for line in summary.lines() {
            output::note(&format!("dfcp: {line}"));
        }
    }
    Ok(ExitCode::from(exit_code(outcome.status)))
}

/// Acts as the first process of the namespace.
///
/// # Errors
/// Fails if the process could not start.
pub fn init() -> anyhow::Result<ExitCode> {
    dfcp_emu::run_init()?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: &Error) -> u8 {
    match error {
        Error::Program { source, .. } if source.kind() == std::io::ErrorKind::NotFound => EXIT_NOT_FOUND,
        Error::Program { .. } => EXIT_CANNOT_RUN,
        _ => EXIT_FAILURE,
    }
}

/// Returns the exit code that a shell would derive: 128 plus the number of a signal.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
        let program = |kind: std::io::ErrorKind| Error::Program { program: "x".into(), source: kind.into() };
        assert_eq!(failure(&program(std::io::ErrorKind::NotFound)), 127);
        assert_eq!(failure(&program(std::io::ErrorKind::PermissionDenied)), 126);
        assert_eq!(failure(&Error::NoTun), 125);
    }
}
