//! Observers and key logs get every event once, and do not change the datagrams sent.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dfcp_proto::{
    Accept, Beginning, Config, Connection, ConnectionObserver, DATAGRAM_BUFFER_BYTES, DatagramInfo, Dropped, Endpoint,
    KeyLog, Observed, Observer, PeerKey, Rate, Read, Routed, SegmentKind, State, StaticKey, Stats, StreamId, Verifier,
};
use dfcp_secure::{Cipher, RecordedKeys};
use dfcp_time::Time;

fn client_address() -> SocketAddr {
    ([192, 0, 2, 1], 40_000).into()
}

fn server_address() -> SocketAddr {
    ([192, 0, 2, 2], 9_000).into()
}

/// Events of one connection.
#[derive(Clone, Debug, Default, PartialEq)]
struct Heard {
    at: Vec<Duration>,
    sent: Vec<DatagramInfo>,
    received: Vec<DatagramInfo>,
    dropped: Vec<(Option<SegmentKind>, Dropped)>,
    states: Vec<State>,
    keys: usize,
    metrics: Vec<Stats>,
    closed: Vec<(Option<String>, Stats)>,
}

/// Events of each connection, in the order in which the connections began.
#[derive(Clone, Debug, Default)]
struct Heards(Arc<Mutex<Vec<(Beginning, Heard)>>>);

struct Ear(Heards, usize);

impl ConnectionObserver for Ear {
    fn on_event(&mut self, at: Duration, event: &Observed<'_>) {
        let heard = &mut self.0.0.lock().unwrap()[self.1].1;
        let is_datagram = matches!(event, Observed::DatagramDropped { .. } | Observed::DatagramSent(_));
        assert!(heard.closed.is_empty() || is_datagram, "{event:?} when it is over");
        heard.at.push(at);
        match *event {
            Observed::DatagramSent(datagram) => heard.sent.push(datagram),
            Observed::DatagramReceived(datagram) => heard.received.push(datagram),
            Observed::DatagramDropped { datagram, why, .. } => {
                heard.dropped.push((datagram.map(|datagram| datagram.kind), why));
            }
            Observed::StateChanged { from, to } => {
                assert_eq!(heard.states.last().copied().unwrap_or(from), from);
                heard.states.push(to);
            }
            Observed::KeysAgreed(_) => heard.keys += 1,
            Observed::MetricsUpdated(stats) => heard.metrics.push(*stats),
            Observed::Closed { error, stats } => heard.closed.push((error.map(ToString::to_string), *stats)),
            _ => {}
        }
    }
}

impl Heards {
    fn observer(&self) -> Observer {
        let heards = self.clone();
        Observer::new(move |beginning| {
            let mut all = heards.0.lock().unwrap();
            all.push((*beginning, Heard::default()));
            Some(Box::new(Ear(heards.clone(), all.len() - 1)))
        })
    }

    fn take(&self) -> Vec<(Beginning, Heard)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Result of a transfer.
#[derive(Debug)]
struct Course {
    /// All datagrams in sending order. `true` marks datagrams of the client.
    datagrams: Vec<(bool, Vec<u8>)>,
    client: Stats,
    server: Option<Stats>,
}

/// Sends 100 kB from client to server, and closes the connection. Every twentieth datagram is lost, and replaced by a
/// forged one.
fn transfer(client_config: Config, server_config: Config) -> Course {
    let mut now = Time::from_s(1);
    let mut server_end = Endpoint::new(server_address().port(), Some(Accept::from(server_config)), [2; 32]);
    let mut client_end = Endpoint::new(client_address().port(), None, [1; 32]);
    let (_, mut client) = client_end.connect(now, server_address(), client_config).unwrap();
    let (mut server, mut out): (Option<Connection>, _) = (None, [0; DATAGRAM_BUFFER_BYTES]);
    let mut datagrams = Vec::new();
    let (mut written, mut count) = (0, 0);
    for _ in 0..70_000 {
        now += Duration::from_millis(1);
        written += client
            .streams()
            .write(now, StreamId::FIRST, &[7; 1_000][..1_000.min(100_000 - written)])
            .unwrap_or_default();
        if written == 100_000 {
            client.streams().finish(now, StreamId::FIRST);
        }
        client.handle_timeout(now);
        while let Some(sent) = client.poll_transmit(now, &mut out) {
            let mut datagram = out[..sent.length].to_vec();
            datagrams.push((true, datagram.clone()));
            count += 1;
            if count % 20 == 19 {
                let server = server.iter_mut();
                *datagram.last_mut().unwrap() ^= 1;
                server.for_each(|server| server.handle_datagram(now, client_address(), &mut datagram));
                continue;
            }
            match server_end.handle_datagram(now, client_address(), &datagram, &mut out) {
                Routed::Reply(length) => {
                    datagrams.push((false, out[..length].to_vec()));
                    client.handle_datagram(now, server_address(), &mut out[..length]);
                }
                Routed::Opened(_, connection) => server = Some(connection),
                Routed::Connection(..) => {
                    server.as_mut().unwrap().handle_datagram(now, client_address(), &mut datagram);
                }
                _ => {}
            }
        }
        let Some(server) = &mut server else { continue };
        server.handle_timeout(now);
        let end = loop {
            match server.streams().read(now, StreamId::FIRST, &mut out) {
                Ok(Read::Bytes(_)) => {}
                end => break end,
            }
        };
        if end == Ok(Read::End) {
            server.streams().finish(now, StreamId::FIRST);
        }
        while let Some(sent) = server.poll_transmit(now, &mut out) {
            datagrams.push((false, out[..sent.length].to_vec()));
            client.handle_datagram(now, server_address(), &mut out[..sent.length]);
        }
        if client.state() == State::Closed && server.state() == State::Closed {
            break;
        }
    }
    Course { datagrams, client: client.stats(), server: server.map(|server| server.stats()) }
}

fn rate(config: Config) -> Config {
    config.with_rate(Rate::Fixed { rate_bps: 20_000_000 })
}

fn configs() -> [Config; 3] {
    let sealed = rate(Config::sealed(PeerKey::Any));
    [sealed, rate(Config::danger_unsealed()), rate(Config::danger_classic())]
}

#[test]
fn every_datagram_and_state_is_told_once_and_changes_nothing() {
    for config in configs() {
        let unwatched = transfer(config.clone(), config.clone());
        let (of_client, of_server) = (Heards::default(), Heards::default());
        let watched = transfer(
            config.clone().with_observer(Some(of_client.observer())),
            config.clone().with_observer(Some(of_server.observer())),
        );
        assert_eq!(watched.datagrams, unwatched.datagrams, "an observer changes nothing");
        let server = watched.server.unwrap();
        for (heards, opened_here, stats) in [(of_client, true, watched.client), (of_server, false, server)] {
            let mut all = heards.take();
            assert_eq!(all.len(), 1, "{:?}", config.profile);
            let (beginning, heard) = all.remove(0);
            assert_eq!((beginning.opened_here, beginning.profile), (opened_here, config.profile));
            assert_eq!(heard.sent.len() as u64, stats.segments_sent);
            assert_eq!(heard.sent.iter().map(|it| it.bytes).sum::<u64>(), stats.bytes_sent);
            assert_eq!(heard.dropped.len() as u64, stats.segments_dropped);
            // The endpoint processes the segment that opens a connection on the accepting side, before there is an
            // observer.
            let before = stats.segments_received - (heard.received.len() + heard.dropped.len()) as u64;
            assert!(before <= u64::from(!opened_here), "{before}");
            assert_eq!(heard.keys, usize::from(is_sealed(&config)));
            assert!(heard.at.is_sorted());
            assert_eq!(heard.states.last(), Some(&State::Closed), "{:?}", heard.states);
            let (error, last) = heard.closed.last().unwrap();
            assert_eq!((error, heard.closed.len(), last.bytes_sent), (&None, 1, stats.bytes_sent));
            assert_eq!(heard.states.first(), Some(&State::Established));
        }
    }
}

fn is_sealed(config: &Config) -> bool {
    matches!(config.security, dfcp_proto::Security::Sealed(_))
}

#[test]
fn forgeries_are_told_with_their_cause_and_estimates_when_they_change() {
    let heards = Heards::default();
    let config = rate(Config::sealed(PeerKey::Any));
    let course = transfer(config.clone(), config.with_observer(Some(heards.observer())));
    let (_, heard) = heards.take().remove(0);
    let forged = heard.dropped.iter().filter(|(kind, why)| kind.is_some() && *why == Dropped::Forged).count();
    assert_eq!(forged as u64, course.server.unwrap().segments_forged);
    assert!(forged > 2, "{forged}");
    let data =
        heard.received.iter().filter(|datagram| datagram.kind == SegmentKind::Data && datagram.is_sealed).count();
    assert_eq!(data as u64, course.server.unwrap().received.distinct());
    assert!(!heard.metrics.is_empty() && heard.metrics.len() < heard.at.len());
    assert!(heard.metrics.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn an_observer_may_decline() {
    let declined = Arc::new(Mutex::new(0));
    let count = Arc::clone(&declined);
    let observer = Observer::new(move |_| {
        *count.lock().unwrap() += 1;
        None
    });
    let config = rate(Config::sealed(PeerKey::Any));
    transfer(config.clone().with_observer(Some(observer)), config);
    assert_eq!(*declined.lock().unwrap(), 1);
}

/// A line of a key log.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    ids: (u32, u32),
    hash: [u8; 32],
    cipher: Cipher,
    from_initiator: [u8; 32],
    from_responder: [u8; 32],
}

fn key_log() -> (KeyLog, Arc<Mutex<Vec<Line>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let log = KeyLog::new(move |secrets| {
        assert!(!format!("{secrets:?}").contains(&format!("{:?}", secrets.from_initiator)), "no secret is shown");
        kept.lock().unwrap().push(Line {
            ids: (secrets.initiator_id, secrets.responder_id),
            hash: secrets.handshake_hash,
            cipher: secrets.cipher,
            from_initiator: *secrets.from_initiator,
            from_responder: *secrets.from_responder,
        });
    });
    (log, lines)
}

/// [keylog-1], [keylog-2]: each end logs one line, both lines are equal, and the keys open every sealed datagram.
#[test]
fn a_key_log_opens_every_datagram_of_both_directions() {
    let server_key = StaticKey::from_seed(&[9; 32]);
    let (pinned, known) = (Config::client(server_key.public()), Config::server(server_key));
    let shared = Config::pre_shared(dfcp_proto::PreSharedKey::from_bytes(&[5; 32]));
    let anyone = Config::sealed(PeerKey::Any);
    for (client, server) in [(anyone.clone(), anyone), (pinned, known), (shared.clone(), shared)] {
        let ((of_client, mine), (of_server, theirs)) = (key_log(), key_log());
        let course = transfer(
            rate(client).danger_with_key_log(Some(of_client)),
            rate(server).danger_with_key_log(Some(of_server)),
        );
        let lines = mine.lock().unwrap().clone();
        assert_eq!((lines.len(), &lines), (1, &*theirs.lock().unwrap()));
        let Line { ids, cipher, from_initiator, from_responder, .. } = lines[0].clone();
        let mut from_client = RecordedKeys::new(cipher, dfcp_secure::Role::Initiator, &from_initiator);
        let mut from_server = RecordedKeys::new(cipher, dfcp_secure::Role::Responder, &from_responder);
        let mut opened = 0;
        for (is_clients, datagram) in course.datagrams {
            let outline = dfcp_wire::Outline::of(&datagram).unwrap();
            if !outline.is_sealed {
                continue;
            }
            let (keys, id) = if is_clients { (&mut from_client, ids.1) } else { (&mut from_server, ids.0) };
            assert_eq!(outline.address, id);
            let mut sealed = datagram;
            let (head, sealed) = sealed.split_at_mut(outline.payload_at);
            keys.open(outline.s3, head, sealed).unwrap();
            opened += 1;
        }
        assert!(opened > 100, "{opened}");
    }
}

#[test]
fn nobody_who_is_turned_away_leaves_a_line_and_plaintext_has_none() {
    let (log, lines) = key_log();
    let nobody = Config::sealed(PeerKey::from(Verifier::new(|_| false)));
    let course = transfer(rate(Config::sealed(PeerKey::Any)), rate(nobody).danger_with_key_log(Some(log.clone())));
    assert_eq!(course.client.stream_bytes_acknowledged, 0);
    let plain = rate(Config::danger_unsealed()).danger_with_key_log(Some(log));
    transfer(plain.clone(), plain);
    assert!(lines.lock().unwrap().is_empty());
}
