//! Traffic that a receiver can draw from a sender without decoding, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use dfcp_end_to_end_tests::lies::{Drawn, Lie, tell};

/// Result of a lie at one rate.
fn drawn_at(lie: Lie, rate_bps: u64) -> Drawn {
    let drawn = tell(lie, rate_bps).unwrap();
    assert_eq!(drawn.breach(), None, "{lie} at {rate_bps} bit/s: {drawn:?}");
    drawn
}

/// Results of a lie at three rates. At the lowest one, a block takes more than six seconds.
fn drawn(lie: Lie) -> [Drawn; 3] {
    [100_000_000, 10_000_000, 1_000_000].map(|rate_bps| drawn_at(lie, rate_bps))
}

#[test]
fn a_third_message_held_back_and_silence_draw_a_mebibyte() {
    for drawn in drawn(Lie::HeldBack) {
        let most = (1 << 20).min(drawn.rate_bps / 8);
        // The margin covers one packet beyond the limit, probes, and copies of the handshake's ACK.
        assert!(drawn.drawn_bytes <= most + 100_000, "{drawn:?}");
    }
}

#[test]
fn claimed_loss_draws_no_more_than_the_credit_from_whatever_address() {
    for lie in [Lie::Lossy, Lie::LossyFromElsewhere, Lie::LossyAndLate, Lie::LossyAndMoving] {
        for drawn in drawn(lie) {
            // Nothing contradicts this lie.
            assert_eq!(drawn.error, None, "{drawn:?}");
            assert_eq!(drawn.proven_bytes, 0);
        }
    }
}

/// The credit follows the sender's own rate, even if the peer permits any rate.
#[test]
fn a_boundless_rate_cap_draws_no_more_from_a_sender_at_the_line_rate() {
    let drawn = drawn_at(Lie::LossyAtLineRate, 0);
    assert_eq!((drawn.error.as_ref(), drawn.rate_bps), (None, 1_000_000_000), "{drawn:?}");
    assert!(drawn.beyond_s() > 1.0, "nothing was tested: {drawn:?}");
}

/// Reports draw no more traffic, whatever rate they suggest.
#[test]
fn an_automatic_rate_draws_no_more_than_a_fixed_one() {
    let drawn = drawn_at(Lie::LossyAtAutomaticRate, 0);
    assert_eq!((drawn.error.as_ref(), drawn.rate_bps), (None, 100_000_000), "{drawn:?}");
    assert!(drawn.beyond_s() > 0.1, "nothing was tested: {drawn:?}");
}

/// An earlier, honest connection of a peer gives no credit to the next one, which gets as much as any peer before its first report.
#[test]
fn a_remembered_rate_draws_no_more_than_a_mebibyte() {
    let drawn = drawn_at(Lie::SilentAtRememberedRate, 0);
    assert!(drawn.drawn_bytes > 500_000, "the memory was not used, so nothing was tested: {drawn:?}");
    assert!(drawn.drawn_bytes <= (1 << 20) + 100_000, "{drawn:?}");
}

/// The credit follows a configured minimum rate, as it follows a fixed rate, and not the rates suggested by reports.
#[test]
fn a_least_rate_draws_no_more_than_a_fixed_one() {
    for (least_bps, counted_bps) in [(300_000_000, 300_000_000), (20_000_000, 100_000_000)] {
        let drawn = drawn_at(Lie::LossyAtLeastRate, least_bps);
        assert_eq!((drawn.error.as_ref(), drawn.rate_bps), (None, counted_bps), "{drawn:?}");
        assert!(drawn.beyond_s() > 0.1, "nothing was tested: {drawn:?}");
    }
}

/// One block takes six seconds here, and its credit leaves nothing for an additional trickle.
#[test]
fn a_long_block_and_the_trickle_draw_no_more_than_the_block() {
    let drawn = drawn_at(Lie::LongBlocks, 8_000_000);
    assert_eq!((drawn.error.as_ref(), drawn.floor_bytes), (None, 4 * 256 * 4 * 1_492), "{drawn:?}");
    assert!(drawn.beyond_bytes() > drawn.floor_bytes / 10 * 8, "nothing was tested: {drawn:?}");
}

#[test]
fn blind_reports_end_the_connection_at_a_number_which_was_skipped() {
    for lie in [Lie::Blind, Lie::BlindFromElsewhere] {
        // At the lowest rate the credit covers hardly more than the first 128 numbers, none of which is skipped.
        let [fast, slower, _] = drawn(lie);
        for drawn in [fast, slower] {
            assert!(drawn.error.as_ref().is_some_and(|error| error.contains("which was never sent")), "{drawn:?}");
        }
    }
}

#[test]
fn one_honest_block_per_two_seconds_draws_four_and_a_half_and_the_credit() {
    let [fast, ..] = drawn(Lie::OneBlock);
    assert!(fast.proven_bytes > 20 * 60_000, "nothing was tested: {fast:?}");
}

#[test]
fn reports_nine_seconds_late_draw_what_they_prove_and_the_credit() {
    let [fast, ..] = drawn(Lie::NineSecondsLate);
    assert!(fast.proven_bytes > 1 << 20, "nothing was tested: {fast:?}");
}
