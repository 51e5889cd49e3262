//! Waiting of a driver that has its own thread: `poll` on its socket and its waker, with a timeout.

use std::io;
use std::time::Duration;

use dfcp_time::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::socket::Socket;

/// Events that end the wait early.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Interest {
    /// Wait for received datagrams.
    pub(crate) receive: bool,
    /// Wait for room to send. Set only after the socket was full: the system signals room each time a datagram has
    /// left.
    pub(crate) send: bool,
}

/// Parameters of an idle driver's wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) interest: Interest,
    /// Last reading of the clock, in this turn.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only the reactor of tokio's reads it, which needs descriptors"))]
    pub(crate) now: Time,
    /// Latest end of the wait; never before `now`.
    pub(crate) until: Time,
}

/// Events that have ended the wait. Both are false after a mere wake-up or timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) receive: bool,
    pub(crate) send: bool,
}

/// Waits until an event of `interest` or a wake-up, or for `timeout`. The `previous` socket, from before a rebind, is
/// polled for received datagrams only.
pub(crate) fn wait(
    (socket, previous): (&Socket, Option<&Socket>),
    waker: &PollWaker,
    interest: Interest,
    timeout: Duration,
) -> io::Result<Ready> {
    let mut wanted = PollFlags::empty();
    wanted.set(PollFlags::IN, interest.receive);
    wanted.set(PollFlags::OUT, interest.send);
    let older = previous.filter(|_| interest.receive);
    let mut all = [
        PollFd::new(waker.descriptor(), PollFlags::IN),
        PollFd::new(socket.descriptor(), wanted),
        PollFd::new(older.unwrap_or(socket).descriptor(), PollFlags::IN),
    ];
    // A pending error of the socket would end every poll until it is read. So the socket is polled only if an event of
    // it is wanted.
    let watched = if wanted.is_empty() { 1 } else { 2 + usize::from(older.is_some()) };
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    poll(all.get_mut(..watched).unwrap_or_default(), Some(&timeout))?;
    let [woken, socket, older] = all.map(|one| one.revents());
    if !woken.is_empty() {
        waker.clear();
    }
    let failed = PollFlags::ERR | PollFlags::HUP;
    Ok(Ready {
        receive: interest.receive && (socket | older).intersects(PollFlags::IN | failed),
        send: interest.send && socket.intersects(PollFlags::OUT | failed),
    })
}

pub(crate) use poll_waker::PollWaker;

#[cfg(target_os = "linux")]
mod poll_waker {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::event::{EventfdFlags, eventfd};

    /// Wakes a thread that waits in `poll`. On Linux it is an eventfd.
    #[derive(Debug)]
    pub(crate) struct PollWaker(OwnedFd);

    impl PollWaker {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
        }

        pub(crate) fn wake(&self) {
            if let Err(error) = rustix::io::write(&self.0, &1_u64.to_ne_bytes()) {
                tracing::debug!(%error, "no wake-up: the thread wakes later, for a timer");
            }
        }

        /// Clears all wake-ups. Returns true if there was one.
        pub(crate) fn clear(&self) -> bool {
            rustix::io::read(&self.0, &mut [0; 8]).is_ok()
        }

        pub(super) fn descriptor(&self) -> &OwnedFd {
            &self.0
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod poll_waker {
    use std::io;
    use std::net::{Ipv4Addr, UdpSocket};

    /// Wakes a thread that waits in `poll`. Without eventfd it is a UDP socket connected to itself.
    #[derive(Debug)]
    pub(crate) struct PollWaker(UdpSocket);

    impl PollWaker {
        pub(crate) fn new() -> io::Result<Self> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(socket.local_addr()?)?;
            socket.set_nonblocking(true)?;
            Ok(Self(socket))
        }

        pub(crate) fn wake(&self) {
            if let Err(error) = self.0.send(&[0]) {
                tracing::debug!(%error, "no wake-up: the socket is full of them, or the thread wakes later, for a timer");
            }
        }

        /// Clears all wake-ups. Returns true if there was one.
        pub(crate) fn clear(&self) -> bool {
            let mut any = false;
            while self.0.recv(&mut [0]).is_ok() {
                any = true;
            }
            any
        }

        pub(super) fn descriptor(&self) -> &UdpSocket {
            &self.0
        }
    }
}
