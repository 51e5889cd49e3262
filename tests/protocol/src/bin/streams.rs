//! CPU time of opening, using and ending a stream, both ends together, including the emulated path: `cargo run --release -p
//! dfcp-protocol-tests --bin streams`.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use dfcp_proto::{Config, Connection, Rate, Read, State, StreamEvent, StreamId, StreamKind, StreamLimits};
use dfcp_testkit::{DelayLine, Job, Testbed, sealed};
use dfcp_time::Time;

/// Opens streams in an open session, all at once, writes a little to each, and waits until the peer has read all.
#[derive(Parser)]
struct Args {
    /// Number of streams.
    #[arg(long, default_value_t = 1000)]
    count: u32,
    /// Bytes written to each stream.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Number of repetitions.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

/// Time limit in virtual time.
const LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} streams of {} bytes, CPU time of both ends and the path", args.count, args.bytes)?;
    for round in 0..args.rounds {
        let (took, virtual_time) = measure(round.into(), &args)?;
        let each = took.as_secs_f64() * 1e6 / f64::from(args.count);
        writeln!(
            out,
            "{each:.1} us each; {:.1} ms until the last was read and proven",
            virtual_time.as_secs_f64() * 1e3
        )?;
    }
    Ok(())
}

/// Measures the CPU time, and the virtual time of the session.
fn measure(seed: u64, args: &Args) -> Result<(Duration, Duration)> {
    let streams = StreamLimits { bidirectional: 0, one_way: args.count };
    let config = Config { rate: Rate::Fixed { rate_bps: 1_000_000_000 }, streams, ..sealed() };
    let mut testbed = Testbed::new(seed, config.clone());
    let job = Job { shut_down: false, ..Job::send(0) };
    (testbed.client.job, testbed.server.job) = (job, job);
    testbed.connect(config)?;
    let limit = testbed.now + LIMIT;
    while testbed.client.state() != State::Established || testbed.server.state() != State::Established {
        ensure!(testbed.step(limit), "no session");
    }
    let (begun, began_at) = (process_cpu()?, testbed.now);
    open_all(&mut testbed, args)?;
    let mut unread = BTreeSet::new();
    let (mut read, mut proven) = (0, 0);
    while read < args.count || proven < args.count {
        ensure!(testbed.step(limit), "{read} read and {proven} proven of {}", args.count);
        let now = testbed.now;
        proven += count_proven(testbed.client.connection_mut().context("no client")?);
        read += read_all(now, testbed.server.connection_mut().context("no server")?, &mut unread);
    }
    Ok((process_cpu()?.saturating_sub(begun), testbed.now - began_at))
}

/// CPU time used by this program, independent of other programs.
#[cfg(unix)]
fn process_cpu() -> Result<Duration> {
    Ok(Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))?)
}

#[cfg(not(unix))]
fn process_cpu() -> Result<Duration> {
    anyhow::bail!("this system has no clock of a program's CPU time")
}

fn open_all(testbed: &mut Testbed<DelayLine>, args: &Args) -> Result<()> {
    let now = testbed.now;
    let data = vec![7; args.bytes];
    let client = testbed.client.connection_mut().context("no client")?;
    let mut streams = client.streams();
    for _ in 0..args.count {
        let id = streams.open(StreamKind::OneWay)?;
        ensure!(streams.write(now, id, &data)? == data.len(), "there is room");
        streams.finish(now, id);
    }
    Ok(())
}

fn count_proven(client: &mut Connection) -> u32 {
    let mut streams = client.streams();
    let events = std::iter::from_fn(|| streams.poll_event());
    events.filter(|event| matches!(event, StreamEvent::Finished(_))).count() as u32
}

/// Reads all available data; returns the number of streams read to their end.
fn read_all(now: Time, server: &mut Connection, unread: &mut BTreeSet<StreamId>) -> u32 {
    let (mut ended, mut buffer) = (0, [0; 4096]);
    let mut streams = server.streams();
    while let Some(event) = streams.poll_event() {
        if let StreamEvent::Readable(id) | StreamEvent::Opened(id) = event {
            unread.insert(id);
        }
    }
    while streams.accept().is_some() {}
    unread.retain(|&id| {
        loop {
            match streams.read(now, id, &mut buffer) {
                Ok(Read::Bytes(_)) => {}
                Ok(Read::End) => {
                    ended += 1;
                    return false;
                }
                Ok(Read::Blocked) | Err(_) => return false,
            }
        }
    });
    ended
}
