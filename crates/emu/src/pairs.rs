//! Host pairs at the two ends of a network of links, for programs that run the hosts themselves: senders in one network namespace,
//! receivers in another, each with its own address.

use std::time::Duration;

use dfcp_netem::LinkChange;

use crate::Host;
use crate::device::{Device, Side};
use crate::direction::DirectionReport;
use crate::error::Error;
use crate::limits::PAIRS_MAX;
use crate::links::DirectionConfig;
use crate::namespace::{Network, gain_rights};
use crate::pump::{Pumps, Readings, WatchedDirection};

/// Configuration of a network between host pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct PairConfig {
    /// Direction from near to far, with a route per pair.
    pub forward: DirectionConfig,
    /// Direction from far to near, with a route per pair.
    pub backward: DirectionConfig,
    /// Links of `forward` that [`PairNetwork::forward`] reports.
    pub watched: Vec<usize>,
    /// Coalescing time: a packet waits up to this long for others due shortly after it.
    pub patience: Duration,
    /// Seed of all random events; the two directions draw differently.
    pub seed: u64,
}

/// Running network. It disappears when this value is dropped and the sockets in the network are closed.
#[derive(Debug)]
pub struct PairNetwork {
    home: Network,
    near: Host,
    far: Host,
    pumps: Pumps,
}

impl PairNetwork {
    /// Sets the network up. The process must be single-threaded, and enters other namespaces.
    ///
    /// # Errors
    /// Fails if there are no pairs or too many, or the set-up failed; see [`Error`].
    pub fn start(config: PairConfig) -> Result<Self, Error> {
        let pairs = config.forward.routes.len();
        if pairs != config.backward.routes.len() {
            return Err(Error::Route);
        }
        let count = u16::try_from(pairs).ok().filter(|pairs| (1..=PAIRS_MAX).contains(pairs));
        let count = count.ok_or(Error::Pairs(pairs))?;
        gain_rights()?;
        // The thread's own namespace: a process with rights only in a user namespace cannot return to the outer network.
        let home = Network::enter_new()?;
        let near = Host::with(|| Device::open_for_pairs(Side::Near, count))?;
        let far = Host::with(|| Device::open_for_pairs(Side::Far, count))?;
        home.enter()?;
        let PairConfig { forward, backward, watched, patience, seed } = config;
        let forward = WatchedDirection { config: forward, links: Some(watched), patience };
        let backward = WatchedDirection { config: backward, links: Some(Vec::new()), patience };
        let pumps = Pumps::start([forward, backward], seed, [&near.device, &far.device])?;
        Ok(Self { home, near, far, pumps })
    }

    /// Runs `f` with the calling thread in one end's namespace, to which sockets opened by `f` belong.
    ///
    /// # Errors
    /// Fails if the thread cannot enter the namespace.
    pub fn enter<T>(&self, side: Side, f: impl FnOnce() -> T) -> Result<T, Error> {
        let host = if side == Side::Near { &self.near } else { &self.far };
        host.network.enter()?;
        let _back = Back(&self.home);
        Ok(f())
    }

    /// Readings, less than a millisecond old, of the watched links from near to far, and of packets that arrived at the far hosts.
    #[must_use]
    pub fn forward(&self) -> Readings {
        self.pumps.controls[0].readings()
    }

    /// Readings of the direction from far to near.
    #[must_use]
    pub fn backward(&self) -> Readings {
        self.pumps.controls[1].readings()
    }

    /// Immediately applies a change to a link of the direction that starts at `from`.
    ///
    /// # Errors
    /// Fails if the emulation is not reachable.
    pub fn change(&self, from: Side, link: usize, change: LinkChange) -> Result<(), Error> {
        self.pumps.controls[usize::from(from == Side::Far)].change(link, change)
    }

    /// Gives the near host of a pair new ports, as after a NAT rebinding: packets to the old ones are lost.
    pub fn rebind(&self, pair: u16) {
        self.pumps.rebind(pair.into());
    }

    /// Ends the emulation; returns the reports from near to far, and back.
    ///
    /// # Errors
    /// Fails if a device failed or a change was impossible.
    pub fn finish(self) -> Result<[DirectionReport; 2], Error> {
        let Self { mut near, mut far, pumps, .. } = self;
        let [mut forward, mut backward] = pumps.finish()?;
        forward.unread_packets = near.unread_packets()?;
        backward.unread_packets = far.unread_packets()?;
        Ok([forward, backward])
    }
}

/// Guard that returns the thread to its namespace, even on a panic.
struct Back<'a>(&'a Network);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // The thread came from there, so it may return: setns(2) fails only for lack of rights.
        if let Err(error) = self.0.enter() {
            tracing::debug!(%error, "the thread stays in another network namespace");
        }
    }
}
