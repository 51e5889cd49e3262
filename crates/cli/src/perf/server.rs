//! `dfcp perf server`.

use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::wire::Request;
use super::{Measured, sink, source};
use crate::admission::{Admission, Ways};
use crate::args::PerfServerArgs;
use crate::limits::{CLOSE_WAIT_MAX, DATA_BYTES_MAX, SENDER_SILENCE_MAX};
use crate::serving::{Serving, serve};
use crate::stats::StatsLine;
use crate::stop::Stop;
use crate::transfer::error::{ProtocolError, TransferError};
use crate::transfer::frame::{Service, kind, read_frame, read_preamble};
use crate::transport::{Handle, Transport};
use crate::{net, output};

/// Serves measurements until interrupted, or with `--once` one of a client who is admitted.
///
/// # Errors
/// Nobody could be admitted; the address cannot be used; with `--once` also a measurement which broke.
pub async fn run(args: PerfServerArgs) -> anyhow::Result<()> {
    let ways = Ways::prepare(&args.admission, &args.path, Ways::on_terminal())?;
    let server = net::listen(&args.listen, &args.path, ways.as_ref()).await?;
    let mut stats = StatsLine::new(server.endpoint(), args.json);
    net::announce(&args.path, args.json);
    let address = server.local_address()?;
    if args.json {
        output::json(&json!({ "event": "listening", "address": address }));
    } else {
        output::note(&format!("listening on {address}; Ctrl-C ends"));
    }
    let open = |ways| Admission::open(ways, address, Service::Perf, args.once, args.json);
    let admission = ways.map(open).transpose()?;
    let serving = Serving { service: Service::Perf, peers_max: args.max_clients, once: args.once };
    let json = args.json;
    let measured = stats
        .during(serve(server, serving, admission, &Stop::never(), move |connection, peer| async move {
            let outcome = session(connection).await;
            report(&peer, &outcome, json);
            outcome.is_ok()
        }))
        .await?;
    anyhow::ensure!(measured, "the measurement broke; see the message above and start it again");
    Ok(())
}

/// One client: reads what it wants and does it.
///
/// # Errors
/// The connection broke or the client left the protocol.
pub async fn session<T: Transport>(connection: T) -> Result<(Request, Measured), TransferError> {
    let handle = Handle::new(connection);
    let mut reader = BufReader::with_capacity(DATA_BYTES_MAX, handle.clone());
    let mut writer = handle.clone();
    writer.write_all(&Service::Perf.preamble()).await.map_err(TransferError::Connection)?;
    writer.flush().await.map_err(TransferError::Connection)?;
    let silent = |_| TransferError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    if let Err(error) = timeout(SENDER_SILENCE_MAX, read_preamble(&mut reader, Service::Perf)).await.map_err(silent)? {
        // An orderly end lets a client of another version read ours and say so. One that is gone needs no telling.
        let _ = timeout(CLOSE_WAIT_MAX, writer.shutdown()).await;
        return Err(error);
    }
    let mut body = Vec::new();
    let frame_kind = timeout(SENDER_SILENCE_MAX, read_frame(&mut reader, &mut body)).await.map_err(silent)??;
    let request = match frame_kind {
        Some(kind::PERF_REQUEST) => Request::decode(&body)?,
        Some(other) => return Err(ProtocolError::UnknownFrame { kind: other }.into()),
        None => return Err(TransferError::PeerClosed),
    };
    let measured = if request.reverse {
        source::source(&handle, reader, &request, |_| {}).await?
    } else {
        sink::sink(&handle, reader, request.duration, |_| {}).await?
    };
    Ok((request, measured))
}

fn report(peer: &str, outcome: &Result<(Request, Measured), TransferError>, json: bool) {
    match outcome {
        Ok((request, measured)) if json => output::json(&json!({
            "event": "measured", "peer": peer, "reverse": request.reverse, "measured": measured,
            "goodput_bps": measured.goodput_bps(), "waste": measured.path.and_then(|path| path.waste()),
        })),
        Ok((request, measured)) => {
            let direction = if request.reverse { "sent to" } else { "received from" };
            output::line(&format!("{direction} {peer}: {}", measured.describe(true).trim_start()));
            if let Some(advice) = measured.path.and_then(|path| path.advice()) {
                output::line(&advice);
            }
        }
        Err(error) if json => {
            output::json(&json!({ "event": "error", "peer": peer, "message": error.to_string() }));
        }
        Err(error) => output::note(&format!("{peer}: {error}")),
    }
}
