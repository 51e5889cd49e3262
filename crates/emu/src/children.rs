//! Processes of the namespace: the first one, the server, the command.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd as _;
use std::process::{ChildStdin, Command as StdCommand, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::CapabilitySet;
use tokio::process::{Child, Command};

use crate::device::{FAR, NEAR};
use crate::error::Error;
use crate::limits::{GRACE, KILLED_STEP};
use crate::namespace::{INSIDE, Network, keeping, next_child_is_init};

/// First process of the namespace; dropping it ends all processes there.
#[derive(Debug)]
pub(crate) struct Init {
    /// Pipe to the first process, which exits when the pipe closes, also at the end of this process.
    alive: Option<ChildStdin>,
    child: std::process::Child,
}

impl Init {
    /// Starts the first process, by a command line that calls [`run`](crate::run_init).
    pub(crate) fn start(command: &[OsString]) -> Result<Self, Error> {
        let (program, arguments) = split(command)?;
        next_child_is_init()?;
        let mut command = StdCommand::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = keeping(CapabilitySet::SYS_ADMIN, || command.spawn())?;
        let mut child = child.map_err(|source| Error::Program { program: program.clone(), source })?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| Error::Init(error.to_string()))?;
        }
        let init = Self { alive: child.stdin.take(), child };
        match line.trim() {
            "ready" => Ok(init),
            said if said.starts_with("ready") => {
                tracing::debug!("{said}");
                Ok(init)
            }
            _ => Err(Error::Init("it ended at once".to_owned())),
        }
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        drop(self.alive.take());
        // The first process only has to exit, so this wait is short.
        if let Err(error) = self.child.wait() {
            tracing::debug!(%error, "cannot wait for the first process");
        }
    }
}

/// Program in the namespace; dropping it ends the program.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The first process exits only after all others are reaped, and this process must be reaped here.
        if let Err(error) = self.start_kill() {
            tracing::debug!(%error, "not killed");
        }
        while matches!(self.try_wait(), Ok(None)) {
            std::thread::sleep(KILLED_STEP);
        }
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// Starts a program in a network, with the addresses of both ends in its environment.
pub(crate) fn start(command: &[OsString], network: &Network, is_server: bool) -> Result<Process, Error> {
    let (program, arguments) = split(command)?;
    network.enter()?;
    let mut command = Command::new(program);
    command.args(arguments);
    let (near, far) = (NEAR, FAR);
    command.env("DFCP_NEAR", near.ipv4.to_string()).env("DFCP_FAR", far.ipv4.to_string());
    command.env("DFCP_NEAR6", near.ipv6.to_string()).env("DFCP_FAR6", far.ipv6.to_string());
    if is_server {
        // Standard input and output belong to the command: the server reads nothing, and prints to stderr.
        let error_output = io::stderr().as_fd().try_clone_to_owned().map_err(Error::system("share standard error"))?;
        // A separate process group protects the server from Ctrl-C: only the command gets the signal, and the server is
        // ended afterwards.
        command.stdin(Stdio::null()).stdout(error_output).process_group(0);
    }
    let child = keeping(INSIDE, || command.spawn())?;
    child.map(Process).map_err(|source| Error::Program { program: program.clone(), source })
}

fn split(command: &[OsString]) -> Result<(&OsString, &[OsString]), Error> {
    let none = || Error::Program { program: OsString::new(), source: io::ErrorKind::InvalidInput.into() };
    command.split_first().ok_or_else(none)
}

/// Sends a signal to a process that may have ended.
pub(crate) fn signal(child: &Child, signal: Signal) {
    // The process id is not reused before the process is reaped.
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, signal)) {
        tracing::debug!(%error, ?signal, "not delivered");
    }
}

/// Sends SIGTERM to a process, and waits for its end for a limited time.
pub(crate) async fn end(child: &mut Child) -> Option<ExitStatus> {
    signal(child, Signal::TERM);
    within(GRACE, child).await
}

/// Exit status of a process, if it ends in time.
pub(crate) async fn within(time: Duration, child: &mut Child) -> Option<ExitStatus> {
    tokio::time::timeout(time, child.wait()).await.ok().and_then(Result::ok)
}
