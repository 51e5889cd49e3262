//! Estimation of the RTT, and the retransmission timeout (RFC 6298).

use dfcp_time::duration_ns;

use super::config::{Config, RtoFloor};

/// Clock granularity G of RFC 6298, ns.
const GRANULARITY_NS: u64 = 1_000_000;

/// Smoothed RTT and the resulting RTO, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttEstimator {
    srtt_ns: Option<u64>,
    rttvar_ns: u64,
    min_rto_ns: u64,
    floor: RtoFloor,
    max_rto_ns: u64,
    initial_rto_ns: u64,
    backoff: u32,
}

impl RttEstimator {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            srtt_ns: None,
            rttvar_ns: 0,
            min_rto_ns: duration_ns(config.min_rto),
            floor: config.rto_floor,
            max_rto_ns: duration_ns(config.max_rto),
            initial_rto_ns: duration_ns(config.initial_rto),
            backoff: 0,
        }
    }

    pub(crate) fn on_sample(&mut self, rtt_ns: u64) {
        let Some(srtt) = self.srtt_ns else {
            self.srtt_ns = Some(rtt_ns);
            self.rttvar_ns = rtt_ns / 2;
            return;
        };
        let error = srtt.abs_diff(rtt_ns);
        self.rttvar_ns = self.rttvar_ns - self.rttvar_ns / 4 + error / 4;
        self.srtt_ns = Some(srtt - srtt / 8 + rtt_ns / 8);
    }

    pub(crate) fn srtt_ns(&self) -> Option<u64> {
        self.srtt_ns
    }

    /// Returns the current RTO, including exponential back-off since the last new acknowledgement, ns.
    pub(crate) fn rto_ns(&self) -> u64 {
        let margin = (4 * self.rttvar_ns).max(GRANULARITY_NS);
        let base = match (self.srtt_ns, self.floor) {
            (None, _) => self.initial_rto_ns,
            (Some(srtt), RtoFloor::Timer) => (srtt + margin).max(self.min_rto_ns),
            (Some(srtt), RtoFloor::Margin) => srtt + margin.max(self.min_rto_ns),
        };
        base.saturating_mul(1 << self.backoff.min(32)).min(self.max_rto_ns)
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }

    pub(crate) fn end_back_off(&mut self) {
        self.backoff = 0;
    }

    /// Returns the number of timeouts since the last new acknowledgement.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Congestion;
    use super::*;

    fn estimator() -> RttEstimator {
        RttEstimator::new(&Config { rto_floor: RtoFloor::Timer, ..Config::modern(Congestion::NewReno) })
    }

    #[test]
    fn follows_rfc_6298() {
        let mut rtt = estimator();
        assert_eq!(rtt.rto_ns(), 1_000_000_000);
        // First sample R = 100 ms: SRTT = R, RTTVAR = R/2, RTO = R + 4·R/2.
        rtt.on_sample(100_000_000);
        assert_eq!(rtt.rto_ns(), 300_000_000);
        // Second sample, 180 ms: RTTVAR = 3/4·50 + 1/4·80 = 57.5 ms, SRTT = 7/8·100 + 1/8·180 = 110 ms.
        rtt.on_sample(180_000_000);
        assert_eq!(rtt.srtt_ns(), Some(110_000_000));
        assert_eq!(rtt.rto_ns(), 340_000_000);
    }

    #[test]
    fn has_a_floor_and_a_ceiling() {
        let mut rtt = estimator();
        rtt.on_sample(1_000_000);
        assert_eq!(rtt.rto_ns(), 200_000_000);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto_ns(), 800_000_000);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto_ns(), 120_000_000_000);
        rtt.end_back_off();
        assert_eq!(rtt.rto_ns(), 200_000_000);
    }

    #[test]
    fn linux_keeps_the_floor_above_the_round_trip() {
        let mut rtt = RttEstimator::new(&Config::modern(Congestion::NewReno));
        for _ in 0..100 {
            rtt.on_sample(200_000_000);
        }
        assert_eq!(rtt.rto_ns(), 400_000_000);
        rtt.on_sample(1_000_000_000);
        // SRTT = 7/8·200 + 1/8·1000 = 300 ms, RTTVAR = 1/4·800 ms.
        assert_eq!(rtt.rto_ns() / 1_000_000, 1_100);
    }
}
