//! NAT at the near end whose mappings can be forgotten: a host's ports then look different to the far end, and packets to the old ones are
//! lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::packet::{Binding, Frame, TCP};

/// Shift of the ports at each rebinding, so large that new ports differ from neighbours' old ones.
const STEP: u32 = 10_007;
/// Number of ports, from 1 on.
const PORTS: u32 = 65_535;
/// Words of the bit set, 64 ports each.
const WORDS: usize = 1 << 10;

/// Ports of a host.
#[derive(Clone, Debug)]
struct Ports {
    /// Number of rebindings.
    generation: u32,
    /// Ports used since the last rebinding: of UDP, of TCP.
    used: [Box<[u64; WORDS]>; 2],
}

impl Ports {
    fn forgotten(before: Option<&Self>) -> Self {
        let generation = before.map_or(0, |ports| ports.generation).wrapping_add(1);
        Self { generation, used: [Box::new([0; WORDS]), Box::new([0; WORDS])] }
    }

    /// Port that the far end sees for `port`. Port 0 is never used.
    fn outer(&self, port: u16) -> u16 {
        let shift = self.shift();
        port.checked_sub(1).map_or(0, |port| ((u32::from(port) + shift) % PORTS + 1) as u16)
    }

    fn inner(&self, port: u16) -> u16 {
        let shift = self.shift();
        port.checked_sub(1).map_or(0, |port| ((u32::from(port) + PORTS - shift) % PORTS + 1) as u16)
    }

    fn shift(&self) -> u32 {
        (u64::from(self.generation) * u64::from(STEP) % u64::from(PORTS)) as u32
    }

    fn place(port: u16) -> (usize, u64) {
        (usize::from(port / 64), 1 << (port % 64))
    }
}

/// Hosts with rebindings, by route.
#[derive(Debug, Default)]
pub(crate) struct Nat {
    /// False before the first rebinding: packets then need no look-up.
    is_active: AtomicBool,
    hosts: Mutex<BTreeMap<usize, Ports>>,
}

impl Nat {
    fn hosts(&self) -> Option<MutexGuard<'_, BTreeMap<usize, Ports>>> {
        self.is_active.load(Ordering::Acquire).then(|| self.hosts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets the mappings of a route's host.
    pub(crate) fn forget(&self, route: usize) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let forgotten = Ports::forgotten(hosts.get(&route));
        hosts.insert(route, forgotten);
        self.is_active.store(true, Ordering::Release);
    }

    /// Translates a frame from a host.
    pub(crate) fn send(&self, route: usize, frame: &mut Frame) {
        let Some(mut hosts) = self.hosts() else { return };
        let (Some(ports), Some((protocol, [source, _]))) = (hosts.get_mut(&route), frame.ports()) else { return };
        let (word, bit) = Ports::place(source);
        ports.used[usize::from(protocol == TCP)][word] |= bit;
        frame.set_source_port(ports.outer(source));
    }

    /// Translates a frame to a host. The frame travels the whole path even if the NAT will drop it.
    pub(crate) fn answer(&self, route: usize, frame: &mut Frame) {
        // Frames without ports have no mapping.
        let Some((protocol, [_, destination])) = frame.ports() else { return };
        let hosts = self.hosts();
        let Some(ports) = hosts.as_ref().and_then(|hosts| hosts.get(&route)) else {
            frame.binding = Some(Binding { route, generation: Some(0) });
            return;
        };
        let inner = ports.inner(destination);
        let (word, bit) = Ports::place(inner);
        let is_used = ports.used[usize::from(protocol == TCP)][word] & bit != 0;
        frame.binding = Some(Binding { route, generation: is_used.then_some(ports.generation) });
        frame.set_destination_port(inner);
    }

    /// True if a packet arriving at the NAT with this binding may pass to its host.
    pub(crate) fn admits(&self, binding: Option<Binding>) -> bool {
        let (Some(binding), Some(hosts)) = (binding, self.hosts()) else { return true };
        let generation = hosts.get(&binding.route).map_or(0, |ports| ports.generation);
        binding.generation == Some(generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::testing::Spec;

    fn frame() -> Frame {
        Frame::parse(&Spec::tcp(1000, 3000).superpacket()).unwrap()
    }

    /// Answer of the far end to a packet from this port.
    fn answer(port: u16) -> Frame {
        let mut frame = frame();
        frame.set_destination_port(port);
        frame
    }

    #[test]
    fn ports_are_others_each_time_and_answers_come_back_to_the_first() {
        let nat = Nat::default();
        let (_, [port, _]) = frame().ports().unwrap();
        let mut seen = vec![port];
        for _ in 0..5 {
            nat.forget(0);
            let mut sent = frame();
            nat.send(0, &mut sent);
            let (_, [outer, _]) = sent.ports().unwrap();
            assert!(!seen.contains(&outer), "{outer}");
            let mut back = answer(outer);
            nat.answer(0, &mut back);
            assert_eq!(back.ports().unwrap().1[1], port);
            assert!(nat.admits(back.binding));
            // Packets to an earlier port are lost.
            for &old in &seen {
                let mut stale = answer(old);
                nat.answer(0, &mut stale);
                assert!(!nat.admits(stale.binding), "{old}");
            }
            seen.push(outer);
        }
    }

    #[test]
    fn what_travels_while_the_nat_forgets_is_lost_and_other_hosts_notice_nothing() {
        let nat = Nat::default();
        let (mut before, mut other) = (answer(7), answer(7));
        nat.answer(0, &mut before);
        nat.answer(1, &mut other);
        assert!(nat.admits(before.binding));
        nat.forget(0);
        assert!(!nat.admits(before.binding) && nat.admits(other.binding));
        let mut sent = frame();
        nat.send(1, &mut sent);
        assert_eq!(sent, frame());
    }

    #[test]
    fn ports_are_translated_one_to_one() {
        let ports = Ports { generation: 6, ..Ports::forgotten(None) };
        let outer: std::collections::BTreeSet<u16> = (1..=u16::MAX).map(|port| ports.outer(port)).collect();
        assert!(outer.len() == usize::from(u16::MAX) && !outer.contains(&0));
        assert!((0..=u16::MAX).all(|port| ports.inner(ports.outer(port)) == port));
    }
}
