//! The nodes of a network in the kernel, as flows see them.

use std::net::Ipv4Addr;

use dfcp_flows::Hosts;
use dfcp_sim::Node;

use super::network::Network;

impl Hosts for Network {
    fn enter<T>(&self, host: Node, f: impl FnOnce() -> T) -> Result<T, String> {
        Self::enter(self, host, f).map_err(|error| error.to_string())
    }

    fn address(&self, host: Node) -> Ipv4Addr {
        Self::address(self, host)
    }
}
