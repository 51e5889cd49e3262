//! Sends one file with the blocking API, without `async`.
//!
//! ```text
//! head -c 32 /dev/urandom | base64 > secret          which both sides need
//! cargo run -p dfcp --example file -- receive 0.0.0.0:4433 secret copy.bin
//! cargo run -p dfcp --example file -- send there.example:4433 secret original.bin 50   at 50 Mbit/s
//! ```
#![expect(clippy::print_stderr, reason = "a program's progress")]

use std::fs::File;
use std::io;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::Duration;

use dfcp::blocking::{Listener, Stream};
use dfcp::{Config, PreSharedKey, Rate};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, secret, path] => {
            let listener = Listener::bind(address.parse()?, shared(secret.as_ref())?)?;
            eprintln!("waiting on {}", listener.local_addr()?);
            receive(&listener, path.as_ref())
        }
        ["send", address, secret, path] => send(address, shared(secret.as_ref())?, path.as_ref(), 100),
        ["send", address, secret, path, rate_mbps] => {
            send(address, shared(secret.as_ref())?, path.as_ref(), rate_mbps.parse()?)
        }
        _ => {
            anyhow::bail!("usage: file receive ADDRESS SECRET PATH | file send HOST:PORT SECRET PATH [MBIT_PER_SECOND]")
        }
    }
}

/// Configuration encrypted with a pre-shared key. The short TIME_WAIT saves a program that ends with its transfer from
/// a wait of half a minute.
pub(crate) fn shared(secret: &Path) -> anyhow::Result<Config> {
    let key = PreSharedKey::from_file_content(&std::fs::read(secret)?)?;
    Ok(Config::pre_shared(key).with_time_wait(Duration::from_secs(2)))
}

/// Receives one file.
pub(crate) fn receive(listener: &Listener, path: &Path) -> anyhow::Result<()> {
    let mut stream = listener.accept()?;
    let mut file = File::create(path)?;
    let bytes = io::copy(&mut stream, &mut file)?;
    file.sync_all()?;
    stream.shutdown()?;
    eprintln!("{bytes} bytes from {}", stream.remote_addr());
    Ok(())
}

/// Sends one file, and returns when the receiver has confirmed all of it.
pub(crate) fn send(server: impl ToSocketAddrs, config: Config, path: &Path, rate_mbps: u64) -> anyhow::Result<()> {
    let rate = Rate::Fixed { rate_bps: rate_mbps.saturating_mul(1_000_000) };
    let mut file = File::open(path)?;
    let mut stream = Stream::connect(server, config.with_rate(rate))?;
    let bytes = io::copy(&mut file, &mut stream)?;
    stream.shutdown()?;
    eprintln!("{bytes} bytes are there; {} datagrams were sent", stream.stats().segments_sent);
    // The receiver ends its half, too. If this process were gone before the end of TIME_WAIT, the receiver would wait
    // for an answer in vain.
    io::copy(&mut stream, &mut io::sink())?;
    stream.closed();
    Ok(())
}
