//! Requests about queue disciplines, their classes and filters.

use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_ECHO, NLM_F_REPLACE};

use super::attributes::{self, Attributes};
use super::netlink::{Netlink, Refusal};
use super::qdisc::ETHERNET_BYTES;

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
const RTM_NEWTFILTER: u16 = 44;

const TCA_KIND: u16 = 1;
pub(super) const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STAB: u16 = 8;
const TCA_STAB_BASE: u16 = 1;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
const TCA_STATS_PKT64: u16 = 8;

/// Parent of a device's root discipline.
pub(super) const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;
const INGRESS_HANDLE: u32 = 0xffff_0000;
/// Size of `struct tcmsg`.
const TCMSG_BYTES: usize = 20;

const TCA_MATCHALL_ACT: u16 = 2;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TC_ACT_STOLEN: u32 = 4;
const TCA_EGRESS_REDIR: u32 = 1;
/// Parent of the filters in front of a device's discipline.
const EGRESS: u32 = 0xffff_fff3;
const ETH_P_ALL: u16 = 3;
const ETH_P_IP: u16 = 0x0800;

const TCA_FLOW_KEYS: u16 = 1;
const TCA_FLOW_MODE: u16 = 2;
const TCA_FLOW_BASECLASS: u16 = 3;
const TCA_FLOW_ADDEND: u16 = 5;
const TCA_FLOW_MASK: u16 = 6;
const TCA_FLOW_XOR: u16 = 7;
const FLOW_KEY_SRC: u32 = 0;
const FLOW_MODE_MAP: u32 = 0;

/// Combines `major:minor` into one number.
pub(super) const fn handle(major: u16, minor: u16) -> u32 {
    ((major as u32) << 16) | minor as u32
}

/// A queue discipline, with its position.
#[derive(Debug)]
pub(super) struct Qdisc<'a> {
    pub(super) device: u32,
    pub(super) parent: u32,
    /// Handle of the discipline; 0 lets the kernel choose.
    pub(super) handle: u32,
    pub(super) kind: &'a str,
    pub(super) options: Vec<u8>,
    /// True to count sizes of IP packets, without the Ethernet header. Only possible at a root, where sizes are computed.
    pub(super) counts_ip: bool,
}

/// Counters of a queue discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) waiting_packets: u32,
    pub(super) dropped_packets: u32,
}

impl Netlink {
    /// Creates a queue discipline, or changes the one with the same handle and kind, which keeps its packets.
    pub(super) fn set_qdisc(&mut self, qdisc: &Qdisc<'_>) -> Result<(), Refusal> {
        let header = tcmsg(qdisc.device, qdisc.handle, qdisc.parent, 0);
        let attributes = Attributes::after(header).string(TCA_KIND, qdisc.kind).bytes(TCA_OPTIONS, &qdisc.options);
        let attributes = if qdisc.counts_ip { attributes.nested(TCA_STAB, without_ethernet()) } else { attributes };
        self.request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &attributes.into_bytes()).map(drop)
    }

    pub(super) fn add_class(&mut self, device: u32, class: u32, kind: &str, options: &[u8]) -> Result<(), Refusal> {
        let header = tcmsg(device, class, class & INGRESS_HANDLE, 0);
        let attributes = Attributes::after(header).string(TCA_KIND, kind).bytes(TCA_OPTIONS, options);
        self.request(RTM_NEWTCLASS, NLM_F_CREATE, &attributes.into_bytes()).map(drop)
    }

    /// Redirects packets received at `from` to be sent at `to`, both in this namespace.
    pub(super) fn redirect(&mut self, from: u32, to: u32) -> Result<(), Refusal> {
        let ingress = Qdisc {
            device: from,
            parent: INGRESS,
            handle: INGRESS_HANDLE,
            kind: "ingress",
            options: Vec::new(),
            counts_ip: false,
        };
        self.set_qdisc(&ingress)?;
        // `struct tc_mirred`: index, capabilities, action, two reference counts, operation, device.
        let mirred: Vec<u8> =
            [0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, to].into_iter().flat_map(u32::to_ne_bytes).collect();
        let action = Attributes::new()
            .string(TCA_ACT_KIND, "mirred")
            .nested(TCA_ACT_OPTIONS, Attributes::new().bytes(TCA_MIRRED_PARMS, &mirred));
        let first = Attributes::new().nested(1, action);
        let options = Attributes::new().nested(TCA_MATCHALL_ACT, first);
        self.add_filter(from, INGRESS_HANDLE, ETH_P_ALL, "matchall", options)
    }

    /// Removes the redirection made by [`redirect`](Self::redirect).
    pub(super) fn end_redirect(&mut self, from: u32) -> Result<(), Refusal> {
        self.request(RTM_DELQDISC, 0, &tcmsg(from, INGRESS_HANDLE, INGRESS, 0)).map(drop)
    }

    /// Polices packets sent through `device`, in front of its queue discipline.
    pub(super) fn police(&mut self, device: u32, options: Attributes) -> Result<(), Refusal> {
        let hook = Qdisc {
            device,
            parent: INGRESS,
            handle: INGRESS_HANDLE,
            kind: "clsact",
            options: Vec::new(),
            counts_ip: false,
        };
        self.set_qdisc(&hook)?;
        let action = Attributes::new().string(TCA_ACT_KIND, "police").nested(TCA_ACT_OPTIONS, options);
        let options = Attributes::new().nested(TCA_MATCHALL_ACT, Attributes::new().nested(1, action));
        self.add_filter(device, EGRESS, ETH_P_ALL, "matchall", options)
    }

    /// Number of packets dropped by the policer in front of the discipline of `device`.
    pub(super) fn policed(&mut self, device: u32) -> Result<u32, Refusal> {
        Ok(self.statistics(device, INGRESS_HANDLE)?.dropped_packets)
    }

    /// Classifies packets at `parent` by the lower half of their source address.
    pub(super) fn classify_by_source(&mut self, device: u32, parent: u32) -> Result<(), Refusal> {
        // The class is 1 plus the computed value.
        let options = Attributes::new()
            .u32(TCA_FLOW_KEYS, 1 << FLOW_KEY_SRC)
            .u32(TCA_FLOW_MODE, FLOW_MODE_MAP)
            .u32(TCA_FLOW_BASECLASS, parent | 1)
            .u32(TCA_FLOW_MASK, 0xffff)
            .u32(TCA_FLOW_XOR, 0)
            .u32(TCA_FLOW_ADDEND, 1_u32.wrapping_neg());
        self.add_filter(device, parent, ETH_P_IP, "flow", options)
    }

    fn add_filter(
        &mut self,
        device: u32,
        parent: u32,
        protocol: u16,
        kind: &str,
        options: Attributes,
    ) -> Result<(), Refusal> {
        let priority = 1;
        // The classifier `flow` requires a handle; there is one filter.
        let header = tcmsg(device, 1, parent, priority << 16 | u32::from(protocol.to_be()));
        let attributes = Attributes::after(header).string(TCA_KIND, kind).nested(TCA_OPTIONS, options);
        self.request(RTM_NEWTFILTER, NLM_F_CREATE, &attributes.into_bytes()).map(drop)
    }

    /// Attributes of a queue discipline.
    pub(super) fn qdisc(&mut self, device: u32, handle: u32) -> Result<Vec<u8>, Refusal> {
        // The answer is a notification, which the requester receives only as an echo.
        let answers = self.request(RTM_GETQDISC, NLM_F_ECHO, &tcmsg(device, handle, 0, 0))?;
        let first = answers.into_iter().next().ok_or(Refusal::Incomplete("the queue discipline"))?;
        first.get(TCMSG_BYTES..).map(<[u8]>::to_vec).ok_or(Refusal::Incomplete("the queue discipline's attributes"))
    }

    /// Counters of a queue discipline.
    pub(super) fn statistics(&mut self, device: u32, handle: u32) -> Result<Statistics, Refusal> {
        let attributes = self.qdisc(device, handle)?;
        statistics(&attributes).ok_or(Refusal::Incomplete("the queue discipline's statistics"))
    }

    /// Counters specific to the kind of a queue discipline.
    pub(super) fn own_statistics(&mut self, device: u32, handle: u32) -> Result<Vec<u8>, Refusal> {
        let attributes = self.qdisc(device, handle)?;
        let own = attributes::find(&attributes, TCA_STATS2).and_then(|all| attributes::find(all, TCA_STATS_APP));
        own.map(<[u8]>::to_vec).ok_or(Refusal::Incomplete("the queue discipline's own statistics"))
    }
}

/// Encodes `struct tcmsg`: family, padding, device, handle, parent, and for filters priority and protocol.
fn tcmsg(device: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, device, handle, parent, info].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Encodes a size table without entries: `struct tc_sizespec`, whose third number is the overhead.
fn without_ethernet() -> Attributes {
    let (logs, overhead) = (0_u32, ETHERNET_BYTES.wrapping_neg());
    let (linklayer, least, mtu, entries) = (0, 0, 0, 0);
    let sizes = [logs, overhead, linklayer, least, mtu, entries];
    let sizes: Vec<u8> = sizes.into_iter().flat_map(u32::to_ne_bytes).collect();
    Attributes::new().bytes(TCA_STAB_BASE, &sizes)
}

fn statistics(bytes: &[u8]) -> Option<Statistics> {
    let all = attributes::find(bytes, TCA_STATS2)?;
    let basic = attributes::find(all, TCA_STATS_BASIC)?;
    let queue = attributes::find(all, TCA_STATS_QUEUE)?;
    // The second attribute exists only for counters beyond 2³².
    let whole = attributes::find(all, TCA_STATS_PKT64).and_then(|value| attributes::u64_at(value, 0));
    let sent_packets = match whole {
        Some(packets) => packets,
        None => attributes::u32_at(basic, 2)?.into(),
    };
    Some(Statistics {
        sent_packets,
        sent_bytes: attributes::u64_at(basic, 0)?,
        waiting_packets: attributes::u32_at(queue, 0)?,
        dropped_packets: attributes::u32_at(queue, 2)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_without_ethernet_are_those_of_tc() {
        // stab overhead -14
        let mut golden = vec![0x1c, 0, 1, 0, 0, 0, 0, 0, 0xf2, 0xff, 0xff, 0xff];
        golden.resize(28, 0);
        assert_eq!(without_ethernet().into_bytes(), golden);
    }

    #[test]
    fn the_head_of_a_request_is_that_of_tc() {
        // qdisc add dev (3) root handle 1:
        let golden = [0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(tcmsg(3, handle(1, 0), ROOT, 0), golden);
    }

    #[test]
    fn statistics_are_read_from_the_newer_structures() {
        let basic: Vec<u8> = [7_u32, 1, 3, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        let queue: Vec<u8> = [5_u32, 0, 2, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        let both = || Attributes::new().bytes(TCA_STATS_BASIC, &basic).bytes(TCA_STATS_QUEUE, &queue);
        let bytes = Attributes::new().string(TCA_KIND, "tbf").nested(TCA_STATS2, both()).into_bytes();
        let expected =
            Statistics { sent_packets: 3, sent_bytes: 7 + (1 << 32), waiting_packets: 5, dropped_packets: 2 };
        assert_eq!(statistics(&bytes), Some(expected));
        let bytes = Attributes::new().nested(TCA_STATS2, both().u64(TCA_STATS_PKT64, 1 << 33)).into_bytes();
        assert_eq!(statistics(&bytes), Some(Statistics { sent_packets: 1 << 33, ..expected }));
        assert_eq!(statistics(&[]), None);
    }
}
