//! Tests of an initiator with honest and hostile responders.

use std::sync::Arc;
use std::time::Duration;

use dfcp_secure::{Answered, Cipher, MESSAGE_BYTES_MAX, OpenError, Pattern, Responder, ResponderKeys, StaticKey};
use dfcp_wire::feedback::{Report, ReportWriter, StreamState};
use dfcp_wire::handshake::{Offer, Parameters, Payload};
use dfcp_wire::segment::SynOptions;
use dfcp_wire::segment::{
    Ack, Address, Coverage, Data, Fin, Message, MessageInfo, ReportHeader, Reset, Segment, SynAck,
};
use dfcp_wire::{StreamId, StreamLimits, Unverified};

use super::*;
use crate::config::Config;
use crate::error::{Dropped, PeerMisbehaved};
use crate::security::{Credentials, PeerKey, Verifier};
use crate::session::handshake::{Opener, syn_options};
use crate::session::test_datagrams::{datagram, numbered, received, renew_crc};
use crate::shared::DATAGRAM_BUFFER_BYTES;

const OFFER: Offer = Offer {
    window_blocks: 4096,
    receive_memory_bytes: 32 << 20,
    rate_max_bps: 0,
    idle_timeout_ms: 30_000,
    streams: StreamLimits { bidirectional: 0, one_way: 0 },
};
const MS: Duration = Duration::from_millis(1);

fn start() -> Time {
    Time::from_s(1)
}

fn at_server() -> SocketAddr {
    ([198, 51, 100, 1], 9).into()
}

fn friend() -> StaticKey {
    StaticKey::from_seed(&[2; 32])
}

fn verified() -> PeerKey {
    let known = friend().public();
    PeerKey::Verified(Verifier::new(move |key| *key == known))
}

fn initiator(credentials: impl Into<Credentials>) -> Session {
    let ports = Ports { local: 4_000, remote: 9 };
    Session::initiate(start(), Arc::new(Config::sealed(credentials.into())), ports, at_server(), [3; 32], None).unwrap()
}

fn sent(connection: &mut Session, now: Time) -> Vec<Vec<u8>> {
    let mut out = [0; DATAGRAM_BUFFER_BYTES];
    let next = || connection.poll_transmit(now, &mut out).map(|it| out[..it.length].to_vec());
    std::iter::from_fn(next).take(1_000).collect()
}

fn error(connection: &Session) -> Option<ConnectionError> {
    match &connection.phase {
        Phase::Closed(closed) => closed.error().cloned(),
        Phase::Opening(_) | Phase::Open(_) => None,
    }
}

fn synack(id: u32, payload: &[u8]) -> Vec<u8> {
    datagram(Segment::SynAck(SynAck { echo: 0, options: None }), Address::Connection(id), payload)
}

fn reset(id: u32, reason: ResetReason) -> Vec<u8> {
    datagram(Segment::Reset(Reset { reason }), Address::Connection(id), &[])
}

fn option_bytes(syn: &[u8]) -> &[u8] {
    let Ok(Unverified::Clear(header)) = Unverified::read(syn) else { panic!("it is not in the clear") };
    header.option_bytes(syn)
}

/// Payload of a second message that the initiator accepts. Tests change it.
fn modest<'a>() -> Payload<'a> {
    Payload {
        connection_id: Some(77),
        ciphers: Some(&[1]),
        symbol_size: Some(1_420),
        echo: Some(0),
        features: Some(dfcp_wire::Features::NONE),
        ..Payload::default()
    }
    .with_offer(&OFFER)
}

/// Returns the SYNACK of a responder with the static key `key`, with `inner` as payload of the Noise message.
fn answer(syn: &[u8], key: StaticKey, inner: &[u8]) -> Vec<u8> {
    let payload = Payload::decode(received(syn).payload).unwrap();
    let (pattern, message) = payload.noise.unwrap();
    let (pattern, id) = (Pattern::from_id(pattern).unwrap(), payload.connection_id.unwrap());
    let prologue = noise::prologue(option_bytes(syn), id);
    let keys = ResponderKeys { own: Some(key), pre_shared: None };
    let mut plain = [0; MESSAGE_BYTES_MAX];
    let (responder, _) = Responder::read_first(&keys, pattern, &prologue, [8; 32], message, &mut plain).unwrap();
    let mut second = [0; MESSAGE_BYTES_MAX];
    let (length, kept) = responder.write_second(inner, &mut second).unwrap();
    assert_eq!(matches!(kept, Answered::HalfOpen(_)), pattern == Pattern::FirstContact);
    let payload = Payload { noise: Some((pattern.id(), &second[..length])), ..Payload::default() };
    let length = payload.encode(&mut plain).unwrap();
    synack(id, &plain[..length])
}

fn encoded(payload: &Payload<'_>) -> Vec<u8> {
    let mut out = [0; MESSAGE_BYTES_MAX];
    let length = payload.encode(&mut out).unwrap();
    out[..length].to_vec()
}

fn take(connection: &mut Session, now: Time, mut datagram: Vec<u8>) {
    connection.handle_datagram(now, at_server().into(), &mut datagram);
}

/// [open-14]: a peer may delay its answer for any time.
#[test]
fn what_an_unsealed_peer_waits_is_no_round_trip_time() {
    let (config, ports) = (Arc::new(Config::danger_unsealed()), Ports { local: 4_000, remote: 9 });
    let mut initiator = Session::initiate(start(), Arc::clone(&config), ports, at_server(), [3; 32], None).unwrap();
    let syn = sent(&mut initiator, start()).remove(0);
    let received = received(&syn);
    let Segment::Syn(segment) = received.segment else { panic!("{received:?}") };
    let opener = Opener { options: segment.options, number: received.number, payload: received.payload };
    let accepted = Session::accept(start(), config, ports, at_server(), &opener, syn.len(), [4; 32]);
    let mut acceptor = accepted.unwrap();
    let synack = sent(&mut acceptor, start()).remove(0);
    let late = start() + Duration::from_secs(9);
    take(&mut initiator, late, synack);
    let ack = sent(&mut initiator, late).remove(0);
    take(&mut acceptor, late, ack);
    for connection in [initiator, acceptor] {
        assert_eq!(connection.state(), State::Established);
        assert_eq!(connection.common.path().rtt().smoothed(), crate::limits::RTT_GUESS_MAX);
    }
}

/// [state-1]: useless segments neither prove the acceptor's peer nor count as received.
#[test]
fn what_an_unsealed_connection_has_no_use_for_changes_nothing() {
    let (mut acceptor, address) = called_unsealed(false);
    let ack = |ack, payload: &[u8]| numbered(Segment::Ack(ack), address, 7, payload);
    let changed = |place: usize, value| {
        let mut datagram = ack(Ack::KeepAlive { stream: StreamId::FIRST }, &[]);
        datagram[place] = value;
        renew_crc(&mut datagram);
        datagram
    };
    let block = dfcp_wire::BlockInfo { k: 1, length_bytes: 6, end_of_stream: false };
    let half = dfcp_wire::Fragment::new(0, 2).unwrap();
    let fragment = Segment::Data(Data { stream: StreamId::FIRST, block_id: 0, esi: 0, block, fragment: half });
    let coverage = Coverage::One(MessageInfo { k: 1, length_bytes: 3 });
    let message = Message { id: 0, esi: 0, coverage, clock_us: 0, age_us: 0, lifetime_us: 1 };
    let useless = [
        // [open-40]: segments of features that neither end has offered, or that our peer has not offered.
        numbered(Segment::Message(message), address, 7, &[1, 2, 3]),
        numbered(fragment, address, 7, &[1, 2, 3]),
        ack(Ack::PathProbe, &[0; 1000]),
        ack(Ack::OfPathProbe { echo: 0 }, &[]),
        ack(Ack::PathChallenge { token: 1 }, &[]),
        ack(Ack::PathResponse { token: 1 }, &[]),
        ack(Ack::Noise, &[1]),
        changed(11, 8),    // S1: no ACK has this code
        changed(13, 0x09), // FIN|FBK
        changed(13, 0x14), // RST|ACK
        changed(13, 0x00), // data of a block without bytes
    ];
    for (count, datagram) in (1..).zip(useless) {
        take(&mut acceptor, start() + MS, datagram);
        assert_eq!((acceptor.state(), acceptor.stats().segments_dropped), (State::SynReceived, count));
        assert_eq!((acceptor.common.link.arrivals.received(), acceptor.last_heard()), (1, start()));
    }
    take(&mut acceptor, start() + MS, ack(Ack::KeepAlive { stream: StreamId::FIRST }, &[]));
    assert_eq!((acceptor.state(), acceptor.common.link.arrivals.received()), (State::Established, 2));
}

/// [open-18]: an acceptor chooses all, some or none of the offered features, and no others.
#[test]
fn a_synack_which_chooses_a_feature_that_was_not_offered_ends_the_attempt() {
    let clock = dfcp_wire::Features::ARRIVAL_CLOCK.bits();
    for (features, expected) in [
        (0, None),
        (clock, None),
        (1, Some(ConnectionError::Incompatible)),
        (clock | 1, Some(ConnectionError::Incompatible)),
    ] {
        let (config, ports) = (Arc::new(Config::danger_unsealed()), Ports { local: 4_000, remote: 9 });
        let mut initiator = Session::initiate(start(), config, ports, at_server(), [3; 32], None).unwrap();
        sent(&mut initiator, start());
        let mut parameters = [0; dfcp_wire::handshake::PARAMETERS_BYTES];
        Parameters { connection_id: 5, offer: OFFER }.encode(&mut parameters).unwrap();
        let options = SynOptions {
            features: dfcp_wire::Features::from_bits(features),
            ..syn_options(1420, dfcp_wire::Features::NONE)
        };
        let synack = Segment::SynAck(SynAck { echo: 0, options: Some(options) });
        let answer = datagram(synack, Address::Connection(initiator.local_id()), &parameters);
        take(&mut initiator, start() + MS, answer);
        assert_eq!(
            (error(&initiator), initiator.state() == State::Established),
            (expected.clone(), expected.is_none())
        );
        let chosen = initiator.common.features.bits();
        assert_eq!(chosen, if expected.is_none() { features } else { 0 });
    }
}

/// The session has only stream 0. Every segment that names another stream ends the session.
#[test]
fn a_peer_that_may_open_no_streams_and_names_one_ends_the_session() {
    let stream = StreamId::from_word(4);
    let block = dfcp_wire::BlockInfo { k: 1, length_bytes: 3, end_of_stream: true };
    let strangers = [
        (
            Segment::Data(Data { stream, block_id: 0, esi: 0, block, fragment: dfcp_wire::Fragment::WHOLE }),
            &[1, 2, 3][..],
        ),
        (Segment::Fin(Fin { stream, end: 0, ack_proof: None }), &[]),
        (Segment::Fin(Fin { stream, end: 0, ack_proof: Some(0) }), &[]),
        (Segment::Ack(Ack::KeepAlive { stream }), &[]),
        (Segment::Ack(Ack::OfFin { stream, end: 0, proof: 0 }), &[]),
        (Segment::Ack(Ack::ResetStream { stream, error: 0, end: 0 }), &[]),
        (Segment::Ack(Ack::OfReset { stream, served: 0 }), &[]),
        (Segment::Ack(Ack::StopSending { stream, error: 0 }), &[]),
        (Segment::Ack(Ack::Gone { stream }), &[]),
    ];
    for (segment, payload) in strangers {
        let (mut acceptor, address) = opened_unsealed();
        take(&mut acceptor, start() + MS, numbered(segment, address, 2, payload));
        let why = PeerMisbehaved::StreamBeyondCredit { stream: 4, permitted: 0 };
        assert_eq!(closed_with(&mut acceptor), Some(ConnectionError::PeerMisbehaved(why)), "{segment:?}");
    }
}

/// Returns a plaintext session opened by a SYN, and the address for its peer's segments.
fn called_unsealed(discovers: bool) -> (Session, Address) {
    let config = Config::danger_unsealed().with_packet_size_discovery(discovers);
    let (config, ports) = (Arc::new(config), Ports { local: 4_000, remote: 9 });
    let mut initiator = Session::initiate(start(), Arc::clone(&config), ports, at_server(), [3; 32], None).unwrap();
    let syn = sent(&mut initiator, start()).remove(0);
    let mut server = crate::endpoint::Endpoint::new(9, Some(Config::danger_unsealed().into()), [4; 32]);
    let opened = server.handle_datagram(start(), at_server(), &syn, &mut [0; DATAGRAM_BUFFER_BYTES]);
    let crate::endpoint::Routed::Opened(_, acceptor) = opened else { panic!("{opened:?}") };
    let acceptor = acceptor.into_session();
    let address = Address::Connection(acceptor.local_id());
    (acceptor, address)
}

/// Returns a session as from [`called_unsealed`] whose peer has answered. The peer may open no streams.
fn opened_unsealed() -> (Session, Address) {
    let (mut acceptor, address) = called_unsealed(true);
    take(&mut acceptor, start(), numbered(Segment::Ack(Ack::OfSynAck { echo: 0 }), address, 1, &[]));
    assert_eq!(acceptor.state(), State::Established);
    // Something has been sent that a report can name.
    assert!(!sent(&mut acceptor, start()).is_empty());
    (acceptor, address)
}

fn closed_with(session: &mut Session) -> Option<ConnectionError> {
    std::iter::from_fn(|| session.poll_event()).find_map(|event| match event {
        Event::Closed(error) => error,
        _ => None,
    })
}

/// The first stream ends only with the session.
#[test]
fn what_the_first_stream_does_not_have_is_dropped_and_reports_of_streams_never_opened_end_the_session() {
    let first = StreamId::FIRST;
    let (mut acceptor, address) = opened_unsealed();
    let segments = [
        Segment::Ack(Ack::ResetStream { stream: first, error: 0, end: 0 }),
        Segment::Ack(Ack::OfReset { stream: first, served: 0 }),
        Segment::Ack(Ack::StopSending { stream: first, error: 0 }),
    ];
    for (number, segment) in (2..).zip(segments) {
        let before = acceptor.stats().segments_dropped;
        take(&mut acceptor, start() + MS, numbered(segment, address, number, &[]));
        assert_eq!(acceptor.stats().segments_dropped, before + 1, "{segment:?}");
        assert_eq!(
            (acceptor.state(), acceptor.is_readable(StreamId::FIRST)),
            (State::Established, false),
            "{segment:?}"
        );
    }
    let mut report = [0; 100];
    let mut writer = ReportWriter::new(&mut report, &Report::default()).unwrap();
    let stream = StreamId::from_word(1);
    writer.stream(&StreamState { stream, ..StreamState::default() }).unwrap().finish();
    let length = writer.finish();
    let segment = Segment::Report(ReportHeader { receive_queue_kib: 0 });
    take(&mut acceptor, start() + MS, numbered(segment, address, 5, &report[..length]));
    let why = PeerMisbehaved::StreamNotOpened { stream: 1 };
    assert_eq!(closed_with(&mut acceptor), Some(ConnectionError::PeerMisbehaved(why)));
}

/// [open-34]: forged answers that anybody can write, and the errors that they cause.
fn rogue_answers() -> [(PeerKey, StaticKey, Vec<u8>, ConnectionError); 4] {
    let rogue = || StaticKey::from_seed(&[66; 32]);
    let unexpected = || ConnectionError::UnexpectedKey(rogue().public().fingerprint());
    [
        (verified(), rogue(), encoded(&modest()), unexpected()),
        (verified(), rogue(), vec![5; 9], unexpected()),
        (PeerKey::Any, rogue(), vec![5; 9], ConnectionError::Incompatible),
        (PeerKey::Fingerprint(friend().public().fingerprint()), rogue(), encoded(&modest()), unexpected()),
    ]
}

/// [open-34]
#[test]
fn a_genuine_answer_is_taken_for_three_seconds_after_a_forged_refusal() {
    for (late, state) in [(Duration::from_millis(2_999), State::Established), (Duration::from_secs(3), State::Closed)] {
        let mut initiator = initiator(verified());
        let syn = sent(&mut initiator, start()).remove(0);
        let id = initiator.local_id();
        take(&mut initiator, start(), reset(id, ResetReason::Unspecified));
        initiator.handle_timeout(start() + late);
        take(&mut initiator, start() + late, answer(&syn, friend(), &encoded(&modest())));
        assert_eq!(initiator.state(), state, "an answer after {late:?}");
    }
}

#[test]
fn an_answer_which_anybody_can_write_does_not_keep_the_genuine_one_away() {
    for (peer, key, inner, _) in rogue_answers() {
        let mut initiator = initiator(peer.clone());
        let syn = sent(&mut initiator, start()).remove(0);
        (0..3).for_each(|_| take(&mut initiator, start(), answer(&syn, key.clone(), &inner)));
        assert_eq!((initiator.state(), error(&initiator)), (State::SynSent, None), "{peer:?}");
        take(&mut initiator, start() + MS, answer(&syn, friend(), &encoded(&modest())));
        assert_eq!(initiator.state(), State::Established, "{peer:?}");
        assert_eq!(initiator.identity().unwrap().peer, Some(friend().public()));
    }
}

#[test]
fn what_nobody_vouches_for_ends_the_attempt_after_three_seconds() {
    let mut cases: Vec<(Session, ConnectionError)> = Vec::new();
    for (peer, key, inner, why) in rogue_answers() {
        let mut initiator = initiator(peer);
        let syn = sent(&mut initiator, start()).remove(0);
        take(&mut initiator, start(), answer(&syn, key, &inner));
        cases.push((initiator, why));
    }
    let reasons = [
        (ResetReason::Unspecified, ConnectionError::Refused),
        (ResetReason::NotAdmitted, ConnectionError::NotAdmitted),
        (ResetReason::CannotRead, ConnectionError::PinnedKeyRefused),
        (ResetReason::Application { error: 7 }, ConnectionError::Refused), // there is no session yet ([rst-6])
    ];
    for (reason, why) in reasons {
        let mut initiator = initiator(verified());
        sent(&mut initiator, start());
        let id = initiator.local_id();
        take(&mut initiator, start(), reset(id, reason));
        cases.push((initiator, why));
    }
    for (mut initiator, why) in cases {
        initiator.handle_timeout(start() + MS * 2_999);
        assert_eq!((initiator.state(), error(&initiator)), (State::SynSent, None), "{why}");
        initiator.handle_timeout(start() + MS * 3_000);
        assert_eq!(error(&initiator), Some(why));
    }
}

/// [noise-3], [open-37]: wrong contents that only the expected peer itself can have written.
#[test]
fn a_peer_which_answers_with_what_was_not_offered_ends_the_attempt_at_once() {
    let wrong: [fn(&mut Payload<'_>); 12] = [
        |inner| inner.symbol_size = Some(1_421),
        |inner| inner.symbol_size = Some(63),
        |inner| inner.symbol_size = None,
        |inner| inner.ciphers = Some(&[9]),
        |inner| inner.ciphers = Some(&[1, 3]),
        |inner| inner.ciphers = Some(&[]),
        |inner| inner.connection_id = None,
        |inner| inner.echo = None,
        |inner| inner.window_blocks = None,
        |inner| inner.streams_one_way = None,
        |inner| inner.features = None,
        |inner| inner.features = Some(dfcp_wire::Features::from_bits(1 << 31)),
    ];
    for peer in [verified(), PeerKey::Known(friend().public()), PeerKey::Fingerprint(friend().public().fingerprint())] {
        for (case, change) in wrong.iter().enumerate() {
            let mut initiator = initiator(peer.clone());
            let syn = sent(&mut initiator, start()).remove(0);
            let mut inner = modest();
            change(&mut inner);
            take(&mut initiator, start(), answer(&syn, friend(), &encoded(&inner)));
            assert_eq!(error(&initiator), Some(ConnectionError::Incompatible), "{peer:?}, case {case}");
        }
        for size in [64, 1_000, 1_420] {
            let mut initiator = initiator(peer.clone());
            let syn = sent(&mut initiator, start()).remove(0);
            take(
                &mut initiator,
                start(),
                answer(&syn, friend(), &encoded(&Payload { symbol_size: Some(size), ..modest() })),
            );
            assert_eq!((initiator.state(), initiator.common.symbol_size), (State::Established, size), "{peer:?}");
        }
    }
}

/// [cookie-1], [cookie-4]
#[test]
fn bogus_cookies_make_an_initiator_send_twice_as_much_and_no_more() {
    let mut caller = initiator(verified());
    let id = caller.local_id();
    let (mut copies, mut now) = (0, start());
    let mut first = Vec::new();
    while error(&caller).is_none() {
        for syn in sent(&mut caller, now) {
            copies += 1;
            assert!(matches!(received(&syn).segment, Segment::Syn(_)));
            first = if first.is_empty() { syn } else { first };
        }
        for byte in 0..10 {
            take(&mut caller, now, synack(id, &[16, 0, 2, byte, byte]));
        }
        now += MS;
        caller.handle_timeout(now);
    }
    let timed = {
        let mut undisturbed = initiator(verified());
        let times = (0..30_000).map(|ms| start() + MS * ms);
        times.map(|now| sent(&mut undisturbed, now).len()).sum::<usize>()
    };
    assert!((timed + 10..=2 * timed).contains(&copies), "{copies} copies, {timed} of them by themselves");
    let mut done = initiator(verified());
    take(&mut done, start(), answer(&first, friend(), &encoded(&modest())));
    let sent_before = sent(&mut done, start()).len();
    assert!(done.state() == State::Established && sent_before > 0);
    take(&mut done, start(), synack(id, &[16, 0, 2, 1, 1]));
    assert!(sent(&mut done, start()).is_empty(), "who has accepted a message ignores them");
}

#[test]
fn too_many_forgeries_end_a_connection() {
    let mut initiator = initiator(verified());
    let syn = sent(&mut initiator, start()).remove(0);
    take(&mut initiator, start(), answer(&syn, friend(), &encoded(&modest())));
    assert_eq!(open::unopened(&OpenError::Forged), Stop::Dropped(Dropped::Forged));
    assert_eq!(initiator.state(), State::Established);
    let Stop::Ended(end) = open::unopened(&OpenError::ForgeryLimit) else { panic!("it goes on") };
    initiator.end(*end);
    assert_eq!(error(&initiator), Some(ConnectionError::ForgeryLimit));
}

#[test]
fn a_cipher_which_was_offered_can_be_chosen() {
    for cipher in Cipher::ALL {
        let mut initiator = initiator(verified());
        let syn = sent(&mut initiator, start()).remove(0);
        let inner = encoded(&Payload { ciphers: Some(&[cipher.id()]), ..modest() });
        take(&mut initiator, start(), answer(&syn, friend(), &inner));
        assert_eq!(initiator.identity().unwrap().cipher, cipher);
    }
}

/// [open-11]
#[test]
fn giving_up_a_connection_whose_peer_has_proven_nothing_sends_nothing() {
    let config = Config::danger_unsealed();
    let accept = crate::endpoint::Accept { modern: Some(config.clone()), ..Default::default() };
    let ports = Ports { local: 4_000, remote: 9 };
    for is_proven in [false, true] {
        let mut client =
            Session::initiate(start(), Arc::new(config.clone()), ports, at_server(), [3; 32], None).unwrap();
        let mut server = crate::endpoint::Endpoint::new(9, Some(accept.clone()), [4; 32]);
        let syn = sent(&mut client, start()).swap_remove(0);
        let from = ([203, 0, 113, 7], 4_000).into();
        let opened = server.handle_datagram(start() + MS, from, &syn, &mut [0; DATAGRAM_BUFFER_BYTES]);
        let crate::endpoint::Routed::Opened(_, connection) = opened else { panic!("{opened:?}") };
        let mut connection = connection.into_session();
        let answers = sent(&mut connection, start() + MS);
        assert_eq!(answers.len(), 1);
        if is_proven {
            take(&mut client, start() + MS * 2, answers[0].clone());
            let ack = sent(&mut client, start() + MS * 2).swap_remove(0);
            connection.handle_datagram(start() + MS * 2, from.into(), &mut ack.clone());
            sent(&mut connection, start() + MS * 2);
        }
        connection.abort();
        let last = sent(&mut connection, start() + MS * 3);
        assert_eq!(last.len(), usize::from(is_proven), "{last:?}");
    }
}
