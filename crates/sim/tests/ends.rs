//! Tests of the TCP handshake and the TCP receiver, driven by hand.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use dfcp_netem::Ecn;
use dfcp_sim::tcp::{Config, ConfigError, Congestion, Flags, Receiver, SackBlocks, Segment, Sender};
use dfcp_time::Time;

fn segment(seq: u64, len_bytes: u32, ms: u64) -> Segment {
    Segment {
        seq,
        ack: 1,
        ts_val: Time::from_ms(ms),
        ts_ecr: Time::ZERO,
        sack: SackBlocks::default(),
        window_bytes: 1 << 20,
        len_bytes,
        wire_bytes: len_bytes + 52,
        flags: Flags { ack: true, ..Flags::default() },
        ecn: Ecn::NotEct,
    }
}

fn syn(ms: u64) -> Segment {
    Segment { flags: Flags { syn: true, ..Flags::default() }, ack: 0, ..segment(0, 0, ms) }
}

/// Returns a receiver after the handshake.
fn connected(config: Config) -> Receiver {
    let mut receiver = Receiver::new(config).unwrap();
    receiver.on_segment(Time::ZERO, &syn(0));
    let answer = receiver.poll_transmit(Time::ZERO).unwrap();
    assert!(answer.flags.syn && answer.flags.ack);
    assert_eq!((answer.seq, answer.ack), (0, 1));
    receiver.on_segment(Time::ZERO, &segment(1, 0, 0));
    assert_eq!(receiver.next_timeout(), None);
    receiver
}

/// Returns the acknowledgement sent at `ms`, with its SACK blocks as absolute sequence numbers.
fn ack(receiver: &mut Receiver, ms: u64) -> Option<(u64, Vec<(u64, u64)>)> {
    let segment = receiver.poll_transmit(Time::from_ms(ms))?;
    assert_eq!(receiver.poll_transmit(Time::from_ms(ms)), None);
    Some((segment.ack, segment.sack.iter(segment.ack).collect()))
}

#[test]
fn every_second_segment_is_acknowledged_or_after_40_ms() {
    let mut receiver = connected(Config::rfc(Congestion::NewReno));
    receiver.on_segment(Time::from_ms(10), &segment(1, 1000, 10));
    assert_eq!(ack(&mut receiver, 10), None);
    assert_eq!(receiver.next_timeout(), Some(Time::from_ms(50)));
    receiver.on_segment(Time::from_ms(11), &segment(1001, 1000, 11));
    let answer = receiver.poll_transmit(Time::from_ms(11)).unwrap();
    // The timestamp of the older segment is echoed, so that the delay counts as part of the RTT (RFC 7323).
    assert_eq!((answer.ack, answer.ts_ecr, answer.wire_bytes), (2001, Time::from_ms(10), 52));
    assert_eq!(receiver.next_timeout(), None);
    receiver.on_segment(Time::from_ms(20), &segment(2001, 1000, 20));
    receiver.handle_timeout(Time::from_ms(59));
    assert_eq!(ack(&mut receiver, 59), None);
    receiver.handle_timeout(Time::from_ms(60));
    assert_eq!(ack(&mut receiver, 60), Some((3001, vec![])));
    assert_eq!(receiver.stats().delivered_bytes, 3000);
}

#[test]
fn gaps_and_what_fills_them_are_acknowledged_at_once() {
    let mut receiver = connected(Config::rfc(Congestion::NewReno));
    receiver.on_segment(Time::from_ms(1), &segment(1001, 1000, 1));
    assert_eq!(ack(&mut receiver, 1), Some((1, vec![(1001, 2001)])));
    receiver.on_segment(Time::from_ms(2), &segment(3001, 1000, 2));
    assert_eq!(ack(&mut receiver, 2), Some((1, vec![(3001, 4001), (1001, 2001)])));
    // A third and a fourth block follow; only three fit beside the timestamps.
    receiver.on_segment(Time::from_ms(3), &segment(5001, 1000, 3));
    assert_eq!(ack(&mut receiver, 3), Some((1, vec![(5001, 6001), (3001, 4001), (1001, 2001)])));
    receiver.on_segment(Time::from_ms(4), &segment(7001, 1000, 4));
    let answer = receiver.poll_transmit(Time::from_ms(4)).unwrap();
    let blocks: Vec<_> = answer.sack.iter(answer.ack).collect();
    assert_eq!(blocks, [(7001, 8001), (5001, 6001), (3001, 4001)]);
    assert_eq!(answer.wire_bytes, 52 + 4 + 3 * 8);
    receiver.on_segment(Time::from_ms(5), &segment(1, 1000, 5));
    assert_eq!(ack(&mut receiver, 5), Some((2001, vec![(7001, 8001), (5001, 6001), (3001, 4001)])));
    receiver.on_segment(Time::from_ms(6), &segment(1, 1000, 6));
    assert_eq!(ack(&mut receiver, 6), Some((2001, vec![(7001, 8001), (5001, 6001), (3001, 4001)])));
    let stats = receiver.stats();
    assert_eq!((stats.segments, stats.duplicate_segments, stats.out_of_order_segments), (6, 1, 4));
}

#[test]
fn without_sack_no_blocks_and_quick_acks_at_the_start() {
    let config = Config { sack: false, quick_ack_segments: 2, ..Config::rfc(Congestion::NewReno) };
    let mut receiver = connected(config);
    receiver.on_segment(Time::from_ms(1), &segment(1, 1000, 1));
    assert_eq!(ack(&mut receiver, 1), Some((1001, vec![])));
    receiver.on_segment(Time::from_ms(1), &segment(1001, 1000, 1));
    assert_eq!(ack(&mut receiver, 1), Some((2001, vec![])));
    receiver.on_segment(Time::from_ms(1), &segment(2001, 1000, 1));
    assert_eq!(ack(&mut receiver, 1), None);
    receiver.on_segment(Time::from_ms(1), &segment(4001, 1000, 1));
    assert_eq!(ack(&mut receiver, 1), Some((3001, vec![])));
}

#[test]
fn nothing_beyond_the_window_is_taken() {
    let config = Config { max_window_bytes: 2000, ..Config::rfc(Congestion::NewReno) };
    let mut receiver = connected(config);
    receiver.on_segment(Time::from_ms(1), &segment(1502, 1000, 1));
    assert_eq!(ack(&mut receiver, 1), Some((1, vec![])));
    receiver.on_segment(Time::from_ms(1), &segment(1001, 1000, 1));
    assert_eq!(ack(&mut receiver, 1), Some((1, vec![(1001, 2001)])));
}

#[test]
fn the_handshake_is_repeated_by_both_ends() {
    for (config, first_s) in [(Config::rfc(Congestion::Cubic), 1), (Config::linux_2008(Congestion::Cubic2008), 3)] {
        let mut sender = Sender::new(config, Some(10_000), 1).unwrap();
        assert!(sender.poll_transmit(Time::ZERO).unwrap().flags.syn);
        // The first two SYNs are lost. Repetitions follow one and three initial RTOs after the first SYN.
        for due_s in [first_s, 3 * first_s] {
            assert_eq!(sender.next_timeout(), Some(Time::from_s(due_s)));
            sender.handle_timeout(Time::from_s(due_s));
            assert!(sender.poll_transmit(Time::from_s(due_s)).unwrap().flags.syn);
            assert_eq!(sender.poll_transmit(Time::from_s(due_s)), None);
        }
        let mut receiver = Receiver::new(config).unwrap();
        let now = Time::from_s(3 * first_s);
        receiver.on_segment(now, &syn(3000 * first_s));
        receiver.poll_transmit(now).unwrap();
        // The answer is lost too, and is repeated by the receiver's own timer.
        let again = now + Duration::from_secs(first_s);
        assert_eq!(receiver.next_timeout(), Some(again));
        receiver.handle_timeout(again);
        let answer = receiver.poll_transmit(again).unwrap();
        sender.on_segment(again, &answer);
        assert!(sender.is_established());
        // RFC 6928: if the SYN is lost more than once, the initial window is one segment.
        assert_eq!(sender.cwnd_segments(), 1);
        let acknowledgement = sender.poll_transmit(again).unwrap();
        assert_eq!(acknowledgement.len_bytes, 0);
        assert_eq!(sender.poll_transmit(again).unwrap().len_bytes, 1448);
        assert_eq!(sender.poll_transmit(again), None);
        receiver.on_segment(again, &acknowledgement);
        assert_eq!(receiver.next_timeout(), None);
        assert_eq!(sender.stats().syn_retransmissions, 2);
    }
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_ignored() {
    let mut sender = Sender::new(Config::modern(Congestion::Cubic), Some(100_000), 1).unwrap();
    sender.poll_transmit(Time::ZERO).unwrap();
    let answer = Segment { flags: Flags { syn: true, ack: true, ..Flags::default() }, ..segment(0, 0, 1) };
    // The acknowledgement number is not that of the SYN.
    sender.on_segment(Time::from_ms(1), &Segment { ack: 7, ..answer });
    assert!(!sender.is_established());
    sender.on_segment(Time::from_ms(1), &answer);
    assert!(sender.is_established());
    while sender.poll_transmit(Time::from_ms(1)).is_some() {}
    let before = sender.stats();
    let mut forged = Segment { ack: 1 + 50_000, ..segment(1, 0, 2) };
    sender.on_segment(Time::from_ms(2), &forged);
    forged.ack = u64::MAX;
    sender.on_segment(Time::from_ms(2), &forged);
    assert_eq!(sender.stats(), before);
    // SACK blocks beyond the sent data count only up to the end of that data.
    forged.ack = 1;
    forged.sack.push(1, 1 + 1448, u64::from(u32::MAX));
    sender.on_segment(Time::from_ms(2), &forged);
    assert_eq!(sender.stats().delivered_segments, 9);
    assert!(!sender.is_finished());
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let good = Config::modern(Congestion::Cubic);
    let refused = |config: Config| Sender::new(config, None, 1).unwrap_err();
    assert_eq!(refused(Config { mss_bytes: 0, ..good }), ConfigError::Mss);
    assert!(matches!(refused(Config { max_window_bytes: 1447, ..good }), ConfigError::Window { .. }));
    assert_eq!(refused(Config { initial_window_segments: 0, ..good }), ConfigError::InitialWindow);
    assert_eq!(refused(Config { min_rto: Duration::ZERO, ..good }), ConfigError::Rto);
    assert_eq!(refused(Config { max_rto: Duration::from_millis(100), ..good }), ConfigError::Rto);
    assert!(Receiver::new(Config { mss_bytes: 0, ..good }).is_err());
}
