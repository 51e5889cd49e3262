//! How fast one connection runs over loopback: `cargo run --release --example throughput -- --seconds 3`.
//!
//! Both ends run in this process, so the codec works twice; nothing but the CPU limits the rate.
#![expect(clippy::print_stdout, reason = "a program's result")]

use std::time::{Duration, Instant};

use dfcp::{Config, Listener, PeerKey, Rate, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What is written at once.
const CHUNK_BYTES: usize = 256 << 10;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seconds, unsealed): (u64, bool) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => (3, false),
        ["--unsealed"] => (3, true),
        ["--seconds", seconds] => (seconds.parse()?, false),
        ["--seconds", seconds, "--unsealed"] => (seconds.parse()?, true),
        _ => anyhow::bail!("usage: throughput [--seconds N] [--unsealed]"),
    };
    let config = if unsealed { Config::danger_unsealed() } else { Config::sealed(PeerKey::Any) };
    let config = Config { rate: Rate::Line, ..config };
    let listener = Listener::bind("127.0.0.1:0".parse()?, config.clone())?;
    let address = listener.local_addr()?;
    let receiver = tokio::spawn(async move {
        let mut stream = listener.accept().await?;
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut total = 0_u64;
        loop {
            match stream.read(&mut buffer).await? {
                0 => break,
                count => total += count as u64,
            }
        }
        stream.shutdown().await?;
        anyhow::Ok((total, stream.stats()))
    });

    let mut stream = Stream::connect(address, config).await?;
    let chunk = vec![0x5a; CHUNK_BYTES];
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        stream.write_all(&chunk).await?;
    }
    stream.shutdown().await?;
    let elapsed = start.elapsed();
    let (total, received) = receiver.await??;
    let sent = stream.stats();
    println!("{:.2} Gbit/s of application data", total as f64 * 8.0 / elapsed.as_secs_f64() / 1e9);
    println!("sent {:?}, loss estimate {:.4}, rtt {:?}", sent.sent, sent.loss, sent.rtt);
    println!("received {:?}, dropped {}", received.received, received.segments_dropped);
    Ok(())
}
