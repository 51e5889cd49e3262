//! The command line of `dfcp relay`.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use dfcp_netem::{LinkConfig, Loss, QueueLimit, REORDER_DELAY_DEFAULT};
use serde::Serialize;

use super::{Relay, RelayConfig, RelayStats};
use crate::args::ListenArg;
use crate::units;

/// Forward UDP over an emulated path: with loss, delay, a bottleneck and more, both directions alike.
///
/// Point the client at the relay instead of its server. Runs until Ctrl-C, then says what became of the datagrams.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Example: a 100 Mbit/s path with 50 ms of round-trip time that loses every tenth packet
  dfcp receive --listen 127.0.0.1:4000 --output incoming
  dfcp relay --listen 127.0.0.1:5000 --to 127.0.0.1:4000 --loss 10% --delay 25ms --rate 100mbit
  dfcp send FILE 127.0.0.1:5000")]
pub struct RelayArgs {
    /// Where clients send to: a port of this machine, alone (IPv4) or with an address or a name, for example 127.0.0.1:5000
    #[arg(long, value_name = "[HOST:]PORT")]
    pub listen: ListenArg,

    /// Where their datagrams go: an address or a name with a port
    #[arg(long, value_name = "HOST:PORT")]
    pub to: String,

    /// Share of packets lost behind the bottleneck, for example 10% or 0.1
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub loss: f64,

    /// Lose packets in runs of this many on average instead of one by one
    #[arg(long, value_name = "PACKETS", requires = "loss")]
    pub burst: Option<f64>,

    /// One-way delay, for example 25ms
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0ms")]
    pub delay: Duration,

    /// Up to this much more delay, at random; the order is kept
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0ms")]
    pub jitter: Duration,

    /// Rate of the bottleneck in IP bytes, for example 100mbit; unlimited if not given
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<u64>,

    /// Packets that may wait for the bottleneck; more are dropped
    #[arg(long, value_name = "PACKETS", default_value_t = 1000)]
    pub queue: usize,

    /// Share of packets that arrive 2 ms late, overtaken by those behind them
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub reorder: f64,

    /// Share of packets that arrive twice
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub duplicate: f64,

    /// Share of packets that arrive with one bit flipped
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub corrupt: f64,

    /// Repeat the random events of an earlier run; chosen at random if not given
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

impl RelayArgs {
    /// What each direction's link is to do.
    ///
    /// # Errors
    /// When no loss process has the loss and burst length asked for.
    pub fn link(&self) -> anyhow::Result<LinkConfig> {
        let loss = match self.burst {
            Some(burst) => Loss::bursts(self.loss, burst).context("cannot combine --loss and --burst")?,
            None if self.loss == 0.0 => Loss::None,
            None => Loss::bernoulli(self.loss),
        };
        let mut link = LinkConfig::default()
            .with_loss(loss)
            .with_delay(self.delay)
            .with_jitter(self.jitter)
            .with_queue(QueueLimit::packets(self.queue))
            .with_reorder(self.reorder, REORDER_DELAY_DEFAULT)
            .with_duplicate(self.duplicate)
            .with_corrupt(self.corrupt);
        link.rate_bps = self.rate;
        link.validate()?;
        Ok(link)
    }
}

/// One phrase per impairment: `10 % loss, 25 ms delay`.
impl fmt::Display for RelayArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut phrases = Vec::new();
        if self.loss > 0.0 {
            let burst = self.burst.map(|burst| format!(" in runs of {burst}")).unwrap_or_default();
            phrases.push(format!("{} loss{burst}", units::human_percent(self.loss)));
        }
        for (time, what) in [(self.delay, "delay"), (self.jitter, "jitter")] {
            if !time.is_zero() {
                phrases.push(format!("{} {what}", units::human_duration(time)));
            }
        }
        if let Some(rate_bps) = self.rate {
            phrases.push(format!("{} with a queue of {} packets", units::human_rate(rate_bps as f64), self.queue));
        }
        let shares = [(self.reorder, "reordered"), (self.duplicate, "duplicated"), (self.corrupt, "corrupted")];
        for (share, what) in shares {
            if share > 0.0 {
                phrases.push(format!("{} {what}", units::human_percent(share)));
            }
        }
        if phrases.is_empty() {
            return f.write_str("no impairment");
        }
        f.write_str(&phrases.join(", "))
    }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Summary {
    listen: SocketAddr,
    to: SocketAddr,
    /// As text, because JSON readers round large integers.
    seed: String,
    seconds: f64,
    #[serde(flatten)]
    stats: RelayStats,
}

/// Relays until Ctrl-C (or a request to terminate) and prints the summary.
///
/// # Errors
/// When the arguments make no sense, the target has no address, or the listening socket cannot be bound or fails.
pub async fn run(args: RelayArgs) -> anyhow::Result<()> {
    let link = args.link()?;
    let listen = args.listen.addresses(false).await?.into_iter().next().context("--listen has no address")?;
    let to = resolve(&args.to, listen).await?;
    // 32 bits are enough to tell runs apart and short enough to type.
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one("relay") >> 32);
    let mut relay = Relay::start(RelayConfig::symmetric(listen, to, link, seed))
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let started = Instant::now();
    let listen = relay.local_addr();
    say(&format!("Relaying UDP from {listen} to {to}, each way with {args} (seed {seed}). Ctrl-C ends it."))?;
    tokio::select! {
        end = ended() => end.context("cannot wait for Ctrl-C")?,
        error = relay.failed() => return Err(error).with_context(|| format!("the socket on {listen} failed")),
    }
    let stats = relay.stats();
    if args.json {
        let summary = Summary { listen, to, seed: seed.to_string(), seconds: started.elapsed().as_secs_f64(), stats };
        let text = serde_json::to_string(&summary).context("cannot write the summary as JSON")?;
        writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")?;
        return Ok(());
    }
    say(&format!("to {to}: {}", stats.forward))?;
    say(&format!("back: {}", stats.backward))?;
    if stats.refused_packets > 0 {
        say(&format!("{} datagrams refused: too many clients at once", stats.refused_packets))?;
    }
    if stats.stray_packets > 0 {
        say(&format!("{} datagrams ignored: not from {to}", stats.stray_packets))?;
    }
    Ok(())
}

/// The target's first address, of the listening address's family if there is one.
async fn resolve(to: &str, listen: SocketAddr) -> anyhow::Result<SocketAddr> {
    let addrs: Vec<SocketAddr> = tokio::net::lookup_host(to)
        .await
        .with_context(|| format!("cannot find the address of `{to}`; write HOST:PORT, for example 127.0.0.1:4000"))?
        .collect();
    let alike = addrs.iter().find(|addr| addr.is_ipv4() == listen.is_ipv4());
    alike.or_else(|| addrs.first()).copied().with_context(|| format!("`{to}` has no address"))
}

/// Returns on Ctrl-C, and on Unix when asked to terminate.
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

fn say(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stderr(), "{line}").context("cannot write to standard error")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        relay: RelayArgs,
    }

    fn parse(line: &str) -> Result<RelayArgs, clap::Error> {
        let words = ["relay", "--listen", "127.0.0.1:5000", "--to", "localhost:4000"].into_iter();
        Command::try_parse_from(words.chain(line.split_whitespace())).map(|command| command.relay)
    }

    #[test]
    fn nothing_asked_for_is_a_perfect_link() {
        let args = parse("").unwrap();
        let expected = LinkConfig::default().with_queue(QueueLimit::packets(1000));
        assert_eq!(args.link().unwrap(), expected);
        assert_eq!(args.to_string(), "no impairment");
    }

    #[test]
    fn every_option_reaches_the_link() {
        let line = "--loss 10% --burst 4 --delay 25ms --jitter 2ms --rate 100mbit --queue 500 --reorder 1% \
                    --duplicate 2% --corrupt 0.1% --seed 7";
        let args = parse(line).unwrap();
        let expected = LinkConfig::default()
            .with_loss(Loss::bursts(0.1, 4.0).unwrap())
            .with_delay(Duration::from_millis(25))
            .with_jitter(Duration::from_millis(2))
            .with_rate_bps(100_000_000)
            .with_queue(QueueLimit::packets(500))
            .with_reorder(0.01, REORDER_DELAY_DEFAULT)
            .with_duplicate(0.02)
            .with_corrupt(0.001);
        assert_eq!(args.link().unwrap(), expected);
        assert_eq!(args.seed, Some(7));
        assert_eq!(
            args.to_string(),
            "10 % loss in runs of 4, 25 ms delay, 2 ms jitter, 100 Mbit/s with a queue of 500 packets, \
             1 % reordered, 2 % duplicated, 0.1 % corrupted"
        );
    }

    #[test]
    fn mistakes_are_explained() {
        assert!(parse("--loss 10").unwrap_err().to_string().contains("write 10% or 0.1"));
        assert!(parse("--delay 25").unwrap_err().to_string().contains("25ms"));
        assert!(parse("--rate 0").unwrap_err().to_string().contains("100mbit"));
        assert!(parse("--burst 4").unwrap_err().to_string().contains("--loss"));
        let error = parse("--loss 90% --burst 2").unwrap().link().unwrap_err();
        assert!(format!("{error:#}").contains("needs bursts of at least"), "{error:#}");
    }

    #[tokio::test]
    async fn the_target_may_be_a_name_and_prefers_the_listeners_family() {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let expected: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        assert_eq!(resolve("127.0.0.1:4000", listen).await.unwrap(), expected);
        assert_eq!(resolve("localhost:4000", listen).await.unwrap(), expected);
        let error = resolve("no port", listen).await.unwrap_err();
        assert!(error.to_string().contains("HOST:PORT"), "{error}");
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
