//! Number of symbols to send: the arithmetic of the `Adaptive` schedule (`spec/protocol.md`, "Adaptive").
//!
//! A block that lacks `d` symbols on a path with loss `p` needs about `d/(1−p)` more symbols. Sending exactly that
//! number overshoots half of the time, and the surplus is wasted. Sending a little less costs another round for some
//! blocks, which is free as long as the window spans the rounds. The first rounds are therefore reduced by `c` standard
//! deviations. Where the window does not span them, each round has a little more than needed instead.

use crate::limits::{LOSS_BELIEVED_MAX, ROUND_LOSS_BELIEVED_MAX, SYMBOLS_PER_BLOCK_FACTOR};

/// Target of proactive repair: probability that a block still fails to decode.
const PROACTIVE_FAILURE_MAX: f64 = 1e-6;

/// Probability that exactly K symbols do not decode: a random matrix over GF(256) is singular.
const SINGULAR: f64 = 1.0 / 255.0;

/// The purpose of a round, which decides how many symbols it has more or less than needed on average.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Few symbols in vain: another round costs nothing, as the window has room for it.
    FewSymbols,
    /// Few rounds: the window holds the sender back (\[window-8\]), so each round that a block takes costs as much as
    /// the whole window carries in it.
    FewRounds,
    /// Low latency.
    Latency,
}

/// Returns the reduction `c` in standard deviations for `round` (0 is a block's first round). A negative `c` adds
/// symbols.
pub(crate) fn margin(purpose: Purpose, round: u32) -> f64 {
    match (purpose, round) {
        (Purpose::FewSymbols, 0 | 1) => 1.0,
        (Purpose::FewSymbols, 2 | 3) => 0.0,
        (Purpose::FewSymbols | Purpose::FewRounds, _) => -1.0,
        (Purpose::Latency, _) => -2.0,
    }
}

/// Returns the number of symbols to send for `missing` symbols at loss `p`: `max(1, round((d − c·√(d·p))/(1−p)))`, with
/// `d` = `missing`.
pub(crate) fn round_size(missing: u32, p: f64, c: f64) -> u32 {
    let p = p.clamp(0.0, ROUND_LOSS_BELIEVED_MAX);
    let d = f64::from(missing);
    let n = ((d - c * (d * p).sqrt()) / (1.0 - p)).round();
    (n as u32).max(1)
}

/// Returns the expected arrivals per symbol sent, for the ceiling on a block's symbols.
pub(crate) fn expected_arrival(p: f64) -> f64 {
    1.0 - p.clamp(0.0, ROUND_LOSS_BELIEVED_MAX)
}

/// Returns the number of symbols that a block of `k` symbols may take on credit ([credit-2]). With `k` missing symbols,
/// also the bound of proactive repair in flight.
pub(crate) fn symbols_per_block_max(k: u32, p: f64) -> u32 {
    (SYMBOLS_PER_BLOCK_FACTOR * f64::from(k) / (1.0 - believed(p))).ceil() as u32
}

/// Returns the least number of symbols in flight with which a block lacking `missing` symbols decodes with probability
/// ≥ 1 − 10⁻⁶ (\[plan-4\]).
pub(crate) fn proactive_in_flight(missing: u32, p: f64) -> u32 {
    let p = believed(p);
    let (mut low, mut high) = (missing, symbols_per_block_max(missing, p).max(missing + 24));
    while low < high {
        let middle = low + (high - low) / 2;
        if failure(missing, middle, p) <= PROACTIVE_FAILURE_MAX {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Returns the probability that fewer than `missing` innovative symbols arrive of `in_flight`, each lost with
/// probability `p`.
fn failure(missing: u32, in_flight: u32, p: f64) -> f64 {
    if p <= 0.0 {
        return if in_flight < missing { 1.0 } else { 0.0 };
    }
    let (n, q) = (f64::from(in_flight), 1.0 - p);
    // P(X = 0) = pⁿ underflows for long blocks, so the loop computes with logarithms.
    let mut log_term = n * p.ln();
    let mut sum = 0.0;
    for i in 0..=in_flight.min(missing + 1) {
        let term = log_term.exp();
        sum += match i.checked_sub(missing) {
            None => term,
            Some(0) => term * SINGULAR,
            Some(_) => term * SINGULAR * SINGULAR,
        };
        log_term += ((n - f64::from(i)) / (f64::from(i) + 1.0) * (q / p)).ln();
    }
    sum
}

/// Returns the symbols per block for bulk data. Blocks are short while losses are rare, to save memory, and longer at
/// higher loss, because the relative overshoot falls with 1/√K (\[stream-5\]). Blocks are also longer if a window of
/// `window_blocks` short blocks holds little more than `in_flight` datagrams: the slowest block of a window takes many
/// round trips. They are longer, too, if there are more short blocks in flight than a report can list (\[window-8\]).
pub(crate) fn bulk_block_symbols(p: f64, window_blocks: u32, in_flight: usize) -> usize {
    let by_loss = match p {
        p if p < 0.15 => 45,
        p if p < 0.25 => 128,
        _ => 256,
    };
    let is_long = |symbols: &usize| {
        *symbols >= by_loss
            && window_blocks as usize * symbols >= WINDOW_FLIGHTS * in_flight
            && ROUNDS_LISTED * in_flight <= LISTED_BLOCKS * symbols
    };
    [45, 128].into_iter().find(is_long).unwrap_or(256)
}

/// Least capacity of a window, as a multiple of the data in flight.
const WINDOW_FLIGHTS: usize = 16;

/// Blocks that lack symbols up to which a report surely lists them all. A datagram of full size has room for up to 1300,
/// and decoded blocks between them take some of it.
pub(crate) const LISTED_BLOCKS: usize = 1_024;

/// Unacknowledged blocks, as a multiple of those that are in flight: most blocks lack symbols in their second round, too.
const ROUNDS_LISTED: usize = 2;

fn believed(p: f64) -> f64 {
    p.clamp(0.0, LOSS_BELIEVED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_loss_a_round_sends_what_is_missing() {
        for d in 1..=256 {
            assert_eq!(round_size(d, 0.0, 1.0), d);
            assert_eq!(proactive_in_flight(d, 0.0), d);
        }
    }

    #[test]
    fn a_lying_loss_rate_is_not_believed_past_its_limit() {
        assert_eq!(round_size(45, 1.0, 0.0), round_size(45, ROUND_LOSS_BELIEVED_MAX, 0.0));
        assert_eq!(expected_arrival(1.0), 1.0 - ROUND_LOSS_BELIEVED_MAX);
        assert_eq!(symbols_per_block_max(45, 0.999), 4 * 45 * 4);
    }

    #[test]
    fn one_byte_at_five_per_cent_goes_out_five_times() {
        assert_eq!(proactive_in_flight(1, 0.05), 5, "all five are lost with probability 3e-7");
    }

    #[test]
    fn blocks_grow_with_the_losses_and_where_many_are_in_flight() {
        assert_eq!([0.0, 0.14, 0.15, 0.25].map(|p| bulk_block_symbols(p, 16_384, 1_000)), [45, 45, 128, 256]);
        assert_eq!([20_000, 40_000, 80_000].map(|flight| bulk_block_symbols(0.01, 16_384, flight)), [45, 128, 256]);
        assert_eq!(bulk_block_symbols(0.2, 4_096, 0), 128);
    }

    #[test]
    fn failure_is_the_binomial_tail() {
        // P(Bin(10, 0.5) < 5) = 386/1024, P(=5) = 252/1024, P(=6) = 210/1024
        let expected = (386.0 + 252.0 * SINGULAR + 210.0 * SINGULAR * SINGULAR) / 1024.0;
        assert!((failure(5, 10, 0.5) - expected).abs() < 1e-12);
    }

    #[test]
    fn proactive_is_the_smallest_number_that_suffices() {
        for (d, p) in [(1, 0.01), (45, 0.05), (106, 0.05), (256, 0.5)] {
            let n = proactive_in_flight(d, p);
            assert!(failure(d, n, p) <= PROACTIVE_FAILURE_MAX);
            assert!(failure(d, n - 1, p) > PROACTIVE_FAILURE_MAX);
        }
    }
}
