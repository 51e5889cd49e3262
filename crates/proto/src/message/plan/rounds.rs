//! Number of symbols to send after a report, from the number of missing symbols and the number of rounds left before
//! the deadline.

use super::chain::{LossModel, arrivals};

/// Largest deficit (number of missing symbols) that is tabulated. Beyond it, each missing symbol adds the mean number
/// of transmissions.
const DEFICIT_MAX: usize = 32;
/// Most rounds left that are tabulated.
pub(crate) const ROUNDS_MAX: usize = 4;

/// Expected cost and loss of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Mean number of datagrams.
    pub(super) datagrams: f64,
    /// Mean number of messages lost.
    pub(super) lost: f64,
}

impl Outcome {
    pub(super) fn price(self, price: f64) -> f64 {
        self.datagrams + price * self.lost
    }

    fn add(&mut self, share: f64, other: Self) {
        self.datagrams += share * other.datagrams;
        self.lost += share * other.lost;
    }
}

/// Departure times of a round's symbols.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Time from a loss to the round that repairs it, seconds.
    pub(super) round_s: f64,
    /// Gap between the symbols of a round that another round can follow, seconds.
    pub(super) gap_s: f64,
    /// Gap between the symbols of the last round, seconds.
    pub(super) last_gap_s: f64,
    /// Number of symbols of the last round that can leave in time.
    pub(super) last_max: usize,
}

/// Tables of symbols to send, one per stake. The stake is the number of messages lost unless the missing symbols are
/// replaced.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(Vec<OfStake>);

/// Table for one stake: symbols to send, by rounds left and by deficit (missing symbols).
#[derive(Clone, Debug)]
struct OfStake {
    /// Messages lost unless the deficit is filled.
    stake: usize,
    /// Symbols to send, by rounds left − 1 (the present round counts) and by deficit − 1.
    symbols: Vec<Vec<usize>>,
    /// Expected outcomes, by rounds left (from 0) and by deficit − 1.
    outcomes: Vec<Vec<Outcome>>,
    per_symbol: f64,
}

/// Probabilities of each number of arrivals in a round, by the number of symbols sent. `last` is for the last round.
pub(super) struct RoundArrivals {
    more: Vec<Vec<f64>>,
    last: Vec<Vec<f64>>,
    per_symbol: f64,
}

impl RoundArrivals {
    /// Computes the probabilities for deficits up to `deficit_max` symbols.
    pub(super) fn new(model: &LossModel, pace: Pace, deficit_max: usize) -> Self {
        let first_lost = model.after_loss(pace.round_s);
        let per_symbol = 1.0 / (1.0 - first_lost.min(0.95));
        let deficit_max = deficit_max.clamp(1, DEFICIT_MAX);
        // More than 1.6 × the mean number of symbols needed, plus 24, is never worth its price.
        let count_max = (deficit_max as f64 * per_symbol * 1.6) as usize + 24;
        let last = arrivals(model, first_lost, pace.last_gap_s, count_max.min(pace.last_max));
        let more = arrivals(model, first_lost, pace.gap_s, count_max);
        Self { more, last, per_symbol }
    }
}

/// Tabulated stakes, in messages. Other stakes use the next larger table.
const STAKES: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 40];

impl Rounds {
    /// Computes the cheapest decisions for a lost message that costs as much as `price` datagrams, with at most
    /// `rounds` rounds left. With `is_one`, the unit is one message of several symbols, and deficits go up to
    /// `deficit_max`. Otherwise messages have one symbol each, and the largest deficit equals the stake.
    pub(super) fn new(arrived: &RoundArrivals, is_one: bool, price: f64, rounds: usize, deficit_max: usize) -> Self {
        if is_one {
            return Self(vec![OfStake::new(arrived, 1, price, rounds, deficit_max)]);
        }
        let below = STAKES.into_iter().take_while(|&stake| stake < deficit_max);
        let above = STAKES.into_iter().find(|&stake| stake >= deficit_max);
        Self(below.chain(above).map(|stake| OfStake::new(arrived, stake, price, rounds, stake)).collect())
    }

    fn of(&self, stake: usize) -> Option<&OfStake> {
        self.0.iter().find(|of| of.stake >= stake).or_else(|| self.0.last())
    }

    /// Returns the number of symbols to send now. `left` rounds remain, including this one; `deficit` symbols are
    /// missing; `stake` messages are lost unless they are replaced.
    pub(crate) fn symbols(&self, left: usize, deficit: usize, stake: usize) -> usize {
        self.of(stake).map_or(0, |of| of.symbols(left, deficit))
    }

    /// Returns the expected outcome if `left` rounds remain, `deficit` symbols are missing and `stake` messages depend
    /// on them.
    pub(super) fn outcome(&self, left: usize, deficit: usize, stake: usize) -> Outcome {
        self.of(stake).map_or_else(Outcome::default, |of| of.outcome(left, deficit))
    }
}

impl OfStake {
    fn new(arrived: &RoundArrivals, stake: usize, price: f64, rounds: usize, deficit_max: usize) -> Self {
        let deficit_max = deficit_max.clamp(1, DEFICIT_MAX);
        let given_up = vec![Outcome { datagrams: 0.0, lost: stake as f64 }; deficit_max];
        let mut all = Self { stake, symbols: Vec::new(), outcomes: vec![given_up], per_symbol: arrived.per_symbol };
        for left in 1..=rounds.clamp(1, ROUNDS_MAX) {
            let arrivals = if left == 1 { &arrived.last } else { &arrived.more };
            let later = &all.outcomes[left - 1];
            let best = (1..=deficit_max).map(|deficit| best(arrivals, later, deficit, price));
            let (symbols, outcomes) = best.unzip();
            all.symbols.push(symbols);
            all.outcomes.push(outcomes);
        }
        all
    }

    fn symbols(&self, left: usize, deficit: usize) -> usize {
        let Some(of_round) = self.symbols.get(left.min(self.symbols.len()).wrapping_sub(1)) else { return 0 };
        let Some(at) = deficit.checked_sub(1) else { return 0 };
        match (of_round.get(at), of_round.last()) {
            (Some(&symbols), _) => symbols,
            (None, Some(&most)) => most + ((deficit - of_round.len()) as f64 * self.per_symbol) as usize,
            (None, None) => 0,
        }
    }

    fn outcome(&self, left: usize, deficit: usize) -> Outcome {
        let of_round = &self.outcomes[left.min(self.outcomes.len() - 1)];
        let Some(at) = deficit.checked_sub(1) else { return Outcome::default() };
        if let Some(&outcome) = of_round.get(at) {
            return outcome;
        }
        let most = of_round.last().copied().unwrap_or_default();
        let more = if left == 0 { 0.0 } else { (deficit - of_round.len()) as f64 * self.per_symbol };
        Outcome { datagrams: most.datagrams + more, ..most }
    }
}

/// Returns the cheapest number of symbols for a deficit, with its expected outcome.
fn best(arrivals: &[Vec<f64>], later: &[Outcome], deficit: usize, price: f64) -> (usize, Outcome) {
    let nothing = later.get(deficit - 1).copied().unwrap_or_default();
    let mut best = (0, nothing);
    let mut worse = 0;
    for (count, arrived) in arrivals.iter().enumerate().skip(1) {
        let mut outcome = Outcome { datagrams: count as f64, lost: 0.0 };
        for (arrived, &share) in arrived.iter().enumerate().take(deficit) {
            if let Some(&rest) = later.get(deficit - arrived - 1) {
                outcome.add(share, rest);
            }
        }
        if outcome.price(price) < best.1.price(price) {
            (best, worse) = ((count, outcome), 0);
        } else if count > deficit {
            // The cost has a single minimum. Below the deficit all symbols are useless or late; above it each further
            // symbol helps less than the one before.
            worse += 1;
            if worse > 3 {
                break;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEPENDENT: LossModel = LossModel { share: 0.2, memory_s: 0.0 };
    const PACE: Pace = Pace { round_s: 0.05, gap_s: 0.0, last_gap_s: 0.0, last_max: usize::MAX };

    fn rounds(is_one: bool, price: f64) -> Rounds {
        Rounds::new(&RoundArrivals::new(&INDEPENDENT, PACE, 32), is_one, price, 3, 32)
    }

    #[test]
    fn the_last_round_sends_as_many_as_their_price_is_worth() {
        // With one symbol missing, the n-th copy saves 0.8 · 0.2^(n − 1) of a message.
        for (price, copies) in [(1.0, 0), (2.0, 1), (10.0, 2), (1_000.0, 5)] {
            assert_eq!(rounds(false, price).symbols(1, 1, 1), copies, "{price}");
        }
    }

    #[test]
    fn the_more_is_at_stake_the_more_is_sent() {
        let rounds = rounds(false, 100.0);
        let symbols = [2, 4, 12, 30].map(|stake| rounds.symbols(1, 2, stake));
        assert!(symbols.is_sorted() && symbols[0] < symbols[3], "{symbols:?}");
    }

    #[test]
    fn with_rounds_to_come_little_more_is_sent_than_is_missing() {
        let rounds = rounds(true, 1_000.0);
        assert_eq!([1, 2, 3].map(|left| rounds.symbols(left, 1, 1)), [5, 1, 1]);
        assert!(rounds.symbols(3, 10, 1) <= 14 && rounds.symbols(1, 10, 1) >= 17);
        let outcomes = [1, 2, 3].map(|left| rounds.outcome(left, 10, 1));
        assert!(outcomes.windows(2).all(|two| two[1].price(1_000.0) < two[0].price(1_000.0)), "{outcomes:?}");
    }

    #[test]
    fn large_deficits_cost_what_they_take_on_average() {
        let rounds = rounds(true, 1_000.0);
        let (less, more) = (rounds.symbols(2, 32, 1), rounds.symbols(2, 132, 1));
        assert_eq!(more - less, 125);
        assert!(
            rounds.outcome(2, 132, 1).datagrams > 165.0
                && rounds.outcome(0, 132, 1) == Outcome { datagrams: 0.0, lost: 1.0 }
        );
    }
}
