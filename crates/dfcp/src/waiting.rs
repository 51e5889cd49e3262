//! Waiting of a driver with a thread of its own: by `poll`, for its socket, a wake-up or a timeout.

use std::io;
use std::time::Duration;

use dfcp_time::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::socket::Socket;

/// Events that end the waiting, besides time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Interest {
    /// There is something to receive.
    pub(crate) receive: bool,
    /// There is room to send. The system says so each time that a datagram has left: it is asked only if there was none.
    pub(crate) send: bool,
}

/// The wait of a driver that has nothing to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) interest: Interest,
    /// Time of the last reading of the clock, in this turn.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only the reactor of tokio's reads it, which needs descriptors"))]
    pub(crate) now: Time,
    /// Latest end of the wait, not before `now`.
    pub(crate) until: Time,
}

/// Events that have ended the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) receive: bool,
    pub(crate) send: bool,
}

/// Waits until something is ready, or for `timeout`. From the socket before there is only something to receive.
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
    // An error of the socket's ends every waiting until it has been read.
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

    /// Wakes a thread which waits in `poll`. On Linux it is an eventfd.
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

        /// Clears all wake-ups. Returns whether there was one.
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

    /// Wakes a thread which waits in `poll`. Without eventfd it is a UDP socket which is connected to itself.
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

        /// Clears all wake-ups. Returns whether there was one.
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
