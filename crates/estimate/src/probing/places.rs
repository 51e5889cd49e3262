//! The clients of a server by address, and which of them makes room when all places are taken.
//!
//! One host could take every place, by its ports or the addresses of its network. Therefore the address which has most places gives one up
//! for a newcomer from an address that has two fewer: so each has as many as any other that wants them, and one with a single
//! place never loses it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use dfcp_secure::AddressPrefix;
use dfcp_time::Time;

/// Places by address, for as many as the server says.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Each client with when it was last heard: the longest silent one first.
    held: BTreeMap<AddressPrefix, BTreeSet<(Time, SocketAddr)>>,
    /// Holders of places, by their number of places.
    by_count: BTreeSet<(usize, AddressPrefix)>,
}

impl Places {
    /// Notes that `client` was heard at `now`, which it was before at `former` if it has a place.
    pub(super) fn hear(&mut self, client: SocketAddr, former: Option<Time>, now: Time) {
        self.change(client, |held| {
            if let Some(former) = former {
                held.remove(&(former, client));
            }
            held.insert((now, client));
        });
    }

    /// Gives the place of `client` back, which was last heard at `heard`.
    pub(super) fn release(&mut self, client: SocketAddr, heard: Time) {
        self.change(client, |held| {
            held.remove(&(heard, client));
        });
    }

    /// The client that makes room for `newcomer`, if one does: it keeps its place until it is [released](Self::release).
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
