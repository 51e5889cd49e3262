//! A child process with all its descendants: its output is kept in bounds, its time is limited, and nothing of it outlives
//! this program.

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

/// Waits for the end of its input, which comes when this program has ended, however it did: then it kills the group and
/// removes the directory. The parent-death signal of Linux would reach one process, and setting it needs `unsafe`.
const WATCHDOG: &str = r#"read -r group || exit; read -r _; kill -s KILL -- "-$group"; [ -z "$0" ] || rm -rf -- "$0""#;

/// Becomes the program in question, which must not dump a core of the size of a guest's memory.
const LAUNCHER: &str = r#"ulimit -c 0; exec "$0" "$@""#;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It exited by itself.
    Exited(ExitStatus),
    /// It took longer than allowed, and was killed.
    TimedOut,
    /// The caller wanted it to stop, and it was killed.
    Stopped,
}

/// A process and its descendants, in a group of their own.
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
    /// Starts `program` without input. If this program dies before it, then the group is killed and `scratch`, if there is
    /// one, removed. Each piece of output goes to `tell`, too.
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
        // A user-mode kernel calls setsid(), which fails for the leader of a group: so it stays in it.
        command.process_group(0).stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                // It has no group to kill.
                let _ = watchdog.kill().and_then(|()| watchdog.wait());
                return Err(error);
            }
        };
        // Or the writing end of the pipe stays open here.
        drop(command);
        let group = Pid::from_child(&child);
        if let Some(stdin) = &mut watchdog.stdin {
            // Without a watchdog the rest still works.
            let _ = writeln!(stdin, "{}", group.as_raw_nonzero()).and_then(|()| stdin.flush());
        }
        let (ended, has_ended) = mpsc::channel();
        thread::spawn(move || {
            // It stays a zombie, so that its number is not given to another before its group was killed.
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

    /// Waits for the process, and then ends what it has left behind.
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

    /// Kills whatever is alive of the group.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.is_reaped {
            // It fails if no process is left but the zombie.
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        let status = self.child.wait()?;
        self.is_reaped = true;
        // Not by the end of its input: the group's number may soon be another's.
        let _ = self.watchdog.kill().and_then(|()| self.watchdog.wait());
        Ok(status)
    }

    /// The last [`CONSOLE_BYTES_MAX`] bytes of what was printed, to both outputs.
    pub(crate) fn output(&self) -> String {
        // A process which left the group might keep the pipe open.
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
