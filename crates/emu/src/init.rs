//! First process of the namespace: it exits when the emulator does, which ends all other processes there.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rustix::event::{PollFd, PollFlags, poll};

use crate::namespace::mount_proc;

/// Runs as the first process of a namespace until standard input, a pipe from the emulator, ends. Reports on standard output that it is
/// ready.
///
/// # Errors
/// Fails, before any output, if it could not start.
pub fn run() -> io::Result<()> {
    // In another process, this would mount a second /proc for everybody.
    if std::process::id() != 1 {
        return Err(io::Error::other("this is a part of `dfcp emulate`, which calls it by itself"));
    }
    // Some containers reserve this mount for programs that see all of /proc; programs then see outside process numbers, but cannot reach
    // those processes.
    let proc = mount_proc();
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block()?;
    let ended = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let mut out = io::stdout().lock();
    match proc {
        Ok(()) => writeln!(out, "ready")?,
        Err(error) => writeln!(out, "ready, but /proc could not be mounted: {error}")?,
    }
    out.flush()?;
    let emulator = io::stdin();
    loop {
        let mut events =
            [PollFd::from_borrowed_fd(emulator.as_fd(), PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut events, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !events[0].revents().is_empty() {
            return Ok(());
        }
        while ended.read_signal()?.is_some() {}
        reap();
    }
}

/// Reaps orphaned processes.
fn reap() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}
