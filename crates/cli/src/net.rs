//! The only place which knows the `dfcp` crate: opens and accepts connections for the commands.

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use dfcp::{Config, Listener, Rate, Stream};

use crate::args::PathArgs;
use crate::output;
use crate::transport::{Acceptor, PathSample, Transport};
use crate::units::RateArg;

/// Largest symbol which fits 1500-byte packets over IPv6, with security.
const SYMBOL_BYTES_IPV6: u16 = 1412;

/// Says on standard error what the user should know before anything runs: the rate, unless a program reads along, and
/// that nothing is encrypted, unless that was asked for.
pub fn announce(args: &PathArgs, json: bool) {
    if !json {
        output::note(&args.describe_rate());
    }
    if !args.insecure_classic && !args.insecure_unsealed {
        output::note(
            "warning: not encrypted and not authenticated, this version cannot seal yet; use it on trusted paths \
             (--insecure-unsealed accepts that)",
        );
    }
}

/// Connects to `host_port`, trying each of its addresses; returns the connection and the address that answered.
///
/// # Errors
/// The name has no address, or none of its addresses answers.
pub async fn connect(host_port: &str, args: &PathArgs) -> anyhow::Result<(Stream, String)> {
    let addresses =
        tokio::net::lookup_host(host_port).await.with_context(|| format!("cannot find {host_port}, check the name"))?;
    let mut last_error = None;
    for address in addresses {
        match Stream::connect(address, config(address, args)).await {
            Ok(stream) => return Ok((stream, address.to_string())),
            Err(error) => last_error = Some(anyhow::Error::new(error).context(format!("cannot connect to {address}"))),
        }
    }
    Err(last_error.unwrap_or_else(|| anyhow::anyhow!("{host_port} has no address, check the name")))
}

/// Listens on `address`.
///
/// # Errors
/// The address cannot be used.
pub fn listen(address: SocketAddr, args: &PathArgs) -> anyhow::Result<Server> {
    let listener = Listener::bind(address, config(address, args))
        .with_context(|| format!("cannot listen on {address}, choose another --listen or end what uses it"))?;
    Ok(Server(listener))
}

/// The rate of the command line holds in either profile: classic, too, is paced unless told otherwise.
fn config(address: SocketAddr, args: &PathArgs) -> Config {
    let mut config = if args.insecure_classic { Config::classic() } else { Config::modern() };
    config.rate = match args.rate() {
        RateArg::Bps(rate_bps) => Rate::Fixed { rate_bps },
        RateArg::Line => Rate::Line,
    };
    config.overhead_bytes = header_bytes(address);
    if address.is_ipv6() && !args.insecure_classic {
        config.symbol_size = SYMBOL_BYTES_IPV6;
    }
    config
}

/// Bytes of the IP and UDP headers of a datagram to `address`.
fn header_bytes(address: SocketAddr) -> u32 {
    if address.is_ipv6() { 48 } else { 28 }
}

/// Accepts connections of the `dfcp` crate.
#[derive(Debug)]
pub struct Server(Listener);

impl Server {
    /// Where it listens, with the port that the system chose if none was named.
    ///
    /// # Errors
    /// The system's.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Acceptor for Server {
    type Connection = Stream;

    async fn accept(&mut self) -> io::Result<(Stream, String)> {
        let stream = self.0.accept().await?;
        let peer = stream.remote_addr().to_string();
        Ok((stream, peer))
    }
}

impl Transport for Stream {
    fn path_sample(&self) -> Option<PathSample> {
        let stats = self.stats();
        let headers = u64::from(header_bytes(self.remote_addr())) * stats.segments_sent;
        Some(PathSample {
            loss: stats.loss,
            rtt_ms: (!stats.rtt.is_zero()).then_some(stats.rtt.as_secs_f64() * 1e3),
            datagrams_sent: stats.segments_sent,
            datagrams_repair: stats.sent.repair + stats.sent.proactive + stats.sent.probe,
            ip_bytes_sent: stats.bytes_sent + headers,
        })
    }
}
