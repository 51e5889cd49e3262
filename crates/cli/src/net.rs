//! Connections of the `dfcp` crate, opened and accepted for the commands.

pub mod again;
mod attempts;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, bail};
use dfcp::{
    Accept, Carrier, Ciphers, Config, ConnectError, ConnectionError, Credentials, Endpoint, Listener, Rate, Security,
    Stream, StreamLimits,
};
use dfcp_files::transport::{Acceptor, Transport};
use serde_json::json;

use crate::admission::Ways;
use crate::args::{CarrierArg, HostArgs, ListenArg, PathArgs, RateArg};
use crate::connection_text::add_seal;
use crate::contact::{Contact, Next};
use crate::output;
use crate::resolve::resolve;

/// Prints the settings on standard error before anything runs: rate, parameters and carrier, unless `json` is true.
/// Always prints a warning if encryption is off.
pub fn announce(args: &PathArgs, json: bool) {
    if !json {
        output::note(&args.describe_rate());
        if let Some(parameters) = args.parameters.describe() {
            output::note(&format!("parameters: {parameters}"));
        }
        if args.carrier != CarrierArg::Udp {
            output::note(&format!("carrier: {}", carrier(args)));
        }
    }
    if let Some(flag) = args.insecure_flag() {
        output::always(&format!(
            "warning: neither encrypted nor authenticated ({flag}): anyone on the path can read and change everything"
        ));
    }
}

/// Connects to `host_port` and verifies that the right host answers. If the first address of a name stays silent, its
/// further addresses are tried in parallel.
///
/// # Errors
/// Fails if the name has no address, no address answers, or the host is not the right one.
pub async fn connect(host_port: &str, args: &PathArgs, host: &HostArgs) -> anyhow::Result<Connected> {
    let Some(mut contact) = Contact::prepare(host_port, host, args).await? else {
        let plain = dial(host_port, args, plain_config(args)?).await;
        let (stream, peer) = plain.map_err(|error| explain_plain(error, host_port, args))?;
        return Ok(Connected { stream, peer, contact: None });
    };
    loop {
        let dialled = dial(host_port, args, sealed_config(&contact, args)).await;
        let (mut stream, peer) = dialled.map_err(|error| contact.explain(error))?;
        match contact.confirm(&mut stream).await.map_err(|error| contact.explain(error))? {
            Next::GoOn => return Ok(Connected { stream, peer, contact: Some(contact) }),
            Next::CallAgain => contact = contact.known_now()?,
        }
    }
}

/// Connection to the right host, with the proof of its identity.
#[derive(Debug)]
pub struct Connected {
    /// Connection to the host.
    pub stream: Stream,
    /// The address that answered.
    pub peer: String,
    /// Proof of the host's identity; `None` on a plaintext connection.
    pub contact: Option<Contact>,
}

/// Prints the peer's identity and the protection of the connection.
pub fn announce_peer<T: Transport>(connection: &T, peer: &str, json: bool) {
    let seal = connection.seal();
    if json {
        let mut object = json!({ "event": "connected", "peer": peer });
        add_seal(seal.as_ref(), &mut object);
        output::json(&object);
    } else if let Some(seal) = seal {
        output::note(&format!("{peer}: {}", seal.describe()));
    }
}

fn sealed_config(contact: &Contact, args: &PathArgs) -> Config {
    Config::sealed(Credentials {
        key: contact.own_key().cloned(),
        pre_shared: contact.pre_shared().cloned(),
        peer: contact.peer_key(),
        ciphers: ciphers(args),
    })
}

async fn dial(host_port: &str, args: &PathArgs, config: Config) -> anyhow::Result<(Stream, String)> {
    let addresses = resolve(host_port).await?;
    let carrier = carrier(args);
    let config = with_settings(config, args)?;
    let call = |address| Stream::connect_over(carrier, address, within_mtu(config.clone(), args, address));
    let advice = advice(carrier);
    let answered = attempts::first_to_answer(addresses, call, &advice, attempts::PATIENCE, |silent| {
        output::note(silent);
    });
    let (stream, address) = answered.await.map_err(|failure| failure.error)?;
    Ok((stream, address.to_string()))
}

/// Explains a refused plaintext connection: most likely the listener was started without the same flag.
fn explain_plain(error: anyhow::Error, host_port: &str, args: &PathArgs) -> anyhow::Error {
    match (error.downcast_ref(), args.insecure_flag()) {
        (Some(ConnectError::Connection(ConnectionError::Refused)), Some(flag)) => anyhow::anyhow!(
            "{host_port} refused the connection; only a side which was started with {flag}, too, takes it"
        ),
        _ => error,
    }
}

/// Advice for a peer that does not answer.
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

/// Listens at `place`, for encrypted connections if `ways` are given. Of several addresses, the first one of this
/// machine is used.
///
/// # Errors
/// Fails if the address cannot be used, or the carrier needs more privileges.
pub async fn listen(place: &ListenArg, args: &PathArgs, ways: Option<&Ways>) -> anyhow::Result<Server> {
    let config = match ways {
        Some(ways) => Config::sealed(Credentials {
            key: Some(ways.own.clone()),
            pre_shared: ways.pre_shared.clone(),
            peer: ways.peer_key(),
            ciphers: ciphers(args),
        }),
        None => plain_config(args)?,
    };
    let config = with_settings(config, args)?;
    let carrier = carrier(args);
    // A raw IPv6 socket carries no IPv4.
    let mut addresses = place.addresses(carrier == Carrier::Udp).await?.into_iter();
    loop {
        let address = addresses.next().with_context(|| format!("{place} has no address, check the name"))?;
        let mut accept = Accept::from(within_mtu(config.clone(), args, address));
        accept.reset_key = ways.and_then(|ways| ways.reset_key.clone());
        let error = match Listener::bind_over(carrier, address, accept) {
            Ok(listener) => return Ok(Server(listener)),
            Err(error) => error,
        };
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => ", choose another --listen or end what uses it",
            // An error of the operating system; errors of the carrier already contain advice.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_some() => ", choose a port from 1024 up",
            io::ErrorKind::PermissionDenied => "",
            // This machine lacks the IP version, or the name also resolves to other machines.
            _ if addresses.len() > 0 => continue,
            io::ErrorKind::AddrNotAvailable => ", choose an address of this machine, or the port alone",
            _ => "",
        };
        return Err(anyhow::Error::new(error).context(format!("cannot listen on {address}{hint}")));
    }
}

fn carrier(args: &PathArgs) -> Carrier {
    match args.carrier {
        CarrierArg::Udp => Carrier::Udp,
        CarrierArg::RawIp(protocol) => Carrier::RawIp { protocol },
    }
}

fn ciphers(args: &PathArgs) -> Ciphers {
    args.cipher.map_or(Ciphers::Fastest, Ciphers::Only)
}

fn plain_config(args: &PathArgs) -> anyhow::Result<Config> {
    let mut config = if args.insecure_classic { Config::danger_classic() } else { Config::danger_unsealed() };
    args.parameters.apply(&mut config)?;
    Ok(config)
}

/// Applies the command line's rate and other settings to a configuration of either profile. The classic profile is
/// paced too, unless the rate is `line`.
fn with_settings(mut config: Config, args: &PathArgs) -> anyhow::Result<Config> {
    let rate = args.rate();
    for (flag, bound) in [("--max-rate", args.max_rate), ("--min-rate", args.min_rate)] {
        if bound.is_some() && !matches!(rate, RateArg::Auto(_)) {
            bail!("{flag} bounds --rate auto, and the rate is {rate}: leave it out, or give --rate auto");
        }
    }
    config.rate = match rate {
        RateArg::Bps(rate_bps) => Rate::Fixed { rate_bps },
        RateArg::Line => Rate::Line,
        RateArg::Auto(policy) => Rate::Auto { policy, max_bps: args.max_rate, min_bps: args.min_rate },
    };
    config.ecn = args.ecn;
    config.dscp = args.dscp;
    config.receive_rate_max_bps = args.max_receive_rate.unwrap_or_default();
    config.messages = args.messages;
    let config = args.recording.apply(config);
    Ok(config.with_streams(StreamLimits { bidirectional: 0, one_way: args.peer_streams.into() }))
}

/// Sets the largest symbols that fit IP packets of `--mtu` bytes to or from `address`.
fn within_mtu(mut config: Config, args: &PathArgs, address: SocketAddr) -> Config {
    // Overhead of a segment: header and stream id, then either secret and tag (encrypted) or a CRC-32C
    // (`spec/wire-format.md` §1 and §5, `spec/protocol.md` §6.1).
    let around_bytes = 24 + 4 + if matches!(config.security, Security::Sealed(_)) { 4 + 16 } else { 4 };
    let symbol_bytes = u32::from(args.mtu).saturating_sub(carrier(args).overhead_bytes(address) + around_bytes);
    config.symbol_size = config.symbol_size.min(u16::try_from(symbol_bytes).unwrap_or(u16::MAX));
    config
}

/// Listener for connections of the `dfcp` crate.
#[derive(Debug)]
pub struct Server(Listener);

impl Server {
    /// Returns the listening address, with the actual port.
    ///
    /// # Errors
    /// Passes on the system's error.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Returns the endpoint; its counters remain readable after the server has been dropped.
    pub fn endpoint(&self) -> Endpoint {
        self.0.endpoint().clone()
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
