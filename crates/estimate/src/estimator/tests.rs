use super::*;

const INTERVAL_MS: u64 = 100;

/// Configuration with a threshold of one interval, at which results are exact.
fn config() -> Config {
    Config::default().with_threshold(Duration::from_millis(INTERVAL_MS))
}

fn estimator() -> Estimator {
    Estimator::new(config()).unwrap()
}

/// Emulates a link of one byte per microsecond: `joins` are times in ms with bytes, `probes` the numbers that are not lost, sent every 100
/// ms from 100 ms on. Returns the busy periods.
fn served(estimator: &mut Estimator, joins: &[(u64, u64)], probes: impl IntoIterator<Item = u64>) -> Vec<BusyPeriod> {
    let mut joins = joins.iter().peekable();
    let (mut free_us, mut periods) = (0, Vec::new());
    for number in probes {
        let sent_us = (number + 1) * INTERVAL_MS * 1_000;
        while let Some(&(at_ms, bytes)) = joins.next_if(|(at_ms, _)| at_ms * 1_000 < sent_us) {
            free_us = free_us.max(at_ms * 1_000) + bytes;
            estimator.traffic(Time::from_us(free_us), bytes).unwrap();
        }
        let at = Time::from_us(free_us.max(sent_us));
        periods.extend(estimator.probe(Probe { number, sent: None, at, size_bytes: 0 }).unwrap());
    }
    periods
}

/// Waits of 250, 250, 250, 150 and 50 ms for the numbers 2 to 6.
const BURSTS: [(u64, u64); 3] = [(250, 300_000), (350, 100_000), (450, 100_000)];

#[test]
fn a_busy_period_goes_from_the_first_to_the_last_probe_at_the_threshold() {
    let mut estimator = estimator();
    let periods = served(&mut estimator, &BURSTS, 0..9);
    let expected = BusyPeriod { start: Time::from_ms(550), end: Time::from_ms(750), bytes: 200_000, is_cut: false };
    assert_eq!(periods, [expected]);
    assert_eq!(estimator.summary().mean_bps(), Some(8e6));
    let longest_queue = Duration::from_millis(250);
    assert_eq!(*estimator.counts(), Counts { probes: 9, models: 1, longest_queue, ..Counts::default() });
    assert_eq!(estimator.bytes(), 500_000);
}

#[test]
fn the_threshold_itself_counts_as_busy() {
    // Waits of exactly 150 ms, the last one at 750 ms; a threshold one nanosecond higher ends the period at the same arrival, since three
    // test packets arrive together.
    let at = |threshold| {
        let mut estimator = Estimator::new(config().with_threshold(threshold)).unwrap();
        served(&mut estimator, &[(250, 200_000), (350, 100_000)], 0..9).len()
    };
    assert_eq!(at(Duration::from_millis(150)), 1);
    assert_eq!(at(Duration::from_millis(150) + Duration::from_nanos(1)), 0);
}

#[test]
fn lost_test_packets_are_no_queue() {
    // No traffic, and three of four test packets lost: spacings of 400 ms, equal to those sent.
    let mut estimator = estimator();
    let periods = served(&mut estimator, &[], (0..100).filter(|number| number % 4 == 0));
    assert_eq!((periods.len(), estimator.queue()), (0, Some(Duration::ZERO)));
    assert_eq!(*estimator.counts(), Counts { probes: 25, missing: 72, models: 1, ..Counts::default() });
    // Number 3 is lost within a busy period, which keeps its ends and bytes.
    let mut other = Estimator::new(config()).unwrap();
    let whole = served(&mut other, &BURSTS, 0..9);
    let mut third = Estimator::new(config()).unwrap();
    assert_eq!(served(&mut third, &BURSTS, (0..9).filter(|&number| number != 3)), whole);
}

#[test]
fn without_numbers_a_lost_test_packet_ends_the_model() {
    // Arrivals of the test above, counted without numbers: three lost in a row, and one within the busy period.
    for lost in [3, 12] {
        let mut estimator = Estimator::new(
            Config::unnumbered(Duration::from_millis(INTERVAL_MS)).with_threshold(Duration::from_millis(100)),
        )
        .unwrap();
        let arrivals = (0..20_u64).filter(|&sent| sent != lost).enumerate();
        for (number, sent) in arrivals {
            let at = Time::from_ms((sent + 1) * INTERVAL_MS);
            assert_eq!(estimator.probe(Probe { number: number as u64, sent: None, at, size_bytes: 60 }), Ok(None));
        }
        assert_eq!((estimator.counts().gaps, estimator.counts().models), (1, 2), "{lost}");
    }
}

#[test]
fn a_gap_throws_an_open_busy_period_away() {
    let mut estimator = estimator();
    // Numbers 4 to 14 are lost. The spacing from 650 to 1600 ms is within the gap of 1 s, one up to 1700 ms is not.
    let periods = served(&mut estimator, &BURSTS, (0..40).filter(|number| !(4..=14).contains(number)));
    assert_eq!((periods.len(), estimator.counts().gaps), (1, 0));
    let mut estimator = Estimator::new(config()).unwrap();
    let periods = served(&mut estimator, &BURSTS, (0..40).filter(|number| !(4..=15).contains(number)));
    assert_eq!((periods.len(), estimator.counts().gaps, estimator.counts().models), (0, 1, 2));
}

#[test]
fn early_test_packets_leave_no_negative_queue() {
    // The first model starts 200 ms too low, since the queue has constant length; then it empties, and the next burst is seen in full.
    let mut estimator = estimator();
    let mut number = 0;
    let mut arrive = |estimator: &mut Estimator, wait_ms: u64, bytes: u64| {
        let at = Time::from_ms((number + 1) * INTERVAL_MS + wait_ms);
        number += 1;
        estimator.traffic(at, bytes).unwrap();
        estimator.probe(Probe { number, sent: None, at, size_bytes: 0 }).unwrap()
    };
    for wait_ms in [200, 200, 200, 100, 0, 0] {
        assert_eq!(arrive(&mut estimator, wait_ms, 100_000), None);
    }
    assert_eq!(estimator.queue(), Some(Duration::ZERO));
    for wait_ms in [150, 150] {
        assert_eq!(arrive(&mut estimator, wait_ms, 100_000), None);
    }
    let period = arrive(&mut estimator, 50, 0).unwrap();
    assert_eq!((period.duration(), period.bytes), (Duration::from_millis(100), 100_000));
}

#[test]
fn one_test_packet_is_no_busy_period() {
    let mut estimator = estimator();
    assert_eq!(served(&mut estimator, &[(250, 150_000)], 0..9), []);
    assert_eq!(estimator.counts().single, 1);
    assert_eq!(estimator.summary().mean_bps(), None);
}

#[test]
fn a_busy_period_that_is_open_at_the_end_does_not_count() {
    let mut estimator = estimator();
    assert_eq!(served(&mut estimator, &BURSTS, 0..6), []);
    assert_eq!(estimator.queue(), Some(Duration::from_millis(150)));
    assert_eq!(estimator.summary().busy_periods(), 0);
}

#[test]
fn jitter_within_the_tolerance_begins_a_model_and_more_does_not() {
    for (jitter_us, models) in [(3_000, 1), (3_001, 0)] {
        let mut estimator = estimator();
        for number in 0..20 {
            let at = Time::from_us((number + 1) * 100_000 + (number % 2) * jitter_us);
            estimator.probe(Probe { number, sent: None, at, size_bytes: 60 }).unwrap();
        }
        assert_eq!(estimator.counts().models, models, "{jitter_us} µs");
    }
}

/// Receiver with a clock faster by `ppm`, for an hour without traffic. Returns the numbers of busy periods and models.
fn drifting(config: Config, ppm: u64) -> (u64, u64) {
    let mut estimator = Estimator::new(config).unwrap();
    for number in 0..36_000 {
        let at = Time::from_us((number + 1) * 100_000 + (number + 1) * ppm / 10);
        estimator.probe(Probe { number, sent: None, at, size_bytes: 60 }).unwrap();
    }
    (estimator.summary().busy_periods() + estimator.counts().single, estimator.counts().models)
}

#[test]
fn drift_is_no_queue() {
    let with = |threshold_ms| config().with_threshold(Duration::from_millis(threshold_ms));
    for threshold_ms in [5, 20, 100] {
        let (busy, models) = drifting(with(threshold_ms), crate::limits::DRIFT_PPM_MAX);
        assert!(busy == 0 && models > 30, "{threshold_ms} ms: {busy} busy periods of {models} models");
    }
    // Without restarts, drift looks like busy periods.
    let never = Config { restart_after: Duration::from_secs(60), ..with(5) };
    assert!(drifting(never, crate::limits::DRIFT_PPM_MAX).0 > 0);
}

#[test]
fn a_busy_period_longer_than_a_model_holds_is_cut_and_counts() {
    let mut estimator = estimator();
    // 30 kB every 30 ms for 400 s from 250 ms on, after a burst of 300 kB: the queue length is constant.
    let mut joins = vec![(250, 300_000)];
    joins.extend((1..13_333).map(|join| (250 + join * 30, 30_000)));
    let periods = served(&mut estimator, &joins, 0..4_000);
    assert_eq!(periods.len(), 1, "{periods:?}");
    assert!(periods[0].is_cut && periods[0].duration() >= Duration::from_secs(60));
    assert!((periods[0].rate_bps() / 8e6 - 1.0).abs() < 0.001, "{}", periods[0].rate_bps());
}

#[test]
fn the_senders_times_replace_the_interval() {
    // A sender that pauses for 80 ms now and then causes no queue.
    let mut estimator = estimator();
    for number in 0..50 {
        let sent = Time::from_ms(7 + number * 100 + number / 10 * 80);
        let at = sent + Duration::from_secs(3);
        assert_eq!(estimator.probe(Probe { number, sent: Some(sent), at, size_bytes: 60 }), Ok(None));
        assert!(estimator.queue().is_none_or(|queue| queue.is_zero()));
    }
    assert_eq!(estimator.counts().models, 1);
}

#[test]
fn late_and_repeated_test_packets_have_no_effect_but_their_bytes() {
    let mut estimator = estimator();
    let mut probe = |number, at_ms| {
        estimator.probe(Probe { number, sent: None, at: Time::from_ms(at_ms), size_bytes: 60 }).unwrap();
        *estimator.counts()
    };
    probe(5, 100);
    probe(6, 200);
    assert_eq!((probe(6, 201).late, probe(1, 202).late), (1, 2));
    let counts = probe(8, 400);
    assert_eq!((counts.probes, counts.missing, counts.late), (3, 1, 2));
    assert_eq!(estimator.bytes(), 300);
}

#[test]
fn time_may_go_back_a_little() {
    let mut estimator = estimator();
    estimator.traffic(Time::from_ms(1_000), 1).unwrap();
    estimator.traffic(Time::from_ms(990), 1).unwrap();
    let error = estimator.traffic(Time::from_ms(989), 1).unwrap_err();
    assert_eq!(error, TimeError { at: Time::from_ms(989), latest: Time::from_ms(1_000) });
    assert_eq!((estimator.bytes(), estimator.counts().backwards), (2, 1));
}
