//! Estimation of the rate at which data is delivered to the receiver (draft-cheng-iccrg-delivery-rate-estimation;
//! `net/ipv4/tcp_rate.c` of Linux).

use dfcp_time::Time;

/// State recorded for each segment when it is sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Segments delivered until then; `delivered_time` is the time of the last delivery.
    delivered: u64,
    delivered_time: Time,
    /// Time at which the first segment of the same flight was sent.
    first_sent: Time,
    app_limited: bool,
}

/// Sample of the delivery rate, taken at one acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// Segments delivered in the interval; `None` if there is no valid sample.
    pub(crate) delivered: Option<u64>,
    pub(crate) interval_ns: u64,
    /// Segments that had been delivered when the newest acknowledged segment was sent.
    pub(crate) prior_delivered: u64,
    /// True if the application limited the sender at that time.
    pub(crate) app_limited: bool,
}

/// Estimator of the delivery rate. Each acknowledgement gives a sample over about one RTT.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryRate {
    /// Ring buffer, indexed by segment number modulo its length, which is a power of two.
    ring: Vec<Sent>,
    delivered: u64,
    delivered_time: Time,
    first_sent: Time,
    /// Samples are application-limited until `delivered` exceeds this count; 0 if the application does not limit the
    /// sender.
    app_limited_until: u64,
    /// State of the segment sent last among those that the current acknowledgement reports, and its time of sending.
    newest: Option<(Sent, Time)>,
}

impl DeliveryRate {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            ring: vec![Sent::default(); capacity],
            delivered: 0,
            delivered_time: Time::ZERO,
            first_sent: Time::ZERO,
            app_limited_until: 0,
            newest: None,
        }
    }

    /// Doubles the ring buffer, keeping the segments from `una` up to `end`.
    pub(crate) fn grow(&mut self, una: u64, end: u64) {
        let mut ring = vec![Sent::default(); self.ring.len() * 2];
        let mask = ring.len() - 1;
        for segment in una..end {
            ring[segment as usize & mask] = self.ring[self.index(segment)];
        }
        self.ring = ring;
    }

    /// Records the transmission of `segment`. `idle` means that nothing else is in flight.
    pub(crate) fn on_sent(&mut self, segment: u64, now: Time, idle: bool) {
        if idle {
            self.first_sent = now;
            self.delivered_time = now;
        }
        let index = self.index(segment);
        self.ring[index] = Sent {
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
            app_limited: self.app_limited_until > 0,
        };
    }

    /// Records the delivery of `segment`, which was last sent at `sent`.
    pub(crate) fn on_delivered(&mut self, segment: u64, sent: Time) {
        self.delivered += 1;
        let state = self.ring[self.index(segment)];
        let newer = |&(newest, time): &(Sent, Time)| (state.delivered, sent) > (newest.delivered, time);
        if self.newest.as_ref().is_none_or(newer) {
            self.newest = Some((state, sent));
        }
    }

    /// Returns the sample of the current acknowledgement. Samples over less than the smallest RTT are invalid, because
    /// the acknowledgements were compressed.
    pub(crate) fn take_sample(&mut self, now: Time, min_rtt_ns: u64) -> RateSample {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Some((state, sent)) = self.newest.take() else { return RateSample::default() };
        self.first_sent = sent;
        self.delivered_time = now;
        let sending_ns = sent.as_ns().saturating_sub(state.first_sent.as_ns());
        let arriving_ns = now.as_ns().saturating_sub(state.delivered_time.as_ns());
        let interval_ns = sending_ns.max(arriving_ns);
        let valid = interval_ns > 0 && interval_ns >= min_rtt_ns;
        RateSample {
            delivered: valid.then_some(self.delivered - state.delivered),
            interval_ns,
            prior_delivered: state.delivered,
            app_limited: state.app_limited,
        }
    }

    /// Records that the application limits the sender while `pipe` segments are in flight.
    pub(crate) fn set_app_limited(&mut self, pipe: u64) {
        self.app_limited_until = (self.delivered + pipe).max(1);
    }

    /// Returns the number of segments delivered so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    fn index(&self, segment: u64) -> usize {
        segment as usize & (self.ring.len() - 1)
    }
}
