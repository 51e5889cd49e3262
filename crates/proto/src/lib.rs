//! The DFCP protocol, sans I/O: an [`Endpoint`] routes datagrams to [`Connection`]s, and those say what to send.
//!
//! Nothing here reads a clock, draws randomness, blocks, spawns or touches a socket: time and seeds are arguments, so
//! the same calls give the same bytes, in a simulator and on a wire. The `dfcp` crate drives it with tokio.
//!
//! The normative text is `spec/protocol.md`; the source of the *classic* profile is chapter 3 of the thesis.

#![forbid(unsafe_code)]

pub mod config;
mod connection;
mod endpoint;
pub mod error;
pub mod limits;
mod parameters;
mod path;
mod proof;
mod random;
mod recv;
mod security;
mod send;
mod spare;
mod state;
mod stats;

pub use config::{Config, Content, Profile, Rate, Schedule, Traffic, WriteAhead};
pub use connection::application::Read;
pub use connection::protection::Identity;
pub use connection::sharing::Sending;
pub use connection::transmit::{DATAGRAM_BUFFER_BYTES, Transmit};
pub use connection::{Connection, Event, Ports};
pub use dfcp_secure::{Cipher, Fingerprint, KeyError, Pattern, PreSharedKey, PublicKey, StaticKey};
pub use endpoint::{Accept, AddressPrefix, ConnectError, Cookies, Endpoint, EndpointStats, Handle, Routed};
pub use error::{ConfigError, ConnectionError, ParameterError, PeerMisbehaved, WriteError};
pub use parameters::{Access, Parameter};
pub use path::pacing::inctokens;
pub use path::windowed::WindowedExtremum;
pub use security::{Ciphers, Credentials, PeerKey, Security, Verifier};
pub use state::State;
pub use stats::{ReceivedSymbols, SentSymbols, Stats, WastedSymbols};

#[cfg(test)]
mod limits_tests;
