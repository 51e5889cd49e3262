//! Both ends of flows at full speed.

use std::sync::Arc;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use super::{say, server};
use crate::contenders::udp::{Blaster, RECEIVER_COUNTERS, SENDER_COUNTERS};
use crate::contenders::{Contender, Dial, Duplex, Listen};
use crate::limits;
use crate::meter::Meter;
use crate::protocol::{Job, Message, Role, Window};

/// Limit of bytes read or written at a time by all flows of an end together, so that slow flows update their counters
/// often enough.
const CHUNKS_BYTES_MAX: usize = 16 << 20;

/// Accepts `flows` flows, reads them, and measures.
pub(super) async fn receive<L: Listen>(
    listener: L,
    flows: usize,
    lead_in: f64,
    seconds: f64,
) -> anyhow::Result<Window> {
    let meter = Arc::new(Meter::new(flows, L::Stream::COUNTERS));
    let counted = Arc::clone(&meter);
    let accepting: JoinHandle<anyhow::Result<()>> = tokio::spawn(async move {
        let mut reading = JoinSet::new();
        for flow in 0..flows {
            let incoming = listener.accept().await?;
            let meter = Arc::clone(&counted);
            reading.spawn(async move { read(L::establish(incoming).await?, flow, &meter, chunk_bytes(flows)).await });
        }
        ended(&mut reading).await
    });
    measure(&meter, lead_in, seconds, accepting).await
}

/// Opens `flows` flows, then writes to all of them, and measures.
pub(super) async fn send<D: Dial>(
    dialer: D,
    flows: usize,
    write_bytes: usize,
    lead_in: f64,
    seconds: f64,
) -> anyhow::Result<Window> {
    let streams = open(Arc::new(dialer), flows).await?;
    let meter = Arc::new(Meter::new(flows, D::Stream::COUNTERS));
    let chunk: Arc<[u8]> = vec![0x5a; write_bytes.min(chunk_bytes(flows))].into();
    let mut writing = JoinSet::new();
    for (flow, stream) in streams.into_iter().enumerate() {
        let (meter, chunk) = (Arc::clone(&meter), Arc::clone(&chunk));
        writing.spawn(async move { write(stream, flow, &meter, &chunk).await });
    }
    let writing = tokio::spawn(async move { ended(&mut writing).await });
    measure(&meter, lead_in, seconds, writing).await
}

/// Opens `connections` connections, a few at a time. Each has carried one byte to the server when it is returned.
pub(super) async fn open<D: Dial>(dialer: Arc<D>, connections: usize) -> anyhow::Result<Vec<D::Stream>> {
    let mut opened = Vec::with_capacity(connections);
    let mut opening = JoinSet::new();
    for _ in 0..connections {
        if opening.len() >= limits::OPENING_MAX {
            opened.extend(next(&mut opening).await?);
        }
        let dialer = Arc::clone(&dialer);
        opening.spawn(async move {
            let mut stream = dialer.dial().await?;
            stream.write_all(&[0]).await?;
            stream.flush().await?;
            anyhow::Ok(stream)
        });
    }
    while let Some(stream) = next(&mut opening).await? {
        opened.push(stream);
    }
    // The connections use the dialer's socket, so it must outlive them.
    tokio::spawn(async move {
        let _dialer = dialer;
        std::future::pending::<()>().await;
    });
    Ok(opened)
}

async fn next<T: 'static>(tasks: &mut JoinSet<anyhow::Result<T>>) -> anyhow::Result<Option<T>> {
    match tasks.join_next().await {
        None => Ok(None),
        Some(result) => Ok(Some(result.context("a task did not finish")??)),
    }
}

/// Waits for a flow to end, which is an error during the measurement.
async fn ended(flows: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    next(flows).await?;
    Ok(())
}

/// Measures while the work continues.
async fn measure(
    meter: &Meter,
    lead_in: f64,
    seconds: f64,
    work: JoinHandle<anyhow::Result<()>>,
) -> anyhow::Result<Window> {
    tokio::select! {
        window = meter.measure(lead_in, seconds) => window,
        result = work => {
            result.context("the flows' task did not finish")??;
            anyhow::bail!("a flow ended while it was measured")
        }
    }
}

/// Maximum number of bytes that one flow reads or writes at a time.
fn chunk_bytes(flows: usize) -> usize {
    limits::CHUNK_BYTES.min(CHUNKS_BYTES_MAX / flows.max(1))
}

async fn read(mut stream: impl Duplex, flow: usize, meter: &Meter, chunk_bytes: usize) -> anyhow::Result<()> {
    let mut buffer = vec![0; chunk_bytes];
    loop {
        let bytes = stream.read(&mut buffer).await.context("a flow broke at the receiver")?;
        if bytes == 0 {
            return Ok(());
        }
        meter.set_counters(flow, stream.counters());
        meter.add_bytes(flow, bytes);
    }
}

async fn write(mut stream: impl Duplex, flow: usize, meter: &Meter, chunk: &[u8]) -> anyhow::Result<()> {
    loop {
        stream.write_all(chunk).await.context("a flow broke at the sender")?;
        meter.set_counters(flow, stream.counters());
        meter.add_bytes(flow, chunk.len());
    }
}

/// Runs one end of bare UDP in a thread of its own.
pub(super) async fn blast(
    job: &Job,
    role: Role,
    rate_bps: Option<u64>,
    lead_in: f64,
    seconds: f64,
) -> anyhow::Result<Window> {
    let names = if role == Role::Server { RECEIVER_COUNTERS } else { SENDER_COUNTERS };
    let meter = Arc::new(Meter::new(1, names));
    let counted = Arc::clone(&meter);
    let work = match role {
        Role::Server => {
            let (blaster, ready) = Blaster::receiver(job.ip, job.contender == Contender::UdpAes)?;
            say(&Message::Ready(ready))?;
            spawn_blocking(move || blaster.receive(&counted))
        }
        Role::Client => {
            let server = server(job)?;
            let (blaster, address) = (Blaster::sender(job.ip, server)?, server.address);
            spawn_blocking(move || blaster.send(address, rate_bps, &counted))
        }
    };
    measure(&meter, lead_in, seconds, work).await
}
