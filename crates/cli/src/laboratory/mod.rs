//! `dfcp lab` and `dfcp demo`: commands of the program `dfcp-lab`, which replaces this process with the same arguments.
//!
//! The program lies beside this one or on PATH. `cargo run` has built only this program, so cargo must build `dfcp-lab`
//! first.

mod cargo;

use std::env;
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use dfcp_terminal::output;
use dfcp_terminal::program::VERSION_VARIABLE;

use self::cargo::Build;

/// Commands of the laboratory program, with their summaries.
const COMMANDS: [(&str, &str); 2] = [
    ("demo", "Send a real file over emulated lossy paths, by DFCP and by QUIC"),
    ("lab", "Reproduce the experiments on the simulator, or run your own"),
];

/// Adds the laboratory commands to `cli`, for help, completions and man pages.
#[must_use]
pub fn added_to(cli: clap::Command) -> clap::Command {
    COMMANDS.into_iter().fold(cli, |cli, (name, about)| {
        let text = format!("The program dfcp-lab has this command: `dfcp {name} --help` tells its options.");
        cli.subcommand(clap::Command::new(name).about(about).after_help(text))
    })
}

/// Returns true if the arguments call a laboratory command, or its help.
#[must_use]
pub fn is_called(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip_while(|word| is_quiet(word));
    let first = words.next();
    let command = if first.is_some_and(|word| word == "help") { words.next() } else { first };
    command.is_some_and(|word| COMMANDS.iter().any(|(name, _)| word == name))
}

fn is_quiet(word: &OsString) -> bool {
    word == "-q" || word == "--quiet"
}

/// Starts the laboratory program with all arguments: on Unix by `exec`, elsewhere as a child whose exit code is returned.
///
/// # Errors
/// Fails if the program is not installed, cannot be built, or does not start.
pub fn start(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let own = env::current_exe().context("cannot find this program, beside which dfcp-lab lies")?;
    let program = match Build::of_cargo(&own) {
        Some(build) => build.run(arguments.first().is_some_and(is_quiet))?,
        None => found(&own)?,
    };
    if let Some(source) = cargo::newer_source(&program) {
        output::always(&format!(
            "dfcp: warning: {} has changed since {} was built; run: cargo build",
            source.display(),
            program.display()
        ));
    }
    let mut command = called(&program);
    command.args(arguments);
    become_it(command).with_context(|| format!("cannot start {}", program.display()))
}

/// Makes the laboratory program, if installed, write its man pages into `directory`.
///
/// # Errors
/// Fails if the program fails.
pub fn write_manual(directory: &Path) -> anyhow::Result<()> {
    let own = env::current_exe().context("cannot find this program, beside which dfcp-lab lies")?;
    let Ok(program) = found(&own) else { return Ok(()) };
    let status = called(&program).arg("man").arg(directory).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(status.success(), "{} has not written its man pages ({status})", program.display());
    Ok(())
}

/// Returns the path of the laboratory program: beside this one, or on PATH.
fn found(own: &Path) -> anyhow::Result<PathBuf> {
    let name = format!("dfcp-lab{EXE_SUFFIX}");
    let directories = env::var_os("PATH").unwrap_or_default();
    // Relative entries of PATH would depend on the current directory.
    let on_path = env::split_paths(&directories).filter(|directory| directory.is_absolute());
    let mut places = [own.with_file_name(&name)].into_iter().chain(on_path.map(|directory| directory.join(&name)));
    let Some(program) = places.find(|place| place.is_file()) else {
        bail!(
            "`dfcp lab` and `dfcp demo` need the program dfcp-lab, which is neither beside {} nor on PATH; install the package \
             dfcp-lab-cli, for example by: cargo install dfcp-lab-cli --locked",
            own.display()
        );
    };
    Ok(program)
}

/// Returns the invocation of the program, which checks that its version equals this one's.
fn called(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env(VERSION_VARIABLE, env!("CARGO_PKG_VERSION"));
    command
}

#[cfg(unix)]
fn become_it(mut command: Command) -> std::io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    // `exec` returns only on failure.
    Err(command.exec())
}

#[cfg(not(unix))]
fn become_it(mut command: Command) -> std::io::Result<ExitCode> {
    // Ctrl-C reaches both programs; this one must outlive its child.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
    let code = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_known_by_their_first_word() {
        let is_called = |line: &str| is_called(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        for line in
            ["lab", "demo", "--quiet lab run S1", "-q demo --size 1MB", "help lab", "-q help demo", "lab --help"]
        {
            assert!(is_called(line), "{line}");
        }
        for line in ["", "-q", "send lab host", "help", "help send lab", "laboratory", "--help lab", "generate"] {
            assert!(!is_called(line), "{line}");
        }
    }
}
