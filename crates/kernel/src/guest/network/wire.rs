//! One direction of a link: queue, transmitter, and delay with losses after it.

use std::collections::BTreeSet;
use std::time::Duration;

use dfcp_netem::{Discipline, LinkConfig, Loss, Policer};
use dfcp_sim::Node;

use super::device::{Counters, Mac, ip_bytes};
use super::error::{Asked, NetworkError};
use super::netlink::{Netlink, Refusal};
use super::qdisc::netem::{Netem, TCA_NETEM_PRNG_SEED};
use super::qdisc::{self, fq_codel, police, red, sfq, tbf};
use super::tc::{self, Qdisc, handle};
use super::{EdgeSample, Network, attributes};

/// Index of the first device after loopback.
const FIRST_DEVICE: usize = 2;
/// Handle of every device's root discipline.
const ROOT_HANDLE: u32 = handle(1, 0);
/// Handle of the discipline below tbf.
const QUEUE_HANDLE: u32 = handle(2, 0);
/// Default limit of a queue whose layout has no limit in packets.
const LIMIT_PACKETS_DEFAULT: usize = dfcp_netem::QUEUE_PACKETS_DEFAULT;
/// Size of a full packet with and without its Ethernet header, bytes.
const FULL_FRAME: (u64, u64) = (1514, 1500);
/// Greatest jitter: netem holds twice the deviation in 32 bits of nanoseconds.
const JITTER_MAX: Duration = Duration::from_secs(4);
/// Size of `struct tc_netem_qopt`, before netem's attributes.
const NETEM_QOPT_BYTES: usize = 24;

/// Index of the device through which an edge's packets are sent, at its first node and in the ether.
pub(super) fn device(edge: usize) -> u32 {
    (FIRST_DEVICE + edge) as u32
}

/// MAC address of an edge's device at its first node.
pub(super) fn mac(edge: usize) -> Mac {
    let [_, a, b, c] = (edge as u32).to_be_bytes();
    [0x02, 0, 0, a, b, c] // locally administered
}

/// Edge of the same link in the reverse direction.
pub(super) fn back(edge: usize) -> usize {
    edge ^ 1
}

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) netem: Netem,
    policer: Option<Policer>,
    discipline: Discipline,
    limit_packets: u32,
    /// True if the wire starts at a host of a flow.
    pub(super) is_of_host: bool,
    /// Nodes whose packets are carried by the wire.
    sources: BTreeSet<usize>,
    has_queue: bool,
    has_netem: bool,
    /// True once netem was configured with losses, random or for an outage.
    has_losses: bool,
    /// Packets lost in past outages.
    outage_packets: u32,
    /// All packets lost before the last start or end of an outage.
    before_outage_packets: u32,
    /// Number of changes of netem, each of which needs a new seed.
    drawn: u64,
}

/// First property of a link that the kernel lacks, as a sentence.
fn unsupported(link: &LinkConfig) -> Option<&'static str> {
    let has_weights = matches!(&link.discipline, Discipline::Drr(drr) if !drr.weights.is_empty());
    let asked = [
        (matches!(link.discipline, Discipline::Wfq(_)), "the kernel has no WFQ; choose drr or fq-codel"),
        (matches!(link.loss, Loss::Trace(_)), "the kernel has no losses by trace"),
        (link.jitter >= JITTER_MAX, "the kernel's jitter is below four seconds"),
        (has_weights, "flows have no weights in the kernel"),
        (link.queue.bytes.is_some(), "queues are limited in packets in the kernel"),
        (link.reorder > 0.0, "links keep order in the kernel"),
        (link.duplicate > 0.0 || link.corrupt > 0.0, "links neither duplicate nor corrupt packets in the kernel"),
        (!link.blackouts.is_empty(), "links have no blackouts in the kernel"),
    ];
    asked.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, sentence)| sentence)
}

impl Wire {
    /// Makes the wire of an edge. `is_of_host` is true if it starts at a host of a flow.
    ///
    /// # Errors
    /// Fails if the link has a property that the kernel lacks.
    pub(super) fn new(from: Node, to: Node, link: &LinkConfig, is_of_host: bool) -> Result<Self, NetworkError> {
        if let Some(sentence) = unsupported(link) {
            return Err(NetworkError::layout(sentence));
        }
        let limit = link.queue.packets.unwrap_or(LIMIT_PACKETS_DEFAULT);
        Ok(Self {
            from: from.index(),
            to: to.index(),
            netem: Netem {
                rate_bps: link.rate_bps,
                delay: link.delay,
                jitter: link.jitter,
                batch: link.batch,
                loss: link.loss.clone(),
                is_out: false,
            },
            policer: link.policer,
            discipline: link.discipline.clone(),
            limit_packets: u32::try_from(limit).unwrap_or(u32::MAX),
            is_of_host,
            sources: BTreeSet::new(),
            has_queue: false,
            has_netem: false,
            has_losses: false,
            outage_packets: 0,
            before_outage_packets: 0,
            drawn: 0,
        })
    }

    pub(super) fn add_source(&mut self, node: usize) {
        self.sources.insert(node);
    }

    pub(super) fn set_rate(&mut self, rate_bps: u64) {
        self.netem.rate_bps = Some(rate_bps);
    }

    /// Share of the limit for each flow. The simulator's DRR has one limit for all flows and drops from the longest queue; the kernel's has
    /// a limit per flow. One more packet waits outside the classes: the next one, which tbf has dequeued.
    fn class_limit_packets(&self) -> u32 {
        let flows = u32::try_from(self.sources.len()).unwrap_or(u32::MAX).max(1);
        self.limit_packets.saturating_sub(1).div_ceil(flows).max(1)
    }

    /// Single queue below tbf, or below RED.
    fn fifo(&self, device: u32, parent: u32, handle: u32) -> Qdisc<'static> {
        let options = qdisc::fifo_options(self.limit_packets);
        Qdisc { device, parent, handle, kind: "pfifo", options, counts_ip: false }
    }
}

impl Network {
    /// Adds the policer of an edge, if it has one.
    pub(super) fn add_policer(&mut self, edge: usize) -> Result<(), NetworkError> {
        let wire = &self.wires[edge];
        let Some(policer) = wire.policer else { return Ok(()) };
        let added = self.nodes[wire.from].netlink.police(device(edge), police::options(policer, FULL_FRAME));
        added.asked(|| format!("cannot police edge {edge}"))
    }

    /// Starts or ends an outage in the counters; the caller then changes netem.
    pub(super) fn set_outage(&mut self, edge: usize, is_out: bool) -> Result<(), NetworkError> {
        let lost = self.lost_packets(edge)?;
        let wire = &mut self.wires[edge];
        if wire.netem.is_out {
            wire.outage_packets += lost - wire.before_outage_packets;
        }
        wire.netem.is_out = is_out;
        wire.before_outage_packets = lost;
        Ok(())
    }

    /// Number of packets dropped by netem, at random and in outages. No request is made for a wire that never had losses.
    fn lost_packets(&mut self, edge: usize) -> Result<u32, NetworkError> {
        if !self.wires[edge].has_losses {
            return Ok(0);
        }
        // Netem drops no other packets: its own limit is never reached.
        let read = self.ether.netlink.statistics(device(edge), ROOT_HANDLE);
        Ok(read.asked(|| format!("cannot read the losses of edge {edge}"))?.dropped_packets)
    }

    /// Creates or changes the transmitter of an edge, and creates its queue. An edge without a rate has neither.
    pub(super) fn set_transmitter(&mut self, edge: usize) -> Result<(), NetworkError> {
        let wire = &self.wires[edge];
        let Some(rate_bps) = wire.netem.rate_bps else { return Ok(()) };
        // A host may hand tbf one buffer with many packets (UDP_SEGMENT). After tbf has split it, the sizes include the Ethernet header
        // regardless of the size table. So no table is used here, and the rate is raised instead to be exact for full packets.
        let counts_ip = !wire.is_of_host;
        let (frame, packet) = FULL_FRAME;
        let framed = u128::from(rate_bps) * u128::from(frame) / u128::from(packet);
        let tbf_bps = if counts_ip { rate_bps } else { u64::try_from(framed).unwrap_or(u64::MAX) };
        let child_limit_packets = if wire.has_queue { wire.limit_packets } else { 0 };
        let qdisc = Qdisc {
            device: device(edge),
            parent: tc::ROOT,
            handle: ROOT_HANDLE,
            kind: "tbf",
            options: tbf::options(tbf_bps, child_limit_packets),
            counts_ip,
        };
        let netlink = &mut self.nodes[wire.from].netlink;
        netlink.set_qdisc(&qdisc).asked(|| format!("cannot set edge {edge} to {rate_bps} bit/s"))?;
        if !wire.has_queue {
            self.add_queue(edge, rate_bps)?;
            self.wires[edge].has_queue = true;
        }
        Ok(())
    }

    fn add_queue(&mut self, edge: usize, rate_bps: u64) -> Result<(), NetworkError> {
        let wire = &self.wires[edge];
        let (device, limit) = (device(edge), wire.limit_packets);
        let (kind, options) = match &wire.discipline {
            Discipline::DropTail => ("pfifo", qdisc::fifo_options(limit)),
            Discipline::Drr(_) => ("drr", Vec::new()),
            Discipline::Sfq(sfq) => ("sfq", sfq::options(sfq, limit)),
            Discipline::FqCodel(fq_codel) => ("fq_codel", fq_codel::options(fq_codel, limit)),
            Discipline::Red(red) => ("red", red::options(red, rate_bps)?),
            Discipline::Wfq(_) => return Err(NetworkError::layout("the kernel has no WFQ")), // `unsupported` refused it
        };
        let queue = Qdisc { device, parent: ROOT_HANDLE | 1, handle: QUEUE_HANDLE, kind, options, counts_ip: false };
        let netlink = &mut self.nodes[wire.from].netlink;
        let what = || format!("cannot give edge {edge} a queue of {kind}");
        netlink.set_qdisc(&queue).asked(what)?;
        match &wire.discipline {
            Discipline::Red(_) => netlink.set_qdisc(&wire.fifo(device, QUEUE_HANDLE | 1, 0)).asked(what),
            Discipline::Drr(drr) => {
                let limit = qdisc::fifo_options(wire.class_limit_packets());
                for &source in &wire.sources {
                    // Classes have the numbers of the lower halves of addresses.
                    let class = QUEUE_HANDLE | (source as u32 + 1);
                    let options = qdisc::drr_class_options(drr.quantum_bytes);
                    netlink.add_class(device, class, "drr", &options).asked(what)?;
                    let options = limit.clone();
                    let queue = Qdisc { device, parent: class, handle: 0, kind: "pfifo", options, counts_ip: false };
                    netlink.set_qdisc(&queue).asked(what)?;
                }
                netlink.classify_by_source(device, QUEUE_HANDLE).asked(what)
            }
            _ => Ok(()),
        }
    }

    /// Creates or changes the netem after an edge's transmitter. A wire without delay and loss has no netem.
    pub(super) fn set_netem(&mut self, edge: usize) -> Result<(), NetworkError> {
        let wire = &mut self.wires[edge];
        if wire.netem.is_nothing() && !wire.has_netem {
            return Ok(());
        }
        let seed = seed_of(self.seed, edge, wire.drawn);
        let qdisc = Qdisc {
            device: device(edge),
            parent: tc::ROOT,
            handle: ROOT_HANDLE,
            kind: "netem",
            options: wire.netem.options(seed)?,
            counts_ip: false,
        };
        let set = self.ether.netlink.set_qdisc(&qdisc);
        set.asked(|| format!("cannot set delay and losses of edge {edge}"))?;
        wire.has_netem = true;
        wire.has_losses |= wire.netem.loss != Loss::None || wire.netem.is_out;
        wire.drawn += 1;
        Ok(())
    }

    /// True if netem accepted its seed: a kernel that does not know the attribute omits it in its answer.
    pub(super) fn took_seed(&mut self) -> Result<bool, NetworkError> {
        let Some(edge) = self.wires.iter().position(|wire| wire.has_netem) else { return Ok(false) };
        let read = self.ether.netlink.qdisc(device(edge), ROOT_HANDLE);
        let read = read.asked(|| format!("cannot read delay and losses of edge {edge}"))?;
        let options = attributes::find(&read, tc::TCA_OPTIONS).and_then(|options| options.get(NETEM_QOPT_BYTES..));
        let seed = attributes::find(options.unwrap_or_default(), TCA_NETEM_PRNG_SEED);
        let seed = seed.and_then(|seed| attributes::u64_at(seed, 0));
        Ok(seed == Some(seed_of(self.seed, edge, 0)))
    }

    pub(super) fn sample_wire(&mut self, edge: usize) -> Result<EdgeSample, NetworkError> {
        let lost = self.lost_packets(edge)?;
        let wire = &self.wires[edge];
        let what = || format!("cannot read the statistics of edge {edge}");
        let lost = if wire.netem.is_out { wire.before_outage_packets } else { lost } - wire.outage_packets;
        let netlink = &mut self.nodes[wire.from].netlink;
        let mut sample = EdgeSample { lost_packets: lost.into(), ..EdgeSample::default() };
        if wire.has_queue {
            let queue = netlink.statistics(device(edge), ROOT_HANDLE).asked(what)?;
            sample.waiting_packets = queue.waiting_packets;
            sample.dropped_packets = queue.dropped_packets.into();
            sample.marked_packets = marked_packets(netlink, device(edge), &wire.discipline).asked(what)?;
            let bytes = queue.sent_bytes;
            let bytes = if wire.is_of_host { ip_bytes(bytes, queue.sent_packets) } else { bytes };
            sample.sent = Counters { packets: queue.sent_packets, ip_bytes: bytes };
        } else {
            sample.sent = netlink.counters(device(edge)).asked(what)?.sent;
        }
        if wire.policer.is_some() {
            sample.dropped_packets += u64::from(netlink.policed(device(edge)).asked(what)?);
        }
        sample.offered_packets = sample.sent.packets + sample.dropped_packets;
        Ok(sample)
    }
}

/// Number of packets marked by a queue, if it can mark.
fn marked_packets(netlink: &mut Netlink, device: u32, discipline: &Discipline) -> Result<u64, Refusal> {
    let counted = match discipline {
        Discipline::FqCodel(_) => fq_codel::marked_packets(&netlink.own_statistics(device, QUEUE_HANDLE)?),
        Discipline::Red(_) => red::marked_packets(&netlink.own_statistics(device, QUEUE_HANDLE)?),
        _ => Some(0),
    };
    counted.ok_or(Refusal::Incomplete("the count of marks"))
}

/// Seed of netem for an edge and a change, derived from the seed of the run (output function of SplitMix64, Steele et al. 2014).
fn seed_of(seed: u64, edge: usize, drawn: u64) -> u64 {
    [edge as u64, drawn].into_iter().fold(seed, |seed, number| {
        let z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use dfcp_netem::{Drr, QueueLimit, Wfq};
    use dfcp_time::Time;

    use super::*;

    #[test]
    fn what_the_kernel_cannot_do_is_refused_in_words() {
        let link = LinkConfig::default;
        assert_eq!(unsupported(&link().with_rate_bps(1).with_loss(Loss::bernoulli(0.5))), None);
        let weighted = Drr { weights: vec![2], ..Drr::default() };
        for link in [
            link().with_discipline(Discipline::Wfq(Wfq::default())),
            link().with_discipline(Discipline::Drr(weighted)),
            link().with_loss(Loss::Trace([true].into())),
            link().with_jitter(JITTER_MAX),
            link().with_blackout(Time::ZERO, Time::from_s(1)),
            link().with_queue(QueueLimit::bytes(1)),
            link().with_reorder(0.1, JITTER_MAX),
            link().with_duplicate(0.1),
            link().with_corrupt(0.1),
        ] {
            assert!(unsupported(&link).is_some(), "{link:?}");
        }
    }

    #[test]
    fn an_address_has_the_number_of_its_edge() {
        assert_eq!(mac(0x0102_0304), [2, 0, 0, 2, 3, 4]);
    }

    #[test]
    fn seeds_differ_by_run_edge_and_change() {
        let mut seeds: Vec<u64> = Vec::new();
        for seed in 0..4 {
            for edge in 0..4 {
                seeds.extend((0..4).map(|drawn| seed_of(seed, edge, drawn)));
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 64);
    }
}
