//! A socket which the runtime watches.
//!
//! On Unix it is watched for datagrams alone, and for room to send only while somebody waits for that. The system tells
//! whoever watches for room each time that a datagram has left, which would wake a thread of the runtime for every batch.

use std::io;
use std::net::UdpSocket;

#[cfg(unix)]
pub(crate) use unix::Watched;

#[cfg(not(unix))]
pub(crate) use other::Watched;

#[cfg(unix)]
mod unix {
    use std::sync::{Arc, Mutex, PoisonError, Weak};

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::{UdpSocket, io};

    /// A socket, and what watches it.
    #[derive(Debug)]
    pub(crate) struct Watched {
        io: AsyncFd<UdpSocket>,
        /// Watched for room: there while somebody waits.
        room: Mutex<Weak<AsyncFd<UdpSocket>>>,
    }

    #[expect(deprecated, reason = "its successor is unsafe for types whose descriptor may change; this one's does not")]
    fn watch(socket: UdpSocket, interest: Interest) -> io::Result<AsyncFd<UdpSocket>> {
        AsyncFd::with_interest(socket, interest)
    }

    impl Watched {
        pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
            Ok(Self { io: watch(socket, Interest::READABLE)?, room: Mutex::default() })
        }

        pub(crate) fn socket(&self) -> &UdpSocket {
            self.io.get_ref()
        }

        /// Until there is something to receive.
        pub(crate) async fn readable(&self) -> io::Result<()> {
            self.io.readable().await.map(|mut guard| guard.retain_ready())
        }

        /// Receives, if there may be something.
        pub(crate) fn try_receive<T>(&self, receive: impl FnOnce(&UdpSocket) -> io::Result<T>) -> io::Result<T> {
            self.io.try_io(Interest::READABLE, receive)
        }

        /// Sends; `WouldBlock` if there is no room.
        pub(crate) fn try_send<T>(&self, send: impl FnOnce(&UdpSocket) -> io::Result<T>) -> io::Result<T> {
            send(self.io.get_ref())
        }

        /// Until there may be room to send.
        pub(crate) async fn writable(&self) -> io::Result<()> {
            let room = self.watch_for_room()?;
            // Whoever comes next must wait again if there is none.
            room.writable().await?.clear_ready();
            Ok(())
        }

        fn watch_for_room(&self) -> io::Result<Arc<AsyncFd<UdpSocket>>> {
            let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(watched) = room.upgrade() {
                return Ok(watched);
            }
            let socket = self.io.get_ref().try_clone()?;
            let watched = Arc::new(watch(socket, Interest::WRITABLE)?);
            *room = Arc::downgrade(&watched);
            Ok(watched)
        }
    }
}

#[cfg(not(unix))]
mod other {
    use tokio::io::Interest;

    use super::{UdpSocket, io};

    /// A socket, and what watches it.
    #[derive(Debug)]
    pub(crate) struct Watched {
        io: tokio::net::UdpSocket,
        socket: UdpSocket,
    }

    impl Watched {
        pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
            Ok(Self { io: tokio::net::UdpSocket::from_std(socket.try_clone()?)?, socket })
        }

        pub(crate) fn socket(&self) -> &UdpSocket {
            &self.socket
        }

        /// Until there is something to receive.
        pub(crate) async fn readable(&self) -> io::Result<()> {
            self.io.readable().await
        }

        /// Receives, if there may be something.
        pub(crate) fn try_receive<T>(&self, receive: impl FnOnce(&UdpSocket) -> io::Result<T>) -> io::Result<T> {
            self.io.try_io(Interest::READABLE, || receive(&self.socket))
        }

        /// Sends; `WouldBlock` if there is no room.
        pub(crate) fn try_send<T>(&self, send: impl FnOnce(&UdpSocket) -> io::Result<T>) -> io::Result<T> {
            self.io.try_io(Interest::WRITABLE, || send(&self.socket))
        }

        /// Until there may be room to send.
        pub(crate) async fn writable(&self) -> io::Result<()> {
            self.io.writable().await
        }
    }
}
