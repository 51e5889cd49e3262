//! What a receiver which does not decode can make a sender send, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use dfcp_end_to_end_tests::lies::{Drawn, Lie, tell};

/// Each lie at three rates. At the lowest, one large block is more than six seconds.
fn drawn(lie: Lie) -> [Drawn; 3] {
    [100_000_000, 10_000_000, 1_000_000].map(|rate_bps| {
        let drawn = tell(lie, rate_bps).unwrap();
        assert_eq!(drawn.breach(), None, "{lie} at {rate_bps} bit/s: {drawn:?}");
        drawn
    })
}

#[test]
fn a_third_message_held_back_and_silence_draw_a_mebibyte() {
    for drawn in drawn(Lie::HeldBack) {
        let most = (1 << 20).min(drawn.rate_bps / 8);
        // A packet which passes the limit, probes, and copies of the handshake's ACK.
        assert!(drawn.drawn_bytes <= most + 100_000, "{drawn:?}");
    }
}

#[test]
fn claimed_loss_draws_no_more_than_the_credit_from_whatever_address() {
    for lie in [Lie::Lossy, Lie::LossyFromElsewhere, Lie::LossyAndLate] {
        for drawn in drawn(lie) {
            // It is a lie which nothing contradicts.
            assert_eq!(drawn.error, None, "{drawn:?}");
            assert_eq!(drawn.proven_bytes, 0);
        }
    }
}

#[test]
fn blind_reports_end_the_connection() {
    for lie in [Lie::Blind, Lie::BlindFromElsewhere] {
        let [fast, slower @ ..] = drawn(lie);
        assert!(fast.error.as_ref().is_some_and(|error| error.contains("which was never sent")), "{fast:?}");
        // Without credit the sender may number its datagrams more slowly than the liar guesses.
        for drawn in slower {
            assert!(
                drawn.error.as_ref().is_some_and(|error| error.contains("its report covers datagram")),
                "{drawn:?}"
            );
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
