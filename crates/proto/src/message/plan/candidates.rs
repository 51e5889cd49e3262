//! Candidate policies: ways to code messages together, with the outcome expected for each number of repair symbols sent
//! in advance.

use super::chain::{Joint, arrivals};
use super::rounds::{Outcome, Pace, ROUNDS_MAX, Rounds};
use super::{Policy, Question};

/// Group sizes that are tried, in messages. The largest sizes that a deadline permits are added.
const GROUPS: [usize; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 40, 64];
/// Repair symbols are added until the expected loss falls below this fraction of the permitted loss.
const ENOUGH: f64 = 0.02;
/// Most repair symbols sent in advance when later rounds can still react to reports.
const REPAIRS_BEFORE_REPORTS_MAX: usize = 6;
/// Deficits less probable than this are ignored if rounds follow.
const NEGLIGIBLE: f64 = 1e-9;
/// Slack of a round, seconds, on top of the report delay and the transmission time of the round's symbols.
const ROUND_SLACK_S: f64 = 0.0005;
/// Symbols that leave back to back take this factor longer than at the session's full rate, because other traffic
/// shares that rate.
const AT_ONCE_SLACK: f64 = 1.2;
/// Time that symbols sent back to back wait for their turn, seconds.
const AT_ONCE_SLACK_S: f64 = 0.0005;
/// With bursty losses, the gap between repair symbols may be one of these fractions of the time left.
const SPREADS: [f64; 5] = [1.0, 0.5, 0.25, 0.125, 0.0625];
/// Fraction of the time left that repair symbols may be spread over. The rest is slack for symbols that leave late.
const SPREAD_PART: f64 = 0.96;

/// A group size and a gap between repair symbols, with the state expected for each number of repair symbols.
pub(super) struct Candidate {
    /// Messages coded together.
    group: usize,
    /// Time from the first message of a group until its last one is due, seconds.
    close_s: f64,
    /// Time between two repair symbols, seconds.
    repair_gap_s: f64,
    /// Number of rounds that fit before the deadline after the group has been sent.
    pub(super) rounds: usize,
    /// Source symbols of the group.
    sources: usize,
    /// Expected state, indexed by the number of repair symbols.
    by_repairs: Vec<Advance>,
}

/// Expected state of a group once its source and repair symbols are sent, before any report.
struct Advance {
    /// Expected number of messages lost if no round follows.
    lost: f64,
    /// Triples of deficit (symbols missing), stake (messages lost unless the deficit is filled) and probability.
    deficits: Vec<(usize, usize, f64)>,
}

/// Returns the candidate that sends each message by itself, and all other candidates.
pub(super) fn all(question: &Question) -> (Candidate, Vec<Candidate>) {
    let mut found = Vec::new();
    let alone = Candidate::new(question, (1, rounds_after(question, 1)), question.symbol_s, usize::MAX);
    for (group, rounds) in groups(question) {
        let close_s = (group - 1) as f64 * question.spacing_s;
        let rest_s = (SPREAD_PART * (question.time_s - close_s)).max(0.0);
        let mut gaps = vec![question.symbol_s];
        if question.losses.memory_s > 0.0 && rounds == 0 {
            gaps.extend(SPREADS.map(|part| part * rest_s).into_iter().filter(|&gap_s| gap_s > question.symbol_s));
        }
        for repair_gap_s in gaps {
            // Symbols due after the deadline are useless.
            let fitting = if repair_gap_s > 0.0 { (rest_s / repair_gap_s + 1e-9) as usize } else { usize::MAX };
            let fitting = if repair_gap_s == question.symbol_s { fitting_at_once(question, rest_s) } else { fitting };
            found.push(Candidate::new(question, (group, rounds), repair_gap_s, fitting));
        }
    }
    (alone, found)
}

/// Returns the number of repair symbols that can leave back to back within `rest_s` seconds.
fn fitting_at_once(question: &Question, rest_s: f64) -> usize {
    if question.symbol_s <= 0.0 {
        return usize::MAX;
    }
    ((rest_s - AT_ONCE_SLACK_S) / (AT_ONCE_SLACK * question.symbol_s)).max(0.0) as usize
}

/// Returns the number of rounds that can follow a group of this size.
fn rounds_after(question: &Question, group: usize) -> usize {
    let left_s = question.time_s - (group - 1) as f64 * question.spacing_s;
    ((left_s / round_s(question, group)).max(0.0) as usize).min(ROUNDS_MAX)
}

/// Returns the time between two rounds of a group of this size, seconds.
fn round_s(question: &Question, group: usize) -> f64 {
    let symbols = 1.0 + 1.5 * question.losses.share * (group * question.k) as f64;
    question.round_s + ROUND_SLACK_S + symbols * question.symbol_s
}

/// Returns the group sizes to try, each with the number of rounds that can follow.
fn groups(question: &Question) -> Vec<(usize, usize)> {
    let fits = |time_s: f64| -> usize {
        let most = if question.spacing_s > 0.0 { time_s / question.spacing_s + 1e-9 } else { f64::INFINITY };
        (most.max(0.0) as usize).saturating_add(1).min(question.group_max)
    };
    if question.k > 1 {
        return vec![(1, rounds_after(question, 1))];
    }
    let most = fits(question.time_s);
    let mut sizes: Vec<usize> = GROUPS.into_iter().filter(|&group| group < most).collect();
    sizes.push(most);
    // For each number of rounds, also try the largest group that leaves time for it.
    sizes.extend(
        (1..=ROUNDS_MAX).filter_map(|rounds| (1..=most).rev().find(|&size| rounds_after(question, size) >= rounds)),
    );
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(|group| (group, rounds_after(question, group))).collect()
}

impl Candidate {
    fn new(question: &Question, (group, rounds): (usize, usize), repair_gap_s: f64, repairs_max: usize) -> Self {
        let close_s = (group - 1) as f64 * question.spacing_s;
        let mut candidate =
            Self { group, close_s, repair_gap_s, rounds, sources: group * question.k, by_repairs: Vec::new() };
        candidate.add_repairs(question, repairs_max);
        candidate
    }

    fn add_repairs(&mut self, question: &Question, repairs_max: usize) {
        let most = if self.rounds > 0 { REPAIRS_BEFORE_REPORTS_MAX } else { 3 * self.sources + 24 };
        let most = most.min(repairs_max);
        if question.k > 1 {
            return self.add_repairs_of_one(question, most);
        }
        let mut joint = Joint::new(&question.losses, self.sources, question.spacing_s, self.repair_gap_s);
        for repairs in 0..=most {
            let mut advance = Advance { lost: 0.0, deficits: Vec::new() };
            joint.for_each(|lost, arrived, share| {
                if lost > arrived {
                    advance.lost += share * lost as f64;
                    if self.rounds > 0 && share > NEGLIGIBLE {
                        advance.deficits.push((lost - arrived, lost, share));
                    }
                }
            });
            let is_enough = advance.lost < ENOUGH * question.lost_max * self.group as f64;
            self.by_repairs.push(advance);
            if is_enough || repairs == most {
                break;
            }
            joint.step();
        }
    }

    /// Adds repair symbols to one message of several symbols. Only the number of lost symbols matters, since any repair
    /// symbol replaces any of them.
    fn add_repairs_of_one(&mut self, question: &Question, most: usize) {
        let all = arrivals(&question.losses, question.losses.share, self.repair_gap_s, self.sources + most);
        for arrived in &all[self.sources..] {
            let deficits: Vec<_> = (0..self.sources).map(|count| (self.sources - count, 1, arrived[count])).collect();
            let lost = deficits.iter().map(|&(_, _, share)| share).sum();
            self.by_repairs.push(Advance { lost, deficits });
            if lost < ENOUGH * question.lost_max {
                break;
            }
        }
    }

    /// Returns the largest deficit to tabulate: all source symbols missing.
    pub(super) fn deficit_max(&self) -> usize {
        self.sources
    }

    pub(super) fn pace(&self, question: &Question) -> Pace {
        let rest_s = (question.time_s - self.close_s - self.rounds as f64 * round_s(question, self.group)).max(0.0);
        let symbols = 1.0 + self.sources as f64;
        let spread_s = (rest_s / symbols).min(question.losses.memory_s);
        let last_gap_s = spread_s.max(question.symbol_s);
        let last_max = if last_gap_s > 0.0 { (rest_s / last_gap_s) as usize + 1 } else { usize::MAX };
        Pace { round_s: question.round_s, gap_s: question.symbol_s, last_gap_s, last_max }
    }

    /// Returns (repair symbols sent in advance, expected outcome per message) for each number of repair symbols.
    pub(super) fn outcomes(&self, rounds: &Rounds) -> impl Iterator<Item = (usize, Outcome)> {
        let (sources, group) = (self.sources as f64, self.group as f64);
        self.by_repairs.iter().enumerate().map(move |(repairs, advance)| {
            let sent = sources + repairs as f64;
            let mut outcome = Outcome { datagrams: sent, lost: advance.lost };
            if self.rounds > 0 {
                outcome.lost = 0.0;
                for &(deficit, stake, share) in &advance.deficits {
                    let then = rounds.outcome(self.rounds, deficit, stake);
                    outcome.datagrams += share * then.datagrams;
                    outcome.lost += share * then.lost;
                }
            }
            (repairs, Outcome { datagrams: outcome.datagrams / group, lost: outcome.lost / group })
        })
    }

    pub(super) fn policy(
        &self,
        question: &Question,
        repairs: usize,
        rounds: Rounds,
        pace: Pace,
        expected: Outcome,
    ) -> Policy {
        // Close a group half a message interval after its last message was due, so that it does not wait for a message
        // that never comes.
        let close_s = (self.close_s + 0.5 * question.spacing_s).min(question.time_s);
        Policy {
            group: self.group,
            close_s,
            repairs,
            repair_gap_s: self.repair_gap_s,
            rounds,
            last_gap_s: pace.last_gap_s,
            expected,
        }
    }
}
