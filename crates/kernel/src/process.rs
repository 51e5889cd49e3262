//! A child process with all its descendants: with bounded output and time, and never outliving this program.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::console::Tail;
use crate::limits::{CONSOLE_DRAIN, STOP_POLL};

/// Watchdog script: waits for the end of its input, which occurs when this program ends for any reason, then kills the process group and
/// removes the directory. Linux's parent-death signal would reach one process only, and setting it requires `unsafe`.
const WATCHDOG: &str = r#"read -r group || exit; read -r _; kill -s KILL -- "-$group"; [ -z "$0" ] || rm -rf -- "$0""#;

/// Launcher script: disables core dumps (a dump would have the size of a guest's memory), then executes the program.
const LAUNCHER: &str = r#"ulimit -c 0; exec "$0" "$@""#;

/// Way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The process exited.
    Exited(ExitStatus),
    /// The process exceeded its time limit, and was killed.
    TimedOut,
    /// The process was stopped by the caller, and killed.
    Stopped,
}

/// A process and its descendants, in a process group of their own.
#[derive(Debug)]
pub(crate) struct Supervised {
    child: Child,
    group: Pid,
    watchdog: Child,
    has_ended: Receiver<()>,
    output: Tail,
    is_drained: Receiver<()>,
    is_reaped: bool,
}

impl Supervised {
    /// Starts `program` without input. If this program ends first, the group is killed and `scratch`, if given, is removed. Each piece of
    /// output is passed to `tell` as well.
    pub(crate) fn start(
        program: &Path,
        set: impl FnOnce(&mut Command),
        scratch: Option<&Path>,
        mut tell: impl FnMut(&[u8]) + Send + 'static,
    ) -> io::Result<Self> {
        let mut watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG])
            .arg(scratch.unwrap_or_else(|| Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let (mut reader, writer) = io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", LAUNCHER]).arg(program);
        set(&mut command);
        // A user-mode kernel calls setsid(), which fails for the leader of a group: so it stays in the group.
        command.process_group(0).stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                // The watchdog has no group to kill yet.
                let _ = watchdog.kill().and_then(|()| watchdog.wait());
                return Err(error);
            }
        };
        // Otherwise the writing end of the pipe would stay open here.
        drop(command);
        let group = Pid::from_child(&child);
        if let Some(stdin) = &mut watchdog.stdin {
            // Without the watchdog everything else still works.
            let _ = writeln!(stdin, "{}", group.as_raw_nonzero()).and_then(|()| stdin.flush());
        }
        let (ended, has_ended) = mpsc::channel();
        thread::spawn(move || {
            // The process stays a zombie, so that its number is not reused before its group is killed.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(group), options), Err(Errno::INTR)) {}
            let _ = ended.send(());
        });
        let output = Tail::default();
        let (drained, is_drained) = mpsc::channel();
        let tail = output.clone();
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            loop {
                match reader.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => {
                        tail.add(&buffer[..length]);
                        tell(&buffer[..length]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            let _ = drained.send(());
        });
        Ok(Self { child, group, watchdog, has_ended, output, is_drained, is_reaped: false })
    }

    /// Waits for the process, and then kills remaining descendants.
    pub(crate) fn wait(&mut self, limit: Option<Duration>, stop: &AtomicBool) -> io::Result<Ending> {
        let start = Instant::now();
        let killed_as = loop {
            let left = limit.map_or(STOP_POLL, |limit| limit.saturating_sub(start.elapsed()).min(STOP_POLL));
            match self.has_ended.recv_timeout(left) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => break Some(Ending::Stopped),
                Err(RecvTimeoutError::Timeout) if limit.is_some_and(|limit| start.elapsed() >= limit) => {
                    break Some(Ending::TimedOut);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let status = self.end()?;
        Ok(killed_as.unwrap_or(Ending::Exited(status)))
    }

    /// Kills all living processes of the group.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.is_reaped {
            // The call fails if only the zombie is left.
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        let status = self.child.wait()?;
        self.is_reaped = true;
        // The watchdog is killed. If its input were closed instead, it would kill the group, whose number may soon be
        // reused.
        let _ = self.watchdog.kill().and_then(|()| self.watchdog.wait());
        Ok(status)
    }

    /// Last [`CONSOLE_BYTES_MAX`] bytes of both outputs.
    pub(crate) fn output(&self) -> String {
        // A process that left the group might keep the pipe open.
        let _ = self.is_drained.recv_timeout(CONSOLE_DRAIN);
        self.output.text()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.end();
        }
    }
}
