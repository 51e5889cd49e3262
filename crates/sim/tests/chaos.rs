//! Chaos tests: a stream completes on every path that loses, delays, reorders and duplicates segments in both
//! directions.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use dfcp_sim::tcp::{Config, Congestion, LossDetection, Receiver, Reduction, Segment, Sender};
use dfcp_time::Time;
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;

#[derive(Clone, Copy, Debug)]
struct Trouble {
    loss: f64,
    duplicate: f64,
    /// Maximum random delay of each segment in addition to 5 ms.
    jitter_us: u64,
    seed: u64,
}

struct Net {
    trouble: Trouble,
    random: Pcg64Mcg,
    /// Segments in flight: time of arrival, order, direction, index.
    in_flight: BinaryHeap<Reverse<(Time, u64, bool, usize)>>,
    segments: Vec<Segment>,
}

impl Net {
    fn chance(&mut self, probability: f64) -> bool {
        ((self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64) < probability
    }

    fn push(&mut self, now: Time, to_receiver: bool, segment: Segment) {
        let copies = 1 + u64::from(self.chance(self.trouble.duplicate));
        for _ in 0..copies {
            if self.chance(self.trouble.loss) {
                continue;
            }
            let late = self.random.next_u64() % (self.trouble.jitter_us + 1);
            let order = self.segments.len() as u64;
            self.in_flight.push(Reverse((
                now + Duration::from_micros(5_000 + late),
                order,
                to_receiver,
                order as usize,
            )));
            self.segments.push(segment);
        }
    }
}

/// Runs a stream of `total` bytes to its end. Returns both ends, or an error if the stream did not complete.
fn transfer(config: Config, total: u64, trouble: Trouble) -> Result<(Sender, Receiver), TestCaseError> {
    let mut sender = Sender::new(config, Some(total), trouble.seed).unwrap();
    let mut receiver = Receiver::new(config).unwrap();
    let random = Pcg64Mcg::new(u128::from(trouble.seed) << 1 | 1);
    let mut net = Net { trouble, random, in_flight: BinaryHeap::new(), segments: Vec::new() };
    let mut now = Time::ZERO;
    let window = u64::from(config.max_window_bytes / config.mss_bytes);
    for _ in 0..1_000_000 {
        while let Some(segment) = sender.poll_transmit(now) {
            let room = sender.stats().acked_bytes + u64::from(config.max_window_bytes);
            prop_assert!(segment.seq + u64::from(segment.len_bytes) <= 1 + room, "{segment:?} is beyond the window");
            prop_assert!(segment.seq + u64::from(segment.len_bytes) <= 1 + total);
            prop_assert!(sender.pipe_segments() <= 2 * window + 1);
            net.push(now, true, segment);
        }
        while let Some(segment) = receiver.poll_transmit(now) {
            for (start, end) in segment.sack.iter(segment.ack) {
                prop_assert!(segment.ack < start && start < end && end <= 1 + total, "{segment:?}");
            }
            net.push(now, false, segment);
        }
        prop_assert!(sender.cwnd_segments() >= 1);
        if sender.is_finished() {
            return Ok((sender, receiver));
        }
        let arrival = net.in_flight.peek().map(|entry| entry.0.0);
        let timers = [sender.next_timeout(), receiver.next_timeout(), arrival];
        let Some(next) = timers.into_iter().flatten().min() else {
            return Err(TestCaseError::fail(format!("nothing is left to happen: {sender:?}")));
        };
        now = now.max(next);
        while let Some(&Reverse((time, _, to_receiver, index))) = net.in_flight.peek()
            && time <= now
        {
            net.in_flight.pop();
            let segment = net.segments[index];
            if to_receiver { receiver.on_segment(now, &segment) } else { sender.on_segment(now, &segment) }
        }
        sender.handle_timeout(now);
        receiver.handle_timeout(now);
    }
    Err(TestCaseError::fail(format!("did not end by {now}: {sender:?}")))
}

fn congestion() -> impl Strategy<Value = Congestion> {
    prop_oneof![
        Just(Congestion::NewReno),
        Just(Congestion::Cubic),
        Just(Congestion::Cubic2008),
        Just(Congestion::Bbr1),
        Just(Congestion::Reno),
        Just(Congestion::Tahoe),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let detection = prop_oneof![Just(LossDetection::Rack), Just(LossDetection::Rfc6675), Just(LossDetection::Fack)];
    let reduction = prop_oneof![Just(Reduction::Prr), Just(Reduction::Classic), Just(Reduction::RateHalving)];
    (congestion(), switches, detection, reduction, 1u32..200).prop_map(
        |(congestion, switches, detection, reduction, window)| {
            let (old, sack, timestamps, lost_retransmissions) = switches;
            let base = if old { Config::linux_2008(congestion) } else { Config::modern(congestion) };
            Config {
                sack,
                timestamps,
                reduction,
                lost_retransmissions,
                loss_detection: detection,
                max_window_bytes: window * 1448,
                ..base
            }
        },
    )
}

fn trouble() -> impl Strategy<Value = Trouble> {
    (0.0..0.4f64, 0.0..0.2f64, 0u64..20_000, any::<u64>()).prop_map(|(loss, duplicate, jitter_us, seed)| Trouble {
        loss,
        duplicate,
        jitter_us,
        seed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn the_stream_completes(config in config(), total in 0u64..400_000, trouble in trouble()) {
        let (sender, receiver) = transfer(config, total, trouble)?;
        prop_assert!(receiver.is_finished());
        prop_assert_eq!(receiver.stats().delivered_bytes, total);
        prop_assert_eq!(sender.stats().acked_bytes, total);
        prop_assert_eq!(sender.pipe_segments(), 0);
        prop_assert_eq!(sender.next_timeout(), None);
    }

    #[test]
    fn nothing_is_sent_twice_where_nothing_is_lost(congestion in congestion(), total in 0u64..400_000) {
        let trouble = Trouble { loss: 0.0, duplicate: 0.0, jitter_us: 0, seed: 1 };
        let (sender, receiver) = transfer(Config::modern(congestion), total, trouble)?;
        prop_assert_eq!(sender.stats().retransmissions, 0);
        prop_assert_eq!(sender.stats().segments, total.div_ceil(1448).max(1));
        prop_assert_eq!(receiver.stats().duplicate_segments, 0);
        prop_assert_eq!(receiver.stats().out_of_order_segments, 0);
    }
}
