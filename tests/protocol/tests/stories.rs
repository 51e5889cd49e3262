//! Scenarios without randomness, one per promise of the protocol.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_proto::{
    ClassicSettings, Config, ConnectionError, Parameter, ParameterError, Rate, SendBuffering, State, inctokens,
};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, sealed};
use dfcp_time::Time;

fn path(loss: f64, one_way_ms: u64) -> LinksConfig {
    let link = LinkConfig::default()
        .with_rate_bps(100_000_000)
        .with_delay(Duration::from_millis(one_way_ms))
        .with_loss(Loss::bernoulli(loss));
    LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 }
}

fn modern(path: LinksConfig, up: Job, down: Job) -> Pair {
    Pair::over(7, path, (sealed(), up), (sealed(), down)).unwrap()
}

fn classic(path: LinksConfig, up: Job, down: Job) -> Pair {
    let config = Config::danger_classic().with_rate(Rate::Fixed { rate_bps: 50_000_000 });
    Pair::over(7, path, (config.clone(), up), (config, down)).unwrap()
}

#[test]
fn both_directions_at_once() {
    modern(path(0.2, 20), Job::send(3_000_000), Job::send(2_000_000)).run(Time::from_s(60)).unwrap();
    classic(path(0.1, 20), Job::send(300_000), Job::send(200_000)).run(Time::from_s(200)).unwrap();
}

#[test]
fn a_stream_of_100_mb() {
    modern(path(0.01, 5), Job::send(100_000_000), Job::send(0)).run(Time::from_s(60)).unwrap();
}

/// A receiver with 100 Mbit/s, on a path with 1 Gbit/s, whose system buffers 400 kB.
fn in_front_of_a_slow_receiver(told_bytes: u64) -> (u64, u64) {
    const QUEUE_BYTES: u64 = 400_000;
    let receiver = LinkConfig::default().with_rate_bps(100_000_000).with_delay(Duration::from_micros(50));
    let forward = receiver.clone().with_queue(QueueLimit::bytes(QUEUE_BYTES));
    let path = LinksConfig { forward, backward: receiver, interface_bps: 1_000_000_000 };
    let line = |job| (sealed().with_rate(Rate::Line), job);
    let mut pair = Pair::over(7, path, line(Job::send(u64::MAX)), line(Job::send(0))).unwrap();
    pair.run_until(Time::from_ms(1_001));
    pair.server.connection_mut().unwrap().set_receive_queue_bytes(told_bytes);
    pair.run_until(Time::from_ms(1_100));
    let before = pair.path.stats().0;
    pair.run_until(Time::from_ms(2_100));
    let after = pair.path.stats().0;
    let dropped = after.queue_drops.packets - before.queue_drops.packets;
    (dropped, 8 * (after.delivered.bytes - before.delivered.bytes))
}

#[test]
fn a_sender_at_line_rate_does_not_outrun_a_receiver_which_tells_its_queue() {
    let (dropped, delivered_bits) = in_front_of_a_slow_receiver(300_000);
    assert_eq!(dropped, 0);
    assert!(delivered_bits > 99_900_000, "and keeps it busy: {delivered_bits} bits in a second");
    let (dropped, _) = in_front_of_a_slow_receiver(0);
    assert!(dropped > 1_000, "without that it does: {dropped}");
}

/// Datagrams sent by a sender at 200 Mbit/s in its first second, over a path of 100 ms.
fn sent_in_a_second(told_bytes: u64, send_buffering: SendBuffering) -> u64 {
    let link = LinkConfig::default().with_rate_bps(1_000_000_000).with_delay(Duration::from_millis(50));
    let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 };
    let paced = |job| (sealed().with_rate(Rate::Fixed { rate_bps: 200_000_000 }), job);
    let mut pair = Pair::over(7, path, paced(Job::send(u64::MAX)), paced(Job::send(0))).unwrap();
    // After the server's connection has opened, and before any report of data.
    pair.run_until(Time::from_ms(1_155));
    pair.server.connection_mut().unwrap().set_receive_queue_bytes(told_bytes);
    pair.client.connection_mut().unwrap().set_send_buffering(send_buffering);
    pair.run_until(Time::from_ms(2_000));
    pair.client.stats().sent.total()
}

#[test]
fn a_paced_sender_is_not_held_up_by_a_small_queue_at_the_end_of_a_long_path() {
    let unlimited = sent_in_a_second(0, SendBuffering::Deep);
    for send_buffering in [SendBuffering::Deep, SendBuffering::Shallow] {
        assert_eq!(sent_in_a_second(200_000, send_buffering), unlimited, "{send_buffering:?}");
    }
}

#[test]
fn one_byte_costs_small_datagrams() {
    let mut pair = modern(path(0.0, 20), Job::send(1), Job::send(0));
    pair.run(Time::from_s(60)).unwrap();
    let stats = pair.client.stats();
    // The bytes include three padded SYNs, and the third message three times.
    assert!(stats.bytes_sent < 2_950, "{} bytes sent for one", stats.bytes_sent);
    assert!(stats.sent.total() <= 6, "{:?}", stats.sent);
}

#[test]
fn on_a_clean_path_the_counters_of_both_ends_agree() {
    let jobs = [Job::send(500_000), Job::send(300_000)];
    // The handshake of an encrypted connection is not counted at the acceptor, which has no connection yet.
    let [client, server] = jobs.map(|job| (Config::danger_unsealed(), job));
    for mut pair in [
        Pair::over(7, path(0.0, 20), client, server).unwrap(),
        classic(path(0.0, 20), Job::send(500_000), Job::send(300_000)),
    ] {
        pair.run(Time::from_s(200)).unwrap();
        let (client, server) = (pair.client.stats(), pair.server.stats());
        for (a, b) in [(client, server), (server, client)] {
            assert_eq!((a.segments_sent, a.bytes_sent), (b.segments_received, b.bytes_received));
            assert_eq!(a.acks_sent, b.acks_received);
            assert_eq!(a.stream_bytes_acknowledged, b.stream_bytes_read);
            assert_eq!((a.blocks_acknowledged, a.sent.total()), (b.blocks_decoded, b.received.distinct()));
            assert_eq!(a.segments_dropped, 0);
        }
    }
}

#[test]
fn an_empty_stream_ends() {
    modern(path(0.3, 20), Job::send(0), Job::send(0)).run(Time::from_s(100)).unwrap();
    classic(path(0.05, 20), Job::send(0), Job::send(0)).run(Time::from_s(200)).unwrap();
}

#[test]
fn a_half_closed_connection_goes_on_in_the_other_direction() {
    let mut slow = Job::send(2_000_000);
    slow.write_bytes = 1_000;
    let mut pair = modern(path(0.05, 50), Job::send(10), slow);
    pair.run_until(Time::from_ms(1_280));
    assert_eq!(pair.client.connection().map(|c| c.state()), Some(State::FinWait2));
    assert_eq!(pair.server.connection().map(|c| c.state()), Some(State::CloseWait));
    pair.run(Time::from_s(60)).unwrap();
}

#[test]
fn source_symbols_are_delivered_before_their_block_is_whole() {
    let mut pair = modern(path(0.0, 50), Job::send(500_000), Job::send(0));
    // Handshake 100 ms, first symbols after another 50 ms: at 100 Mbit/s a block of 45 symbols takes 5 ms.
    pair.run_until(Time::from_ms(1_153));
    let stats = pair.server.stats();
    assert!(stats.stream_bytes_read > 0 && stats.blocks_decoded == 0, "{stats:?}");
}

#[test]
fn both_ends_may_call_each_other() {
    for loss in [0.0, 0.2] {
        let ends = [Job::send(10_000), Job::send(20_000)].map(|job| (Config::danger_unsealed(), job));
        let [client, server] = ends;
        let mut pair = Pair::over(7, path(loss, 30), client, server).unwrap();
        pair.open_simultaneously(7, Config::danger_unsealed()).unwrap();
        pair.run(Time::from_s(100)).unwrap();
    }
    let mut pair = classic(path(0.0, 30), Job::send(10_000), Job::send(20_000));
    pair.open_simultaneously(7, Config::danger_classic()).unwrap();
    pair.run(Time::from_s(200)).unwrap();
}

#[test]
fn a_listener_refuses_the_profile_it_was_not_started_for() {
    let mut pair =
        Pair::over(1, path(0.0, 10), (Config::danger_classic(), Job::send(1)), (sealed(), Job::send(0))).unwrap();
    pair.run_until(Time::from_s(2));
    assert_eq!(pair.client.ended, [Some(ConnectionError::Refused)]);
}

#[test]
fn an_abort_is_heard_by_the_peer() {
    let mut pair = modern(path(0.0, 10), Job::send(u64::MAX), Job::send(0));
    pair.run_until(Time::from_s(2));
    pair.client.connection_mut().unwrap().abort();
    pair.run_until(Time::from_s(3));
    assert_eq!(pair.client.ended, [Some(ConnectionError::Aborted)]);
    assert_eq!(pair.server.ended, [Some(ConnectionError::Reset)]);
}

/// [rst-6], encrypted and unencrypted.
#[test]
fn the_peers_application_is_told_why_a_session_was_aborted() {
    for config in [sealed(), Config::danger_unsealed()] {
        let (sender, receiver) = ((config.clone(), Job::send(u64::MAX)), (config, Job::send(0)));
        let mut pair = Pair::over(1, path(0.0, 10), sender, receiver).unwrap();
        pair.run_until(Time::from_s(2));
        pair.client.connection_mut().unwrap().abort_with(0xDEAD_BEEF);
        pair.run_until(Time::from_s(3));
        assert_eq!(pair.client.ended, [Some(ConnectionError::Aborted)]);
        assert_eq!(pair.server.ended, [Some(ConnectionError::EndedByPeer { error: 0xDEAD_BEEF })]);
    }
}

/// [rst-6]: before the end of the handshake there is no application to inform.
#[test]
fn a_code_given_before_the_session_is_open_says_no_more_than_an_abort() {
    let mut pair = modern(path(0.0, 100), Job::send(1), Job::send(0));
    pair.run_until(Time::from_ms(20));
    pair.client.connection_mut().unwrap().abort_with(7);
    pair.run_until(Time::from_s(2));
    assert_eq!(pair.client.ended, [Some(ConnectionError::Aborted)]);
    assert_eq!(pair.server.connection().map(|c| c.state()), None);
}

#[test]
fn an_idle_connection_is_kept_alive_and_a_dead_one_ends() {
    let mut job = Job::send(10);
    job.shut_down = false;
    let mut pair = modern(path(0.1, 10), job, job);
    pair.run_until(Time::from_s(600));
    assert_eq!(pair.client.connection().map(|c| c.state()), Some(State::Established));
    pair.server.is_off = true;
    pair.run_until(Time::from_s(640));
    assert_eq!(pair.client.ended, [Some(ConnectionError::TimedOut)]);
}

#[test]
fn an_idle_connection_outlives_heavy_loss() {
    let mut job = Job::send(10);
    job.shut_down = false;
    let mut pair = modern(path(0.5, 100), job, job);
    pair.run_until(Time::from_s(4 * 3_600));
    assert_eq!(pair.client.connection().map(|c| c.state()), Some(State::Established));
    assert_eq!(pair.server.connection().map(|c| c.state()), Some(State::Established));
}

#[test]
fn keep_alives_suit_a_peer_with_less_patience() {
    let mut job = Job::send(10);
    job.shut_down = false;
    let impatient = sealed().with_idle_timeout(Duration::from_secs(2)).with_keep_alive(None);
    let mut pair = Pair::over(7, path(0.1, 10), (sealed(), job), (impatient, job)).unwrap();
    pair.run_until(Time::from_s(600));
    assert_eq!(pair.server.connection().map(|c| c.state()), Some(State::Established));
}

/// [open-6]
#[test]
fn a_connect_timeout_ends_an_attempt_and_no_open_connection() {
    let after = Duration::from_millis(1_500);
    let mut job = Job::send(10);
    job.shut_down = false;
    for config in [sealed(), Config::danger_unsealed(), Config::danger_classic()] {
        let config = config.with_connect_timeout(after);
        let mut pair = Pair::over(7, path(1.0, 10), (config.clone(), job), (config.clone(), job)).unwrap();
        pair.run_until(Time::from_s(3));
        assert_eq!(pair.client.ended, [Some(ConnectionError::HandshakeTimeout { after })]);
        let mut pair = Pair::over(7, path(0.0, 10), (config.clone(), job), (config, job)).unwrap();
        pair.run_until(Time::from_s(100));
        assert_eq!(pair.client.connection().map(|c| c.state()), Some(State::Established));
    }
}

#[test]
fn nobody_answers() {
    let mut pair = modern(path(1.0, 10), Job::send(10), Job::send(0));
    pair.run_until(Time::from_s(40));
    assert_eq!(pair.client.ended, [Some(ConnectionError::HandshakeTimeout { after: Duration::from_secs(30) })]);
    let mut pair = classic(path(1.0, 10), Job::send(10), Job::send(0));
    pair.run_until(Time::from_s(63));
    assert_eq!(pair.client.ended, [], "the sixth SYN waits for 32 s");
    assert_eq!(pair.client.emitted(), 6);
    pair.run_until(Time::from_s(65));
    assert_eq!(pair.client.ended, [Some(ConnectionError::HandshakeTimeout { after: Duration::from_secs(63) })]);
}

/// [rate-4]
#[test]
fn the_documented_parameters_can_be_set_and_read_as_the_table_says() {
    let mut pair = classic(path(0.0, 10), Job::send(100_000), Job::send(0));
    let connection = pair.client.connection_mut().unwrap();
    let too_small = ParameterError::OutOfRange { name: "Maxtokens", min: 1_420, max: u32::MAX.into() };
    assert_eq!(
        connection.parameters().set(Parameter::Maxtokens, 1_419),
        Err(too_small),
        "it could never send a segment"
    );
    for parameter in Parameter::ALL {
        use dfcp_proto::Access::{Both, Get, Set};
        let value = if parameter == Parameter::Maxtokens { 0 } else { 1 };
        let (set, get) = (connection.parameters().set(parameter, value), connection.parameters().get(parameter));
        match parameter.access() {
            Both => assert_eq!((set, get), (Ok(()), Ok(value)), "{parameter:?}"),
            Set => {
                let expected = if parameter == Parameter::Redundancy {
                    Err(ParameterError::OutOfRange { name: "Redundancy", min: 1_420, max: 192 * 1_420 })
                } else {
                    Ok(())
                };
                assert_eq!((set, get.is_err()), (expected, true), "{parameter:?}");
            }
            Get => assert_eq!((set.is_err(), get), (true, Ok(0)), "{parameter:?}"),
        }
    }
}

#[test]
fn the_token_bucket_of_the_thesis_limits_the_rate() {
    let mut pair = classic(path(0.0, 10), Job::send(u64::MAX), Job::send(0));
    let connection = pair.client.connection_mut().unwrap();
    assert!(connection.set_rate(Rate::Fixed { rate_bps: 0 }).is_err(), "that would be no limit at all");
    connection.set_rate(Rate::Line).unwrap();
    connection.parameters().set(Parameter::Maxtokens, 100_000).unwrap();
    connection.parameters().set(Parameter::Inctokens, inctokens(8).into()).unwrap();
    pair.run_until(Time::from_s(2));
    let before = pair.client.stats().sent.total();
    pair.run_until(Time::from_s(12));
    let encoded_bits = (pair.client.stats().sent.total() - before) * 1_420 * 8;
    // 8 of the thesis's megabits of 2^20 bits, of encoded bytes: headers are not counted.
    let expected = 10.0 * 8.0 * 1024.0 * 1024.0;
    assert!((encoded_bits as f64 / expected - 1.0).abs() < 0.002, "{encoded_bits} against {expected}");
}

#[test]
fn the_switches_of_the_thesis_take_the_codec_out() {
    let config = Config::danger_classic()
        .with_rate(Rate::Fixed { rate_bps: 50_000_000 })
        .with_classic(ClassicSettings { coding: false, decoding: false, ..ClassicSettings::default() });
    let mut pair =
        Pair::over(1, path(0.05, 10), (config.clone(), Job::send(u64::MAX)), (config, Job::send(0))).unwrap();
    pair.run_until(Time::from_s(5));
    let stats = pair.server.stats();
    assert!(stats.blocks_decoded > 200 && stats.stream_bytes_read >= stats.blocks_decoded * 63_536 - 127 * 63_536);
}
