//! Arguments of `dfcp pipe`.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Order;
use super::answers::InFrom;
use crate::args::{
    AdmissionArgs, AuditArgs, HostArgs, ListenArg, MetricsArgs, PIPE_PORT, PathArgs, host_or, host_port, listen_at,
    local_address, target_ppm, within,
};
use crate::limits::PIPE_CALLERS_DEFAULT;
use crate::resolve::address;

/// `dfcp pipe`
#[derive(Debug, Args)]
#[command(after_help = "\
Example, live video:
  there:  dfcp pipe serve --out 127.0.0.1:5004
          ffplay udp://127.0.0.1:5004
  here:   dfcp pipe udp --in 5004 --to there.example --deadline 80ms --code -
          ffmpeg -re -i film.mkv -c copy -f mpegts 'udp://127.0.0.1:5004?pkt_size=1316'

The third command asks for the code which the first one prints. Everything is encrypted and authenticated.")]
pub struct PipeArgs {
    /// End of the pipe.
    #[command(subcommand)]
    pub side: PipeSide,
}

/// The two ends of a pipe.
#[derive(Debug, Subcommand)]
pub enum PipeSide {
    /// Read datagrams here and send them through the pipe
    Udp(PipeUdpArgs),
    /// Wait for pipes, and deliver their datagrams
    Serve(PipeServeArgs),
}

/// `dfcp pipe udp`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp pipe udp --in 5004 --to there.example --deadline 80ms --code -
  dfcp pipe udp --in 192.0.2.7:5004 --in-from 192.0.2.8 --to there.example:4433 --deadline 200ms --target 99.99 --order steady

Each datagram is sent so often, or with as much repair, that --target percent of them are there in time, and not more. What is late is not \
handed on. The longer the deadline, the less is sent: with one round trip and more beside the way itself, only what is lost is \
repaired. Answers go back the same way, with the same deadline, to the program that sends here. Another one gets them when that has been silent \
for five seconds, or never with --in-from.

When the connection breaks, it is opened again until you press Ctrl-C, unless it was opened with a code.")]
pub struct PipeUdpArgs {
    /// Local UDP port to read from: a bare port binds to loopback; an address with a port is used as given
    #[arg(long = "in", value_name = "[ADDRESS:]PORT", value_parser = local_address)]
    pub input: String,
    /// Accept datagrams from this address only, or from this address and port, which then gets answers even before it has sent
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = in_from)]
    pub in_from: Option<InFrom>,
    /// Address of `dfcp pipe serve`
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host_or(PIPE_PORT))]
    pub to: String,
    /// Time after which a datagram is worthless at the other end, counted from its arrival here, such as 80ms; at most 1h
    #[arg(long, value_name = "TIME", value_parser = within)]
    pub deadline: Duration,
    /// Percentage of datagrams that should arrive in time, 50 to 99.9999: a higher one costs more bandwidth
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = target_ppm)]
    pub target: u32,
    /// Order and timing of delivery on this side
    #[arg(long, value_enum, default_value_t = Order::Kept)]
    pub order: Order,
    /// The peers to trust.
    #[command(flatten)]
    pub host: HostArgs,
    /// Options of the path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Parses an address, with or without a port.
fn in_from(text: &str) -> Result<InFrom, String> {
    let expected = "expected an address such as 192.0.2.8 or 2001:db8::8, or one with a port such as 192.0.2.8:5006";
    let (host, port) = match (host_port(text), text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))) {
        (Ok(place), _) => place.rsplit_once(':').map(|(host, port)| (host.to_owned(), port.parse().ok())),
        (Err(_), inside) => Some((inside.unwrap_or(text).to_owned(), None)),
    }
    .ok_or(expected)?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match (address(bare), port) {
        (Ok((IpAddr::V6(ip), interface)), Some(port)) => {
            Ok(InFrom::Port(SocketAddrV6::new(ip, port, 0, interface.unwrap_or_default()).into()))
        }
        (Ok((IpAddr::V6(ip), Some(interface))), None) => Ok(InFrom::Behind(ip, interface)),
        (Ok((ip, _)), Some(port)) => Ok(InFrom::Port(SocketAddr::new(ip, port))),
        (Ok((ip, _)), None) => Ok(InFrom::Address(ip)),
        // The address is valid, but its zone names no local interface.
        (Err(error), _) if bare.contains('%') => Err(error.to_string()),
        (Err(_), _) => Err(expected.to_owned()),
    }
}

/// `dfcp pipe serve`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp pipe serve --out 127.0.0.1:5004
  dfcp pipe serve --listen 4433 --out 127.0.0.1:5004 --order steady --json --metrics 9184

Each pipe has a port of its own to --out, so that answers find their way back. Access control works as for `dfcp receive`.")]
pub struct PipeServeArgs {
    /// Port to listen on, at every local address, or at the given address or host name
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_at(PIPE_PORT), default_value_t = ListenArg::Anywhere(PIPE_PORT))]
    pub listen: ListenArg,
    /// Address to deliver datagrams to
    #[arg(long = "out", value_name = "HOST:PORT", value_parser = host_port)]
    pub output: String,
    /// Order and timing of delivery
    #[arg(long, value_enum, default_value_t = Order::Kept)]
    pub order: Order,
    /// Exit after one pipe
    #[arg(long)]
    pub once: bool,
    /// Limit on concurrent pipes; further callers are asked to retry later
    #[arg(long, value_name = "N", default_value_t = PIPE_CALLERS_DEFAULT, value_parser = crate::args::count)]
    pub max_pipes: usize,
    /// The peers to admit.
    #[command(flatten)]
    pub admission: AdmissionArgs,
    /// Metrics of this server.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Audit log of the pipes.
    #[command(flatten)]
    pub audit: AuditArgs,
    /// Options of the path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}
