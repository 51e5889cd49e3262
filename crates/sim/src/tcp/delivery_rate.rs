//! Delivery rate at the receiver (draft-cheng-iccrg-delivery-rate-estimation; `net/ipv4/tcp_rate.c` of Linux).

use dfcp_time::Time;

/// State recorded when a segment is sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Segments delivered by then; the next field is the time of the last delivery.
    delivered: u64,
    delivered_time: Time,
    /// Departure of the first segment of that flight.
    first_sent: Time,
    app_limited: bool,
}

/// Sample of the delivery rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// Segments delivered in the interval; `None` without a sample.
    pub(crate) delivered: Option<u64>,
    pub(crate) interval_ns: u64,
    /// Segments delivered when the newest acknowledged segment was sent.
    pub(crate) prior_delivered: u64,
    /// True if the sender was limited by the application at that time.
    pub(crate) app_limited: bool,
}

/// Meter of the delivery rate over about an RTT, at each acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryRate {
    /// Ring buffer, indexed by segment number modulo its length, a power of two.
    ring: Vec<Sent>,
    delivered: u64,
    delivered_time: Time,
    first_sent: Time,
    /// Delivery count until which samples are application-limited.
    app_limited_until: u64,
    /// Newest segment that this acknowledgement reported, with its departure.
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

    /// Doubles the ring, keeping segments `una` to `end`.
    pub(crate) fn grow(&mut self, una: u64, end: u64) {
        let mut ring = vec![Sent::default(); self.ring.len() * 2];
        let mask = ring.len() - 1;
        for segment in una..end {
            ring[segment as usize & mask] = self.ring[self.index(segment)];
        }
        self.ring = ring;
    }

    /// Records a transmission; `idle` if nothing else is in flight.
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

    /// Records the arrival of `segment`, last sent at `sent`.
    pub(crate) fn on_delivered(&mut self, segment: u64, sent: Time) {
        self.delivered += 1;
        let state = self.ring[self.index(segment)];
        let newer = |&(newest, time): &(Sent, Time)| (state.delivered, sent) > (newest.delivered, time);
        if self.newest.as_ref().is_none_or(newer) {
            self.newest = Some((state, sent));
        }
    }

    /// Sample of the current acknowledgement. Intervals shorter than the smallest RTT are discarded: the acknowledgements were compressed.
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

    /// Records that the application limits the flow, with `pipe` segments in flight.
    pub(crate) fn set_app_limited(&mut self, pipe: u64) {
        self.app_limited_until = (self.delivered + pipe).max(1);
    }

    /// Number of delivered segments.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    fn index(&self, segment: u64) -> usize {
        segment as usize & (self.ring.len() - 1)
    }
}
