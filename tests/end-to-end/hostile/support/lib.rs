//! Common parts of the attacks.
//!
//! Two levels: [`world`] is two endpoints in virtual time with an attacker between them that may read, hold, change and
//! inject datagrams, so that a test counts every byte and compares whole traces; [`live`] is a real listener on
//! loopback with honest transfers during an attack. [`puppet`] is a peer with genuine keys that sends arbitrary
//! datagrams, [`talk`] is its conversation with a server, [`lies`] are false reports, which draw traffic, and
//! [`messages`] are attacks with messages. [`forge`] makes datagrams without any key.

#![forbid(unsafe_code)]

pub mod forge;
pub mod lies;
pub mod live;
pub mod messages;
pub mod puppet;
pub mod talk;
pub mod world;
