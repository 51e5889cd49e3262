//! The first process of the namespace: it ends, and with it all others there, when the emulator does.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rustix::event::{PollFd, PollFlags, poll};

use crate::namespace::mount_proc;

/// Serves as the first process of a namespace until standard input ends, which is a pipe of the emulator's. Says on standard output
/// that it is ready.
///
/// # Errors
/// It could not start; nothing has been written then.
pub fn run() -> io::Result<()> {
    // Elsewhere it would mount a second /proc for everybody.
    if std::process::id() != 1 {
        return Err(io::Error::other("this is a part of `dfcp emulate`, which calls it by itself"));
    }
    // If the kernel reserves this mount for programs that see all of /proc, as in some containers, programs see the numbers of
    // processes outside. They cannot reach these.
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

/// Takes leave of processes whose parents have ended before them.
fn reap() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}
