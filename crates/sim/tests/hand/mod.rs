//! Test harness for a TCP sender that is driven by hand.

#![allow(dead_code, reason = "each test uses a part of it")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use dfcp_netem::Ecn;
use dfcp_sim::tcp::{Config, Flags, SackBlocks, Segment, Sender};
use dfcp_time::Time;

pub(crate) const MSS: u64 = 1448;

/// Sender driven by hand: the test passes acknowledgements in and gets the numbers of sent segments.
pub(crate) struct Hand {
    pub(crate) sender: Sender,
    pub(crate) now: Time,
}

impl Hand {
    /// Returns a sender after the handshake, and the segments of its first window.
    pub(crate) fn connected(config: Config) -> (Self, Vec<u64>) {
        let mut hand = Self { sender: Sender::new(config, None, 1).unwrap(), now: Time::ZERO };
        let syn = hand.sender.poll_transmit(hand.now).unwrap();
        assert!(syn.flags.syn && !syn.flags.ack);
        assert_eq!(syn.wire_bytes, 60);
        assert_eq!(hand.sender.poll_transmit(hand.now), None);
        let answer = Segment { seq: 0, ..hand.ack_segment(0, &[]) };
        hand.now += Duration::from_millis(10);
        hand.sender.on_segment(
            hand.now,
            &Segment { flags: Flags { syn: true, ack: true, ece: syn.flags.ece, ..Flags::default() }, ..answer },
        );
        let ack = hand.sender.poll_transmit(hand.now).unwrap();
        assert_eq!((ack.seq, ack.ack, ack.len_bytes, ack.wire_bytes), (1, 1, 0, 52));
        let sent = hand.poll();
        (hand, sent)
    }

    pub(crate) fn ack_segment(&self, una: u64, sacked: &[(u64, u64)]) -> Segment {
        let ack = 1 + una * MSS;
        let mut sack = SackBlocks::default();
        for &(start, end) in sacked {
            sack.push(ack, 1 + start * MSS, 1 + end * MSS);
        }
        Segment {
            seq: 1,
            ack,
            ts_val: self.now,
            ts_ecr: self.now,
            sack,
            window_bytes: u32::MAX,
            len_bytes: 0,
            wire_bytes: 52,
            flags: Flags { ack: true, ..Flags::default() },
            ecn: Ecn::NotEct,
        }
    }

    pub(crate) fn poll(&mut self) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            assert_eq!((segment.seq - 1) % MSS, 0);
            sent.push((segment.seq - 1) / MSS);
        }
        sent
    }

    /// Acknowledges all segments below `una`, and selectively those in the ranges `sacked`. Returns the segments sent
    /// in response.
    pub(crate) fn ack(&mut self, una: u64, sacked: &[(u64, u64)]) -> Vec<u64> {
        let segment = self.ack_segment(una, sacked);
        self.now += Duration::from_micros(100);
        self.sender.on_segment(self.now, &segment);
        self.poll()
    }

    pub(crate) fn cwnd(&self) -> u32 {
        self.sender.cwnd_segments()
    }
}
