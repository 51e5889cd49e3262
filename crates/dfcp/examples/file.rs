//! Sends one file, with the blocking twin: no `async` anywhere.
//!
//! ```text
//! cargo run --example file -- receive 0.0.0.0:4433 copy.bin
//! cargo run --example file -- send 192.0.2.7:4433 original.bin 50      at 50 Mbit/s
//! ```
//!
//! Nothing is encrypted, and whoever connects first is believed: for a real tool see the `dfcp` command.
#![expect(clippy::print_stderr, reason = "a program's progress")]

use std::fs::File;
use std::io;
use std::time::Duration;

use dfcp::blocking::{Listener, Stream};
use dfcp::{Config, Rate};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, path] => receive(address, path),
        ["send", address, path] => send(address, path, "100"),
        ["send", address, path, rate_mbps] => send(address, path, rate_mbps),
        _ => anyhow::bail!("usage: file receive ADDRESS PATH | file send ADDRESS PATH [MBIT_PER_SECOND]"),
    }
}

fn receive(address: &str, path: &str) -> anyhow::Result<()> {
    let listener = Listener::bind(address.parse()?, Config::modern())?;
    eprintln!("waiting on {}", listener.local_addr()?);
    let mut stream = listener.accept()?;
    let mut file = File::create(path)?;
    let bytes = io::copy(&mut stream, &mut file)?;
    file.sync_all()?;
    stream.shutdown()?;
    eprintln!("{bytes} bytes from {}", stream.remote_addr());
    Ok(())
}

fn send(address: &str, path: &str, rate_mbps: &str) -> anyhow::Result<()> {
    let rate_bps = rate_mbps.parse::<u64>()?.saturating_mul(1_000_000);
    let mut file = File::open(path)?;
    // A program which ends with its transfer does not want to wait for half a minute in TIME_WAIT.
    let time_wait = Duration::from_secs(2);
    let config = Config { rate: Rate::Fixed { rate_bps }, time_wait, ..Config::modern() };
    let mut stream = Stream::connect(address.parse()?, config)?;
    let bytes = io::copy(&mut file, &mut stream)?;
    stream.shutdown()?;
    eprintln!("{bytes} bytes are there; {} datagrams were sent", stream.stats().segments_sent);
    // The receiver ends its half too; it would wait for an answer in vain if this process were gone before TIME_WAIT
    // is over.
    io::copy(&mut stream, &mut io::sink())?;
    stream.closed();
    Ok(())
}
