//! Snapshots as the breaker sees them: without the periods that are not judged, and without the time in which the
//! peer's silence prevented sending (\[breaker-8\]).

use std::time::Duration;

use super::Snapshot;
use crate::path::unjudged::Judgement;

/// Totals, so far, of the periods that the circuit breaker does not judge.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    time: Duration,
    settled: u64,
    arrived: u64,
    arrived_bits: u64,
    sent_bits: u64,
}

/// Filter that removes excluded periods from a sequence of snapshots, and joins the rest.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Newest snapshot, and the totals excluded up to it.
    last: Option<Box<(Snapshot, LeftOut)>>,
}

impl Watched {
    /// Returns the snapshot without the excluded periods. `None` if the period since the last snapshot is excluded.
    pub(crate) fn see(&mut self, now: Snapshot, judgement: Judgement) -> Option<Snapshot> {
        let last = self.last.get_or_insert_with(|| Box::new((now, LeftOut::default())));
        let before = std::mem::replace(&mut last.0, now);
        let left_out = &mut last.1;
        match judgement {
            Judgement::Judged { silence, forgiven } => {
                left_out.time += silence.min(now.at.since(before.at));
                left_out.settled += forgiven;
            }
            Judgement::LeftOut => {
                left_out.time += now.at.since(before.at);
                left_out.settled += now.settled.saturating_sub(before.settled);
                left_out.arrived += now.arrived.saturating_sub(before.arrived);
                left_out.arrived_bits += now.arrived_bits.saturating_sub(before.arrived_bits);
                left_out.sent_bits += now.sent_bits.saturating_sub(before.sent_bits);
                return None;
            }
        }
        let LeftOut { time, settled, arrived, arrived_bits, sent_bits } = *left_out;
        Some(Snapshot {
            at: now.at - time,
            // Keep the number of datagrams in flight unchanged.
            numbered: now.numbered.saturating_sub(settled),
            settled: now.settled.saturating_sub(settled),
            arrived: now.arrived.saturating_sub(arrived),
            arrived_bits: now.arrived_bits.saturating_sub(arrived_bits),
            sent_bits: now.sent_bits.saturating_sub(sent_bits),
            is_credit_short: now.is_credit_short,
        })
    }
}

#[cfg(test)]
mod tests {
    use dfcp_time::Time;

    use super::*;

    fn snapshot(ms: u64, numbered: u64, settled: u64, arrived: u64) -> Snapshot {
        let at = Time::from_ms(ms);
        let (arrived_bits, sent_bits) = (arrived * 1_000, numbered * 1_000);
        Snapshot { at, numbered, settled, arrived, arrived_bits, sent_bits, is_credit_short: false }
    }

    #[test]
    fn what_is_left_out_leaves_no_gap() {
        let mut watched = Watched::default();
        let judged = Judgement::Judged { silence: Duration::ZERO, forgiven: 0 };
        let first = watched.see(snapshot(1_000, 110, 100, 90), judged).unwrap();
        assert!(watched.see(snapshot(9_000, 300, 200, 90), Judgement::LeftOut).is_none());
        assert!(watched.see(snapshot(9_010, 310, 300, 92), Judgement::LeftOut).is_none());
        let next = watched.see(snapshot(9_020, 320, 310, 101), judged).unwrap();
        assert_eq!((next.at.since(first.at), next.settled, next.arrived), (Duration::from_millis(10), 110, 99));
        assert_eq!((next.numbered - next.settled, next.arrived_bits), (10, 99_000));
    }

    #[test]
    fn a_silence_that_is_judged_takes_no_time() {
        let mut watched = Watched::default();
        watched.see(snapshot(1_000, 110, 100, 90), Judgement::Judged { silence: Duration::ZERO, forgiven: 0 });
        let silence = Duration::from_millis(7_900);
        let next = watched.see(snapshot(9_000, 300, 290, 95), Judgement::Judged { silence, forgiven: 0 }).unwrap();
        assert_eq!((next.at, next.settled, next.arrived), (Time::from_ms(1_100), 290, 95));
    }
}
