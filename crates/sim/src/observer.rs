//! Observers of the simulation's events. They are chosen at compile time, so [`Nobody`] costs nothing.

use dfcp_time::Time;

use crate::packet::{LinkId, Packet};

/// Observer of every step of every packet, in order of time.
pub trait Observer {
    /// Called when an end sends `packet`.
    fn sent(&mut self, _now: Time, _packet: &Packet) {}

    /// Called when `packet` arrives at the entrance of `link`, which may then drop it.
    fn offered(&mut self, _now: Time, _link: LinkId, _packet: &Packet) {}

    /// Called when `packet` leaves `link`.
    fn arrived(&mut self, _now: Time, _link: LinkId, _packet: &Packet) {}

    /// Called when `packet` reaches the end to which it was sent.
    fn delivered(&mut self, _now: Time, _packet: &Packet) {}
}

/// Observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {}

/// Observer that is optional.
impl<A: Observer> Observer for Option<A> {
    fn sent(&mut self, now: Time, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.sent(now, packet));
    }

    fn offered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.offered(now, link, packet));
    }

    fn arrived(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.arrived(now, link, packet));
    }

    fn delivered(&mut self, now: Time, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.delivered(now, packet));
    }
}

/// Pair of observers, each of which receives all events.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn sent(&mut self, now: Time, packet: &Packet) {
        self.0.sent(now, packet);
        self.1.sent(now, packet);
    }

    fn offered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.0.offered(now, link, packet);
        self.1.offered(now, link, packet);
    }

    fn arrived(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.0.arrived(now, link, packet);
        self.1.arrived(now, link, packet);
    }

    fn delivered(&mut self, now: Time, packet: &Packet) {
        self.0.delivered(now, packet);
        self.1.delivered(now, packet);
    }
}

/// Hash of all events. Equal seeds give equal hashes, in every build and on every machine.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Fingerprint {
    /// Returns the hash of the events so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0
    }

    fn add(&mut self, what: u64, now: Time, packet: &Packet) {
        // The ECN codepoint is hashed in bits that flow numbers do not reach. It is zero for Not-ECT packets.
        let ecn = u64::from(packet.ecn.bits()) << 62;
        let size = ecn ^ (u64::from(packet.flow) << 32 | u64::from(packet.size_bytes));
        // FNV-1a over 64-bit words, with a rotation that moves high bits down.
        for word in [now.as_ns(), packet.id << 3 | what, size] {
            self.0 = (self.0 ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(23);
        }
    }
}

impl Observer for Fingerprint {
    fn sent(&mut self, now: Time, packet: &Packet) {
        self.add(0, now, packet);
    }

    fn offered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.add(1 + 8 * u64::from(link.0), now, packet);
    }

    fn arrived(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.add(2 + 8 * u64::from(link.0), now, packet);
    }

    fn delivered(&mut self, now: Time, packet: &Packet) {
        self.add(3, now, packet);
    }
}
