use proptest::prelude::*;

use super::*;
use crate::config::controller::Mark;
use crate::path::test_path::{DATAGRAM_BYTES, Path, seen};

fn control(rtt_ms: f64) -> DeliveryControl {
    DeliveryControl::new(PathStart {
        now: Time::ZERO,
        datagram_bytes: DATAGRAM_BYTES,
        rtt: Duration::from_secs_f64(rtt_ms / 1e3),
        sent: 0,
        hint_bps: None,
        policy: Policy::Fair,
        max_bps: None,
    })
}

#[test]
fn a_path_is_filled_with_a_short_queue_whatever_it_loses() {
    for (mbps, rtt_ms, loses_every) in [(50.0, 100.0, 0), (50.0, 100.0, 10), (50.0, 20.0, 3), (500.0, 50.0, 0)] {
        let mut path = Path::new(mbps, rtt_ms, mbps * rtt_ms / 12.0, loses_every);
        let mut control = control(rtt_ms);
        path.run(&mut control, 3.0);
        let (used, queue_s) = path.run(&mut control, 5.0);
        let arrives = if loses_every > 0 { 1.0 - 1.0 / loses_every as f64 } else { 1.0 };
        assert!(used / arrives > 0.92, "{used} of {arrives}: {mbps} Mbit/s, {rtt_ms} ms, {control:?}");
        assert!(queue_s < 0.01, "{queue_s} s: {mbps} Mbit/s, {rtt_ms} ms");
    }
}

/// The bucket passes the first train and drops most of what follows: the train's promise is false, and half the rate
/// loses nearly as much.
#[test]
fn behind_a_policer_the_rate_is_the_policers() {
    for (mbps, bucket) in [(17.0, 5.0), (17.0, 50.0), (17.0, 200.0), (3.0, 60.0)] {
        let mut path = Path::new(1_000.0, 35.0, 10_000.0, 0);
        let per_s = mbps * 1e6 / 8.0 / DATAGRAM_BYTES as f64;
        path.policer = Some((per_s, bucket));
        let mut control = control(35.0);
        path.run(&mut control, 4.0);
        let before = (path.sent, path.received);
        path.run(&mut control, 6.0);
        let (sent, arrived) = ((path.sent - before.0) as f64, (path.received - before.1) as f64);
        assert!(arrived > 0.9 * 6.0 * per_s, "{mbps} Mbit/s, {bucket} packets: {arrived} of {}", 6.0 * per_s);
        assert!(arrived > 0.75 * sent, "{mbps} Mbit/s, {bucket} packets: {} dropped", 1.0 - arrived / sent);
    }
}

/// The invariant of the law: no rate exceeds twice the delivery, except by floors and in the start.
#[test]
fn no_rate_exceeds_twice_the_delivery() {
    for (mbps, rtt_ms, buffer, loses_every) in [(50.0, 100.0, 20.0, 0), (10.0, 30.0, 200.0, 4), (200.0, 10.0, 50.0, 50)]
    {
        let mut path = Path::new(mbps, rtt_ms, buffer, loses_every);
        let mut control = control(rtt_ms);
        for _ in 0..400 {
            path.run(&mut control, 0.02);
            if control.start.is_some() {
                continue;
            }
            let delivery = control.model.delivery() / (1.0 - control.beliefs.own_loss);
            let most = 2.01 * delivery * (1.0 + control.model.top_s() / control.model.rtt_s());
            assert!(control.per_s <= most, "{} of {most}: {control:?}", control.per_s);
        }
    }
}

#[test]
fn a_longer_path_is_no_queue() {
    let mut path = Path::new(20.0, 40.0, 500.0, 0);
    let mut control = control(40.0);
    path.run(&mut control, 4.0);
    path.rtt_s += 0.03;
    path.run(&mut control, 4.0);
    let (used, queue_s) = path.run(&mut control, 2.0);
    assert!(used > 0.9 && queue_s < 0.01, "{used}, {queue_s}");
}

#[test]
fn the_highest_rate_holds_for_trains_too() {
    let mut control = control(40.0);
    control.set_policy(Policy::Fair, Some(5_000_000));
    assert_eq!(control.rate_bps(), Some(5_000_000));
    let mut path = Path::new(50.0, 40.0, 200.0, 0);
    let (used, _) = path.run(&mut control, 3.0);
    assert!(used < 0.11, "{used}");
    assert!(control.rate_bps().is_some_and(|bps| bps <= 5_000_000));
}

proptest! {
    /// With any reports of a peer, the rate stays a rate within its bounds.
    #[test]
    fn no_reports_make_it_anything_but_a_rate(
        reports in prop::collection::vec(
            (0_u64..2_000_000, 0_u64..5_000, 0_u64..5_000, any::<u32>(), 0_u64..3_000_000, any::<bool>()), 1..400),
        max_mbps in prop::option::of(1_u64..1_000),
        floor_bps in 0_u64..1_000_000,
    ) {
        let mut control = control(30.0);
        control.set_policy(Policy::High, max_mbps.map(|mbps| mbps * 1_000_000));
        control.set_floor(floor_bps);
        let (mut now_us, mut sent) = (0, 0);
        for (later_us, more, received, arrived_us, rtt_us, is_limited) in reports {
            now_us += later_us;
            sent += more;
            control.on_sent(sent);
            let sent_at = Time::from_us(now_us.saturating_sub(rtt_us));
            let mark = |received: u64| Mark { sent: sent.saturating_sub(received), received, sent_at, arrived_us };
            let marks = [received / 2, received].map(mark);
            control.on_report(seen(Time::from_us(now_us), Duration::from_micros(rtt_us.max(1)), &marks, is_limited));
            prop_assert!(control.window.is_finite() && control.window >= P.window_min, "{:?}", control);
            prop_assert!(control.target_s() >= 0.0);
            prop_assert!((0.0..=0.9).contains(&control.beliefs.own_loss), "{:?}", control.beliefs);
            prop_assert!(control.in_flight_max() > 0);
            prop_assert!(control.rate_bps().is_none_or(|bps| bps >= floor_bps), "{:?}", control);
            if let Some(mbps) = max_mbps {
                prop_assert!(control.rate_bps().is_some_and(|bps| bps <= mbps * 1_000_000));
            }
        }
    }
}

/// A path of one's own that is taken for one of others is filled all the same, at once where it loses nothing, and
/// later where it does.
#[test]
fn a_path_that_is_taken_for_full_is_filled_soon() {
    for (loses_every, most_s) in [(0, 3.0), (10, 6.0)] {
        let mut path = Path::new(20.0, 50.0, 80.0, loses_every);
        let mut control = control(50.0);
        path.run(&mut control, 0.3);
        (control.company.is_busy, control.company.is_alone) = (true, false);
        control.window = 24.0;
        path.run(&mut control, most_s);
        assert!(!control.company.is_busy, "{control:?}");
        let (used, _) = path.run(&mut control, 2.0);
        let arrives = if loses_every > 0 { 1.0 - 1.0 / loses_every as f64 } else { 1.0 };
        assert!(used > 0.85 * arrives, "{used} with one of {loses_every} lost: {control:?}");
    }
}

/// Ten flows of CUBIC keep the queue between 60 and 100 ms, whatever is sent. Asked three times, nobody makes room.
#[test]
fn a_queue_that_others_fill_is_not_left_to_them() {
    let mut path = Path::new(20.0, 50.0, 400.0, 0);
    let mut control = control(50.0);
    path.run(&mut control, 2.0);
    let mut competed = false;
    for step in 0..400 {
        let filled_s = 0.06 + 0.04 * f64::from(step % 100) / 100.0;
        path.free_s = path.free_s.max(path.now_s + filled_s);
        path.run(&mut control, 0.02);
        competed |= !control.rivals.is_following();
    }
    assert!(competed, "{control:?}");
    // They have left: the empty queue ends it.
    path.run(&mut control, 4.0);
    assert!(control.rivals.is_following(), "{control:?}");
    let (used, queue_s) = path.run(&mut control, 2.0);
    assert!(used > 0.85 && queue_s < 0.01, "{used}, {queue_s} {control:#?}");
}

/// Pauses of the application are no gaps of the path, which rounds and experiments would wait for.
#[test]
fn a_pause_of_the_application_is_no_gap_of_the_path() {
    let mut model = PathModel::default();
    model.on_rtt(0.0, 0.1);
    model.set_interval_s(0.001);
    let mark = |number: u64, sent_ms: u64| Mark {
        sent: number,
        received: number,
        sent_at: Time::from_ms(sent_ms),
        arrived_us: (sent_ms * 1_000 + 50_000) as u32,
    };
    let sent = (0..50).map(|i| mark(10 * (i + 1), 10 * i)).collect::<Vec<_>>();
    model.on_marks(&sent);
    let before_s = model.gap_s();
    model.on_marks(&[mark(510, 1_500)]);
    assert!(before_s < 0.011 && model.gap_s() < 0.04, "{before_s} s, then {} s", model.gap_s());
    // A batch: ten datagrams that left steadily come at once after 60 ms.
    let batch = Mark { arrived_us: 1_510_000 + 110_000, ..mark(520, 1_510) };
    model.on_marks(&[batch]);
    assert!(model.gap_s() > 0.05, "{} s", model.gap_s());
}

/// The configured minimum holds the window up, and what only it held up comes down with it.
#[test]
fn a_minimum_holds_the_rate_up_and_lets_it_go() {
    let mut path = Path::new(20.0, 50.0, 80.0, 0);
    let mut control = control(50.0);
    control.set_floor(60_000_000);
    path.run(&mut control, 3.0);
    assert!(control.rate_bps().is_none_or(|bps| bps >= 60_000_000), "{control:?}");
    assert!(!control.finds_at_most(1_000_000) && control.in_flight_max() > 250, "{control:?}");
    control.set_floor(0);
    path.run(&mut control, 4.0);
    let (used, queue_s) = path.run(&mut control, 2.0);
    assert!(used > 0.85 && queue_s < 0.02, "{used}, {queue_s} s: {control:?}");
}

/// The rate that was delivered before a silence is still possible after it.
#[test]
fn a_silence_does_not_lower_the_rate() {
    for silence_s in [1.0, 3.0, 20.0] {
        let mut path = Path::new(20.0, 50.0, 80.0, 0);
        let mut control = control(50.0);
        path.run(&mut control, 4.0);
        path.on_their_way.clear();
        path.now_s += silence_s;
        let (used, _) = path.run(&mut control, 0.6);
        assert!(used > 0.7, "{used} after {silence_s} s: {control:?}");
    }
}

/// Datagrams that left one by one tell how much the application has to send, and nothing of the path.
#[test]
fn a_train_that_the_application_interrupts_tells_no_capacity() {
    let mut path = Path::new(100.0, 50.0, 800.0, 0);
    let mut control = control(50.0);
    for _ in 0..60 {
        path.now_s += 0.004;
        path.send();
        control.on_sent(path.sent);
        control.on_idle();
        while let Some((_, mark)) = path.on_their_way.pop_front_if(|(at_s, _)| *at_s <= path.now_s) {
            control.on_report(seen(Path::at(path.now_s), Duration::from_millis(50), &[mark], true));
        }
    }
    assert_eq!(control.model.train_per_s, 0.0, "{control:?}");
    let four_at_once = 4.0 / (control.per_s * control.model.rtt_s());
    assert!(four_at_once < 0.2, "a window has room for some more at once: {control:?}");
}

/// A receiver that tells of all arrivals at once makes no fast path of a slow application.
#[test]
fn an_interrupted_train_that_arrives_at_once_permits_no_more() {
    let mut control = control(50.0);
    for number in 1..=40_u64 {
        control.on_sent(number);
        control.on_idle();
    }
    let mark = |sent: u64, after_us: u64| Mark {
        sent,
        received: sent,
        sent_at: Time::from_ms(4 * sent),
        arrived_us: (200_000 + after_us) as u32,
    };
    let marks = (1..=40).map(|sent| mark(sent, 10 * sent)).collect::<Vec<_>>();
    control.on_report(seen(Time::from_ms(300), Duration::from_millis(50), &marks, true));
    assert!(!control.start.as_ref().is_some_and(Start::is_first_train), "{control:?}");
    assert!(control.window < 3.5 * 250.0 * 0.05, "250 datagrams per second left: {control:?}");
}

/// Half of a train is lost: behind the bottleneck, where the rest arrives with gaps, or in a full queue, without any.
#[test]
fn the_gaps_between_neighbours_tell_the_capacity_whoever_loses_the_rest() {
    let arrival = |sent: u64, received: u64, after_ms: u64| Mark {
        sent,
        received,
        sent_at: Time::from_ms(1),
        arrived_us: (after_ms * 1_000) as u32,
    };
    let numbers = [1, 2, 4, 5, 8, 9, 12, 13, 16];
    let behind = numbers.iter().zip(1..).map(|(&sent, received)| arrival(sent, received, sent)).collect::<Vec<_>>();
    let queue = numbers.iter().zip(1..).map(|(&sent, received)| arrival(sent, received, received)).collect::<Vec<_>>();
    for marks in [behind, queue] {
        let mut model = PathModel::default();
        model.on_marks(&marks);
        let found = model.marks.clean_per_s(0.0, 16.0, 3.0).unwrap_or_default();
        assert!((found - 1_000.0).abs() < 1.0, "{found} per second, {marks:?}");
        assert_eq!(model.marks.clean_per_s(0.0, 16.0, 5.0), None);
    }
}

/// Messages with deadlines are on their way: a window of one's own path leaves a part of it.
#[test]
fn messages_find_no_queue() {
    let mut path = Path::new(20.0, 50.0, 80.0, 0);
    let mut control = control(50.0);
    path.run(&mut control, 3.0);
    control.spares_queue = true;
    control.spare_queue();
    let most = 0.97 * path.per_s * control.model.rtt_s();
    assert!(control.window <= most, "{} of {most}: {control:?}", control.window);
    control.company.is_alone = false;
    assert_eq!(control.spared_per_s(), None, "beside others it would leave its share to them");
}
