//! `dfcp perf server`: serves measurements to clients.

use std::sync::Arc;
use std::time::Duration;

use dfcp_files::limits::{CLOSE_WAIT_MAX, SENDER_SILENCE_MAX};
use dfcp_files::reading::{read_frame, read_preamble};
use dfcp_files::transport::{Handle, Transport};
use dfcp_framing::error::{Failure, FailureCode, ProtocolError};
use dfcp_framing::files::ToSender;
use dfcp_framing::frame::{Service, kind, with_header};
use dfcp_framing::limits::{DATA_BYTES_MAX, PERF_STREAMS_MAX};
use dfcp_framing::messages;
use dfcp_framing::perf::{Direction, Request};
use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::bidir::{self, Both};
use super::messages as of_messages;
use super::{Measured, Side, sink, source, streams_for};
use crate::admission::{Admission, Ways};
use crate::args::{Parameters, PerfServerArgs};
use crate::connection_text::rate_advice;
use crate::messages::Figures;
use crate::monitor::{self, Monitor};
use crate::serving::{Serving, ServingEnd, serve};
use crate::session_error::SessionError;
use crate::stats::StatsLine;
use crate::stop::{Interrupted, Stop};
use crate::{listening, net, output, qlog};

/// Serves measurements until interrupted, or one measurement with `--once`.
///
/// # Errors
/// Fails if no client could be admitted or the address cannot be used; with `--once`, also if the measurement breaks.
pub async fn run(mut args: PerfServerArgs, stop: Stop) -> anyhow::Result<()> {
    args.path.parameters = args.parameters.parameters()?;
    args.path.peer_streams = PERF_STREAMS_MAX;
    args.path.messages = !args.path.insecure_classic;
    let ways = Ways::prepare(&args.admission, &args.path, Ways::on_terminal())?;
    args.path.begin_recording(qlog::Side::Server)?;
    let server = net::listen(&args.listen, &args.path, ways.as_ref()).await?;
    let address = server.local_address()?;
    let monitor = Monitor::open(Service::Perf, &args.audit, address)?;
    let mut stats = StatsLine::new(server.endpoint(), args.json);
    let _metrics = monitor.serve_metrics(&args.metrics, server.endpoint(), args.json).await?;
    net::announce(&args.path, args.json);
    let until =
        if args.once { " until one client is done" } else { " until Ctrl-C (with --once, until one client is done)" };
    let call = |place: &str| listening::call(Service::Perf, place);
    let more = json!({ "parameters": args.path.parameters.to_json() });
    let reachable = listening::announce(address, until, call, args.json, more);
    let open = |ways| Admission::open(ways, reachable.first(), Service::Perf, args.once, args.json);
    let admission = ways.map(open).transpose()?;
    let serving = Serving {
        service: Service::Perf,
        peers_max: args.max_clients,
        once: args.once,
        returns_max: Duration::ZERO,
        json: args.json,
    };
    let (json, parameters) = (args.json, Arc::new(args.path.parameters));
    let to_sessions = stop.clone();
    let served = stats
        .during(serve(server, serving, admission, &monitor, &stop, move |connection, told| {
            let (parameters, stop) = (Arc::clone(&parameters), to_sessions.clone());
            async move {
                let Some(outcome) = stop.cut(session(connection, &parameters)).await else { return false };
                record(&told, &outcome);
                report(told.peer(), &outcome, json);
                outcome.is_ok()
            }
        }))
        .await?;
    let sentence = match served {
        ServingEnd::Once(measured) => {
            anyhow::ensure!(measured, "the measurement broke; see the message above and start it again");
            return Ok(());
        }
        ServingEnd::Stopped { under_way: 0 } if !args.once => return Ok(()),
        ServingEnd::Stopped { under_way: 0 } => "interrupted before a client came: nothing was measured",
        ServingEnd::Stopped { .. } => "interrupted during a measurement; start this again, and measure again",
    };
    Err(Interrupted(sentence.to_owned()).into())
}

/// Service that a client used, with its result.
#[derive(Debug)]
pub enum Outcome {
    /// One-way data.
    Data(Request, Box<Measured>),
    /// Bidirectional data.
    Both(Request, Box<Both>),
    /// Messages.
    Messages(messages::Request, Box<Figures>),
}

/// Serves one client: reads its request and fulfils it, if `parameters` of the server permit.
///
/// # Errors
/// Fails if the connection breaks, the client violates the protocol, or the request needs other server parameters.
pub async fn session<T: Transport>(connection: T, parameters: &Parameters) -> Result<Outcome, SessionError> {
    let handle = Handle::new(connection);
    let mut reader = BufReader::with_capacity(DATA_BYTES_MAX, handle.clone());
    let silent = |_| SessionError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    // Send the answer together with the preamble: with `Coding` off, the client can decode only the first block.
    let mut answer = Service::Perf.preamble().to_vec();
    if let Err(error) = timeout(SENDER_SILENCE_MAX, read_preamble(&mut reader, Service::Perf)).await.map_err(silent)? {
        // An orderly close lets a client of another version read this preamble and report it.
        close_with(handle, &answer).await;
        return Err(error.into());
    }
    let mut body = Vec::new();
    let frame_kind = timeout(SENDER_SILENCE_MAX, read_frame(&mut reader, &mut body)).await.map_err(silent)??;
    let request = match frame_kind {
        Some(kind::PERF_REQUEST) => Request::decode(&body)?,
        Some(kind::PERF_MESSAGES) => {
            let request = messages::Request::decode(&body)?;
            return serve_messages(handle, reader, request, answer).await;
        }
        Some(other) => return Err(ProtocolError::UnknownFrame { kind: other }.into()),
        None => return Err(SessionError::PeerClosed),
    };
    let prepared = prepare(&handle, &request, parameters).and_then(|()| {
        // Accept streams before the client can open them; the client waits for this preamble.
        streams_for(&handle, &request).map_err(|error| error.to_string())
    });
    let streams = match prepared {
        Ok(streams) => streams,
        Err(why) => {
            ToSender::Refused(Failure::new(FailureCode::Unsuited, why.clone())).encode(&mut answer);
            close_with(handle, &answer).await;
            return Err(SessionError::Unsuited(why));
        }
    };
    if request.raw && request.is_reverse() {
        with_header(kind::PERF_RAW, &mut answer, |_| {});
    }
    let mut writer = handle.clone();
    writer.write_all(&answer).await.map_err(SessionError::Connection)?;
    writer.flush().await.map_err(SessionError::Connection)?;
    let measured = match (request.direction, streams) {
        (Direction::Both, Some(streams)) => {
            let both = bidir::measure(&handle, reader, (&request, Side::Server), streams, |_| {}).await?;
            return Ok(Outcome::Both(request, Box::new(both)));
        }
        (Direction::ToClient, streams) => source::source(&handle, reader, &request, streams, |_| {}).await?,
        (_, streams) => sink::sink(&handle, reader, &request, streams, |_| {}).await?,
    };
    Ok(Outcome::Data(request, Box::new(measured)))
}

/// Serves one client that requests messages.
async fn serve_messages<T: Transport>(
    handle: Handle<T>,
    reader: BufReader<Handle<T>>,
    request: messages::Request,
    mut answer: Vec<u8>,
) -> Result<Outcome, SessionError> {
    if let Err(error) = of_messages::session(&handle) {
        ToSender::Refused(Failure::new(FailureCode::Unsuited, error.to_string())).encode(&mut answer);
        close_with(handle, &answer).await;
        return Err(error);
    }
    let mut writer = handle.clone();
    writer.write_all(&answer).await.map_err(SessionError::Connection)?;
    writer.flush().await.map_err(SessionError::Connection)?;
    let figures = of_messages::measure(&handle, reader, (&request, Side::Server), |_| {}).await?;
    Ok(Outcome::Messages(request, Box::new(figures)))
}

/// Writes the last answer and closes this direction orderly. Errors are ignored: they mean that the client is gone.
async fn close_with<T: Transport>(mut writer: Handle<T>, answer: &[u8]) {
    let farewell = async {
        writer.write_all(answer).await?;
        writer.shutdown().await
    };
    let _ = timeout(CLOSE_WAIT_MAX, farewell).await;
}

/// Prepares the connection for the request, or returns why this server cannot serve it, with advice. Raw data is never decoded, because the
/// client's *Coding* is unknown here.
fn prepare<T: Transport>(handle: &Handle<T>, request: &Request, parameters: &Parameters) -> Result<(), String> {
    let unsuited = |why: &str| Err(why.to_owned());
    match request {
        Request { raw, .. } if parameters.is_coding_off() && !(*raw && request.is_reverse()) => unsuited(
            "the server was started with --set coding=0, so that nothing it says but data gets through: give the client \
             --reverse --set decoding=0",
        ),
        Request { raw: false, .. } if parameters.is_decoding_off() => unsuited(
            "the server was started with --set decoding=0 and counts data without decoding it: give the client --set \
             decoding=0, too",
        ),
        Request { raw: true, direction: Direction::ToServer, .. } => {
            handle.stop_decoding().map_err(|error| SessionError::AlwaysDecoded(error).to_string())
        }
        _ => Ok(()),
    }
}

/// Writes a record to the audit log.
fn record(told: &monitor::Session, outcome: &Result<Outcome, SessionError>) {
    match outcome {
        Ok(Outcome::Data(request, measured)) => told.end(
            monitor::Outcome::Complete,
            json!({ "reverse": request.is_reverse(), "bytes": measured.bytes, "goodput_bps": measured.goodput_bps() }),
        ),
        Ok(Outcome::Both(_, both)) => {
            let of = |measured: &Measured| json!({ "bytes": measured.bytes, "goodput_bps": measured.goodput_bps() });
            let (to_server, to_client) = (of(&both.to_server), of(&both.to_client));
            let figures = json!({ "bidir": true, "to_server": to_server, "to_client": to_client });
            told.end(monitor::Outcome::Complete, figures);
        }
        Ok(Outcome::Messages(request, figures)) => {
            told.end(monitor::Outcome::Complete, json!({ "reverse": request.reverse, "messages": figures }));
        }
        Err(error) => told.fail(error),
    }
}

fn report(peer: &str, outcome: &Result<Outcome, SessionError>, json: bool) {
    let direction = |reverse| if reverse { "sent to" } else { "received from" };
    match outcome {
        Ok(Outcome::Data(request, measured)) if json => output::json(&json!({
            "event": "measured", "peer": peer, "reverse": request.is_reverse(), "raw": request.raw, "streams": request.streams.max(1), "measured": measured,
            "goodput_bps": measured.goodput_bps(), "waste": measured.path.and_then(|path| path.waste()),
        })),
        Ok(Outcome::Data(request, measured)) => {
            let direction = direction(request.is_reverse());
            output::line(&format!("{direction} {peer}: {}", measured.describe(true).trim_start()));
            if let Some(advice) = measured.path.as_ref().and_then(rate_advice) {
                output::line(&advice);
            }
        }
        Ok(Outcome::Both(request, both)) if json => output::json(&json!({
            "event": "measured", "peer": peer, "bidir": true, "streams": request.streams,
            "to_server": of_direction(&both.to_server), "to_client": of_direction(&both.to_client),
        })),
        Ok(Outcome::Both(_, both)) => {
            for (is_sent, measured) in [(false, &both.to_server), (true, &both.to_client)] {
                output::line(&format!("{} {peer}: {}", direction(is_sent), measured.describe(true).trim_start()));
                if let Some(advice) = measured.path.as_ref().and_then(rate_advice) {
                    output::line(&advice);
                }
            }
        }
        Ok(Outcome::Messages(request, figures)) if json => {
            output::json(&json!({ "event": "measured", "peer": peer, "reverse": request.reverse, "messages": figures }))
        }
        Ok(Outcome::Messages(request, figures)) => {
            output::line(&format!("{} {peer}: {}", direction(request.reverse), figures.describe(true)));
        }
        Err(error) if json => {
            output::json(&json!({ "event": "error", "peer": peer, "message": error.to_string() }));
        }
        Err(error) => output::always(&format!("{peer}: {error}")),
    }
}

/// Returns the JSON of one direction.
fn of_direction(measured: &Measured) -> serde_json::Value {
    json!({
        "measured": measured, "goodput_bps": measured.goodput_bps(), "waste": measured.path.and_then(|path| path.waste()),
    })
}
