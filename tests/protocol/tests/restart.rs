//! Tests of an end that has lost a session, and of its peer's reaction (`spec/protocol.md` [rst-7] to [rst-9]).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use dfcp_proto::{Accept, Config, ConnectionError, Rate, ResetKey, Security, State};
use dfcp_testkit::{DelayLine, Job, Node, Packet, Pattern, Testbed, Trust, client_address, seed32, server_address};
use dfcp_time::Time;
use dfcp_wire::segment::{Ack, Address, Reset, ResetReason, Segment};
use dfcp_wire::{DATAGRAM_BYTES_MAX, Outline, SegmentKind, Unverified};

/// Round-trip time of the path.
const RTT: Duration = Duration::from_millis(10);
/// Longest time from an end's restart until its peer notices.
const NOTICED_WITHIN: Duration = Duration::from_millis(500);
const SEALED: [Trust; 3] = [Trust::FirstContact, Trust::Pinned, Trust::PreShared];

fn key(byte: u8) -> Option<ResetKey> {
    Some(ResetKey::from_bytes(&[byte; 32]))
}

fn with(security: Security, idle: Duration) -> Config {
    let mut config = Config::danger_unsealed().with_idle_timeout(idle).with_rate(Rate::Fixed { rate_bps: 2_000_000 });
    config.security = security;
    config
}

/// An acceptor with this configuration and reset key.
fn accept(config: Config, reset_key: Option<ResetKey>) -> Accept {
    let mut accept = Accept::from(config);
    accept.reset_key = reset_key;
    accept
}

/// Application that sends continuously.
fn endless() -> Job {
    Job { is_eager: true, write_bytes: 2_048, ..Job::send(u64::MAX) }
}

/// Application that reads, and sends nothing.
fn silent() -> Job {
    Job { shut_down: false, ..Job::send(0) }
}

/// A client that sends continuously, and a server that can be restarted with another key.
struct Restart {
    bed: Testbed<DelayLine>,
    server: Config,
    /// Questions sent, with their times.
    questions: Rc<RefCell<Vec<(Time, Packet)>>>,
}

fn segment_of(bytes: &[u8]) -> Option<(Segment, Vec<u8>)> {
    let Ok(Unverified::Clear(header)) = Unverified::read(bytes) else { return None };
    let received = header.verify(bytes).ok()?;
    Some((received.segment, received.payload.to_vec()))
}

fn is_question(bytes: &[u8]) -> bool {
    matches!(segment_of(bytes), Some((Segment::Ack(Ack::SessionQuery { .. }), _)))
}

impl Restart {
    fn new(trust: Trust, idle: Duration, reset_key: Option<ResetKey>) -> Self {
        let (client, server) = trust.security();
        let (client, server) = (with(client, idle), with(server, idle));
        let mut bed = Testbed::new(1, accept(server.clone(), reset_key));
        (bed.client.job, bed.server.job) = (endless(), silent());
        bed.connect(client).unwrap();
        let questions = Rc::<RefCell<Vec<(Time, Packet)>>>::default();
        let seen = Rc::clone(&questions);
        bed.tap = Box::new(move |now, packet| {
            if is_question(&packet.bytes) {
                seen.borrow_mut().push((now, packet.clone()));
            }
            vec![packet]
        });
        Self { bed, server, questions }
    }

    fn run_for(&mut self, time: Duration) {
        self.bed.run_until(self.bed.now + time);
    }

    /// Kills the server's program.
    fn kill(&mut self) {
        self.bed.server.is_off = true;
    }

    /// Starts the server's program again, at the same address and with this key.
    fn start(&mut self, reset_key: Option<ResetKey>) {
        let accept = accept(self.server.clone(), reset_key);
        self.bed.server = Node::new(server_address(), Some(accept), seed32(77, 2), Pattern(8), Pattern(9));
        self.bed.server.job = silent();
    }

    /// Time until the client's session ends, with its error; `None` if it is open after `within`.
    fn end(&mut self, within: Duration) -> Option<(Duration, ConnectionError)> {
        let (from, until) = (self.bed.now, self.bed.now + within);
        while self.bed.client.ended.is_empty() {
            if !self.bed.step(until) {
                return None;
            }
        }
        Some((self.bed.now.since(from), self.bed.client.ended[0].clone().unwrap()))
    }

    fn is_open(&self) -> bool {
        self.bed.client.state() != State::Closed && self.bed.client.ended.is_empty()
    }

    /// Injects a datagram to the client that claims to be from the server.
    fn inject(&mut self, bytes: Vec<u8>) {
        self.bed.put(Packet { from: server_address(), to: client_address(), bytes }, Duration::ZERO);
    }
}

/// Answer to `id` with this token.
fn reset(id: u32, token: &[u8]) -> Vec<u8> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let segment = Segment::Reset(Reset { reason: ResetReason::SessionUnknown });
    let mut draft = segment.begin_clear(Address::Connection(id), 0, &mut out);
    draft.payload(token.len()).unwrap().copy_from_slice(token);
    let length = draft.finish();
    out[..length].to_vec()
}

#[test]
fn a_receiver_that_comes_back_is_noticed_within_half_a_second_after_any_absence() {
    for trust in SEALED {
        for absence in [0, 100, 2_000, 45_000, 600_000].map(Duration::from_millis) {
            let mut restart = Restart::new(trust, Duration::from_secs(3_600), key(5));
            restart.run_for(Duration::from_secs(2));
            assert!(restart.is_open() && restart.bed.server.read > 0);
            restart.kill();
            restart.run_for(absence);
            assert!(restart.is_open(), "{trust:?} {absence:?}");
            restart.start(key(5));
            let (took, error) = restart.end(Duration::from_secs(5)).unwrap();
            assert_eq!(error, ConnectionError::PeerLostSession, "{trust:?} {absence:?}");
            let most = if absence > Duration::from_secs(60) { 2 * NOTICED_WITHIN } else { NOTICED_WITHIN };
            assert!(took <= most + RTT, "{trust:?} {absence:?}: {took:?}");
            // The session ends one round trip after the first question that arrives.
            let last = restart.questions.borrow().last().unwrap().0;
            assert_eq!(restart.bed.now.since(last), RTT, "{trust:?} {absence:?}");
        }
    }
}

/// The opposite direction: a receiver requests missing symbols, and learns that the session is lost.
#[test]
fn a_sender_that_comes_back_is_noticed_by_its_receiver() {
    for trust in SEALED {
        let mut restart = Restart::new(trust, Duration::from_secs(600), key(5));
        restart.bed.client.job = silent();
        restart.bed.server.job = endless();
        restart.run_for(Duration::from_secs(2));
        assert!(restart.is_open() && restart.bed.client.read > 0);
        restart.kill();
        restart.run_for(Duration::from_secs(2));
        restart.start(key(5));
        let (took, error) = restart.end(Duration::from_secs(5)).unwrap();
        assert_eq!(error, ConnectionError::PeerLostSession, "{trust:?}");
        assert!(took <= Duration::from_secs(1) + RTT, "{trust:?}: {took:?}");
    }
}

/// The end that opened the session restarts, at the same address.
#[test]
fn an_initiator_that_comes_back_is_noticed_by_its_acceptor() {
    for trust in SEALED {
        let mut restart = Restart::new(trust, Duration::from_secs(600), None);
        let (client, _) = trust.security();
        let client = with(client, Duration::from_secs(600));
        let listening = || Some(accept(restart_server(&client), key(6)));
        restart.bed.client = Node::new(client_address(), listening(), seed32(1, 1), Pattern(2), Pattern(3));
        restart.bed.server.job = endless();
        restart.bed.connect(client.clone()).unwrap();
        restart.run_for(Duration::from_secs(2));
        assert!(restart.bed.client.read > 0, "{trust:?}");
        restart.bed.client = Node::new(client_address(), listening(), seed32(55, 1), Pattern(2), Pattern(3));
        restart.run_for(NOTICED_WITHIN + Duration::from_millis(700));
        assert_eq!(restart.bed.server.ended, [Some(ConnectionError::PeerLostSession)], "{trust:?}");
    }
}

/// Configuration of a server that trusts the client: an end that also listens must trust a key.
fn restart_server(client: &Config) -> Config {
    let (_, server) = Trust::FirstContact.security();
    with(server, client.idle_timeout)
}

#[test]
fn a_process_that_goes_on_tells_of_a_session_which_it_has_given_up_unheard() {
    let mut restart = Restart::new(Trust::Pinned, Duration::from_secs(600), None);
    restart.run_for(Duration::from_secs(2));
    let handle = *restart.bed.server.host.connections.keys().next().unwrap();
    restart.bed.server.host.forget(handle);
    let (took, error) = restart.end(Duration::from_secs(5)).unwrap();
    assert_eq!(error, ConnectionError::PeerLostSession);
    assert!(took <= NOTICED_WITHIN, "{took:?}");
}

#[test]
fn without_the_key_of_before_or_without_seals_silence_ends_the_session_as_ever() {
    for (trust, before, after) in [
        (Trust::Pinned, key(5), key(6)),
        (Trust::Pinned, key(5), None),
        (Trust::Pinned, None, None),
        (Trust::Unsealed, key(5), key(5)),
    ] {
        let mut restart = Restart::new(trust, Duration::from_secs(20), before);
        restart.run_for(Duration::from_secs(2));
        restart.kill();
        restart.run_for(Duration::from_secs(1));
        restart.start(after);
        let (took, error) = restart.end(Duration::from_secs(60)).unwrap();
        assert_eq!(error, ConnectionError::TimedOut, "{trust:?}");
        assert!(took > Duration::from_secs(18), "{trust:?}: {took:?}");
        assert_eq!(restart.questions.borrow().is_empty(), trust == Trust::Unsealed);
    }
}

/// While the peer is alive, a session sends no questions, whether busy or idle: so an observer cannot record one.
#[test]
fn a_peer_that_is_there_is_never_asked() {
    for trust in SEALED {
        let mut restart = Restart::new(trust, Duration::from_secs(30), key(5));
        restart.run_for(Duration::from_secs(3));
        restart.bed.client.job = silent();
        restart.run_for(Duration::from_secs(300));
        assert!(restart.is_open());
        assert_eq!(restart.questions.borrow().len(), 0, "{trust:?}");
    }
}

/// A copy of the program with the same key at the same address: a cloned machine, a second server behind a load
/// balancer, or a thief of the key. It can answer, but cannot end a session while datagrams of its peer arrive.
#[test]
fn a_true_answer_is_not_believed_while_the_peer_is_heard() {
    let mut restart = Restart::new(Trust::Pinned, Duration::from_secs(600), key(5));
    let mut copy = Node::new(
        server_address(),
        Some(accept(restart.server.clone(), key(5))),
        seed32(88, 2),
        Pattern(8),
        Pattern(9),
    );
    restart.run_for(Duration::from_secs(2));
    // An outage of one second makes the client send a question.
    restart.kill();
    restart.run_for(Duration::from_secs(1));
    restart.bed.server.is_off = false;
    restart.run_for(Duration::from_secs(2));
    assert!(restart.is_open());
    let (_, question) = restart.questions.borrow()[0].clone();
    let token = copy.receive(restart.bed.now, client_address(), &question.bytes).unwrap();
    for _ in 0..100 {
        restart.inject(token.clone());
        restart.run_for(Duration::from_millis(50));
    }
    assert!(restart.is_open());
    // The same answer ends a silent session: an attacker who can cause silence can end sessions anyway.
    restart.kill();
    restart.run_for(Duration::from_secs(1));
    restart.inject(token);
    restart.run_for(RTT);
    assert_eq!(restart.bed.client.ended, [Some(ConnectionError::PeerLostSession)]);
}

/// The attacker has observed questions about this session, and sends them to the real server: they draw no answer while the session is
/// open.
#[test]
fn a_repeated_question_about_a_session_that_lives_draws_no_token() {
    let mut restart = Restart::new(Trust::Pinned, Duration::from_secs(600), key(5));
    restart.run_for(Duration::from_secs(2));
    restart.kill();
    restart.run_for(Duration::from_secs(1));
    restart.bed.server.is_off = false;
    restart.run_for(Duration::from_secs(1));
    let questions: Vec<Packet> = restart.questions.borrow().iter().map(|(_, packet)| packet.clone()).collect();
    assert!(!questions.is_empty());
    let stranger = ([203, 0, 113, 5], 7).into();
    for question in &questions {
        let now = restart.bed.now;
        for from in [stranger, client_address()] {
            assert_eq!(restart.bed.server.receive(now, from, &question.bytes), None);
        }
    }
    assert!(restart.is_open());
    assert_eq!(restart.bed.server.host.endpoint.stats().stateless_resets_sent, 0);
}

#[test]
fn forged_answers_and_those_of_other_sessions_end_nothing() {
    let mut restart = Restart::new(Trust::Pinned, Duration::from_secs(600), key(5));
    restart.run_for(Duration::from_secs(2));
    restart.kill();
    // During a silence, when a true answer would be accepted.
    restart.run_for(Duration::from_secs(1));
    let (_, question) = restart.questions.borrow()[0].clone();
    let Some((Segment::Ack(Ack::SessionQuery { from: client_id }), asked)) = segment_of(&question.bytes) else {
        panic!("no question")
    };
    // Token of another session of the same server, which its restarted program reveals.
    let mut other = Restart::new(Trust::Pinned, Duration::from_secs(600), key(5));
    other.bed.client = Node::new(client_address(), None, seed32(66, 1), Pattern(2), Pattern(3));
    let (client, _) = Trust::Pinned.security();
    other.bed.client.job = endless();
    other.bed.connect(with(client, Duration::from_secs(600))).unwrap();
    other.run_for(Duration::from_secs(1));
    other.start(key(5));
    other.run_for(Duration::from_secs(1));
    let (_, others_question) = other.questions.borrow()[0].clone();
    let others_answer = other.bed.server.receive(other.bed.now, client_address(), &others_question.bytes).unwrap();
    let Some((_, others_token)) = segment_of(&others_answer) else { panic!("no answer") };
    let sealed_flag = {
        let mut bytes = reset(client_id, &[0; 16]);
        bytes[13] |= 0x20;
        bytes
    };
    let forgeries = [
        reset(client_id, &[0; 16]),
        reset(client_id, &[0xFF; 16]),
        reset(client_id, &asked[..16]),
        reset(client_id, &[]),
        reset(client_id, &[7; 64]),
        reset(client_id, &others_token),
        others_answer,
        sealed_flag,
    ];
    for forgery in forgeries {
        restart.inject(forgery);
        restart.run_for(Duration::from_millis(20));
        assert!(restart.is_open());
    }
    restart.start(key(5));
    assert_eq!(restart.end(Duration::from_secs(2)).unwrap().1, ConnectionError::PeerLostSession);
}

/// An answer replayed to the next session between the same ends, even with the same ids, is not accepted.
#[test]
fn an_answer_ends_no_later_session() {
    let mut restart = Restart::new(Trust::Pinned, Duration::from_secs(600), key(5));
    let answers = Rc::<RefCell<Vec<Vec<u8>>>>::default();
    restart.run_for(Duration::from_secs(1));
    let seen = Rc::clone(&answers);
    restart.bed.tap = Box::new(move |_, packet| {
        if matches!(segment_of(&packet.bytes), Some((Segment::Reset(_), _))) {
            seen.borrow_mut().push(packet.bytes.clone());
        }
        vec![packet]
    });
    restart.start(key(5));
    restart.end(Duration::from_secs(2)).unwrap();
    let answer = answers.borrow()[0].clone();
    // The client starts again with the same seed, and so with the same id, at a server with another id.
    restart.bed.client = Node::new(client_address(), None, seed32(1, 1), Pattern(2), Pattern(3));
    restart.bed.client.job = endless();
    let (client, _) = Trust::Pinned.security();
    restart.bed.connect(with(client, Duration::from_secs(600))).unwrap();
    restart.run_for(Duration::from_secs(1));
    restart.kill();
    restart.run_for(Duration::from_secs(1));
    restart.inject(answer);
    restart.run_for(Duration::from_millis(100));
    assert!(restart.is_open());
}

/// Tickets and their acknowledgements that were sent: time, sender and kind.
type Told = Rc<RefCell<Vec<(Time, bool, SegmentKind)>>>;

impl Restart {
    /// Records sent tickets and acknowledgements, and loses those selected by `is_lost`.
    fn watch_tickets(&mut self, mut is_lost: impl FnMut(bool, SegmentKind) -> bool + 'static) -> Told {
        let told = Told::default();
        let seen = Rc::clone(&told);
        let mut before = std::mem::replace(&mut self.bed.tap, Box::new(|_, packet| vec![packet]));
        self.bed.tap = Box::new(move |now, packet| {
            let kind = Outline::of(&packet.bytes).unwrap().kind;
            let is_servers = packet.from == server_address();
            if matches!(kind, SegmentKind::ResetTicket | SegmentKind::AckOfResetTicket) {
                seen.borrow_mut().push((now, is_servers, kind));
                if is_lost(is_servers, kind) {
                    return Vec::new();
                }
            }
            before(now, packet)
        });
        told
    }
}

/// [rst-9]
#[test]
fn each_side_tells_its_ticket_once_when_the_session_is_200_ms_old() {
    for trust in SEALED {
        let mut restart = Restart::new(trust, Duration::from_secs(600), key(5));
        let told = restart.watch_tickets(|_, _| false);
        restart.run_for(Duration::from_secs(300));
        for is_servers in [false, true] {
            let of = |kind| {
                let told = told.borrow();
                let times: Vec<Time> =
                    told.iter().filter(|it| (it.1, it.2) == (is_servers, kind)).map(|it| it.0).collect();
                assert_eq!(times.len(), 1, "{trust:?} {is_servers} {kind:?}");
                times[0].since(Time::from_s(1))
            };
            let [told_ms, acknowledged_ms] =
                [SegmentKind::ResetTicket, SegmentKind::AckOfResetTicket].map(|kind| of(kind).as_millis());
            assert!((200..=200 + 3 * RTT.as_millis()).contains(&told_ms), "{trust:?} {told_ms}");
            assert!((200..=200 + 4 * RTT.as_millis()).contains(&acknowledged_ms), "{trust:?} {acknowledged_ms}");
        }
    }
}

#[test]
fn a_session_that_is_over_in_200_ms_tells_no_ticket_and_one_without_seals_never_does() {
    for (trust, job) in
        [(Trust::Pinned, Job::send(1)), (Trust::FirstContact, Job::send(1)), (Trust::Unsealed, endless())]
    {
        let mut restart = Restart::new(trust, Duration::from_secs(600), key(5));
        restart.bed.client.job = job;
        restart.bed.server.job = Job::send(0);
        let told = restart.watch_tickets(|_, _| false);
        restart.run_for(Duration::from_secs(60));
        assert_eq!(told.borrow().len(), 0, "{trust:?}");
    }
}

#[test]
fn tickets_and_acknowledgements_that_are_lost_are_told_again() {
    for lost in [SegmentKind::ResetTicket, SegmentKind::AckOfResetTicket] {
        let mut restart = Restart::new(Trust::Pinned, Duration::from_secs(600), key(5));
        let mut left = 3;
        // Loses the server's ticket, or the acknowledgement of it.
        let told = restart.watch_tickets(move |is_servers, kind| {
            let is_lost = left > 0 && kind == lost && is_servers == (lost == SegmentKind::ResetTicket);
            left -= u32::from(is_lost);
            is_lost
        });
        restart.run_for(Duration::from_secs(20));
        let count = told.borrow().iter().filter(|it| it.1 && it.2 == SegmentKind::ResetTicket).count();
        assert_eq!(count, 4, "{lost:?}");
        restart.start(key(5));
        assert_eq!(restart.end(Duration::from_secs(2)).unwrap().1, ConnectionError::PeerLostSession);
    }
}

/// While its ticket has not arrived, the loss of a session is noticed only by the idle timeout: in the first fifth of a
/// second plus half a round trip.
#[test]
fn a_session_that_is_lost_before_its_ticket_came_ends_by_silence() {
    for (age_ms, expected) in [(150, ConnectionError::TimedOut), (250, ConnectionError::PeerLostSession)] {
        let mut restart = Restart::new(Trust::Pinned, Duration::from_secs(20), key(5));
        restart.run_for(Duration::from_millis(age_ms));
        assert!(restart.is_open(), "{age_ms}");
        restart.start(key(5));
        assert_eq!(restart.end(Duration::from_secs(60)).unwrap().1, expected, "{age_ms}");
        assert_eq!(restart.questions.borrow().is_empty(), expected == ConnectionError::TimedOut, "{age_ms}");
    }
}

/// An attacker's own plaintext ticket: he would know the token that answers it.
#[test]
fn a_ticket_in_the_clear_is_none() {
    let mut restart = Restart::new(Trust::Pinned, Duration::from_secs(600), key(5));
    restart.run_for(Duration::from_secs(2));
    restart.kill();
    restart.run_for(Duration::from_secs(1));
    let (_, question) = restart.questions.borrow()[0].clone();
    let Some((Segment::Ack(Ack::SessionQuery { from: client_id }), asked)) = segment_of(&question.bytes) else {
        panic!("no question")
    };
    restart.bed.server.is_off = false;
    restart.run_for(Duration::from_secs(1));
    let forged = ResetKey::from_bytes(&[99; 32]).at_port(9_000).issue(client_id, &[1; 32]);
    let mut out = [0; DATAGRAM_BYTES_MAX];
    for segment in [Ack::ResetTicket, Ack::OfResetTicket] {
        let mut draft = Segment::Ack(segment).begin_clear(Address::Connection(client_id), 0, &mut out);
        draft.payload(32).unwrap().copy_from_slice(&forged.to_bytes());
        let length = draft.finish();
        restart.inject(out[..length].to_vec());
        restart.run_for(RTT);
    }
    restart.kill();
    restart.run_for(Duration::from_secs(1));
    let (_, latest) = restart.questions.borrow().last().unwrap().clone();
    assert_eq!(segment_of(&latest.bytes).unwrap().1, asked);
    restart.inject(reset(client_id, &forged.to_bytes()[16..]));
    restart.run_for(RTT);
    assert!(restart.is_open());
    restart.start(key(5));
    assert_eq!(restart.end(Duration::from_secs(2)).unwrap().1, ConnectionError::PeerLostSession);
}
