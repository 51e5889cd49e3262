//! Waiting of a driver that is a task: on tokio's reactor, for its socket, a wake-up or a timeout.

mod timer;

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use tokio::io::Interest as Watch;
use tokio::io::unix::AsyncFd;

use crate::clock::Clock;
use crate::socket::Socket;
use crate::waiting::{Ready, Rest};
use crate::wake_queue::WakeQueue;
use timer::Timer;

/// A socket registered with the runtime's reactor.
#[derive(Debug)]
pub(super) struct Arrivals {
    arrivals: AsyncFd<UdpSocket>,
    socket: Arc<UdpSocket>,
}

impl Arrivals {
    /// Registers `socket`. Must be called within the runtime.
    pub(super) fn of(socket: &Socket) -> io::Result<Self> {
        let clone = || socket.descriptor().try_clone();
        Ok(Self { arrivals: watch(clone()?, Watch::READABLE)?, socket: Arc::new(clone()?) })
    }
}

/// A driver's socket, its old socket after a rebind, and a timer, all registered with the runtime's reactor.
#[derive(Debug)]
pub(super) struct TokioReactor {
    current: Arrivals,
    previous: Option<Arrivals>,
    timer: Timer,
}

#[expect(deprecated, reason = "its successor is unsafe for types whose descriptor may change; this one's does not")]
fn watch<T: std::os::fd::AsRawFd>(inner: T, interest: Watch) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(inner, interest)
}

impl TokioReactor {
    /// Registers `socket` and a new timer of `clock`. Must be called within the runtime.
    pub(super) fn new(socket: &Socket, clock: Clock) -> io::Result<Self> {
        Ok(Self { current: Arrivals::of(socket)?, previous: None, timer: Timer::new(clock)? })
    }

    /// Changes to another socket. The driver still receives from the old one.
    pub(super) fn go_over(&mut self, arrivals: Arrivals) {
        self.previous = Some(std::mem::replace(&mut self.current, arrivals));
    }

    /// Drops the old socket, from which the driver no longer receives.
    pub(super) fn forget_previous(&mut self) {
        self.previous = None;
    }

    /// Waits until the socket is ready, the driver is woken, or `until`.
    pub(super) async fn wait(&mut self, wake_queue: &WakeQueue, rest: Rest) -> Ready {
        let Rest { interest, now, until } = rest;
        // Errors are ignored here: they appear again, and are handled, in the next receive or send call.
        tokio::select! {
            biased;
            () = wake_queue.woken() => Ready::default(),
            () = arrive(Some(&self.current)), if interest.receive => Ready { receive: true, send: false },
            () = arrive(self.previous.as_ref()), if interest.receive && self.previous.is_some() => {
                Ready { receive: true, send: false }
            }
            () = have_room(&self.current.socket), if interest.send => Ready { receive: false, send: true },
            () = self.timer.wait(now, until) => Ready::default(),
        }
    }
}

/// Waits for received datagrams. Before the next call, the socket must be read until it is empty.
async fn arrive(arrivals: Option<&Arrivals>) {
    let Some(Arrivals { arrivals, .. }) = arrivals else { return };
    if let Ok(mut guard) = arrivals.readable().await {
        guard.clear_ready();
    }
}

/// Waits for room to send. The socket is registered only during a wait: otherwise the system would signal room each
/// time a datagram has left.
async fn have_room(socket: &Arc<UdpSocket>) {
    match watch(Arc::clone(socket), Watch::WRITABLE) {
        Ok(watched) => drop(watched.writable().await),
        // The system can register no more: the driver tries again after [`crate::limits::BLOCKED_MAX`].
        Err(_) => std::future::pending().await,
    }
}
