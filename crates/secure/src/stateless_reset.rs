//! Stateless resets: proof by an endpoint that it has lost a session, without keeping state of that session
//! (`spec/security.md` §7).

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::schedule;

/// Length of a reset question, bytes: a nonce, and the code by which the endpoint recognises its own questions.
pub const RESET_QUESTION_BYTES: usize = NONCE_BYTES + CODE_BYTES;
/// Length of the token that answers a question, bytes.
pub const RESET_TOKEN_BYTES: usize = 16;
/// Length of a ticket, bytes: the question and its answer.
pub const RESET_TICKET_BYTES: usize = RESET_QUESTION_BYTES + RESET_TOKEN_BYTES;

const NONCE_BYTES: usize = 8;
const CODE_BYTES: usize = 8;

/// A key with which a restarted endpoint proves to its peers that their sessions are lost. It must be the same before
/// and after the restart, and unique to the endpoint. It is stored in a file with read access for the owner only
/// (\[reset-4\]). Wiped on drop.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use dfcp::ResetKey;
///
/// let key = ResetKey::from_bytes(&[7; 32]); // real programs need 32 unpredictable bytes, stored in a file
/// assert_eq!(format!("{key:?}"), "ResetKey(..)");
/// ```
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct ResetKey([u8; 32]);

impl ResetKey {
    /// Makes a key from 32 unpredictable bytes, used unchanged.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(*bytes)
    }

    /// Makes a key from a seed, for endpoints without a stored key: its tickets stay valid as long as the seed is kept.
    /// Other uses of the seed reveal nothing about the key.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(*schedule::expand(seed, "stateless reset seed", &[]))
    }

    /// Derives the key for the endpoint at this port. Endpoints of one user may share a `ResetKey`; each answers only
    /// for its own sessions.
    #[must_use]
    pub fn at_port(&self, port: u16) -> EndpointResetKey {
        EndpointResetKey(schedule::expand(&self.0, "stateless reset", &port.to_be_bytes()))
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetKey(..)")
    }
}

/// The [`ResetKey`] of one endpoint, derived for its port (`spec/security.md` \[reset-1\]).
pub struct EndpointResetKey(Zeroizing<[u8; 32]>);

impl EndpointResetKey {
    /// Issues the ticket for the session with this connection id. `seed` must be unpredictable to others, and used for
    /// this session only. Other uses of the seed reveal nothing about the ticket.
    #[must_use]
    pub fn issue(&self, connection_id: u32, seed: &[u8; 32]) -> ResetTicket {
        let nonce = schedule::expand(seed, "stateless reset nonce", &[]);
        ResetTicket(*self.ticket(connection_id, *nonce))
    }

    /// Returns the token that answers a question about the session with this id; `None` if this endpoint never issued
    /// the question (\[reset-2\]).
    #[must_use]
    pub fn answer(&self, connection_id: u32, question: &[u8; RESET_QUESTION_BYTES]) -> Option<[u8; RESET_TOKEN_BYTES]> {
        let (nonce, _) = question.split_first_chunk()?;
        let ticket = self.ticket(connection_id, *nonce);
        let (own, token) = ticket.split_first_chunk::<RESET_QUESTION_BYTES>()?;
        let is_own: bool = own.ct_eq(question).into();
        token.try_into().ok().filter(|_| is_own)
    }

    pub(crate) fn ticket(&self, connection_id: u32, nonce: [u8; NONCE_BYTES]) -> Zeroizing<[u8; RESET_TICKET_BYTES]> {
        let mut context = [0; 4 + NONCE_BYTES];
        context[..4].copy_from_slice(&connection_id.to_be_bytes());
        context[4..].copy_from_slice(&nonce);
        let codes = schedule::expand::<{ CODE_BYTES + RESET_TOKEN_BYTES }>(&self.0, "session", &context);
        let mut ticket = Zeroizing::new([0; RESET_TICKET_BYTES]);
        ticket[..NONCE_BYTES].copy_from_slice(&nonce);
        ticket[NONCE_BYTES..].copy_from_slice(&*codes);
        ticket
    }
}

impl fmt::Debug for EndpointResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointResetKey(..)")
    }
}

/// Ticket that an endpoint sends to its peer, encrypted, when a session opens. It contains the question that the peer
/// asks if the endpoint falls silent, and the answer, which only the endpoint can compute. Wiped on drop.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct ResetTicket([u8; RESET_TICKET_BYTES]);

impl ResetTicket {
    /// Decodes a ticket received from the peer.
    #[must_use]
    pub fn from_bytes(bytes: [u8; RESET_TICKET_BYTES]) -> Self {
        Self(bytes)
    }

    /// Encodes the ticket for the peer.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; RESET_TICKET_BYTES] {
        self.0
    }

    /// Returns the question to ask.
    #[must_use]
    pub fn question(&self) -> [u8; RESET_QUESTION_BYTES] {
        core::array::from_fn(|at| self.0[at])
    }

    /// Returns true if `token` is the answer to the ticket's question. Compares in constant time (\[reset-3\]).
    #[must_use]
    pub fn is_answered_by(&self, token: &[u8]) -> bool {
        let (_, own) = self.0.split_at(RESET_QUESTION_BYTES);
        own.ct_eq(token).into()
    }
}

impl fmt::Debug for ResetTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetTicket(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> EndpointResetKey {
        ResetKey::from_bytes(&[byte; 32]).at_port(4433)
    }

    #[test]
    fn an_endpoint_that_kept_its_key_alone_answers_its_own_questions() {
        let ticket = key(7).issue(9, &[1; 32]);
        let token = key(7).answer(9, &ticket.question()).unwrap();
        assert!(ticket.is_answered_by(&token));
    }

    #[test]
    fn nothing_else_is_answered() {
        let question = key(7).issue(9, &[1; 32]).question();
        assert_eq!(key(8).answer(9, &question), None, "another key");
        assert_eq!(key(7).answer(8, &question), None, "another session");
        let elsewhere = ResetKey::from_bytes(&[7; 32]).at_port(4434);
        assert_eq!(elsewhere.answer(9, &question), None, "another port");
        for bit in 0..RESET_QUESTION_BYTES * 8 {
            let mut forged = question;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key(7).answer(9, &forged), None, "bit {bit}");
        }
    }

    #[test]
    fn sessions_with_one_id_have_different_tokens() {
        let (first, second) = (key(7).issue(9, &[1; 32]), key(7).issue(9, &[2; 32]));
        let token = key(7).answer(9, &first.question()).unwrap();
        assert!(!second.is_answered_by(&token));
    }

    #[test]
    fn a_token_is_the_whole_token() {
        let ticket = key(7).issue(9, &[1; 32]);
        let token = key(7).answer(9, &ticket.question()).unwrap();
        for length in 0..RESET_TOKEN_BYTES {
            assert!(!ticket.is_answered_by(&token[..length]));
        }
        assert!(!ticket.is_answered_by(&[token.as_slice(), &[0]].concat()));
        for bit in 0..RESET_TOKEN_BYTES * 8 {
            let mut forged = token;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!ticket.is_answered_by(&forged), "bit {bit}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let ticket = key(7).issue(9, &[1; 32]);
        let shown = format!("{:?} {:?} {ticket:?}", ResetKey::from_seed(&[7; 32]), key(7));
        assert_eq!(shown, "ResetKey(..) EndpointResetKey(..) ResetTicket(..)");
    }
}
