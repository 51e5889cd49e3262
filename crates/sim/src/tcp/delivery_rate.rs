//! Delivery rate of data at the other end (draft-cheng-iccrg-delivery-rate-estimation; `net/ipv4/tcp_rate.c` of Linux).

use dfcp_time::Time;

/// State noted when a segment is sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Segments that had arrived, and when the last of them did.
    delivered: u64,
    delivered_time: Time,
    /// Sending time of the segment with which that flight began.
    first_sent: Time,
    app_limited: bool,
}

/// One measurement of the delivery rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// Segments that arrived in the interval; `None` if this acknowledgement measured nothing.
    pub(crate) delivered: Option<u64>,
    pub(crate) interval_ns: u64,
    /// Segments that had arrived when the newest segment acknowledged was sent.
    pub(crate) prior_delivered: u64,
    /// The sender had nothing more to send at that time.
    pub(crate) app_limited: bool,
}

/// Measures the delivery rate over about a round trip with each acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryRate {
    /// Indexed by segment number modulo its length, a power of two.
    ring: Vec<Sent>,
    delivered: u64,
    delivered_time: Time,
    first_sent: Time,
    /// Segments sent before this many have arrived are limited by the application.
    app_limited_until: u64,
    /// The newest segment that this acknowledgement reported, and its send time.
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

    /// Makes room for twice as many segments, of which those from `una` to `end` are kept.
    pub(crate) fn grow(&mut self, una: u64, end: u64) {
        let mut ring = vec![Sent::default(); self.ring.len() * 2];
        let mask = ring.len() - 1;
        for segment in una..end {
            ring[segment as usize & mask] = self.ring[self.index(segment)];
        }
        self.ring = ring;
    }

    /// `idle`: nothing else is in the network.
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

    /// `segment`, last sent at `sent`, has arrived.
    pub(crate) fn on_delivered(&mut self, segment: u64, sent: Time) {
        self.delivered += 1;
        let state = self.ring[self.index(segment)];
        let newer = |&(newest, time): &(Sent, Time)| (state.delivered, sent) > (newest.delivered, time);
        if self.newest.as_ref().is_none_or(newer) {
            self.newest = Some((state, sent));
        }
    }

    /// The measurement of the acknowledgement whose segments were reported before. Intervals shorter than the smallest
    /// round trip count nothing: the acknowledgements were compressed.
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

    /// The application gives less than the path could carry, with `pipe` segments in the network.
    pub(crate) fn set_app_limited(&mut self, pipe: u64) {
        self.app_limited_until = (self.delivered + pipe).max(1);
    }

    /// Segments that have arrived.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    fn index(&self, segment: u64) -> usize {
        segment as usize & (self.ring.len() - 1)
    }
}
