//! Devices, addresses, routes and neighbours.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkMessage};
use rtnetlink::packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMetric};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{AddressMessageBuilder, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};

use super::attributes;
use super::namespace::Namespace;
use super::netlink::{Netlink, Refusal};

/// The loopback device of every namespace.
pub(super) const LOOPBACK: u32 = 1;

const RTM_GETSTATS: u16 = 94;
/// Size of `struct if_stats_msg`.
const IF_STATS_MSG_BYTES: usize = 12;
const IFLA_STATS_LINK_64: u16 = 1;
/// A MAC address, as in neighbour entries and devices.
pub(super) type Mac = [u8; 6];

/// One end of a pair of devices.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mac: Mac,
}

impl End {
    /// TCP assumes segmentation offload on every device, even where it is off, but respects a limit of one segment per
    /// buffer.
    fn message(&self, message: LinkMessageBuilder<impl std::fmt::Debug>) -> LinkMessage {
        let message = message.index(self.index).address(self.mac.to_vec());
        message.append_extra_attribute(LinkAttribute::GsoMaxSegs(1)).build()
    }
}

/// A route to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) to: Ipv4Addr,
    pub(super) via: Ipv4Addr,
    pub(super) device: u32,
    /// Source address of unbound sockets.
    pub(super) source: Ipv4Addr,
}

/// Settings of a route for TCP connections to its destination. `None` keeps the kernel's default.
///
/// TCP takes `ssthresh` and `cwnd` from its metrics cache of the destination, which it writes (with these values) at
/// the end of the first connection. So both apply from the second connection on, and `ssthresh` only if
/// `net.ipv4.tcp_no_ssthresh_metrics_save` is 0. The other settings apply immediately, but a receiver drops `window`
/// when data arrives, and computes its buffer anew. Only `SO_RCVBUF` limits a window permanently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteMetrics {
    /// Greatest initially advertised receive window, bytes.
    pub window_bytes: Option<u32>,
    /// Initial congestion window, segments.
    pub initcwnd_segments: Option<u32>,
    /// Initial receive window, segments.
    pub initrwnd_segments: Option<u32>,
    /// Initial slow start threshold, segments.
    pub ssthresh_segments: Option<u32>,
    /// Upper bound of the congestion window, segments.
    pub cwnd_segments: Option<u32>,
}

impl RouteMetrics {
    fn attributes(self) -> Vec<RouteMetric> {
        // The kernel ignores ssthresh and cwnd unless they are locked; bit n locks metric n.
        let lock = |metric: Option<u32>, number: u32| metric.map_or(0, |_| 1 << number);
        let locked = lock(self.ssthresh_segments, 6) | lock(self.cwnd_segments, 7);
        let metrics = [
            (locked != 0).then_some(RouteMetric::Lock(locked)),
            self.window_bytes.map(RouteMetric::Window),
            self.ssthresh_segments.map(RouteMetric::SsThresh),
            self.cwnd_segments.map(RouteMetric::Cwnd),
            self.initcwnd_segments.map(RouteMetric::InitCwnd),
            self.initrwnd_segments.map(RouteMetric::InitRwnd),
        ];
        metrics.into_iter().flatten().collect()
    }
}

/// Counters of packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of these packets, including their IP headers.
    pub ip_bytes: u64,
}

impl Netlink {
    /// Creates a pair of devices: one in this socket's namespace, the other in `namespace`. Both are down: the second one cannot come up
    /// before it knows the first.
    pub(super) fn add_pair(&mut self, here: &End, there: &End, namespace: &Namespace) -> Result<(), Refusal> {
        let peer = LinkMessageBuilder::<LinkUnspec>::new().name(there.name.clone());
        let peer = there.message(peer.setns_by_fd(namespace.file.as_raw_fd()));
        let pair =
            LinkMessageBuilder::<LinkVeth>::new(&here.name, "").set_info_data(InfoData::Veth(InfoVeth::Peer(peer)));
        self.route(RouteNetlinkMessage::NewLink(here.message(pair)), NLM_F_CREATE | NLM_F_EXCL)
    }

    pub(super) fn set_up(&mut self, device: u32) -> Result<(), Refusal> {
        let message = LinkMessageBuilder::<LinkUnspec>::new().index(device).up().build();
        self.route(RouteNetlinkMessage::SetLink(message), 0)
    }

    pub(super) fn add_address(&mut self, device: u32, address: Ipv4Addr) -> Result<(), Refusal> {
        let message = AddressMessageBuilder::<Ipv4Addr>::new().index(device).address(address, 32).build();
        self.route(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a permanent neighbour entry, so that ARP is never used: a lost ARP packet would stall a flow for a second.
    pub(super) fn add_neighbour(&mut self, device: u32, address: Ipv4Addr, mac: Mac) -> Result<(), Refusal> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = device;
        message.header.state = NeighbourState::Permanent;
        message.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet(address)));
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        self.route(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route, or replaces the one to the same destination.
    pub(super) fn set_route(&mut self, route: &Route, metrics: RouteMetrics) -> Result<(), Refusal> {
        let message = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(route.to, 32)
            .gateway(route.via)
            .output_interface(route.device)
            .pref_source(route.source)
            .onlink();
        let mut message = message.build();
        let metrics = metrics.attributes();
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.route(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Counters of a device for received and sent packets and bytes, without Ethernet headers.
    pub(super) fn counters(&mut self, device: u32) -> Result<DeviceCounters, Refusal> {
        let filter = 1_u32 << (IFLA_STATS_LINK_64 - 1);
        let request: Vec<u8> = [0, device, filter].into_iter().flat_map(u32::to_ne_bytes).collect();
        let answers = self.request(RTM_GETSTATS, 0, &request)?;
        let first = answers.first().and_then(|answer| answer.get(IF_STATS_MSG_BYTES..));
        let link = first.and_then(|answer| attributes::find(answer, IFLA_STATS_LINK_64));
        link.and_then(device_counters).ok_or(Refusal::Incomplete("the device's statistics"))
    }
}

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceCounters {
    pub(super) received: Counters,
    pub(super) sent: Counters,
}

/// Parses `struct rtnl_link_stats64`, which starts with received and sent packets and received and sent bytes.
fn device_counters(statistics: &[u8]) -> Option<DeviceCounters> {
    let at = |index| attributes::u64_at(statistics, index);
    let of = |packets: u64, bytes: u64| Counters { packets, ip_bytes: ip_bytes(bytes, packets) };
    Some(DeviceCounters { received: of(at(0)?, at(2)?), sent: of(at(1)?, at(3)?) })
}

/// IP bytes of `packets` whose total size with Ethernet headers is `bytes`.
pub(super) fn ip_bytes(bytes: u64, packets: u64) -> u64 {
    bytes.saturating_sub(packets * u64::from(super::qdisc::ETHERNET_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_the_window_are_locked() {
        let none = RouteMetrics::default();
        assert_eq!(none.attributes(), []);
        let some = RouteMetrics { initcwnd_segments: Some(4), cwnd_segments: Some(9), ..none };
        assert_eq!(some.attributes(), [RouteMetric::Lock(1 << 7), RouteMetric::Cwnd(9), RouteMetric::InitCwnd(4)]);
    }

    #[test]
    fn devices_count_ethernet_headers() {
        let statistics: Vec<u8> = [2_u64, 3, 2 * 114, 3 * 54].into_iter().flat_map(u64::to_ne_bytes).collect();
        let counters = device_counters(&statistics).unwrap();
        assert_eq!(counters.received, Counters { packets: 2, ip_bytes: 200 });
        assert_eq!(counters.sent, Counters { packets: 3, ip_bytes: 120 });
        assert_eq!(device_counters(&statistics[..24]), None);
    }
}
