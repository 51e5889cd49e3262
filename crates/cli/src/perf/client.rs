//! `dfcp perf client`.

use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::wire::Request;
use super::{Measured, flow};
use crate::args::PerfClientArgs;
use crate::limits::{DATA_BYTES_MAX, RECEIVER_SILENCE_MAX};
use crate::transfer::error::TransferError;
use crate::transfer::frame::{Service, read_preamble};
use crate::transport::{Handle, Transport};
use crate::{net, output};

/// Shortest interval that gets a line, s.
const INTERVAL_S: f64 = 1.0;

/// Runs one measurement and prints it.
///
/// # Errors
/// The server cannot be reached, or the measurement broke.
pub async fn run(args: PerfClientArgs) -> anyhow::Result<()> {
    net::announce(&args.path, args.json);
    let (connection, peer) = net::connect(&args.server, &args.path).await?;
    let request = Request { reverse: args.reverse, duration: args.duration, bytes_max: args.bytes };
    let mut intervals = Intervals::default();
    let json = args.json;
    let measured = session(connection, &request, |measured| {
        if let Some(text) = intervals.advance(measured)
            && !json
        {
            output::line(&text);
        }
    })
    .await?;
    if json {
        output::json(&summary(&peer, &request, &measured, &intervals.finished));
    } else {
        let overhead = overhead(&request, &measured)
            .map_or_else(String::new, |overhead| format!("  overhead {:.1} %", 100.0 * overhead));
        output::line(&format!("total {:6.1} s  {}{overhead}", measured.seconds, measured.describe()));
    }
    Ok(())
}

/// The part after connecting; `on_count` hears the counts as they come.
///
/// # Errors
/// The connection broke or the server left the protocol.
pub async fn session<T: Transport>(
    connection: T,
    request: &Request,
    on_count: impl FnMut(&Measured),
) -> Result<Measured, TransferError> {
    let handle = Handle::new(connection);
    let mut reader = BufReader::with_capacity(DATA_BYTES_MAX, handle.clone());
    let mut opening = Service::Perf.preamble().to_vec();
    request.encode(&mut opening);
    let mut writer = handle.clone();
    writer.write_all(&opening).await.map_err(TransferError::Connection)?;
    writer.flush().await.map_err(TransferError::Connection)?;
    timeout(RECEIVER_SILENCE_MAX, read_preamble(&mut reader, Service::Perf))
        .await
        .map_err(|_| TransferError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() })??;
    if request.reverse {
        flow::sink(&handle, reader, on_count).await
    } else {
        flow::source(&handle, reader, request, on_count).await
    }
}

/// See [`crate::transport::PathSample::overhead`]. None in reverse: the server took its figures when it wrote its last
/// data, of which its send buffer still held a part.
fn overhead(request: &Request, measured: &Measured) -> Option<f64> {
    measured.path.filter(|_| !request.reverse).map(|path| path.overhead(measured.bytes))
}

fn summary(peer: &str, request: &Request, measured: &Measured, intervals: &[Measured]) -> serde_json::Value {
    let intervals: Vec<_> = intervals
        .iter()
        .map(|part| json!({ "bytes": part.bytes, "seconds": part.seconds, "goodput_bps": part.goodput_bps(), "path": part.path }))
        .collect();
    json!({
        "peer": peer, "reverse": request.reverse, "bytes": measured.bytes, "seconds": measured.seconds,
        "goodput_bps": measured.goodput_bps(), "path": measured.path,
        "overhead": overhead(request, measured), "intervals": intervals,
    })
}

/// Cuts a measurement into intervals of about a second. At most one per second of `PERF_DURATION_MAX` is kept.
#[derive(Debug, Default)]
struct Intervals {
    last: Measured,
    finished: Vec<Measured>,
}

impl Intervals {
    fn advance(&mut self, now: &Measured) -> Option<String> {
        let part = now.since(&self.last);
        if part.seconds < INTERVAL_S {
            return None;
        }
        let text = format!("{:6.1} s to {:6.1} s  {}", self.last.seconds, now.seconds, part.describe());
        self.last = *now;
        if self.finished.len() < crate::limits::PERF_INTERVALS_MAX {
            self.finished.push(part);
        }
        Some(text)
    }
}
