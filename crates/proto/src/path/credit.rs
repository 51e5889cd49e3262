//! Credit: bytes that may be sent to a peer without proof that it decodes (`spec/protocol.md` §11.1).
//!
//! A lying receiver can claim any loss, delay and deficit, and the sender cannot check them. It can check decoding. So
//! a sender lends its peer a fixed amount. Every byte sent is a debt, and only decoded blocks pay it off, with interest
//! that covers an honest path's loss. Neither time nor reports alone pay it off.

use std::time::Duration;

use dfcp_time::Time;

use crate::limits;

/// Each proven byte pays off 9/2 bytes sent. A path with 75 % loss needs 4 bytes per proven byte.
const PROVEN_NUMERATOR: i64 = 9;
const PROVEN_DENOMINATOR: i64 = 2;

/// Traffic that the remaining credit permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spending {
    /// Any traffic.
    Freely,
    /// Symbols that reports have shown to be needed, and new blocks: half of the credit is used up (\[credit-5\]).
    Needed,
    /// Only the oldest open block, or a new one if none is open: the remaining credit may be just enough for it.
    OldestBlock,
    /// Only the oldest open block, at a small share of the rate: the credit is used up.
    Trickle {
        /// Earliest departure of the next datagram.
        not_before: Time,
    },
}

impl Spending {
    /// Returns true if only the oldest open block may be sent.
    pub(crate) fn is_for_oldest_block(self) -> bool {
        matches!(self, Self::OldestBlock | Self::Trickle { .. })
    }
}

/// Evidence of round trips, from the peer's reports.
#[derive(Clone, Copy, Debug, Default)]
enum Heard {
    /// No report has arrived.
    #[default]
    Nothing,
    /// Reports have arrived, none of them with an RTT sample.
    Unmeasured,
    /// Minimum RTT sample.
    Least(Duration),
}

/// Credit account of one connection's sender, in IP bytes of data datagrams.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    /// Bytes sent, less the bytes paid off by proofs (\[credit-1\]).
    debt: i64,
    proven: RecentSum,
    heard: Heard,
}

impl Credit {
    /// Returns the traffic that may be sent. `last_sent` is the time and the size in bytes of the last data datagram.
    /// `oldest_block_bytes` is called only if needed.
    pub(crate) fn spending(
        &self,
        rate_bps: u64,
        last_sent: (Time, u64),
        oldest_block_bytes: impl FnOnce() -> u64,
    ) -> Spending {
        let trickle = || Spending::Trickle { not_before: last_sent.0 + trickle_interval(rate_bps, last_sent.1) };
        if matches!(self.heard, Heard::Nothing) {
            let first = (rate_bps / 8).min(limits::CREDIT_BEFORE_REPORT_BYTES);
            return if self.debt < first as i64 { Spending::Freely } else { trickle() };
        }
        let by_rate = self.size_bytes(rate_bps, 0);
        if self.debt < by_rate / 2 {
            return Spending::Freely;
        }
        let oldest_block_bytes = oldest_block_bytes();
        let size = self.size_bytes(rate_bps, oldest_block_bytes);
        match size - self.debt {
            ..=0 => trickle(),
            left if left <= (size / 2).min(oldest_block_bytes as i64) => Spending::OldestBlock,
            left if left <= size / 2 => Spending::Needed,
            _ => Spending::Freely,
        }
    }

    /// Returns the credit of a peer that has proven nothing for long, bytes, without the trickle ([credit-2],
    /// [credit-4]). If the oldest block exceeds the credit by rate, a minute's trickle counts towards that block.
    /// Otherwise both together would exceed the bounds of [credit-6].
    fn size_bytes(&self, rate_bps: u64, oldest_block_bytes: u64) -> i64 {
        let rtt = self.least_rtt().min(limits::CREDIT_RTT_MAX);
        let span_ms = (rtt * 8).max(limits::CREDIT_SPAN_MIN).as_millis() as u64; // 4.8 s at most
        let by_rate = (rate_bps / 8).saturating_mul(span_ms) / 1_000;
        let trickle = (rate_bps / 8 / limits::CREDIT_TRICKLE_SHARE).saturating_mul(limits::CREDIT_PERIOD.as_secs());
        let bytes = by_rate.max(oldest_block_bytes.saturating_sub(trickle));
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }

    /// Records that a data datagram was sent.
    pub(crate) fn on_sent(&mut self, now: Time, ip_bytes: u64) {
        // Proofs are forgotten only when a part of the memory time ends, so that most datagrams need no update.
        if now >= self.proven.ends {
            self.proven.advance(now, self.memory());
            self.debt = self.debt.max(-paid_off(self.proven.sum()));
        }
        self.debt = self.debt.saturating_add_unsigned(ip_bytes);
    }

    /// Takes in a proof: the peer has decoded blocks whose source symbols take `ip_bytes` IP bytes.
    pub(crate) fn on_proven(&mut self, now: Time, ip_bytes: u64) {
        self.proven.advance(now, self.memory());
        self.proven.add(ip_bytes);
        self.debt = self.debt.saturating_sub(paid_off(ip_bytes)).max(-paid_off(self.proven.sum()));
    }

    /// Takes in a report. `rtt` is its RTT sample, if any.
    pub(crate) fn on_report(&mut self, rtt: Option<Duration>) {
        self.heard = match (self.heard, rtt) {
            (Heard::Least(least), Some(rtt)) => Heard::Least(least.min(rtt)),
            (Heard::Nothing | Heard::Unmeasured, Some(rtt)) => Heard::Least(rtt),
            (Heard::Nothing, None) => Heard::Unmeasured,
            (heard, None) => heard,
        };
    }

    /// Moves the account to another path of the same peer. The debt stays. The RTT sample is dropped, because it
    /// belongs to the old path.
    pub(crate) fn onto_other_path(self) -> Self {
        let heard = if let Heard::Least(_) = self.heard { Heard::Unmeasured } else { self.heard };
        Self { heard, ..self }
    }

    /// Returns the minimum RTT sample; 0 before there is one.
    fn least_rtt(&self) -> Duration {
        match self.heard {
            Heard::Least(rtt) => rtt,
            Heard::Nothing | Heard::Unmeasured => Duration::ZERO,
        }
    }

    fn memory(&self) -> Duration {
        (self.least_rtt() * 16).max(limits::CREDIT_MEMORY_MIN)
    }
}

/// Returns the time that a datagram of this size takes at the share of the rate that needs no credit.
fn trickle_interval(rate_bps: u64, ip_bytes: u64) -> Duration {
    let share_bps = (rate_bps / limits::CREDIT_TRICKLE_SHARE).max(1);
    let nanos = u128::from(ip_bytes) * 8_000_000_000 / u128::from(share_bps);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(limits::CREDIT_PERIOD)
}

fn paid_off(proven_bytes: u64) -> i64 {
    i64::try_from(proven_bytes).unwrap_or(i64::MAX).saturating_mul(PROVEN_NUMERATOR) / PROVEN_DENOMINATOR
}

/// Sum over a sliding time window of equal parts. The oldest part is dropped as a whole, so that the sum may cover up
/// to one part less than the window, never more. It allocates nothing, because every idle connection has one.
#[derive(Debug, Default)]
struct RecentSum {
    /// Sum of the values added in each part of the time window, newest part first.
    parts: [u64; limits::CREDIT_PARTS],
    /// End of the newest part.
    ends: Time,
}

impl RecentSum {
    fn add(&mut self, value: u64) {
        let [newest, ..] = &mut self.parts;
        *newest = newest.saturating_add(value);
    }

    /// Starts new parts, and drops as many old ones, until the newest part contains `now`.
    fn advance(&mut self, now: Time, memory: Duration) {
        if now < self.ends {
            return;
        }
        let part = memory / limits::CREDIT_PARTS as u32;
        if now.since(self.ends) >= memory {
            *self = Self { parts: Default::default(), ends: now + part };
            return;
        }
        self.parts.rotate_right(1);
        self.parts[0] = 0;
        self.ends += part;
        self.advance(now, memory);
    }

    fn sum(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 80_000_000; // 10 MB/s
    const MB: u64 = 1_000_000;
    const LAST: (Time, u64) = (Time::ZERO, 1_500);

    fn at(ms: u64) -> Time {
        Time::from_ms(ms)
    }

    fn freely() -> u64 {
        panic!("asked for the oldest block")
    }

    /// Returns the account of a peer that has reported this RTT.
    fn reported(rtt_ms: u64) -> Credit {
        let mut credit = Credit::default();
        credit.on_report(Some(Duration::from_millis(rtt_ms)));
        credit
    }

    /// Returns the MB that can be sent before the trickle.
    fn spendable(credit: &mut Credit, now: Time, oldest_block_bytes: u64) -> u64 {
        let mut sent = 0;
        while !matches!(credit.spending(RATE, LAST, || oldest_block_bytes), Spending::Trickle { .. }) {
            credit.on_sent(now, MB);
            sent += 1;
        }
        sent
    }

    #[test]
    fn an_unknown_peer_gets_a_second_of_the_rate_or_a_mebibyte() {
        for (rate_bps, bytes) in [(8_000, 1_000), (1_000_000_000, 1 << 20)] {
            let mut credit = Credit::default();
            credit.on_sent(at(0), bytes - 1);
            assert_eq!(credit.spending(rate_bps, LAST, freely), Spending::Freely);
            credit.on_sent(at(0), 1);
            assert!(matches!(credit.spending(rate_bps, LAST, freely), Spending::Trickle { .. }), "{rate_bps}");
        }
    }

    #[test]
    fn it_is_two_seconds_of_the_rate_or_eight_round_trips_of_at_most_600_ms_or_a_block() {
        for (rtt_ms, megabytes) in [(0, 20), (250, 20), (500, 40), (600, 48), (9_000, 48)] {
            assert_eq!(spendable(&mut reported(rtt_ms), at(0), 0), megabytes, "RTT {rtt_ms} ms");
        }
        // A block of 79.4 MB, less a minute's trickle of 9.4 MB.
        assert_eq!(spendable(&mut reported(10), at(0), 79_375_000), 70);
        let mut credit = reported(9_000);
        credit.on_report(Some(Duration::from_millis(10)));
        assert_eq!(spendable(&mut credit, at(0), 0), 20, "the least RTT counts");
    }

    #[test]
    fn neither_time_nor_reports_bring_it_back() {
        let mut credit = reported(10);
        assert_eq!(spendable(&mut credit, at(0), 0), 20);
        for second in 1..10_000 {
            credit.on_report(Some(Duration::from_millis(5)));
            credit.on_sent(at(second * 1_000), 0);
            assert_eq!(spendable(&mut credit, at(second * 1_000), 0), 0);
        }
        credit.on_proven(at(20_000_000), 2 * MB);
        assert_eq!(spendable(&mut credit, at(20_000_000), 0), 9, "4.5 times what was proven");
    }

    #[test]
    fn a_new_address_keeps_the_debt_and_forgets_the_round_trip() {
        let mut credit = reported(600);
        credit.on_sent(at(0), 30 * MB);
        for second in 1..100 {
            // Without an RTT the credit is 20 MB, all of which is used up. With the previous RTT it is 48 MB, of which
            // 18 MB are left.
            credit = credit.onto_other_path();
            assert_eq!(spendable(&mut credit, at(second * 1_000), 0), 0);
            credit.on_report(None);
            assert_eq!(spendable(&mut credit, at(second * 1_000), 0), 0);
        }
        credit.on_report(Some(Duration::from_millis(600)));
        assert_eq!(spendable(&mut credit, at(100_000), 0), 18);
        // A change of path before the first report does not raise the credit.
        let mut unheard = Credit::default();
        unheard.on_sent(at(0), 1 << 20);
        let mut unheard = unheard.onto_other_path();
        assert_eq!(spendable(&mut unheard, at(0), 0), 0);
    }

    #[test]
    fn what_was_proven_can_be_saved_for_ten_seconds() {
        let mut credit = reported(10);
        (0..100).for_each(|i| credit.on_proven(at(i * 100), MB));
        let mut later = reported(10);
        (0..100).for_each(|i| later.on_proven(at(i * 100), MB));
        assert_eq!(spendable(&mut credit, at(9_900), 0), 20 + 450);
        assert_eq!(spendable(&mut credit, at(9_901), 0), 0);
        assert_eq!(spendable(&mut later, at(21_000), 0), 20);
        let mut slow = reported(2_000);
        (0..100).for_each(|i| slow.on_proven(at(i * 100), MB));
        assert_eq!(spendable(&mut slow, at(21_000), 0), 48 + 450, "16 round trips of 2 s are longer");
    }

    #[test]
    fn a_path_that_loses_three_quarters_goes_on_for_ever_and_one_that_loses_more_does_not() {
        let lasts = |sent_per_proven: u64| {
            let mut credit = reported(100);
            (0..10_000).all(|i| {
                credit.on_sent(at(i * 10), sent_per_proven * 1_000);
                credit.on_proven(at(i * 10), 1_000);
                !matches!(credit.spending(RATE, LAST, || 0), Spending::Trickle { .. })
            })
        };
        assert!(lasts(4) && !lasts(7));
    }

    #[test]
    fn the_last_of_it_is_for_what_is_needed_and_then_for_the_oldest_block() {
        let mut credit = reported(10);
        let mut kinds = Vec::new();
        for _ in 0..21 {
            kinds.push(credit.spending(RATE, LAST, || 4 * MB));
            credit.on_sent(at(0), MB);
        }
        let of = |kind| kinds.iter().filter(|&&it| it == kind).count();
        assert_eq!((of(Spending::Freely), of(Spending::Needed), of(Spending::OldestBlock)), (10, 6, 4));
        assert!(matches!(kinds.last(), Some(Spending::Trickle { .. })));
    }

    #[test]
    fn what_is_sent_without_credit_takes_a_64th_of_the_rate() {
        let mut credit = reported(10);
        spendable(&mut credit, at(0), 0);
        for (rate_bps, wait) in [(RATE, Duration::from_micros(9_600)), (1_000, Duration::from_secs(60))] {
            let spending = credit.spending(rate_bps, (at(1_000), 1_500), || 0);
            assert_eq!(spending, Spending::Trickle { not_before: at(1_000) + wait });
        }
    }

    /// A sender that always uses its whole credit, with an oldest block of any size, and a peer that proves nothing.
    #[test]
    fn in_a_minute_credit_and_trickle_are_six_seconds_of_the_rate_or_one_block() {
        const DATAGRAM_BYTES: u64 = 1_500;
        let rates = [8_000, 20_000, 70_000, 200_000, 1_000_000, 5_000_000, 8_000_000, 9_600_000, 20_000_000];
        for (rate_bps, block_bytes, rtt_ms) in rates
            .into_iter()
            .flat_map(|rate| [6_000, 400_000, 4_096 * DATAGRAM_BYTES].map(|block| (rate, block)))
            .flat_map(|(rate, block)| [10, 600].map(|rtt_ms| (rate, block, rtt_ms)))
        {
            let mut credit = reported(rtt_ms);
            let (mut now, mut last, mut sent) = (at(0), at(0), 0);
            while now < at(60_000) {
                let spending = credit.spending(rate_bps, (last, DATAGRAM_BYTES), || block_bytes);
                if let Spending::Trickle { not_before } = spending
                    && not_before > now
                {
                    now = not_before;
                    continue;
                }
                credit.on_sent(now, DATAGRAM_BYTES);
                (last, sent) = (now, sent + DATAGRAM_BYTES);
                now += Duration::from_nanos(DATAGRAM_BYTES * 8_000_000_000 / rate_bps);
            }
            let most = (rate_bps / 8 * 6).max(block_bytes) + 2 * DATAGRAM_BYTES;
            assert!(sent <= most, "{sent} of {most} bytes at {rate_bps} bit/s, RTT {rtt_ms} ms, block {block_bytes}");
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut credit = reported(u64::MAX);
        credit.on_sent(at(0), u64::MAX);
        credit.on_proven(at(1), u64::MAX / 8);
        assert_eq!(credit.spending(u64::MAX, LAST, || u64::MAX), Spending::Needed);
        assert_eq!(credit.spending(0, LAST, || 0), Spending::Trickle { not_before: at(60_000) });
    }
}
