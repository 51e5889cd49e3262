//! Congestion window and its growth.

/// Window in segments, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Congestion window, segments.
    pub(crate) cwnd: u32,
    /// Slow-start threshold, segments.
    pub(crate) ssthresh: u32,
    /// Acknowledgements counted towards the next segment of growth.
    pub(crate) credit: u32,
    /// Upper limit, segments.
    pub(crate) limit: u32,
}

impl Window {
    pub(crate) fn new(cwnd: u32, ssthresh: Option<u32>, limit: u32) -> Self {
        Self { cwnd: cwnd.min(limit), ssthresh: ssthresh.unwrap_or(u32::MAX), credit: 0, limit }
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by one segment per acknowledged one, up to the threshold. Returns the remaining acknowledged ones.
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let target = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (target - self.cwnd);
        self.cwnd = target.min(self.limit);
        left
    }

    /// Grows by one segment per `every` acknowledged.
    pub(crate) fn additive_increase(&mut self, every: u32, acked: u32) {
        let every = every.max(1);
        if self.credit >= every {
            self.credit = 0;
            self.cwnd += 1;
        }
        self.credit += acked;
        if self.credit >= every {
            self.cwnd = self.cwnd.saturating_add(self.credit / every);
            self.credit %= every;
        }
        self.cwnd = self.cwnd.min(self.limit);
    }
}
