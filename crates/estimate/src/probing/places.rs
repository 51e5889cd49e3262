//! Clients of a server by address, and the choice of the one that is displaced when all places are taken.
//!
//! One host could take every place with its ports or network addresses. Therefore the address with most places loses one to a newcomer
//! whose address has at least two fewer: every address gets an equal share, and a single place is never lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use dfcp_secure::AddressPrefix;
use dfcp_time::Time;

/// Places by address; the server sets their number.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Clients per address with the time of their last datagram, longest silent first.
    held: BTreeMap<AddressPrefix, BTreeSet<(Time, SocketAddr)>>,
    /// Addresses by their number of places.
    by_count: BTreeSet<(usize, AddressPrefix)>,
}

impl Places {
    /// Records a datagram of `client` at `now`; `former` is the time of its previous one, if it has a place.
    pub(super) fn hear(&mut self, client: SocketAddr, former: Option<Time>, now: Time) {
        self.change(client, |held| {
            if let Some(former) = former {
                held.remove(&(former, client));
            }
            held.insert((now, client));
        });
    }

    /// Releases the place of `client`, whose last datagram came at `heard`.
    pub(super) fn release(&mut self, client: SocketAddr, heard: Time) {
        self.change(client, |held| {
            held.remove(&(heard, client));
        });
    }

    /// Client to displace for `newcomer`, if any; it keeps its place until [released](Self::release).
    pub(super) fn displaced_by(&self, newcomer: SocketAddr) -> Option<SocketAddr> {
        let own = self.held.get(&newcomer.into()).map_or(0, BTreeSet::len);
        let &(most, prefix) = self.by_count.last().filter(|&&(most, _)| most > own + 1)?;
        debug_assert_eq!(self.held.get(&prefix).map(BTreeSet::len), Some(most), "both tables tell the same");
        self.held.get(&prefix)?.first().map(|&(_, client)| client)
    }

    fn change(&mut self, client: SocketAddr, change: impl FnOnce(&mut BTreeSet<(Time, SocketAddr)>)) {
        let prefix = AddressPrefix::from(client);
        let held = self.held.entry(prefix).or_default();
        let before = held.len();
        change(held);
        let after = held.len();
        if after == 0 {
            self.held.remove(&prefix);
        }
        if before != after {
            self.by_count.remove(&(before, prefix));
            if after > 0 {
                self.by_count.insert((after, prefix));
            }
        }
    }
}
