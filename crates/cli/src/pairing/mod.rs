//! Pairing: two people without keys authenticate an encrypted connection by a short code that one tells the other (`spec/pairing.md`).
//!
//! Usually neither side knows the other's key: nobody can eavesdrop, but the peer may be anybody, or a man in the
//! middle with a session to each side. Any Noise pattern is suitable, because pairing uses only the handshake hash. The
//! code, about 22 bits, authenticates the peer by SPAKE2, which turns a short shared secret into a long one without
//! permitting offline guesses, and by two confirmations under the long secret.
//!
//! # Why a run permits only one guess
//!
//! - The receiver's element y·B + pw·N is uniformly distributed for any code pw, so it reveals nothing; likewise the sender's.
//! - An attacker posing as *sender* commits to one guess in its element before it sees the receiver's element. It can
//!   compute the key for that guess only, and must confirm first. After a wrong guess it learns only that the guess was
//!   wrong: the receiver's confirmation, which would permit offline guesses, is never made (only
//!   [`exchange::AwaitSender::verify`] returns it). So [`OneTimeCode`] limits the number of guesses.
//! - An attacker posing as *receiver* gets the sender's confirmation, and can test the one guess in its own element.
//!   This permits one guess per start of the sender's command, which visibly fails.
//! - A *man in the middle* has two sessions with different handshake hashes. The hash is part of both identities, which enter the key, and
//!   of both confirmations, so a confirmation of one session fails in the other even with the right code. Only the two guesses above
//!   remain.
//!
//! Both sides learn the result, with one exception: if the receiver's last frame is lost, the receiver may consider
//! itself paired while the sender does not. Then nothing is sent and the code is used up, so no harm is done.
//!
//! The crate `spake2` has not been audited and does not wipe its secrets, which are used for one run. It accepts elements with a
//! small-order component. That component adds one of eight known points to the shared element, which does not help a peer without pw, so it
//! permits no second guess.

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
