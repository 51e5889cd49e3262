//! Two ends, and a network between them that an adversary controls.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_proto::{Accept, Config, Profile, Security};
use dfcp_testkit::Packet;
use dfcp_time::Time;
use dfcp_wire::Unverified;

use crate::input::{Input, mutate};
use crate::side::{Action, Side};

/// Maximum number of datagrams on a wire; beyond it the oldest one is lost.
const WIRE_DATAGRAMS_MAX: usize = 256;
/// Maximum number of datagrams that the adversary records for replays.
const RECORDED_MAX: usize = 64;
/// One-way delay after the adversary has gone.
const LATENCY: Duration = Duration::from_millis(2);
/// A connection hangs if no byte is delivered for this time on a network without loss. Longer than any timer.
const STALLED: Duration = Duration::from_secs(200);

/// A datagram on a wire.
#[derive(Clone, Debug)]
struct InTransit {
    sent: Time,
    bytes: Vec<u8>,
}

/// Two ends and the wires between them.
#[derive(Debug)]
pub struct Network {
    /// Simulated time.
    pub now: Time,
    /// Connecting end and accepting end.
    pub sides: [Side; 2],
    /// Datagrams in transit, by sending end.
    wires: [VecDeque<InTransit>; 2],
    recorded: VecDeque<(usize, Vec<u8>)>,
    third: SocketAddr,
    to_third: u64,
    from_third: u64,
    profile: Profile,
    is_sealed: bool,
    /// Number of datagrams sent by the ends.
    pub datagrams: u64,
}

impl Network {
    /// Network with a client that connects to a server, with configurations of one profile; nothing has been sent yet.
    #[must_use]
    pub fn new(client: Config, server: Config) -> Self {
        let address = |last, port| SocketAddr::from(([192, 0, 2, last], port));
        let (profile, now) = (client.profile, Time::from_s(1));
        let is_sealed = profile == Profile::Modern && matches!(client.security, Security::Sealed(_));
        let mut sides =
            [Side::new(address(1, 40_000), None, 1, 2), Side::new(address(2, 9_000), Some(Accept::from(server)), 2, 1)];
        sides[0].connect(now, address(2, 9_000), client);
        Self {
            now,
            sides,
            wires: Default::default(),
            recorded: VecDeque::new(),
            third: address(3, 666),
            to_third: 0,
            from_third: 0,
            profile,
            is_sealed,
            datagrams: 0,
        }
    }

    /// Serves both ends, and puts their datagrams on the wires.
    pub fn work(&mut self) {
        for from in 0..2 {
            let mut out = Vec::new();
            self.sides[from].work(self.now, &mut out);
            self.post(from, out);
        }
        self.check_bounds();
    }

    fn post(&mut self, from: usize, out: Vec<Packet>) {
        for Packet { to, bytes, .. } in out {
            self.datagrams += 1;
            if to != self.sides[1 - from].host.address {
                assert_eq!(to, self.third, "a datagram went to an address nobody has");
                self.to_third += 1;
                continue;
            }
            if self.recorded.len() == RECORDED_MAX {
                self.recorded.pop_front();
            }
            self.recorded.push_back((from, bytes.clone()));
            let wire = &mut self.wires[from];
            if wire.len() == WIRE_DATAGRAMS_MAX {
                wire.pop_front();
            }
            wire.push_back(InTransit { sent: self.now, bytes });
        }
    }

    /// Checks the invariants that hold at any time.
    fn check_bounds(&self) {
        let [client, server] = &self.sides;
        for (reader, writer) in [(client, server), (server, client)] {
            if reader.is_checked {
                assert!(reader.read_max <= writer.written_max, "more was delivered than written");
            }
        }
        // [open-11]: an end with an unproven address gets no more datagrams than it sent.
        if self.profile == Profile::Modern {
            assert!(self.to_third <= self.from_third, "{} answers to {}", self.to_third, self.from_third);
        }
    }

    /// Delivers a datagram to the end `to`.
    fn hand_over(&mut self, to: usize, from: SocketAddr, bytes: &[u8]) {
        let mut out = Vec::new();
        self.sides[to].receive(self.now, from, bytes, &mut out);
        self.post(to, out);
    }

    /// Delivers a datagram that no end sent. If a plaintext end may accept it as genuine, content is no longer
    /// compared, because nothing is promised then.
    fn hand_over_forged(&mut self, to: usize, from: SocketAddr, bytes: &[u8]) {
        if !self.is_sealed && is_whole(bytes) {
            self.sides.iter_mut().for_each(|side| side.is_checked = false);
        }
        if from == self.third {
            self.from_third += 1;
        }
        self.hand_over(to, from, bytes);
    }

    // ---- the adversary ----

    /// Delivers the datagram at `index` of a wire, out of order.
    pub fn deliver(&mut self, from: usize, index: usize) {
        if let Some(datagram) = self.wires[from].remove(index) {
            self.hand_over(1 - from, self.sides[from].host.address, &datagram.bytes);
        }
    }

    /// Delivers all datagrams of a wire, in order or in reverse.
    pub fn deliver_all(&mut self, from: usize, reversed: bool) {
        for _ in 0..self.wires[from].len() {
            let last = self.wires[from].len() - 1;
            self.deliver(from, if reversed { last } else { 0 });
        }
    }

    /// Loses the datagram at `index` of a wire.
    pub fn lose(&mut self, from: usize, index: usize) {
        self.wires[from].remove(index);
    }

    /// Loses the oldest `count` datagrams of a wire.
    pub fn lose_many(&mut self, from: usize, count: usize) {
        let count = count.min(self.wires[from].len());
        self.wires[from].drain(..count);
    }

    /// Delivers the datagram at `index` of a wire, and keeps it there.
    pub fn duplicate(&mut self, from: usize, index: usize) {
        if let Some(datagram) = self.wires[from].get(index).cloned() {
            self.hand_over(1 - from, self.sides[from].host.address, &datagram.bytes);
        }
    }

    /// Delivers a changed copy of the datagram at `index`; checksum and CRC are not corrected.
    pub fn change(&mut self, from: usize, index: usize, input: &mut Input<'_>) {
        let Some(datagram) = self.wires[from].get(index) else { return };
        let mut bytes = datagram.bytes.clone();
        mutate(input, &mut bytes);
        if bytes != datagram.bytes {
            self.hand_over_forged(1 - from, self.sides[from].host.address, &bytes);
        }
    }

    /// Delivers `bytes`, as if from the other end or from a third address.
    pub fn inject(&mut self, to: usize, from_third: bool, bytes: &[u8]) {
        let from = if from_third { self.third } else { self.sides[1 - to].host.address };
        self.hand_over_forged(to, from, bytes);
    }

    /// Delivers a recorded datagram to the same end again, with its original source address or that of a third host.
    pub fn replay(&mut self, index: usize, from_third: bool) {
        let Some((from, bytes)) = self.recorded.get(index).cloned() else { return };
        self.from_third += u64::from(from_third);
        let address = if from_third { self.third } else { self.sides[from].host.address };
        self.hand_over(1 - from, address, &bytes);
    }

    /// Number of datagrams on a wire.
    #[must_use]
    pub fn waiting(&self, from: usize) -> usize {
        self.wires[from].len()
    }

    /// Number of recorded datagrams.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.recorded.len()
    }

    // ---- time ----

    /// Advances to the next timer of either end, by at most `limit`.
    pub fn advance_to_timer(&mut self, limit: Duration) {
        let next = self.sides.iter().filter_map(|side| side.next_timeout(self.now)).min();
        self.now = next.unwrap_or(self.now).clamp(self.now, self.now + limit);
    }

    /// Runs without the adversary: the network delivers everything in order, and both applications read, and end their
    /// streams. All written bytes must arrive, or the connection must end with an error. `datagrams_max` bounds the
    /// work; a run that reaches it is not judged.
    pub fn settle(&mut self, datagrams_max: u64) {
        self.run_on(datagrams_max, true);
        self.sides.iter_mut().for_each(|side| side.read(self.now, usize::MAX));
        self.check_bounds();
    }

    fn run_on(&mut self, datagrams_max: u64, reads: bool) {
        let last = self.datagrams + datagrams_max;
        let mut progress = (self.now, 0);
        while !self.sides.iter().any(Side::is_over) && self.datagrams < last {
            for side in self.sides.iter_mut().filter(|_| reads) {
                side.read(self.now, usize::MAX);
                side.end_streams(self.now);
                side.act(self.now, Action::ShutDown);
            }
            if self.sides.iter().all(Side::has_read_all) {
                break;
            }
            self.work();
            let delivered = self.sides[0].read_total + self.sides[1].read_total;
            if delivered > progress.1 || self.sides[1].main.is_none() {
                progress = (self.now, delivered);
            }
            assert!(self.now.since(progress.0) < STALLED, "nothing was delivered for too long: {:?}", self.sides);
            let timers = self.sides.iter().filter_map(|side| side.next_timeout(self.now));
            let arrivals = self.wires.iter().filter_map(|wire| wire.front()).map(|datagram| datagram.sent + LATENCY);
            let Some(next) = timers.chain(arrivals).min() else { break };
            self.now = next.max(self.now);
            for from in 0..2 {
                while self.wires[from].front().is_some_and(|datagram| datagram.sent + LATENCY <= self.now) {
                    self.deliver(from, 0);
                }
            }
        }
    }
}

/// Returns true if a plaintext datagram is a segment with a correct checksum or CRC.
fn is_whole(datagram: &[u8]) -> bool {
    match Unverified::read(datagram) {
        Ok(Unverified::Classic(header)) => header.verify(datagram).is_ok(),
        Ok(Unverified::Clear(header)) => header.verify(datagram).is_ok(),
        Ok(Unverified::Sealed(_)) | Err(_) => false,
    }
}

#[cfg(test)]
impl Network {
    /// Like [`Network::settle`], but the applications neither read nor close.
    pub(crate) fn hang(&mut self) {
        self.run_on(u64::MAX / 2, false);
    }
}
