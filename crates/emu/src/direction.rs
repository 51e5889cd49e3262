//! One direction of the path: frames in, runs of packets out, on any clock.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dfcp_netem::{Count, LinkChange, LinkStats};
use dfcp_time::Time;

use crate::device::Side;
use crate::error::Error;
use crate::lateness::{Lateness, LatenessCounter};
use crate::links::{LinkReading, Links};
use crate::nat::Nat;
use crate::packet::{Flows, Frame, Run, Segment};

/// Statistics of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionReport {
    /// Counters of each link.
    pub links: Vec<LinkStats>,
    /// Packets still queued or in flight at the end.
    pub held: Count,
    /// Packets that left the link, but were refused by the kernel.
    pub refused: Count,
    /// Packets dropped by the sending host's device, because the emulator did not read them in time.
    pub unread_packets: u64,
    /// Packets that are invalid as IP packets or superpackets, or not from an address of this end. They never reached a link.
    pub malformed_packets: u64,
    /// Packets that left the link towards a port whose mapping the near host's NAT had forgotten.
    pub forgotten_packets: u64,
    /// Link-local multicasts, such as router solicitations, which no router forwards. They never reached a link.
    pub local_packets: u64,
    /// System calls that wrote the delivered packets; a superpacket is one.
    pub writes: u64,
    /// Lateness of the packets' departures.
    pub lateness: Lateness,
}

/// Links of one direction, with their input from a device and output to another one.
#[derive(Debug)]
pub(crate) struct Direction {
    links: Links,
    /// Coalescing time, see [`next_time_together`](dfcp_netem::Link::next_time_together).
    patience: Duration,
    flows: Flows,
    lateness: LatenessCounter,
    refused: Count,
    malformed_packets: u64,
    local_packets: u64,
    forgotten_packets: u64,
    writes: u64,
    /// NAT of the near end, where this direction starts or ends.
    nat: Arc<Nat>,
    is_from_near: bool,
    /// Scratch buffer, kept to reuse its memory.
    due: Vec<Time>,
    headers: Vec<u8>,
}

impl Direction {
    pub(crate) fn new(links: Links, patience: Duration, (nat, from): (Arc<Nat>, Side)) -> Self {
        Self {
            nat,
            is_from_near: from == Side::Near,
            forgotten_packets: 0,
            links,
            patience,
            flows: Flows::default(),
            lateness: LatenessCounter::new(),
            refused: Count::default(),
            malformed_packets: 0,
            local_packets: 0,
            writes: 0,
            due: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// Offers a frame from a device to the first link of its route: the packets of a superpacket arrive at the same time.
    pub(crate) fn accept(&mut self, now: Time, bytes: &[u8]) {
        let mut frame = match Frame::parse(bytes) {
            Ok(frame) if frame.is_link_local_multicast() => {
                self.local_packets += frame.segments() as u64;
                return;
            }
            Ok(frame) => frame,
            Err(malformed) => {
                tracing::trace!(%malformed, bytes = bytes.len(), "not sent on");
                self.malformed_packets += 1;
                return;
            }
        };
        let Some(route) = self.links.route_of(&frame) else {
            self.malformed_packets += frame.segments() as u64;
            return;
        };
        frame.flow = self.flows.number(frame.flow_key());
        if self.is_from_near {
            self.nat.send(route, &mut frame);
        } else {
            self.nat.answer(route, &mut frame);
        }
        for segment in Segment::all(frame) {
            self.links.push(now, route, segment);
        }
    }

    /// Time of the next release.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.links.next_time(self.patience)
    }

    /// Sends packets that have left their last link by now, never early. Adjacent segments of a superpacket leave as one.
    pub(crate) fn release(&mut self, clock: impl Fn() -> Time, mut send: impl FnMut(&[u8], &[u8]) -> io::Result<()>) {
        let now = clock();
        let mut run: Option<Run> = None;
        while let Some((arrival, segment)) = self.links.pop(now) {
            if !self.is_from_near && !self.nat.admits(segment.binding()) {
                self.forgotten_packets += 1;
                continue;
            }
            let unfit = match &mut run {
                Some(run) => run.extend(segment).err(),
                None => Some(segment),
            };
            if let Some(full) = unfit.and_then(|segment| run.replace(Run::new(segment))) {
                self.flush(&full, &clock, &mut send);
            }
            self.due.push(arrival);
        }
        if let Some(last) = run {
            self.flush(&last, &clock, &mut send);
        }
    }

    fn flush(&mut self, run: &Run, clock: impl Fn() -> Time, send: &mut impl FnMut(&[u8], &[u8]) -> io::Result<()>) {
        let payload = run.write(&mut self.headers);
        let left = clock();
        for arrival in self.due.drain(..) {
            self.lateness.add(left - arrival);
        }
        self.writes += 1;
        if let Err(error) = send(&self.headers, payload) {
            self.refused.packets += run.packets() as u64;
            self.refused.bytes += run.bytes();
            tracing::trace!(%error, packets = run.packets(), "not taken");
        }
    }

    /// Applies a change to a link.
    pub(crate) fn change(&mut self, now: Time, link: usize, change: &LinkChange) -> Result<(), Error> {
        self.links.change(now, link, change)
    }

    /// State of a link.
    pub(crate) fn reading(&mut self, now: Time, link: usize) -> LinkReading {
        self.links.reading(now, link)
    }

    /// Packets that have left the last link, per route.
    pub(crate) fn delivered(&self) -> &[Count] {
        self.links.delivered()
    }

    pub(crate) fn report(&self) -> DirectionReport {
        DirectionReport {
            links: self.links.stats(),
            held: self.links.held(),
            refused: self.refused,
            unread_packets: 0,
            malformed_packets: self.malformed_packets,
            local_packets: self.local_packets,
            forgotten_packets: self.forgotten_packets,
            writes: self.writes,
            lateness: self.lateness.summary(),
        }
    }
}

#[cfg(test)]
mod tests;
