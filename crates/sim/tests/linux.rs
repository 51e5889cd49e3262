//! The receiver of Linux 6.12, driven by hand: what each mechanism does, worked out from the kernel's
//! sources.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use dfcp_sim::tcp::{Config, Congestion, Flags, Receiver, SackBlocks, Segment};
use dfcp_time::Time;

const MSS: u64 = 1448;

fn reno() -> Config {
    Config::modern(Congestion::NewReno)
}

fn data(number: u64, at: Time, psh: bool) -> Segment {
    Segment {
        seq: 1 + number * MSS,
        ack: 1,
        ts_val: at,
        ts_ecr: Time::ZERO,
        sack: SackBlocks::default(),
        window_bytes: 1 << 30,
        len_bytes: MSS as u32,
        wire_bytes: 1500,
        flags: Flags { ack: true, psh, ..Flags::default() },
    }
}

/// A receiver at 20 ms, past the acknowledgements of the start: `first` is the next segment.
fn receiver() -> (Receiver, u64) {
    let mut receiver = Receiver::new(reno()).unwrap();
    let syn = Segment {
        seq: 0,
        ack: 0,
        len_bytes: 0,
        flags: Flags { syn: true, ..Flags::default() },
        ..data(0, Time::ZERO, false)
    };
    receiver.on_segment(Time::ZERO, &syn);
    receiver.poll_transmit(Time::ZERO).unwrap();
    let at = Time::from_ms(20);
    receiver.on_segment(at, &Segment { len_bytes: 0, ..data(0, at, false) });
    for number in 0..16 {
        receiver.on_segment(at, &data(number, at, false));
        assert!(receiver.poll_transmit(at).is_some(), "{number}");
    }
    (receiver, 16)
}

#[test]
fn the_end_of_a_burst_is_acknowledged_at_once() {
    let (mut receiver, first) = receiver();
    let at = Time::from_ms(20);
    receiver.on_segment(at, &data(first, at, false));
    assert_eq!(receiver.poll_transmit(at), None);
    // 40 ms, and the tick after.
    assert_eq!(receiver.next_timeout(), Some(Time::from_ms(70)));
    receiver.on_segment(at, &data(first + 1, at, false));
    assert!(receiver.poll_transmit(at).is_some());
    receiver.on_segment(at, &data(first + 2, at, true));
    assert!(receiver.poll_transmit(at).is_some());
}

#[test]
fn acknowledgements_above_a_gap_are_held_back_from_the_fourth_on() {
    let (mut receiver, first) = receiver();
    let at = Time::from_ms(21);
    for number in 1..=3 {
        receiver.on_segment(at, &data(first + number, at, false));
        assert!(receiver.poll_transmit(at).is_some(), "{number}");
    }
    for number in 4..=6 {
        receiver.on_segment(at, &data(first + number, at, false));
        assert!(receiver.poll_transmit(at).is_none(), "{number}");
    }
    // 5 % of the 20 ms that the handshake took, and the timer's slack.
    assert_eq!(receiver.next_timeout(), Some(Time::from_us(22_100)));
    // What fills the gap is acknowledged at once, with all.
    receiver.on_segment(at, &data(first, at, false));
    let ack = receiver.poll_transmit(at).unwrap();
    assert_eq!((ack.ack, ack.sack.len()), (1 + (first + 7) * MSS, 0));
    assert_eq!(receiver.next_timeout(), None);
}

#[test]
fn a_needless_retransmission_is_reported_and_delays_nothing_for_a_while() {
    let (mut receiver, first) = receiver();
    let at = Time::from_ms(21);
    receiver.on_segment(at, &data(3, at, false));
    let ack = receiver.poll_transmit(at).unwrap();
    assert_eq!((ack.ack, ack.sack.duplicate()), (1 + first * MSS, Some((1 + 3 * MSS, 1 + 4 * MSS))));
    for number in 0..15 {
        receiver.on_segment(at, &data(first + number, at, false));
        assert_eq!(receiver.poll_transmit(at).unwrap().sack.duplicate(), None);
    }
    receiver.on_segment(at, &data(first + 15, at, false));
    assert_eq!(receiver.poll_transmit(at), None);
}
