//! Tests of an endpoint without sessions: which queries it answers, and how often.

use std::time::Duration;

use dfcp_secure::{EndpointResetKey, ResetKey};
use dfcp_time::Time;
use dfcp_wire::Unverified;
use dfcp_wire::segment::{Ack, Address, Reset, ResetReason, Segment};

use super::*;
use crate::config::Config;
use crate::endpoint::{Accept, Endpoint, Routed};
use crate::security::PeerKey;
use crate::shared::DATAGRAM_BUFFER_BYTES;

const ID: u32 = 0x1122_3344;
const ASKER: u32 = 0x5566_7788;
const PORT: u16 = 4433;

fn reset_key() -> ResetKey {
    ResetKey::from_bytes(&[7; 32])
}

fn endpoint_key() -> EndpointResetKey {
    reset_key().at_port(PORT)
}

fn accept() -> Accept {
    let mut accept = Accept::from(Config::sealed(PeerKey::Any));
    accept.reset_key = Some(reset_key());
    accept
}

/// A listener that has its key, and no state of any session.
fn restarted() -> Endpoint {
    Endpoint::new(PORT, Some(accept()), [1; 32])
}

fn segment(segment: &Segment, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = [0; DATAGRAM_BUFFER_BYTES];
    let mut draft = segment.begin_clear(Address::Connection(id), 0, &mut out);
    draft.payload(payload.len()).unwrap().copy_from_slice(payload);
    let length = draft.finish();
    out[..length].to_vec()
}

/// Returns the query about session `id`, whose ticket was issued from `seed`, with a payload of `payload_bytes` bytes.
fn question_of(id: u32, from: u32, seed: u8, payload_bytes: usize) -> Vec<u8> {
    let mut payload = endpoint_key().issue(id, &[seed; 32]).question().to_vec();
    payload.resize(payload_bytes, 0);
    segment(&Segment::Ack(Ack::SessionQuery { from }), id, &payload)
}

fn question(id: u32) -> Vec<u8> {
    question_of(id, ASKER, 1, limits::SESSION_QUERY_PAYLOAD_BYTES)
}

fn from(host: u32) -> SocketAddr {
    (host.to_be_bytes(), 5_000).into()
}

fn answer_from(endpoint: &mut Endpoint, now: Time, remote: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
    let mut reply = [0; DATAGRAM_BUFFER_BYTES];
    match endpoint.handle_datagram(now, remote, datagram, &mut reply) {
        Routed::Reply(length) => Some(reply[..length].to_vec()),
        Routed::Dropped => None,
        other => panic!("{other:?}"),
    }
}

fn answer(endpoint: &mut Endpoint, datagram: &[u8]) -> Option<Vec<u8>> {
    answer_from(endpoint, Time::from_s(1), from(0xC000_0201), datagram)
}

#[test]
fn the_answer_is_the_token_to_the_askers_id_and_shorter_than_the_question() {
    let (question, mut endpoint) = (question(ID), restarted());
    let reply = answer(&mut endpoint, &question).unwrap();
    assert_eq!((question.len(), reply.len()), (60, 44));
    let Ok(Unverified::Clear(header)) = Unverified::read(&reply) else { panic!("it is sealed") };
    assert_eq!(header.connection_id(), ASKER);
    let received = header.verify(&reply).unwrap();
    assert_eq!(received.segment, Segment::Reset(Reset { reason: ResetReason::SessionUnknown }));
    assert!(endpoint_key().issue(ID, &[1; 32]).is_answered_by(received.payload));
    assert_eq!(endpoint.stats().stateless_resets_sent, 1);
}

#[test]
fn a_question_that_is_not_longer_than_its_answer_gets_none() {
    let mut endpoint = restarted();
    assert_eq!(answer(&mut endpoint, &question_of(ID, ASKER, 1, 16)), None);
    assert!(answer(&mut endpoint, &question_of(ID, ASKER, 1, 17)).is_some());
}

#[test]
fn endpoints_that_open_connections_alone_and_those_in_plaintext_answer_too() {
    for accept in [None, Some(Accept::from(Config::danger_unsealed()))] {
        let mut endpoint = Endpoint::new(PORT, accept, [9; 32]);
        let own = ResetKey::from_seed(&[9; 32]).at_port(PORT);
        let mut payload = own.issue(ID, &[3; 32]).question().to_vec();
        payload.resize(32, 0);
        let own_question = segment(&Segment::Ack(Ack::SessionQuery { from: ASKER }), ID, &payload);
        assert!(answer(&mut endpoint, &own_question).is_some());
        assert_eq!(answer(&mut endpoint, &question(ID)), None, "the key is another one");
    }
}

/// A stranger without the ticket's secret draws no answer, whatever it sends.
#[test]
fn strangers_draw_nothing_for_any_id() {
    let mut endpoint = restarted();
    let genuine = question(ID);
    for id in 1..2_000 {
        let random = [id as u8; 32];
        for stranger in [
            segment(&Segment::Ack(Ack::SessionQuery { from: ASKER }), id, &random),
            segment(&Segment::Reset(Reset { reason: ResetReason::SessionUnknown }), id, &random),
            segment(&Segment::Ack(Ack::KeepAlive { stream: dfcp_wire::StreamId::FIRST }), id, &[]),
            // The genuine query, for another session id.
            [&id.to_be_bytes(), &genuine[4..]].concat(),
        ] {
            assert_eq!(answer(&mut endpoint, &stranger), None);
        }
    }
    assert_eq!(answer(&mut endpoint, &genuine[..genuine.len() - 1]), None);
    assert_eq!(answer(&mut endpoint, &question_of(ID, 0, 1, 32)), None, "no session has the id 0");
    let at_other_port = Endpoint::new(PORT + 1, Some(accept()), [1; 32]);
    assert_eq!(answer(&mut { at_other_port }, &genuine), None, "a key serves each port by itself");
    assert_eq!(endpoint.stats().stateless_resets_sent, 0);
}

/// A known session is never reported as lost, even if the query is genuine.
#[test]
fn a_session_that_is_known_is_not_asked_about() {
    let mut endpoint = Endpoint::new(PORT, Some(accept()), [1; 32]);
    let (handle, connection) =
        endpoint.connect(Time::from_s(1), from(0xC000_0207), Config::sealed(PeerKey::Any)).unwrap();
    let id = connection.local_id().unwrap();
    let mut reply = [0; DATAGRAM_BUFFER_BYTES];
    let routed = endpoint.handle_datagram(Time::from_s(1), from(1), &question(id), &mut reply);
    assert!(matches!(routed, Routed::Connection(known, _) if known == handle));
    endpoint.forget(handle);
    assert!(answer(&mut endpoint, &question(id)).is_some());
}

/// Two endpoints that have both lost everything.
#[test]
fn an_answer_is_never_answered() {
    let (mut one, mut other) = (restarted(), restarted());
    let seed = segment(&Segment::Reset(Reset { reason: ResetReason::Unspecified }), ID, &[]);
    // Starts with a query about a session with the other endpoint, an answer to it, and an RST.
    let question = question_of(ID, ID, 1, 32);
    let reply = answer(&mut one, &question).unwrap();
    for (begins_with, most) in [(question, 1), (reply, 0), (seed, 0)] {
        let (mut datagram, mut answers) = (begins_with, 0);
        for turn in 0..10 {
            let end = if turn % 2 == 0 { &mut one } else { &mut other };
            let Some(next) = answer(end, &datagram) else { break };
            (datagram, answers) = (next, answers + 1);
        }
        assert_eq!(answers, most);
    }
}

/// Returns the answers in each window of one second, with one query per millisecond from each of `hosts` addresses.
fn answers_per_s(hosts: u32, seconds: u32) -> Vec<u32> {
    let (mut endpoint, question) = (restarted(), question(ID));
    let mut given = Vec::new();
    for ms in 0..seconds * 1_000 {
        let now = Time::from_s(1) + Duration::from_millis(1) * ms;
        for host in 0..hosts {
            let reply = answer_from(&mut endpoint, now, from(0xC000_0200 + host), &question);
            given.extend(reply.map(|_| ms));
        }
    }
    // Every window of one second, not only those that begin at a full second.
    (0..(seconds - 1) * 1_000)
        .map(|at| given.iter().filter(|ms| (at..at + 1_000).contains(*ms)).count() as u32)
        .collect()
}

#[test]
fn there_are_at_most_100_answers_in_any_second() {
    let busiest = answers_per_s(20, 3).into_iter().max();
    assert!((95..=100).contains(&busiest.unwrap()), "{busiest:?}");
}

#[test]
fn one_address_gets_a_quarter_and_leaves_the_rest_to_others() {
    let alone = answers_per_s(1, 3).into_iter().max().unwrap();
    assert!((20..=25).contains(&alone), "{alone}");
    let (mut endpoint, question) = (restarted(), question(ID));
    let (mut honest, mut asked) = (0, 0);
    for ms in 0..10_000 {
        let now = Time::from_s(1) + Duration::from_millis(1) * ms;
        answer_from(&mut endpoint, now, from(0xC000_0201), &question);
        if ms % 500 == 0 {
            asked += 1;
            honest += u32::from(answer_from(&mut endpoint, now, from(0xC000_0202), &question).is_some());
        }
    }
    assert_eq!((honest, asked), (20, 20));
}
