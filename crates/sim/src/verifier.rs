//! Check of physical laws, by an observer that sees only the input and output of links.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use dfcp_netem::{Discipline, Ecn, LinkConfig};
use dfcp_time::Time;

use crate::observer::Observer;
use crate::packet::{LinkId, Packet};
use crate::simulation::Simulation;

/// Packet that has entered a link.
#[derive(Clone, Copy, Debug)]
struct Entered {
    id: u64,
    at: Time,
    size_bytes: u32,
    ecn: Ecn,
}

/// Configuration of a watched link, and the packets on it.
#[derive(Debug)]
struct Watched {
    config: LinkConfig,
    /// Packets on the link by flow and direction, in the order of entry.
    inside: BTreeMap<(u32, bool), VecDeque<Entered>>,
    offered: u64,
    arrived: u64,
    last_arrival: Time,
    largest_bytes: u32,
}

/// Observer that reports impossible events. It knows nothing of the queues and transmitters of links. A packet must not
/// leave a link without having entered, twice, earlier than rate and delay permit, out of order within its flow, sooner
/// after its predecessor than the rate permits, or later than a full buffer explains. Its ECN codepoint may change only
/// to CE, from a capable one, and by a queue that marks. Usable for links of constant rate and delay, without jitter,
/// reordering and duplication.
#[derive(Debug, Default)]
pub struct Verifier {
    links: BTreeMap<LinkId, Watched>,
    sent: u64,
    delivered: u64,
    violations: Vec<String>,
}

/// Maximum number of violations kept; the first one already fails a test.
const VIOLATIONS_MAX: usize = 20;

impl Verifier {
    /// Starts watching `link`, which was created with `config`.
    pub fn watch(&mut self, link: LinkId, config: LinkConfig) {
        let watched = Watched {
            config,
            inside: BTreeMap::new(),
            offered: 0,
            arrived: 0,
            last_arrival: Time::ZERO,
            largest_bytes: 0,
        };
        self.links.insert(link, watched);
    }

    fn violated(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what);
        }
    }

    /// Returns the violations so far, including differences from the links' own counters.
    #[must_use]
    pub fn verdict(simulation: &mut Simulation<Self>) -> Vec<String> {
        Self::verdict_within(simulation, |own| own)
    }

    /// Like [`Verifier::verdict`], for a verifier that is part of the observer and found there by `of`.
    #[must_use]
    pub fn verdict_within<O: Observer>(simulation: &mut Simulation<O>, of: impl Fn(&O) -> &Self) -> Vec<String> {
        let own = of(simulation.observer());
        let mut violations = own.violations.clone();
        let (sent, delivered) = (own.sent, own.delivered);
        let watched: Vec<(LinkId, u64, u64)> =
            own.links.iter().map(|(id, link)| (*id, link.offered, link.arrived)).collect();
        for (id, offered, arrived) in watched {
            let held = simulation.link(id).held().packets;
            let stats = simulation.link_stats(id);
            let gone = stats.queue_drops.packets + stats.lost.packets + stats.blackout_drops.packets;
            if stats.offered.packets != offered || stats.delivered.packets != arrived {
                violations.push(format!("link {}: {offered} went in and {arrived} came out: {stats:?}", id.index()));
            }
            if offered != arrived + gone + held {
                violations.push(format!("link {}: {offered} in, {arrived} out, {gone} gone, {held} held", id.index()));
            }
        }
        if delivered > sent {
            violations.push(format!("{delivered} packets were delivered of {sent} sent"));
        }
        violations
    }
}

impl Watched {
    fn serialisation(&self, bytes: u32) -> Duration {
        let rate_bps = self.config.rate_bps.unwrap_or(u64::MAX);
        Duration::from_nanos((u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate_bps)) as u64)
    }

    /// Returns the longest possible time of a packet on a link with a FIFO queue.
    fn longest(&self) -> Option<Duration> {
        let limit = self.config.queue;
        let bytes = [limit.packets.map(|packets| packets as u64 * u64::from(self.largest_bytes)), limit.bytes];
        let waiting = bytes.into_iter().flatten().min().and_then(|bytes| u32::try_from(bytes).ok())?;
        let before = waiting.saturating_add(2 * self.largest_bytes);
        let in_order = matches!(self.config.discipline, Discipline::DropTail | Discipline::Red(_));
        (in_order && self.config.rate_bps.is_some()).then(|| self.serialisation(before) + self.config.delay)
    }

    /// Returns true if the queue may mark packets.
    fn marks(&self) -> bool {
        match &self.config.discipline {
            Discipline::FqCodel(fq_codel) => fq_codel.ecn || fq_codel.ce_threshold.is_some(),
            Discipline::Red(red) => red.ecn,
            Discipline::DropTail | Discipline::Drr(_) | Discipline::Sfq(_) | Discipline::Wfq(_) => false,
        }
    }

    fn check(&mut self, now: Time, packet: &Packet) -> Result<(), &'static str> {
        let entered = self.inside.entry((packet.flow, packet.is_back)).or_default();
        // A link keeps the order within a flow, so earlier packets that have not left were dropped.
        let entry = loop {
            match entered.pop_front() {
                Some(entry) if entry.id == packet.id => break entry,
                Some(entry) if entry.id < packet.id => {}
                _ => return Err("came out without having gone in, or out of order"),
            }
        };
        let Entered { at: offered_at, size_bytes, ecn, .. } = entry;
        if size_bytes != packet.size_bytes {
            return Err("has another size than it had");
        }
        let is_marked = ecn.is_capable() && packet.ecn == Ecn::Ce && self.marks();
        if packet.ecn != ecn && !is_marked {
            return Err("has another ECN codepoint than it had");
        }
        // A rounding error below a nanosecond may be carried over from the previous packet.
        let slack = Duration::from_nanos(1);
        if now + slack < offered_at + self.serialisation(size_bytes) + self.config.delay {
            return Err("came out earlier than rate and delay permit");
        }
        if self.arrived > 1 && now + slack < self.last_arrival + self.serialisation(size_bytes) {
            return Err("followed the packet before it faster than the rate");
        }
        if self.longest().is_some_and(|longest| now > offered_at + longest + slack) {
            return Err("was in the link longer than its buffer explains");
        }
        Ok(())
    }
}

impl Observer for Verifier {
    fn sent(&mut self, _now: Time, _packet: &Packet) {
        self.sent += 1;
    }

    fn offered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        let Some(watched) = self.links.get_mut(&link) else { return };
        watched.offered += 1;
        watched.largest_bytes = watched.largest_bytes.max(packet.size_bytes);
        let entered = watched.inside.entry((packet.flow, packet.is_back)).or_default();
        entered.push_back(Entered { id: packet.id, at: now, size_bytes: packet.size_bytes, ecn: packet.ecn });
    }

    fn arrived(&mut self, now: Time, link: LinkId, packet: &Packet) {
        let Some(watched) = self.links.get_mut(&link) else { return };
        watched.arrived += 1;
        let result = watched.check(now, packet);
        watched.last_arrival = now;
        if let Err(why) = result {
            self.violated(format!(
                "{now}: packet {} of flow {} on link {} {why}",
                packet.id,
                packet.flow,
                link.index()
            ));
        }
    }

    fn delivered(&mut self, _now: Time, _packet: &Packet) {
        self.delivered += 1;
    }
}
