//! How an unsealed connection opens (thesis §3.6; `spec/protocol.md` §2.2).

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_time::Time;
use dfcp_wire::handshake::Parameters;
use dfcp_wire::segment::SynAck;

use crate::config::Config;
use crate::error::{ConnectionError, Dropped};
use crate::session::handshake::{Opener, PeerLimits, are_offered, offered_symbol_size};
use crate::session::{Phase, Session};
use crate::shared::{Ports, Role};

impl Session {
    /// Answers an unsealed SYN: the connection which the listening side gets. `None` if the SYN is not one which `config` can
    /// serve; [`handle_datagram`](Self::handle_datagram) takes its further copies.
    #[must_use]
    pub(crate) fn accept(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        syn: &Opener<'_>,
        bytes: usize,
        seed: [u8; 32],
    ) -> Option<Self> {
        let mut connection = Self::new(now, config, ports, remote, Role::Acceptor, seed);
        connection.take_syn(now, syn, bytes).ok()?;
        connection.count_received(bytes);
        Some(connection)
    }

    /// In SYN_RECV, a segment which names our id proves the peer's address (\[open-13\]).
    pub(super) fn open_if_proven(&mut self, now: Time) -> Result<(), Dropped> {
        match self.phase {
            Phase::Open => {
                if self.handshake.role == Role::Initiator {
                    // The acceptor speaks, so it knows: the ACK need not be repeated ([open-12]).
                    self.handshake.timer = None;
                }
                Ok(())
            }
            Phase::SynReceived => {
                self.handshake.timer = None;
                let (peer, symbol_size) = self.pending_peer;
                self.establish(now, peer, symbol_size);
                Ok(())
            }
            Phase::SynSent | Phase::Closed(_) => Err(Dropped::Unexpected),
        }
    }

    pub(super) fn take_syn(&mut self, now: Time, syn: &Opener<'_>, bytes: usize) -> Result<(), Dropped> {
        let (parameters, symbol_size) = modern_parameters(syn)?;
        if self.handshake.has_peer() {
            // A copy is answered again; a different SYN cannot change what has been agreed.
            if self.handshake.peer_id != Some(parameters.connection_id) {
                return Err(Dropped::Unexpected);
            }
            self.handshake.owe(syn.number);
            return Ok(());
        }
        self.handshake.peer_id = Some(parameters.connection_id);
        self.symbol_size = self.symbol_size.min(symbol_size);
        self.pending_peer = (PeerLimits::from(&parameters.offer), self.symbol_size);
        if self.arrivals.received() == 0 {
            self.arrivals.observe(now, syn.number.into(), bytes);
        }
        // A SYN in SYN_SENT is a simultaneous open: both ends answer, as TCP does (RFC 9293 §3.5). Neither is only a
        // responder, so both repeat their SYNACK ([open-5]).
        if self.phase == Phase::SynSent {
            self.phase = Phase::SynReceived;
            self.handshake.start_timer(now);
        }
        self.handshake.owe(syn.number);
        Ok(())
    }

    pub(super) fn take_synack(
        &mut self,
        now: Time,
        &SynAck { echo, options }: &SynAck,
        number: u32,
        payload: &[u8],
    ) -> Result<(), Dropped> {
        match self.phase {
            Phase::SynSent => {}
            Phase::SynReceived if self.handshake.role == Role::Initiator => {}
            Phase::SynReceived => return Err(Dropped::Unexpected),
            Phase::Open => {
                // Our ACK was lost.
                self.handshake.owe(number);
                return Ok(());
            }
            Phase::Closed(_) => return Err(Dropped::Unexpected),
        }
        let answer = if options.is_none_or(|options| are_offered(options.features)) {
            modern_parameters(&Opener { options, number, payload })
        } else {
            Err(Dropped::Unexpected)
        };
        let (parameters, symbol_size) = match answer {
            Ok(parameters) => parameters,
            Err(error) => {
                if error == Dropped::Unexpected {
                    // It asks for what we do not speak ([open-16]).
                    self.close(Some(ConnectionError::Incompatible));
                }
                return Err(error);
            }
        };
        self.handshake.peer_id = Some(parameters.connection_id);
        if let Some(sample) = self.handshake.rtt(now, echo) {
            self.rtt.guess(sample);
        }
        self.symbol_size = self.symbol_size.min(symbol_size);
        self.handshake.owe(number);
        // Repeated until the acceptor shows that it has heard: it does not repeat its SYNACK by itself.
        self.handshake.start_timer(now);
        self.establish(now, PeerLimits::from(&parameters.offer), self.symbol_size);
        Ok(())
    }

    /// The peer has ended the connection (\[rst-3\]).
    pub(super) fn take_reset(&mut self) {
        let error = match self.phase {
            Phase::SynSent | Phase::SynReceived => ConnectionError::Refused,
            Phase::Open | Phase::Closed(_) => ConnectionError::Reset,
        };
        self.close(Some(error));
    }
}

/// What a modern SYN or SYNACK declares, and the symbol size which it offers, if we can speak what it asks for.
fn modern_parameters(syn: &Opener<'_>) -> Result<(Parameters, u16), Dropped> {
    let symbol_size = offered_symbol_size(syn.options, false).ok_or(Dropped::Unexpected)?;
    Ok((Parameters::decode(syn.payload)?, symbol_size))
}
