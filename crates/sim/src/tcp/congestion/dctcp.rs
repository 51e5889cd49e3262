//! DCTCP (RFC 8257) of Linux 6.12 (`net/ipv4/tcp_dctcp.c`), with the kernel's integer arithmetic. A mark reduces the
//! window in proportion to the share of recently marked segments. Growth, and the response to loss, are those of Reno.

use super::super::window::Window;

/// Value of alpha if all segments are marked.
const ALPHA_MAX: u64 = 1024;
/// Weight of one RTT as a power of two: 2^-`GAIN_SHIFT` (`dctcp_shift_g`).
const GAIN_SHIFT: u32 = 4;
/// Fixed-point shift of alpha. A mark reduces the window by half of alpha.
const ALPHA_SHIFT: u32 = 10;

/// Estimator of the share of marked segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dctcp {
    alpha: u64,
    /// End of the current RTT, which is over when all segments below this one are acknowledged.
    round_end: u64,
    /// Segments delivered before the current RTT; `delivered_ce` counts the marked ones among them.
    delivered: u64,
    delivered_ce: u64,
}

impl Dctcp {
    /// Starts with alpha at its maximum (`dctcp_alpha_on_init`), so that the first mark halves the window.
    pub(super) fn new() -> Self {
        Self { alpha: ALPHA_MAX, round_end: 0, delivered: 0, delivered_ce: 0 }
    }

    /// Port of `dctcp_update_alpha`. `una` is the first unacknowledged segment, `end` the next one to be sent. The two
    /// counts do not include segments that this acknowledgement acknowledges cumulatively.
    pub(crate) fn on_ack(&mut self, una: u64, end: u64, delivered: u64, delivered_ce: u64) {
        if una < self.round_end {
            return;
        }
        let (all, marked) = (delivered - self.delivered, delivered_ce - self.delivered_ce);
        let part = self.alpha >> GAIN_SHIFT;
        // A small remainder is dropped at once: the shift would never reduce it.
        self.alpha -= if part == 0 { self.alpha } else { part };
        if marked > 0 {
            self.alpha = (self.alpha + (marked << (ALPHA_SHIFT - GAIN_SHIFT)) / all.max(1)).min(ALPHA_MAX);
        }
        (self.round_end, self.delivered, self.delivered_ce) = (end, delivered, delivered_ce);
    }

    /// Returns the window after a mark, in segments (`dctcp_ssthresh`).
    pub(super) fn threshold_after_mark(&self, window: &Window) -> u32 {
        let taken = (u64::from(window.cwnd) * self.alpha) >> (ALPHA_SHIFT + 1);
        (window.cwnd - u32::try_from(taken).unwrap_or(window.cwnd)).max(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates an RTT in which `marked` of `all` segments are marked. Returns alpha.
    fn round(dctcp: &mut Dctcp, all: u64, marked: u64) -> u64 {
        let (delivered, delivered_ce) = (dctcp.delivered + all, dctcp.delivered_ce + marked);
        dctcp.on_ack(dctcp.round_end, dctcp.round_end + all, delivered, delivered_ce);
        dctcp.alpha
    }

    fn after_mark(dctcp: &Dctcp, cwnd: u32) -> u32 {
        dctcp.threshold_after_mark(&Window::new(cwnd, None, u32::MAX))
    }

    /// RFC 8257, section 3.3: alpha = (1 - g)·alpha + g·M with g = 1/16, in units of 1/1024.
    #[test]
    fn alpha_follows_the_marked_share_by_a_sixteenth() {
        let mut dctcp = Dctcp::new();
        assert_eq!(round(&mut dctcp, 10, 0), 960);
        assert_eq!(round(&mut dctcp, 10, 0), 900);
        // Expected alpha: 900 - 56 + 1024/16 · 5/10 = 876.
        assert_eq!(round(&mut dctcp, 10, 5), 876);
        assert_eq!(round(&mut dctcp, 10, 10), 876 - 54 + 64);
        for _ in 0..200 {
            round(&mut dctcp, 100, 25);
        }
        // A quarter is 256/1024. Because of the shifts, alpha stays up to 16 above it.
        assert!((256..=272).contains(&dctcp.alpha), "{}", dctcp.alpha);
        for _ in 0..100 {
            round(&mut dctcp, 100, 0);
        }
        assert_eq!(dctcp.alpha, 0, "nothing marked for long");
    }

    #[test]
    fn a_share_counts_once_its_round_trip_is_over() {
        let mut dctcp = Dctcp::new();
        dctcp.on_ack(0, 10, 0, 0);
        let alpha = dctcp.alpha;
        for una in 1..10 {
            dctcp.on_ack(una, 10 + una, una, una);
            assert_eq!(dctcp.alpha, alpha);
        }
        dctcp.on_ack(10, 20, 10, 10);
        assert_eq!(dctcp.alpha, alpha - (alpha >> 4) + 64);
        assert_eq!(dctcp.round_end, 20);
    }

    #[test]
    fn a_mark_takes_half_of_alpha() {
        let mut dctcp = Dctcp::new();
        assert_eq!((after_mark(&dctcp, 100), after_mark(&dctcp, 3), after_mark(&dctcp, 2)), (50, 2, 2));
        dctcp.alpha = 256;
        assert_eq!(after_mark(&dctcp, 100), 88);
        dctcp.alpha = 0;
        assert_eq!(after_mark(&dctcp, 100), 100);
    }
}
