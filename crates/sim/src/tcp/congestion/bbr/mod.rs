//! BBR version 1 (Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016), as in Linux's
//! `net/ipv4/tcp_bbr.c`. Pacing rate and window are set by a model of the path: the highest recent delivery rate and
//! the smallest recent RTT. Loss itself does not reduce them.

mod policer;

use dfcp_proto::WindowedMax;
use dfcp_time::Time;

use self::policer::{Policer, Verdict};
use super::super::delivery_rate::RateSample;
use super::super::recovery::Phase;
use super::super::window::Window;

/// 2/ln 2, the smallest gain that doubles the rate per RTT.
const HIGH_GAIN: f64 = 2.887;
const DRAIN_GAIN: f64 = 1.0 / 2.885;
const CWND_GAIN: f64 = 2.0;
const PROBE_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Ratio of the pacing rate to the estimated rate.
const PACING_MARGIN: f64 = 0.99;
/// Number of rounds for which a rate sample counts: the round of its measurement and ten more.
const RATE_WINDOW_ROUNDS: usize = 11;
const MIN_RTT_WINDOW_NS: u64 = 10_000_000_000;
const PROBE_RTT_NS: u64 = 200_000_000;
const CWND_MIN: u32 = 4;
const INITIAL_CWND: u32 = 10;
const FULL_RATE_GROWTH: f64 = 1.25;
const FULL_RATE_ROUNDS: u32 = 3;
const EXTRA_ACKED_ROUNDS: u32 = 5;
const EXTRA_ACKED_MAX_S: f64 = 0.1;
/// Pacing rate below which segments are sent one by one, bytes per second (1.2 Mbit/s).
const SINGLE_SEGMENT_BYTES_PER_S: f64 = 150_000.0;
/// Length of a burst, in seconds at the pacing rate (`sk_pacing_shift` 10).
const BURST_S: f64 = 1.0 / 1024.0;
/// Maximum length of a burst, bytes: 64 KiB with the headers.
const BURST_MAX_BYTES: f64 = 65_215.0;

/// Input of BBR at one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BbrAck {
    pub(crate) now: Time,
    pub(crate) sample: RateSample,
    pub(crate) rtt_ns: Option<u64>,
    pub(crate) srtt_ns: Option<u64>,
    pub(crate) phase: Phase,
    /// Segments in flight after the acknowledgement; `prior_pipe` counts them before it.
    pub(crate) pipe: u64,
    pub(crate) prior_pipe: u64,
    /// Segments that the acknowledgement newly reports as delivered; `losses` counts those newly found lost.
    pub(crate) acked: u32,
    pub(crate) losses: u64,
    pub(crate) delivered_total: u64,
    pub(crate) lost_total: u64,
    /// Time up to which the pacer has already used up the pacing rate.
    pub(crate) next_send: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// Model of the path and state machine. Rates are in segments per second.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mss: f64,
    mode: Mode,
    max_rate: WindowedMax<f64, RATE_WINDOW_ROUNDS>,
    rounds: u64,
    next_round_delivered: u64,
    round_start: bool,
    min_rtt_ns: u64,
    min_rtt_time: Time,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    full_rate: f64,
    full_rate_rounds: u32,
    full_rate_reached: bool,
    cycle: usize,
    cycle_start: Time,
    pacing_gain: f64,
    cwnd_gain: f64,
    pacing_rate: f64,
    seen_rtt: bool,
    prior_cwnd: u32,
    prior_phase: Phase,
    packet_conservation: bool,
    policer: Policer,
    ack_epoch: Time,
    ack_epoch_acked: f64,
    extra_acked: [f64; 2],
    extra_acked_rounds: u32,
    extra_acked_index: usize,
    random: u64,
}

impl Bbr {
    /// Creates the state. `seed` determines the random phase at which each period of bandwidth probing starts.
    pub(crate) fn new(mss_bytes: u32, initial_cwnd: u32, seed: u64) -> Self {
        Self {
            mss: f64::from(mss_bytes),
            mode: Mode::Startup,
            max_rate: WindowedMax::new(),
            rounds: 0,
            next_round_delivered: 0,
            round_start: false,
            min_rtt_ns: u64::MAX,
            min_rtt_time: Time::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            full_rate: 0.0,
            full_rate_rounds: 0,
            full_rate_reached: false,
            cycle: 0,
            cycle_start: Time::ZERO,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            pacing_rate: HIGH_GAIN * PACING_MARGIN * f64::from(initial_cwnd) * 1000.0,
            seen_rtt: false,
            prior_cwnd: 0,
            prior_phase: Phase::Open,
            packet_conservation: false,
            policer: Policer::default(),
            ack_epoch: Time::ZERO,
            ack_epoch_acked: 0.0,
            extra_acked: [0.0; 2],
            extra_acked_rounds: 0,
            extra_acked_index: 0,
            random: seed,
        }
    }

    /// Returns the smallest RTT of the model, ns; `u64::MAX` before the first sample.
    pub(crate) fn min_rtt_ns(&self) -> u64 {
        self.min_rtt_ns
    }

    /// Returns the time per segment at the pacing rate, ns.
    pub(crate) fn segment_time_ns(&self) -> u64 {
        (1e9 / self.pacing_rate.max(1e-3)) as u64
    }

    /// Returns the number of segments per burst.
    pub(crate) fn burst_segments(&self) -> u32 {
        let bytes = (self.pacing_rate * self.mss * BURST_S).min(BURST_MAX_BYTES);
        (bytes / self.mss).max(f64::from(self.burst_min_segments())).min(127.0) as u32
    }

    /// Returns the minimum number of segments per burst (`bbr_min_tso_segs`).
    pub(crate) fn burst_min_segments(&self) -> u32 {
        if self.pacing_rate * self.mss < SINGLE_SEGMENT_BYTES_PER_S { 1 } else { 2 }
    }

    pub(crate) fn pacing_bytes_per_s(&self) -> u64 {
        (self.pacing_rate * self.mss) as u64
    }

    /// Called at the end of the handshake, whose RTT is the first sample.
    pub(crate) fn on_established(&mut self, now: Time, window: &Window, srtt_ns: Option<u64>) {
        self.min_rtt_time = now;
        self.ack_epoch = now;
        self.cycle_start = now;
        self.init_pacing_rate(window, srtt_ns);
    }

    /// Saves the window at the start of a recovery or at a timeout.
    pub(crate) fn save_cwnd(&mut self, window: &Window) {
        self.prior_cwnd = if self.prior_phase == Phase::Open && self.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.prior_cwnd.max(window.cwnd)
        };
    }

    /// Handles a timeout. Called after [`save_cwnd`](Self::save_cwnd).
    pub(crate) fn on_timeout(&mut self, ack: &BbrAck) {
        self.prior_phase = Phase::Loss;
        self.full_rate = 0.0;
        self.round_start = true;
        self.sample_policer(&BbrAck { losses: 1, ..*ack });
    }

    /// Port of `bbr_main`. Returns true if BBR itself, not the path, now limits sending.
    pub(crate) fn on_ack(&mut self, window: &mut Window, ack: &BbrAck) -> bool {
        self.update_rate(ack);
        self.update_ack_aggregation(window, ack);
        if self.mode == Mode::ProbeBandwidth && self.is_next_phase(ack) {
            self.advance_cycle(ack.now);
        }
        self.check_full_rate(ack);
        self.check_drain(ack);
        let limited = self.update_min_rtt(window, ack);
        self.update_gains();
        self.set_pacing_rate(window, ack);
        self.set_cwnd(window, ack);
        limited
    }

    fn max_rate(&self) -> f64 {
        self.max_rate.get().unwrap_or_default()
    }

    fn rate(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.max_rate())
    }

    fn update_rate(&mut self, ack: &BbrAck) {
        self.round_start = false;
        let Some(delivered) = ack.sample.delivered else { return };
        if ack.sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = ack.delivered_total;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_policer(ack);
        let rate = delivered as f64 * 1e9 / ack.sample.interval_ns as f64;
        if !ack.sample.app_limited || rate >= self.max_rate() {
            self.max_rate.update(self.rounds, rate);
        }
    }

    fn sample_policer(&mut self, ack: &BbrAck) {
        match self.policer.on_ack(ack, self.round_start, self.mode == Mode::ProbeBandwidth, self.mss) {
            Verdict::Nothing => {}
            Verdict::Use => self.pacing_gain = 1.0,
            Verdict::Stop => self.probe_bandwidth(ack.now),
        }
    }

    /// Measures ACK aggregation: deliveries in excess of the estimated rate.
    fn update_ack_aggregation(&mut self, window: &Window, ack: &BbrAck) {
        if ack.acked == 0 || ack.sample.delivered.is_none() {
            return;
        }
        if self.round_start {
            self.extra_acked_rounds += 1;
            if self.extra_acked_rounds >= EXTRA_ACKED_ROUNDS {
                self.extra_acked_rounds = 0;
                self.extra_acked_index = 1 - self.extra_acked_index;
                self.extra_acked[self.extra_acked_index] = 0.0;
            }
        }
        let mut expected = self.rate() * (ack.now - self.ack_epoch).as_secs_f64();
        if self.ack_epoch_acked <= expected || self.ack_epoch_acked + f64::from(ack.acked) >= f64::from(1 << 20) {
            self.ack_epoch_acked = 0.0;
            self.ack_epoch = ack.now;
            expected = 0.0;
        }
        self.ack_epoch_acked += f64::from(ack.acked);
        let extra = (self.ack_epoch_acked - expected).min(f64::from(window.cwnd));
        let best = &mut self.extra_acked[self.extra_acked_index];
        *best = best.max(extra);
    }

    fn is_next_phase(&self, ack: &BbrAck) -> bool {
        let full_length = (ack.now - self.cycle_start).as_nanos() > u128::from(self.min_rtt_ns);
        if self.pacing_gain == 1.0 {
            return full_length;
        }
        let inflight = self.inflight_at_next_send(ack, ack.prior_pipe);
        if self.pacing_gain > 1.0 {
            let enough = inflight >= self.inflight(self.max_rate(), self.pacing_gain);
            return full_length && (ack.losses > 0 || enough);
        }
        full_length || inflight <= self.inflight(self.max_rate(), 1.0)
    }

    fn advance_cycle(&mut self, now: Time) {
        self.cycle = (self.cycle + 1) % PROBE_GAINS.len();
        self.cycle_start = now;
    }

    fn check_full_rate(&mut self, ack: &BbrAck) {
        if self.full_rate_reached || !self.round_start || ack.sample.app_limited {
            return;
        }
        if self.max_rate() >= self.full_rate * FULL_RATE_GROWTH {
            self.full_rate = self.max_rate();
            self.full_rate_rounds = 0;
            return;
        }
        self.full_rate_rounds += 1;
        self.full_rate_reached = self.full_rate_rounds >= FULL_RATE_ROUNDS;
    }

    fn check_drain(&mut self, ack: &BbrAck) {
        if self.mode == Mode::Startup && self.full_rate_reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && self.inflight_at_next_send(ack, ack.pipe) <= self.inflight(self.max_rate(), 1.0)
        {
            self.probe_bandwidth(ack.now);
        }
    }

    fn update_min_rtt(&mut self, window: &mut Window, ack: &BbrAck) -> bool {
        let expired = (ack.now - self.min_rtt_time).as_nanos() > u128::from(MIN_RTT_WINDOW_NS);
        if let Some(rtt_ns) = ack.rtt_ns
            && (rtt_ns < self.min_rtt_ns || expired)
        {
            self.min_rtt_ns = rtt_ns;
            self.min_rtt_time = ack.now;
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(window);
            self.probe_rtt_done = None;
        }
        if self.mode != Mode::ProbeRtt {
            return false;
        }
        match self.probe_rtt_done {
            None if ack.pipe <= u64::from(CWND_MIN) => {
                self.probe_rtt_done = Some(Time::from_ns(ack.now.as_ns() + PROBE_RTT_NS));
                self.probe_rtt_round_done = false;
                self.next_round_delivered = ack.delivered_total;
            }
            None => {}
            Some(done) => {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done && ack.now > done {
                    self.end_probe_rtt(window, ack.now);
                }
            }
        }
        true
    }

    fn end_probe_rtt(&mut self, window: &mut Window, now: Time) {
        self.min_rtt_time = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd).min(window.limit);
        if self.full_rate_reached {
            self.probe_bandwidth(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Starts probing for bandwidth, in a random phase except the draining phase.
    fn probe_bandwidth(&mut self, now: Time) {
        self.mode = Mode::ProbeBandwidth;
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.cycle = PROBE_GAINS.len() - 1 - ((self.random >> 33) % 7) as usize;
        self.advance_cycle(now);
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.rate().is_some() => (1.0, CWND_GAIN),
            Mode::ProbeBandwidth => (PROBE_GAINS[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    fn init_pacing_rate(&mut self, window: &Window, srtt_ns: Option<u64>) {
        self.seen_rtt = srtt_ns.is_some();
        let rtt_s = srtt_ns.map_or(0.001, |ns| ns.max(1_000) as f64 / 1e9);
        self.pacing_rate = HIGH_GAIN * PACING_MARGIN * f64::from(window.cwnd) / rtt_s;
    }

    fn set_pacing_rate(&mut self, window: &Window, ack: &BbrAck) {
        let rate = self.rate() * self.pacing_gain * PACING_MARGIN;
        if !self.seen_rtt && ack.srtt_ns.is_some() {
            self.init_pacing_rate(window, ack.srtt_ns);
        }
        if self.full_rate_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_cwnd(&mut self, window: &mut Window, ack: &BbrAck) {
        if ack.acked > 0 {
            self.grow_cwnd(window, ack);
        }
        window.cwnd = window.cwnd.min(window.limit);
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(CWND_MIN);
        }
    }

    fn grow_cwnd(&mut self, window: &mut Window, ack: &BbrAck) {
        if self.recover_or_restore(window, ack) {
            return;
        }
        let mut target = self.bdp(self.rate(), self.cwnd_gain);
        if self.full_rate_reached {
            let extra = self.extra_acked[0].max(self.extra_acked[1]);
            target += extra.min(self.rate() * EXTRA_ACKED_MAX_S) as u32;
        }
        let target = self.quantise(target);
        if self.full_rate_reached {
            window.cwnd = window.cwnd.saturating_add(ack.acked).min(target);
        } else if window.cwnd < target || ack.delivered_total < u64::from(INITIAL_CWND) {
            window.cwnd = window.cwnd.saturating_add(ack.acked);
        }
        window.cwnd = window.cwnd.max(CWND_MIN);
    }

    /// Limits sending to one segment per delivered segment in the first round of a recovery. Returns true in that
    /// round.
    fn recover_or_restore(&mut self, window: &mut Window, ack: &BbrAck) -> bool {
        let losses = u32::try_from(ack.losses).unwrap_or(u32::MAX);
        let in_network = u32::try_from(ack.pipe).unwrap_or(u32::MAX).saturating_add(ack.acked);
        let mut cwnd = window.cwnd;
        if losses > 0 {
            cwnd = cwnd.saturating_sub(losses).max(1);
        }
        if ack.phase == Phase::Recovery && self.prior_phase != Phase::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = ack.delivered_total;
            cwnd = in_network;
        } else if self.prior_phase != Phase::Open && ack.phase == Phase::Open {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prior_phase = ack.phase;
        window.cwnd = if self.packet_conservation { cwnd.max(in_network) } else { cwnd };
        self.packet_conservation
    }

    fn bdp(&self, rate: f64, gain: f64) -> u32 {
        if self.min_rtt_ns == u64::MAX {
            return INITIAL_CWND;
        }
        (rate * gain * self.min_rtt_ns as f64 / 1e9).ceil().min(1e9) as u32
    }

    /// Adds room for bursts at both ends and for delayed acknowledgements.
    fn quantise(&self, cwnd: u32) -> u32 {
        let cwnd = (cwnd + 3 * self.burst_segments()).next_multiple_of(2);
        if self.mode == Mode::ProbeBandwidth && self.cycle == 0 { cwnd + 2 } else { cwnd }
    }

    fn inflight(&self, rate: f64, gain: f64) -> u64 {
        u64::from(self.quantise(self.bdp(rate, gain)))
    }

    /// Returns the estimated number of segments in flight when the pacer sends the next segment.
    fn inflight_at_next_send(&self, ack: &BbrAck, pipe: u64) -> u64 {
        let wait_s = (ack.next_send - ack.now).as_secs_f64();
        let delivered = (self.rate() * wait_s) as u64;
        let burst = if self.pacing_gain > 1.0 { u64::from(self.burst_segments()) } else { 0 };
        (pipe + burst).saturating_sub(delivered)
    }
}
