//! Rate and RTT that a connection has found on a path, as a hint for the next connection there (\[auto-12\]).

use std::net::IpAddr;

use dfcp_time::Time;

use crate::config::PathHint;
use crate::limits::{PATH_MEMORY_TIME, PATHS_REMEMBERED_MAX, PROVEN_RATE_INTERVAL};

/// Highest rate at which a peer has proven to decode, over at least 1 s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProvenRate {
    since: Time,
    bytes: u64,
    pub(crate) best_bps: u64,
}

impl ProvenRate {
    pub(crate) fn new(now: Time) -> Self {
        Self { since: now, bytes: 0, best_bps: 0 }
    }

    /// Takes in a proof of `bytes` further bytes.
    pub(crate) fn on_proven(&mut self, now: Time, bytes: u64) {
        self.bytes += bytes;
        let elapsed = now.since(self.since);
        if elapsed >= PROVEN_RATE_INTERVAL {
            self.best_bps = self.best_bps.max((self.bytes as f64 * 8.0 / elapsed.as_secs_f64()) as u64);
            (self.since, self.bytes) = (now, 0);
        }
    }
}

/// Recent hints for paths, by peer address.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMemory {
    /// Address, time and hint, oldest first.
    paths: Vec<(IpAddr, Time, PathHint)>,
}

impl PathMemory {
    /// Stores the hint of a finished connection with `peer`.
    pub(crate) fn remember(&mut self, now: Time, peer: IpAddr, hint: PathHint) {
        self.paths.retain(|(ip, ..)| *ip != peer);
        if self.paths.len() == PATHS_REMEMBERED_MAX {
            self.paths.remove(0);
        }
        self.paths.push((peer, now, hint));
    }

    /// Returns the hint for the path to `peer`, unless it is too old.
    pub(crate) fn hint(&self, now: Time, peer: IpAddr) -> Option<PathHint> {
        let (_, at, hint) = self.paths.iter().find(|(ip, ..)| *ip == peer)?;
        (now.since(*at) < PATH_MEMORY_TIME).then_some(*hint)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HINT: PathHint = PathHint { rate_bps: 1_000_000, rtt: Duration::from_millis(40) };

    fn peer(number: usize) -> IpAddr {
        IpAddr::from((number as u32).to_be_bytes())
    }

    #[test]
    fn a_memory_is_bounded_and_fades() {
        let (mut memory, now) = (PathMemory::default(), Time::from_s(1));
        for number in 0..=PATHS_REMEMBERED_MAX {
            memory.remember(now, peer(number), HINT);
        }
        assert_eq!(memory.paths.len(), PATHS_REMEMBERED_MAX);
        assert_eq!((memory.hint(now, peer(0)), memory.hint(now, peer(1))), (None, Some(HINT)));
        let newer = PathHint { rate_bps: 7_000, ..HINT };
        memory.remember(now + Duration::from_secs(60), peer(1), newer);
        let late = now + PATH_MEMORY_TIME;
        assert_eq!((memory.hint(late, peer(2)), memory.hint(late, peer(1))), (None, Some(newer)));
    }

    /// Bytes that are proven all together after a long wait are averaged over that wait.
    #[test]
    fn only_what_was_proven_over_a_second_counts() {
        let at = |ms: u64| Time::from_s(1) + Duration::from_millis(ms);
        let mut proven = ProvenRate::new(at(0));
        proven.on_proven(at(999), 1_000_000);
        assert_eq!(proven.best_bps, 0);
        proven.on_proven(at(2_000), 1_000_000);
        assert_eq!(proven.best_bps, 8_000_000);
        proven.on_proven(at(9_000), 1_000_000);
        assert_eq!(proven.best_bps, 8_000_000);
    }
}
