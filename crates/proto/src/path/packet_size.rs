//! Packet size discovery: DPLPMTUD (RFC 8899) on a session (`spec/protocol.md` §10.1, \[size-1\]).
//!
//! Sizes are bytes of IP packets. Phases are those of RFC 8899 §5.2. A count of losses alone never distinguishes a
//! narrow path from a lossy one: lost probes are always compared with the loss of smaller packets at the same time.

pub(crate) mod black_hole;
mod probes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use dfcp_time::Time;

use self::probes::{PROBES_MAX, Probes};
use crate::limits;

/// Size that every path is assumed to carry (RFC 8200; RFC 8899 BASE_PLPMTU for IPv6).
pub(crate) const BASE_BYTES: u16 = 1280;

/// A packet counts as full if it is shorter than the permitted size by less than this, bytes. A sender of full packets
/// benefits from larger ones.
pub(crate) const NEARLY_FULL_BYTES: u16 = 128;

/// Size of the small probe when packets of the base size are in doubt, bytes. Every path in use carries it.
const LEAST_BYTES: u16 = 256;

/// Common sizes of links and tunnels, tried before others (\[size-2\]): PPPoE, 6in4, WireGuard, and a frequent setting
/// of tunnel operators.
const COMMON_BYTES: [u16; 4] = [1492, 1480, 1420, 1400];

/// The search ends when the largest size that passes and the smallest that does not differ by at most this, bytes.
const RESOLUTION_BYTES: u16 = 16;

/// Probability of falsely rejecting a size that passes (\[size-3\]).
const MISTAKE_MAX: f64 = 1e-5;

/// Probability of falsely rejecting the base size, which ends the session (\[size-9\]).
const BASE_MISTAKE_MAX: f64 = 1e-7;

/// Fewest lost probes to reject a size, however low the path's loss rate is (RFC 8899 MAX_PROBES).
const PROBES_MIN: u32 = 3;

/// Most probes of one size while the path's loss rate is unknown, and no verdict is possible.
const PROBES_BLIND: u32 = 6;

/// Time from a finished search to the next one, in case the path's MTU has grown (RFC 8899 PMTU_RAISE_TIMER).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// The probe rate halves after each 16 unanswered small probes.
const UNANSWERED_MAX: u32 = 16;

/// Minimum time between two probes, so that one loss burst does not take several.
const SPACING_MIN: Duration = Duration::from_millis(5);

/// Divisor: probes take at most 1/8 of the bytes of full packets sent, and 1/8 of the sender's rate. A sender of few
/// bytes does not need larger packets (\[size-4\]).
const PROBE_SHARE: u32 = 8;

/// Properties of the path at the time of a verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView {
    /// Highest datagram number whose fate is known.
    pub(crate) settled: Option<u64>,
    /// Probability that a probe stays unanswered although its size passes: loss of the probe or of its answer. `None`
    /// while unknown.
    pub(crate) loss: Option<f64>,
    /// Longest time to wait for an answer.
    pub(crate) patience: Duration,
}

/// Inputs for the spacing of probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) srtt: Duration,
    /// Transmission time of a full datagram at the sender's rate.
    pub(crate) datagram_time: Duration,
}

impl Pace {
    /// Returns the pause after a probe that follows `sent` others of its size.
    fn after(self, sent: u32) -> Duration {
        // Wait longer after the first probes: their answers are probably on the way.
        let spacing = if sent < PROBES_MIN { self.srtt / 4 } else { self.srtt / 16 };
        spacing.max(SPACING_MIN).max(self.datagram_time * PROBE_SHARE).min(limits::PROBE_SPACING_MAX)
    }
}

/// Phases of RFC 8899.
#[derive(Debug)]
enum Phase {
    /// BASE: packets have the base size, and pairs of probes test whether the previous size still passes.
    Base(Box<Validation>),
    /// SEARCHING: probes of this size test whether it passes. `None` before the first probe.
    Searching(u16, Option<Box<Probes>>),
    /// SEARCH_COMPLETE: the search is repeated at `raise_at`, or never ([`Time::MAX`]) if no larger size is permitted.
    Complete { raise_at: Time },
}

/// Probes of two sizes, sent in pairs so that both meet the same losses.
#[derive(Debug)]
struct Validation {
    large: Probes,
    small: Probes,
    next_at: Time,
    /// Verdict: packets of the large size do not pass, small ones do.
    is_decided: bool,
}

/// Packet size of one direction of a path.
#[derive(Debug)]
pub(crate) struct PacketSize {
    base: u16,
    max: u16,
    /// Largest size known to pass, bytes.
    proven: u16,
    /// Smallest size known not to pass, bytes; above `max` if none is.
    too_large: u16,
    phase: Phase,
    /// Bytes that probes may still use.
    budget_bytes: u32,
    /// Number of times that a size which had passed stopped passing.
    black_holes: u16,
    /// True if the peer answers probes.
    has_answers: bool,
    /// True if this path has carried a probe of at least the base size.
    has_carried: bool,
    /// Start of the doubt about the base size: since then no such packet is known to have passed.
    doubted_since: Option<Time>,
    /// Verdict: packets of the base size do not pass, smaller ones do.
    is_too_narrow: bool,
}

impl PacketSize {
    /// Starts discovery with the base size. Sizes up to `max` bytes must be proven by probes.
    pub(crate) fn new(now: Time, max: u16) -> Self {
        let base = max.min(BASE_BYTES);
        let phase = Phase::Complete { raise_at: Time::MAX };
        let mut size = Self { has_answers: true, phase, ..Self::fixed(base) };
        size.max = max;
        size.search(now);
        size
    }

    /// Returns a constant size, for a peer that answers no probes, or with discovery off.
    pub(crate) fn fixed(bytes: u16) -> Self {
        let phase = Phase::Complete { raise_at: Time::MAX };
        Self {
            base: bytes,
            max: bytes,
            proven: bytes,
            too_large: u16::MAX,
            phase,
            budget_bytes: 0,
            black_holes: 0,
            has_answers: false,
            has_carried: false,
            doubted_since: None,
            is_too_narrow: false,
        }
    }

    /// Returns the current packet size, bytes.
    pub(crate) fn bytes(&self) -> u16 {
        if let Phase::Base(_) = self.phase { self.base } else { self.proven }
    }

    pub(crate) fn black_holes(&self) -> u16 {
        self.black_holes
    }

    /// Returns true if packets exceed the base size, so that a narrower path would drop them.
    pub(crate) fn is_above_base(&self) -> bool {
        self.bytes() > self.base
    }

    /// Returns true if the current size can be tested, and is not being tested already.
    pub(crate) fn may_be_suspected(&self) -> bool {
        let is_asked = matches!(self.phase, Phase::Base(_));
        !is_asked && (self.is_above_base() || self.has_answers && self.base > LEAST_BYTES * 2)
    }

    /// Returns true if the path carries only packets below the base size.
    pub(crate) fn is_too_narrow(&self) -> bool {
        self.is_too_narrow
    }

    /// Adds to the probe budget: a full data packet of `ip_bytes` was sent.
    pub(crate) fn on_full_sent(&mut self, ip_bytes: u64) {
        let more = u32::try_from(ip_bytes / u64::from(PROBE_SHARE)).unwrap_or(u32::MAX);
        self.budget_bytes = self.budget_bytes.saturating_add(more);
    }

    /// Returns the initial state for another path, with the same limits.
    pub(crate) fn of_other_path(&self, now: Time) -> Self {
        let fresh = if self.has_answers { Self::new(now, self.max) } else { Self::fixed(self.max) };
        Self { black_holes: self.black_holes, ..fresh }
    }

    /// Starts a test of the current size, because all packets of it seem to be lost. Packets have the base size until
    /// the test passes. If the current size is the base size, that is tested against [`LEAST_BYTES`].
    pub(crate) fn suspect(&mut self, now: Time) {
        self.ask(now, if self.proven > self.base { [self.proven, self.base] } else { [self.base, LEAST_BYTES] });
    }

    /// Starts to send pairs of probes of these sizes, large and small.
    fn ask(&mut self, now: Time, sizes: [u16; 2]) {
        self.doubted_since.get_or_insert(now);
        let [large, small] = sizes.map(|bytes| Probes::new(now, bytes));
        self.phase = Phase::Base(Box::new(Validation { large, small, next_at: now, is_decided: false }));
    }

    // ---- probes ----

    /// Returns true if there will be further probes. Cheaper than [`Self::probe_at`].
    pub(crate) fn may_probe(&self) -> bool {
        !matches!(self.phase, Phase::Complete { raise_at: Time::MAX })
    }

    /// Returns true if so many small probes are unanswered that packets of any size seem to be lost.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(&self.phase, Phase::Base(pair) if pair.small.answered() == 0 && pair.small.sent() >= UNANSWERED_MAX)
    }

    /// Returns the time of the next probe.
    pub(crate) fn probe_at(&self, loss: Option<f64>) -> Option<Time> {
        match &self.phase {
            // Exempt from the probe budget: the base size is in doubt, so that no data may get through. The share of
            // the rate alone limits these probes ([size-4]).
            Phase::Base(pair) if pair.large.bytes() <= self.base => Some(pair.next_at),
            Phase::Base(_) | Phase::Searching(..) if self.budget_bytes < self.max.into() => None,
            Phase::Base(validation) => Some(validation.next_at),
            Phase::Searching(_, None) => Some(Time::ZERO),
            Phase::Searching(_, Some(probes)) => (probes.sent() < probes_needed(loss)).then(|| probes.next_at()),
            Phase::Complete { raise_at } => (*raise_at < Time::MAX).then_some(*raise_at),
        }
    }

    /// Returns the size of the probe to send now.
    pub(crate) fn next_probe(&mut self, now: Time, loss: Option<f64>) -> Option<u16> {
        if let Phase::Complete { raise_at } = self.phase
            && now >= raise_at
        {
            self.too_large = u16::MAX;
            self.search(now);
        }
        self.probe_at(loss).filter(|&at| now >= at)?;
        match &self.phase {
            // The small probe follows the large one, so that its answer implies that the large one's answer would have
            // come, too.
            Phase::Base(pair) if pair.small.sent() < pair.large.sent() => Some(pair.small.bytes()),
            Phase::Base(pair) => Some(pair.large.bytes()),
            Phase::Searching(bytes, _) => Some(*bytes),
            Phase::Complete { .. } => None,
        }
    }

    /// Records that a probe of `bytes` was sent as datagram `number`.
    pub(crate) fn on_probe_sent(&mut self, now: Time, bytes: u16, number: u64, pace: Pace) {
        self.budget_bytes = self.budget_bytes.saturating_sub(bytes.into());
        match &mut self.phase {
            Phase::Base(pair) => {
                let probes = if bytes == pair.large.bytes() { &mut pair.large } else { &mut pair.small };
                probes.on_sent(now, number, Duration::ZERO);
                let silence = if pair.small.answered() == 0 { pair.small.sent() / UNANSWERED_MAX } else { 0 };
                // After the verdict only time matters, so that probes can be rare.
                let after = if pair.is_decided { limits::PROBE_SPACING_MAX } else { pace.after(PROBES_MIN) };
                let next_at = now + (after * (1 << silence.min(16))).min(limits::PROBE_SPACING_MAX);
                if pair.small.sent() == PROBES_MAX {
                    // Hardly any packet gets through, whatever its size: start over.
                    self.suspect(next_at);
                } else if silence == 1 && pair.large.bytes() > self.base && self.base > LEAST_BYTES * 2 {
                    // The base size may not pass either, so test it.
                    self.ask(next_at, [self.base, LEAST_BYTES]);
                } else {
                    pair.next_at = next_at;
                }
            }
            Phase::Searching(_, probes) => {
                let probes = probes.get_or_insert_with(|| Box::new(Probes::new(now, bytes)));
                let after = if self.too_large > self.max { pace.after(probes.sent()) } else { pace.after(PROBES_MIN) };
                probes.on_sent(now, number, after);
            }
            Phase::Complete { .. } => {}
        }
    }

    /// Takes in the peer's answer to the probe sent as datagram `echo`. Answers to unknown numbers are ignored
    /// (\[size-8\]).
    pub(crate) fn on_answer(&mut self, now: Time, echo: u32) {
        match &mut self.phase {
            Phase::Base(pair) => {
                if pair.large.on_answer(echo) {
                    self.has_carried = true;
                    if pair.large.bytes() < self.proven {
                        // The base size has passed. The previous size is still in doubt.
                        self.doubted_since = None;
                        self.suspect(now);
                    } else {
                        self.go_on(now);
                    }
                } else if !pair.small.on_answer(echo) {
                    // Not a number of any probe.
                } else if pair.large.bytes() <= self.base {
                    pair.is_decided = pair.chance() <= BASE_MISTAKE_MAX;
                    // A path that has carried the base size may recover. A flapping route must not end the session.
                    let patience = if self.has_carried { limits::NARROW_PATIENCE } else { Duration::ZERO };
                    let doubted_since = self.doubted_since.unwrap_or(now);
                    self.is_too_narrow |= pair.is_decided && now.since(doubted_since) >= patience;
                } else if pair.chance() <= MISTAKE_MAX {
                    self.black_holes = self.black_holes.saturating_add(1);
                    self.too_large = self.proven;
                    self.proven = self.base;
                    self.go_on(now);
                }
            }
            Phase::Searching(bytes, Some(probes)) => {
                if probes.on_answer(echo) {
                    self.has_carried = true;
                    self.proven = *bytes;
                    self.go_on(now);
                }
            }
            Phase::Searching(_, None) | Phase::Complete { .. } => {}
        }
    }

    /// Rejects the probed size if enough of its probes are lost. Called for every report.
    pub(crate) fn on_report(&mut self, now: Time, view: PathView) {
        let Phase::Searching(_, Some(probes)) = &self.phase else { return };
        let is_enough =
            probes.sent() >= probes_needed(view.loss) && (view.loss.is_some() || probes.sent() >= PROBES_MAX);
        // Wait while an answer may still come.
        let is_settled =
            probes.last_number().is_some_and(|number| view.settled.is_some_and(|settled| settled >= number));
        if is_enough && is_settled && now.since(probes.last_sent()) >= view.patience {
            self.too_large = probes.bytes();
            self.go_on(now);
        }
    }

    /// Starts a search, from the largest size on.
    fn search(&mut self, now: Time) {
        self.too_large = self.too_large.max(self.max.saturating_add(1));
        self.go_on(now);
    }

    /// Probes the next size, or ends the search.
    fn go_on(&mut self, now: Time) {
        self.doubted_since = None;
        self.phase = match self.candidate() {
            Some(bytes) => Phase::Searching(bytes, None),
            None => Phase::Complete { raise_at: if self.proven < self.max { now + RAISE_AFTER } else { Time::MAX } },
        };
    }

    fn candidate(&self) -> Option<u16> {
        if self.proven == self.max {
            return None;
        }
        if self.too_large > self.max {
            return Some(self.max);
        }
        let common = COMMON_BYTES.into_iter().find(|bytes| (self.proven + 1..self.too_large).contains(bytes));
        let between = self.too_large - self.proven;
        common.or_else(|| (between > RESOLUTION_BYTES).then(|| self.proven + between / 2))
    }
}

impl Validation {
    /// Returns the probability that all answers are to small probes although both sizes meet the same loss (Fisher's
    /// exact test, \[size-7\]).
    fn chance(&self) -> f64 {
        // Count only large probes that left before an answered small one.
        let large = f64::from(self.large.unanswered_before(self.small.newest_answered()));
        let (small, answered) = (f64::from(self.small.sent()), self.small.answered());
        (0..answered).map(|i| (small - f64::from(i)) / (small + large - f64::from(i))).product()
    }
}

/// Returns the number of unanswered probes that chance does not explain at this loss rate.
fn probes_needed(loss: Option<f64>) -> u32 {
    let Some(loss) = loss else { return PROBES_BLIND };
    let needed = MISTAKE_MAX.ln() / loss.clamp(1e-3, 0.999).ln();
    (needed.ceil() as u32).clamp(PROBES_MIN, PROBES_MAX)
}
