//! The three-way handshake (thesis §3.6; `spec/protocol.md` §2.3), in which each end announces its generator state.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dfcp_fountain::raptor::State as GeneratorState;
use dfcp_time::Time;
use dfcp_wire::classic::{Segment, StateWords};

use crate::classic::receiver::ClassicReceiver;
use crate::classic::{ClassicConnection, Phase};
use crate::config::Config;
use crate::error::{ConnectionError, Dropped};
use crate::limits;
use crate::shared::retransmit::{RetransmitSchedule, RetransmitTimer};
use crate::shared::{Ports, Role};

/// Announced generator states of both ends, and handshake segments still to be sent.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) role: Role,
    pub(super) local_initial: GeneratorState,
    pub(super) peer_initial: Option<GeneratorState>,
    /// Retransmission timer of the SYN or SYNACK. `None` once it is answered.
    pub(super) timer: Option<RetransmitTimer>,
    /// Answers owed to copies of the peer's segment.
    answers_owed: u8,
    first_sent_at: Option<Time>,
}

impl Handshake {
    pub(super) fn new(role: Role, local_initial: GeneratorState) -> Self {
        Self { role, local_initial, peer_initial: None, timer: None, answers_owed: 0, first_sent_at: None }
    }

    pub(super) fn start_timer(&mut self, now: Time) {
        self.timer = Some(RetransmitTimer::start(now, &RetransmitSchedule::CLASSIC));
    }

    /// Records a copy of the peer's SYN or SYNACK: one more answer is owed.
    fn owe_answer(&mut self) {
        self.answers_owed = (self.answers_owed + 1).min(limits::ANSWERS_OWED_MAX);
    }

    pub(super) fn owes_answer(&self) -> bool {
        self.answers_owed > 0
    }

    /// Records that a handshake segment is sent. It counts as one of the owed answers, if any are owed.
    pub(super) fn on_sent(&mut self, now: Time) {
        self.answers_owed = self.answers_owed.saturating_sub(1);
        self.first_sent_at.get_or_insert(now);
        if let Some(timer) = self.timer.as_mut().filter(|timer| timer.is_due(now)) {
            timer.on_sent(now);
        }
    }

    /// Time since our first segment was sent. This is a round trip if it was the only one.
    fn round_trip(&self, now: Time) -> Option<Duration> {
        self.first_sent_at.map(|sent_at| now.since(sent_at))
    }
}

impl ClassicConnection {
    /// Accepts a SYN that announces the state `initial`. Returns the acceptor's connection, or `None` if the state is
    /// invalid. Copies of the SYN go to [`handle_datagram`](Self::handle_datagram).
    pub(crate) fn accept(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        initial: StateWords,
        bytes: usize,
        seed: [u8; 32],
    ) -> Option<Self> {
        let mut connection = Self::new(now, config, ports, remote, Role::Acceptor, seed);
        connection.take_syn(now, initial).ok()?;
        // Unlike a modern acceptor, a classic one also retransmits its SYNACK by timer (thesis §3.6).
        connection.handshake.start_timer(now);
        connection.count_received(bytes);
        Some(connection)
    }

    pub(super) fn take_syn(&mut self, now: Time, initial: StateWords) -> Result<(), Dropped> {
        if let Some(known) = self.handshake.peer_initial {
            // Answer a copy again. A different SYN cannot change agreed values ([open-23]).
            if known.words() != initial {
                return Err(Dropped::Unexpected);
            }
            self.handshake.owe_answer();
            return Ok(());
        }
        self.set_peer_initial(initial)?;
        // A SYN in SYN_SENT is a simultaneous open: both ends answer, as TCP does (RFC 9293 §3.5). Neither is only a
        // responder, so both repeat their SYNACK.
        if self.phase == Phase::SynSent {
            self.phase = Phase::SynReceived;
            self.handshake.start_timer(now);
        }
        self.handshake.owe_answer();
        Ok(())
    }

    pub(super) fn take_synack(&mut self, now: Time, initial: StateWords) -> Result<(), Dropped> {
        match (&self.phase, self.handshake.role) {
            (Phase::SynSent, _) | (Phase::SynReceived, Role::Initiator) => {}
            (Phase::Open, _) => {
                // Our ACK was lost ([open-22]).
                self.handshake.owe_answer();
                return Ok(());
            }
            (Phase::SynReceived, Role::Acceptor) | (Phase::Closed(_), _) => return Err(Dropped::Unexpected),
        }
        self.set_peer_initial(initial)?;
        self.sample_handshake(now);
        self.handshake.owe_answer();
        self.handshake.timer = None;
        self.establish(now);
        Ok(())
    }

    /// Opens the connection in SYN_RECV, after an ACK that echoes our state: only such an ACK proves the peer's address
    /// ([open-21]).
    pub(super) fn open_if_proven(&mut self, now: Time, segment: &Segment) -> Result<(), Dropped> {
        match self.phase {
            Phase::Open => Ok(()),
            Phase::SynReceived => {
                let echo = self.handshake.local_initial.words();
                if *segment != (Segment::HandshakeAck { echo }) {
                    return Err(Dropped::Unexpected);
                }
                self.sample_handshake(now);
                self.handshake.timer = None;
                self.establish(now);
                Ok(())
            }
            Phase::SynSent | Phase::Closed(_) => Err(Dropped::Unexpected),
        }
    }

    /// Samples the RTT if only one of our segments was sent. After several, the answer could belong to any of them
    /// ([open-24]).
    fn sample_handshake(&mut self, now: Time) {
        if self.counters.segments_sent == 1
            && let Some(sample) = self.handshake.round_trip(now)
        {
            self.rtt.sample(sample);
        }
    }

    fn set_peer_initial(&mut self, [s1, s2, s3]: StateWords) -> Result<(), Dropped> {
        let state = GeneratorState::new(s1, s2, s3).ok_or(Dropped::Unexpected)?;
        if self.handshake.peer_initial != Some(state) {
            self.handshake.peer_initial = Some(state);
            self.receiver = ClassicReceiver::new(&self.config, state);
        }
        Ok(())
    }

    pub(super) fn take_reset(&mut self, echo: StateWords) -> Result<(), Dropped> {
        // Only our peer, or an attacker on the path, knows the state that we sent ([rst-2]).
        if echo != self.handshake.local_initial.words() {
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
