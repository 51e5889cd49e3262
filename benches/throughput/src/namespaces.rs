//! Network of the two ends: two network namespaces connected by a veth pair, or loopback.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::output;
use crate::plan::LOSS_PER_MILLE;
use crate::protocol::Role;

/// Prefix of the names of this program's namespaces, followed by the process id and the role.
const PREFIX: &str = "dfcp-throughput-";

/// Addresses of the ends, used only inside the namespaces.
const SERVER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Interface of the server inside its namespace.
const SERVER_LINK: &str = "veth-server";
const CLIENT_LINK: &str = "veth-client";

/// The connection between the ends.
#[derive(Debug)]
pub(crate) enum Network {
    /// Two namespaces.
    Namespaces(Pair),
    /// Loopback.
    Loopback,
}

/// Two namespaces connected by a veth pair, removed on drop.
#[derive(Debug)]
pub(crate) struct Pair {
    server: String,
    client: String,
}

impl Network {
    /// Creates and connects two namespaces.
    ///
    /// # Errors
    /// Fails if a tool is missing, or the kernel refuses.
    pub(crate) fn namespaces() -> anyhow::Result<Self> {
        remove_stale()?;
        let id = std::process::id();
        let pair = Pair { server: format!("{PREFIX}{id}-server"), client: format!("{PREFIX}{id}-client") };
        pair.create().context("cannot join two network namespaces; use --loopback to do without")?;
        Ok(Self::Namespaces(pair))
    }

    /// The address of an end.
    pub(crate) const fn ip(&self, role: Role) -> IpAddr {
        IpAddr::V4(match (self, role) {
            (Self::Loopback, _) => Ipv4Addr::LOCALHOST,
            (Self::Namespaces(_), Role::Server) => SERVER_IP,
            (Self::Namespaces(_), Role::Client) => CLIENT_IP,
        })
    }

    /// Returns the command that runs a program in the namespace of an end, without a process in between.
    pub(crate) fn command(&self, role: Role, program: &Path) -> Command {
        match self {
            Self::Loopback => Command::new(program),
            Self::Namespaces(pair) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", pair.name(role)]).arg(program);
                command
            }
        }
    }

    fn pair(&self) -> anyhow::Result<&Pair> {
        match self {
            Self::Namespaces(pair) => Ok(pair),
            Self::Loopback => bail!("loopback's offloads and losses are not ours to change, run this as root"),
        }
    }

    /// Switches segmentation offload (GSO) and receive offload (GRO) off, so that datagrams cross the veth pair one by one.
    ///
    /// # Errors
    /// Fails on loopback, or if the tool is missing or fails.
    pub(crate) fn split_runs(&self) -> anyhow::Result<()> {
        for (role, link) in [(Role::Server, SERVER_LINK), (Role::Client, CLIENT_LINK)] {
            // Features unknown to this kernel are off already.
            let features = ["tx-udp-segmentation", "off", "gro", "off"];
            self.pair()?.run(role, "ethtool", &[&["-K", link], &features[..]].concat())?;
        }
        Ok(())
    }

    /// Makes the server's end drop `per_mille` of 1000 datagrams, independently, before its UDP receives them. Rules for nftables are
    /// installed even for 0, so that the rules cost the same in all measurements.
    ///
    /// # Errors
    /// Fails on loopback, or if the tool is missing or the kernel refuses.
    pub(crate) fn lose(&self, per_mille: u32) -> anyhow::Result<()> {
        let rules = loss_rules(per_mille);
        self.pair()?.run(Role::Server, "nft", &[&rules]).context("cannot have nftables lose datagrams")
    }
}

/// Rules for nftables: the table is created, deleted and created again, so that no older rule stays.
fn loss_rules(per_mille: u32) -> String {
    let (per_mille, verdict) = if per_mille == 0 { (LOSS_PER_MILLE, "accept") } else { (per_mille, "drop") };
    format!(
        "table netdev loss\ndelete table netdev loss\ntable netdev loss {{\nchain ingress {{\n\
         type filter hook ingress device {SERVER_LINK} priority 0\n\
         meta l4proto udp numgen random mod 1000 < {per_mille} {verdict}\n}}\n}}\n"
    )
}

impl Pair {
    fn name(&self, role: Role) -> &str {
        match role {
            Role::Server => &self.server,
            Role::Client => &self.client,
        }
    }

    fn create(&self) -> anyhow::Result<()> {
        ip(&["netns", "add", &self.server])?;
        ip(&["netns", "add", &self.client])?;
        let peer = ["type", "veth", "peer", "name", CLIENT_LINK, "netns", &self.client];
        ip(&[&["link", "add", SERVER_LINK, "netns", &self.server][..], &peer].concat())?;
        for (name, link, address) in [(&self.server, SERVER_LINK, SERVER_IP), (&self.client, CLIENT_LINK, CLIENT_IP)] {
            ip(&["-n", name, "address", "add", &format!("{address}/24"), "dev", link])?;
            ip(&["-n", name, "link", "set", link, "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    fn run(&self, role: Role, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
        // For a missing program, `ip netns exec` would only report a failure.
        find(program)?;
        ip(&[&["netns", "exec", self.name(role), program], arguments].concat())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // The veth pair is removed with the first namespace.
        for name in [&self.client, &self.server] {
            if namespace_path(name).exists()
                && let Err(error) = ip(&["netns", "delete", name])
            {
                output::note(&format!("the network namespace {name} is left behind: {error:#}"));
            }
        }
    }
}

fn namespace_path(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Removes namespaces of ended processes, left by killed programs.
fn remove_stale() -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if owner(name).is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            ip(&["netns", "delete", name])?;
        }
    }
    Ok(())
}

/// Process id of a namespace's owner; `None` if the name is of another program.
fn owner(name: &str) -> Option<u32> {
    let (id, end) = name.strip_prefix(PREFIX)?.split_once('-')?;
    id.parse().ok().filter(|_| ["server", "client"].contains(&end))
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    find("ip")?;
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output().context("cannot start `ip`")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!(
        "`ip {}` failed: {}",
        arguments.join(" ").replace('\n', " "),
        said.trim().lines().next().unwrap_or("it does not say why")
    )
}

/// Finds a tool; an error names its package.
fn find(tool: &str) -> anyhow::Result<()> {
    let package = match tool {
        "ip" => "iproute2",
        "nft" => "nftables",
        other => other,
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()) {
        return Ok(());
    }
    bail!("the tool `{tool}` is missing, install the package {package} (Debian: apt-get install {package})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_namespaces_have_an_owner() {
        assert_eq!(owner("dfcp-throughput-17-server"), Some(17));
        for name in ["dfcp-throughput-17-other", "dfcp-throughput-x-server", "dfcp-throughput-17", "17-server", ""] {
            assert_eq!(owner(name), None, "{name}");
        }
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = find("no-such-tool-here").unwrap_err().to_string();
        assert!(error.contains("apt-get install no-such-tool-here"), "{error}");
    }

    #[test]
    fn losses_are_random_and_of_single_packets() {
        let rules = loss_rules(100);
        assert!(rules.contains("numgen random mod 1000 < 100 drop") && rules.contains("hook ingress"), "{rules}");
        assert_eq!(loss_rules(0), rules.replace("drop", "accept"));
    }

    #[test]
    fn loopback_is_not_ours_to_change() {
        assert!(Network::Loopback.lose(100).is_err() && Network::Loopback.split_runs().is_err());
        assert_eq!(Network::Loopback.ip(Role::Client), Network::Loopback.ip(Role::Server));
    }
}
