//! Cryptography of a DFCP connection (`spec/security.md`), sans I/O: keys, the Noise handshake, the encryption of
//! datagrams, the replay window, cookies that prove an address, and the address prefixes that limits apply to.
//!
//! This crate neither reads a clock nor draws random numbers: time steps and seeds are arguments, and the same
//! arguments give the same bytes. In real use a seed must be unpredictable, **and must never be used twice**: two
//! handshakes with one seed would have the same ephemeral key.
//!
//! Course of a connection: [`Initiator`] and [`Responder`] exchange two or three messages. Each obtains an
//! [`Established`], which is consumed to make [`SealKeys`] and [`OpenKeys`]. These keys protect all further datagrams.
//!
//! All secrets in this crate's memory are wiped on drop, and no `Debug` output shows them.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod address;
mod cookie;
mod curve;
mod handshake;
mod keys;
mod packet;
mod replay;
mod role;
mod schedule;
mod stateless_reset;
#[cfg(test)]
mod vectors;

pub use address::{AddressPrefix, address_bytes};
pub use cookie::{COOKIE_BYTES, Cookie, CookieJar};
pub use handshake::{
    Answered, Established, HalfOpen, HandshakeError, Initiator, InitiatorKeys, MESSAGE_BYTES_MAX, Pattern, Responder,
    ResponderKeys,
};
pub use keys::{Fingerprint, KeyError, PRE_SHARED_BYTES_MIN, PreSharedKey, PublicKey, StaticKey};
pub use packet::{
    Cipher, EPOCH_SHIFT, OpenError, OpenKeys, PREVIOUS_EPOCH_DATAGRAMS, RecordedKeys, SEALED_BYTES_MAX, SealError,
    SealKeys, TAG_BYTES, epoch_of,
};
pub use replay::{REPLAY_WINDOW_DATAGRAMS, ReplayWindow};
pub use role::Role;
pub use stateless_reset::{
    EndpointResetKey, RESET_QUESTION_BYTES, RESET_TICKET_BYTES, RESET_TOKEN_BYTES, ResetKey, ResetTicket,
};
