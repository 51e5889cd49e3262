//! Pairing: two people without keys, one of whom tells the other a short code, make sure that an encrypted connection is
//! between the two of them (`spec/pairing.md`).
//!
//! The connection is a sealed one in which, most often, neither side knows the other's key: nobody can listen, but anybody
//! could be at the far end, or in the middle with a session towards each of the two. Which Noise pattern it was opened with
//! does not matter: all that is used of it is its handshake hash. The code, about 22 bits, proves which peer has it: by SPAKE2, which turns a short common secret into a long one without letting anybody test guesses offline,
//! and two confirmations under the long one.
//!
//! # Why there is one guess in a run
//!
//! - The receiver's element y·B + pw·N is uniformly distributed whatever the code pw, so it tells nothing. The sender's is, too.
//! - An attacker that poses as *sender* has put one guess into its element before it sees the receiver's, and can compute the key
//!   for that guess only. It has to confirm first. If its guess is wrong, it learns just that: the receiver's
//!   confirmation, with which it could test other guesses offline, is never made
//!   ([`exchange::AwaitSender::verify`] is the only way to it). So it has as many guesses as [`OneTimeCode`] lets it.
//! - An attacker that poses as *receiver* gets the sender's confirmation, and with it can test the guess that its own element was
//!   made with. That is one for each time that the sender's user starts the command, and the user sees it fail.
//! - A *man in the middle* has two sessions with different handshake hashes. The hash is in both identities, which go into the
//!   key, and in both confirmations, so what one side says does not fit the other's session, even if both
//!   codes are right. He is left with the two guesses above.
//!
//! Both sides learn if they are paired, except a receiver whose last frame is lost: it may believe so while the sender does
//! not. Then nothing is sent, and the code is used up, so no harm is done.
//!
//! The crate `spake2` has not been audited, and does not wipe its secrets; they are of one run only. It accepts elements
//! with a component of small order. Such a component adds one of eight known points to the common element, and none of
//! what a peer that does not know pw lacks, so it gives no second guess.

mod code;
mod error;
pub mod exchange;
mod frame;
mod one_time;
mod stream;
mod tally;
#[cfg(test)]
mod tests;
mod words;

pub use code::{CODES, Code, CodeError};
pub use error::{PairingError, Refusal};
pub use one_time::{Attempt, OneTimeCode};
pub use stream::{begins_with, decline, pair_as_receiver, pair_as_sender};
pub use tally::GuessTally;
