//! An endpoint: one socket and all its connections.

mod call_story;
mod closed_port;
mod datagram_receiver;
mod driver;
mod network_namespace;
mod peers;
mod rebind;
mod run_queue;
#[cfg(unix)]
mod tokio_reactor;
mod totals;

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use dfcp_proto::codec::RandomLinear;
use dfcp_proto::limits::CONNECT_TIMEOUT_MIN;
use dfcp_proto::{
    Accept, Config, Connection, ConnectionError, Dscp, EndpointStats, Handle, PeerKey, Profile, Security,
    SendBuffering, StreamId,
};
use tokio::runtime::{self, RuntimeFlavor};
use tokio::sync::{Notify, mpsc};

use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::connection::{Local, Path, Shared, StreamHandle};
use crate::error::ConnectError;
use crate::outbox::Departure;
use crate::session::Session;
use crate::socket::canonical;
use crate::stream::Stream;
use crate::wake_queue::WakeQueue;
use crate::{limits, memory};
use closed_port::Questions;
use driver::Driver;
use rebind::Bound;
#[cfg(unix)]
use tokio_reactor::TokioReactor;
pub use totals::Totals;

/// A socket with any number of connections, opened by this side or by peers.
///
/// Cheap to clone. When the last clone is dropped, no more connections are accepted, and connections that wait to be
/// accepted are reset; streams live on. The socket is closed once the last connection is over.
///
/// ```
/// use dfcp::{Config, Endpoint};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let key = dfcp::generate_key()?;
/// let client = Config::client(key.public());
/// let server = Endpoint::bind("127.0.0.1:0".parse().expect("an address"), Some(Config::server(key).into()))?;
/// let caller = Endpoint::bind("127.0.0.1:0".parse().expect("an address"), None)?;
/// // Two connections between the same two sockets.
/// let first = caller.connect(server.local_addr(), client.clone()).await?;
/// let second = caller.connect(server.local_addr(), client).await?;
/// assert_eq!(caller.stats().connections, 2);
/// drop((first, second));
/// caller.wait_idle().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Endpoint {
    user: Arc<User>,
}

/// The application's part of an endpoint. Its drop ends accepting.
#[derive(Debug)]
struct User {
    shared: Arc<EndpointShared>,
    accepts: bool,
    backlog: tokio::sync::Mutex<mpsc::Receiver<StreamHandle>>,
}

impl Drop for User {
    fn drop(&mut self) {
        self.shared.table().released = true;
        self.shared.wake_queue.push_endpoint();
    }
}

/// State that the endpoint's driver and its handles share.
#[derive(Debug)]
struct EndpointShared {
    bound: Mutex<Bound>,
    /// Runtime of the task that drives the endpoint. `None` for a thread.
    runtime: Option<runtime::Handle>,
    /// DSCPs of accepted connections.
    accepted_dscp: AcceptedDscp,
    clock: Clock,
    table: Mutex<Table>,
    wake_queue: Arc<WakeQueue>,
    /// Notified when no connection is left.
    idle: Notify,
}

/// DSCPs of connections that peers open. `None` for the socket's default.
#[derive(Clone, Copy, Debug, Default)]
struct AcceptedDscp {
    modern: Option<Dscp>,
    classic: Option<Dscp>,
}

impl AcceptedDscp {
    fn of(accept: Option<&Accept>) -> Self {
        let of = |profile| accept?.of_profile(profile)?.dscp;
        Self { modern: of(Profile::Modern), classic: of(Profile::Classic) }
    }

    fn of_profile(self, profile: Profile) -> Option<Dscp> {
        match profile {
            Profile::Modern => self.modern,
            Profile::Classic => self.classic,
        }
    }
}

/// Origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entrance {
    /// This side opened the connection.
    OpenedHere {
        /// DSCP of the connection. `None` for the socket's default.
        dscp: Option<Dscp>,
    },
    /// A peer opened the connection.
    Accepted {
        /// Destination address of the connection's first datagram, if the system reports it.
        local_ip: Option<IpAddr>,
    },
}

#[derive(Debug)]
struct Table {
    proto: dfcp_proto::Endpoint,
    /// Connections by [`Handle::index`].
    connections: Vec<Option<Arc<Shared>>>,
    /// The application has dropped the endpoint.
    released: bool,
    /// Queue of established connections that wait to be accepted. `None` if the endpoint has lost its driver, because
    /// the runtime of that task has ended.
    backlog: Option<mpsc::Sender<StreamHandle>>,
    /// Totals of the connections that are over, and the number of connections ever established.
    ended: Totals,
}

impl Endpoint {
    /// Binds a UDP socket to `addr` (port 0: the system chooses) and accepts the connections that `accept` permits.
    /// With `None` the endpoint only opens connections. Configurations are adapted to the IP version like in
    /// [`connect`](Self::connect).
    ///
    /// # Errors
    /// The address cannot be used, a configuration is invalid, the system's random number generator failed, or it
    /// cannot start a thread.
    ///
    /// # Panics
    /// Within a single-threaded runtime whose I/O or time driver is not enabled (`enable_all`), like tokio's own
    /// sockets and timers.
    pub fn bind(addr: SocketAddr, accept: Option<Accept>) -> io::Result<Self> {
        Self::bind_over(Carrier::Udp, addr, accept)
    }

    /// Like [`bind`](Self::bind), over the given carrier.
    ///
    /// # Errors
    /// Same as [`bind`](Self::bind); or the carrier does not work on this system, or needs more privileges
    /// (`PermissionDenied`).
    ///
    /// # Panics
    /// Same as [`bind`](Self::bind).
    pub fn bind_over(carrier: Carrier, addr: SocketAddr, accept: Option<Accept>) -> io::Result<Self> {
        Self::driven(task_runtime(), Clock::start(), Bound::to(carrier, addr)?, accept)
    }

    /// Like [`bind_over`](Self::bind_over), with `now` as its clock instead of the system's, for programs with a
    /// cheaper clock or with a time other than the system's. `now` must be monotonic. Waits still use the system's
    /// clock: a timer that is due by `now` must not be late by the system's monotonic clock.
    ///
    /// # Errors
    /// Same as [`bind_over`](Self::bind_over).
    ///
    /// # Panics
    /// Same as [`bind`](Self::bind).
    pub fn bind_with_clock(
        carrier: Carrier,
        addr: SocketAddr,
        accept: Option<Accept>,
        now: fn() -> Instant,
    ) -> io::Result<Self> {
        Self::driven(task_runtime(), Clock::start_by(now), Bound::to(carrier, addr)?, accept)
    }

    /// Like [`bind_over`](Self::bind_over), but always driven by a thread: the caller may block the runtime's thread.
    pub(crate) fn bind_with_thread(carrier: Carrier, addr: SocketAddr, accept: Option<Accept>) -> io::Result<Self> {
        Self::driven(None, Clock::start(), Bound::to(carrier, addr)?, accept)
    }

    /// Makes an endpoint on a socket, driven by a task of `runtime`, or by a thread if that is `None`.
    fn driven(
        runtime: Option<runtime::Handle>,
        clock: Clock,
        bound: Bound,
        accept: Option<Accept>,
    ) -> io::Result<Self> {
        let (carrier, local) = (bound.socket.carrier(), bound.socket.local_addr());
        let accept = accept.map(|accept| adapt_accept(accept, carrier, local)).transpose()?;
        let (accepts, accepted_dscp) = (accept.is_some(), AcceptedDscp::of(accept.as_ref()));
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
        let port = local.port();
        let proto = match carrier {
            Carrier::Udp => dfcp_proto::Endpoint::new(port, accept, seed),
            Carrier::RawIp { .. } => dfcp_proto::Endpoint::on_raw_ip(port, accept, seed),
        };
        let (sender, receiver) = mpsc::channel(limits::ACCEPT_BACKLOG_MAX);
        let wake_queue = if runtime.is_some() { WakeQueue::of_task() } else { WakeQueue::of_thread()? };
        let shared = Arc::new(EndpointShared {
            bound: Mutex::new(bound),
            runtime,
            accepted_dscp,
            clock,
            table: Mutex::new(Table {
                proto,
                connections: Vec::new(),
                released: false,
                backlog: Some(sender),
                ended: Totals::default(),
            }),
            wake_queue: Arc::new(wake_queue),
            idle: Notify::new(),
        });
        drive(&shared)?;
        Ok(Self { user: Arc::new(User { shared, accepts, backlog: tokio::sync::Mutex::new(receiver) }) })
    }

    /// Opens a connection and waits for the end of the handshake, for at most
    /// [`Config::connect_timeout`](crate::Config::connect_timeout).
    ///
    /// Dropping the future aborts the attempt, and leaves nothing behind. It is not cancel-safe in the sense that the
    /// attempt could be resumed.
    ///
    /// `config.overhead_bytes` is set to the header bytes of carrier and IP version. Over IPv6 `config.symbol_size` is
    /// limited to 1404 (1412 without encryption), so that a datagram fits into 1500 bytes over any carrier.
    ///
    /// `remote` is one address, unlike in [`Stream::connect`]: the IP version of this socket determines which addresses
    /// of a name are reachable, and the application of an endpoint with many connections should look up its names once.
    ///
    /// # Errors
    /// The configuration is invalid, the port is 0, the endpoint is full, there is no route to the address, nothing
    /// listens there (`ConnectionRefused`, after about 0.3 s on Linux and 2 s elsewhere), or the peer does not accept
    /// the connection.
    pub async fn connect(&self, remote: SocketAddr, config: Config) -> Result<Stream, ConnectError> {
        let handle = self.connect_handle(remote, config).await?;
        handle.shared.begin_stream();
        Ok(Stream::new(handle))
    }

    /// Like [`connect`](Self::connect), for a session with any number of streams.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect); or `config` is of the classic profile, which has one stream.
    pub async fn connect_session(&self, remote: SocketAddr, config: Config) -> Result<Session, ConnectError> {
        if config.profile == Profile::Classic {
            let sentence = "a classic connection has one stream; a session needs the modern profile";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence).into());
        }
        let handle = self.connect_handle(remote, config).await?;
        let _is_modern = handle.shared.begin_session();
        Ok(Session::new(handle))
    }

    async fn connect_handle(&self, remote: SocketAddr, config: Config) -> Result<StreamHandle, ConnectError> {
        let began = self.user.shared.clock.now();
        let first = self.connect_once(remote, config.clone()).await;
        let Err(ConnectError::Connection(ConnectionError::PinnedKeyRefused)) = first else { return first };
        // The refusal of the known key is not authenticated. Ask the peer itself to show its key, which must be the
        // known key.
        let Some(mut config) = asking_for_the_key(config) else { return first };
        let passed = self.user.shared.clock.now().since(began);
        config.connect_timeout = config.connect_timeout.map(|all| all.saturating_sub(passed).max(CONNECT_TIMEOUT_MIN));
        self.connect_once(remote, config).await
    }

    async fn connect_once(&self, remote: SocketAddr, config: Config) -> Result<StreamHandle, ConnectError> {
        let shared = &self.user.shared;
        let (socket, namespace) = {
            let bound = shared.bound();
            (Arc::clone(&bound.socket), bound.namespace)
        };
        let (carrier, remote) = (socket.carrier(), canonical(remote));
        if carrier != Carrier::Udp && socket.local_addr().is_ipv6() && remote.is_ipv4() {
            let sentence = "an IPv6 socket carries no IPv4 over raw IP, bind to an IPv4 address";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence).into());
        }
        let questions = Questions::to(carrier, socket.local_addr(), remote, namespace)?;
        if !socket.reaches(remote) {
            let sentence = format!(
                "a socket at {} does not reach {}, bring one of its IP version",
                socket.local_addr(),
                remote.ip()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence).into());
        }
        let config = adapt(config, carrier, remote)?;
        let entrance = Entrance::OpenedHere { dscp: config.dscp };
        if let (Some(questions), Some(dscp)) = (&questions, config.dscp) {
            questions.mark(dscp);
        }
        let connection = {
            let mut table = shared.table();
            if table.backlog.is_none() {
                return Err(ConnectionError::Aborted.into());
            }
            let (handle, connection) = table.proto.connect(shared.clock.now(), remote, config)?;
            shared.enter(&mut table, handle, connection, remote, entrance)
        };
        // If this future is dropped from here on, the handle's drop aborts the attempt.
        let handle = StreamHandle::new(connection, StreamId::FIRST);
        shared.wake_queue.push(handle.shared.handle);
        let connected = poll_fn(|cx| handle.shared.poll_connected(cx));
        closed_port::connected_or_refused(connected, questions, remote).await?;
        Ok(handle)
    }

    /// Waits for the next connection whose handshake is done. Returns `None` if this endpoint accepts none, or no
    /// longer any, because the runtime of its task has ended.
    ///
    /// Cancel-safe: a connection is either returned or stays in the queue. Any number of tasks may wait.
    pub async fn accept(&self) -> Option<Stream> {
        let handle = self.accept_handle().await?;
        handle.shared.begin_stream();
        Some(Stream::new(handle))
    }

    /// Like [`accept`](Self::accept), for sessions with any number of streams. Classic connections, which have one
    /// stream, are reset. [`Config::streams`](crate::Config::streams) limits the streams that the peer may open; the
    /// default is none.
    pub async fn accept_session(&self) -> Option<Session> {
        loop {
            let handle = self.accept_handle().await?;
            if handle.shared.begin_session() {
                return Some(Session::new(handle));
            }
            tracing::debug!(remote = %handle.shared.path.remote, "sessions are accepted, and this connection is classic: reset");
        }
    }

    async fn accept_handle(&self) -> Option<StreamHandle> {
        if !self.user.accepts {
            return None;
        }
        self.user.backlog.lock().await.recv().await
    }

    /// Returns the socket's local address, with the port that the system chose. It changes with
    /// [`rebind`](Self::rebind).
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.user.shared.socket().local_addr()
    }

    /// Returns the carrier of the endpoint's datagrams.
    #[must_use]
    pub fn carrier(&self) -> Carrier {
        self.user.shared.socket().carrier()
    }

    /// Returns counters of current connections, memory and refusals, and their limits. `memory_bytes_max` includes the
    /// memory of this crate in addition to that of [`dfcp_proto`]. Socket buffers belong to the system, and are not
    /// counted.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        let mut stats = self.user.shared.table().proto.stats();
        let connections = (limits::CONNECTION_BYTES_MAX as u64).saturating_mul(stats.connections_max as u64);
        let here = (limits::ENDPOINT_BYTES_MAX as u64).saturating_add(connections);
        stats.memory_bytes_max = stats.memory_bytes_max.saturating_add(here);
        stats
    }

    /// Waits until no connection is left in any state, including TIME_WAIT. A program that ends earlier may leave a
    /// peer waiting for an answer to its FIN. Cancel-safe.
    pub async fn wait_idle(&self) {
        let shared = &self.user.shared;
        loop {
            let idle = shared.idle.notified();
            if shared.table().proto.is_empty() {
                return;
            }
            idle.await;
        }
    }
}

impl EndpointShared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection to the table.
    fn enter(
        &self,
        table: &mut Table,
        handle: Handle,
        mut connection: Connection,
        remote: SocketAddr,
        entrance: Entrance,
    ) -> Arc<Shared> {
        if self.wake_queue.is_of_task() {
            // With a driver that is a task, the application runs whenever the endpoint does not, so a small send buffer
            // suffices.
            connection.set_send_buffering(SendBuffering::Shallow);
        }
        let (departure, is_accepted) = match entrance {
            Entrance::OpenedHere { dscp } => (Departure { src_ip: None, dscp }, false),
            Entrance::Accepted { local_ip } => {
                let dscp = self.accepted_dscp.of_profile(connection.profile());
                (Departure { src_ip: local_ip, dscp }, true)
            }
        };
        let socket = self.socket();
        let path = Path { carrier: socket.carrier(), remote };
        let local = Local { address: socket.local_addr(), departure };
        let wake_queue = Arc::clone(&self.wake_queue);
        let shared = Shared::new(connection, self.clock, wake_queue, handle, (path, local), is_accepted);
        if table.connections.len() <= handle.index() {
            table.connections.resize(handle.index() + 1, None);
        }
        if let Some(slot) = table.connections.get_mut(handle.index()) {
            *slot = Some(Arc::clone(&shared));
        }
        shared
    }

    /// Called when a connection's handshake is done. If the peer opened the connection, it now waits to be accepted, or
    /// is reset if the backlog is full.
    fn established(&self, connection: &Arc<Shared>) {
        let mut table = self.table();
        table.proto.established(connection.handle);
        table.ended.established += 1;
        let backlog = table.backlog.clone().filter(|_| connection.accepted);
        drop(table);
        let Some(backlog) = backlog else { return };
        if backlog.try_send(StreamHandle::new(Arc::clone(connection), StreamId::FIRST)).is_err() {
            tracing::debug!(remote = %connection.path.remote, "nobody accepts: connection reset");
        }
    }

    /// Called when a connection is over: removes it from the table.
    fn forget(&self, connection: &Arc<Shared>) {
        let (hint, words, stats) = connection.read(|it| (it.path_hint(), it.last_words(), it.stats()));
        let mut table = self.table();
        let slot = table.connections.get_mut(connection.handle.index());
        // The handle may have been reused if the connection had been forgotten before.
        let Some(slot) = slot.filter(|slot| slot.as_ref().is_some_and(|there| Arc::ptr_eq(there, connection))) else {
            return;
        };
        *slot = None;
        table.ended.add(&stats);
        if let Some(hint) = hint {
            table.proto.remember_path(self.clock.now(), connection.handle, hint);
        }
        if let Some(words) = words {
            table.proto.keep_last_words(self.clock.now(), connection.handle, words);
        }
        table.proto.forget(connection.handle);
        let is_idle = table.proto.is_empty();
        drop(table);
        connection.end();
        if is_idle {
            self.idle.notify_waiters();
        }
    }

    /// Returns true if the application has dropped the endpoint, and no connection is left.
    fn is_over(&self) -> bool {
        let table = self.table();
        table.released && table.proto.is_empty()
    }
}

/// Returns the runtime if all of its tasks share the calling thread.
fn task_runtime() -> Option<runtime::Handle> {
    let runtime = runtime::Handle::try_current().ok()?;
    (cfg!(unix) && runtime.runtime_flavor() == RuntimeFlavor::CurrentThread).then_some(runtime)
}

/// Starts the driver of the endpoint: a task of its runtime, or a thread.
fn drive(shared: &Arc<EndpointShared>) -> io::Result<()> {
    let driver = Driver::new(Arc::clone(shared));
    match &shared.runtime {
        #[cfg(unix)]
        Some(runtime) => drop(runtime.spawn(driver.run_as_task(TokioReactor::new(&shared.socket(), shared.clock)?))),
        _ => drop(thread::Builder::new().name("dfcp".to_owned()).spawn(move || driver.run())?),
    }
    Ok(())
}

/// Replaces the peer's known key by its fingerprint, so that the peer shows its key in the handshake.
fn asking_for_the_key(mut config: Config) -> Option<Config> {
    let Security::Sealed(credentials) = &mut config.security else { return None };
    let PeerKey::Known(key) = credentials.peer else { return None };
    credentials.peer = PeerKey::Fingerprint(key.fingerprint());
    Some(config)
}

/// Sets the parts that depend on carrier and IP version. Sockets carry real bytes, so the codec is always
/// [`RandomLinear`].
fn adapt(mut config: Config, carrier: Carrier, remote: SocketAddr) -> io::Result<Config> {
    if cfg!(not(target_os = "linux")) && config.dscp.is_some_and(|dscp| dscp != Dscp::CS0) {
        let sentence = "this system marks no datagrams with a DSCP, leave the setting out";
        return Err(io::Error::new(io::ErrorKind::Unsupported, sentence));
    }
    config.overhead_bytes = carrier.overhead_bytes(remote);
    config.codec = &RandomLinear;
    if remote.ip().to_canonical().is_ipv6() {
        // Header, stream id, symbol, proof, tag or CRC, and the IP and UDP headers make 1500 bytes, or a little less.
        config.symbol_size = config.symbol_size.min(match config.security {
            Security::Sealed(_) => 1404,
            Security::Unsealed => 1412,
        });
    }
    Ok(config)
}

fn adapt_accept(mut accept: Accept, carrier: Carrier, local: SocketAddr) -> io::Result<Accept> {
    for config in accept.configs_mut() {
        *config = adapt(config.clone(), carrier, local)?;
    }
    let memory_bytes_max = accept.memory_bytes_max.or_else(|| {
        let share_bytes = memory::available_bytes()? / memory::ENDPOINT_MEMORY_SHARE;
        Some(share_bytes.max(limits::ENDPOINT_MEMORY_BYTES_MIN))
    });
    accept.memory_bytes_max = memory_bytes_max;
    accept.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    Ok(accept)
}
