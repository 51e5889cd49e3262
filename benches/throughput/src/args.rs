//! Command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::contenders::Contender;

/// Seconds and rounds with `--quick`.
const QUICK: (f64, u32) = (2.0, 1);

/// Measures the performance of DFCP on this machine, compared with QUIC (quinn), the kernel's TCP and bare UDP.
///
/// Sender and receiver are two processes, in two network namespaces connected by a veth pair. That needs root; without it they use
/// loopback, whose packets are larger and whose figures differ.
#[derive(Debug, Parser)]
#[command(name = "throughput", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) hidden: Option<Hidden>,
    /// Measure only these sections.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTIONS")]
    only: Vec<Section>,
    /// Measure only these contenders, where a section supports them; by default each section has its own list.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) contenders: Vec<Contender>,
    /// Duration of each measurement [default: 10].
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// Rounds of each measurement, in turn: A B C A B C [default: 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// Short measurements, the same as `--seconds 2 --rounds 1`.
    #[arg(long)]
    quick: bool,
    /// Write all measurements as JSON to this file, or to standard output for `-`, instead of the tables.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Use loopback instead of namespaces.
    #[arg(long)]
    pub(crate) loopback: bool,
    /// Number of concurrent connections in the section `flows`.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000", value_name = "NUMBERS", value_parser = parse_connections)]
    pub(crate) flows: Vec<usize>,
    /// Total rate of all DFCP connections in the section `flows`, shared equally: `one` is the rate that one connection has reached at the
    /// rate `line`; a number is in bits of IP packets per second; `line` lets each send as fast as interface and receiver accept.
    #[arg(long, default_value = "line", value_name = "RATE", value_parser = parse_flows_rate)]
    pub(crate) flows_rate: FlowsRate,
    /// Number of messages in the section `pingpong`, limited by `--seconds`.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) messages: u64,
    /// Number of idle connections in the section `memory`.
    #[arg(long, default_value_t = 1_000, value_parser = parse_connections)]
    pub(crate) idle: usize,
}

/// Rate of many concurrent DFCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowsRate {
    /// Rate of a single connection in the same round.
    One,
    /// Rate of the interface for each connection.
    Line,
    /// Fixed rate, bits of IP packets per second.
    Fixed(u64),
}

/// Commands that this program uses to start itself.
#[derive(Debug, Subcommand)]
pub(crate) enum Hidden {
    /// One of the two ends; reads its job from standard input.
    #[command(hide = true)]
    End,
}

/// Section of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Section {
    /// One flow without loss.
    Bulk,
    /// One flow at 0 % and at 10 % loss.
    Loss,
    /// Many concurrent flows.
    Flows,
    /// Round trips of 64 bytes.
    Pingpong,
    /// Connections opened per second.
    Connections,
    /// Memory of idle connections.
    Memory,
}

const EXAMPLES: &str = "\
Examples (`throughput` is `cargo run --release -p dfcp-throughput --`):
  throughput                                        all sections, 10 s each, 3 rounds; as root
  throughput --quick --only bulk                    one flow of each contender, 2 s, once
  throughput --only bulk --contenders dfcp-sealed,quinn --rounds 5
  throughput --only loss,pingpong --json figures.json

Figures depend on what else the machine does: leave it alone, and see whether the rounds agree.";

impl Args {
    /// Sections to measure, without duplicates and in the usual order.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let all = Section::value_variants().iter().copied();
        all.filter(|section| self.only.is_empty() || self.only.contains(section)).collect()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { QUICK.0 } else { 10.0 })
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { QUICK.1 } else { 3 })
    }

    /// Selected contenders among `possible`, or `default`.
    pub(crate) fn contenders_among(&self, possible: &[Contender], default: &[Contender]) -> Vec<Contender> {
        if self.contenders.is_empty() {
            return default.to_vec();
        }
        possible.iter().copied().filter(|contender| self.contenders.contains(contender)).collect()
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.1..=3_600.0).contains(&seconds) { Ok(seconds) } else { Err("must be from 0.1 to 3600".to_owned()) }
}

fn parse_flows_rate(text: &str) -> Result<FlowsRate, String> {
    match (text, text.parse()) {
        ("one", _) => Ok(FlowsRate::One),
        ("line", _) => Ok(FlowsRate::Line),
        (_, Ok(bps @ 1_000_000..=1_000_000_000_000)) => Ok(FlowsRate::Fixed(bps)),
        _ => Err("must be `one`, `line`, or bits per second from 1000000 to 1000000000000".to_owned()),
    }
}

fn parse_connections(text: &str) -> Result<usize, String> {
    let connections: usize = text.parse().map_err(|_| "not a number of connections".to_owned())?;
    if (1..=10_000).contains(&connections) { Ok(connections) } else { Err("must be from 1 to 10000".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn defaults_and_quick() {
        let args = parse("throughput").unwrap();
        assert_eq!((args.seconds(), args.rounds(), args.sections().len()), (10.0, 3, 6));
        assert_eq!(args.flows, [1, 10, 100, 1000]);
        let args = parse("throughput --quick").unwrap();
        assert_eq!((args.seconds(), args.rounds()), (2.0, 1));
        let args = parse("throughput --quick --rounds 4").unwrap();
        assert_eq!((args.seconds(), args.rounds()), (2.0, 4));
    }

    #[test]
    fn sections_and_contenders_come_once_and_in_order() {
        let args = parse("throughput --only loss,bulk,loss --contenders udp,quinn-1,udp").unwrap();
        assert_eq!(args.sections(), [Section::Bulk, Section::Loss]);
        let possible = [Contender::Quinn, Contender::Quinn1, Contender::Udp];
        assert_eq!(args.contenders_among(&possible, &[Contender::Tcp]), [Contender::Quinn1, Contender::Udp]);
        let args = parse("throughput").unwrap();
        assert_eq!(args.contenders_among(&possible, &[Contender::Tcp]), [Contender::Tcp]);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "--seconds 0",
            "--seconds inf",
            "--seconds x",
            "--rounds 0",
            "--only all",
            "--flows 0",
            "--contenders sctp",
            "--flows-rate 10",
        ] {
            assert!(parse(&format!("throughput {line}")).is_err(), "{line}");
        }
    }

    #[test]
    fn contenders_are_named_alike_everywhere() {
        for contender in Contender::value_variants() {
            let by_clap = contender.to_possible_value().unwrap();
            assert_eq!(by_clap.get_name(), contender.name());
            assert_eq!(serde_json::to_value(contender).unwrap(), contender.name());
        }
    }
}
