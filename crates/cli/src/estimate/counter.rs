//! Byte counters of a network interface, which Linux publishes to unprivileged users.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Directory of network interfaces in Linux's sysfs.
const INTERFACES: &str = "/sys/class/net";
/// `ARPHRD_ETHER` of Linux. Counters of these interfaces include 14 bytes of Ethernet header per packet. Counters of
/// loopback, tunnels and raw modems start at the IP header.
const ETHERNET: u64 = 1;
const ETHERNET_BYTES: u64 = 14;

/// Counters of one interface.
#[derive(Debug)]
pub(super) struct Counter {
    name: String,
    statistics: PathBuf,
    /// Link-layer bytes of each packet.
    header_bytes: u64,
}

impl Counter {
    /// Opens the counter of the interface with this name.
    ///
    /// # Errors
    /// Fails if there is no such interface.
    pub(super) fn named(name: &str) -> anyhow::Result<Self> {
        // A path in the name would escape the directory.
        let is_name = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        let path = Path::new(INTERFACES).join(name);
        if !is_name || !path.is_dir() {
            bail!("there is no network interface {name:?}; `ip link` shows those there are");
        }
        let kind = number(&path.join("type"))?;
        let counter = Self {
            name: name.to_owned(),
            statistics: path.join("statistics"),
            header_bytes: if kind == ETHERNET { ETHERNET_BYTES } else { 0 },
        };
        counter.bytes().map(|_| counter)
    }

    /// Opens the counter of the interface with this address.
    ///
    /// # Errors
    /// Fails if there is none, or the system does not list interfaces.
    pub(super) fn of_address(address: IpAddr) -> anyhow::Result<Self> {
        let addresses = nix::ifaddrs::getifaddrs().context("the system does not tell its network interfaces")?;
        let has_it = |storage: &nix::sys::socket::SockaddrStorage| {
            let v4 = storage.as_sockaddr_in().map(|found| IpAddr::V4(found.ip()));
            let v6 = || storage.as_sockaddr_in6().map(|found| IpAddr::V6(found.ip()));
            v4.or_else(v6) == Some(address)
        };
        let found = addresses.into_iter().find(|one| one.address.as_ref().is_some_and(has_it));
        let found = found
            .with_context(|| format!("no network interface has the address {address}; name one by --interface"))?;
        Self::named(&found.interface_name)
    }

    /// Returns the name of the interface.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of IP bytes that the interface has received so far.
    ///
    /// # Errors
    /// Fails if the interface has disappeared.
    pub(super) fn bytes(&self) -> anyhow::Result<u64> {
        let (bytes, packets) = (self.number("rx_bytes")?, self.number("rx_packets")?);
        Ok(bytes.saturating_sub(packets.saturating_mul(self.header_bytes)))
    }

    fn number(&self, of: &str) -> anyhow::Result<u64> {
        number(&self.statistics.join(of))
    }
}

fn number(path: &Path) -> anyhow::Result<u64> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}: is the interface gone?", path.display()))?;
    text.trim().parse().with_context(|| format!("{} has no number; report this", path.display()))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    #[test]
    fn what_arrives_is_counted_without_the_link_s_header() {
        let counter = Counter::of_address(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(counter.name(), "lo");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = counter.bytes().unwrap();
        socket.send_to(&[0; 1_000], socket.local_addr().unwrap()).unwrap();
        socket.recv(&mut [0; 2_000]).unwrap();
        // Other programs use the loopback too, so the difference is a lower bound.
        assert!(counter.bytes().unwrap() >= before + 1_028);
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for name in ["", ".", "..", "../net/lo", "lo/", "no-such-interface"] {
            let error = Counter::named(name).unwrap_err().to_string();
            assert!(error.contains("ip link"), "{name}: {error}");
        }
        let error = Counter::of_address(Ipv4Addr::new(192, 0, 2, 77).into()).unwrap_err().to_string();
        assert!(error.contains("--interface"), "{error}");
    }
}
