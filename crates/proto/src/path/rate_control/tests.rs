use proptest::prelude::*;

use super::*;
use crate::config::controller::Mark;
use crate::path::test_path::{DATAGRAM_BYTES, Path, seen};

fn control(rtt_ms: f64) -> RateControl {
    RateControl::new(Time::ZERO, DATAGRAM_BYTES, Duration::from_secs_f64(rtt_ms / 1e3), 0)
}

#[test]
fn a_path_is_filled_with_a_short_queue_whatever_it_loses() {
    for (mbps, rtt_ms, loses_every) in [(50.0, 100.0, 0), (50.0, 100.0, 10), (50.0, 20.0, 3), (500.0, 50.0, 0)] {
        let mut path = Path::new(mbps, rtt_ms, mbps * rtt_ms / 12.0, loses_every);
        let mut control = control(rtt_ms);
        path.run(&mut control, 2.0);
        let (used, queue_s) = path.run(&mut control, 5.0);
        let arrives = if loses_every > 0 { 1.0 - 1.0 / loses_every as f64 } else { 1.0 };
        assert!(used / arrives > 0.93, "{used} of {arrives}: {mbps} Mbit/s, {rtt_ms} ms, {control:?}");
        assert!(queue_s < 0.01, "{queue_s} s: {mbps} Mbit/s, {rtt_ms} ms");
    }
}

#[test]
fn the_start_takes_a_few_round_trips() {
    let mut path = Path::new(50.0, 100.0, 400.0, 0);
    let mut control = control(100.0);
    path.run(&mut control, 0.4);
    let (used, _) = path.run(&mut control, 0.2);
    assert!(used > 0.9, "{used}");
}

#[test]
fn the_rate_follows_the_path() {
    let mut path = Path::new(50.0, 50.0, 200.0, 0);
    let mut control = control(50.0);
    path.run(&mut control, 3.0);
    path.per_s /= 2.0;
    path.run(&mut control, 1.5);
    let (used, queue_s) = path.run(&mut control, 2.0);
    assert!(used > 0.93 && queue_s < 0.015, "{used}, {queue_s}");
    path.per_s *= 2.0;
    path.run(&mut control, 1.5);
    let (used, _) = path.run(&mut control, 2.0);
    assert!(used > 0.93, "{used}");
}

#[test]
fn a_small_buffer_is_not_overrun() {
    let mut path = Path::new(50.0, 40.0, 8.0, 0);
    let mut control = control(40.0);
    path.run(&mut control, 5.0);
    let (sent, received) = (path.sent, path.received);
    let (used, _) = path.run(&mut control, 5.0);
    let lost = 1.0 - (path.received - received) as f64 / (path.sent - sent) as f64;
    assert!(used > 0.93 && lost < 0.05, "{used} used, {lost} lost");
}

#[test]
fn a_limit_holds_for_trains_too_and_may_change() {
    let mut path = Path::new(50.0, 40.0, 200.0, 0);
    let mut control = control(40.0);
    control.set_policy(Policy::Fair, Some(10_000_000));
    assert_eq!(control.rate_bps(), Some(10_000_000));
    path.run(&mut control, 3.0);
    let (used, _) = path.run(&mut control, 2.0);
    assert!((0.18..0.201).contains(&used), "{used}");
    control.set_policy(Policy::Fair, None);
    path.run(&mut control, 3.0);
    let (used, _) = path.run(&mut control, 2.0);
    assert!(used > 0.93, "{used}");
}

#[test]
fn a_floor_holds_whatever_is_found_and_comes_down_when_it_is_lowered() {
    let mut path = Path::new(2.0, 40.0, 20.0, 0);
    let mut control = control(40.0);
    control.set_floor(10_000_000);
    for _ in 0..50 {
        path.run(&mut control, 0.1);
        assert!(control.rate_bps().is_none_or(|bps| bps >= 10_000_000), "{control:?}");
    }
    assert!(control.finds_at_most(10_000_000), "{control:?}");
    control.set_floor(5_000_000);
    assert!(control.rate_bps().is_some_and(|bps| bps == 5_000_000), "{control:?}");
    control.set_floor(0);
    path.run(&mut control, 4.0);
    let (used, queue_s) = path.run(&mut control, 2.0);
    assert!(used > 0.85 && queue_s < 0.05, "{used}, {queue_s}");
}

/// Losses of the path itself and of a full queue are told apart.
#[test]
fn users_are_told_whose_the_losses_are() {
    for (loses_every, path_loss) in [(0, 0.0), (10, 0.1), (4, 0.25)] {
        let (mut path, mut control) = (Path::new(50.0, 40.0, 200.0, loses_every), control(40.0));
        path.run(&mut control, 6.0);
        let stats = control.stats();
        assert_eq!(stats.phase, crate::RatePhase::Steady);
        assert!((stats.path_loss - path_loss).abs() < 0.03, "{path_loss}: {stats:?}");
        let told = stats.loss_of_path().expect("thousands were judged");
        assert!((told - path_loss).abs() < 0.01, "{path_loss}: {stats:?}");
        assert!(stats.own_loss().is_some_and(|loss| loss < 0.02), "{path_loss}: {stats:?}");
        assert!(stats.capacity_bps.is_some_and(|bps| (bps as f64 / 50e6 - 1.0).abs() < 0.1), "{stats:?}");
        // Now a third of what it sends finds the queue full.
        let (sent, received) = (path.sent, path.received);
        control.set_floor(75_000_000);
        path.run(&mut control, 6.0);
        let now = control.stats();
        let judged = (now.datagrams_judged - stats.datagrams_judged) as f64;
        let lost = (now.datagrams_lost_in_queue - stats.datagrams_lost_in_queue) as f64 / judged;
        let all = 1.0 - (path.received - received) as f64 / (path.sent - sent) as f64;
        let own = 1.0 - (1.0 - all) / (1.0 - path_loss);
        assert!(own > 0.2, "nothing was tested: {own}");
        assert!((lost - own).abs() < 0.05, "{path_loss}: {own}, told {lost}: {now:?}");
    }
}

/// Path and controller after `seconds`, on a path of `mbps` of which another rate is expected.
fn begun(mbps: f64, expected_mbps: u64, seconds: f64) -> (Path, RateControl) {
    let mut path = Path::new(mbps, 100.0, mbps * 100.0 / 12.0, 0);
    let mut control = control(100.0);
    control.expect(expected_mbps * 1_000_000);
    path.run(&mut control, seconds);
    (path, control)
}

#[test]
fn a_hint_that_holds_saves_a_round_trip() {
    let [with, without] =
        [50, 0].map(|expected_mbps| begun(50.0, expected_mbps, 0.3).0.received as f64 / (0.3 * 4_167.0));
    assert!(with > without + 0.1, "{with} of the path with a hint, {without} without");
    let (mut path, mut control) = begun(50.0, 50, 0.5);
    assert!(!control.path_loss.is_busy, "its own train looks like nobody else's queue");
    let (used, queue_s) = path.run(&mut control, 1.0);
    assert!(used > 0.9 && queue_s < 0.02, "{used}, {queue_s} s");
}

/// The path is a hundred times slower than what is remembered of it.
#[test]
fn a_stale_hint_costs_no_more_than_a_round_trip_at_half_of_it() {
    let (mut path, mut control) = begun(0.5, 50, 4.0);
    let lost = path.sent - path.received;
    let round_trip = 0.1 * 50e6 / 8.0 / DATAGRAM_BYTES as f64;
    assert!((lost as f64) < 0.65 * round_trip + FLIGHT_DATAGRAMS, "{lost} of a round trip of {round_trip}");
    assert!(lost > 20, "nothing was tested: {lost}");
    path.run(&mut control, 6.0);
    let (sent, received) = (path.sent, path.received);
    path.run(&mut control, 10.0);
    let lost = 1.0 - (path.received - received) as f64 / (path.sent - sent) as f64;
    assert!(lost < 0.2, "{lost} of what is sent is lost later");
}

#[test]
fn no_hint_exceeds_what_was_proven() {
    let (mut path, mut control) = begun(50.0, 0, 1.0);
    assert_eq!(control.hint(), None, "nothing was proven");
    for step in 1..=30 {
        path.run(&mut control, 0.1);
        control.on_proven(Path::at(1.0 + f64::from(step) / 10.0), 12_500);
    }
    assert!(control.rate_bps().is_none_or(|bps| bps > 40_000_000), "{control:?}");
    let hint = control.hint().expect("a part of it was proven");
    assert!((900_000..1_200_000).contains(&hint.rate_bps), "{hint:?}");
}

#[test]
fn a_floor_below_what_is_found_changes_nothing() {
    let filled = |floor_bps| {
        let (mut path, mut control) = (Path::new(50.0, 40.0, 200.0, 10), control(40.0));
        control.set_floor(floor_bps);
        path.run(&mut control, 5.0);
        (path.sent, path.received, control.rate_bps())
    };
    assert_eq!(filled(0), filled(1_000_000));
}

#[test]
fn a_policy_that_yields_ends_competing_at_once() {
    let mut path = Path::new(50.0, 40.0, 200.0, 0);
    let mut control = control(40.0);
    path.run(&mut control, 3.0);
    for policy in [Policy::Fair, Policy::Low] {
        control.mode = Mode::Compete;
        control.rivals = Rivals::new(Path::at(path.now_s));
        control.set_policy(policy, None);
        path.run(&mut control, 0.02);
        assert_eq!(control.mode == Mode::Compete, policy == Policy::Fair, "{policy:?}");
    }
}

#[test]
fn without_anything_to_send_nothing_grows() {
    let mut control = control(50.0);
    let mut path = Path::new(50.0, 50.0, 200.0, 0);
    path.run(&mut control, 2.0);
    let window = control.window;
    // A tenth of the rate, and reports which say so.
    for step in 0..1_000_u64 {
        path.now_s += 0.003;
        path.send();
        control.on_sent(path.sent);
        while let Some((at_s, mark)) = path.on_their_way.front().copied().filter(|(at_s, _)| *at_s <= path.now_s) {
            path.on_their_way.pop_front();
            control.on_report(seen(Path::at(at_s), Duration::from_millis(50), &[mark], true));
        }
        assert!(control.window <= window * 1.001, "{step}: {} of {window}", control.window);
    }
}

proptest! {
    /// With any reports of a peer, the rate stays a rate, within its limit, and nothing grows without bound.
    #[test]
    fn no_reports_make_it_anything_but_a_rate(
        reports in prop::collection::vec(
            (0_u64..2_000_000, 0_u64..5_000, 0_u64..5_000, any::<u32>(), 0_u64..3_000_000, any::<bool>()), 1..400),
        max_mbps in prop::option::of(1_u64..1_000),
        least in prop::option::of(0.0..=1.0),
    ) {
        let mut control = control(30.0);
        control.set_policy(Policy::High, max_mbps.map(|mbps| mbps * 1_000_000));
        let floor_bps = least.map_or(0, |part: f64| (part * max_mbps.unwrap_or(300) as f64 * 1e6) as u64);
        control.set_floor(floor_bps);
        let (mut now_us, mut sent) = (0, 0);
        for (later_us, more, received, arrived_us, rtt_us, is_limited) in reports {
            now_us += later_us;
            sent += more;
            control.on_sent(sent);
            let sent_at = Time::from_us(now_us.saturating_sub(rtt_us));
            let marks = [received / 2, received].map(|received| Mark { sent: sent.saturating_sub(received), received, sent_at, arrived_us });
            control.on_report(seen(Time::from_us(now_us), Duration::from_micros(rtt_us.max(1)), &marks, is_limited));
            prop_assert!(control.window.is_finite() && control.window >= WINDOW_MIN, "{:?}", control);
            prop_assert!(control.target_s() >= 0.0);
            prop_assert!((0.0..=0.9).contains(&control.path_loss.share), "{:?}", control.path_loss);
            prop_assert!(control.in_flight_max() > 0);
            let told = control.stats();
            prop_assert!(told.datagrams_lost_in_queue <= told.datagrams_lost, "{:?}", told);
            prop_assert!(told.datagrams_lost <= told.datagrams_judged, "{:?}", told);
            prop_assert!(control.rate_bps().is_none_or(|bps| bps >= floor_bps), "{:?}", control);
            if let Some(mbps) = max_mbps {
                prop_assert!(control.rate_bps().is_some_and(|bps| bps <= mbps * 1_000_000));
            }
        }
        prop_assert!(control.history.len() <= crate::limits::RATE_MARKS_MAX);
    }
}
