//! Sessions of many streams over emulated links: what is lost of one holds up no other, each keeps its share, and ends are
//! told from losses.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::{Config, Connection, Opener, Priority, Rate, State, StreamError, StreamId, StreamKind, StreamLimits};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, Packet, StreamApplications, Trust, sealed};
use dfcp_time::Time;

const RATE_BPS: u64 = 20_000_000;
const RTT: Duration = Duration::from_millis(40);
/// Where in a datagram the data offset stands (`spec/wire-format.md` §2).
const DATA_OFFSET_AT: usize = 12;

/// Two ends of a session and the applications of its streams.
struct Streams {
    pair: Pair,
    client: StreamApplications,
    server: StreamApplications,
}

fn config(streams: u32) -> Config {
    let streams = StreamLimits { bidirectional: streams, one_way: streams };
    Config { rate: Rate::Fixed { rate_bps: RATE_BPS }, streams, ..sealed() }
}

impl Streams {
    /// An open session over a path that loses this much each way, whose ends are configured alike.
    fn open(seed: u64, loss: f64, config: &Config) -> Self {
        Self::open_between(seed, loss, config, config)
    }

    fn open_between(seed: u64, loss: f64, client: &Config, server: &Config) -> Self {
        let link = LinkConfig::default().with_delay(RTT / 2).with_loss(Loss::bernoulli(loss));
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 };
        // Nobody uses the first stream: it ends with the session.
        let job = Job { shut_down: false, ..Job::send(0) };
        let pair = Pair::over(seed, path, (client.clone(), job), (server.clone(), job)).unwrap();
        let (client, server) =
            (StreamApplications::new(seed, Opener::Initiator), StreamApplications::new(seed, Opener::Acceptor));
        let mut streams = Self { pair, client, server };
        let is_open = |it: &mut Self| {
            it.pair.client.state() == State::Established && it.pair.server.state() == State::Established
        };
        assert!(streams.run_until(Duration::from_secs(20), is_open), "seed {seed}: the handshake");
        streams
    }

    fn client_connection(&mut self) -> &mut Connection {
        self.pair.client.connection_mut().unwrap()
    }

    fn client_opens(&mut self, kind: StreamKind, send_bytes: u64) -> Result<StreamId, StreamError> {
        self.client.open(self.pair.client.connection_mut().unwrap(), kind, send_bytes)
    }

    fn work(&mut self) {
        let now = self.pair.now;
        for (applications, node) in
            [(&mut self.client, &mut self.pair.client), (&mut self.server, &mut self.pair.server)]
        {
            if let Some(connection) = node.connection_mut() {
                applications.work(now, connection);
            }
        }
    }

    /// Runs until `is_done`, or for `most`; whether it is done.
    fn run_until(&mut self, most: Duration, is_done: impl Fn(&mut Self) -> bool) -> bool {
        let limit = self.pair.now + most;
        loop {
            self.work();
            if is_done(self) {
                return true;
            }
            if !self.pair.step(limit) {
                self.pair.now = limit;
                return is_done(self);
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until all streams of both ends are done, and checks every byte.
    fn finish(&mut self, most: Duration) {
        let is_done = |it: &mut Self| it.client.are_done() && it.server.are_done();
        assert!(self.run_until(most, is_done), "not done: {}; {}; {}", self.pair.describe(), self.client, self.server);
        self.check();
    }

    fn check(&self) {
        for (own, peer) in [(&self.client, &self.server), (&self.server, &self.client)] {
            for (id, state) in &own.streams {
                assert_eq!(state.corrupt_at, None, "{id:?}");
                if state.ended_at.is_some() {
                    assert_eq!(Some(state.read), peer.get(*id).map(|it| it.written), "{id:?}");
                }
            }
        }
    }
}

/// The stream id of a datagram, sealed or not: the seventh word of a header that has one.
fn stream_of(packet: &Packet) -> Option<StreamId> {
    let data_offset_words = packet.bytes.get(DATA_OFFSET_AT)? >> 4;
    let id = packet.bytes.get(24..28).filter(|_| data_offset_words == 7)?;
    Some(StreamId::from_word(u32::from_be_bytes(id.try_into().unwrap())))
}

#[test]
fn streams_open_without_a_round_trip_and_deliver_both_ways_however_much_is_lost() {
    for (seed, loss) in [(1, 0.0), (2, 0.05), (3, 0.2), (4, 0.5)] {
        let mut streams = Streams::open(seed, loss, &config(100));
        streams.server.answer_bytes = 30_000;
        for index in 0..20 {
            streams.client_opens(StreamKind::Bidirectional, index * 7_000).unwrap();
            streams.client_opens(StreamKind::OneWay, index * 3_000).unwrap();
        }
        if loss == 0.0 {
            streams.run_for(RTT * 2);
            assert_eq!(streams.server.streams.len(), 40, "what opens them came with the data");
        }
        streams.finish(Duration::from_secs(60));
        assert_eq!(streams.server.streams.len(), 40, "seed {seed}");
    }
}

#[test]
fn a_seed_tells_everything() {
    let run = |seed| {
        let mut streams = Streams::open(seed, 0.1, &config(50));
        for _ in 0..30 {
            streams.client_opens(StreamKind::OneWay, 20_000).unwrap();
        }
        streams.finish(Duration::from_secs(20));
        (streams.pair.trace(), streams.pair.now)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn credit_returns_when_streams_are_read_to_their_end() {
    let mut streams = Streams::open(7, 0.1, &config(3));
    for round in 0..20 {
        for _ in 0..3 {
            streams.client_opens(StreamKind::OneWay, 2_000).unwrap();
        }
        assert_eq!(streams.client_opens(StreamKind::OneWay, 2_000), Err(StreamError::NoCredit));
        streams.finish(Duration::from_secs(5));
        let has_credit = |it: &mut Streams| it.client_opens(StreamKind::OneWay, 100).is_ok();
        assert!(streams.run_until(Duration::from_secs(3), has_credit), "round {round}");
        streams.finish(Duration::from_secs(5));
        // All that was lent is there again.
        streams.run_for(Duration::from_secs(2));
    }
}

#[test]
fn a_reader_that_stalls_holds_up_no_other_stream() {
    let mut streams = Streams::open(8, 0.02, &config(10));
    streams.server.reads = false;
    let stalled = streams.client_opens(StreamKind::OneWay, 1 << 30).unwrap();
    streams.run_for(Duration::from_secs(15));
    let held = streams.client.get(stalled).unwrap().written;
    streams.run_for(Duration::from_secs(2));
    assert_eq!(streams.client.get(stalled).unwrap().written, held, "its window is full");
    streams.server.reads = true;
    let other = streams.client_opens(StreamKind::OneWay, 5_000_000).unwrap();
    let begun = streams.pair.now;
    let is_read = |it: &mut Streams| it.server.get(other).is_some_and(|it| it.ended_at.is_some());
    assert!(streams.run_until(Duration::from_secs(20), is_read), "{:?}", streams.server.get(other));
    let took = streams.pair.now - begun;
    assert!(took < Duration::from_millis(2_600), "5 MB at 20 Mbit/s took {took:?}");
    streams.check();
}

/// Stream A has a twentieth of the rate, and for two seconds none of its datagrams arrives.
#[test]
fn what_is_lost_of_one_stream_delays_no_other() {
    let mut streams = Streams::open(9, 0.0, &config(10));
    let lost = streams.client_opens(StreamKind::OneWay, 1 << 30).unwrap();
    let other = streams.client_opens(StreamKind::OneWay, 1 << 30).unwrap();
    for (id, weight) in [(lost, 1), (other, 19)] {
        let priority = Priority { weight, ..Priority::default() };
        streams.client_connection().streams().unwrap().set_priority(id, priority);
    }
    streams.run_for(Duration::from_secs(4));
    let rate = |streams: &mut Streams, time: Duration| {
        let before = [lost, other].map(|id| streams.server.get(id).unwrap().read);
        streams.run_for(time);
        [0, 1].map(|i| {
            let read = streams.server.get([lost, other][i]).unwrap().read - before[i];
            read as f64 * 8.0 / time.as_secs_f64()
        })
    };
    let [lost_before, other_before] = rate(&mut streams, Duration::from_secs(2));
    assert!((lost_before * 19.0 / other_before - 1.0).abs() < 0.1, "{lost_before} {other_before}");
    streams.pair.tap = Box::new(move |_, packet| if stream_of(&packet) == Some(lost) { vec![] } else { vec![packet] });
    let [lost_meanwhile, other_meanwhile] = rate(&mut streams, Duration::from_secs(2));
    assert!(lost_meanwhile < 0.1 * lost_before, "{lost_meanwhile}");
    assert!(other_meanwhile > 0.97 * other_before, "{other_meanwhile} of {other_before}");
    streams.pair.tap = Box::new(|_, packet| vec![packet]);
    streams.run_for(Duration::from_secs(2));
    let [lost_after, _] = rate(&mut streams, Duration::from_secs(2));
    assert!(lost_after > 0.9 * lost_before, "{lost_after} of {lost_before}");
    streams.check();
}

#[test]
fn weights_hold() {
    let mut streams = Streams::open(10, 0.0, &config(10));
    let weights = [256, 128, 64, 16];
    let ids: Vec<_> = weights.iter().map(|_| streams.client_opens(StreamKind::OneWay, 1 << 30).unwrap()).collect();
    for (&id, &weight) in ids.iter().zip(&weights) {
        let priority = Priority { weight, ..Priority::default() };
        streams.client_connection().streams().unwrap().set_priority(id, priority);
    }
    streams.run_for(Duration::from_secs(3));
    let read = |streams: &Streams| -> Vec<u64> { ids.iter().map(|&id| streams.server.get(id).unwrap().read).collect() };
    let before = read(&streams);
    streams.run_for(Duration::from_secs(5));
    let after = read(&streams);
    let shares: Vec<_> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let all: u64 = shares.iter().sum();
    let weight_sum: u16 = weights.iter().sum();
    for (share, weight) in shares.iter().zip(weights) {
        let due = all as f64 * f64::from(weight) / f64::from(weight_sum);
        // What is read comes in blocks: over five seconds, an eighth of a second's worth of one may be missing.
        assert!((*share as f64 - due).abs() <= 0.06 * due, "{share} of {all}, due {due}");
    }
}

/// What a session sends on its streams: when, and on which.
type Sendings = Rc<RefCell<Vec<(Time, StreamId)>>>;

/// Notes what is sent on streams from now on; of `lost`, nothing arrives.
fn watch(streams: &mut Streams, lost: Option<StreamId>) -> Sendings {
    let sendings = Sendings::default();
    let noted = Rc::clone(&sendings);
    streams.pair.tap = Box::new(move |now, packet| {
        let stream = stream_of(&packet).filter(|_| packet.bytes.len() > 1_000);
        noted.borrow_mut().extend(stream.map(|stream| (now, stream)));
        if stream.is_some() && stream == lost { vec![] } else { vec![packet] }
    });
    sendings
}

/// The longest time between two datagrams of a stream.
fn longest_gap(sendings: &Sendings, id: StreamId) -> Duration {
    let sent: Vec<_> = sendings.borrow().iter().filter(|(_, it)| *it == id).map(|(at, _)| *at).collect();
    assert!(sent.len() > 1_000, "{}", sent.len());
    sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
}

/// The path has no queue, so what a datagram of another stream waits for is its sender.
#[test]
fn no_datagram_waits_for_more_than_three_of_a_stream_whose_datagrams_are_lost() {
    let datagram_time = Duration::from_nanos(1_480 * 8 * 1_000_000_000 / RATE_BPS);
    let mut streams = Streams::open(15, 0.0, &config(10));
    let [lost, other] = [(); 2].map(|()| streams.client_opens(StreamKind::OneWay, 1 << 30).unwrap());
    for (id, weight) in [(lost, 1), (other, 19)] {
        let priority = Priority { weight, ..Priority::default() };
        streams.client_connection().streams().unwrap().set_priority(id, priority);
    }
    streams.run_for(Duration::from_secs(4));
    let before = watch(&mut streams, None);
    streams.run_for(Duration::from_secs(2));
    let meanwhile = watch(&mut streams, Some(lost));
    streams.run_for(Duration::from_secs(2));
    let afterwards = watch(&mut streams, None);
    streams.run_for(Duration::from_secs(2));
    let [before, meanwhile, afterwards] = [before, meanwhile, afterwards].map(|it| longest_gap(&it, other));
    assert!(before <= 3 * datagram_time, "{before:?}");
    for gap in [meanwhile, afterwards] {
        assert!(gap <= before + 3 * datagram_time, "{before:?}, {meanwhile:?}, {afterwards:?}");
    }
}

#[test]
fn weights_hold_in_each_second_to_three_percent_or_two_datagrams() {
    for (seed, loss) in [(16, 0.0), (17, 0.02)] {
        let mut streams = Streams::open(seed, loss, &config(10));
        let weights = [256, 128, 64, 1];
        let ids = weights.map(|_| streams.client_opens(StreamKind::OneWay, 1 << 30).unwrap());
        for (&id, &weight) in ids.iter().zip(&weights) {
            let priority = Priority { weight, ..Priority::default() };
            streams.client_connection().streams().unwrap().set_priority(id, priority);
        }
        streams.run_for(Duration::from_secs(4));
        for second in 0..5 {
            let sendings = watch(&mut streams, None);
            streams.run_for(Duration::from_secs(1));
            let sendings = sendings.borrow();
            let weight_sum: u16 = weights.iter().sum();
            for (id, weight) in ids.iter().zip(weights) {
                let sent = sendings.iter().filter(|(_, it)| it == id).count() as f64;
                let due = sendings.len() as f64 * f64::from(weight) / f64::from(weight_sum);
                assert!(
                    (sent - due).abs() <= f64::max(0.03 * due, 2.0),
                    "loss {loss}, second {second}: {sent} of {due}"
                );
            }
        }
    }
}

#[test]
fn a_thousand_streams_together_are_as_fast_as_one() {
    let time = |count: u64| {
        let mut streams = Streams::open(11, 0.01, &config(1_000));
        for _ in 0..count {
            streams.client_opens(StreamKind::OneWay, 10_000_000 / count).unwrap();
        }
        let begun = streams.pair.now;
        streams.finish(Duration::from_secs(30));
        streams.pair.now - begun
    };
    let (one, thousand) = (time(1), time(1_000));
    assert!(one.as_secs_f64() >= 0.95 * thousand.as_secs_f64(), "{one:?} and {thousand:?}");
}

#[test]
fn a_reset_reaches_the_reader_and_a_stop_the_writer() {
    for (seed, loss) in [(12, 0.0), (13, 0.3)] {
        let mut streams = Streams::open(seed, loss, &config(10));
        let reset = streams.client_opens(StreamKind::Bidirectional, 1 << 30).unwrap();
        let stopped = streams.client_opens(StreamKind::Bidirectional, 1 << 30).unwrap();
        let fine = streams.client_opens(StreamKind::Bidirectional, 100_000).unwrap();
        streams.run_for(Duration::from_secs(1));
        let now = streams.pair.now;
        streams.client_connection().streams().unwrap().reset(now, reset, 77);
        streams.pair.server.connection_mut().unwrap().streams().unwrap().stop_sending(now, stopped, 88);
        let is_done = |it: &mut Streams| {
            let is_reset = it.server.get(reset).is_some_and(|it| it.reset == Some(77));
            let is_stopped = it.client.get(stopped).is_some_and(|it| it.stopped == Some(88));
            is_reset && is_stopped && it.server.get(fine).is_some_and(|it| it.ended_at.is_some())
        };
        assert!(streams.run_until(Duration::from_secs(20), is_done), "{:?} {:?}", streams.client, streams.server);
        streams.check();
    }
}

#[test]
fn the_session_closes_when_its_streams_are_done() {
    for trust in [Trust::Unsealed, Trust::Pinned] {
        let (client, server) = trust.security();
        let [client, server] = [client, server].map(|security| Config { security, ..config(10) });
        let mut streams = Streams::open_between(14, 0.2, &client, &server);
        streams.client_opens(StreamKind::OneWay, 500_000).unwrap();
        streams.work();
        // Said at once, and true once the stream is done.
        let now = streams.pair.now;
        streams.client_connection().shutdown(now);
        assert_eq!(streams.client_opens(StreamKind::OneWay, 1), Err(StreamError::Ended));
        streams.pair.server.connection_mut().unwrap().shutdown(now);
        let is_over = |it: &mut Streams| it.pair.client.is_over() && it.pair.server.is_over();
        assert!(streams.run_until(Duration::from_secs(60), is_over), "{}", streams.pair.describe());
        assert_eq!(streams.pair.client.ended, [None]);
        assert_eq!(streams.pair.server.ended, [None]);
        let server = streams.server.streams.values().next().unwrap();
        assert_eq!((server.read, server.ended_at.is_some()), (500_000, true));
    }
}
