//! Flow of a packet, for fair queues.

use std::collections::BTreeMap;

use dfcp_netem::FLOWS_MAX;

use super::layout::{IpLayout, TCP, UDP};

/// Flow key: protocol, addresses, and ports if there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    protocol: u8,
    addresses: [u8; 32],
    ports: [u8; 4],
}

impl FlowKey {
    pub(crate) fn of(ip: IpLayout, packet: &[u8]) -> Self {
        let mut addresses = [0; 32];
        for (to, from) in addresses.iter_mut().zip(ip.addresses(packet)) {
            *to = *from;
        }
        // Later fragments have no ports, so the first one's are ignored.
        let has_ports = !ip.is_fragment && matches!(ip.protocol, TCP | UDP);
        let ports = packet.get(ip.transport_at..).and_then(<[u8]>::first_chunk).filter(|_| has_ports);
        Self { protocol: ip.protocol, addresses, ports: ports.copied().unwrap_or_default() }
    }
}

/// Numbering of flows from 0 in order of appearance, as DRR and WFQ require.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    numbers: BTreeMap<FlowKey, u64>,
    last: Option<(FlowKey, u64)>,
}

impl Flows {
    /// Number of the flow. Beyond [`FLOWS_MAX`] flows, the limit of the queues, numbering restarts.
    pub(crate) fn number(&mut self, key: FlowKey) -> u64 {
        if let Some((_, number)) = self.last.filter(|(last, _)| *last == key) {
            return number;
        }
        if self.numbers.len() >= FLOWS_MAX && !self.numbers.contains_key(&key) {
            self.numbers.clear();
        }
        let next = self.numbers.len() as u64;
        let number = *self.numbers.entry(key).or_insert(next);
        self.last = Some((key, number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(ports: [u8; 4], fragment: u8) -> FlowKey {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, fragment, 64, UDP, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        packet.extend(ports);
        packet.extend([0; 4]);
        FlowKey::of(IpLayout::of(&packet).unwrap(), &packet)
    }

    #[test]
    fn ports_tell_flows_apart_but_not_fragments_of_one() {
        assert_ne!(udp([0, 1, 0, 2], 0), udp([0, 1, 0, 3], 0));
        assert_eq!(udp([0, 1, 0, 2], 9), udp([7, 7, 7, 7], 5));
    }

    #[test]
    fn flows_keep_their_numbers_and_the_table_is_bounded() {
        let mut flows = Flows::default();
        let key = |number: u32| udp(number.to_be_bytes(), 0);
        for round in 0..2 {
            for number in 0..FLOWS_MAX as u32 {
                assert_eq!(flows.number(key(number)), u64::from(number), "in round {round}");
            }
        }
        assert_eq!(flows.number(key(1 << 20)), 0);
        assert_eq!(flows.numbers.len(), 1);
    }
}
