//! TUN device with superpackets, and the host that it belongs to.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Seek as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::error::Error;
use crate::limits::{DEVICE_QUEUE_PACKETS, SOCKET_TABLE_BYTES_MAX};
use crate::netlink::{LOOPBACK, Netlink};

/// Device name and addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the host's device.
    pub device: &'static str,
    /// IPv4 address.
    pub ipv4: Ipv4Addr,
    /// IPv6 address.
    pub ipv6: Ipv6Addr,
}

/// Device and addresses of the command's host. The addresses are from the blocks for tests of network devices (RFC 2544, RFC 5180), which
/// no other network uses.
pub const NEAR: Place =
    Place { device: "near", ipv4: Ipv4Addr::new(198, 18, 0, 1), ipv6: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1) };

/// Device and addresses of the server's host.
pub const FAR: Place =
    Place { device: "far", ipv4: Ipv4Addr::new(198, 18, 0, 2), ipv6: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2) };

/// Device and addresses of the far end in the machine's own network.
pub(crate) const OUTSIDE: Place = Place { device: "dfcp-far", ..FAR };

/// End of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// End of the senders, or of the command.
    Near,
    /// End of the receivers, or of the server.
    Far,
}

/// Address of pair `pair`, from 0, at one end: 198.18.0.1 and 198.19.0.1 for the first pair. The whole block is one network, so no routes
/// are needed.
#[must_use]
pub fn pair_address(side: Side, pair: u16) -> Ipv4Addr {
    let [high, low] = pair.saturating_add(1).to_be_bytes();
    Ipv4Addr::new(198, if side == Side::Near { 18 } else { 19 }, high, low)
}

/// Prefix length of the network of all pairs.
const PAIRS_PREFIX: u8 = 15;

/// Prefix length of the network of both ends.
const IPV4_PREFIX: u8 = 30;
const IPV6_PREFIX: u8 = 64;

/// Device at one end.
pub(crate) struct Device {
    io: SyncDevice,
    pub(crate) name: &'static str,
}

impl Device {
    /// Opens a device in the thread's new network namespace, configures its addresses, and brings it and the loopback device up.
    pub(crate) fn open(place: Place) -> Result<Self, Error> {
        Self::open_with(place.device, |netlink, index| {
            netlink.add_ipv4(index, place.ipv4, IPV4_PREFIX)?;
            // With IPv6 disabled, the device has only IPv4.
            if let Err(error) = netlink.add_ipv6(index, place.ipv6, IPV6_PREFIX) {
                tracing::debug!(%error, "no IPv6");
            }
            Ok(())
        })
    }

    /// Adds default routes to the other end.
    pub(crate) fn lead_out(&self) -> Result<(), Error> {
        let failed = |reason| Error::Device { device: self.name, reason };
        let index = self.io.if_index().map_err(failed)?;
        Netlink::open().and_then(|mut netlink| netlink.add_default_ipv4(index, FAR.ipv4)).map_err(failed)
    }

    /// Opens the device with the addresses of `pairs` hosts at this end.
    pub(crate) fn open_for_pairs(side: Side, pairs: u16) -> Result<Self, Error> {
        let name = if side == Side::Near { NEAR.device } else { FAR.device };
        Self::open_with(name, |netlink, index| {
            (0..pairs).try_for_each(|pair| netlink.add_ipv4(index, pair_address(side, pair), PAIRS_PREFIX))
        })
    }

    fn open_with(
        name: &'static str,
        add_addresses: impl FnOnce(&mut Netlink, u32) -> io::Result<()>,
    ) -> Result<Self, Error> {
        let builder = DeviceBuilder::new().name(name).with(|builder| {
            builder.offload(true);
        });
        let io = builder.build_sync().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoTun,
            // The error comes from opening `/dev/net/tun`: the creator of the namespace has all rights within.
            io::ErrorKind::PermissionDenied => Error::TunForbidden,
            _ => match source.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NODEV | Errno::NXIO) => Error::NoTun,
                _ => Error::Device { device: name, reason: source },
            },
        })?;
        let failed = |reason| Error::Device { device: name, reason };
        io.set_nonblocking(true).map_err(failed)?;
        let index = io.if_index().map_err(failed)?;
        let set_up = || {
            let mut netlink = Netlink::open()?;
            netlink.set_up(LOOPBACK)?;
            add_addresses(&mut netlink, index)?;
            netlink.set_queue(index, DEVICE_QUEUE_PACKETS)?;
            netlink.set_up(index)
        };
        set_up().map_err(failed)?;
        Ok(Self { io, name })
    }

    /// Reads a frame; `None` if none is queued.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.io, buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes a frame in two parts to the host.
    pub(crate) fn write(&self, headers: &[u8], payload: &[u8]) -> io::Result<()> {
        // Skip an empty second part, which would cost the kernel a check.
        let parts = [IoSlice::new(headers), IoSlice::new(payload)];
        let parts = if payload.is_empty() { &parts[..1] } else { &parts[..] };
        rustix::io::writev(&self.io, parts)?;
        Ok(())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// The kernel's tables of a network namespace, readable from outside: open files keep referring to the namespace of their opening.
#[derive(Debug)]
pub(crate) struct HostTables {
    devices: File,
    sockets: Vec<File>,
}

impl HostTables {
    /// Opens the tables of the thread's namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/thread-self/net/{name}"));
        // A kernel without IPv6 lacks its tables.
        let sockets = ["tcp", "tcp6", "udp", "udp6"].into_iter().filter_map(|name| open(name).ok()).collect();
        Ok(Self { devices: open("dev")?, sockets })
    }

    /// Packets that `device` has dropped at its queue limit.
    pub(crate) fn dropped_packets(&mut self, device: &str) -> io::Result<u64> {
        Ok(sent_drops(&contents(&mut self.devices)?, device).unwrap_or_default())
    }

    /// True if a socket waits for connections or datagrams.
    pub(crate) fn has_listener(&mut self) -> bool {
        self.sockets.iter_mut().any(|file| contents(file).is_ok_and(|table| lists_listener(&table)))
    }
}

fn contents(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut text = String::new();
    file.take(SOCKET_TABLE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Parses drops from `/proc/net/dev`: after the colon come eight columns of received and eight of sent counts.
fn sent_drops(table: &str, device: &str) -> Option<u64> {
    let columns = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    columns.split_whitespace().nth(8 + 3)?.parse().ok()
}

/// True if a table such as `/proc/net/tcp` has a listening socket (state 0A), or a bound, unconnected one (07, UDP).
fn lists_listener(table: &str) -> bool {
    table.lines().skip(1).any(|line| line.split_whitespace().nth(3).is_some_and(|state| matches!(state, "0A" | "07")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_the_device_that_is_meant() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
  near: 2856684   22117    0    0    0     0          0         0 109583000   22094    0   17    0     0       0          0
";
        assert_eq!(sent_drops(table, "near"), Some(17));
        assert_eq!(sent_drops(table, "nea"), None);
        assert_eq!(sent_drops(table, "far"), None);
    }

    #[test]
    fn only_sockets_which_wait_are_listeners() {
        let header =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        assert!(!lists_listener(header));
        assert!(!lists_listener(&format!("{header}   0: 0100007F:1451 0100007F:A2B4 01 0:0 0 0")));
        assert!(lists_listener(&format!("{header}   0: 00000000:1451 00000000:0000 0A 0:0 0 0")));
        assert!(lists_listener(&format!("{header}  77: 00000000:1451 00000000:0000 07 0:0 0 0")));
    }
}
