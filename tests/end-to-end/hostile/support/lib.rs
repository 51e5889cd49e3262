//! What the attacks share.
//!
//! Two levels: [`world`] is two endpoints in virtual time with somebody between them who may read, hold, change and
//! inject, so that a test counts every byte and compares whole traces; [`live`] is a real listener on loopback whose
//! honest transfers go on while an attacker sends what it likes. [`puppet`] is a peer which holds keys and says what
//! the test makes it say, [`talk`] its conversation with a server, [`lies`] what it tells to draw traffic, [`messages`] what it does with messages; [`forge`] makes datagrams which nobody vouches for.

#![forbid(unsafe_code)]

pub mod forge;
pub mod lies;
pub mod live;
pub mod messages;
pub mod puppet;
pub mod talk;
pub mod world;
