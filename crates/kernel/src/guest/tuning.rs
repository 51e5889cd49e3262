//! Settings of the kernel's TCP: windows, thresholds, buffers.

use std::fs;

use dfcp_flows::{tcp_buffers, tcp_ecn, transport};
use dfcp_lab::scenario::{Layout, Scenario};
use dfcp_sim::{Node, Transport, tcp};

use super::network::{Network, RouteMetrics};

/// Greatest requested send buffer of a DFCP or QUIC socket, bytes: the least that Linux accepts. Linux doubles it, and charges 2 304 bytes
/// per packet.
const SEND_BUFFER_BYTES_MAX: u64 = 4_608;

/// Switch of CUBIC's HyStart, for the whole kernel.
const HYSTART: &str = "/sys/module/tcp_cubic/parameters/hystart";

/// Limits what DFCP and QUIC queue in front of a device. A host in the simulator asks a sender for a packet when its device is idle;
/// packets that wait here instead would form a queue that is in no plan, and a large part of the windows of a flood.
///
/// # Errors
/// Fails with one sentence about a setting that the kernel refuses.
pub(super) fn limit_send_buffers() -> Result<(), String> {
    write("/proc/sys/net/core/wmem_max", &SEND_BUFFER_BYTES_MAX.to_string())
}

/// Sets the buffers of sockets and the options of flows.
///
/// # Errors
/// Fails with one sentence about a setting that the kernel refuses.
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

/// Sets an initial window of the routes that differs from the kernel's default.
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
