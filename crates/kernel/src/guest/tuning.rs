//! Settings of the kernel's TCP: windows, thresholds, buffers.

use std::fs;

use dfcp_flows::{tcp_buffers, tcp_ecn, transport};
use dfcp_lab::scenario::{Layout, Scenario};
use dfcp_sim::{Node, Transport, tcp};

use super::network::{Network, RouteMetrics};

/// The most that a socket of DFCP or QUIC asks for as its send buffer, bytes: the least that Linux accepts. It doubles that,
/// and counts 2 304 for a packet.
const SEND_BUFFER_BYTES_MAX: u64 = 4_608;

/// HyStart of CUBIC, for the whole kernel.
const HYSTART: &str = "/sys/module/tcp_cubic/parameters/hystart";

/// Lets DFCP and QUIC keep hardly anything in front of a device. A host of the simulator asks a sender for a packet when its
/// device is idle; what waits there instead would be a queue that no plan speaks of, and of a flood's windows it is waste.
///
/// # Errors
/// One sentence about what the kernel cannot be told.
pub(super) fn limit_send_buffers() -> Result<(), String> {
    write("/proc/sys/net/core/wmem_max", &SEND_BUFFER_BYTES_MAX.to_string())
}

/// Gives sockets room and flows their options.
///
/// # Errors
/// One sentence about what the kernel cannot be told.
pub(super) fn apply(network: &mut Network, layout: &Layout, scenario: &Scenario) -> Result<(), String> {
    let mut hystart = None;
    for (spec, &(sender, receiver)) in scenario.flows.iter().zip(&layout.hosts) {
        let Transport::Tcp(config) = transport(spec)? else { continue };
        for host in [sender, receiver] {
            network.enter(host, tcp_buffers).map_err(|error| error.to_string())??;
            if spec.transport.has_ecn() {
                network.enter(host, tcp_ecn).map_err(|error| error.to_string())??;
            }
        }
        if config.congestion == tcp::Congestion::Cubic && *hystart.get_or_insert(config.hystart) != config.hystart {
            return Err("the kernel has HyStart for all flows of CUBIC or for none".to_owned());
        }
        metrics(network, (sender, receiver), &config)?;
    }
    match hystart {
        Some(is_on) => write(HYSTART, if is_on { "1" } else { "0" }),
        None => Ok(()),
    }
}

/// Gives the routes an initial window that is not the kernel's default.
fn metrics(network: &mut Network, (sender, receiver): (Node, Node), config: &tcp::Config) -> Result<(), String> {
    let segments = config.initial_window_segments;
    if segments == tcp::Config::modern(config.congestion).initial_window_segments {
        return Ok(());
    }
    let metrics = RouteMetrics { initcwnd_segments: Some(segments), ..RouteMetrics::default() };
    network.set_route_metrics(sender, receiver, metrics).map_err(|error| error.to_string())
}

fn write(path: &str, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| format!("cannot write {value} to {path}: {error}"))
}
