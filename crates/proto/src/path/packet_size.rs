//! Packet size discovery: DPLPMTUD (RFC 8899) on a session (`spec/protocol.md` §10.1, \[size-1\]).
//!
//! Sizes are bytes of IP packets. The phases are those of RFC 8899 §5.2. What tells a path which is too narrow from one that loses
//! at random is never a count of losses alone: a probe that was lost is compared with what smaller packets lose at the same time.

pub(crate) mod black_hole;
mod probes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use dfcp_time::Time;

use self::probes::{PROBES_MAX, Probes};
use crate::limits;

/// The size which every path is taken to carry (RFC 8200; RFC 8899 BASE_PLPMTU for IPv6).
pub(crate) const BASE_BYTES: u16 = 1280;

/// Packets that are shorter than permitted by less have no room for more: larger ones would serve.
pub(crate) const NEARLY_FULL_BYTES: u16 = 128;

/// The size of a small probe where packets of the base size are doubted: less than any path that is in use carries.
const LEAST_BYTES: u16 = 256;

/// Sizes which links and tunnels have (\[size-2\]): PPPoE, 6in4, WireGuard, and what operators of tunnels like to set. Tried before others.
const COMMON_BYTES: [u16; 4] = [1492, 1480, 1420, 1400];

/// A search ends when what passes and what does not are no further apart.
const RESOLUTION_BYTES: u16 = 16;

/// The probability with which a size that passes may be taken for one that does not (\[size-3\]).
const MISTAKE_MAX: f64 = 1e-5;

/// The same for the base size, whose failure ends the session (\[size-9\]).
const BASE_MISTAKE_MAX: f64 = 1e-7;

/// A size has not failed with fewer probes, however few packets the path loses (RFC 8899 MAX_PROBES).
const PROBES_MIN: u32 = 3;

/// Probes of one size before anything is known of the path's loss: no verdict can be reached, and no more are sent.
const PROBES_BLIND: u32 = 6;

/// Time from a finished search to the next one, in case the path's MTU has grown (RFC 8899 PMTU_RAISE_TIMER).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// After this many probes of the base size without an answer, and each time again, probes come half as often.
const UNANSWERED_MAX: u32 = 16;

/// The least time between two probes: a burst of losses must not take several.
const SPACING_MIN: Duration = Duration::from_millis(5);

/// Probes take at most one in this many bytes of the packets which larger ones could replace, and of the sender's rate: whoever sends
/// little needs no larger packets (\[size-4\]).
const PROBE_SHARE: u32 = 8;

/// The path as known when a verdict is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView {
    /// The highest of our numbers whose fate is known.
    pub(crate) settled: Option<u64>,
    /// The share of probes which get no answer although their size passes: lost on either way. `None` while too little is known.
    pub(crate) loss: Option<f64>,
    /// Longest time that an answer takes.
    pub(crate) patience: Duration,
}

/// Times that space the probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) srtt: Duration,
    /// Time of a full datagram at the sender's rate.
    pub(crate) datagram_time: Duration,
}

impl Pace {
    /// The time after the probe that follows `sent` others of its size.
    fn after(self, sent: u32) -> Duration {
        // The answer to one of the first is likely on its way.
        let spacing = if sent < PROBES_MIN { self.srtt / 4 } else { self.srtt / 16 };
        spacing.max(SPACING_MIN).max(self.datagram_time * PROBE_SHARE).min(limits::PROBE_SPACING_MAX)
    }
}

/// RFC 8899's phases.
#[derive(Debug)]
enum Phase {
    /// BASE: packets have the base size, and it is asked whether the size before still passes.
    Base(Box<Validation>),
    /// SEARCHING: larger packets are probed for. The probes of this size, once there are any.
    Searching(u16, Option<Box<Probes>>),
    /// SEARCH_COMPLETE; when the search is repeated: [`Time::MAX`] if nothing larger is permitted.
    Complete { raise_at: Time },
}

/// Pairs of probes, large and small, which meet the same losses.
#[derive(Debug)]
struct Validation {
    large: Probes,
    small: Probes,
    next_at: Time,
    /// Packets of the large size do not pass, and the small ones do.
    is_decided: bool,
}

/// Size of the packets of one direction.
#[derive(Debug)]
pub(crate) struct PacketSize {
    base: u16,
    max: u16,
    /// The largest that is known to pass.
    proven: u16,
    /// The smallest that is known not to; above the maximum if none is.
    too_large: u16,
    phase: Phase,
    /// Bytes which probes may take.
    budget_bytes: u32,
    /// Number of times that the previous size no longer passed.
    black_holes: u16,
    /// The peer answers probes.
    has_answers: bool,
    /// A larger probe than small ones has been answered since the path is this one: it has carried the base size.
    has_carried: bool,
    /// From then on no packet of the base size has been known to pass.
    doubted_since: Option<Time>,
    /// Packets of the base size do not pass, and smaller ones do.
    is_too_narrow: bool,
}

impl PacketSize {
    /// Packets of at most `max` bytes; a larger size than the base must prove itself.
    pub(crate) fn new(now: Time, max: u16) -> Self {
        let base = max.min(BASE_BYTES);
        let phase = Phase::Complete { raise_at: Time::MAX };
        let mut size = Self { has_answers: true, phase, ..Self::fixed(base) };
        size.max = max;
        size.search(now);
        size
    }

    /// Packets of this size, for ever: the peer answers no probes, or discovery is off.
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

    /// The size of packets now.
    pub(crate) fn bytes(&self) -> u16 {
        if let Phase::Base(_) = self.phase { self.base } else { self.proven }
    }

    pub(crate) fn black_holes(&self) -> u16 {
        self.black_holes
    }

    /// True if packets are larger than the base, so that a narrower path would lose them.
    pub(crate) fn is_above_base(&self) -> bool {
        self.bytes() > self.base
    }

    /// True if the current size can be probed and is not being probed already.
    pub(crate) fn may_be_suspected(&self) -> bool {
        let is_asked = matches!(self.phase, Phase::Base(_));
        !is_asked && (self.is_above_base() || self.has_answers && self.base > LEAST_BYTES * 2)
    }

    /// True if the path carries no packets of the base size, only smaller ones.
    pub(crate) fn is_too_narrow(&self) -> bool {
        self.is_too_narrow
    }

    /// A packet of data of `ip_bytes` has been sent which has no room for more.
    pub(crate) fn on_full_sent(&mut self, ip_bytes: u64) {
        let more = u32::try_from(ip_bytes / u64::from(PROBE_SHARE)).unwrap_or(u32::MAX);
        self.budget_bytes = self.budget_bytes.saturating_add(more);
    }

    /// The sizes of another path, with the same bounds.
    pub(crate) fn of_other_path(&self, now: Time) -> Self {
        let fresh = if self.has_answers { Self::new(now, self.max) } else { Self::fixed(self.max) };
        Self { black_holes: self.black_holes, ..fresh }
    }

    /// Packets of the present size seem to be lost, all of them: from now on they have the base size, until larger ones are known to
    /// pass. If it is the base size that they have, that is asked about.
    pub(crate) fn suspect(&mut self, now: Time) {
        self.ask(now, if self.proven > self.base { [self.proven, self.base] } else { [self.base, LEAST_BYTES] });
    }

    /// Asks by pairs of probes of these sizes.
    fn ask(&mut self, now: Time, sizes: [u16; 2]) {
        self.doubted_since.get_or_insert(now);
        let [large, small] = sizes.map(|bytes| Probes::new(now, bytes));
        self.phase = Phase::Base(Box::new(Validation { large, small, next_at: now, is_decided: false }));
    }

    // ---- probes ----

    /// True if there will be probes; cheaper than [`Self::probe_at`].
    pub(crate) fn may_probe(&self) -> bool {
        !matches!(self.phase, Phase::Complete { raise_at: Time::MAX })
    }

    /// True if enough small probes are unanswered that nothing of any size may be getting through.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(&self.phase, Phase::Base(pair) if pair.small.answered() == 0 && pair.small.sent() >= UNANSWERED_MAX)
    }

    /// Time of the next probe, if one is to be sent.
    pub(crate) fn probe_at(&self, loss: Option<f64>) -> Option<Time> {
        match &self.phase {
            // Nothing that has been sent has room in packets that pass: their share of the rate alone bounds these ([size-4]).
            Phase::Base(pair) if pair.large.bytes() <= self.base => Some(pair.next_at),
            Phase::Base(_) | Phase::Searching(..) if self.budget_bytes < self.max.into() => None,
            Phase::Base(validation) => Some(validation.next_at),
            Phase::Searching(_, None) => Some(Time::ZERO),
            Phase::Searching(_, Some(probes)) => (probes.sent() < probes_needed(loss)).then(|| probes.next_at()),
            Phase::Complete { raise_at } => (*raise_at < Time::MAX).then_some(*raise_at),
        }
    }

    /// The size of the probe to be sent now.
    pub(crate) fn next_probe(&mut self, now: Time, loss: Option<f64>) -> Option<u16> {
        if let Phase::Complete { raise_at } = self.phase
            && now >= raise_at
        {
            self.too_large = u16::MAX;
            self.search(now);
        }
        self.probe_at(loss).filter(|&at| now >= at)?;
        match &self.phase {
            // The small one behind the large one: its answer then tells that the large one's would have come, too.
            Phase::Base(pair) if pair.small.sent() < pair.large.sent() => Some(pair.small.bytes()),
            Phase::Base(pair) => Some(pair.large.bytes()),
            Phase::Searching(bytes, _) => Some(*bytes),
            Phase::Complete { .. } => None,
        }
    }

    /// A probe of `bytes` has been sent as datagram `number`.
    pub(crate) fn on_probe_sent(&mut self, now: Time, bytes: u16, number: u64, pace: Pace) {
        self.budget_bytes = self.budget_bytes.saturating_sub(bytes.into());
        match &mut self.phase {
            Phase::Base(pair) => {
                let probes = if bytes == pair.large.bytes() { &mut pair.large } else { &mut pair.small };
                probes.on_sent(now, number, Duration::ZERO);
                let silence = if pair.small.answered() == 0 { pair.small.sent() / UNANSWERED_MAX } else { 0 };
                // Nothing but time can still change what is decided.
                let after = if pair.is_decided { limits::PROBE_SPACING_MAX } else { pace.after(PROBES_MIN) };
                let next_at = now + (after * (1 << silence.min(16))).min(limits::PROBE_SPACING_MAX);
                if pair.small.sent() == PROBES_MAX {
                    // Hardly anything gets through, of whatever size.
                    self.suspect(next_at);
                } else if silence == 1 && pair.large.bytes() > self.base && self.base > LEAST_BYTES * 2 {
                    // The base size may not pass either.
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

    /// The peer has got the probe that was sent as datagram `echo`. Whatever it says of others changes nothing (\[size-8\]).
    pub(crate) fn on_answer(&mut self, now: Time, echo: u32) {
        match &mut self.phase {
            Phase::Base(pair) => {
                if pair.large.on_answer(echo) {
                    self.has_carried = true;
                    if pair.large.bytes() < self.proven {
                        // It was the base size that was asked about: the size before still is in doubt.
                        self.doubted_since = None;
                        self.suspect(now);
                    } else {
                        self.go_on(now);
                    }
                } else if !pair.small.on_answer(echo) {
                    // An answer to nothing that was asked.
                } else if pair.large.bytes() <= self.base {
                    pair.is_decided = pair.chance() <= BASE_MISTAKE_MAX;
                    // A path that has carried them may do so again: a route that flaps must not end what would go on.
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

    /// A report has come: have the probes of a size failed?
    pub(crate) fn on_report(&mut self, now: Time, view: PathView) {
        let Phase::Searching(_, Some(probes)) = &self.phase else { return };
        let is_enough =
            probes.sent() >= probes_needed(view.loss) && (view.loss.is_some() || probes.sent() >= PROBES_MAX);
        // An answer could still come.
        let is_settled =
            probes.last_number().is_some_and(|number| view.settled.is_some_and(|settled| settled >= number));
        if is_enough && is_settled && now.since(probes.last_sent()) >= view.patience {
            self.too_large = probes.bytes();
            self.go_on(now);
        }
    }

    /// Searches from the largest size on.
    fn search(&mut self, now: Time) {
        self.too_large = self.too_large.max(self.max.saturating_add(1));
        self.go_on(now);
    }

    /// The next size, if another is worth it.
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
    /// Small probes are answered and large ones are not. If both met the same losses, whatever these are, all answers would be to small ones with
    /// this probability (Fisher's exact test, \[size-7\]).
    fn chance(&self) -> f64 {
        // Only those which left before a small one that has come.
        let large = f64::from(self.large.unanswered_before(self.small.newest_answered()));
        let (small, answered) = (f64::from(self.small.sent()), self.small.answered());
        (0..answered).map(|i| (small - f64::from(i)) / (small + large - f64::from(i))).product()
    }
}

/// Number of unanswered probes that chance does not explain, when a share `loss` of them is lost.
fn probes_needed(loss: Option<f64>) -> u32 {
    let Some(loss) = loss else { return PROBES_BLIND };
    let needed = MISTAKE_MAX.ln() / loss.clamp(1e-3, 0.999).ln();
    (needed.ceil() as u32).clamp(PROBES_MIN, PROBES_MAX)
}
