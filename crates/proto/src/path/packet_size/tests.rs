//! Tests of the state machine against a path with random loss in both directions and a limited packet size.

use std::collections::BTreeMap;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

const MAX: u16 = 1_496;
const RTT: Duration = Duration::from_millis(50);

/// One direction of a path with its peer, and a sender whose data constantly request reports.
struct World {
    now: Time,
    size: PacketSize,
    width: u16,
    loss: f64,
    random: ChaCha20Rng,
    number: u64,
    /// Answers on their way, by arrival time and datagram number.
    answers: BTreeMap<(Time, u64), bool>,
    probes: u32,
    largest_sent: u16,
}

impl World {
    fn new(seed: u64, width: u16, loss: f64) -> Self {
        let now = Time::from_s(1);
        Self {
            now,
            size: PacketSize::new(now, MAX),
            width,
            loss,
            random: ChaCha20Rng::seed_from_u64(seed),
            number: 0,
            answers: BTreeMap::new(),
            probes: 0,
            largest_sent: 0,
        }
    }

    fn passes(&mut self) -> bool {
        f64::from(self.random.next_u32()) / f64::from(u32::MAX) >= self.loss
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let loss = Some(1.0 - (1.0 - self.loss).powi(2));
            while let Some((&(at, number), &is_answered)) = self.answers.first_key_value()
                && at <= self.now
            {
                self.answers.pop_first();
                if is_answered {
                    self.size.on_answer(self.now, number as u32);
                }
                let view = PathView { settled: Some(number), loss, patience: RTT + Duration::from_millis(10) };
                self.size.on_report(self.now, view);
            }
            // Some datagrams of data, and a probe if one is due.
            self.size.on_full_sent(20_000);
            self.number += 1;
            let mut is_answered = false;
            if let Some(bytes) = self.size.next_probe(self.now, loss) {
                let pace = Pace { srtt: RTT, datagram_time: Duration::from_micros(500) };
                self.size.on_probe_sent(self.now, bytes, self.number, pace);
                is_answered = bytes <= self.width && self.passes() && self.passes();
                self.probes += 1;
                self.largest_sent = self.largest_sent.max(bytes);
            }
            self.answers.insert((self.now + RTT, self.number), is_answered);
            self.now += Duration::from_millis(1);
        }
    }
}

fn losses() -> impl Iterator<Item = f64> {
    [0.0, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5].into_iter()
}

#[test]
fn the_widest_size_is_found_at_any_loss_and_costs_few_probes_where_it_passes() {
    for loss in losses() {
        for seed in 0..60 {
            let mut world = World::new(seed, 1_500, loss);
            world.run(Duration::from_secs(2));
            assert_eq!(world.size.bytes(), MAX, "loss {loss}, seed {seed}");
            assert!(world.probes <= if loss == 0.0 { 5 } else { 64 }, "{} at {loss}", world.probes);
            assert!(!world.size.may_probe(), "nothing is left to be asked");
        }
    }
}

#[test]
fn a_narrow_path_is_measured_to_the_resolution() {
    for width in [1_280, 1_300, 1_400, 1_420, 1_450, 1_492] {
        for loss in losses() {
            for seed in 0..20 {
                let mut world = World::new(seed, width, loss);
                world.run(Duration::from_secs(10));
                let found = world.size.bytes();
                let exact = COMMON_BYTES.contains(&width) || width == 1_280;
                let least = if exact { width } else { width - RESOLUTION_BYTES };
                assert!((least..=width).contains(&found), "{found} of {width}, loss {loss}, seed {seed}");
            }
        }
    }
}

#[test]
fn without_loss_every_width_is_known_within_a_second() {
    for width in [1_280, 1_400, 1_420, 1_480, 1_492] {
        let mut world = World::new(1, width, 0.0);
        world.run(Duration::from_secs(1));
        assert_eq!(world.size.bytes(), width);
    }
}

/// Tests PMTU_RAISE_TIMER of RFC 8899 §5.1.1.
#[test]
fn a_path_which_becomes_wider_is_noticed_after_ten_minutes() {
    let mut world = World::new(1, 1_400, 0.1);
    world.run(Duration::from_secs(5));
    (world.width, world.largest_sent) = (1_500, 0);
    world.run(Duration::from_secs(580));
    assert_eq!((world.size.bytes(), world.largest_sent), (1_400, 0));
    world.run(Duration::from_secs(30));
    assert_eq!(world.size.bytes(), MAX);
}

#[test]
fn a_black_hole_is_told_from_random_loss() {
    for loss in losses() {
        for seed in 0..60 {
            for width in [1_500, 1_280] {
                let mut world = World::new(seed, 1_500, loss);
                world.run(Duration::from_secs(2));
                world.width = width;
                world.size.suspect(world.now);
                assert_eq!(world.size.bytes(), BASE_BYTES, "nothing is risked until it is known");
                world.run(Duration::from_secs(10));
                let expected = if width == 1_500 { (MAX, 0) } else { (BASE_BYTES, 1) };
                assert_eq!((world.size.bytes(), world.size.black_holes()), expected, "{loss} {seed}");
            }
        }
    }
}

#[test]
fn an_outage_of_everything_is_no_black_hole_and_costs_ever_fewer_probes() {
    let mut world = World::new(1, 1_500, 0.0);
    world.run(Duration::from_secs(2));
    (world.loss, world.probes) = (1.0, 0);
    world.size.suspect(world.now);
    world.run(Duration::from_secs(60));
    assert!(world.probes < 1_000, "{}", world.probes);
    world.loss = 0.0;
    world.run(Duration::from_secs(3));
    assert_eq!((world.size.bytes(), world.size.black_holes()), (MAX, 0));
}

/// With an unknown loss rate there is no verdict, however long probes are unanswered.
#[test]
fn without_knowledge_of_the_loss_no_size_fails() {
    let mut size = PacketSize::new(Time::ZERO, MAX);
    let pace = Pace { srtt: RTT, datagram_time: Duration::ZERO };
    for ms in 0..10_000 {
        let now = Time::from_ms(ms);
        size.on_full_sent(20_000);
        if let Some(bytes) = size.next_probe(now, None) {
            size.on_probe_sent(now, bytes, ms, pace);
        }
        size.on_report(now, PathView { settled: Some(ms), loss: None, patience: RTT });
    }
    assert!(matches!(&size.phase, Phase::Searching(MAX, Some(probes)) if probes.sent() == PROBES_BLIND));
}

/// Answers to unsent probes, and repeated answers, are ignored.
#[test]
fn invented_answers_change_nothing() {
    let mut size = PacketSize::new(Time::ZERO, MAX);
    let pace = Pace { srtt: RTT, datagram_time: Duration::ZERO };
    assert_eq!(size.next_probe(Time::ZERO, None), None, "there were no data that would need larger packets");
    size.on_full_sent(20_000);
    let bytes = size.next_probe(Time::ZERO, None).unwrap();
    size.on_probe_sent(Time::ZERO, bytes, 1_000, pace);
    (0..2_000).filter(|&echo| echo != 1_000).for_each(|echo| size.on_answer(Time::ZERO, echo));
    assert_eq!(size.bytes(), BASE_BYTES);
    size.on_answer(Time::ZERO, 1_000);
    assert_eq!(size.bytes(), MAX);
    size.on_answer(Time::ZERO, 1_000);
    assert_eq!(size.bytes(), MAX);
}

#[test]
fn a_size_below_the_base_is_not_asked_for() {
    for size in [PacketSize::new(Time::ZERO, 1_000), PacketSize::fixed(1_496)] {
        assert!(!size.may_probe() && !size.is_above_base());
    }
}

#[test]
fn another_path_is_measured_anew() {
    let mut world = World::new(1, 1_500, 0.0);
    world.run(Duration::from_secs(1));
    world.size = world.size.of_other_path(world.now);
    assert_eq!(world.size.bytes(), BASE_BYTES);
    world.run(Duration::from_secs(1));
    assert_eq!(world.size.bytes(), MAX);
}
