//! Sealed SYNs and proofs of initiators: checks that involve all connections of the endpoint (`spec/protocol.md` §2.4).

use std::net::SocketAddr;

use dfcp_secure::Pattern;
use dfcp_time::Time;
use dfcp_wire::Unverified;
use dfcp_wire::segment::ResetReason;

use crate::connection::Connection;
use crate::endpoint::accept::reserve_bytes;
use crate::endpoint::half_open::Syn;
use crate::endpoint::refused::Verdict;
use crate::endpoint::{Endpoint, Entered, Routed};
use crate::session::handshake::offered_symbol_size;
use crate::shared::memory::MemoryReservation;

impl Endpoint {
    /// Processes a datagram for an unknown connection. It may be an initiator's proof, a datagram of a peer that has
    /// missed the end of its session, or a query about a lost session. Everything else is dropped.
    pub(super) fn handle_unknown(
        &mut self,
        now: Time,
        remote: SocketAddr,
        (id, header): (u32, &Unverified),
        datagram: &[u8],
        reply: &mut [u8],
    ) -> Routed {
        let is_half_open = self.half_opens.as_mut().is_some_and(|half_opens| {
            half_opens.expire(now);
            half_opens.contains(id)
        });
        if is_half_open {
            return self.handle_proof(now, id, header, datagram, reply);
        }
        if let Some(length) = self.kept_words.answer(now, (remote, id), datagram.len(), reply) {
            return Routed::Reply(length);
        }
        match header {
            Unverified::Clear(clear) => {
                let answer = self.resets.answer(now, remote, clear, datagram, reply);
                answer.map_or(Routed::Dropped, Routed::Reply)
            }
            _ => Routed::Dropped,
        }
    }

    /// Processes a datagram for a sealed half-open connection.
    fn handle_proof(&mut self, now: Time, id: u32, header: &Unverified, datagram: &[u8], reply: &mut [u8]) -> Routed {
        let seed = self.seed();
        let (Some(half_opens), Some(config)) = (&mut self.half_opens, &self.modern) else { return Routed::Dropped };
        let reserve = reserve_bytes(config);
        let Some(opened) = half_opens.take_proof(now, config, id, (header, datagram), seed) else {
            return Routed::Dropped;
        };
        let mut session = opened.session;
        let remote = session.remote();
        let reservation = self.has_room(remote).then(|| MemoryReservation::open(&self.memory, reserve)).flatten();
        let Some(reservation) = reservation else {
            // The initiator believes that it is connected, and no state is left here that could inform it later. Send
            // the RST now.
            self.refused += 1;
            session.refuse();
            let told = session.poll_transmit(now, reply);
            return told.map_or(Routed::Dropped, |transmit| Routed::Reply(transmit.length));
        };
        session.charge_to(reservation);
        session.take_from(&self.spare);
        let mut connection = Connection::from(session);
        connection.watch(now, config, false);
        if opened.has_datagram {
            connection.handle_datagram(now, remote, &mut datagram.to_vec());
        }
        let handle = self.insert(remote, &connection, None, Entered::Proven);
        Routed::Opened(handle, connection)
    }

    pub(super) fn handle_sealed_syn(&mut self, now: Time, syn: &Syn<'_>, reply: &mut [u8]) -> Routed {
        // Two ends that call each other would both have to be the responder, so there is no sealed simultaneous open.
        let (Some(config), true) = (&self.modern, self.half_opens.is_some()) else {
            return self.refuse_if_listening(syn.initiator_id, reply);
        };
        let has_room = self.has_room(syn.remote) && self.memory.free_bytes() >= reserve_bytes(config);
        if !has_room || self.is_reflected(syn) {
            self.refused += 1;
            return Routed::Dropped;
        }
        let is_spoken = offered_symbol_size(syn.options).is_some();
        let by_id = &self.by_id;
        let verdict = match (&mut self.half_opens, reply.first_chunk_mut()) {
            (Some(half_opens), Some(out)) if is_spoken => {
                half_opens.take_syn(now, config, syn, |id| by_id.contains_key(&id), &mut self.random, out)
            }
            _ => Verdict::Refuse(ResetReason::Unspecified),
        };
        match verdict {
            Verdict::Answer(length) => Routed::Reply(length),
            Verdict::Refuse(reason) => self.refuse(syn.initiator_id, reason, reply),
            Verdict::Drop => {
                self.refused += 1;
                Routed::Dropped
            }
        }
    }

    /// Returns true for our own pre-shared-key SYN that somebody has sent back. We must not answer ourselves
    /// ([noise-11]). Its message authenticates the connection id, so the id is genuine.
    fn is_reflected(&self, syn: &Syn<'_>) -> bool {
        let known = self.by_id.get(&syn.initiator_id).and_then(|handle| self.entries.get(handle.0));
        syn.pattern == Pattern::PreShared.id() && known.is_some_and(|entry| !entry.accepted)
    }

    fn refuse_if_listening(&mut self, initiator_id: u32, reply: &mut [u8]) -> Routed {
        if self.accept.is_none() {
            return Routed::Dropped;
        }
        self.refuse(initiator_id, ResetReason::Unspecified, reply)
    }
}
