//! The DFCP protocol, sans I/O: an [`Endpoint`] routes datagrams to [`Connection`]s, and those say what to send.
//!
//! Nothing here reads a clock, draws randomness, blocks, spawns or touches a socket: time and seeds are arguments, so
//! the same calls give the same bytes, in a simulator and on a wire. The `dfcp` crate drives it with tokio.
//!
//! The normative text is `spec/protocol.md`; the source of the *classic* profile is chapter 3 of the thesis.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod classic;
pub mod config;
mod connection;
mod dscp;
mod endpoint;
pub mod error;
mod key_log;
pub mod limits;
mod message;
mod observe;
mod path;
mod proof;
mod random;
mod security;
#[cfg(feature = "serde")]
mod serde_with;
mod session;
mod shared;
mod spare;
mod stats;
mod stream;

pub use classic::inctokens;
pub use config::{Config, Content, Policy, Profile, Rate, Schedule, SendBuffering, Traffic};
pub use connection::Connection;
pub use dfcp_secure::{
    AddressPrefix, Cipher, Fingerprint, KeyError, Pattern, PreSharedKey, PublicKey, ResetKey, StaticKey,
};
pub use dfcp_wire::{Opener, SegmentKind, StreamId, StreamKind, StreamLimits};
pub use dscp::{Dscp, DscpError};
pub use endpoint::{Accept, ConnectError, Cookies, Endpoint, EndpointStats, Handle, Routed};
pub use error::{ConfigError, ConnectionError, Dropped, ParameterError, PeerMisbehaved, StreamError, WriteError};
pub use key_log::{ConnectionSecrets, KeyLog};
pub use message::{Deadline, MessageError, ReceivedMessage};
pub use observe::{Beginning, ConnectionObserver, DatagramInfo, Observed, Observer};
pub use path::ecn::{Ecn, EcnStats, Origin};
pub use path::hint::PathHint;
pub use path::windowed::{WindowedExtremum, WindowedMax, WindowedMin};
pub use security::{Ciphers, Credentials, PeerKey, Security, Verifier};
pub use session::closed::LastWords;
pub use session::message_calls::Messages;
pub use session::protection::Identity;
pub use session::send_side::Priority;
pub use session::sharing::{Sending, WriteAllowance};
pub use session::streams::{StreamEvent, Streams};
pub use shared::events::Event;
pub use shared::parameters::{Access, ClassicSettings, Parameter};
pub use shared::state::State;
pub use shared::{DATAGRAM_BUFFER_BYTES, Ports, Read, Timer, Transmit};
pub use stats::{
    BreakerState, RateControlStats, RatePhase, ReceivedMessages, ReceivedSymbols, SentMessages, SentSymbols, Stats,
    StreamStats, WastedSymbols,
};

#[cfg(test)]
mod limits_tests;
