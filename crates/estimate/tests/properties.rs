//! Property tests: the estimator equals the published algorithm, and finds the rate of a queue.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_estimate::{BusyPeriod, Config, Estimator, Probe};
use dfcp_netem::{Link, LinkConfig, QueueLimit};
use dfcp_time::{Time, duration_ns};
use proptest::prelude::*;

/// Arrival at the receiver.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    Traffic { at_ns: u64, bytes: u64 },
    Probe { at_ns: u64, number: u64, bytes: u32 },
}

fn estimated(config: Config, arrivals: &[Arrival]) -> (Estimator, Vec<BusyPeriod>) {
    let mut estimator = Estimator::new(config).unwrap();
    let mut periods = Vec::new();
    for &arrival in arrivals {
        match arrival {
            Arrival::Traffic { at_ns, bytes } => estimator.traffic(Time::from_ns(at_ns), bytes).unwrap(),
            Arrival::Probe { at_ns, number, bytes } => {
                let probe = Probe { number, sent: None, at: Time::from_ns(at_ns), size_bytes: bytes };
                periods.extend(estimator.probe(probe).unwrap());
            }
        }
    }
    (estimator, periods)
}

/// Reference algorithm over a whole trace, line by line, with arrays and indices. Restarts are omitted: `restart_after` must exceed the
/// trace.
fn reference(config: Config, arrivals: &[Arrival]) -> Vec<BusyPeriod> {
    let ns = |duration| i128::from(duration_ns(duration));
    let (d, th, gap, tolerance) = (ns(config.interval), ns(config.threshold), ns(config.gap), ns(config.tolerance));
    // Trace index, time and number of every test packet that is not late.
    let mut probes: Vec<(usize, u64, u64)> = Vec::new();
    for (index, arrival) in arrivals.iter().enumerate() {
        if let Arrival::Probe { at_ns, number, .. } = *arrival
            && probes.last().is_none_or(|&(_, _, last)| number > last)
        {
            probes.push((index, at_ns, number));
        }
    }
    let bytes_between = |first: usize, last: usize| -> u64 {
        let of = |arrival: &Arrival| match *arrival {
            Arrival::Traffic { bytes, .. } => bytes,
            Arrival::Probe { bytes, .. } => u64::from(bytes),
        };
        arrivals[first + 1..=last].iter().map(of).sum()
    };
    let (mut m, mut b, mut s, mut q) = (false, false, 0, 0_i128);
    let mut periods = Vec::new();
    for i in 0..probes.len().saturating_sub(1) {
        let spacing = i128::from(probes[i + 1].1) - i128::from(probes[i].1);
        let sent = d * i128::from(probes[i + 1].2 - probes[i].2);
        if !m {
            if (spacing - sent).abs() <= tolerance {
                (q, m) = (0, true);
            }
        } else if spacing > gap {
            (m, b) = (false, false);
        } else {
            q = (spacing - sent + q).max(0);
            if q >= th && !b {
                (s, b) = (i + 1, true);
            } else if q < th && b {
                if i > s && probes[i].1 > probes[s].1 {
                    periods.push(BusyPeriod {
                        start: Time::from_ns(probes[s].1),
                        end: Time::from_ns(probes[i].1),
                        bytes: bytes_between(probes[s].0, probes[i].0),
                        is_cut: false,
                    });
                }
                b = false;
            }
        }
    }
    periods
}

/// Arbitrary arrivals, many with spacings as sent.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let spacing_us =
        prop_oneof![4 => Just(100_000_u64), 2 => 95_000..105_000_u64, 2 => 0..60_000_u64, 1 => 0..700_000_u64];
    let step = (spacing_us, any::<bool>(), prop_oneof![8 => Just(1_i64), 1 => -2..5_i64], 0..100_000_u64);
    prop::collection::vec(step, 0..120).prop_map(|steps| {
        let (mut at_ns, mut next) = (0, 10_i64);
        let arrival = |(spacing_us, is_traffic, number_step, bytes)| {
            at_ns += spacing_us * if is_traffic { 0 } else { 1_000 };
            if is_traffic {
                return Arrival::Traffic { at_ns, bytes };
            }
            next += number_step;
            Arrival::Probe { at_ns, number: next.max(0) as u64, bytes: (bytes % 1_500) as u32 }
        };
        steps.into_iter().map(arrival).collect()
    })
}

/// Sends bursts, and a test packet of 60 bytes every `d`, through a queue of `rate_bps`; returns its output.
fn queued(rate_bps: u64, bursts: &[(u64, usize)], interval: Duration, probes: u64) -> Vec<Arrival> {
    let config = LinkConfig::default().with_rate_bps(rate_bps).with_queue(QueueLimit::packets(1_000_000));
    let mut link = Link::new(config, 1).unwrap();
    let mut sent: Vec<(Time, Vec<u8>)> = Vec::new();
    for number in 0..probes {
        let mut probe = vec![0; 60];
        probe[..9].copy_from_slice(&[&[1][..], &number.to_be_bytes()].concat());
        sent.push((Time::ZERO + interval * (number as u32 + 1), probe));
    }
    for &(at_us, bytes) in bursts {
        for start in (0..bytes).step_by(1_500) {
            sent.push((Time::from_us(at_us), vec![0; (bytes - start).min(1_500)]));
        }
    }
    sent.sort_by_key(|(at, _)| *at);
    let mut arrivals = Vec::new();
    let mut take = |link: &mut Link<Vec<u8>>, until: Time| {
        while let Some(next) = link.next_time().filter(|&next| next <= until) {
            let Some(packet) = link.pop(next) else { continue };
            let at_ns = next.as_ns();
            arrivals.push(match packet[0] {
                1 if packet.len() == 60 => {
                    let number = packet[1..9].iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
                    Arrival::Probe { at_ns, number, bytes: 60 }
                }
                _ => Arrival::Traffic { at_ns, bytes: packet.len() as u64 },
            });
        }
    };
    for (at, packet) in sent {
        take(&mut link, at);
        link.push(at, packet);
    }
    take(&mut link, Time::MAX);
    arrivals
}

fn bursts() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((0..20_000_000_u64, 100..400_000_usize), 0..60)
}

proptest! {
    #[test]
    fn the_estimator_is_the_algorithm(
        arrivals in arrivals(),
        (threshold_ms, gap_ms, tolerance_us) in (1..300_u64, 106..800_u64, 0..6_000_u64),
    ) {
        let config = Config::default()
            .with_threshold(Duration::from_millis(threshold_ms))
            .with_gap(Duration::from_millis(gap_ms))
            .with_tolerance(Duration::from_micros(tolerance_us));
        // At most 120 steps of 0.7 s: longer than some models, whose restarts the reference lacks.
        let end_ns = arrivals.last().map_or(0, |arrival| match *arrival {
            Arrival::Traffic { at_ns, .. } | Arrival::Probe { at_ns, .. } => at_ns,
        });
        let config = Config { restart_after: Duration::from_secs(60), ..config };
        prop_assume!(end_ns < 60_000_000_000);
        let (estimator, periods) = estimated(config, &arrivals);
        let expected = reference(config, &arrivals);
        prop_assert_eq!(&periods, &expected);
        let rates: Vec<f64> = expected.iter().map(BusyPeriod::rate_bps).collect();
        let mean_bps = rates.iter().sum::<f64>() / rates.len() as f64;
        match estimator.summary().mean_bps() {
            Some(estimate_bps) => prop_assert!((estimate_bps - mean_bps).abs() <= 1e-9 * mean_bps),
            None => prop_assert!(rates.is_empty()),
        }
    }

    /// With `th` ≥ `d`, a busy period contains no idle instant: each one gives the rate to the nanosecond.
    #[test]
    fn a_threshold_of_one_interval_finds_the_rate_of_the_queue(
        rate_bps in 500_000..50_000_000_u64, bursts in bursts(), interval_ms in 20..200_u64,
    ) {
        let interval = Duration::from_millis(interval_ms);
        let arrivals = queued(rate_bps, &bursts, interval, 25_000 / interval_ms);
        // The trace has no holes, so `gap` is too long to matter.
        let config = Config::new(interval).with_threshold(interval).with_gap(Duration::from_secs(60));
        let (_, periods) = estimated(config, &arrivals);
        for period in periods {
            // Arrivals are whole nanoseconds.
            let error = (period.rate_bps() / rate_bps as f64 - 1.0).abs();
            prop_assert!(error <= 2.0 / period.duration().as_nanos() as f64 + 1e-12, "{period:?}: {error}");
        }
    }

    /// With a lower threshold, the estimate errs only downwards.
    #[test]
    fn a_lower_threshold_never_finds_too_much(
        rate_bps in 500_000..50_000_000_u64, bursts in bursts(), threshold_ms in 1..100_u64,
    ) {
        let arrivals = queued(rate_bps, &bursts, Duration::from_millis(100), 250);
        let config = Config::default()
            .with_threshold(Duration::from_millis(threshold_ms))
            .with_gap(Duration::from_secs(60));
        let (_, periods) = estimated(config, &arrivals);
        for period in periods {
            let rounding = 2.0 / period.duration().as_nanos() as f64 + 1e-12;
            prop_assert!(period.rate_bps() <= rate_bps as f64 * (1.0 + rounding), "{period:?}");
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        config in (0..u64::MAX, 0..u64::MAX, 0..u64::MAX, 0..u64::MAX),
        steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<Option<u64>>(), any::<u32>(), any::<u64>()), 0..60),
    ) {
        let (interval, threshold, gap, tolerance) = config;
        let config = Config::new(Duration::from_nanos(interval))
            .with_threshold(Duration::from_nanos(threshold))
            .with_gap(Duration::from_nanos(gap))
            .with_tolerance(Duration::from_nanos(tolerance));
        let mut estimators = vec![Estimator::new(Config::default()).unwrap()];
        estimators.extend(Estimator::new(config));
        for mut estimator in estimators {
            for &(at, number, sent, size_bytes, bytes) in &steps {
                let (at, sent) = (Time::from_ns(at), sent.map(Time::from_ns));
                let _ = estimator.traffic(at, bytes);
                let _ = estimator.probe(Probe { number, sent, at, size_bytes });
            }
            let summary = estimator.summary();
            prop_assert!(summary.mean_bps().is_none_or(|rate_bps| rate_bps >= 0.0));
        }
    }
}

#[test]
fn web_traffic_over_a_mobile_link_is_told_within_a_per_cent() {
    // Objects of 150 kB, every 400 ms for 5 s and then none for 5 s, at 2.5 Mbit/s: a load of 3/5.
    let bursts: Vec<(u64, usize)> =
        (0..150).map(|burst| (burst * 400_000, 150_000)).filter(|(at_us, _)| at_us / 5_000_000 % 2 == 0).collect();
    let arrivals = queued(2_500_000, &bursts, Duration::from_millis(100), 700);
    let (estimator, periods) = estimated(Config::default(), &arrivals);
    assert!(periods.len() >= 5, "{periods:?}");
    let mean_bps = estimator.summary().mean_bps().unwrap();
    assert!((mean_bps / 2.5e6 - 1.0).abs() < 0.01, "{mean_bps}");
    let interval = estimator.summary().confidence_95().unwrap();
    assert!(interval.low_bps <= mean_bps && mean_bps <= interval.high_bps);
}
