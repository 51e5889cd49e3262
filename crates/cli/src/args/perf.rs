//! Arguments of `dfcp perf`.

use std::time::Duration;

use clap::{Args, Subcommand};
use dfcp_framing::limits::{PERF_DURATION_MAX, PERF_STREAMS_MAX};
use dfcp_secure::Cipher;

use super::{
    AdmissionArgs, AuditArgs, HostArgs, ListenArg, MessageArgs, MetricsArgs, PERF_PORT, ParameterArgs, PathArgs,
    any_seconds, count, host_or, listen_at, messages, trust,
};
use crate::limits::{PERF_CLIENTS_DEFAULT, PERF_LOCAL_DURATION, PERF_LOCAL_ROUNDS_DEFAULT, PERF_LOCAL_ROUNDS_MAX};
use crate::units;

/// `dfcp perf`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  there:  dfcp perf server
  here:   dfcp perf client there.example --duration 10 --rate 200M --code -

The second command asks for the code which the server prints. `dfcp perf local` needs no other machine: it shows what this one can do.")]
pub struct PerfArgs {
    /// Role in the measurement.
    #[command(subcommand)]
    pub side: PerfSide,
}

/// Roles in a measurement: each side, or both in one process.
#[derive(Debug, Subcommand)]
pub enum PerfSide {
    /// Wait for measurements
    Server(PerfServerArgs),
    /// Run one measurement
    Client(PerfClientArgs),
    /// Run both ends here, over loopback, and show the cost of encryption
    Local(PerfLocalArgs),
}

/// `dfcp perf server`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp perf server --rate auto:low --max-rate 500M --max-receive-rate 500M
  dfcp perf server --listen 5201 --allow-any --metrics 9184
  sudo dfcp perf server --carrier raw-ip
  dfcp perf server --insecure-classic --set redundancy=70000

How fast it sends (to clients with --reverse or --bidir), and by which policy, its own --rate and --max-rate say, whatever a client asks for; \
what clients send is bounded by --max-receive-rate. Access control works as for `dfcp receive`.

With --set decoding=0 it takes only measurements whose data is not decoded, which clients ask for with --set coding=0 or \
--set decoding=0. With --set coding=0 it can only send: clients give --reverse --set decoding=0.")]
pub struct PerfServerArgs {
    /// Port to listen on, at every local address, or at the given address or host name
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_at(PERF_PORT), default_value_t = ListenArg::Anywhere(PERF_PORT))]
    pub listen: ListenArg,
    /// Exit after one client
    #[arg(long)]
    pub once: bool,
    /// Limit on concurrent clients; further ones are asked to retry later
    #[arg(long, value_name = "N", default_value_t = PERF_CLIENTS_DEFAULT, value_parser = count)]
    pub max_clients: usize,
    /// Peers to admit.
    #[command(flatten)]
    pub admission: AdmissionArgs,
    /// Metrics of this server.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Audit log of the measurements.
    #[command(flatten)]
    pub audit: AuditArgs,
    /// Options of the path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Parameters of classic connections.
    #[command(flatten)]
    pub parameters: ParameterArgs,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// `dfcp perf client`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp perf client there.example --duration 10 --code -
  dfcp perf client there.example:5201 --rate auto:high --min-rate 20M
  dfcp perf client 192.0.2.7 --reverse --json
  dfcp perf client 192.0.2.7 --bidir --rate 50M
  dfcp perf client 192.0.2.7 --streams 16 --rate 200M --bytes 1G
  dfcp perf client 192.0.2.7 --messages 1316 --every 4ms --deadline 60ms
  dfcp perf client 192.0.2.7 --dscp EF
  sudo dfcp perf client 192.0.2.7 --carrier raw-ip
  dfcp perf client 192.0.2.7 --insecure-classic --set inctokens=52428 --set maxtokens=104856

Goodput is what the receiving side counted from its first byte on, within the duration. Waste is the share of data \
datagrams sent which arrived and were not needed. Of an automatic rate, the rate found is shown, the queueing delay on the way, and \
the loss: the path's own, and what found a queue full, which is the sender's own doing, alone or together with others.

With --bidir, one connection carries data `to server` and `to client` at the same time: a line for each, and with --json an object for each, `to_server` and `to_client`. \
Overhead then includes the acknowledgements of the other direction.

A message is in time if it is there --deadline after it was handed over, as far as two ends without a common clock can know: half of the least round trip stands for the least one-way delay. The same holds for the latencies. As few datagrams are sent as bring --target percent of them in time.

With --set coding=0 (the first block's segments serve for all) or --set decoding=0, the receiving side counts data without \
decoding it, whichever side that is. With --reverse, coding=0 is for the server, and the figures of the path are shown there only.")]
pub struct PerfClientArgs {
    /// Address of `dfcp perf server`
    #[arg(value_name = "HOST[:PORT]", value_parser = host_or(PERF_PORT))]
    pub server: String,
    /// Duration of sending: seconds, or with a unit (500ms, 2min)
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    pub duration: Duration,
    /// Stop after this many bytes, such as 64M or 1GB, even before the duration ends
    #[arg(long, value_name = "SIZE", value_parser = units::size_bytes)]
    pub bytes: Option<u64>,
    /// Let the server send, at its own rate
    #[arg(long)]
    pub reverse: bool,
    /// Send in both directions at once, each side at its own rate; --bytes and --streams apply to each direction
    // clap ignores `requires` (here that of --set for --insecure-classic) if the required flag conflicts with another given flag.
    #[arg(long, conflicts_with_all = ["reverse", "messages", "insecure_classic", "set"])]
    pub bidir: bool,
    /// Send messages with a deadline instead of a stream: this many bytes each, 0 to 262144. The result counts messages on time, late and
    /// lost
    #[arg(long, value_name = "BYTES", requires_all = ["every", "deadline"], value_parser = messages::bytes)]
    #[arg(conflicts_with_all = ["insecure_classic", "streams", "bytes"])]
    pub messages: Option<u32>,
    /// Interval between messages, such as 4ms or 400us
    #[arg(long, value_name = "TIME", requires = "messages", value_parser = messages::every)]
    pub every: Option<Duration>,
    /// Deadline and target of messages
    #[command(flatten)]
    pub worth: MessageArgs,
    /// Number of streams in the one connection, 1 to 128: loss on one stream delays no other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = streams)]
    #[arg(conflicts_with = "insecure_classic")]
    pub streams: u16,
    /// Peers to trust.
    #[command(flatten)]
    pub host: HostArgs,
    /// Options of the path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Parameters of classic connections.
    #[command(flatten)]
    pub parameters: ParameterArgs,
    /// Print one JSON object at the end: entries of `intervals` count their own interval, `total` the whole measurement
    #[arg(long)]
    pub json: bool,
}

/// `dfcp perf local`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp perf local
  dfcp perf local --cipher aes-128-gcm,chacha20-poly1305 --rounds 10 --json

Sender and receiver run in this program and send over loopback as fast as they can; nothing but this machine limits them. \
Each round measures every cipher and then no encryption at all, because machines are noisy: what is compared was measured \
one right after the other. Measuring without encryption needs no flag here, since no byte leaves this program.

The figures include both ends: encoding and decoding, encrypting and decrypting, and what the system's network stack does \
in this program's name. On a path between two machines each of them bears its part only.")]
pub struct PerfLocalArgs {
    /// Duration of each measurement: seconds, or with a unit (500ms), from 100ms to 10min
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = local_seconds)]
    pub duration: Duration,
    /// Number of rounds, 1 to 100; each round measures every cipher once, and plaintext
    #[arg(long, value_name = "N", default_value_t = PERF_LOCAL_ROUNDS_DEFAULT, value_parser = rounds)]
    pub rounds: u32,
    /// Ciphers to measure: aes-128-gcm, aes-256-gcm, chacha20-poly1305 [default: the fastest on this machine]
    #[arg(long, value_name = "CIPHER,..", value_delimiter = ',', value_parser = trust::cipher)]
    pub cipher: Vec<Cipher>,
    /// Print one JSON object at the end
    #[arg(long)]
    pub json: bool,
}

/// Parses the duration of a measurement: above 0 s, at most 24 h.
///
/// # Errors
/// Fails for any other text.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let duration = any_seconds(text)?;
    if duration.is_zero() || duration > PERF_DURATION_MAX {
        return Err("expected more than 0 s and at most 24 hours".to_owned());
    }
    Ok(duration)
}

pub(super) fn local_seconds(text: &str) -> Result<Duration, String> {
    let duration = any_seconds(text)?;
    if PERF_LOCAL_DURATION.contains(&duration) { Ok(duration) } else { Err("expected from 100ms to 10min".to_owned()) }
}

pub(super) fn streams(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(streams @ 1..=PERF_STREAMS_MAX) => Ok(streams),
        _ => Err(format!("expected a number from 1 to {PERF_STREAMS_MAX}")),
    }
}

pub(super) fn rounds(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rounds @ 1..=PERF_LOCAL_ROUNDS_MAX) => Ok(rounds),
        _ => Err(format!("expected a number from 1 to {PERF_LOCAL_ROUNDS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_bounds() {
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(local_seconds("0.1"), Ok(Duration::from_millis(100)));
        assert_eq!(local_seconds("10min"), Ok(Duration::from_secs(600)));
        for bad in ["0", "0.099", "600.1", "-1", "nan", "inf", "x"] {
            assert!(local_seconds(bad).is_err(), "{bad}");
        }
        for bad in ["0", "-1", "nan", "inf", "1e300", "90000", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
