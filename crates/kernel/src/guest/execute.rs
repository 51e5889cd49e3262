//! Execution of the user's commands between two hosts.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use dfcp_flows::Clock;
use dfcp_lab::scenario::{Layout, Scenario};
use dfcp_sim::Node;
use tokio::task::spawn_blocking;

use super::experiment::{add_nats, make_change, rebinds};
use super::init::{JOB_DIR, mount_writable};
use super::network::Network;
use super::tuning;
use crate::job::{Commands, OUTPUT_FILES};

/// Runs `commands` at the hosts of the first flow of `scenario`, while the scenario's changes are applied. Returns the status of the
/// sender's command.
///
/// # Errors
/// Fails with one sentence about the failed set-up or run.
pub(super) async fn run(scenario: &Scenario, seed: u64, commands: &Commands) -> Result<i32, String> {
    let layout = Layout::of(scenario)?;
    let mut network = Network::build(&layout, seed).map_err(|error| error.to_string())?;
    tuning::apply(&mut network, &layout, scenario)?;
    add_nats(&mut network, &layout, scenario)?;
    mount_writable(&commands.directory)
        .map_err(|error| format!("cannot mount {}: {error}", commands.directory.display()))?;
    let &(sender, receiver) =
        layout.hosts.first().ok_or("the plan has no flow between whose hosts a command could run")?;
    let [stdout, stderr, peer_output] = OUTPUT_FILES;
    let run = |at: Node, other: Node, mut command: Command, outputs: [&str; 2]| {
        command
            .current_dir(&commands.directory)
            // The user's own files are read-only here.
            .env("HOME", "/tmp")
            .env("DFCP_HERE", network.address(at).to_string())
            .env("DFCP_PEER", network.address(other).to_string())
            .stdin(Stdio::null());
        let name = command.get_program().to_string_lossy().into_owned();
        let started = outputs.map(output).into_iter().collect::<io::Result<Vec<File>>>().and_then(|mut files| {
            let (stderr, stdout) = (files.pop(), files.pop());
            command.stdout(stdout.map_or_else(Stdio::null, Stdio::from));
            command.stderr(stderr.map_or_else(Stdio::null, Stdio::from));
            network.enter(at, || command.spawn()).map_err(io::Error::other)?
        });
        started.map_err(|error| format!("cannot run {name}: {error}"))
    };
    let peer = match &commands.peer {
        Some(line) => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", line]);
            Some(run(receiver, sender, shell, [peer_output; 2])?)
        }
        None => None,
    };
    let [program, arguments @ ..] = &commands.command[..] else { return Err("there is no command to run".to_owned()) };
    let peer_address = network.address(receiver).to_string();
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| argument.replace("$DFCP_PEER", &peer_address)));
    let command = run(sender, receiver, command, [stdout, stderr])?;
    let status = tokio::select! {
        status = ended(command) => status,
        error = changes(&mut network, &layout, scenario) => return Err(error),
    };
    if let Some(mut peer) = peer {
        // A command that has ended cannot be killed; everything else ends with the machine.
        let _ = peer.kill();
    }
    let status = status.map_err(|error| format!("cannot wait for {program}: {error}"))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn output(name: &str) -> io::Result<File> {
    File::options().create(true).append(true).open(Path::new(JOB_DIR).join(name))
}

async fn ended(mut command: Child) -> io::Result<ExitStatus> {
    spawn_blocking(move || command.wait()).await.map_err(io::Error::other)?
}

/// Applies the changes of `scenario` and the port changes of its senders; returns only if one of them fails.
async fn changes(network: &mut Network, layout: &Layout, scenario: &Scenario) -> String {
    let clock = Clock::start();
    let mut changes = scenario.changes.iter().peekable();
    let mut rebinds = rebinds(layout, scenario).into_iter().peekable();
    loop {
        let next_change_ns = changes.peek().map(|change| change.at_ns);
        let next_rebind_ns = rebinds.peek().map(|(at_ns, _)| *at_ns);
        let Some(now_ns) = next_change_ns.into_iter().chain(next_rebind_ns).min() else { break };
        let at = match clock.alarm() {
            Ok(mut alarm) => tokio::select! {
                at = alarm.until(now_ns) => at,
                error = network.nat_failed() => return error.to_string(),
            },
            Err(error) => Err(error),
        };
        if let Err(error) = at {
            return format!("cannot wait for a change of the network: {error}");
        }
        while let Some(change) = changes.next_if(|change| change.at_ns <= now_ns) {
            if let Err(error) = make_change(network, layout, scenario, change) {
                return error;
            }
        }
        while let Some((_, host)) = rebinds.next_if(|(at_ns, _)| *at_ns <= now_ns) {
            if let Err(error) = network.rebind(host) {
                return error.to_string();
            }
        }
    }
    network.nat_failed().await.to_string()
}
