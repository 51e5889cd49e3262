//! Links of one direction, and the route of each packet over them.

use std::time::Duration;

use dfcp_netem::{ConfigError, Count, Ecn, Link, LinkChange, LinkConfig, LinkStats, Packet};
use dfcp_time::Time;

use crate::error::Error;
use crate::limits::HELD_BYTES_MAX;
use crate::packet::{Frame, Segment};

/// Links of one direction, and for each pair of hosts the route over these links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionConfig {
    /// Configuration of each link.
    pub links: Vec<LinkConfig>,
    /// For each pair of hosts, the links that its packets cross, in order. If a link is the last of one route, it is the last of
    /// all routes that use it.
    pub routes: Vec<Vec<usize>>,
}

impl DirectionConfig {
    /// Configuration with one link for all packets.
    pub(crate) fn single(link: LinkConfig) -> Self {
        Self { links: vec![link], routes: vec![vec![0]] }
    }
}

/// Counters of a link at one time; counts are since the link's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReading {
    /// Packets in the queue, without the packet that is being transmitted.
    pub waiting_packets: usize,
    /// Counters of the link.
    pub stats: LinkStats,
}

/// Packet with its position on the route.
#[derive(Clone, Debug)]
struct Traveller {
    segment: Segment,
    route: usize,
    /// Index of the current link on the route.
    at: usize,
}

impl Packet for Traveller {
    fn size_bytes(&self) -> u32 {
        self.segment.size_bytes()
    }

    fn flow(&self) -> u64 {
        self.segment.flow()
    }

    fn ecn(&self) -> Ecn {
        self.segment.ecn()
    }

    fn mark_ce(&mut self) {
        self.segment.mark_ce();
    }

    fn corrupt(&mut self, random: u64) {
        self.segment.corrupt(random);
    }
}

/// The links of one direction, simulated in order of time. A packet enters the next link at the exact time at which it leaves the
/// previous link, even if the caller is late. The caller must fetch only the packets of last links in time.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Link<Traveller>>,
    routes: Vec<Vec<usize>>,
    /// True for links at the end of routes.
    is_last: Vec<bool>,
    /// Packets that left the last link, per route.
    delivered: Vec<Count>,
}

impl Links {
    /// # Errors
    /// Fails if a link or a route is invalid.
    pub(crate) fn new(config: &DirectionConfig, seed: u64) -> Result<Self, Error> {
        let mut is_last = vec![None; config.links.len()];
        for route in &config.routes {
            if route.is_empty() {
                return Err(Error::Route);
            }
            for (at, &link) in route.iter().enumerate() {
                let is_end = at + 1 == route.len();
                let before = is_last.get_mut(link).ok_or(Error::Route)?.replace(is_end);
                if before.is_some_and(|before| before != is_end) {
                    return Err(Error::Route);
                }
            }
        }
        let links = config.links.iter().zip(0_u64..);
        let links = links.map(|(config, place)| {
            // Each link has its own random sequence; the first link's equals that of a network with a single link.
            Ok(Link::new(bounded(config.clone())?, seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15))?)
        });
        Ok(Self {
            links: links.collect::<Result<_, Error>>()?,
            routes: config.routes.clone(),
            is_last: is_last.into_iter().map(|is_end| is_end.unwrap_or(false)).collect(),
            delivered: vec![Count::default(); config.routes.len()],
        })
    }

    /// Route of a frame, by its pair of hosts if there are several pairs; `None` if the frame has no route.
    pub(crate) fn route_of(&self, frame: &Frame) -> Option<usize> {
        match self.routes.len() {
            1 => Some(0),
            routes => frame.pair().filter(|&pair| pair < routes),
        }
    }

    /// Offers a packet to the first link of a route.
    pub(crate) fn push(&mut self, now: Time, route: usize, segment: Segment) {
        self.carry(now);
        if let Some(&first) = self.routes.get(route).and_then(|route| route.first()) {
            self.links[first].push(now, Traveller { segment, route, at: 0 });
        }
    }

    /// Next packet that has left its last link by `now`, with the time of its departure.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, Segment)> {
        self.carry(now);
        loop {
            let (link, at) = self.earliest(true).filter(|&(_, at)| at <= now)?;
            if let Some((arrival, traveller)) = self.links[link].pop_with_arrival(at) {
                self.delivered[traveller.route].packets += 1;
                self.delivered[traveller.route].bytes += u64::from(traveller.size_bytes());
                return Some((arrival, traveller.segment));
            }
        }
    }

    /// Time of the next [`pop`](Self::pop). It is chosen so that packets that leave within `patience` are fetched together.
    pub(crate) fn next_time(&self, patience: Duration) -> Option<Time> {
        let times = self.links.iter().enumerate().filter_map(|(place, link)| {
            if self.is_last[place] {
                link.next_time_together(patience)
            } else {
                // A packet reaches the end of its route only after the delays of all later links.
                link.next_time().map(|time| time + self.delay_behind(place))
            }
        });
        times.min()
    }

    /// Applies a change to a link.
    ///
    /// # Errors
    /// Fails if there is no such link, or the change is invalid.
    pub(crate) fn change(&mut self, now: Time, link: usize, change: &LinkChange) -> Result<(), Error> {
        self.carry(now);
        Ok(self.links.get_mut(link).ok_or(Error::Route)?.change(now, change)?)
    }

    /// Counters of `link` at `now`; zeros if there is no such link.
    pub(crate) fn reading(&mut self, now: Time, link: usize) -> LinkReading {
        self.carry(now);
        let Some(link) = self.links.get_mut(link) else { return LinkReading::default() };
        link.advance(now);
        LinkReading { waiting_packets: link.queue_len(), stats: link.stats() }
    }

    pub(crate) fn stats(&self) -> Vec<LinkStats> {
        self.links.iter().map(Link::stats).collect()
    }

    /// Count of all packets inside the links.
    pub(crate) fn held(&self) -> Count {
        self.links.iter().fold(Count::default(), |mut sum, link| {
            sum += link.held();
            sum
        })
    }

    /// Count of packets that have left the last link, per route.
    pub(crate) fn delivered(&self) -> &[Count] {
        &self.delivered
    }

    /// Moves packets from link to link up to `now`, in order of time, except those on their last link.
    fn carry(&mut self, now: Time) {
        while let Some((link, at)) = self.earliest(false).filter(|&(_, at)| at <= now) {
            let Some((arrival, mut traveller)) = self.links[link].pop_with_arrival(at) else { continue };
            traveller.at += 1;
            if let Some(&next) = self.routes[traveller.route].get(traveller.at) {
                self.links[next].push(arrival, traveller);
            }
        }
    }

    /// Link with the earliest departure, with its time: among the last links of routes if `last`, otherwise among all other links.
    fn earliest(&self, last: bool) -> Option<(usize, Time)> {
        let links = self.links.iter().enumerate().filter(|&(place, _)| self.is_last[place] == last);
        links.filter_map(|(place, link)| Some((place, link.next_time()?))).min_by_key(|&(_, at)| at)
    }

    /// Sum of the delays of all links behind `link` on a route; the minimum over all routes that use `link`.
    fn delay_behind(&self, link: usize) -> Duration {
        let behind = |route: &Vec<usize>| {
            let at = route.iter().position(|&other| other == link)?;
            Some(route[at + 1..].iter().map(|&later| self.links[later].config().delay).sum())
        };
        self.routes.iter().filter_map(behind).min().unwrap_or_default()
    }
}

/// Validates a link's configuration and bounds its memory.
fn bounded(link: LinkConfig) -> Result<LinkConfig, ConfigError> {
    link.validate()?;
    let held_bytes_max = link.held_bytes_max.min(HELD_BYTES_MAX);
    Ok(link.with_held_bytes_max(held_bytes_max))
}

#[cfg(test)]
mod tests;
