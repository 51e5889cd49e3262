//! Tests of the breaker against a path model: rate limit, finite FIFO queue, random loss, and delay.

use std::collections::VecDeque;

use super::*;

const DATAGRAM_BITS: u64 = 11_808;
const STEP: Duration = Duration::from_millis(5);
const START: Snapshot = Snapshot {
    at: Time::ZERO,
    numbered: 0,
    settled: 0,
    arrived: 0,
    arrived_bits: 0,
    sent_bits: 0,
    is_credit_short: false,
};

/// A path of rate `capacity_bps` with a queue of 0.5 s. A share `loss` of the datagrams is lost at random, after the
/// queue or before it. The sender learns of arrivals `rtt` later.
struct Model {
    configured_bps: u64,
    capacity_bps: f64,
    loss: f64,
    loses_first: bool,
    rtt: Duration,
    /// Fraction of the allowed rate that the application uses.
    offered: fn(Time) -> f64,
    breaker: Breaker,
    now: Snapshot,
    /// Counters in reports on their way, by arrival time of the report.
    known: VecDeque<(Time, Snapshot)>,
    /// Counters that include datagrams in flight.
    ahead: Snapshot,
    unsent_bits: f64,
    queue_bits: f64,
    random: u64,
    allowed_sum: f64,
    steps: u64,
}

impl Model {
    fn new(seed: u64, configured_bps: u64, capacity_bps: f64, loss: f64, rtt_ms: u64) -> Self {
        Self {
            configured_bps,
            capacity_bps,
            loss,
            loses_first: false,
            rtt: Duration::from_millis(rtt_ms),
            offered: |_| 1.0,
            breaker: Breaker::new(),
            now: START,
            known: VecDeque::new(),
            ahead: START,
            unsent_bits: 0.0,
            queue_bits: 0.0,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            allowed_sum: 0.0,
            steps: 0,
        }
    }

    /// Draws a random loss (xorshift64*).
    fn is_lost(&mut self) -> bool {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let unit = (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64;
        unit < self.loss
    }

    fn step(&mut self) {
        let allowed = self.breaker.allowed_bps(self.configured_bps) as f64;
        self.allowed_sum += allowed;
        self.steps += 1;
        let seconds = STEP.as_secs_f64();
        self.now.at += STEP;
        self.unsent_bits += allowed * (self.offered)(self.now.at) * seconds;
        let datagrams = (self.unsent_bits / DATAGRAM_BITS as f64) as u64;
        self.unsent_bits -= (datagrams * DATAGRAM_BITS) as f64;
        self.queue_bits = (self.queue_bits - self.capacity_bps * seconds).max(0.0);
        let queue_max = (self.capacity_bps * 0.5).max(20.0 * DATAGRAM_BITS as f64);
        for _ in 0..datagrams {
            self.now.numbered += 1;
            self.now.sent_bits += DATAGRAM_BITS;
            self.ahead.settled += 1;
            let is_lost = self.is_lost();
            if is_lost && self.loses_first {
                continue;
            }
            if self.queue_bits + DATAGRAM_BITS as f64 > queue_max {
                continue;
            }
            self.queue_bits += DATAGRAM_BITS as f64;
            if !is_lost {
                self.ahead.arrived += 1;
                self.ahead.arrived_bits += DATAGRAM_BITS;
            }
            let delay = Duration::from_secs_f64(self.queue_bits / self.capacity_bps);
            self.known.push_back((self.now.at + delay + self.rtt, self.ahead));
        }
        let mut heard = false;
        while let Some(&(at, known)) = self.known.front()
            && at <= self.now.at
        {
            self.known.pop_front();
            let Snapshot { settled, arrived, arrived_bits, .. } = known;
            self.now = Snapshot { settled, arrived, arrived_bits, ..self.now };
            heard = true;
        }
        if heard {
            let srtt = self.rtt + Duration::from_secs_f64(self.queue_bits / self.capacity_bps);
            self.breaker.observe(self.now, srtt, self.configured_bps);
        }
    }

    /// Simulates this many seconds. Returns the mean allowed and the mean delivered rate, bit/s.
    fn run(&mut self, seconds: u64) -> (f64, f64) {
        let before = self.now.arrived_bits;
        (self.allowed_sum, self.steps) = (0.0, 0);
        for _ in 0..seconds * 200 {
            self.step();
        }
        (self.allowed_sum / self.steps as f64, (self.now.arrived_bits - before) as f64 / seconds as f64)
    }

    fn allowed(&self) -> f64 {
        self.breaker.allowed_bps(self.configured_bps) as f64
    }
}

const LOSSES: [f64; 9] = [0.0, 0.01, 0.03, 0.06, 0.10, 0.14, 0.20, 0.40, 0.60];

/// Returns the mean allowed and delivered rate over 30 s after `settle_s`, relative to the best possible ones.
fn settled(model: &mut Model, settle_s: u64) -> (f64, f64) {
    model.run(settle_s);
    let (allowed, delivered) = model.run(30);
    let takes = model.capacity_bps / if model.loses_first { 1.0 - model.loss } else { 1.0 };
    (allowed / takes, delivered / takes / (1.0 - model.loss))
}

#[test]
fn a_full_path_is_followed_whatever_it_loses_by_itself() {
    for (rtt_ms, settle_s) in [(20, 30), (350, 30), (1_000, 60)] {
        for over in [1.2, 2.0, 10.0, 100.0] {
            for (seed, loss) in LOSSES.into_iter().enumerate() {
                for loses_first in [false, true] {
                    // Loss before the queue relieves it, so that the path is less full.
                    if loses_first && over * (1.0 - loss) < 1.3 {
                        continue;
                    }
                    let mut model = Model::new(seed as u64 + 1, (10e6 * over) as u64, 10e6, loss, rtt_ms);
                    model.loses_first = loses_first;
                    let (allowed, delivered) = settled(&mut model, settle_s);
                    assert!(
                        (0.9..1.35).contains(&allowed) && delivered > 0.9,
                        "{rtt_ms} ms, {over} times too fast, loss {loss} (first: {loses_first}), seed {}: \
                         allowed {allowed:.3}, delivered {delivered:.3}",
                        seed + 1
                    );
                }
            }
        }
    }
}

/// Half of the credit is used up a second or two after the path has shrunk. Most of the known fates are then from
/// before.
#[test]
fn a_path_which_has_just_shrunk_is_found_full_though_the_credit_leaves_no_three_seconds() {
    for rtt_ms in [20, 100, 200] {
        for shrinks_after_steps in (1_000..1_100).step_by(7) {
            let mut model = Model::new(3, 80_000_000, 100e6, 0.0, rtt_ms);
            (0..shrinks_after_steps).for_each(|_| model.step());
            model.capacity_bps = 3e6;
            model.now.is_credit_short = true;
            model.run(4);
            let (allowed, after) = (model.allowed(), STEP * shrinks_after_steps);
            assert!(allowed < 15e6, "RTT {rtt_ms} ms, shrinks after {after:?}: {allowed} bit/s are allowed");
        }
    }
}

#[test]
fn a_path_which_loses_by_itself_is_not_taxed_when_the_credit_is_short() {
    for loss in [0.3, 0.5, 0.6] {
        let mut model = Model::new(4, 20_000_000, 100e6, loss, 50);
        model.now.is_credit_short = true;
        model.run(10);
        assert_eq!((model.allowed(), model.breaker.tests()), (20e6, 1), "loss {loss}");
    }
}

#[test]
fn a_slow_full_path_is_followed() {
    for (seed, loss) in [0.0, 0.10, 0.30].into_iter().enumerate() {
        let mut model = Model::new(seed as u64 + 1, 20_000_000, 500e3, loss, 100);
        let (allowed, delivered) = settled(&mut model, 60);
        assert!((0.9..1.35).contains(&allowed) && delivered > 0.85, "loss {loss}: {allowed}, {delivered}");
    }
}

#[test]
fn what_a_full_path_carries_can_be_told_and_of_others_nothing_is() {
    for (seed, loss) in [0.0, 0.10, 0.30].into_iter().enumerate() {
        let mut model = Model::new(seed as u64 + 1, 100_000_000, 5e6, loss, 50);
        assert_eq!(model.breaker.carried_bps(100_000_000), None);
        settled(&mut model, 60);
        let takes = model.capacity_bps / if model.loses_first { 1.0 - loss } else { 1.0 };
        let share = model.breaker.carried_bps(100_000_000).unwrap() as f64 / takes;
        assert!((0.85..1.15).contains(&share), "loss {loss}: {share}");
        let mut lossy = Model::new(seed as u64 + 1, 4_000_000, 5e6, loss, 50);
        lossy.run(60);
        assert_eq!(lossy.breaker.carried_bps(4_000_000), None, "loss {loss}");
    }
}

#[test]
fn capacity_which_grows_or_shrinks_is_noticed() {
    let mut model = Model::new(1, 400_000_000, 10e6, 0.1, 20);
    model.run(20);
    model.capacity_bps = 40e6;
    let (allowed, delivered) = settled(&mut model, 15);
    assert!((0.9..1.35).contains(&allowed) && delivered > 0.9, "{allowed}, {delivered}");
    model.capacity_bps = 5e6;
    let (allowed, delivered) = settled(&mut model, 15);
    assert!((0.9..1.35).contains(&allowed) && delivered > 0.9, "{allowed}, {delivered}");
}

#[test]
fn own_loss_which_rises_or_falls_is_measured_anew() {
    let mut model = Model::new(1, 100_000_000, 10e6, 0.0, 50);
    model.run(20);
    for loss in [0.4, 0.05, 0.2, 0.0] {
        model.loss = loss;
        // A decrease of own loss goes unnoticed until the next measurement.
        let (allowed, delivered) = settled(&mut model, 45);
        assert!((0.9..1.35).contains(&allowed) && delivered > 0.9, "{loss}: {allowed}, {delivered}");
    }
}

#[test]
fn a_path_which_shrinks_during_a_measurement_is_not_taken_for_a_lossy_one() {
    let measures = |model: &Model| matches!(&model.breaker.state, State::Trying(it) if it.ended.is_none() && matches!(it.purpose, Purpose::Measure { .. }));
    for seed in 1..6 {
        let mut model = Model::new(seed, 100_000_000, 20e6, 0.1, 50);
        model.run(20);
        while !measures(&model) {
            model.step();
        }
        model.capacity_bps = 4e6;
        let (allowed, delivered) = settled(&mut model, 10);
        assert!((0.9..1.35).contains(&allowed) && delivered > 0.9, "seed {seed}: {allowed}, {delivered}");
    }
}

#[test]
fn an_outage_is_recovered_from() {
    let mut model = Model::new(1, 100_000_000, 10e6, 0.05, 50);
    model.run(20);
    model.loss = 0.999;
    model.run(20);
    model.loss = 0.05;
    let (allowed, delivered) = settled(&mut model, 60);
    assert!((0.9..1.35).contains(&allowed) && delivered > 0.9, "{allowed}, {delivered}");
}

#[test]
fn a_limit_is_lifted_when_the_path_has_grown_to_the_rate() {
    for (loss, tests) in [(0.0, 1), (0.5, 1)] {
        let mut model = Model::new(1, 50_000_000, 10e6, loss, 50);
        model.run(20);
        assert!(model.breaker.is_limiting());
        model.capacity_bps = 200e6;
        while model.allowed() < 50e6 || matches!(model.breaker.state, State::Trying(_)) {
            assert!(model.now.at < Time::from_s(80), "loss {loss}");
            model.step();
        }
        assert!(model.breaker.is_limiting());
        assert_eq!(model.breaker.carried_bps(50_000_000), None, "loss {loss}: it carries what is sent");
        model.run(60);
        assert!(!model.breaker.is_limiting(), "loss {loss}");
        model.run(60);
        assert_eq!((model.breaker.tests(), model.allowed()), (tests, 50e6), "loss {loss}");
    }
}

#[test]
fn a_limit_survives_silence_of_the_application() {
    let mut model = Model::new(1, 20_000_000, 500e3, 0.0, 20);
    model.run(40);
    let limit = model.allowed();
    assert!(limit < 700e3, "{limit}");
    model.offered = |_| 0.02;
    model.run(300);
    assert!(model.allowed() < 700e3, "{}", model.allowed());
    model.offered = |_| 1.0;
    let (allowed, _) = settled(&mut model, 0);
    assert!((0.9..1.35).contains(&allowed), "{allowed}");
}

#[test]
fn an_application_which_pauses_during_the_test_does_not_mislead_it() {
    let mut model = Model::new(1, 100_000_000, 10e6, 0.0, 20);
    // The test runs for a second from about 3.3 s on. For most of it there is little to send.
    model.offered = |at| if (3.2..4.5).contains(&at.as_secs_f64()) { 0.1 } else { 1.0 };
    model.run(4);
    let (allowed, delivered) = settled(&mut model, 15);
    assert!((0.9..1.35).contains(&allowed) && delivered > 0.9, "{allowed}, {delivered}");
}

#[test]
fn the_first_limit_is_what_was_delivered() {
    for rtt_ms in [20, 1_000] {
        let mut model = Model::new(1, 100_000_000, 10e6, 0.0, rtt_ms);
        while !matches!(&model.breaker.state, State::Trying(it) if matches!(it.purpose, Purpose::Measure { .. })) {
            model.step();
        }
        for _ in 0..4_000 {
            model.step();
            assert!(model.allowed() < 14e6, "{}", model.allowed());
        }
        assert_eq!(model.breaker.tests(), 1);
    }
}

#[test]
fn a_lossy_path_is_tested_once_and_then_left_alone() {
    for (seed, configured_bps) in [(1, 50_000_000), (2, 10_000_000), (3, 400_000)] {
        let mut model = Model::new(seed, configured_bps, 1e9, 0.5, 20);
        model.run(30);
        assert_eq!((model.breaker.tests(), model.allowed()), (1, configured_bps as f64), "seed {seed}");
        model.run(85);
        assert_eq!(model.breaker.tests(), 1, "seed {seed}");
        model.run(1_200);
        let tests = model.breaker.tests();
        assert!((2..=4).contains(&tests), "the pauses double: {tests}, seed {seed}");
    }
}

#[test]
fn a_loss_which_only_seems_to_exceed_the_threshold_does_not_trip() {
    for seed in 1..6 {
        let mut model = Model::new(seed, 10_000_000, 1e9, 0.19, 20);
        model.run(600);
        assert_eq!(model.breaker.tests(), 0, "seed {seed}");
    }
}

#[test]
fn little_loss_never_trips() {
    let mut model = Model::new(1, 20_000_000, 1e9, 0.15, 20);
    model.run(60);
    assert_eq!(model.breaker.tests(), 0);
    assert!(!model.breaker.is_limiting());
}
