//! Arguments of `dfcp estimate`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use dfcp_estimate::limits::{CLIENTS_DEFAULT, INTERVAL_MAX, INTERVAL_MIN, THRESHOLD_MAX, THRESHOLD_MIN};
use dfcp_estimate::{Config, ConfigError};

use crate::args::{ESTIMATE_PORT, ListenArg, MetricsArgs, count, host_or, listen_at, seconds};
use crate::units::{self, human_duration};

/// `dfcp estimate`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  there:  dfcp estimate server
  here:   dfcp estimate client there.example --duration 60

What is measured is the way from the server to the client, while the client's machine is used as always. `dfcp estimate trace` does the same with a capture.

Small test packets join the user's own traffic in the queue of the bottleneck. While they arrive late, the queue is busy and \
serves as fast as it can: what arrives in such a busy period, divided by its duration, is the rate at which this user is served. \
The estimate is the mean over busy periods; without traffic that fills the queue now and then there is none.")]
pub struct EstimateArgs {
    /// Source of the packets.
    #[command(subcommand)]
    pub source: Source,
}

/// Source of the packets.
#[derive(Debug, Subcommand)]
pub enum Source {
    /// Send test packets to clients that ask for them
    Server(ServerArgs),
    /// Estimate the throughput of the path from a server to here, by test packets and the other traffic that arrives
    Client(ClientArgs),
    /// Estimate from a capture, pcapng or pcap, made at the receiver
    Trace(TraceArgs),
}

/// `dfcp estimate server`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp estimate server
  dfcp estimate server --listen 5202 --metrics 9184

Each client gets a packet of 60 bytes at its --interval, 10 ms to 10 s, after it has proven that it receives at its address, and no more when it has not \
been heard for 10 s. Nothing is encrypted and no one is admitted by key: test packets tell nothing but how long this program has run. A machine with several addresses \
answers from any of them unless --listen names one.")]
pub struct ServerArgs {
    /// Port to listen on, at every local address, or at the given address or host name
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_at(ESTIMATE_PORT), default_value_t = ListenArg::Anywhere(ESTIMATE_PORT))]
    pub listen: ListenArg,
    /// Limit on concurrent clients. At the limit, the address with the most clients loses one, or the new client is asked to retry later
    #[arg(long, value_name = "N", default_value_t = CLIENTS_DEFAULT, value_parser = count)]
    pub max_clients: usize,
    /// Metrics of this server.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// `dfcp estimate client`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp estimate client there.example
  dfcp estimate client 192.0.2.7:5202 --duration 10min --interval 20ms --json
  dfcp estimate client 192.0.2.7:5202 --interface wwan0 --threshold 40ms

Use this machine meanwhile: load pages, download files. The estimate comes from its own traffic, as the network interface counts it (on Linux), and there is none \
while nothing fills the queue of the bottleneck. Only what comes through the same bottleneck as the test packets may come through that interface. \
Ctrl-C ends the measurement early, with its result.

Bytes are those of IP packets. The interval of confidence says how much busy periods differ, which is also how much the rate changed.")]
pub struct ClientArgs {
    /// Address of `dfcp estimate server`
    #[arg(value_name = "HOST[:PORT]", value_parser = host_or(ESTIMATE_PORT))]
    pub server: String,
    /// Time to measure: seconds, or with a unit (10min)
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = seconds)]
    pub duration: Duration,
    /// Interval of test packets, from 10ms to 10s
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = interval)]
    pub interval: Duration,
    /// Parameters of the queue model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Network interface whose counters measure the received traffic [default: the interface of the route to the server]
    #[arg(long, value_name = "NAME", conflicts_with = "probes_only")]
    pub interface: Option<String>,
    /// Only request test packets, while another program records them for `dfcp estimate trace`
    #[arg(long)]
    pub probes_only: bool,
    /// Print one JSON object at the end, with every busy period
    #[arg(long)]
    pub json: bool,
}

/// `dfcp estimate trace`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp estimate trace capture.pcapng
  dfcp estimate trace capture.pcap --probes 7000 --interval 50ms
  dfcp estimate trace lab-trace/packets.pcapng --probes 10.2.0.3:9000 --to 10.2.0.0/16 --json

The capture has to be made where the packets arrive, behind the bottleneck. Test packets of DFCP's own format are recognised; those \
of another tool are the UDP packets to the port that --probes names. Without numbers, a lost one ends the model of the queue, and the default of --gap is 1.9 intervals.

Bytes are those of IP packets. The interval of confidence says how much busy periods differ, which is also how much the rate changed.")]
pub struct TraceArgs {
    /// Capture file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Test packets of another tool: UDP packets to this port, or to this address and port
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub probes: Option<ProbesArg>,
    /// Addresses of the user, as an address or a prefix: packets to them are the user's traffic [default: the destination of the test
    /// packets]
    #[arg(long, value_name = "ADDRESS[/BITS]")]
    pub to: Option<Prefix>,
    /// Interval of test packets, from 1ms to 10s, if the packets do not state it [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = interval, requires = "probes")]
    pub interval: Option<Duration>,
    /// Parameters of the queue model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Print one JSON object, with every busy period
    #[arg(long)]
    pub json: bool,
}

/// Parameters of the estimator.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ModelArgs {
    /// Queueing delay from which the queue counts as busy. Below the interval, the lower it is, the more idle times
    /// busy periods may contain, since the queue may empty between two test packets; from the interval on there are
    /// none. A higher value finds fewer busy periods, and biases them to times when the path is slow [default: 20ms, or
    /// the interval if that is less]
    #[arg(long, value_name = "TIME", value_parser = threshold)]
    pub threshold: Option<Duration>,
    /// Longest gap in the test packets that the model of the queue survives [default: ten intervals, at least 1s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub gap: Option<Duration>,
    /// Jitter of the path: deviation of test packets from their interval while the queue is empty [default: 3ms, or a quarter of the
    /// interval if that is less]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub tolerance: Option<Duration>,
}

impl ModelArgs {
    /// Applies the given options to `config`.
    ///
    /// # Errors
    /// Fails if the values contradict each other.
    pub fn apply(&self, mut config: Config) -> Result<Config, ConfigError> {
        if let Some(threshold) = self.threshold {
            config = config.with_threshold(threshold);
        }
        if let Some(gap) = self.gap {
            config = config.with_gap(gap);
        }
        if let Some(tolerance) = self.tolerance {
            config = config.with_tolerance(tolerance);
        }
        config.validate().map(|()| config)
    }
}

/// Destination that identifies test packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbesArg {
    /// Destination address; `None` matches every address.
    pub address: Option<IpAddr>,
    /// UDP port.
    pub port: u16,
}

impl FromStr for ProbesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port @ 1..) = text.parse() {
            return Ok(Self { address: None, port });
        }
        match text.parse::<std::net::SocketAddr>() {
            Ok(to) if to.port() != 0 => Ok(Self { address: Some(to.ip()), port: to.port() }),
            _ => Err("expected a port such as 7000, or an address with one, such as 192.0.2.7:7000".to_owned()),
        }
    }
}

/// Address prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Prefix of the full length: this address alone.
    pub fn of(address: IpAddr) -> Self {
        Self { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// True if `address` is within the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => u128::from(u32::from(own) ^ u32::from(other)) << 96,
            (IpAddr::V6(own), IpAddr::V6(other)) => u128::from(own) ^ u128::from(other),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.bits)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || "expected an address such as 192.0.2.7, or a prefix such as 192.0.2.0/24".to_owned();
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let whole = Self::of(address.parse().map_err(|_| error())?);
        match bits.map(str::parse) {
            None => Ok(whole),
            Some(Ok(bits)) if bits <= whole.bits => Ok(Self { bits, ..whole }),
            Some(_) => Err(error()),
        }
    }
}

/// Parses a duration within the given limits.
fn within(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let time = units::duration(text).map_err(|error| error.to_string())?;
    let expected = || format!("expected a time from {} to {}", human_duration(least), human_duration(most));
    if (least..=most).contains(&time) { Ok(time) } else { Err(expected()) }
}

fn interval(text: &str) -> Result<Duration, String> {
    within(text, INTERVAL_MIN, INTERVAL_MAX)
}

fn threshold(text: &str) -> Result<Duration, String> {
    within(text, THRESHOLD_MIN, THRESHOLD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_what_begins_alike() {
        for (prefix, inside, outside) in [
            ("10.2.0.0/16", "10.2.255.1", "10.3.0.0"),
            ("10.2.0.1", "10.2.0.1", "10.2.0.2"),
            ("0.0.0.0/0", "255.0.0.1", "::1"),
            ("2001:db8::/32", "2001:db8:1::", "2001:db9::"),
            ("::/0", "2001::", "1.2.3.4"),
        ] {
            let prefix: Prefix = prefix.parse().unwrap();
            assert!(
                prefix.contains(inside.parse().unwrap()) && !prefix.contains(outside.parse().unwrap()),
                "{prefix:?}"
            );
        }
        for bad in ["", "/", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/-1", "a/8", "10.0.0/8"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn probes_are_a_port_or_a_place() {
        assert_eq!("7000".parse(), Ok(ProbesArg { address: None, port: 7000 }));
        let place = ProbesArg { address: Some("2001:db8::7".parse().unwrap()), port: 7 };
        assert_eq!("[2001:db8::7]:7".parse(), Ok(place));
        for bad in ["", "0", "70000", "192.0.2.7", "192.0.2.7:0", ":7", "a:7"] {
            assert!(bad.parse::<ProbesArg>().is_err(), "{bad}");
        }
    }

    #[test]
    fn values_that_do_not_go_together_are_refused() {
        let given = ModelArgs { gap: Some(Duration::from_millis(50)), ..ModelArgs::default() };
        assert!(given.apply(Config::default()).unwrap_err().to_string().contains("gap"));
        let given = ModelArgs { threshold: Some(Duration::from_millis(7)), ..ModelArgs::default() };
        assert_eq!(given.apply(Config::default()).map(|config| config.threshold), Ok(Duration::from_millis(7)));
    }
}
