//! Sockets that the application brings, and sockets that take another's place under live connections.

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

/// The socket of an endpoint, and what its driver needs to go over to it.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) socket: Arc<Socket>,
    /// The network it belongs to; `None` if that is unknown, because the application has made it.
    pub(super) namespace: Option<NetworkNamespace>,
    /// News of the runtime about it, for a driver that is a task and has not gone over to it.
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

/// The socket before, from which is received for a while what was on its way to it.
#[derive(Debug)]
pub(super) struct Previous {
    pub(super) socket: Arc<Socket>,
    pub(super) receiver: DatagramReceiver,
    pub(super) until: Time,
}

impl Endpoint {
    /// An endpoint on a UDP socket that the application has made and bound (`std`'s, tokio's as `into_std`, or a `socket2::Socket`), for what
    /// [`bind`](Self::bind) has no setting: buffer sizes, `SO_MARK`, a device, `SO_REUSEPORT`, a port below 1024 of a process that has dropped
    /// its rights. With `None` it only opens connections.
    ///
    /// Settings of the application stay, a code point (DSCP) by `IP_TOS` or `IPV6_TCLASS` included, which is that of all connections whose
    /// configuration has none. The endpoint makes the socket non-blocking, switches on the reports of addresses, marks and joined datagrams
    /// (GRO), and forbids fragments. Buffers are not enlarged: `bind` asks for 8 MiB each, and small ones lose datagrams at high rates.
    /// Clones of the descriptor (`try_clone`) see all of that, and must not be read.
    ///
    /// - An IPv6 socket reaches IPv4 peers only without `IPV6_V6ONLY`.
    /// - That a port is closed, or that there is no route, is not looked for, since nothing else has the socket's mark, device and network:
    ///   [`connect`](Self::connect) takes its whole time then.
    /// - With `SO_REUSEPORT` the system chooses one of the sockets of a port by the peer's address. A datagram that comes to another endpoint than
    ///   its connection's, because the peer has moved or a socket was bound or closed, is dropped there without an answer. The connection then
    ///   ends, if that goes on, with [`TimedOut`](crate::ConnectionError::TimedOut), and an attempt to connect with
    ///   [`HandshakeTimeout`](crate::ConnectionError::HandshakeTimeout). Steer by the connection id with a filter of your own
    ///   (`SO_ATTACH_REUSEPORT_CBPF`), or use one endpoint, whose clones any number of threads may accept from.
    ///
    /// # Errors
    /// `InvalidInput` if it is no UDP socket over IP, is not bound, or is connected; as [`bind`](Self::bind) otherwise. The socket is closed
    /// then.
    ///
    /// # Panics
    /// As [`bind`](Self::bind).
    ///
    /// ```
    /// use std::net::UdpSocket;
    ///
    /// use dfcp::{Config, Endpoint};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_ttl(3)?; // no farther than the next networks
    /// let endpoint = Endpoint::with_socket(socket, Some(Config::server(dfcp::generate_key()?).into()))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_socket(socket: impl Into<UdpSocket>, accept: Option<Accept>) -> io::Result<Self> {
        Self::driven(task_runtime(), Clock::start(), Bound::adopt(socket.into())?, accept)
    }

    /// As [`with_socket`](Self::with_socket), but never as a task of the runtime whose thread the caller may block.
    pub(crate) fn with_socket_and_thread(socket: UdpSocket, accept: Option<Accept>) -> io::Result<Self> {
        Self::driven(None, Clock::start(), Bound::adopt(socket)?, accept)
    }

    /// Goes over to another UDP socket under live connections, as when a machine has changed its network: what they send leaves from there
    /// at once, what was not sent yet included. Each peer hears of the new address, validates it, and goes on. The socket before is still
    /// received from for 3 s, and then closed. The rules of [`with_socket`](Self::with_socket) hold for this socket.
    ///
    /// If its IP address is another one, what was known of the paths (rate, round-trip time, loss, packet size) is found out anew; with the same
    /// address, or none of its own, it is kept. A connection being opened goes on from the new socket.
    ///
    /// Plaintext and classic connections cannot move: their peers go on sending to the address before, and such a connection ends with
    /// [`TimedOut`](crate::ConnectionError::TimedOut), unless the new socket has the same address.
    ///
    /// # Errors
    /// Everything stays as it was, and the new socket is closed:
    /// - as [`with_socket`](Self::with_socket);
    /// - `InvalidInput` if the new socket cannot reach the peer of a live connection, as an IPv4 socket cannot reach IPv6 peers, or if the
    ///   endpoint runs directly over IP, where [`rebind_to`](Self::rebind_to) serves;
    /// - `NotConnected` if nothing drives the endpoint any more.
    pub fn rebind(&self, socket: impl Into<UdpSocket>) -> io::Result<()> {
        let shared = &self.user.shared;
        if shared.socket().carrier() != Carrier::Udp {
            let sentence = "this endpoint runs directly over IP: name an address by `rebind_to` instead";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        shared.go_over(Bound::adopt(socket.into())?)
    }

    /// As [`rebind`](Self::rebind), to a new socket of the same carrier which is bound to `addr` as [`bind_over`](Self::bind_over) does it.
    /// Port 0 over UDP means that the system chooses. The port before is still taken: to keep it, [`rebind`](Self::rebind) to a socket which
    /// shares it, as the one before does, by `SO_REUSEPORT`. Directly over IP the endpoint keeps its port, and `addr` has that or 0.
    ///
    /// # Errors
    /// As [`rebind`](Self::rebind) and [`bind_over`](Self::bind_over). Everything stays as it was.
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

    /// The socket which the driver uses, or is about to.
    pub(crate) fn socket(&self) -> Arc<Socket> {
        Arc::clone(&self.bound().socket)
    }

    /// Has the driver use another socket, of which everything that can fail has been done.
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
