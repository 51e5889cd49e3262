//! Connections that are opened, carry one byte in each direction, and are closed; and the echo server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::contenders::{Dial, Duplex, Listen};
use crate::limits::MESSAGE_BYTES;
use crate::protocol::Rounds;

/// Echoes all data, on every connection, until the process ends.
pub(super) async fn echo<L: Listen>(listener: L) -> anyhow::Result<()> {
    loop {
        let incoming = listener.accept().await?;
        tokio::spawn(async move {
            // A connection that the client closes abruptly ends with an error here, as intended.
            if let Ok(stream) = L::establish(incoming).await {
                let _ = echo_stream(stream).await;
            }
        });
    }
}

async fn echo_stream(mut stream: impl Duplex) -> anyhow::Result<()> {
    let mut buffer = [0; MESSAGE_BYTES];
    loop {
        let bytes = stream.read(&mut buffer).await?;
        if bytes == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..bytes]).await?;
        stream.flush().await?;
    }
}

/// Opens and closes connections, several at a time, and counts those whose byte came back.
pub(super) async fn open_and_close<D: Dial>(dialer: D, at_a_time: usize, seconds: f64) -> anyhow::Result<Rounds> {
    let dialer = Arc::new(dialer);
    open_once(&*dialer).await?;
    let begin = Instant::now();
    let until = begin + Duration::from_secs_f64(seconds);
    let mut workers = JoinSet::new();
    for _ in 0..at_a_time {
        let dialer = Arc::clone(&dialer);
        workers.spawn(async move {
            let mut connections = 0_u64;
            while connections == 0 || Instant::now() < until {
                open_once(&*dialer).await?;
                connections += 1;
            }
            anyhow::Ok(connections)
        });
    }
    let mut connections = 0;
    while let Some(worker) = workers.join_next().await {
        connections += worker.context("a task did not finish")??;
    }
    Ok(Rounds { connections, seconds: begin.elapsed().as_secs_f64() })
}

async fn open_once<D: Dial>(dialer: &D) -> anyhow::Result<()> {
    let mut stream = dialer.dial().await?;
    exchange_byte(&mut stream).await.context("a connection broke")?;
    stream.close();
    Ok(())
}

/// Sends one byte and waits for its echo.
pub(super) async fn exchange_byte(stream: &mut impl Duplex) -> std::io::Result<()> {
    stream.write_all(&[0]).await?;
    stream.flush().await?;
    stream.read_exact(&mut [0]).await?;
    Ok(())
}
