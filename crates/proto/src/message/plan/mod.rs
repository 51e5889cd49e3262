//! Plans that meet a deadline with the fewest datagrams (`spec/protocol.md` \[message-10\]). A plan sets the number of
//! neighbouring messages coded together, the number of repair symbols that follow them, the gap between these, and the
//! symbols sent after each report of losses.
//!
//! Every policy costs datagrams and loses messages. With a price for a lost message, in datagrams, each decision can be
//! optimised alone, from the last to the first. The search raises the price until the policy loses no more than the
//! target permits. Policies are discrete, so that the target usually lies between two of them. These two then
//! alternate.
//!
//! * [`chain`]: the loss model of consecutive datagrams.
//! * [`rounds`]: the symbols sent after a report.
//! * [`candidates`]: groups of messages coded together, and the symbols sent before any report.

mod candidates;
pub(crate) mod chain;
pub(crate) mod rounds;

use self::candidates::Candidate;
use self::chain::LossModel;
use self::rounds::{Outcome, RoundArrivals, Rounds};

/// Highest price of a lost message, datagrams, multiplied by the share of messages that may be lost. A target that is
/// out of reach at this price is missed: reaching it would cost too many datagrams.
const PRICE_MAX: f64 = 4.0;
/// Price of a datagram that exceeds the session's rate, relative to one within it.
const EXCESS_PRICE: f64 = 1e6;
/// Bisection steps in the search for the price.
const STEPS: usize = 10;

/// Input of a plan: path, message kind and target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Question {
    /// Loss statistics of the path.
    pub(crate) losses: LossModel,
    /// Source symbols of one message.
    pub(crate) k: usize,
    /// Mean time between two messages, seconds.
    pub(crate) spacing_s: f64,
    /// Time after a message's hand-over in which its symbols may still leave, seconds.
    pub(crate) time_s: f64,
    /// Time from sending a symbol until its fate is known, seconds.
    pub(crate) round_s: f64,
    /// Transmission time of a datagram at the session's rate, seconds.
    pub(crate) symbol_s: f64,
    /// Datagrams per message that the session's rate permits.
    pub(crate) datagrams_max: f64,
    /// Most messages that may be coded together.
    pub(crate) group_max: usize,
    /// Share of messages that may be lost.
    pub(crate) lost_max: f64,
}

/// A rule for sending messages: group size, repair symbols in advance, and reactions to reports.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Most messages coded together.
    pub(crate) group: usize,
    /// Longest time from a group's first message until the group is closed, seconds.
    pub(crate) close_s: f64,
    /// Repair symbols sent when the group is closed.
    pub(crate) repairs: usize,
    /// Time between the repair symbols sent when the group is closed, seconds.
    pub(crate) repair_gap_s: f64,
    /// Symbols to send after each report.
    pub(crate) rounds: Rounds,
    /// Time between the symbols of the last round, seconds.
    pub(crate) last_gap_s: f64,
    /// Expected outcome per message.
    expected: Outcome,
}

/// Two policies that alternate to meet the target on average.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cheap: Policy,
    pub(crate) safe: Policy,
    /// Share of groups that use the cheap policy.
    pub(crate) cheap_share: f64,
}

impl Plan {
    pub(crate) fn new(question: &Question) -> Self {
        let (alone, others) = candidates::all(question);
        let mut search =
            Search { question, alone: (alone, None), others: others.into_iter().map(|it| (it, None)).collect() };
        let price_max = PRICE_MAX / question.lost_max;
        let dear = search.cheapest(price_max);
        let free = search.cheapest(1e-3);
        if dear.expected.lost >= question.lost_max || free.expected.lost <= question.lost_max {
            let policy = if dear.expected.lost >= question.lost_max { dear } else { free };
            return Self { cheap: policy.clone(), safe: policy, cheap_share: 1.0 };
        }
        let (mut low, mut high) = ((1e-3, free), (price_max, dear));
        for _ in 0..STEPS {
            let price = (low.0 * high.0).sqrt();
            let policy = search.cheapest(price);
            if policy.expected.lost > question.lost_max {
                low = (price, policy);
            } else {
                high = (price, policy);
            }
        }
        let (cheap, safe) = (low.1, high.1);
        let range = cheap.expected.lost - safe.expected.lost;
        let cheap_share = if range > 0.0 { (question.lost_max - safe.expected.lost) / range } else { 0.0 };
        // `cheap_share` counts messages. Divide by the group sizes to get a share of groups.
        let (of_cheap, of_safe) = (cheap_share / cheap.group as f64, (1.0 - cheap_share) / safe.group as f64);
        Self { cheap_share: of_cheap / (of_cheap + of_safe), cheap, safe }
    }

    /// Returns the mean number of datagrams per message, and the mean share of messages lost.
    #[cfg(test)]
    fn expected(&self) -> (f64, f64) {
        let of_cheap = self.cheap_share * self.cheap.group as f64;
        let of_safe = (1.0 - self.cheap_share) * self.safe.group as f64;
        let mean = |cheap: f64, safe: f64| (of_cheap * cheap + of_safe * safe) / (of_cheap + of_safe);
        let (cheap, safe) = (self.cheap.expected, self.safe.expected);
        (mean(cheap.datagrams, safe.datagrams), mean(cheap.lost, safe.lost))
    }
}

/// Search for the cheapest policy at a given price.
struct Search<'a> {
    question: &'a Question,
    /// Candidate that sends each message by itself. The arrivals of its rounds are computed at first use.
    alone: (Candidate, Option<RoundArrivals>),
    /// Candidates that code messages together.
    others: Vec<(Candidate, Option<RoundArrivals>)>,
}

impl Search<'_> {
    fn cheapest(&mut self, price: f64) -> Policy {
        let mut best = best_of(self.question, &mut self.alone, price);
        for candidate in &mut self.others {
            let policy = best_of(self.question, candidate, price);
            if cost(self.question, policy.expected, price) < cost(self.question, best.expected, price) {
                best = policy;
            }
        }
        best
    }
}

/// Returns the objective to minimise. Every policy that exceeds the session's rate costs more than any policy within
/// it.
fn cost(question: &Question, outcome: Outcome, price: f64) -> f64 {
    let excess = outcome.datagrams - question.datagrams_max;
    outcome.price(price) + if excess > 0.0 { EXCESS_PRICE * excess } else { 0.0 }
}

/// Returns the candidate's cheapest policy, over all numbers of repair symbols sent in advance.
fn best_of(question: &Question, (candidate, arrived): &mut (Candidate, Option<RoundArrivals>), price: f64) -> Policy {
    let (deficit_max, pace) = (candidate.deficit_max(), candidate.pace(question));
    let arrived = arrived.get_or_insert_with(|| RoundArrivals::new(&question.losses, pace, deficit_max));
    let rounds = Rounds::new(arrived, question.k > 1, price, candidate.rounds, deficit_max);
    let outcomes = candidate.outcomes(&rounds);
    let cost = |outcome: Outcome| cost(question, outcome, price);
    let best = outcomes.reduce(|best, other| if cost(other.1) < cost(best.1) { other } else { best });
    let (repairs, expected) = best.unwrap_or_default();
    candidate.policy(question, repairs, rounds, pace, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path with 25 ms one-way delay in each direction, and messages of one symbol.
    fn question(share: f64, spacing_ms: f64, time_ms: f64) -> Question {
        Question {
            losses: LossModel { share, memory_s: 0.0 },
            k: 1,
            spacing_s: spacing_ms / 1e3,
            time_s: time_ms / 1e3,
            round_s: 0.05,
            symbol_s: 0.0,
            datagrams_max: f64::INFINITY,
            group_max: 64,
            lost_max: 0.001,
        }
    }

    /// Compares with the known optima of MDS codes without feedback.
    #[test]
    fn without_reports_it_finds_the_known_least() {
        for (spacing_ms, share, known) in [
            (4.0, 0.01, 1.31),
            (4.0, 0.05, 1.65),
            (4.0, 0.2, 2.66),
            (0.4, 0.01, 1.07),
            (0.4, 0.05, 1.19),
            (0.4, 0.2, 1.61),
        ] {
            let (datagrams, lost) = Plan::new(&question(share, spacing_ms, 10.0)).expected();
            assert!((known - 0.01..known + 0.006).contains(&datagrams), "{spacing_ms} ms, {share}: {datagrams}");
            assert!(lost < 0.001 + 1e-9, "{lost}");
        }
    }

    #[test]
    fn with_reports_it_sends_little_in_advance() {
        for (share, most) in [(0.01, 1.0102), (0.05, 1.0527), (0.2, 1.30)] {
            let (datagrams, lost) = Plan::new(&question(share, 4.0, 130.0)).expected();
            assert!(datagrams < most && lost < 0.001 + 1e-9, "{share}: {datagrams}, {lost}");
        }
    }

    #[test]
    fn what_cannot_be_reached_is_not_paid_for_without_end() {
        let bursts = Question { losses: LossModel { share: 0.05, memory_s: 0.019 }, ..question(0.05, 4.0, 10.0) };
        let (datagrams, lost) = Plan::new(&bursts).expected();
        assert!((0.02..0.035).contains(&lost) && datagrams < 4.0, "{datagrams}, {lost}");
        let nothing = Question { losses: LossModel { share: 0.0, memory_s: 0.0 }, ..bursts };
        assert_eq!(Plan::new(&nothing).expected(), (1.0, 0.0));
        let all = Question { losses: LossModel { share: 1.0, memory_s: 0.0 }, ..bursts };
        assert!(Plan::new(&all).expected().0 < 30.0);
    }

    #[test]
    fn large_messages_are_planned_alone() {
        let large = Question { k: 200, ..question(0.2, 40.0, 20.0) };
        let (datagrams, lost) = Plan::new(&large).expected();
        assert!((255.0..285.0).contains(&datagrams) && lost < 0.001 + 1e-9, "{datagrams}, {lost}");
        assert_eq!(Plan::new(&large).safe.group, 1);
    }
}
