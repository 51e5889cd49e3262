//! Tests of sessions with many streams over emulated links: loss on one delays no other, each gets its share, and ends are distinguished
//! from losses.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::{
    Config, Connection, Opener, Priority, Rate, State, StreamError, StreamEvent, StreamId, StreamKind, StreamLimits,
    limits,
};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, Packet, StreamApplications, Trust, sealed};
use dfcp_time::Time;

const RATE_BPS: u64 = 20_000_000;
const RTT: Duration = Duration::from_millis(40);
/// Offset of the data offset field in a datagram (`spec/wire-format.md` §2).
const DATA_OFFSET_AT: usize = 12;

/// Two ends of a session, with the applications of its streams.
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
    /// Opens a session over a path with this loss in each direction and equal configurations.
    fn open(seed: u64, loss: f64, config: &Config) -> Self {
        Self::open_between(seed, loss, config, config)
    }

    fn open_between(seed: u64, loss: f64, client: &Config, server: &Config) -> Self {
        let link = LinkConfig::default().with_delay(RTT / 2).with_loss(Loss::bernoulli(loss));
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 };
        // The first stream is unused: it ends with the session.
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
        self.opens(Opener::Initiator, kind, send_bytes)
    }

    fn opens(&mut self, opener: Opener, kind: StreamKind, send_bytes: u64) -> Result<StreamId, StreamError> {
        let (applications, node) = match opener {
            Opener::Initiator => (&mut self.client, &mut self.pair.client),
            Opener::Acceptor => (&mut self.server, &mut self.pair.server),
        };
        applications.open(node.connection_mut().unwrap(), kind, send_bytes)
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

    /// Runs until `is_done`, or for `most`; returns true if it is done.
    fn run_until(&mut self, most: Duration, mut is_done: impl FnMut(&mut Self) -> bool) -> bool {
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

/// Stream id of a datagram, encrypted or not: the seventh word of a header with a stream id.
fn stream_of(packet: &Packet) -> Option<StreamId> {
    let data_offset_words = packet.bytes.get(DATA_OFFSET_AT)? >> 4;
    let id = packet.bytes.get(24..28).filter(|_| data_offset_words == 7)?;
    Some(StreamId::from_word(u32::from_be_bytes(id.try_into().unwrap())))
}

#[test]
fn streams_deliver_both_ways_however_much_is_lost() {
    for (seed, loss) in [(1, 0.0), (2, 0.05), (3, 0.2), (4, 0.5)] {
        let mut streams = Streams::open(seed, loss, &config(100));
        streams.server.answer_bytes = 30_000;
        for index in 0..20 {
            streams.client_opens(StreamKind::Bidirectional, index * 7_000).unwrap();
            streams.client_opens(StreamKind::OneWay, index * 3_000).unwrap();
        }
        streams.finish(Duration::from_secs(60));
        assert_eq!(streams.server.streams.len(), 40, "seed {seed}");
    }
}

/// Maximum bytes of a datagram in addition to stream data: a header with a stream id, the secret of its symbol, the
/// authentication tag, UDP and IP.
const DATAGRAM_OVERHEAD_BYTES: u64 = 28 + 4 + 16 + 28;

/// Data of 1000 new streams is read after a one-way delay, plus the transmission time of this data and of earlier bytes
/// at the session's rate. If a round trip preceded the data, none would have arrived by then.
#[test]
fn a_thousand_streams_open_without_a_round_trip() {
    const STREAMS: u64 = 1_000;
    const BYTES: u64 = 100;
    const FAST_BPS: u64 = 100_000_000;
    let full_datagram = Duration::from_nanos(1_500 * 8 * 1_000_000_000 / FAST_BPS);
    let datagram = Duration::from_nanos((BYTES + DATAGRAM_OVERHEAD_BYTES) * 8 * 1_000_000_000 / FAST_BPS);
    // The margin covers the granularity of the pacer, and other datagrams of the session.
    let margin = 4 * full_datagram;
    let deadline = RTT / 2 + datagram * STREAMS as u32 + margin;
    assert!(deadline < RTT * 3 / 2, "the first byte of a variant with a round trip arrives after three times one way");
    for (seed, opener) in [(18, Opener::Initiator), (19, Opener::Acceptor)] {
        let config = Config { rate: Rate::Fixed { rate_bps: FAST_BPS }, ..config(STREAMS as u32 / 2) };
        let mut streams = Streams::open(seed, 0.0, &config);
        streams.run_for(RTT * 4);
        let begun = streams.pair.now;
        for index in 0..STREAMS {
            let kind = if index % 2 == 0 { StreamKind::Bidirectional } else { StreamKind::OneWay };
            streams.opens(opener, kind, BYTES).unwrap();
        }
        streams.run_for(deadline);
        let reader = if opener == Opener::Initiator { &streams.server } else { &streams.client };
        let ended = reader.streams.values().filter(|it| it.read == BYTES).filter_map(|it| it.ended_at);
        let mut took: Vec<_> = ended.map(|ended_at| ended_at - begun).collect();
        assert_eq!(took.len() as u64, STREAMS, "{opener:?}: streams of which all was read within {deadline:?}");
        took.sort();
        for (before, took) in (1..).zip(took) {
            let most = RTT / 2 + datagram * before + margin;
            assert!(
                took <= most,
                "{opener:?}: stream {before} in the order of reading took {took:?}, more than {most:?}"
            );
        }
        streams.check();
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
        // All credit is available again.
        streams.run_for(Duration::from_secs(2));
    }
}

#[test]
fn a_reader_that_stalls_holds_up_no_other_stream() {
    let mut streams = Streams::open(8, 0.02, &config(10).with_receive_memory_bytes(limits::WINDOW_BYTES_START));
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
        streams.client_connection().streams().set_priority(id, priority);
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
        streams.client_connection().streams().set_priority(id, priority);
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
        // Bytes are read in blocks: over five seconds, an eighth of a second of data may be missing.
        assert!((*share as f64 - due).abs() <= 0.06 * due, "{share} of {all}, due {due}");
    }
}

/// Times and streams of the full datagrams sent by a session.
type Sendings = Rc<RefCell<Vec<(Time, StreamId)>>>;

/// Records full datagrams of streams from now on; datagrams of the stream `lost` are dropped.
fn watch(streams: &mut Streams, lost: Option<StreamId>) -> Sendings {
    let sendings = Sendings::default();
    let noted = Rc::clone(&sendings);
    streams.pair.tap = Box::new(move |now, packet| {
        let stream = stream_of(&packet);
        noted.borrow_mut().extend(stream.filter(|_| packet.bytes.len() > 1_000).map(|stream| (now, stream)));
        if stream.is_some() && stream == lost { vec![] } else { vec![packet] }
    });
    sendings
}

/// Bytes of one stream written and read over time: time and total at each change.
#[derive(Default)]
struct Progress {
    written: Vec<(Time, u64)>,
    read: Vec<(Time, u64)>,
}

impl Progress {
    fn note(&mut self, now: Time, written: u64, read: u64) {
        for (notes, bytes) in [(&mut self.written, written), (&mut self.read, read)] {
            if notes.last().is_none_or(|(_, last)| *last < bytes) {
                notes.push((now, bytes));
            }
        }
    }

    /// Longest delay from writing to reading a byte, for bytes read in this time range.
    fn longest_delay(&self, time: Range<Time>) -> Duration {
        let delays = self.read.windows(2).filter(|pair| time.contains(&pair[1].0)).map(|pair| {
            let [(_, first), (read_at, _)] = pair else { unreachable!("windows of two") };
            // The first of these bytes has waited longest.
            let written = self.written.partition_point(|(_, bytes)| bytes <= first);
            *read_at - self.written[written].0
        });
        delays.max().unwrap()
    }

    fn bytes_read(&self, time: Range<Time>) -> u64 {
        let read = |at| self.read[self.read.partition_point(|(read_at, _)| *read_at < at) - 1].1;
        read(time.end) - read(time.start)
    }
}

/// Traffic of the second stream of [`beside_a_lost_stream`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writing {
    /// As much data as there is room for.
    Bulk,
    /// A message of this many bytes per interval.
    Messages(u64, Duration),
}

/// Progress of two streams, the first with 1/20 and the second with 19/20 of the rate, during two seconds (`two_s`) and in
/// the second after them.
struct Beside {
    /// Progress of the second stream since the start of the session.
    progress: Progress,
    two_s: Range<Time>,
    /// Bytes read of the first stream in the two seconds, without their first RTT, in which earlier data arrives.
    read_of_first: u64,
    /// Full datagrams of each stream sent in the two seconds.
    sent: [usize; 2],
}

/// Runs two streams; if `drops`, all datagrams of the first are lost in the two seconds.
fn beside_a_lost_stream(drops: bool, writing: Writing) -> Beside {
    let mut streams = Streams::open(15, 0.0, &config(10));
    let lost = streams.client_opens(StreamKind::OneWay, 1 << 30).unwrap();
    let other = streams.client_opens(StreamKind::OneWay, if writing == Writing::Bulk { 1 << 30 } else { 0 }).unwrap();
    streams.client.streams.get_mut(&other).unwrap().stays_open = true;
    for (id, weight) in [(lost, 1), (other, 19)] {
        let priority = Priority { weight, ..Priority::default() };
        streams.client_connection().streams().set_priority(id, priority);
    }
    let mut progress = Progress::default();
    let mut run_until = |streams: &mut Streams, end: Time| {
        while streams.pair.now < end {
            let mut next = end;
            if let Writing::Messages(bytes, interval) = writing {
                streams.client.streams.get_mut(&other).unwrap().send_bytes += bytes;
                next = next.min(streams.pair.now + interval);
            }
            streams.run_until(next - streams.pair.now, |it| {
                let written = it.client.get(other).unwrap().written;
                progress.note(it.pair.now, written, it.server.get(other).map_or(0, |it| it.read));
                false
            });
        }
    };
    let begin = streams.pair.now + Duration::from_secs(3);
    let end = begin + Duration::from_secs(2);
    run_until(&mut streams, begin);
    let sendings = watch(&mut streams, drops.then_some(lost));
    run_until(&mut streams, begin + RTT);
    let read_before = streams.server.get(lost).unwrap().read;
    run_until(&mut streams, end);
    let read_of_first = streams.server.get(lost).unwrap().read - read_before;
    let sent = [lost, other].map(|id| sendings.borrow().iter().filter(|(_, it)| *it == id).count());
    streams.pair.tap = Box::new(|_, packet| vec![packet]);
    run_until(&mut streams, end + Duration::from_secs(1));
    streams.check();
    Beside { progress, two_s: begin..end, read_of_first, sent }
}

/// The path has no queue, so bytes wait only for the sender: neither data written as fast as possible, nor a message below its stream's
/// share, is delayed by the losses and repair of another stream.
#[test]
fn no_byte_waits_longer_than_three_datagrams_for_a_stream_whose_datagrams_are_lost() {
    let datagram_time = Duration::from_nanos(1_500 * 8 * 1_000_000_000 / RATE_BPS);
    for writing in [Writing::Bulk, Writing::Messages(1_000, Duration::from_micros(500))] {
        let [without, with] = [false, true].map(|drops| beside_a_lost_stream(drops, writing));
        assert!(without.read_of_first > 100_000 && with.read_of_first == 0, "{}", with.read_of_first);
        let [before, meanwhile] = [&without, &with].map(|it| {
            // One second more, because bytes that wait for repair still wait when datagrams arrive again.
            it.progress.longest_delay(it.two_s.start..it.two_s.end + Duration::from_secs(1))
        });
        assert!(meanwhile <= before + 3 * datagram_time, "{writing:?}: {before:?} without, {meanwhile:?} with losses");
    }
}

#[test]
fn a_stream_keeps_its_weight_beside_one_whose_datagrams_are_lost() {
    let [without, with] = [false, true].map(|drops| beside_a_lost_stream(drops, Writing::Bulk));
    let due = with.sent.iter().sum::<usize>() as f64 * 19.0 / 20.0;
    let sent = with.sent[1] as f64;
    assert!((sent - due).abs() <= f64::max(0.03 * due, 2.0), "{sent} datagrams sent of {due}");
    let [before, meanwhile] = [&without, &with].map(|it| it.progress.bytes_read(it.two_s.clone()) as f64);
    let difference_max = f64::max(0.03 * before, 2.0 * 1_420.0);
    assert!((meanwhile - before).abs() <= difference_max, "{meanwhile} bytes read, and {before} without losses");
}

#[test]
fn weights_hold_in_each_second_to_three_percent_or_two_datagrams() {
    for (seed, loss) in [(16, 0.0), (17, 0.02)] {
        let mut streams = Streams::open(seed, loss, &config(10));
        let weights = [256, 128, 64, 1];
        let ids = weights.map(|_| streams.client_opens(StreamKind::OneWay, 1 << 30).unwrap());
        for (&id, &weight) in ids.iter().zip(&weights) {
            let priority = Priority { weight, ..Priority::default() };
            streams.client_connection().streams().set_priority(id, priority);
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
        streams.client_connection().streams().reset(now, reset, 77);
        streams.pair.server.connection_mut().unwrap().streams().stop_sending(now, stopped, 88);
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
        // The end is requested immediately, and takes effect when the stream is done.
        let now = streams.pair.now;
        streams.client_connection().streams().finish(now, StreamId::FIRST);
        assert_eq!(streams.client_opens(StreamKind::OneWay, 1), Err(StreamError::Ended));
        streams.pair.server.connection_mut().unwrap().streams().finish(now, StreamId::FIRST);
        let is_over = |it: &mut Streams| it.pair.client.is_over() && it.pair.server.is_over();
        assert!(streams.run_until(Duration::from_secs(60), is_over), "{}", streams.pair.describe());
        assert_eq!(streams.pair.client.ended, [None]);
        assert_eq!(streams.pair.server.ended, [None]);
        let server = streams.server.streams.values().next().unwrap();
        assert_eq!((server.read, server.ended_at.is_some()), (500_000, true));
    }
}

/// Memory released by a reset stream is available to others. Waiting streams have nothing in flight, so no report would inform them.
#[test]
fn a_stream_that_waits_for_room_goes_on_when_another_is_reset() {
    let server = Config { receive_memory_bytes: 1 << 20, ..config(10) };
    for ms in [0, 300, 700] {
        let mut streams = Streams::open_between(1, 0.0, &config(10), &server);
        streams.server.reads = false;
        let [full, other] = [(); 2].map(|()| {
            let id = streams.client_opens(StreamKind::Bidirectional, 16 << 20).unwrap();
            streams.run_for(Duration::from_secs(3));
            id
        });
        streams.run_for(Duration::from_millis(ms));
        let now = streams.pair.now;
        let (node, applications) = (&mut streams.pair.client, &mut streams.client);
        applications.reset(now, node.connection_mut().unwrap(), full, 7);
        let sent = streams.pair.client.stats().sent.source;
        streams.run_for(Duration::from_secs(5));
        let more = streams.pair.client.stats().sent.source - sent;
        assert!(more > 100, "{more} symbols of {other:?}, which has room since {ms} ms after it had none");
    }
}

/// Regression test: after a poll that returns no datagram, a driver sleeps until the next timeout.
#[test]
fn a_reset_is_due_at_once_even_at_the_instant_in_which_all_was_sent() {
    let mut streams = Streams::open(1, 0.0, &config(10));
    let id = streams.client_opens(StreamKind::OneWay, 10).unwrap();
    streams.client.streams.get_mut(&id).unwrap().stays_open = true;
    streams.run_for(Duration::from_secs(5));
    let now = streams.pair.now;
    let connection = streams.client_connection();
    connection.handle_timeout(now);
    let mut out = [0; dfcp_proto::DATAGRAM_BUFFER_BYTES];
    while connection.poll_transmit(now, &mut out).is_some() {}
    connection.streams().reset(now, id, 1);
    let due = connection.next_timeout(now);
    assert!(due.is_some_and(|(at, _)| at <= now), "{due:?} at {now}");
}

/// [`StreamError::NoCredit`] promises [`StreamEvent::Available`], also before the end of the handshake.
#[test]
fn who_opens_a_stream_before_the_handshake_is_told_when_that_is_possible() {
    let link = LinkConfig::default().with_delay(RTT / 2);
    let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 };
    let job = Job { shut_down: false, ..Job::send(0) };
    let mut pair = Pair::over(1, path, (config(1), job), (config(1), job)).unwrap();
    let open = |pair: &mut Pair| pair.client.connection_mut().unwrap().streams().open(StreamKind::OneWay);
    assert_eq!(open(&mut pair), Err(StreamError::NoCredit));
    pair.run_until(pair.now + Duration::from_secs(2));
    let mut streams = pair.client.connection_mut().unwrap().streams();
    assert_eq!(streams.poll_event(), Some(StreamEvent::Available));
    assert!(open(&mut pair).is_ok());
}
