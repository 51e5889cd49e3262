//! Answers to the SYN of a sealed session.

use dfcp_time::Time;
use dfcp_wire::handshake::Payload;
use dfcp_wire::segment::{Clear, Received, ResetReason, Segment};

use super::{Agreed, Opening, Stage};
use crate::error::{ConnectionError, Dropped};
use crate::session::common::Common;
use crate::session::handshake::PeerLimits;
use crate::session::noise::{Answer, AnswerError};
use crate::session::protection::Protection;
use crate::session::{End, Stop};

impl Opening {
    /// Processes a cleartext datagram in a sealed session's handshake. Only answers to our SYN are accepted
    /// (\[trust-6\]).
    pub(in crate::session) fn take_clear(
        &mut self,
        now: Time,
        common: &mut Common,
        header: &Clear,
        datagram: &[u8],
    ) -> Result<Option<Agreed>, Stop> {
        let Received { segment, payload, .. } = header.verify(datagram)?;
        let Stage::Sealed(call) = &mut self.stage else { return Err(Dropped::Unexpected.into()) };
        if header.connection_id() != common.link.local_id {
            return Err(Dropped::Unexpected.into());
        }
        match segment {
            Segment::Reset(reset) => {
                let why = match reset.reason {
                    ResetReason::NotAdmitted => ConnectionError::NotAdmitted,
                    ResetReason::CannotRead => ConnectionError::PinnedKeyRefused,
                    ResetReason::Unspecified
                    | ResetReason::Application { .. }
                    | ResetReason::PathTooNarrow
                    | ResetReason::SessionUnknown => ConnectionError::Refused,
                };
                call.begin_doubt(now, why);
                Ok(None)
            }
            Segment::SynAck(_) => self.take_noise_answer(now, common, payload),
            _ => Err(Dropped::Unexpected.into()),
        }
    }

    fn take_noise_answer(&mut self, now: Time, common: &mut Common, payload: &[u8]) -> Result<Option<Agreed>, Stop> {
        let Stage::Sealed(call) = &mut self.stage else { return Err(Dropped::Unexpected.into()) };
        let payload = Payload::decode(payload)?;
        if let (Some(cookie), None) = (payload.cookie, payload.noise) {
            // A cookie is not authenticated: cookies may at most double the SYNs that we send ([cookie-1]).
            if common.counters.cookies_received >= self.handshake.timed_copies() {
                return Err(Dropped::Unexpected.into());
            }
            // Answer each accepted cookie with one more SYN.
            common.counters.cookies_received += 1;
            call.set_cookie(cookie);
            self.handshake.owe(0);
            return Ok(None);
        }
        let Some(credentials) = common.config.credentials() else { return Err(Dropped::Unexpected.into()) };
        match call.answer((&common.config, credentials), common.symbol_size, &payload) {
            Ok(answer) => self.agree(now, common, answer).map(Some),
            Err(AnswerError::Ignored) => Err(Dropped::Forged.into()),
            Err(AnswerError::Doubtful(why)) => {
                call.begin_doubt(now, why);
                Err(Dropped::Forged.into())
            }
            Err(AnswerError::Final(why)) => Err(End::because(why).into()),
        }
    }

    /// Completes the handshake: keys replace the call.
    fn agree(&mut self, now: Time, common: &mut Common, answer: Answer) -> Result<Agreed, Stop> {
        let Stage::Sealed(call) = std::mem::replace(&mut self.stage, Stage::Called) else {
            return Err(Dropped::Unexpected.into());
        };
        let (established, ticket) = call.finish().map_err(|_| End::because(ConnectionError::Incompatible))?;
        common.last_heard = now;
        common.link.peer_id = Some(answer.peer_id);
        if let Some(sample) = self.handshake.rtt(now, answer.echo) {
            common.paths.active_mut().guess_rtt(sample);
        }
        common.symbol_size = answer.symbol_size;
        common.features = answer.features;
        if let Some(key_log) = &common.config.danger_key_log {
            key_log.give((common.link.local_id, answer.peer_id), &established, answer.cipher);
        }
        common.link.keys = Some(Box::new(Protection::new(established, answer.cipher)));
        // Repeat the ACK until the acceptor responds, since the acceptor does not retransmit its SYNACK by timer.
        self.handshake.start_timer(now);
        self.handshake.clear_owed();
        if answer.third.is_some() {
            // Send the third message twice: the acceptor cannot decrypt any data before it has arrived.
            self.handshake.owe(0);
            self.handshake.owe(0);
        }
        Ok(Agreed { peer: PeerLimits::from(&answer.offer), third: answer.third, ticket })
    }
}
