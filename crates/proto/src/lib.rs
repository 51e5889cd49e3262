//! The DFCP protocol, sans I/O: an [`Endpoint`] routes datagrams to [`Connection`]s, and connections produce datagrams
//! to send.
//!
//! Nothing here reads a clock, draws randomness, blocks, spawns or touches a socket. Time and seeds are arguments, so
//! equal calls give equal bytes, in a simulator and on a wire. The `dfcp` crate drives the protocol with tokio.
//!
//! The normative text is `spec/protocol.md`. The source of the *classic* profile is chapter 3 of the thesis.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "classic")]
mod classic;
pub mod codec;
pub mod config;
mod connection;
mod dscp;
mod endpoint;
pub mod error;
mod identity;
mod key_log;
pub mod limits;
mod message;
mod observe;
mod path;
mod proof;
mod random;
mod schedule;
mod security;
#[cfg(feature = "serde")]
mod serde_with;
mod session;
mod shared;
mod spare;
mod state;
mod stats;
mod stream;

#[cfg(feature = "classic")]
pub use classic::inctokens;
#[cfg(feature = "classic")]
pub use config::ClassicSettings;
pub use config::controller::{Mark, PathStart, RateController, RateControllerFactory, ReportSeen};
pub use config::{Config, PathHint, Policy, Profile, Rate, Schedule, SendBuffering, Traffic};
#[cfg(feature = "classic")]
pub use connection::Parameters;
pub use connection::{Connection, Streams};
pub use dfcp_secure::{
    AddressPrefix, Cipher, Fingerprint, KeyError, Pattern, PreSharedKey, PublicKey, ResetKey, StaticKey,
};
pub use dfcp_wire::{Opener, SegmentKind, StreamId, StreamKind, StreamLimits};
pub use dscp::{Dscp, DscpError};
pub use endpoint::{Accept, ConnectError, Cookies, Endpoint, EndpointStats, Handle, Routed};
#[cfg(feature = "classic")]
pub use error::ParameterError;
pub use error::{ConfigError, ConnectionError, Dropped, PeerMisbehaved, StreamError};
pub use identity::Identity;
pub use key_log::{ConnectionSecrets, KeyLog};
pub use message::{Deadline, MessageError, ReceivedMessage};
pub use observe::{Beginning, ConnectionObserver, DatagramInfo, Observed, Observer};
pub use path::delivery_control::DeliveryControllers;
pub use path::ecn::{Ecn, Origin};
pub use path::windowed::{WindowedExtremum, WindowedMax, WindowedMin};
pub use security::{Ciphers, Credentials, PeerKey, Security, Verifier};
pub use session::closed::LastWords;
pub use session::message_calls::Messages;
pub use session::send_side::Priority;
pub use session::sharing::Sending;
pub use shared::events::{Event, StreamEvent};
#[cfg(feature = "classic")]
pub use shared::parameters::{Access, Parameter};
pub use shared::{DATAGRAM_BUFFER_BYTES, Ports, Read, Timer, Transmit};
pub use state::State;
pub use stats::{
    BreakerState, EcnStats, RateControlStats, RatePhase, ReceivedMessages, ReceivedSymbols, SentMessages, SentSymbols,
    Stats, StreamStats, WastedSymbols,
};
pub use stream::send::write_turns::WriteAllowance;

#[cfg(test)]
mod limits_tests;
