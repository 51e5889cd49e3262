//! Clients of the relay.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dfcp_secure::AddressPrefix;
use dfcp_time::Time;

use super::limits::{CLIENT_CHECK_INTERVAL, CLIENT_IDLE_MAX, CLIENTS_MAX};
use super::socket::{Local, Socket};

/// A client address with its own socket towards the target, which receives the replies. Datagrams in flight hold a
/// reference to the client, so they are not misdirected after the client was removed.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) addr: SocketAddr,
    /// Relay address to which the client sent, which must be the source of replies.
    pub(super) reply_from: Option<IpAddr>,
    pub(super) socket: Socket,
    /// True after a rebinding: replies to this socket's port are lost.
    is_forgotten: AtomicBool,
}

impl Client {
    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Entry {
    client: Arc<Client>,
    last_seen: Time,
}

/// Clients by address, bounded in number and idle time.
#[derive(Debug)]
pub(super) struct Clients {
    entries: BTreeMap<SocketAddr, Entry>,
    target: SocketAddr,
    /// Clients with their sockets from before a rebinding. These sockets stay open for a while: a NAT silently drops
    /// packets to an old port, but a closed socket would cause ICMP errors.
    forgotten: Vec<Arc<Client>>,
    next_check: Time,
    /// Number of clients admitted so far.
    pub(super) admitted: u64,
}

impl Clients {
    pub(super) fn new(target: SocketAddr) -> Self {
        Self {
            entries: BTreeMap::new(),
            target,
            forgotten: Vec::new(),
            next_check: Time::ZERO + CLIENT_CHECK_INTERVAL,
            admitted: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the client with this address, and admits a new one. Returns `None` if the table is full or the client
    /// cannot be answered. In a full table, a newcomer displaces the longest silent client of the address prefix with
    /// the most clients, provided that prefix has at least two more clients than the newcomer's prefix.
    ///
    /// # Errors
    /// Fails if no socket can be opened.
    pub(super) fn of(
        &mut self,
        addr: SocketAddr,
        reply_from: Option<IpAddr>,
        now: Time,
    ) -> io::Result<Option<Arc<Client>>> {
        if let Some(entry) = self.entries.get_mut(&addr) {
            entry.last_seen = entry.last_seen.max(now);
            return Ok(Some(Arc::clone(&entry.client)));
        }
        // Source port 0 means that no answer is possible (RFC 768).
        if addr.port() == 0 {
            return Ok(None);
        }
        if self.entries.len() >= CLIENTS_MAX {
            let Some(victim) = self.victim(addr) else { return Ok(None) };
            self.entries.remove(&victim);
        }
        let client = self.client(addr, reply_from)?;
        self.entries.insert(addr, Entry { client: Arc::clone(&client), last_seen: now });
        self.admitted += 1;
        tracing::debug!(%addr, "new client");
        Ok(Some(client))
    }

    fn client(&self, addr: SocketAddr, reply_from: Option<IpAddr>) -> io::Result<Arc<Client>> {
        let socket = Socket::bind(any_address_like(self.target), Local::One)?;
        Ok(Arc::new(Client { addr, reply_from, socket, is_forgotten: AtomicBool::new(false) }))
    }

    /// Gives every client a new port towards the target. Datagrams already on their way to the target still use the old
    /// port.
    pub(super) fn rebind(&mut self, now: Time) {
        self.forgotten.clear();
        self.next_check = now + CLIENT_CHECK_INTERVAL;
        let clients: Vec<_> = self.entries.values().map(|entry| Arc::clone(&entry.client)).collect();
        for old in clients {
            old.is_forgotten.store(true, Ordering::Relaxed);
            match self.client(old.addr, old.reply_from) {
                Ok(client) => {
                    if let Some(entry) = self.entries.get_mut(&old.addr) {
                        entry.client = client;
                    }
                }
                Err(error) => {
                    // The client is admitted again with its next datagram.
                    tracing::debug!(%error, addr = %old.addr, "no other socket for a client");
                    self.entries.remove(&old.addr);
                }
            }
            self.forgotten.push(old);
        }
    }

    /// Returns the client that `newcomer` displaces, if any.
    fn victim(&self, newcomer: SocketAddr) -> Option<SocketAddr> {
        let mut held = BTreeMap::<AddressPrefix, usize>::new();
        for addr in self.entries.keys() {
            *held.entry((*addr).into()).or_default() += 1;
        }
        let own = held.get(&newcomer.into()).copied().unwrap_or(0);
        let most = held.values().copied().max().filter(|&most| most > own + 1)?;
        let of_most = self.entries.iter().filter(|(addr, _)| held.get(&AddressPrefix::from(**addr)) == Some(&most));
        of_most.min_by_key(|(_, entry)| entry.last_seen).map(|(addr, _)| *addr)
    }

    /// Returns all clients, each with the time of its last datagram in either direction.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<Client>, &mut Time)> {
        self.entries.values_mut().map(|entry| (&entry.client, &mut entry.last_seen))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.entries.values().map(|entry| &*entry.client)
    }

    /// Removes clients that were silent for [`CLIENT_IDLE_MAX`], and closes sockets from before a rebinding.
    pub(super) fn expire(&mut self, now: Time) {
        if now < self.next_check {
            return;
        }
        self.next_check = now + CLIENT_CHECK_INTERVAL;
        self.forgotten.clear();
        self.entries.retain(|_, entry| now - entry.last_seen < CLIENT_IDLE_MAX);
    }
}

fn any_address_like(target: SocketAddr) -> SocketAddr {
    match target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_table_is_bounded_and_forgets_the_silent() {
        let mut clients = Clients::new((Ipv4Addr::LOCALHOST, 9).into());
        let addr = |port: usize| SocketAddr::from((Ipv4Addr::LOCALHOST, 1000 + port as u16));
        for port in 0..CLIENTS_MAX {
            assert!(clients.of(addr(port), None, Time::ZERO).unwrap().is_some());
        }
        assert!(clients.of(addr(CLIENTS_MAX), None, Time::ZERO).unwrap().is_none());
        // Client 7 sends again later, and is the only one that stays.
        assert!(clients.of(addr(7), None, Time::from_s(10)).unwrap().is_some());
        clients.expire(Time::ZERO + CLIENT_IDLE_MAX);
        assert_eq!(clients.iter().map(|client| client.addr).collect::<Vec<_>>(), [addr(7)]);
        assert!(clients.of(addr(CLIENTS_MAX), None, Time::from_s(310)).unwrap().is_some());
        assert_eq!((clients.len(), clients.admitted), (2, CLIENTS_MAX as u64 + 1));
    }

    #[tokio::test]
    async fn one_address_with_every_place_makes_room_for_others_and_not_for_itself() {
        let mut clients = Clients::new((Ipv4Addr::LOCALHOST, 9).into());
        let stranger = |port: usize| SocketAddr::from((Ipv4Addr::new(192, 0, 2, 66), 1000 + port as u16));
        for port in 0..CLIENTS_MAX {
            clients.of(stranger(port), None, Time::from_ms(port as u64)).unwrap();
        }
        let honest = |host: u8| SocketAddr::from((Ipv4Addr::new(192, 0, 2, host), 9));
        for host in 1..=20 {
            assert!(clients.of(honest(host), None, Time::from_s(1)).unwrap().is_some(), "{host}");
        }
        // The longest silent clients of that address are gone. They can return only in place of other clients of that
        // address.
        assert!(clients.of(stranger(3), None, Time::from_s(2)).unwrap().is_none());
        let left: Vec<_> = clients.iter().map(|client| client.addr).collect();
        assert!((1..=20).all(|host| left.contains(&honest(host))));
        assert!((0..CLIENTS_MAX).all(|port| left.contains(&stranger(port)) == (port >= 20)));
        assert!(
            clients.of(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 99), 0)), None, Time::from_s(2)).unwrap().is_none()
        );
    }
}
