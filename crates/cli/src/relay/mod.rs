//! `dfcp relay`: forwards UDP over an emulated path. The implementation is in the crate `dfcp-relay`.

mod describe;
mod metrics;

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use dfcp_relay::{Relay, RelayConfig, RelayStats};
use serde::Serialize;

pub(crate) use self::describe::describe;
use self::metrics::OfRelay;
use crate::args::{LinkArgs, ListenArg, MetricsArgs, Path, host_port, listen_at_port};
use crate::metrics::Exporter;
use crate::output;
use crate::resolve::resolve;

/// Forward UDP over an emulated path: with loss, delay, a bottleneck and more.
///
/// Point the client at the relay instead of its server. Runs until Ctrl-C, then prints counts of the datagrams by fate.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Example: a 100 Mbit/s path with 50 ms of round-trip time that loses every tenth packet
  dfcp receive --listen 127.0.0.1:4000 --output incoming
  dfcp relay --listen 127.0.0.1:5000 --to 127.0.0.1:4000 --loss 10% --delay 25ms --rate 100mbit --metrics 9184
  dfcp send FILE 127.0.0.1:5000
A line of 50 Mbit/s down and 5 up; one that sends in batches and fails for 2 s; a NAT that forgets its clients after 10 s
  dfcp relay --listen 5000 --to 127.0.0.1:4000 --delay 15ms --rate 50mbit --up-rate 5mbit
  dfcp relay --listen 5000 --to 127.0.0.1:4000 --delay 25ms --rate 20mbit --batch 8ms --outage 10s:2s
  dfcp relay --listen 5000 --to 127.0.0.1:4000 --delay 20ms --rebind 10s

Times of --outage, --rebind and traces count from the first datagram on.")]
pub struct RelayArgs {
    /// Listening address for clients: a bare port (IPv4), or an address or host name with a port, for example 127.0.0.1:5000
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_at_port)]
    pub listen: ListenArg,

    /// Server to forward to: address or host name with a port
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub to: String,

    /// Properties of the emulated link.
    #[command(flatten)]
    pub link: LinkArgs,

    /// Seed of the random events, to repeat an earlier run [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Metrics of this relay.
    #[command(flatten)]
    pub metrics: MetricsArgs,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Summary {
    listen: SocketAddr,
    to: SocketAddr,
    /// Decimal text, because JSON readers round large integers.
    seed: String,
    seconds: f64,
    #[serde(flatten)]
    stats: RelayStats,
}

/// Relays until Ctrl-C or SIGTERM, then prints the summary.
///
/// # Errors
/// Fails if the arguments are invalid, the target has no address, or the listening socket cannot be bound or fails.
pub async fn run(args: RelayArgs) -> anyhow::Result<()> {
    let Path { links: [forward, backward], schedule } = args.link.path()?;
    let listen = args.listen.addresses(false).await?.into_iter().next().context("--listen has no address")?;
    let to = target(&args.to, listen).await?;
    // A seed of 32 bits tells runs apart and is short to type.
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one("relay") >> 32);
    let mut relay = Relay::start(RelayConfig { listen, to, forward, backward, schedule, seed })
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let _metrics = Exporter::start(&args.metrics, vec![Arc::new(OfRelay(relay.counters()))], args.json).await?;
    let started = Instant::now();
    let listen = relay.local_addr();
    output::note(&format!("Relaying UDP from {listen} to {to} with {} (seed {seed}). Ctrl-C ends it.", args.link));
    tokio::select! {
        end = ended() => end.context("cannot wait for Ctrl-C")?,
        error = relay.failed() => return Err(error).with_context(|| format!("the socket on {listen} failed")),
    }
    let stats = relay.stats();
    if args.json {
        let summary = Summary { listen, to, seed: seed.to_string(), seconds: started.elapsed().as_secs_f64(), stats };
        output::json(&serde_json::to_value(&summary).context("cannot write the summary as JSON")?);
        return Ok(());
    }
    output::note(&format!("to {to}: {}", describe(&stats.forward)));
    output::note(&format!("back: {}", describe(&stats.backward)));
    if stats.refused_packets > 0 {
        output::note(&format!("{} datagrams refused: too many clients at once", stats.refused_packets));
    }
    if stats.stray_packets > 0 {
        output::note(&format!("{} datagrams ignored: not from {to}", stats.stray_packets));
    }
    Ok(())
}

/// Returns the first address of the target, preferably of the listening address's family.
async fn target(to: &str, listen: SocketAddr) -> anyhow::Result<SocketAddr> {
    let addresses = resolve(to).await?;
    let alike = addresses.iter().find(|address| address.is_ipv4() == listen.is_ipv4());
    alike.or_else(|| addresses.first()).copied().with_context(|| format!("{to} has no address, check the name"))
}

/// Returns on Ctrl-C, and on Unix on SIGTERM.
async fn ended() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_target_may_be_a_name_and_prefers_the_listeners_family() {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let expected: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        assert_eq!(target("127.0.0.1:4000", listen).await.unwrap(), expected);
        assert_eq!(target("localhost:4000", listen).await.unwrap(), expected);
        let error = target("no-such-host.invalid:1", listen).await.unwrap_err();
        assert!(error.to_string().contains("check the name"), "{error}");
    }

    #[test]
    fn the_summary_is_flat_json() {
        let addr: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let stats = RelayStats { clients_total: 2, ..RelayStats::default() };
        let summary = Summary { listen: addr, to: addr, seed: u64::MAX.to_string(), seconds: 1.5, stats };
        let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&summary).unwrap()).unwrap();
        assert_eq!(json["seed"], "18446744073709551615");
        assert_eq!(json["clients_total"], 2);
        assert_eq!(json["forward"]["lost"]["packets"], 0);
    }
}
