//! This machine's own network as the far end, by NAT.

use std::fs;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use rustix::thread::CapabilitySet;

use crate::device::{NEAR, OUTSIDE};
use crate::error::Error;
use crate::namespace::{Network, keeping};

/// Name of the nftables table. Only one emulation at a time can use it, because its device has a fixed name; leftovers of a killed one are
/// replaced.
const TABLE: &str = "inet dfcp_emulate";

/// NAT rules, removed when dropped.
#[derive(Debug)]
pub(crate) struct Translation<'host> {
    network: &'host Network,
}

impl<'host> Translation<'host> {
    /// Installs the rules in the host's network.
    pub(crate) fn begin(network: &'host Network) -> Result<Self, Error> {
        nft(network, &rules())?;
        Ok(Self { network })
    }
}

impl Drop for Translation<'_> {
    fn drop(&mut self) {
        if let Err(error) = nft(self.network, &format!("delete table {TABLE}\n")) {
            tracing::warn!(%error, "the table {TABLE} is left behind; `nft delete table {TABLE}` removes it");
        }
    }
}

/// Rules of the table. Only packets from the command's address may leave: the command is root in its own network, and
/// could forge addresses. Other hosts can only answer: otherwise a neighbour with a route could reach the command
/// through this machine, which forwards packets.
fn rules() -> String {
    let (device, ipv4, ipv6) = (OUTSIDE.device, NEAR.ipv4, NEAR.ipv6);
    format!(
        "table {TABLE}\n\
         delete table {TABLE}\n\
         table {TABLE} {{\n\
           chain arriving {{\n\
             type filter hook prerouting priority raw; policy accept;\n\
             iifname \"{device}\" ip saddr != {ipv4} drop\n\
             iifname \"{device}\" ip6 saddr != {{ {ipv6}, fe80::/10, :: }} drop\n\
           }}\n\
           chain entering {{\n\
             type filter hook forward priority filter; policy accept;\n\
             oifname \"{device}\" ct state != {{ established, related }} drop\n\
           }}\n\
           chain leaving {{\n\
             type nat hook postrouting priority srcnat; policy accept;\n\
             ip saddr {ipv4} oifname != \"{device}\" masquerade\n\
           }}\n\
         }}\n"
    )
}

/// True if this machine forwards packets.
#[must_use]
pub fn is_forwarding() -> bool {
    fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|text| text.trim() == "1")
}

fn nft(network: &Network, script: &str) -> Result<(), Error> {
    network.enter()?;
    let mut command = Command::new("nft");
    command.args(["--file", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let spawned = keeping(CapabilitySet::NET_ADMIN, || command.spawn())?;
    let mut child = spawned.map_err(|source| Error::Program { program: "nft".into(), source })?;
    let write = |child: &mut std::process::Child| match child.stdin.take() {
        Some(mut input) => input.write_all(script.as_bytes()),
        None => Ok(()),
    };
    write(&mut child).map_err(Error::system("hand rules to nft"))?;
    let output = child.wait_with_output().map_err(Error::system("wait for nft"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or("it says nothing").to_owned();
    Err(Error::system("translate addresses by nft")(io::Error::other(first)))
}

#[cfg(test)]
mod tests {
    use super::rules;

    #[test]
    fn what_has_another_address_is_dropped() {
        let rules = rules();
        assert!(rules.contains("iifname \"dfcp-far\" ip saddr != 198.18.0.1 drop"), "{rules}");
        assert!(rules.contains("ip saddr 198.18.0.1 oifname != \"dfcp-far\" masquerade"), "{rules}");
    }
}
