//! Pairs of hosts at the two ends of a network of links, for programs that run the hosts themselves: senders in one network namespace,
//! receivers in another, each with an address of its own.

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

/// A network between pairs of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct PairConfig {
    /// The direction from near to far: a route for each pair.
    pub forward: DirectionConfig,
    /// The direction from far to near: a route for each pair.
    pub backward: DirectionConfig,
    /// Links of `forward` that [`PairNetwork::forward`] tells of.
    pub watched: Vec<usize>,
    /// A packet waits up to this long for others which are due shortly after it, so that they leave together.
    pub patience: Duration,
    /// Decides every random event; the two directions draw differently.
    pub seed: u64,
}

/// The network at work. It disappears when this is dropped and the sockets in it are closed.
#[derive(Debug)]
pub struct PairNetwork {
    home: Network,
    near: Host,
    far: Host,
    pumps: Pumps,
}

impl PairNetwork {
    /// Sets it up. This process must have one thread only, and is in other namespaces from then on.
    ///
    /// # Errors
    /// There are no pairs or too many, or it could not be set up; see [`Error`].
    pub fn start(config: PairConfig) -> Result<Self, Error> {
        let pairs = config.forward.routes.len();
        if pairs != config.backward.routes.len() {
            return Err(Error::Route);
        }
        let count = u16::try_from(pairs).ok().filter(|pairs| (1..=PAIRS_MAX).contains(pairs));
        let count = count.ok_or(Error::Pairs(pairs))?;
        gain_rights()?;
        // A home of its own: a process with rights in a user namespace alone cannot return to the network outside.
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

    /// Runs `f` with the calling thread in the namespace of one end. Sockets that `f` opens stay there.
    ///
    /// # Errors
    /// The thread could not get there.
    pub fn enter<T>(&self, side: Side, f: impl FnOnce() -> T) -> Result<T, Error> {
        let host = if side == Side::Near { &self.near } else { &self.far };
        host.network.enter()?;
        let _back = Back(&self.home);
        Ok(f())
    }

    /// State, less than a millisecond old, of the links from near to far, and of the packets that arrived at the far hosts.
    #[must_use]
    pub fn forward(&self) -> Readings {
        self.pumps.controls[0].readings()
    }

    /// Readings of the direction from far to near.
    #[must_use]
    pub fn backward(&self) -> Readings {
        self.pumps.controls[1].readings()
    }

    /// Has a link of the way that begins at `from` change at once.
    ///
    /// # Errors
    /// The emulation cannot be told.
    pub fn change(&self, from: Side, link: usize, change: LinkChange) -> Result<(), Error> {
        self.pumps.controls[usize::from(from == Side::Far)].change(link, change)
    }

    /// Has the near host of a pair get other ports, as behind a NAT which has forgotten it: what goes to those before is lost.
    pub fn rebind(&self, pair: u16) {
        self.pumps.rebind(pair.into());
    }

    /// Ends it, and tells what was counted from near to far, and back.
    ///
    /// # Errors
    /// A device failed, or a change was impossible.
    pub fn finish(self) -> Result<[DirectionReport; 2], Error> {
        let Self { mut near, mut far, pumps, .. } = self;
        let [mut forward, mut backward] = pumps.finish()?;
        forward.unread_packets = near.unread_packets()?;
        backward.unread_packets = far.unread_packets()?;
        Ok([forward, backward])
    }
}

/// Brings the thread back, even when it panics.
struct Back<'a>(&'a Network);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // It came from there, so it may go there: the refusals of setns(2) are about rights.
        if let Err(error) = self.0.enter() {
            tracing::debug!(%error, "the thread stays in another network namespace");
        }
    }
}
