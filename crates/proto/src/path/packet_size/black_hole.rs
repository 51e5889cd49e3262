//! Signs that a path has become narrower: large packets are lost, and nothing else is known to be (\[size-6\]).

/// Large packets in a row of which nothing has been heard.
const SUSPICIOUS: u16 = 8;

/// The same where smaller packets get through, and their arrival may hide that of large ones.
const SUSPICIOUS_AMONG_SMALL: i32 = 32;

/// So much sooner it is asked where packets have the base size: asking costs no size then, and whoever has little to send sends few again.
const SOONER_AT_BASE: i32 = 8;

/// Fate of large packets, or of full ones if none are large. It only raises suspicion: the probes that follow decide.
#[derive(Debug)]
pub(crate) struct LargePackets {
    /// Sent since the last report that was news.
    unheard: u16,
    /// Of known fate since the last of which it is certain that it arrived; below 0 while packets are passed by that were sent before
    /// the size was what it is.
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

    /// A report passes `large` large packets by and `small` others; `arrived` arrived of them all.
    pub(crate) fn on_report(&mut self, large: u64, small: u64, arrived: u64) {
        self.unheard = 0;
        if arrived > small {
            self.lost = self.lost.min(0);
        } else {
            self.lost = self.lost.saturating_add(i32::try_from(large).unwrap_or(i32::MAX));
        }
    }

    /// True if smaller packets get through and larger ones hardly do.
    pub(crate) fn are_lost_among_small(&self, is_above_base: bool) -> bool {
        self.lost >= if is_above_base { self.lost_max } else { self.lost_max / SOONER_AT_BASE }
    }

    /// True if silence since `probes` probes of the peer is suspicious.
    pub(crate) fn are_unheard(&self, probes: u32) -> bool {
        self.unheard >= SUSPICIOUS || probes >= 2 && self.unheard > 0
    }

    /// They have been suspected; if that was wrong, it takes twice as much the next time.
    pub(crate) fn on_suspected(&mut self, is_above_base: bool) {
        if self.are_lost_among_small(is_above_base) {
            self.lost_max = self.lost_max.saturating_mul(2);
        }
        (self.unheard, self.lost) = (0, 0);
    }

    /// Packets have another size from now on; `in_flight` of the present one are under way.
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

    /// Small packets get through, so there is no silence: what arrives is never more than these.
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

    /// A sender of three packets which it repeats need not do so 32 times to learn that the path carries none of them.
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
