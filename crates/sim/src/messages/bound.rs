//! Lower bound on the datagrams per message that keep the share of lost messages below a limit, over all policies that
//! work on groups of consecutive messages.
//!
//! The bound is an optimum that does not depend on any protocol. It assumes that codes are MDS, that a report leaves at
//! each arrival and is never lost, that the fate of a symbol is known exactly one RTT after its departure, and that the
//! properties of the path are known. Policies can be time-shared, so the bound lies on the lower convex hull of their
//! costs and losses.

use std::collections::BTreeMap;
use std::time::Duration;

/// Loss model of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Losses {
    /// Independent losses with this probability.
    Independent(f64),
    /// Bursts in which everything is lost. Their length is exponentially distributed.
    Bursts {
        /// Share of the time, and so of the datagrams, that lies in bursts.
        share: f64,
        /// Mean length of a burst.
        mean: Duration,
    },
}

/// Path and message flow for which the bound is computed.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Loss model of the path.
    pub losses: Losses,
    /// Interval between messages, s.
    pub spacing_s: f64,
    /// Time between a message's earliest arrival and its deadline, s.
    pub beyond_s: f64,
    /// RTT of the path, s.
    pub rtt_s: f64,
    /// Transmission time of a datagram on the path, s.
    pub datagram_s: f64,
    /// Permitted share of lost messages, 0 to 1.
    pub lost_max: f64,
}

/// Computed bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// Minimum number of datagrams per message.
    Datagrams(f64),
    /// The permitted loss cannot be reached: every policy loses at least this share of the messages.
    Lost(f64),
}

/// Maximum number of messages per group.
const GROUP_MAX: usize = 160;
/// Maximum number of messages per group for policies with reports, where every state is computed.
const GROUP_WITH_REPORTS_MAX: usize = 26;
/// Maximum price of a lost message, in datagrams. Higher prices have no practical meaning.
const PRICE_MAX: f64 = 3e4;

impl Bound {
    /// Computes the bound.
    #[must_use]
    pub fn least(&self) -> Least {
        // Each price gives a point on the hull. The bound is on the line between two of the points.
        let without_reports = self.without_reports();
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut price = 0.5;
        while price < PRICE_MAX {
            points.push(self.best(price, &without_reports));
            price *= 1.1;
        }
        points.sort_by(|a, b| b.0.total_cmp(&a.0));
        let fewest = points.last().map_or(1.0, |point| point.0);
        if fewest > self.lost_max {
            return Least::Lost(fewest);
        }
        let mut least = f64::INFINITY;
        for (i, &(lost_more, cheap)) in points.iter().enumerate() {
            for &(lost_less, dear) in &points[i..] {
                if lost_less > self.lost_max || dear < 1.0 {
                    continue;
                }
                let part =
                    if lost_more > self.lost_max { (self.lost_max - lost_less) / (lost_more - lost_less) } else { 1.0 };
                least = least.min(part * cheap + (1.0 - part) * dear);
            }
        }
        Least::Datagrams(least)
    }

    /// Returns the size of the largest group whose first message is not late when the last one is submitted.
    fn group_max(&self) -> usize {
        ((self.beyond_s / self.spacing_s + 1e-9) as usize + 1).min(GROUP_MAX)
    }

    /// Returns the loss share and the datagrams per message of the cheapest policy, if a lost message costs as much as
    /// `price` datagrams.
    fn best(&self, price: f64, without_reports: &[(f64, f64)]) -> (f64, f64) {
        let mut best = (1.0, 0.0);
        let mut consider = |lost: f64, datagrams: f64| {
            if datagrams + price * lost < best.1 + price * best.0 {
                best = (lost, datagrams);
            }
        };
        without_reports.iter().for_each(|&(lost, datagrams)| consider(lost, datagrams));
        for group in 1..=self.group_max() {
            let left_s = self.beyond_s - (group - 1) as f64 * self.spacing_s;
            let rounds = (left_s / self.rtt_s + 1e-9) as usize;
            if rounds > 0 && group <= GROUP_WITH_REPORTS_MAX {
                // In a burst, repair symbols would be lost together with the source symbols.
                let repairs_max = if matches!(self.losses, Losses::Bursts { .. }) { 0 } else { 3 };
                for repairs in 0..=repairs_max {
                    let (lost, datagrams) = self.with_reports(group, repairs, rounds, price);
                    consider(lost, datagrams);
                }
            }
        }
        best
    }

    fn share(&self) -> f64 {
        match self.losses {
            Losses::Independent(share) | Losses::Bursts { share, .. } => share,
        }
    }

    /// Returns two loss probabilities of a datagram: if the datagram `gap_s` earlier was lost, and if that datagram
    /// arrived.
    fn after(&self, gap_s: f64) -> (f64, f64) {
        let share = self.share();
        let alike = match self.losses {
            Losses::Independent(_) => 0.0,
            Losses::Bursts { share, mean } => (-gap_s / (mean.as_secs_f64() * (1.0 - share))).exp(),
        };
        (share + (1.0 - share) * alike, share * (1.0 - alike))
    }

    /// Returns loss share and cost of groups with repair symbols after them, for each size. The repair symbols are
    /// spread over the remaining time. With bursts they may also all be sent at its end, if that is better.
    fn without_reports(&self) -> Vec<(f64, f64)> {
        let is_bursty = matches!(self.losses, Losses::Bursts { .. });
        let most = self.group_max();
        let mut points = Vec::new();
        // Skip most of the large sizes, which make no visible difference.
        for group in (1..=most).filter(|&group| group <= 12 || group % 8 == 0 || group == most) {
            let left_s = self.beyond_s - (group - 1) as f64 * self.spacing_s;
            for repairs in 0..=(group * 4 + 20) {
                let spread_s = left_s / repairs.max(1) as f64;
                let at_end_s = (left_s - repairs as f64 * self.datagram_s).max(0.0);
                let mut lost = self.lost(group, repairs, spread_s, spread_s);
                if is_bursty {
                    lost = lost.min(self.lost(group, repairs, at_end_s, self.datagram_s));
                }
                points.push((lost / group as f64, 1.0 + repairs as f64 / group as f64));
                if lost < 1e-5 * group as f64 {
                    break;
                }
            }
        }
        points
    }

    /// Returns the mean number of lost messages in a group.
    fn lost(&self, group: usize, repairs: usize, wait_s: f64, gap_s: f64) -> f64 {
        if let Losses::Independent(share) = self.losses {
            let arrive = (0..=repairs).map(|arrived| binomial(repairs, arrived, 1.0 - share)).collect::<Vec<_>>();
            let too_few = |missing: usize| arrive.iter().take(missing).sum::<f64>();
            return (1..=group)
                .map(|missing| missing as f64 * binomial(group, missing, share) * too_few(missing))
                .sum();
        }
        // A cell stands for a number of lost source symbols and a number of received repair symbols. It holds two
        // probabilities: that the last symbol was lost, and that it was received.
        let width = repairs + 1;
        let mut cells = vec![(0.0, 0.0); (group + 1) * width];
        cells[0].1 = 1.0 - self.share();
        cells[width].0 = self.share();
        for symbol in 1..group + repairs {
            let gap_s = match symbol {
                _ if symbol < group => self.spacing_s,
                _ if symbol == group => wait_s,
                _ => gap_s,
            };
            let (if_lost, if_arrived) = self.after(gap_s);
            let mut next = vec![(0.0, 0.0); cells.len()];
            for (at, &(lost, came)) in cells.iter().enumerate().filter(|(_, (lost, came))| lost + came > 1e-12) {
                let again = lost * if_lost + came * if_arrived;
                let (at_lost, at_came) = if symbol < group { (at + width, at) } else { (at, at + 1) };
                next[at_lost].0 += again;
                next[at_came].1 += lost + came - again;
            }
            cells = next;
        }
        let counted = cells.iter().enumerate().map(|(at, (lost, came))| (at / width, at % width, lost + came));
        counted.filter(|&(lost, arrived, _)| lost > arrived).map(|(lost, _, p)| lost as f64 * p).sum()
    }

    /// Returns loss share and cost of groups with `repairs` initial repair symbols, and more of them after reports.
    fn with_reports(&self, group: usize, repairs: usize, rounds: usize, price: f64) -> (f64, f64) {
        let left_s = self.beyond_s - (group - 1) as f64 * self.spacing_s - rounds as f64 * self.rtt_s;
        let mut rounds_of =
            Rounds { bound: self, last_s: left_s.max(0.0), price, memory: BTreeMap::new(), arrivals: BTreeMap::new() };
        let (mut lost, mut datagrams) = (0.0, (group + repairs) as f64);
        let share = self.share();
        for missing in 1..=group {
            for arrived in 0..=repairs.min(missing - 1) {
                let p = self.missing(group, missing) * binomial(repairs, arrived, 1.0 - share);
                let (then_lost, then_sent) = rounds_of.best(missing - arrived, missing, rounds);
                lost += p * then_lost;
                datagrams += p * then_sent;
            }
        }
        (lost / group as f64, datagrams / group as f64)
    }

    /// Returns the probability that exactly `missing` source symbols of a group are lost.
    fn missing(&self, group: usize, missing: usize) -> f64 {
        if let Losses::Independent(share) = self.losses {
            return binomial(group, missing, share);
        }
        let mut cells = BTreeMap::from([((0_usize, true), self.share()), ((0, false), 1.0 - self.share())]);
        for symbol in 0..group {
            let mut next = BTreeMap::new();
            for ((lost, was_lost), p) in cells {
                let (if_lost, if_arrived) = self.after(self.spacing_s);
                let is_lost = match (symbol, was_lost) {
                    (0, _) => f64::from(u8::from(was_lost)),
                    (_, true) => if_lost,
                    (_, false) => if_arrived,
                };
                *next.entry((lost + 1, true)).or_insert(0.0) += p * is_lost;
                *next.entry((lost, false)).or_insert(0.0) += p * (1.0 - is_lost);
            }
            cells = next;
        }
        [true, false].into_iter().filter_map(|fate| cells.get(&(missing, fate))).sum()
    }
}

/// Computation of the optimal policy after reports.
struct Rounds<'a> {
    bound: &'a Bound,
    /// Time over which the symbols of the last round can be spread, s.
    last_s: f64,
    price: f64,
    memory: BTreeMap<(usize, usize, usize), (f64, f64)>,
    /// Distribution of the number of arrivals, by number of symbols sent and by whether the round is the last.
    arrivals: BTreeMap<(usize, bool), Vec<f64>>,
}

impl Rounds<'_> {
    /// Returns the expected numbers of lost messages and of datagrams, if `deficit` symbols are missing, `stake`
    /// messages depend on them, and `rounds` round trips remain.
    fn best(&mut self, deficit: usize, stake: usize, rounds: usize) -> (f64, f64) {
        if deficit == 0 {
            return (0.0, 0.0);
        }
        if rounds == 0 {
            return (stake as f64, 0.0);
        }
        if let Some(&known) = self.memory.get(&(deficit, stake, rounds)) {
            return known;
        }
        let mut best = (stake as f64, 0.0);
        let mut worse = 0;
        for symbols in 1.. {
            let (mut lost, mut datagrams) = (0.0, symbols as f64);
            for arrived in 0..deficit.min(symbols + 1) {
                let p = self.arrivals(symbols, rounds == 1)[arrived];
                let then = self.best(deficit - arrived, stake, rounds - 1);
                lost += p * then.0;
                datagrams += p * then.1;
            }
            if datagrams + self.price * lost < best.1 + self.price * best.0 {
                (best, worse) = ((lost, datagrams), 0);
            } else {
                worse += 1;
            }
            if symbols > deficit && worse > 3 {
                break;
            }
        }
        self.memory.insert((deficit, stake, rounds), best);
        best
    }

    /// Returns the distribution of the number of arrivals, for symbols sent an RTT after a loss. In the last round the
    /// symbols are spread over the remaining time; in other rounds they are sent back to back.
    fn arrivals(&mut self, symbols: usize, is_last: bool) -> &[f64] {
        let (bound, last_s) = (self.bound, self.last_s);
        self.arrivals.entry((symbols, is_last)).or_insert_with(|| {
            let first_lost = bound.after(bound.rtt_s).0;
            if let Losses::Independent(share) = bound.losses {
                return (0..=symbols).map(|arrived| binomial(symbols, arrived, 1.0 - share)).collect();
            }
            let gap_s = if is_last { last_s / (symbols.max(2) - 1) as f64 } else { bound.datagram_s };
            let (if_lost, if_arrived) = bound.after(gap_s);
            // A cell stands for a number of arrivals. It holds two probabilities: that the last symbol was lost, and
            // that it was received.
            let mut cells = vec![(0.0, 0.0); symbols + 1];
            (cells[0].0, cells[1.min(symbols)].1) = (first_lost, 1.0 - first_lost);
            for _ in 1..symbols {
                let mut next = vec![(0.0, 0.0); symbols + 1];
                for (arrived, &(lost, came)) in cells.iter().enumerate() {
                    let again = lost * if_lost + came * if_arrived;
                    next[arrived].0 += again;
                    if let Some(more) = next.get_mut(arrived + 1) {
                        more.1 += lost + came - again;
                    }
                }
                cells = next;
            }
            cells.into_iter().map(|(lost, came)| lost + came).collect()
        })
    }
}

/// Returns the probability of exactly `hits` successes in `trials` trials.
fn binomial(trials: usize, hits: usize, p: f64) -> f64 {
    let ways = (0..hits).fold(1.0, |ways, i| ways * (trials - i) as f64 / (i + 1) as f64);
    ways * p.powi(hits as i32) * (1.0 - p).powi((trials - hits) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(losses: Losses, spacing_ms: f64, beyond_ms: f64) -> Least {
        let seconds = |ms: f64| ms / 1e3;
        let (spacing_s, beyond_s) = (seconds(spacing_ms), seconds(beyond_ms));
        Bound { losses, spacing_s, beyond_s, rtt_s: 0.05, datagram_s: 0.00012, lost_max: 0.001 }.least()
    }

    #[test]
    fn it_meets_the_known_points() {
        for (spacing_ms, share, known) in [
            (4.0, 0.01, 1.31),
            (4.0, 0.05, 1.65),
            (4.0, 0.2, 2.66),
            (0.4, 0.01, 1.07),
            (0.4, 0.05, 1.19),
            (0.4, 0.2, 1.61),
        ] {
            let least = bound(Losses::Independent(share), spacing_ms, 10.0);
            assert!(
                matches!(least, Least::Datagrams(it) if (known - 0.01..known + 0.006).contains(&it)),
                "{share}: {least:?}"
            );
        }
        for (share, least, most) in [(0.01, 1.008, 1.012), (0.05, 1.04, 1.054), (0.2, 1.25, 1.302)] {
            let bound = bound(Losses::Independent(share), 4.0, 130.0);
            assert!(matches!(bound, Least::Datagrams(it) if (least..most).contains(&it)), "{share}: {bound:?}");
        }
        let bursts = bound(Losses::Bursts { share: 0.05, mean: Duration::from_millis(20) }, 4.0, 10.0);
        assert!(matches!(bursts, Least::Lost(lost) if (0.028..0.034).contains(&lost)), "{bursts:?}");
    }
}
