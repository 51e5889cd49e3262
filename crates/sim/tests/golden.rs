//! Golden traces of the congestion window, computed by hand.

mod hand;

use std::time::Duration;

use dfcp_sim::tcp::{Config, Congestion, Phase, Reduction, RtoFloor};

use hand::Hand;

fn to(end: u64) -> Vec<u64> {
    (0..end).collect()
}

#[test]
fn one_loss_with_proportional_rate_reduction() {
    let (mut hand, sent) = Hand::connected(Config::rfc(Congestion::NewReno));
    assert_eq!(sent, to(10));
    // Segment 0 is lost. The first two acknowledgements of later segments each release a new segment (limited
    // transmit).
    assert_eq!((hand.ack(0, &[(1, 2)]), hand.cwnd()), (vec![10], 10));
    assert_eq!((hand.ack(0, &[(1, 3)]), hand.cwnd()), (vec![11], 10));
    // Third acknowledgement: ssthresh = 5. Of 12 outstanding segments, 3 arrived and 1 is lost, so 8 are in flight;
    // there were 10 before. Allowed: ceil(1 · 5/10) = 1.
    assert_eq!((hand.ack(0, &[(1, 4)]), hand.cwnd()), (vec![0], 9));
    assert_eq!(hand.sender.phase(), Phase::Recovery);
    assert_eq!(hand.sender.ssthresh_segments(), Some(5));
    // From here on, one segment is sent per two arrivals, until 5 are in flight.
    assert_eq!((hand.ack(0, &[(1, 5)]), hand.cwnd()), (vec![], 8));
    assert_eq!((hand.ack(0, &[(1, 6)]), hand.cwnd()), (vec![12], 8));
    assert_eq!((hand.ack(0, &[(1, 7)]), hand.cwnd()), (vec![], 7));
    assert_eq!((hand.ack(0, &[(1, 8)]), hand.cwnd()), (vec![13], 7));
    assert_eq!((hand.ack(0, &[(1, 9)]), hand.cwnd()), (vec![], 6));
    assert_eq!((hand.ack(0, &[(1, 10)]), hand.cwnd()), (vec![], 5));
    assert_eq!(hand.sender.pipe_segments(), 5);
    // Then one segment is sent per arrival.
    assert_eq!((hand.ack(0, &[(1, 11)]), hand.cwnd()), (vec![14], 5));
    assert_eq!((hand.ack(0, &[(1, 12)]), hand.cwnd()), (vec![15], 5));
    // The retransmission arrives. Segments 12 to 15 are in flight, and the window is 5.
    assert_eq!((hand.ack(12, &[]), hand.cwnd()), (vec![16], 5));
    assert_eq!(hand.sender.phase(), Phase::Open);
    // The window grows by one segment per RTT; 1 of the 5 segments needed for that has been counted.
    assert_eq!((hand.ack(14, &[]), hand.cwnd()), (vec![17, 18], 5));
    assert_eq!((hand.ack(16, &[]), hand.cwnd()), (vec![19, 20, 21], 6));
    let stats = hand.sender.stats();
    assert_eq!((stats.retransmissions, stats.recoveries, stats.timeouts), (1, 1, 0));
}

#[test]
fn one_loss_with_the_window_halved_at_once() {
    let config = Config { reduction: Reduction::Classic, ..Config::rfc(Congestion::NewReno) };
    let (mut hand, _) = Hand::connected(config);
    assert_eq!(hand.ack(0, &[(1, 2)]), [10]);
    assert_eq!(hand.ack(0, &[(1, 3)]), [11]);
    // 9 segments are in flight with the retransmission, which is sent even though the window is full (RFC 6675, step
    // 4.3).
    assert_eq!((hand.ack(0, &[(1, 4)]), hand.cwnd(), hand.sender.pipe_segments()), (vec![0], 5, 9));
    // No new segment is sent until 4 more have arrived, ...
    for end in 5..=8 {
        assert_eq!(hand.ack(0, &[(1, end)]), []);
    }
    assert_eq!(hand.sender.pipe_segments(), 5);
    // ... then one per arrival.
    assert_eq!(hand.ack(0, &[(1, 9)]), [12]);
    assert_eq!(hand.ack(0, &[(1, 10)]), [13]);
}

#[test]
fn slow_start_after_a_timeout() {
    let config = Config { rto_floor: RtoFloor::Timer, ..Config::rfc(Congestion::NewReno) };
    let (mut hand, _) = Hand::connected(config);
    let due = hand.sender.next_timeout().unwrap();
    // One sample of 10 ms gives 10 ms + 4 · 5 ms, which is below the minimum of 200 ms.
    assert_eq!(due.since(hand.now), Duration::from_millis(200));
    hand.now = due;
    hand.sender.handle_timeout(hand.now);
    assert_eq!((hand.poll(), hand.cwnd()), (vec![0], 1));
    assert_eq!(hand.sender.phase(), Phase::Loss);
    assert_eq!(hand.sender.ssthresh_segments(), Some(5));
    assert_eq!(hand.sender.rto(), Duration::from_millis(400));
    // The window doubles per RTT up to the threshold, then grows by one segment per RTT.
    assert_eq!((hand.ack(1, &[]), hand.cwnd()), (vec![1, 2], 2));
    assert_eq!((hand.ack(2, &[]), hand.cwnd()), (vec![3, 4], 3));
    assert_eq!((hand.ack(3, &[]), hand.cwnd()), (vec![5, 6], 4));
    assert_eq!((hand.ack(5, &[]), hand.cwnd()), (vec![7, 8, 9], 5));
    // Of these 2 segments, 1 has lifted the window to 5 and 1 counts towards 6. The next 4 segments complete that
    // count.
    assert_eq!((hand.ack(9, &[]), hand.cwnd()), (vec![10, 11, 12, 13, 14], 6));
    assert_eq!(hand.sender.phase(), Phase::Loss);
    assert_eq!((hand.ack(10, &[]), hand.sender.phase()), (vec![15], Phase::Open));
}

#[test]
fn tahoe_starts_over_and_reno_inflates() {
    let (mut hand, _) = Hand::connected(Config::modern(Congestion::Tahoe));
    assert_eq!(hand.ack(0, &[]), [10]);
    assert_eq!(hand.ack(0, &[]), [11]);
    assert_eq!((hand.ack(0, &[]), hand.cwnd(), hand.sender.ssthresh_segments()), (vec![0], 1, Some(5)));
    // Of the 12 acknowledged segments, 4 lift the window to 5, another 5 lift it to 6, and 3 count towards 7.
    assert_eq!((hand.ack(12, &[]), hand.sender.phase()), (vec![12, 13, 14, 15, 16, 17], Phase::Open));
    assert_eq!(hand.cwnd(), 6);

    let (mut hand, _) = Hand::connected(Config::modern(Congestion::Reno));
    assert_eq!(hand.ack(0, &[]), [10]);
    assert_eq!(hand.ack(0, &[]), [11]);
    assert_eq!((hand.ack(0, &[]), hand.cwnd()), (vec![0], 5));
    // Of 12 outstanding segments, one is lost and retransmitted, and 3 have arrived, so 9 are in flight. Each duplicate
    // acknowledgement means one less; from the fifth on, a new segment is sent.
    for duplicate in 1..=4 {
        assert_eq!(hand.ack(0, &[]), [], "{duplicate}");
    }
    assert_eq!(hand.ack(0, &[]), [12]);
    // A partial acknowledgement ends the recovery, by RFC 2581 and unlike RFC 6582.
    hand.ack(4, &[]);
    assert_eq!(hand.sender.phase(), Phase::Open);
}

#[test]
fn newreno_without_sack_repairs_one_loss_per_round_trip() {
    let config = Config { sack: false, reduction: Reduction::Classic, ..Config::rfc(Congestion::NewReno) };
    let (mut hand, _) = Hand::connected(config);
    hand.ack(0, &[]);
    hand.ack(0, &[]);
    assert_eq!(hand.ack(0, &[]), [0]);
    // Segment 4 is lost too: the partial acknowledgement releases its retransmission immediately.
    assert_eq!(hand.ack(4, &[])[0], 4);
    assert_eq!(hand.sender.phase(), Phase::Recovery);
    hand.ack(12, &[]);
    assert_eq!((hand.sender.phase(), hand.sender.stats().recoveries), (Phase::Open, 1));
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    for (lost_retransmissions, expected) in [(true, vec![0]), (false, vec![])] {
        let config = Config { lost_retransmissions, reduction: Reduction::Classic, ..Config::rfc(Congestion::NewReno) };
        let (mut hand, _) = Hand::connected(config);
        hand.ack(0, &[(1, 3)]);
        assert_eq!(hand.ack(0, &[(1, 4)]), [0]);
        let mut end = 4;
        // The loss of the retransmission cannot be detected before a segment sent after it has arrived.
        while end < 12 {
            end += 1;
            assert!(!hand.ack(0, &[(1, end)]).contains(&0), "{end}");
        }
        let sent = hand.ack(0, &[(1, 13)]);
        assert_eq!(sent.contains(&0), !expected.is_empty(), "{lost_retransmissions}");
    }
}
