//! Tests: server and client of test packets over emulated links, on a virtual clock, with user traffic.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::net::SocketAddr;
use std::time::Duration;

use dfcp_estimate::probing::{Client, ClientError, Progress, Server, ServerConfig, Step};
use dfcp_estimate::{BusyPeriod, Config};
use dfcp_netem::{Link, LinkConfig, Loss, QueueLimit};
use dfcp_time::Time;

/// Length of the UDP and IPv4 headers.
const HEADERS_BYTES: u64 = 28;
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 9);

struct World {
    server: Server,
    client: Client,
    /// Link to the client, shared by test packets and traffic; IP packets, with the headers as trailing zeros.
    down: Link<Vec<u8>>,
    up: Link<Vec<u8>>,
    now: Time,
    counter_bytes: u64,
    periods: Vec<BusyPeriod>,
    forgotten: u32,
}

impl World {
    fn new(down: LinkConfig, up: LinkConfig) -> Self {
        let now = Time::from_s(100);
        Self {
            server: Server::new(ServerConfig::default(), [9; 32]),
            client: Client::new(now, Config::default(), 77).unwrap(),
            down: Link::new(down, 1).unwrap(),
            up: Link::new(up, 2).unwrap(),
            now,
            counter_bytes: 1_000_000,
            periods: Vec::new(),
            forgotten: 0,
        }
    }

    /// Advances time by `span`; every `burst_every` a burst of `burst_bytes` goes to the client.
    fn run(&mut self, span: Duration, burst_every: Duration, burst_bytes: usize) -> Result<(), ClientError> {
        let end = self.now + span;
        let mut next_burst = self.now + burst_every;
        loop {
            self.take()?;
            let times = [self.down.next_time(), self.up.next_time(), self.server.next_time()];
            let next = times.into_iter().flatten().chain([self.client.next_time(), next_burst]).min().unwrap();
            if next > end {
                self.now = end;
                return Ok(());
            }
            self.now = self.now.max(next);
            if self.now >= next_burst {
                next_burst += burst_every;
                for start in (0..burst_bytes).step_by(1_500) {
                    self.down.push(self.now, vec![0; (burst_bytes - start).min(1_500)]);
                }
            }
        }
    }

    fn packet(datagram: &[u8]) -> Vec<u8> {
        [datagram, &[0; HEADERS_BYTES as usize]].concat()
    }

    fn take(&mut self) -> Result<(), ClientError> {
        let from = SocketAddr::from(CLIENT);
        while let Some(packet) = self.up.pop(self.now) {
            let datagram = &packet[..packet.len() - HEADERS_BYTES as usize];
            if let Some(answer) = self.server.receive(self.now, from, datagram).answer {
                self.down.push(self.now, Self::packet(answer.as_ref()));
            }
        }
        while let Some(step) = self.server.poll(self.now) {
            if let Step::Send(to, datagram) = step {
                assert_eq!(to, from);
                self.down.push(self.now, Self::packet(datagram.as_ref()));
            }
        }
        while let Some(packet) = self.down.pop(self.now) {
            self.counter_bytes += packet.len() as u64;
            let datagram = &packet[..packet.len() - HEADERS_BYTES as usize];
            match self.client.receive(self.now, datagram, self.counter_bytes)? {
                Some(Progress::Probe(period)) => self.periods.extend(period),
                Some(Progress::Forgotten) => self.forgotten += 1,
                None => {}
            }
        }
        while let Some(datagram) = self.client.poll(self.now)? {
            self.up.push(self.now, Self::packet(datagram.as_ref()));
        }
        Ok(())
    }
}

fn link(rate_bps: u64) -> LinkConfig {
    let queue = QueueLimit::packets(100_000);
    LinkConfig::default().with_rate_bps(rate_bps).with_delay(Duration::from_millis(30)).with_queue(queue)
}

const EVERY: Duration = Duration::from_millis(2_000);

#[test]
fn a_live_path_is_measured_by_its_user_s_traffic() {
    let mut world = World::new(link(4_000_000), link(1_000_000));
    world.run(Duration::from_secs(60), EVERY, 300_000).unwrap();
    assert!(world.periods.len() >= 25, "{}", world.periods.len());
    let mean_bps = world.client.estimator().summary().mean_bps().unwrap();
    assert!((mean_bps / 4e6 - 1.0).abs() < 1e-3, "{mean_bps}");
    assert_eq!(world.client.estimator().counts().missing, 0);
    let stop = world.client.stop();
    world.server.receive(world.now, CLIENT.into(), stop.as_ref());
    assert_eq!(world.server.clients(), 0);
}

#[test]
fn losses_both_ways_are_survived() {
    let loss = Loss::bernoulli(0.2);
    let mut world = World::new(link(4_000_000).with_loss(loss.clone()), link(1_000_000).with_loss(loss));
    world.run(Duration::from_secs(120), EVERY, 300_000).unwrap();
    let counts = *world.client.estimator().counts();
    assert!(counts.missing > 100 && counts.probes > 700, "{counts:?}");
    // The estimate covers arriving bytes only, so lost bytes are missing in it.
    let mean_bps = world.client.estimator().summary().mean_bps().unwrap();
    assert!((mean_bps / 3.2e6 - 1.0).abs() < 0.05, "{mean_bps}");
}

#[test]
fn a_server_that_has_forgotten_its_client_is_called_again() {
    // [estimate-11]
    let mut world = World::new(link(4_000_000), link(1_000_000));
    world.run(Duration::from_secs(20), EVERY, 300_000).unwrap();
    let before = world.periods.len();
    world.server = Server::new(ServerConfig::default(), [10; 32]);
    world.run(Duration::from_secs(20), EVERY, 300_000).unwrap();
    assert_eq!(world.forgotten, 1);
    assert!(world.periods.len() > before + 5);
    let mean_bps = world.client.estimator().summary().mean_bps().unwrap();
    assert!((mean_bps / 4e6 - 1.0).abs() < 1e-3, "{mean_bps}");
}

#[test]
fn a_measurement_goes_on_after_an_outage_longer_than_a_lease_and_shorter_than_a_cookie() {
    // [estimate-11]: the server restarts the session by a valid cookie, with numbers from 0.
    for dark_s in [3, 9, 11, 14, 20] {
        let mut world = World::new(link(4_000_000), link(1_000_000));
        world.run(Duration::from_secs(35), EVERY, 300_000).unwrap();
        let before = world.periods.len();
        for is_dark in [true, false] {
            let loss = Loss::bernoulli(if is_dark { 1.0 } else { 0.0 });
            world.down.set_loss(world.now, loss.clone()).unwrap();
            world.up.set_loss(world.now, loss).unwrap();
            world.run(Duration::from_secs(if is_dark { dark_s } else { 20 }), EVERY, 300_000).unwrap();
        }
        assert_eq!(world.forgotten, u32::from(dark_s > 10), "{dark_s} s");
        assert!(world.periods.len() > before + 5, "{dark_s} s: {} after {before}", world.periods.len());
        for period in &world.periods {
            assert!((period.rate_bps() / 4e6 - 1.0).abs() < 0.01, "{dark_s} s: {period:?}");
        }
    }
}

#[test]
fn a_round_trip_longer_than_the_first_wait_restarts_nothing() {
    let far = |rate_bps| link(rate_bps).with_delay(Duration::from_millis(900));
    let mut world = World::new(far(4_000_000), far(1_000_000));
    world.run(Duration::from_secs(30), EVERY, 300_000).unwrap();
    assert_eq!(world.forgotten, 0);
    assert!(world.periods.len() >= 10, "{}", world.periods.len());
}

#[test]
fn silence_is_told_before_the_first_answer_and_after_it() {
    let dark = || link(1_000_000).with_loss(Loss::bernoulli(1.0));
    let mut world = World::new(dark(), link(1_000_000));
    assert_eq!(world.run(Duration::from_secs(60), EVERY, 0), Err(ClientError::NoAnswer));
    assert!(world.now < Time::from_s(117));
    let mut world = World::new(link(4_000_000), link(1_000_000));
    world.run(Duration::from_secs(5), EVERY, 0).unwrap();
    world.down.set_loss(world.now, Loss::bernoulli(1.0)).unwrap();
    assert!(matches!(world.run(Duration::from_secs(60), EVERY, 0), Err(ClientError::Silent(_))));
    assert!(world.now < Time::from_s(136));
}

#[test]
fn a_counter_that_begins_anew_spoils_no_estimate() {
    let mut world = World::new(link(4_000_000), link(1_000_000));
    for _ in 0..20 {
        // The time lies within a busy period.
        world.run(Duration::from_millis(2_300), EVERY, 300_000).unwrap();
        world.counter_bytes = 0;
    }
    for period in &world.periods {
        assert!((period.rate_bps() / 4e6 - 1.0).abs() < 0.01, "{period:?}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let mut world = World::new(link(4_000_000), link(1_000_000));
    world.server = Server::new(ServerConfig { clients_max: 0, ..ServerConfig::default() }, [1; 32]);
    assert_eq!(world.run(Duration::from_secs(5), EVERY, 0), Err(ClientError::TooManyClients));
    let mut world = World::new(link(4_000_000), link(1_000_000));
    world.client = Client::new(world.now, Config::new(Duration::from_millis(5)), 77).unwrap();
    assert_eq!(world.run(Duration::from_secs(5), EVERY, 0), Err(ClientError::Interval));
}

#[test]
fn strangers_change_nothing() {
    // [estimate-3]: without the session, nothing can be forged.
    let mut world = World::new(link(4_000_000), link(1_000_000));
    world.run(Duration::from_secs(1), EVERY, 0).unwrap();
    let before = format!("{:?}", world.client);
    for session in [76_u64, 78, 0, u64::MAX] {
        for kind in 0..8_u8 {
            for length in [17, 32, 33, 48] {
                let mut bytes = [b"DFBE\x01", &[kind, 0, 0][..], &session.to_be_bytes()].concat();
                bytes.resize(length, 0);
                assert_eq!(world.client.receive(world.now, &bytes, world.counter_bytes), Ok(None));
            }
        }
    }
    assert_eq!(format!("{:?}", world.client), before);
}
