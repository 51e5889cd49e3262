//! Black hole detection: signs that a path has become narrower and drops large packets only (\[size-6\]).

/// Large packets in a row without any report that raise suspicion.
const SUSPICIOUS: u16 = 8;

/// Lost large packets that raise suspicion while smaller packets get through. The threshold is higher, because arrivals
/// are not attributed to sizes.
const SUSPICIOUS_AMONG_SMALL: i32 = 32;

/// Divisor of [`SUSPICIOUS_AMONG_SMALL`] when packets have the base size. A test then does not lower the size, and a
/// sender with little data repeats only few packets.
const SOONER_AT_BASE: i32 = 8;

/// Fate of large packets, or of full ones if none are large. It only raises suspicion; the probes that follow give the
/// verdict.
#[derive(Debug)]
pub(crate) struct LargePackets {
    /// Large packets sent since the last report with news.
    unheard: u16,
    /// Large packets of known fate since the last certain arrival of one. Negative while packets of the previous size
    /// are skipped.
    lost: i32,
    lost_max: i32,
}

impl Default for LargePackets {
    fn default() -> Self {
        Self { unheard: 0, lost: 0, lost_max: SUSPICIOUS_AMONG_SMALL }
    }
}

impl LargePackets {
    pub(crate) fn on_sent(&mut self) {
        self.unheard = self.unheard.saturating_add(1);
    }

    /// Takes in a report on `large` large packets and `small` others, of which `arrived` have arrived in total.
    pub(crate) fn on_report(&mut self, large: u64, small: u64, arrived: u64) {
        self.unheard = 0;
        if arrived > small {
            self.lost = self.lost.min(0);
        } else {
            self.lost = self.lost.saturating_add(i32::try_from(large).unwrap_or(i32::MAX));
        }
    }

    /// Returns true if smaller packets get through and larger ones hardly do.
    pub(crate) fn are_lost_among_small(&self, is_above_base: bool) -> bool {
        self.lost >= if is_above_base { self.lost_max } else { self.lost_max / SOONER_AT_BASE }
    }

    /// Returns true if silence about large packets is suspicious. `probes` is the number of unanswered probes sent
    /// since.
    pub(crate) fn are_unheard(&self, probes: u32) -> bool {
        self.unheard >= SUSPICIOUS || probes >= 2 && self.unheard > 0
    }

    /// Resets the counts after a suspicion, and doubles the threshold in case it was wrong.
    pub(crate) fn on_suspected(&mut self, is_above_base: bool) {
        if self.are_lost_among_small(is_above_base) {
            self.lost_max = self.lost_max.saturating_mul(2);
        }
        (self.unheard, self.lost) = (0, 0);
    }

    /// Resets the counts for a new size. `in_flight` packets of the previous size are skipped.
    pub(crate) fn on_size_changed(&mut self, in_flight: usize) {
        self.unheard = 0;
        self.lost = i32::try_from(in_flight).map_or(i32::MIN, |packets| -packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_suspicious_after_eight_or_after_two_probes() {
        let mut large = LargePackets::default();
        assert!(!large.are_unheard(9));
        large.on_sent();
        assert_eq!((large.are_unheard(1), large.are_unheard(2)), (false, true));
        (1..8).for_each(|_| large.on_sent());
        assert!(large.are_unheard(0));
        large.on_report(8, 0, 1);
        assert!(!large.are_unheard(9), "something is heard");
    }

    /// Small packets get through, so that reports continue. No more packets arrive than small ones were sent.
    #[test]
    fn large_packets_among_small_ones_are_missed() {
        let mut large = LargePackets::default();
        for _ in 0..10 {
            large.on_report(3, 5, 6);
        }
        assert!(!large.are_lost_among_small(true), "one of the large ones has arrived each time");
        (0..11).for_each(|_| large.on_report(3, 5, 5));
        assert!(large.are_lost_among_small(true));
        large.on_suspected(true);
        (0..11).for_each(|_| large.on_report(3, 5, 4));
        assert!(!large.are_lost_among_small(true), "it takes twice as much after a false alarm");
    }

    #[test]
    fn what_was_sent_in_another_size_says_nothing() {
        let mut large = LargePackets::default();
        large.on_size_changed(40);
        (0..20).for_each(|_| large.on_report(3, 5, 5));
        assert!(!large.are_lost_among_small(true));
        (0..10).for_each(|_| large.on_report(3, 5, 5));
        assert!(large.are_lost_among_small(true));
    }

    /// A sender that repeats three packets must not need 32 losses to detect that the path carries none of them.
    #[test]
    fn at_the_base_size_it_is_asked_sooner() {
        let mut full = LargePackets::default();
        (0..4).for_each(|_| full.on_report(1, 1, 1));
        assert_eq!((full.are_lost_among_small(false), full.are_lost_among_small(true)), (true, false));
        full.on_suspected(false);
        (0..4).for_each(|_| full.on_report(1, 1, 1));
        assert!(!full.are_lost_among_small(false), "it takes twice as much after a false alarm");
    }
}
