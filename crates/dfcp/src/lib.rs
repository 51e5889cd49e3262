//! DFCP for tokio and for blocking code: reliable streams over lossy paths. Loss alone does not slow them down.
//!
//! ```
//! use dfcp::{Config, Listener, Stream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! // A server that accepts any client. Clients know its key:
//! let key = dfcp::generate_key()?;
//! let public = key.public();
//! let listener = Listener::bind("127.0.0.1:0".parse().expect("an address"), Config::server(key))?;
//! let server = listener.local_addr()?;
//! let serving = tokio::spawn(async move {
//!     let mut stream = listener.accept().await?;
//!     let mut received = String::new();
//!     stream.read_to_string(&mut received).await?;
//!     std::io::Result::Ok(received)
//! });
//!
//! // The client is configured with the server's key:
//! let mut stream = Stream::connect(server, Config::client(public)).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?; // the peer has confirmed every byte
//! assert_eq!(serving.await??, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! **Configuration.** [`Config::server`], [`Config::client`] and [`Config::pre_shared`] are the starting points;
//! methods change their settings: `Config::client(key).with_connect_timeout(Duration::from_secs(5))`.
//!
//! **Many streams.** Both sides of a [`Session`] open streams, bidirectional or one-way, without a round trip. Loss in
//! one stream delays no other stream.
//!
//! A sender **finds the rate** of the path and follows it ([`Rate::Auto`]), unless a rate is configured
//! ([`Rate::Fixed`]).
//!
//! [`Stream::watch_path`] returns estimates of the path for applications that adapt to it.
//!
//! Every datagram is **encrypted and authenticated**. A connection trusts no peer until its [`Credentials`] name one: a
//! peer's key or fingerprint, the application's own [`Verifier`], or a pre-shared key. Functions that skip this are
//! named `danger_..`.
//!
//! Datagrams go over UDP or, with `CAP_NET_RAW`, directly over IP: see [`Carrier`] and the functions named `.._over`.
//!
//! **Sockets.** [`Endpoint::bind`] makes a socket. [`Endpoint::with_socket`] takes a socket of the application, and
//! [`Endpoint::rebind`] replaces the socket under live connections. [`Config::with_dscp`] marks the datagrams with a
//! DSCP.
//!
//! # Structure
//!
//! An [`Endpoint`] owns one socket, and one loop drives this socket and all its connections. The loop receives batches
//! that the kernel has joined (GRO), decrypts and decodes them in place, encodes, sends batches for the kernel to split
//! (GSO), and serves timers. All protocol decisions are made in [`dfcp_proto`], which has neither sockets nor a clock.
//!
//! **Threads.** Bound in a single-threaded runtime, an endpoint is a task of that runtime. Bound anywhere else, it has
//! a thread of its own. With one or two cores, one thread for everything is the fastest. With more cores, give the
//! endpoint one thread, and readers and writers others. In a multi-threaded runtime, spawn the tasks that read and
//! write much: the future given to `block_on`, and so the body of `#[tokio::main]`, runs on a thread that must be woken
//! for every piece.
//!
//! **Log.** Logs are written with [`tracing`](https://docs.rs/tracing). Target `dfcp::session`, level DEBUG, has the
//! course of each connection from the first handshake message to the reason of its end, with totals. Target
//! `dfcp::endpoint` counts handshake attempts that led to no connection. The number of lines grows with time, not with
//! datagrams. The streams of a session are summed up at most once a second: how many were opened, have ended, were
//! reset or stopped and with which code, and how often the peer's stream limit was reached. Level TRACE has a line for
//! each of these events. A subscriber is looked up only when a connection begins.
//!
//! **Observers.** An [`Observer`] set in [`Config`] receives each datagram, state and estimate of its connections as a
//! typed event. A [`KeyLog`], which only `danger_with_key_log` installs, receives the secrets that decrypt a packet
//! capture.
//!
//! **Features**, off by default. `serde`: [`Stats`] and [`EndpointStats`] can be serialized; [`Config`] can be
//! serialized and deserialized, always without its keys. `classic`: the protocol of the 2014 thesis, which has no
//! security, for experiments (module `classic`). Without this feature, classic clients are refused and a configuration
//! of that profile is an error.
//!
//! [`blocking`] offers the same API without `async`.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod activity;
pub mod blocking;
mod buffers;
mod carrier;
#[cfg(feature = "classic")]
pub mod classic;
mod clock;
mod connect;
mod connection;
mod endpoint;
mod error;
mod handles;
mod keys;
mod limits;
mod listener;
mod memory;
mod outbox;
mod path_watch;
mod peer_scheduler;
mod session;
mod socket;
mod stream;
mod waiting;
mod wake_queue;

pub use carrier::Carrier;
pub use dfcp_proto::{
    Accept, AddressPrefix, Beginning, BreakerState, Cipher, Ciphers, Config, ConfigError, ConnectionError,
    ConnectionObserver, ConnectionSecrets, Cookies, Credentials, DatagramInfo, Deadline, Dropped, Dscp, DscpError,
    EcnStats, EndpointStats, Fingerprint, Identity, KeyError, KeyLog, MessageError, Observed, Observer, Opener,
    PathHint, Pattern, PeerKey, Policy, PreSharedKey, Priority, Profile, PublicKey, Rate, RateControlStats, RatePhase,
    ReceivedMessage, ReceivedMessages, ReceivedSymbols, ResetKey, Schedule, Security, SegmentKind, SentMessages,
    SentSymbols, State, StaticKey, Stats, StreamId, StreamKind, StreamLimits, StreamStats, Traffic, Verifier,
    WastedSymbols,
};
pub use endpoint::{Endpoint, Totals};
pub use error::{ConnectError, StreamError};
pub use keys::generate_key;
pub use listener::Listener;
pub use path_watch::{PathEstimates, PathWatch};
pub use session::Session;
pub use stream::{ReadHalf, Stream, WriteHalf};
