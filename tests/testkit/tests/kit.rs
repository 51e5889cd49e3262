//! Tests of the testkit: each check fails for the fault that it should detect.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::{Config, ConnectionError, Rate, State};
use dfcp_testkit::{
    DelayLine, Job, Links, LinksConfig, Node, Packet, Pattern, Testbed, client_address, raw, rewrites, rewritten,
    seed32, server_address,
};
use dfcp_time::Time;
use dfcp_wire::Flags;

/// Unencrypted ends, 5 ms apart, each of which sends this many bytes.
fn testbed(seed: u64, bytes: u64) -> Testbed<DelayLine> {
    // The delay line has no rate limit.
    let config = || Config::danger_unsealed().with_rate(Rate::Fixed { rate_bps: 100_000_000 });
    let mut testbed = Testbed::new(seed, config());
    (testbed.client.job, testbed.server.job) = (Job::send(bytes), Job::send(bytes));
    testbed.connect(config()).unwrap();
    testbed
}

fn pair(seed: u64, loss: f64, job: Job) -> Testbed<Links> {
    let link = LinkConfig::default().with_rate_bps(10_000_000).with_loss(Loss::bernoulli(loss));
    let links = LinksConfig { forward: link.clone(), backward: link, interface_bps: 10_000_000 };
    let end = || (Config::danger_unsealed(), job);
    Testbed::over(seed, links, end(), end()).unwrap()
}

#[test]
fn a_pattern_is_the_same_from_every_offset_and_another_for_every_seed() {
    let mut whole = [0; 100];
    Pattern(7).fill(0, &mut whole);
    for offset in 0..80 {
        let mut piece = [0; 20];
        Pattern(7).fill(offset, &mut piece);
        assert_eq!(piece, whole[offset as usize..][..20]);
        assert_eq!(Pattern(7).first_difference(offset, &piece), None);
        piece[13] ^= 1;
        assert_eq!(Pattern(7).first_difference(offset, &piece), Some(offset + 13));
        assert!(Pattern(8).first_difference(offset, &piece).is_some());
    }
}

#[test]
fn equal_seeds_give_equal_traces_and_others_do_not() {
    let run = |seed| pair(seed, 0.1, Job::send(50_000)).run(Time::from_s(60)).unwrap();
    assert_eq!(run(1).trace, run(1).trace);
    assert_ne!(run(1).trace, run(2).trace);
    let finished = |seed| {
        let mut testbed = testbed(seed, 50_000);
        testbed.finish(Time::from_s(60)).unwrap();
        testbed.trace()
    };
    assert_eq!(finished(1), finished(1));
    assert_ne!(finished(1), finished(2));
}

#[test]
fn a_wrong_byte_is_noticed() {
    let mut testbed = testbed(1, 10_000);
    let stranger = Pattern(99);
    testbed.server = Node::new(server_address(), Some(Config::danger_unsealed().into()), [7; 32], Pattern(3), stranger);
    testbed.server.job = Job::send(10_000);
    let error = testbed.finish(Time::from_s(60)).unwrap_err().to_string();
    assert!(error.contains("a wrong byte was read at Some(0)"), "{error}");
}

#[test]
fn a_path_which_loses_all_is_an_error_and_so_is_the_time_limit() {
    let mut lost = pair(1, 1.0, Job::send(1));
    let error = lost.run(Time::from_s(100)).unwrap_err();
    let unanswered = |it: &ConnectionError| matches!(it, ConnectionError::HandshakeTimeout { .. });
    assert!(error.chain().filter_map(|it| it.downcast_ref()).any(unanswered), "{error:#}");
    assert!(pair(1, 1.0, Job::send(1)).run(Time::from_s(2)).unwrap_err().to_string().starts_with("not done"));
    assert!(testbed(1, 1 << 30).finish(Time::from_s(2)).unwrap_err().to_string().starts_with("not done"));
}

#[test]
fn a_node_that_is_off_neither_sends_nor_receives() {
    let mut testbed = testbed(1, u64::MAX);
    testbed.run_until(Time::from_s(2));
    testbed.server.is_off = true;
    let (emitted, received) = (testbed.server.emitted(), testbed.server.received_from(client_address().ip()));
    assert!(emitted > 10 && received > 10_000, "it was on: {emitted} datagrams, {received} bytes");
    testbed.run_until(Time::from_s(3));
    assert_eq!((testbed.server.emitted(), testbed.server.received_from(client_address().ip())), (emitted, received));
    assert!(testbed.server.receive(Time::from_s(3), client_address(), &[0; 100]).is_none());
}

#[test]
fn a_tap_changes_loses_and_diverts() {
    let mut changed = testbed(1, 1_000);
    changed.tap = rewrites(Flags::SYN, |header, _| header.flags = Flags::RST);
    changed.run_until(Time::from_s(2));
    assert_eq!(changed.server.connected, 0);
    let diverted = std::net::SocketAddr::from(([198, 51, 100, 1], 7));
    let mut testbed = testbed(1, 1_000);
    testbed.tap = Box::new(move |_, packet| {
        let copy = Packet { to: diverted, ..packet.clone() };
        if packet.from == client_address() { vec![copy] } else { Vec::new() }
    });
    testbed.run_until(Time::from_s(2));
    assert!(!testbed.elsewhere.is_empty() && testbed.elsewhere.iter().all(|it| it.to == diverted));
    assert_eq!((testbed.server.received_bytes.len(), testbed.client.state()), (0, State::SynSent));
}

#[test]
fn what_is_rewritten_is_whole_again() {
    let mut testbed = testbed(1, 1_000);
    let syn = testbed.client.transmit(testbed.now).unwrap().bytes;
    let other = rewritten(&syn, |header, payload| {
        header.s3 += 1;
        payload.truncate(0);
    });
    let (syn, other) = (raw::read(&syn).unwrap(), raw::read(&other).unwrap());
    assert_eq!((other.header.s3, other.options, other.payload.len()), (syn.header.s3 + 1, syn.options, 0));
}

#[test]
fn an_application_reads_no_faster_than_its_job_says() {
    let slow = Job { read_bytes: 1_000, read_every: Duration::from_millis(100), ..Job::send(20_000) };
    let mut pair = pair(1, 0.0, slow);
    let outcome = pair.run(Time::from_s(60)).unwrap();
    assert!(outcome.ended_at.since(Time::from_s(1)) >= Duration::from_millis(1_900), "{outcome:?}");
    assert_eq!((pair.client.read, pair.server.read), (20_000, 20_000));
}

/// A late copy of a SYN reaches a server whose connection has ended: it starts an attempt that is not served.
#[test]
fn a_single_node_serves_nothing_after_its_connection() {
    let mut pair = pair(1, 0.0, Job::send(1_000));
    let syn = pair.client.transmit(pair.now).unwrap().bytes;
    pair.run(Time::from_s(100)).unwrap();
    let emitted = pair.server.emitted();
    pair.server.receive(pair.now, client_address(), &syn);
    assert_eq!(pair.server.host.connections.len(), 1, "it was taken in");
    pair.run_until(pair.now + Duration::from_secs(10));
    assert!(!pair.server.has_established_more());
    assert_eq!((pair.server.emitted(), pair.server.connected), (emitted, 1));
}

#[test]
fn seeds_differ_by_salt() {
    assert_ne!(seed32(1, 1), seed32(1, 2));
    assert_ne!(seed32(1, 1), seed32(2, 1));
}
