//! Sends one file, with the blocking twin: no `async` anywhere.
//!
//! ```text
//! head -c 32 /dev/urandom | base64 > secret          which both sides need
//! cargo run --example file -- receive 0.0.0.0:4433 secret copy.bin
//! cargo run --example file -- send 192.0.2.7:4433 secret original.bin 50      at 50 Mbit/s
//! ```
#![expect(clippy::print_stderr, reason = "a program's progress")]

use std::fs::File;
use std::io;
use std::time::Duration;

use dfcp::blocking::{Listener, Stream};
use dfcp::{Config, PreSharedKey, Rate};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, secret, path] => receive(address, secret, path),
        ["send", address, secret, path] => send(address, secret, path, "100"),
        ["send", address, secret, path, rate_mbps] => send(address, secret, path, rate_mbps),
        _ => anyhow::bail!("usage: file receive ADDRESS SECRET PATH | file send ADDRESS SECRET PATH [MBIT_PER_SECOND]"),
    }
}

/// Sealed with a key which both sides have.
fn shared(secret: &str) -> anyhow::Result<Config> {
    Ok(Config::pre_shared(PreSharedKey::from_file_content(&std::fs::read(secret)?)?))
}

fn receive(address: &str, secret: &str, path: &str) -> anyhow::Result<()> {
    let listener = Listener::bind(address.parse()?, shared(secret)?)?;
    eprintln!("waiting on {}", listener.local_addr()?);
    let mut stream = listener.accept()?;
    let mut file = File::create(path)?;
    let bytes = io::copy(&mut stream, &mut file)?;
    file.sync_all()?;
    stream.shutdown()?;
    eprintln!("{bytes} bytes from {}", stream.remote_addr());
    Ok(())
}

fn send(address: &str, secret: &str, path: &str, rate_mbps: &str) -> anyhow::Result<()> {
    let rate_bps = rate_mbps.parse::<u64>()?.saturating_mul(1_000_000);
    let mut file = File::open(path)?;
    // A program which ends with its transfer does not want to wait for half a minute in TIME_WAIT.
    let time_wait = Duration::from_secs(2);
    let config = shared(secret)?.with_rate(Rate::Fixed { rate_bps }).with_time_wait(time_wait);
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
