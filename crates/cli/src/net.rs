//! The only place which knows the `dfcp` crate: opens and accepts connections for the commands.

mod attempts;

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use dfcp::{Carrier, Config, Listener, Rate, Stream};

use crate::args::{CarrierArg, PathArgs};
use crate::output;
use crate::transport::{Acceptor, DataDatagrams, PathSample, Transport, Wasted};
use crate::units::RateArg;

/// Largest symbol which fits 1500-byte packets over IPv6, with security.
const SYMBOL_BYTES_IPV6: u16 = 1412;

/// Says on standard error what the user should know before anything runs: rate and carrier, unless a program reads along, and
/// that nothing is encrypted, unless that was asked for.
pub fn announce(args: &PathArgs, json: bool) {
    if !json {
        output::note(&args.describe_rate());
        if args.carrier != CarrierArg::Udp {
            output::note(&format!("carrier: {}", carrier(args)));
        }
    }
    if !args.insecure_classic && !args.insecure_unsealed {
        output::note(
            "warning: not encrypted and not authenticated, this version cannot seal yet; use it on trusted paths \
             (--insecure-unsealed accepts that)",
        );
    }
}

/// Connects to `host_port` and returns the connection with the address that answered. A name's further addresses are
/// tried beside the first when that stays silent.
///
/// # Errors
/// The name has no address, or none of its addresses answers.
pub async fn connect(host_port: &str, args: &PathArgs) -> anyhow::Result<(Stream, String)> {
    let addresses = tokio::net::lookup_host(host_port).await;
    let addresses = addresses.with_context(|| format!("cannot find {host_port}, check the name"))?.collect();
    let carrier = carrier(args);
    let call = |address| Stream::connect_over(carrier, address, config(address, args));
    let advice = advice(carrier);
    let (stream, address) = attempts::first_to_answer(addresses, call, &advice, attempts::PATIENCE, |silent| {
        output::note(silent);
    })
    .await?;
    Ok((stream, address.to_string()))
}

/// What to check when nothing answers.
fn advice(carrier: Carrier) -> String {
    match carrier {
        Carrier::Udp => {
            "the other side runs there, the port is its --listen port, and firewalls let UDP through".into()
        }
        other => format!(
            "the other side runs there with the same --carrier, the port is its --listen port, and firewalls let it \
             through ({other})"
        ),
    }
}

/// Listens on `address`.
///
/// # Errors
/// The address cannot be used, or the carrier not without more rights.
pub fn listen(address: SocketAddr, args: &PathArgs) -> anyhow::Result<Server> {
    let listener = Listener::bind_over(carrier(args), address, config(address, args)).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => ", choose another --listen or end what uses it",
            io::ErrorKind::AddrNotAvailable => ", choose an address of this machine, 0.0.0.0 or [::]",
            // The system's own refusal, not that of the carrier, which has its sentence.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_some() => ", choose a port from 1024 up",
            _ => "",
        };
        anyhow::Error::new(error).context(format!("cannot listen on {address}{hint}"))
    })?;
    Ok(Server(listener))
}

fn carrier(args: &PathArgs) -> Carrier {
    match args.carrier {
        CarrierArg::Udp => Carrier::Udp,
        CarrierArg::RawIp(protocol) => Carrier::RawIp { protocol },
    }
}

/// The rate of the command line holds in either profile: classic, too, is paced unless told otherwise.
fn config(address: SocketAddr, args: &PathArgs) -> Config {
    let mut config = if args.insecure_classic { Config::classic() } else { Config::modern() };
    config.rate = match args.rate() {
        RateArg::Bps(rate_bps) => Rate::Fixed { rate_bps },
        RateArg::Line => Rate::Line,
    };
    config.overhead_bytes = carrier(args).overhead_bytes(address);
    if address.is_ipv6() && !args.insecure_classic {
        config.symbol_size = SYMBOL_BYTES_IPV6;
    }
    config
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
        let headers = u64::from(self.carrier().overhead_bytes(self.remote_addr())) * stats.segments_sent;
        Some(PathSample {
            loss: PathSample::evident_loss(stats.loss, stats.sent.source),
            rtt_ms: (!stats.rtt.is_zero()).then_some(stats.rtt.as_secs_f64() * 1e3),
            datagrams_sent: stats.segments_sent,
            data_datagrams: DataDatagrams {
                source: stats.sent.source,
                repair: stats.sent.repair,
                proactive: stats.sent.proactive,
                probe: stats.sent.probe,
            },
            wasted: Wasted {
                dependent: stats.wasted.dependent,
                late: stats.wasted.late,
                refused: stats.wasted.refused,
            },
            ip_bytes_sent: stats.bytes_sent + headers,
            bytes_acknowledged: stats.stream_bytes_acknowledged,
        })
    }
}
