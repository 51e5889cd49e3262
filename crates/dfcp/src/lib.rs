//! DFCP for tokio, and without: reliable streams over bad paths, which do not slow down because of loss.
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
//! // The other side, which was told the key:
//! let mut stream = Stream::connect(server, Config::client(public)).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?; // the peer has all of it, and has said so
//! assert_eq!(serving.await??, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! **Configuration.** [`Config::server`], [`Config::client`] and [`Config::pre_shared`] are the starting points;
//! methods change their settings: `Config::client(key).with_connect_timeout(Duration::from_secs(5))`.
//!
//! **Many streams.** A [`Session`] is a connection in which both sides open streams, both ways or one-way, without a round trip; loss
//! in one holds up no other.
//!
//! A sender **finds the rate** which the path has room for, and follows it ([`Rate::Auto`]), unless it is given one ([`Rate::Fixed`]).
//!
//! An application that can adapt asks for what is known of the path: [`Stream::watch_path`].
//!
//! Every datagram is **encrypted and authenticated**, and a connection trusts no peer until its [`Credentials`] name one:
//! a peer's key or fingerprint, a [`Verifier`] of one's own, or a key which both ends have. Functions without
//! that are called `danger_..`.
//!
//! Datagrams go over UDP, or with `CAP_NET_RAW` directly over IP: see [`Carrier`] and the functions named
//! `.._over`.
//!
//! **Sockets.** [`Endpoint::bind`] makes a socket; [`Endpoint::with_socket`] takes one of the application's, and [`Endpoint::rebind`] replaces it
//! under live connections. [`Config::with_dscp`] marks their datagrams.
//!
//! # Structure
//!
//! An [`Endpoint`] owns one socket, and one loop drives it with all its connections: it receives in batches which the kernel
//! has joined (GRO), decrypts and decodes them in place, encodes, sends batches for the kernel to split (GSO), and keeps time.
//! All protocol decisions are made in [`dfcp_proto`], which knows no sockets and no clock.
//!
//! **Threads.** Bound in a runtime with a single thread, an endpoint is one of its tasks; bound anywhere else, it has a thread
//! of its own. One thread for everything is the fastest on one or two cores; with more cores, a thread for the endpoint and
//! others for readers and writers. With several threads, spawn the tasks that read and write much: the future given to
//! `block_on`, and so the body of `#[tokio::main]`, runs on a thread which has to be woken for every piece.
//!
//! **The log.** By [`tracing`](https://docs.rs/tracing), target `dfcp::session`, level DEBUG: the course of each connection, from
//! the first call to why it ended, with totals; `dfcp::endpoint` counts the calls which made none. Lines are bounded by seconds,
//! not by datagrams. Of a session's streams there are sums at most once a second: how many were opened, have ended, were reset or
//! stopped and with which code, and how often the peer permitted no more. Level TRACE has a line for each of these events.
//! Subscribers are looked for only when a connection begins.
//!
//! **Watching.** An [`Observer`] of a [`Config`] hears of each datagram, state and estimate of its connections, as typed events, where the
//! log tells their course. A [`KeyLog`], which only `danger_with_key_log` puts in place, gets what opens a capture of them.
//!
//! **Features**, off by default. `serde`: [`Stats`] and [`EndpointStats`] can be written, [`Config`] written and read, never with its keys.
//! `classic`: the protocol of the thesis that DFCP goes back to, without any security, for experiments (module `classic`); without it a
//! classic caller is refused, and a configuration of that profile is an error.
//!
//! [`blocking`] offers the same without `async`.

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
