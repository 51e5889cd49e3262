//! Many idle connections, and their memory.

use std::sync::Arc;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::rounds::exchange_byte;
use super::stay;
use crate::contenders::{Dial, Listen};
use crate::limits::{OPENING_MAX, SETTLE};
use crate::meter::resident_bytes;
use crate::protocol::{Memory, Order, Report};

/// Server's end: opens one connection that does not count, then `connections` more, each of which has echoed a byte.
/// Measures on request, and keeps them open.
pub(super) async fn hold<L: Listen>(
    listener: L,
    connections: usize,
    mut orders: mpsc::Receiver<Order>,
) -> anyhow::Result<Memory> {
    let mut held = Vec::with_capacity(connections + 1);
    held.push(answer::<L>(listener.accept().await?).await?);
    let before_bytes = resident_bytes()?;
    let mut answering = JoinSet::new();
    for _ in 0..connections {
        answering.spawn(answer::<L>(listener.accept().await?));
    }
    while let Some(stream) = answering.join_next().await {
        held.push(stream.context("a task did not finish")??);
    }
    let Some(Order::Report) = orders.recv().await else { anyhow::bail!("nobody asked for the memory") };
    let memory = Memory { before_bytes, after_bytes: resident_bytes()?, connections };
    keep((listener, held));
    Ok(memory)
}

async fn answer<L: Listen>(incoming: L::Incoming) -> anyhow::Result<L::Stream> {
    let mut stream = L::establish(incoming).await?;
    let mut byte = [0];
    stream.read_exact(&mut byte).await?;
    stream.write_all(&byte).await?;
    stream.flush().await?;
    Ok(stream)
}

/// Client's end: opens the connections, waits until no data is in flight, and measures its own memory.
pub(super) async fn open<D: Dial>(dialer: D, connections: usize) -> anyhow::Result<()> {
    let dialer = Arc::new(dialer);
    let mut held = vec![open_one(Arc::clone(&dialer)).await?];
    tokio::time::sleep(SETTLE).await;
    let before_bytes = resident_bytes()?;
    let mut opening = JoinSet::new();
    for _ in 0..connections {
        if opening.len() >= OPENING_MAX
            && let Some(stream) = opening.join_next().await
        {
            held.push(stream.context("a task did not finish")??);
        }
        opening.spawn(open_one(Arc::clone(&dialer)));
    }
    while let Some(stream) = opening.join_next().await {
        held.push(stream.context("a task did not finish")??);
    }
    tokio::time::sleep(SETTLE).await;
    let memory = Memory { before_bytes, after_bytes: resident_bytes()?, connections };
    keep((dialer, held));
    stay(Report::Memory(memory)).await
}

async fn open_one<D: Dial>(dialer: Arc<D>) -> anyhow::Result<D::Stream> {
    let mut stream = dialer.dial().await?;
    exchange_byte(&mut stream).await.context("a connection broke")?;
    Ok(stream)
}

/// Keeps a value until the process ends.
fn keep<T: Send + 'static>(what: T) {
    tokio::spawn(async move {
        let _kept = what;
        std::future::pending::<()>().await;
    });
}
