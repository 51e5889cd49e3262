//! Tests of the sender and receiver of Linux 6.12, driven by hand. The expected values of each mechanism are derived
//! from the kernel's sources.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod hand;

use std::time::Duration;

use dfcp_netem::Ecn;
use dfcp_sim::tcp::{Config, Congestion, Flags, Phase, Receiver, SackBlocks, Segment};
use dfcp_time::Time;

use hand::{Hand, MSS};

fn reno() -> Config {
    Config::modern(Congestion::NewReno)
}

/// Returns a configuration with exact timers, so that times can be computed by hand.
fn without_ticks() -> Config {
    Config { tick: Duration::ZERO, ..reno() }
}

impl Hand {
    fn fire(&mut self) -> Vec<u64> {
        self.now = self.sender.next_timeout().unwrap();
        self.sender.handle_timeout(self.now);
        self.poll()
    }

    /// Passes in an acknowledgement that arrives `after` the last event and echoes the timestamp `echoed`. Returns the
    /// segments sent in response.
    fn ack_after(&mut self, after: Duration, una: u64, sacked: &[(u64, u64)], echoed: Time) -> Vec<u64> {
        let segment = Segment { ts_ecr: echoed, ..self.ack_segment(una, sacked) };
        self.now += after;
        self.sender.on_segment(self.now, &segment);
        self.poll()
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_burst_is_what_goes_in_a_millisecond_and_ends_with_a_push() {
    let mut hand = Hand::connected(reno()).0;
    let segment = hand.ack_segment(10, &[]);
    hand.now += 10 * MS;
    hand.sender.on_segment(hand.now, &segment);
    let sent: Vec<(u64, bool)> = std::iter::from_fn(|| hand.sender.poll_transmit(hand.now))
        .map(|data| ((data.seq - 1) / MSS, data.flags.psh))
        .collect();
    assert_eq!(sent.len(), 20);
    // 20 segments per 10 ms, sent twice as fast in slow start, are 5.7 kB or 3 segments per 1/1024 s.
    assert_eq!(
        sent.iter().filter(|(_, push)| *push).map(|(number, _)| *number).collect::<Vec<_>>(),
        [12, 15, 18, 21, 24, 27, 29]
    );
}

#[test]
fn a_fast_retransmission_waits_for_the_reordering_window_or_three_segments() {
    // Two segments above the gap may be reordered: wait for a quarter of the RTT of 10 ms, and 2 ms more.
    let (mut hand, _) = Hand::connected(without_ticks());
    hand.ack_after(10 * MS, 0, &[(1, 2)], Time::ZERO);
    hand.ack_after(Duration::ZERO, 0, &[(1, 3)], Time::ZERO);
    assert_eq!((hand.sender.phase(), hand.sender.stats().recoveries), (Phase::Open, 0));
    assert_eq!(hand.sender.next_timeout().unwrap().since(hand.now), Duration::from_micros(4_500));
    assert_eq!(hand.fire()[0], 0);
    assert_eq!((hand.sender.phase(), hand.sender.stats().timeouts), (Phase::Recovery, 0));

    // After a third segment above the gap, the lost segment is retransmitted immediately.
    let (mut hand, _) = Hand::connected(without_ticks());
    hand.ack_after(10 * MS, 0, &[(1, 3)], Time::ZERO);
    assert_eq!(hand.ack_after(Duration::ZERO, 0, &[(1, 4)], Time::ZERO)[0], 0);
    assert_eq!(hand.sender.phase(), Phase::Recovery);
}

#[test]
fn the_window_comes_down_in_proportion_to_the_window_before() {
    let (mut hand, _) = Hand::connected(without_ticks());
    // Of 10 outstanding segments, 3 have arrived and 1 is lost, so 6 are in flight; the threshold is 5. ceil(3 · 5 /
    // 10) = 2 segments may be sent: the lost one, and a new one.
    assert_eq!(hand.ack_after(10 * MS, 0, &[(1, 4)], Time::ZERO), [0, 10]);
    assert_eq!((hand.cwnd(), hand.sender.ssthresh_segments()), (8, Some(5)));
    // 5 of 10 segments have arrived: ceil(25 / 10) - 2 = 1 segment may be sent.
    assert_eq!(hand.ack_after(Duration::ZERO, 0, &[(1, 6)], Time::ZERO), [11]);
    let echoed = hand.now;
    // Below the threshold, one segment is sent per arrival, and one more after a safe acknowledgement.
    hand.ack_after(Duration::ZERO, 0, &[(1, 10)], echoed);
    hand.ack_after(10 * MS, 12, &[], echoed);
    assert_eq!((hand.cwnd(), hand.sender.phase()), (5, Phase::Open));
}

#[test]
fn a_tail_is_probed_after_two_round_trips() {
    let (mut hand, _) = Hand::connected(without_ticks());
    // The probe is due after 2 · 10 ms + 2 ms. It is new data, beyond the window.
    assert_eq!(hand.sender.next_timeout().unwrap().since(hand.now), 22 * MS);
    assert_eq!(hand.fire(), [10]);
    assert_eq!((hand.sender.stats().probes, hand.sender.stats().timeouts, hand.cwnd()), (1, 0, 10));
    // There is one probe per flight. The retransmission timer follows, after 10 ms + 200 ms.
    assert_eq!(hand.sender.next_timeout().unwrap().since(hand.now), 210 * MS);
}

#[test]
fn timers_fire_with_the_tick_after_they_are_due() {
    let (hand, _) = Hand::connected(reno());
    // 22 ms are 3 ticks of 10 ms, and the timer wheel adds another tick. The data was sent at 10 ms.
    assert_eq!(hand.sender.next_timeout(), Some(Time::from_ms(50)));
}

#[test]
fn a_timeout_without_loss_is_found_out_and_undone() {
    let (mut hand, _) = Hand::connected(without_ticks());
    hand.fire();
    assert_eq!(hand.fire(), [0]);
    assert_eq!((hand.sender.phase(), hand.sender.stats().timeouts, hand.cwnd()), (Phase::Loss, 1, 1));
    // The echoed timestamp precedes the retransmission, so the original has arrived (RFC 3522).
    hand.ack_after(MS, 1, &[], Time::ZERO);
    assert_eq!((hand.sender.phase(), hand.sender.ssthresh_segments()), (Phase::Open, None));
    assert!(hand.cwnd() >= 10);
}

#[test]
fn frto_sends_something_new_and_believes_what_arrives() {
    let config = Config { timestamps: false, ..without_ticks() };
    let (mut hand, _) = Hand::connected(config);
    hand.fire();
    assert_eq!(hand.fire(), [0]);
    // RFC 5682, step 2b: the first acknowledgement advances, so new data is sent instead of lost data.
    let sent = hand.ack_after(MS, 1, &[], Time::ZERO);
    assert!(sent.iter().all(|&number| number >= 11) && !sent.is_empty(), "{sent:?}");
    // Step 3b: a segment that was sent only once has arrived.
    hand.ack_after(MS, 3, &[], Time::ZERO);
    assert_eq!(hand.sender.phase(), Phase::Open);
    assert!(hand.cwnd() >= 10);

    // Step 3a: only new data is selectively acknowledged, so the rest was lost.
    let (mut hand, _) = Hand::connected(config);
    hand.fire();
    hand.fire();
    hand.ack_after(MS, 1, &[], Time::ZERO);
    let sent = hand.ack_after(10 * MS, 1, &[(11, 12)], Time::ZERO);
    assert_eq!((sent[0], hand.sender.phase()), (1, Phase::Loss));
}

#[test]
fn a_report_of_duplicates_undoes_the_reduction() {
    let (mut hand, _) = Hand::connected(without_ticks());
    let reduced = hand.ack_after(10 * MS, 0, &[(1, 4)], Time::ZERO);
    assert_eq!(reduced[0], 0);
    let echoed = hand.now;
    // The original arrives late, and then the retransmission.
    hand.ack_after(MS, 4, &[], echoed);
    let mut segment = Segment { ts_ecr: echoed, ..hand.ack_segment(10, &[]) };
    segment.sack.set_duplicate(1, 1 + MSS);
    hand.now += MS;
    hand.sender.on_segment(hand.now, &segment);
    assert_eq!((hand.sender.phase(), hand.sender.ssthresh_segments()), (Phase::Open, None));
    assert!(hand.cwnd() >= 10, "{}", hand.cwnd());
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
        ecn: Ecn::NotEct,
    }
}

/// Returns a receiver at 20 ms, after its initial acknowledgements and window growth, and the number of the next
/// segment.
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
    let mut number = 0;
    loop {
        receiver.on_segment(at, &data(number, at, false));
        number += 1;
        if receiver.poll_transmit(at).is_none() {
            break;
        }
    }
    assert!((17..40).contains(&number), "{number}");
    // From here on, every second segment is acknowledged.
    receiver.on_segment(at, &data(number, at, false));
    assert!(receiver.poll_transmit(at).is_some());
    (receiver, number + 1)
}

#[test]
fn the_end_of_a_burst_is_acknowledged_at_once() {
    let (mut receiver, first) = receiver();
    let at = Time::from_ms(20);
    receiver.on_segment(at, &data(first, at, false));
    assert_eq!(receiver.poll_transmit(at), None);
    // The delay is 40 ms, rounded up to the next tick.
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
    // The delay is 5 % of the handshake's RTT of 20 ms, and the slack of the timer.
    assert_eq!(receiver.next_timeout(), Some(Time::from_us(22_100)));
    // The segment that fills the gap is acknowledged immediately, together with all others.
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
