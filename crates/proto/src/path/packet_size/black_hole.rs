//! Signs that a path has become narrower: large packets are lost, and nothing else is known to be.

/// Large packets in a row of which nothing has been heard.
const SUSPICIOUS: u16 = 8;

/// The same where smaller packets get through, and their arrival may hide that of large ones.
const SUSPICIOUS_AMONG_SMALL: u16 = 32;

/// What has become of large packets. It only asks: the probes that follow decide.
#[derive(Debug)]
pub(crate) struct LargePackets {
    /// Sent since the last report that was news.
    unheard: u16,
    /// Of known fate since the last of which it is certain that it arrived.
    lost: u16,
    lost_max: u16,
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
            self.lost = 0;
        } else {
            self.lost = self.lost.saturating_add(u16::try_from(large).unwrap_or(u16::MAX));
        }
    }

    /// Whether smaller packets get through and larger ones hardly can.
    pub(crate) fn are_lost_among_small(&self) -> bool {
        self.lost >= self.lost_max
    }

    /// Whether silence since `probes` probes of the peer is suspicious.
    pub(crate) fn are_unheard(&self, probes: u32) -> bool {
        self.unheard >= SUSPICIOUS || probes >= 2 && self.unheard > 0
    }

    /// They have been suspected; if that was wrong, it takes twice as much the next time.
    pub(crate) fn on_suspected(&mut self) {
        if self.are_lost_among_small() {
            self.lost_max = self.lost_max.saturating_mul(2);
        }
        (self.unheard, self.lost) = (0, 0);
    }
}
