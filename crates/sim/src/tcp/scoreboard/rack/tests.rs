use super::super::super::config::LossDetection;
use super::*;

const MIN_RTT_NS: u64 = 8_000_000;
const SRTT_NS: u64 = 10_000_000;

/// Returns a scoreboard with `count` segments, sent one per millisecond.
fn board(count: u64) -> Scoreboard {
    let mut board = Scoreboard::new(LossDetection::Rack, true);
    for ms in 0..count {
        board.push(Time::from_ms(ms));
    }
    board
}

/// Processes a SACK of the segments `from..to` at the time `at_ms`. Returns the number of segments marked as lost, and
/// the time to wait for reordered ones, ns.
fn sack(board: &mut Scoreboard, at_ms: u64, from: u64, to: u64) -> (u64, u64) {
    board.begin_report(Time::from_ms(at_ms), None, MIN_RTT_NS, 0);
    board.sack(from, to);
    board.end_report(false);
    board.detect_by_time(Time::from_ms(at_ms), false, (MIN_RTT_NS, SRTT_NS), false)
}

#[test]
fn a_segment_may_be_overtaken_for_a_quarter_of_the_round_trip() {
    let mut board = board(10);
    // Segment 1, sent at 1 ms, arrived after 10 ms. Segment 0, sent at 0 ms, may arrive up to 10 ms plus a quarter of 8
    // ms after its sending.
    assert_eq!(sack(&mut board, 11, 1, 2), (0, 1_000_000));
    // Without new arrivals, losses are detected only when the timer expires.
    assert_eq!(board.detect_by_time(Time::from_ms(12), false, (MIN_RTT_NS, SRTT_NS), false), (0, 0));
    assert_eq!(board.detect_by_time(Time::from_ms(12), false, (MIN_RTT_NS, SRTT_NS), true), (1, 0));
    assert_eq!((board.lost(), board.next_lost_by_time()), (1, Some(0)));
}

#[test]
fn in_a_recovery_and_from_three_segments_on_it_may_not() {
    let mut board = board(10);
    assert_eq!(sack(&mut board, 11, 1, 4), (1, 0));
}

#[test]
fn a_lost_retransmission_is_found_like_any_other() {
    let mut board = board(10);
    sack(&mut board, 11, 1, 4);
    board.retransmit(0, Time::from_ms(11));
    board.push(Time::from_ms(12));
    assert_eq!(board.pipe(), 8);
    assert_eq!(sack(&mut board, 19, 4, 10), (0, 0));
    // Segment 10, which was sent after the retransmission, has arrived.
    assert_eq!(sack(&mut board, 22, 10, 11), (1, 0));
    assert_eq!((board.retransmissions_in_flight(), board.next_lost_by_time()), (0, Some(0)));
}

#[test]
fn the_window_widens_with_needless_retransmissions_once_a_round_trip() {
    let mut board = board(10);
    assert_eq!(board.reordering_window_ns(true, MIN_RTT_NS, SRTT_NS), 0);
    // Segment 5 arrives, and then segment 2, which was sent only once: the segments were reordered.
    sack(&mut board, 11, 5, 6);
    sack(&mut board, 12, 2, 3);
    assert_eq!(board.reordering_window_ns(true, MIN_RTT_NS, SRTT_NS), 2_000_000);
    let mut needless = |at_ms: u64, segment: u64| {
        board.begin_report(Time::from_ms(at_ms), None, MIN_RTT_NS, 0);
        board.sack(segment, segment + 1);
        board.end_report(true);
        board.reordering_window_ns(true, MIN_RTT_NS, SRTT_NS)
    };
    assert_eq!(needless(13, 6), 4_000_000);
    // The reported segments were sent before the window was last widened, so it is not widened again.
    assert_eq!(needless(14, 7), 4_000_000);
    for _ in 0..PERSIST_RECOVERIES {
        board.note_recovery_end(false);
    }
    sack(&mut board, 15, 8, 9);
    assert_eq!(board.reordering_window_ns(true, MIN_RTT_NS, SRTT_NS), 2_000_000);
}

#[test]
fn the_timer_takes_for_lost_what_is_older_than_a_round_trip() {
    let mut board = board(10);
    sack(&mut board, 11, 1, 2);
    // With an RTT of 10 ms, segments sent up to 5 ms are lost at 15 ms.
    assert_eq!(board.mark_overdue_lost(Time::from_ms(15)), 5);
    assert_eq!((board.lost(), board.pipe()), (5, 4));
    board.unmark_lost();
    assert_eq!((board.lost(), board.pipe(), board.next_lost_by_time()), (0, 9, None));
}

#[test]
fn a_report_tells_when_what_arrived_was_sent() {
    let mut board = board(4);
    board.retransmit(0, Time::from_ms(5));
    board.begin_report(Time::from_ms(12), None, MIN_RTT_NS, 4);
    board.sack(2, 4);
    board.advance(2);
    let report = board.end_report(false);
    assert_eq!(report.sacked, Some((Time::from_ms(2), Time::from_ms(3))));
    assert_eq!(report.acked, Some((Time::from_ms(1), Time::from_ms(1))));
    assert!(report.retransmitted_acked && report.original_arrived);
}
