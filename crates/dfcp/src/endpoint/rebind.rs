//! Sockets of the application, and replacing the socket under live connections.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, MutexGuard, PoisonError};

use dfcp_proto::{Accept, State};
use dfcp_time::Time;

use super::datagram_receiver::DatagramReceiver;
use super::network_namespace::NetworkNamespace;
#[cfg(unix)]
use super::tokio_reactor::Arrivals;
use super::{Endpoint, EndpointShared, task_runtime};
use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::socket::Socket;

/// A socket of an endpoint, and the data that the endpoint's driver needs to adopt this socket.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) socket: Arc<Socket>,
    /// Network namespace of the socket. `None` if it is unknown, because the application has made the socket.
    pub(super) namespace: Option<NetworkNamespace>,
    /// Registration with the runtime, until a driver that runs as a task has adopted this socket.
    #[cfg(unix)]
    pub(super) arrivals: Option<Arrivals>,
}

impl Bound {
    pub(super) fn to(carrier: Carrier, address: SocketAddr) -> io::Result<Self> {
        Ok(Self::new(Socket::bind(carrier, address)?, Some(NetworkNamespace::of_this_thread())))
    }

    fn adopt(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self::new(Socket::adopt(socket)?, None))
    }

    fn new(socket: Socket, namespace: Option<NetworkNamespace>) -> Self {
        Self {
            socket: Arc::new(socket),
            namespace,
            #[cfg(unix)]
            arrivals: None,
        }
    }
}

/// The replaced socket after a rebind. Until the time `until`, the driver still receives datagrams from it.
#[derive(Debug)]
pub(super) struct Previous {
    pub(super) socket: Arc<Socket>,
    pub(super) receiver: DatagramReceiver,
    pub(super) until: Time,
}

impl Endpoint {
    /// Makes an endpoint on a UDP socket that the application has made and bound (`std`'s, tokio's by `into_std`, or a
    /// `socket2::Socket`). This permits settings that [`bind`](Self::bind) lacks: buffer sizes, `SO_MARK`, a device,
    /// `SO_REUSEPORT`, or a port below 1024 for a process that has dropped its privileges. With `None` the endpoint
    /// only opens connections.
    ///
    /// Settings of the application stay, including a DSCP set by `IP_TOS` or `IPV6_TCLASS`, which applies to all
    /// connections whose configuration has none. The endpoint makes the socket non-blocking, enables the reports of
    /// addresses, ECN marks and joined datagrams (GRO), and forbids fragmentation. It does not enlarge buffers: `bind`
    /// requests 8 MiB each, and small buffers lose datagrams at high rates. Clones of the descriptor (`try_clone`)
    /// share all these settings, and must not be read.
    ///
    /// - An IPv6 socket reaches IPv4 peers only without `IPV6_V6ONLY`.
    /// - Closed ports and missing routes are not detected, as a probe would lack the socket's mark, device and network
    ///   namespace. [`connect`](Self::connect) then takes the whole connect timeout.
    /// - With `SO_REUSEPORT` the system chooses one of the port's sockets by the peer's address. If the peer has moved,
    ///   or a socket was bound or closed, a datagram may arrive at an endpoint that does not have its connection. This
    ///   endpoint drops the datagram without an answer. If this persists, the connection ends with
    ///   [`TimedOut`](crate::ConnectionError::TimedOut), and a connection attempt with
    ///   [`HandshakeTimeout`](crate::ConnectionError::HandshakeTimeout). Steer datagrams by connection id with your own
    ///   filter (`SO_ATTACH_REUSEPORT_CBPF`), or use one endpoint, from whose clones any number of threads may accept.
    ///
    /// # Errors
    /// `InvalidInput` if the socket is no UDP socket over IP, is not bound, or is connected; otherwise same as
    /// [`bind`](Self::bind). The socket is closed after an error.
    ///
    /// # Panics
    /// Same as [`bind`](Self::bind).
    ///
    /// ```
    /// use std::net::UdpSocket;
    ///
    /// use dfcp::{Config, Endpoint};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_ttl(3)?; // at most three hops
    /// let endpoint = Endpoint::with_socket(socket, Some(Config::server(dfcp::generate_key()?).into()))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_socket(socket: impl Into<UdpSocket>, accept: Option<Accept>) -> io::Result<Self> {
        Self::driven(task_runtime(), Clock::start(), Bound::adopt(socket.into())?, accept)
    }

    /// Like [`with_socket`](Self::with_socket), but always driven by a thread: the caller may block the runtime's
    /// thread.
    pub(crate) fn with_socket_and_thread(socket: UdpSocket, accept: Option<Accept>) -> io::Result<Self> {
        Self::driven(None, Clock::start(), Bound::adopt(socket)?, accept)
    }

    /// Replaces the UDP socket under live connections, for example when the machine has changed its network. All
    /// datagrams leave from the new socket immediately, including pending ones. Each peer sees the new address,
    /// validates it, and goes on. The old socket is still read for 3 s, and then closed. The rules of
    /// [`with_socket`](Self::with_socket) also apply to the new socket.
    ///
    /// If the new socket has another IP address, the path estimates (rate, round-trip time, loss, packet size) start
    /// anew. With the same address, or an unspecified one, they are kept. A handshake in progress goes on from the new
    /// socket.
    ///
    /// Plaintext and classic connections cannot move: their peers keep sending to the old address. Unless the new
    /// socket has the same address, such a connection ends with [`TimedOut`](crate::ConnectionError::TimedOut).
    ///
    /// # Errors
    /// After an error, the old socket stays in use, and the new one is closed:
    /// - the errors of [`with_socket`](Self::with_socket);
    /// - `InvalidInput` if the new socket cannot reach the peer of a live connection, like an IPv4 socket for IPv6
    ///   peers, or if the endpoint runs directly over IP, where [`rebind_to`](Self::rebind_to) must be used;
    /// - `NotConnected` if the endpoint has lost its driver.
    pub fn rebind(&self, socket: impl Into<UdpSocket>) -> io::Result<()> {
        let shared = &self.user.shared;
        if shared.socket().carrier() != Carrier::Udp {
            let sentence = "this endpoint runs directly over IP: name an address by `rebind_to` instead";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        shared.go_over(Bound::adopt(socket.into())?)
    }

    /// Like [`rebind`](Self::rebind), to a new socket of the same carrier, bound to `addr` like by
    /// [`bind_over`](Self::bind_over). Over UDP, port 0 lets the system choose. The old socket still occupies its port:
    /// to keep that port, use [`rebind`](Self::rebind) with a socket that shares it by `SO_REUSEPORT`, set on both
    /// sockets. Directly over IP the endpoint keeps its port, and `addr` must have that port or 0.
    ///
    /// # Errors
    /// The errors of [`rebind`](Self::rebind) and [`bind_over`](Self::bind_over). After an error, the old socket stays
    /// in use.
    ///
    /// ```
    /// # use dfcp::{Config, Endpoint};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let key = dfcp::generate_key()?;
    /// # let client = Config::client(key.public());
    /// # let server = Endpoint::bind(([127, 0, 0, 1], 0).into(), Some(Config::server(key).into()))?;
    /// let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("an address"), None)?;
    /// let stream = endpoint.connect(server.local_addr(), client).await?;
    /// let before = stream.local_addr();
    /// endpoint.rebind_to("127.0.0.1:0".parse().expect("an address"))?;
    /// assert_eq!(endpoint.local_addr().ip(), before.ip());
    /// assert_ne!(endpoint.local_addr().port(), before.port());
    /// # Ok(())
    /// # }
    /// ```
    pub fn rebind_to(&self, addr: SocketAddr) -> io::Result<()> {
        let shared = &self.user.shared;
        let socket = shared.socket().bind_successor(addr)?;
        shared.go_over(Bound::new(socket, Some(NetworkNamespace::of_this_thread())))
    }
}

impl EndpointShared {
    pub(super) fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the socket that the driver uses or will use in its next turn.
    pub(crate) fn socket(&self) -> Arc<Socket> {
        Arc::clone(&self.bound().socket)
    }

    /// Checks that the socket in `bound` can serve all connections, and makes the driver adopt this socket.
    fn go_over(&self, bound: Bound) -> io::Result<()> {
        let connections = {
            let table = self.table();
            if table.backlog.is_none() {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "nothing drives this endpoint any more"));
            }
            table.connections.clone()
        };
        #[cfg(unix)]
        let bound = match &self.runtime {
            Some(runtime) => {
                let _within = runtime.enter();
                Bound { arrivals: Some(Arrivals::of(&bound.socket)?), ..bound }
            }
            None => bound,
        };
        let is_left_behind = |connection: &&Arc<crate::connection::Shared>| {
            let (state, remote) = connection.read(|it| (it.state(), it.remote()));
            !matches!(state, State::TimeWait | State::Closed) && !bound.socket.reaches(remote)
        };
        let left_behind = connections.iter().flatten().filter(is_left_behind).count();
        if left_behind > 0 {
            let local = bound.socket.local_addr();
            let sentence = format!("a socket at {local} does not reach the peers of {left_behind} live connections");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        *self.bound() = bound;
        self.wake_queue.push_endpoint();
        Ok(())
    }
}
