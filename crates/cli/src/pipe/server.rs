//! Listening end of a pipe: `dfcp pipe serve`.

use std::sync::Arc;
use std::time::Duration;

use dfcp_files::limits::{CLOSE_WAIT_MAX, SENDER_SILENCE_MAX};
use dfcp_files::reading::{read_frame, read_preamble};
use dfcp_files::transport::{Handle, Transport};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::frame::{Service, kind};
use dfcp_framing::limits::DATA_BYTES_MAX;
use dfcp_framing::messages::Worth;
use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::args::PipeServeArgs;
use super::carry::{Carried, Carrying, carry};
use super::local::Local;
use super::release::Order;
use crate::admission::{Admission, Ways};
use crate::monitor::{self, Monitor};
use crate::qlog::Side;
use crate::serving::{Serving, ServingEnd, serve};
use crate::session_error::SessionError;
use crate::stats::StatsLine;
use crate::stop::Stop;
use crate::{listening, net, output};

/// Serves pipes until `stop`, or one pipe with `--once`.
pub(super) async fn run(mut args: PipeServeArgs, stop: Stop) -> anyhow::Result<()> {
    args.path.messages = true;
    anyhow::ensure!(!args.path.insecure_classic, "a classic connection has no messages: leave --insecure-classic away");
    // Detect an unusable output address before a caller connects.
    Local::call(&args.output).await?;
    let ways = Ways::prepare(&args.admission, &args.path, Ways::on_terminal())?;
    args.path.begin_recording(Side::Server)?;
    let server = net::listen(&args.listen, &args.path, ways.as_ref()).await?;
    let address = server.local_address()?;
    let monitor = Monitor::open(Service::Pipe, &args.audit, address)?;
    let mut stats = StatsLine::new(server.endpoint(), args.json);
    let _metrics = monitor.serve_metrics(&args.metrics, server.endpoint(), args.json).await?;
    net::announce(&args.path, args.json);
    let until =
        if args.once { "until one pipe has ended" } else { "until Ctrl-C (with --once, until one pipe has ended)" };
    let doing = format!(", handing on to {} {until}", args.output);
    let call = |place: &str| listening::call(Service::Pipe, place);
    let reachable = listening::announce(address, &doing, call, args.json, json!({ "output": args.output }));
    let open = |ways| Admission::open(ways, reachable.first(), Service::Pipe, args.once, args.json);
    let admission = ways.map(open).transpose()?;
    let serving = Serving {
        service: Service::Pipe,
        peers_max: args.max_pipes,
        once: args.once,
        returns_max: Duration::ZERO,
        json: args.json,
    };
    let (json, order, output, to_sessions) = (args.json, args.order, Arc::new(args.output), stop.clone());
    let serving = serve(server, serving, admission, &monitor, &stop, move |connection, told| {
        let (output, stop) = (Arc::clone(&output), to_sessions.clone());
        async move {
            let outcome = session(connection, (told.peer(), &output), (order, json), stop).await;
            match &outcome {
                Ok(carried) => told.end(
                    monitor::Outcome::Complete,
                    json!({ "sent": carried.sent, "received": carried.received, "overtaken": carried.overtaken, "refused": carried.refused }),
                ),
                Err(error) => told.fail(error),
            }
            report(told.peer(), &outcome, json);
            outcome.is_ok()
        }
    });
    match stats.during(serving).await? {
        ServingEnd::Once(carried) => {
            anyhow::ensure!(carried, "the pipe broke; see the message above and start it again");
            Ok(())
        }
        // This is an orderly end, even with open pipes.
        ServingEnd::Stopped { .. } => Ok(()),
    }
}

/// Serves one pipe.
pub(super) async fn session<T: Transport>(
    connection: T,
    (peer, output): (&str, &str),
    (order, json): (Order, bool),
    stop: Stop,
) -> Result<Carried, SessionError> {
    let handle = Handle::new(connection);
    let mut reader = BufReader::with_capacity(DATA_BYTES_MAX, handle.clone());
    let mut writer = handle.clone();
    writer.write_all(&Service::Pipe.preamble()).await.map_err(SessionError::Connection)?;
    writer.flush().await.map_err(SessionError::Connection)?;
    let silent = |_| SessionError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    if let Err(error) = timeout(SENDER_SILENCE_MAX, read_preamble(&mut reader, Service::Pipe)).await.map_err(silent)? {
        // An orderly close lets a caller of another version read this preamble and report it.
        let _ = timeout(CLOSE_WAIT_MAX, writer.shutdown()).await;
        return Err(error.into());
    }
    let mut body = Vec::new();
    let worth = match timeout(SENDER_SILENCE_MAX, read_frame(&mut reader, &mut body)).await.map_err(silent)?? {
        Some(kind::PIPE_OPEN) => Worth::decode_pipe(&body)?,
        Some(other) => return Err(ProtocolError::UnknownFrame { kind: other }.into()),
        None => return Err(SessionError::PeerClosed),
    };
    let local = Local::call(output).await.map_err(|error| SessionError::Unsuited(format!("{error:#}")))?;
    let carrying = Carrying { worth, order, json, peer: peer.to_owned() };
    carry(handle, reader, Arc::new(local), &carrying, stop).await
}

fn report(peer: &str, outcome: &Result<Carried, SessionError>, json: bool) {
    match outcome {
        Ok(carried) => carried.tell(peer, json),
        Err(error) if json => {
            output::json(&json!({ "event": "error", "peer": peer, "message": error.to_string() }));
        }
        Err(error) => output::always(&format!("{peer}: {error}")),
    }
}
