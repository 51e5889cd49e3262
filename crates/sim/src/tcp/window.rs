//! Congestion window and its growth.

/// Congestion window, counted in segments as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Congestion window, segments.
    pub(crate) cwnd: u32,
    /// Slow-start threshold, segments.
    pub(crate) ssthresh: u32,
    /// Acknowledged segments counted towards the next growth by one segment.
    pub(crate) credit: u32,
    /// Maximum window, segments.
    pub(crate) limit: u32,
}

impl Window {
    pub(crate) fn new(cwnd: u32, ssthresh: Option<u32>, limit: u32) -> Self {
        Self { cwnd: cwnd.min(limit), ssthresh: ssthresh.unwrap_or(u32::MAX), credit: 0, limit }
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by one segment per acknowledged segment, up to the threshold. Returns the number of acknowledged segments
    /// that are left.
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let target = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (target - self.cwnd);
        self.cwnd = target.min(self.limit);
        left
    }

    /// Grows by one segment per `every` acknowledged segments.
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
