//! How a connection without seals opens: classic, and modern where both ends have asked for it (thesis §3.6;
//! `spec/protocol.md`, "Opening").

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_fountain::raptor::State as GeneratorState;
use dfcp_time::Time;
use dfcp_wire::handshake::Parameters;
use dfcp_wire::{Flags, Profile, Segment};

use crate::config::Config;
use crate::connection::handshake::{CODE_RANDOM_LINEAR, PeerLimits, Role};
use crate::connection::{Connection, Phase, Ports, Receiver};
use crate::error::{ConnectionError, Dropped};

/// The symbol size of classic segments, which has no say.
const CLASSIC_SYMBOL_SIZE: u16 = dfcp_fountain::raptor::SEGMENT_BYTES as u16;

impl Connection {
    /// Answers an unsealed SYN: the connection which the listening side gets. `None` if the SYN is not one which `config` can
    /// serve; [`handle_datagram`](Self::handle_datagram) takes its further copies.
    #[must_use]
    pub(crate) fn accept(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        syn: &Segment<'_>,
        bytes: usize,
        seed: [u8; 32],
    ) -> Option<Self> {
        let mut connection = Self::new(now, config, ports, remote, Role::Acceptor, seed);
        connection.take_syn(now, syn, bytes).ok()?;
        // Modern answers each copy of the SYN once; classic repeats its SYNACK by itself (thesis §3.6).
        if connection.config.profile == Profile::Classic {
            connection.handshake.start_repeats(now, Profile::Classic);
        }
        connection.count_received(bytes);
        Some(connection)
    }

    /// In SYN_RECV, a segment which names our id, or echoes our state, proves the peer's address.
    pub(super) fn open_if_proven(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        match self.phase {
            Phase::Open => {
                if self.config.profile == Profile::Modern && self.handshake.role == Role::Initiator {
                    // The acceptor speaks, so it knows: the ACK need not be repeated.
                    self.handshake.repeats = None;
                }
                Ok(())
            }
            Phase::SynReceived => {
                let echoed = [header.s1, header.s2, header.s3] == self.handshake.local_initial.words();
                let proven = match self.config.profile {
                    Profile::Modern => true,
                    Profile::Classic => header.flags == Flags::ACK && echoed,
                };
                if !proven {
                    return Err(Dropped::Unexpected);
                }
                if self.config.profile == Profile::Classic
                    && let Some(sample) = self.handshake.rtt(now, 0).filter(|_| self.numbers.end() == 1)
                {
                    self.rtt.sample(sample);
                }
                self.handshake.repeats = None;
                let (peer, symbol_size) = self.pending_peer;
                self.establish(now, peer, symbol_size);
                Ok(())
            }
            Phase::SynSent | Phase::Closed(_) => Err(Dropped::Unexpected),
        }
    }

    pub(super) fn take_syn(&mut self, now: Time, segment: &Segment<'_>, bytes: usize) -> Result<(), Dropped> {
        let header = &segment.header;
        if self.handshake.has_peer() {
            // A copy is answered again; a different SYN cannot change what has been agreed.
            let known = match self.config.profile {
                Profile::Classic => {
                    self.handshake.peer_initial.map(GeneratorState::words) == Some([header.s1, header.s2, header.s3])
                }
                Profile::Modern => self.handshake.peer_id == Some(Self::modern_parameters(segment)?.connection_id),
            };
            if !known {
                return Err(Dropped::Unexpected);
            }
            self.handshake.owe(header.s3);
            return Ok(());
        }
        if self.config.profile == Profile::Classic {
            let state = GeneratorState::new(header.s1, header.s2, header.s3).ok_or(Dropped::Unexpected)?;
            self.set_peer_initial(state);
            self.pending_peer = (self.classic_peer(), CLASSIC_SYMBOL_SIZE);
        } else {
            let parameters = Self::modern_parameters(segment)?;
            self.handshake.peer_id = Some(parameters.connection_id);
            let symbol_size = segment.options.symbol_size.unwrap_or(self.symbol_size);
            self.symbol_size = self.symbol_size.min(symbol_size);
            self.pending_peer = (PeerLimits::from(&parameters.offer), self.symbol_size);
            if self.arrivals.received() == 0 {
                self.arrivals.observe(now, header.s3.into(), bytes);
            }
        }
        // A SYN in SYN_SENT is a simultaneous open: both ends answer, as TCP does (RFC 9293 §3.5). Neither is only a
        // responder, so both repeat their SYNACK.
        if self.phase == Phase::SynSent {
            self.phase = Phase::SynReceived;
            self.handshake.start_repeats(now, self.config.profile);
        }
        self.handshake.owe(header.s3);
        Ok(())
    }

    /// The payload of a modern SYN or SYNACK, if we can speak what it asks for.
    fn modern_parameters(segment: &Segment<'_>) -> Result<Parameters, Dropped> {
        let options = &segment.options;
        let ours = options.version == Some(dfcp_wire::VERSION)
            && options.profile == Some(Profile::Modern)
            && options.code == Some(CODE_RANDOM_LINEAR)
            && options.symbol_size.is_some_and(|size| (64..=1472).contains(&size));
        if !ours {
            return Err(Dropped::Unexpected);
        }
        Ok(Parameters::decode(segment.payload)?)
    }

    pub(super) fn take_synack(&mut self, now: Time, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        match self.phase {
            Phase::SynSent => {}
            Phase::SynReceived if self.handshake.role == Role::Initiator => {}
            Phase::SynReceived => return Err(Dropped::Unexpected),
            Phase::Open => {
                // Our ACK was lost.
                self.handshake.owe(header.s3);
                return Ok(());
            }
            Phase::Closed(_) => return Err(Dropped::Unexpected),
        }
        let (peer, symbol_size) = if self.config.profile == Profile::Classic {
            let state = GeneratorState::new(header.s1, header.s2, header.s3).ok_or(Dropped::Unexpected)?;
            self.set_peer_initial(state);
            if let Some(sample) = self.handshake.rtt(now, 0).filter(|_| self.numbers.end() == 1) {
                self.rtt.sample(sample);
            }
            (self.classic_peer(), CLASSIC_SYMBOL_SIZE)
        } else {
            let parameters = match Self::modern_parameters(segment) {
                Ok(parameters) => parameters,
                Err(error) => {
                    if error == Dropped::Unexpected {
                        self.close(Some(ConnectionError::Incompatible));
                    }
                    return Err(error);
                }
            };
            self.handshake.peer_id = Some(parameters.connection_id);
            if let Some(sample) = self.handshake.rtt(now, header.s2) {
                self.rtt.guess(sample);
            }
            let symbol_size = segment.options.symbol_size.unwrap_or(self.symbol_size);
            self.symbol_size = self.symbol_size.min(symbol_size);
            (PeerLimits::from(&parameters.offer), self.symbol_size)
        };
        self.handshake.owe(header.s3);
        self.handshake.repeats = None;
        if self.config.profile == Profile::Modern {
            // Repeated until the acceptor shows that it has heard: it does not repeat its SYNACK by itself.
            self.handshake.start_repeats(now, Profile::Modern);
        }
        self.establish(now, peer, symbol_size);
        Ok(())
    }

    fn set_peer_initial(&mut self, state: GeneratorState) {
        if self.handshake.peer_initial == Some(state) {
            return;
        }
        self.handshake.peer_initial = Some(state);
        let receiver = crate::recv::classic::ClassicReceiver::new(&self.config, state);
        self.receiver = Receiver::Classic(Box::new(receiver));
    }

    /// A classic peer declares nothing: the documents leave the window to each side.
    fn classic_peer(&self) -> PeerLimits {
        PeerLimits { window_blocks: self.config.window_blocks, window_bytes: u64::MAX, ..PeerLimits::default() }
    }

    pub(super) fn take_reset(&mut self, segment: &Segment<'_>) -> Result<(), Dropped> {
        let header = &segment.header;
        let words = [header.s1, header.s2, header.s3];
        // Whoever resets a classic connection must know the state which we sent it. A modern RST names our id.
        if self.config.profile == Profile::Classic && words != self.handshake.local_initial.words() {
            return Err(Dropped::Unexpected);
        }
        let error = match self.phase {
            Phase::SynSent | Phase::SynReceived => ConnectionError::Refused,
            Phase::Open | Phase::Closed(_) => ConnectionError::Reset,
        };
        self.close(Some(error));
        Ok(())
    }
}
