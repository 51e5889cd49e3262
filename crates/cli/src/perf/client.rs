//! `dfcp perf client`: requests a measurement from a server.

use dfcp_files::limits::RECEIVER_SILENCE_MAX;
use dfcp_files::reading::read_preamble;
use dfcp_files::transport::{Handle, Transport};
use dfcp_framing::frame::{Service, kind};
use dfcp_framing::limits::DATA_BYTES_MAX;
use dfcp_framing::messages;
use dfcp_framing::perf::{Direction, Request};
use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::bidir::shown::{self as of_both, BothIntervals};
use super::bidir::{self, Both};
use super::intervals::{Intervals, of_direction};
use super::messages as of_messages;
use super::{Measured, Side, next_frame, sink, source, streams_beside, streams_for, unexpected};
use crate::args::PerfClientArgs;
use crate::connection_text::{add_seal, rate_advice};
use crate::contact;
use crate::messages::Figures;
use crate::net::{self, Connected};
use crate::output;
use crate::qlog;
use crate::session_error::SessionError;

/// Runs one measurement and prints the result.
///
/// # Errors
/// Fails if the server cannot be reached, is not the right one, or refuses this side; or if the measurement breaks.
pub async fn run(mut args: PerfClientArgs) -> anyhow::Result<()> {
    if let Some(request) = messages_asked(&args) {
        return run_messages(args, request).await;
    }
    if args.bidir {
        return run_both(args).await;
    }
    let request = prepare(&mut args)?;
    let Connected { stream, peer, contact } = connect(&mut args).await?;
    let (seal, json) = (stream.seal(), args.json);
    let mut intervals = Intervals::default();
    let measured = session(stream, &request, |measured| {
        if let Some(text) = intervals.advance(measured)
            && !json
        {
            output::progress(&text);
        }
    })
    .await
    .map_err(|error| contact::explain(contact.as_ref(), error.into()))?;
    let rest = intervals.finish(&measured);
    if json {
        let mut object = summary(&peer, &request, &measured, &intervals);
        object["parameters"] = args.path.parameters.to_json();
        add_seal(seal.as_ref(), &mut object);
        output::json(&object);
    } else {
        if let Some(text) = rest {
            output::progress(&text);
        }
        output::line(&total(&measured, request.streams));
        if let Some(advice) = measured.path.as_ref().and_then(rate_advice) {
            output::line(&advice);
        }
    }
    Ok(())
}

/// Connects, and prints the connection's protection.
async fn connect(args: &mut PerfClientArgs) -> anyhow::Result<Connected> {
    args.path.begin_recording(qlog::Side::Client)?;
    net::announce(&args.path, args.json);
    let connected = net::connect(&args.server, &args.path, &args.host).await?;
    if let (Some(seal), false) = (connected.stream.seal(), args.json) {
        output::note(&format!("{}: {}", connected.peer, seal.describe()));
    }
    Ok(connected)
}

/// Runs a bidirectional measurement and prints the result.
async fn run_both(mut args: PerfClientArgs) -> anyhow::Result<()> {
    let request = prepare(&mut args)?;
    let Connected { stream, peer, contact } = connect(&mut args).await?;
    let (seal, json) = (stream.seal(), args.json);
    let mut intervals = BothIntervals::default();
    let both = both_session(stream, &request, |both| {
        let lines = intervals.advance(both);
        lines.iter().filter(|_| !json).for_each(|line| output::progress(line));
    })
    .await
    .map_err(|error| contact::explain(contact.as_ref(), error.into()))?;
    let rest = intervals.finish(&both);
    if json {
        let mut object = of_both::summary(&peer, &request, &both, &intervals);
        object["parameters"] = args.path.parameters.to_json();
        add_seal(seal.as_ref(), &mut object);
        output::json(&object);
        return Ok(());
    }
    rest.iter().for_each(|line| output::progress(line));
    let streams = if request.streams > 1 { request.streams } else { 0 };
    for (name, measured) in both.named() {
        output::line(&format!("{name}  {}", total(measured, streams)));
    }
    for (name, measured) in both.named() {
        if let Some(advice) = measured.path.as_ref().and_then(rate_advice) {
            output::line(&format!("{name}: {advice}"));
        }
    }
    Ok(())
}

/// Formats the last line of the text output.
fn total(measured: &Measured, streams: u16) -> String {
    let streams = if streams > 0 { format!("  {streams} streams") } else { String::new() };
    format!("total         {:6.1} s  {}{streams}", measured.seconds, measured.describe(true))
}

/// Returns the request for messages, if the arguments specify messages.
fn messages_asked(args: &PerfClientArgs) -> Option<messages::Request> {
    let (&PerfClientArgs { messages: Some(bytes), every: Some(every), reverse, duration, .. }, Some(worth)) =
        (args, args.worth.worth())
    else {
        return None;
    };
    Some(messages::Request { reverse, bytes, every, duration, worth })
}

/// Runs a message measurement and prints the result.
async fn run_messages(mut args: PerfClientArgs, request: messages::Request) -> anyhow::Result<()> {
    args.path.messages = true;
    let Connected { stream, peer, contact } = connect(&mut args).await?;
    let (seal, json) = (stream.seal(), args.json);
    let mut intervals = of_messages::Intervals::default();
    let figures = messages_session(stream, &request, |figures| {
        if let Some(text) = intervals.advance(figures)
            && !json
        {
            output::progress(&text);
        }
    })
    .await
    .map_err(|error| contact::explain(contact.as_ref(), error.into()))?;
    if json {
        let mut object = of_messages::summary(&peer, &request, &figures, &intervals);
        add_seal(seal.as_ref(), &mut object);
        output::json(&object);
    } else {
        output::line(&format!("total         {:6.1} s  {}", figures.seconds, figures.describe(true)));
    }
    Ok(())
}

/// Runs a message measurement on an open connection; `on_figures` receives the current counts.
///
/// # Errors
/// Fails if the connection breaks, or the server violates the protocol or takes no messages.
pub async fn messages_session<T: Transport>(
    connection: T,
    request: &messages::Request,
    on_figures: impl FnMut(&Figures),
) -> Result<Figures, SessionError> {
    let handle = Handle::new(connection);
    let mut opening = Service::Perf.preamble().to_vec();
    request.encode(&mut opening);
    let reader = open(&handle, &opening).await?;
    of_messages::measure(&handle, reader, (request, Side::Client), on_figures).await
}

/// Sends the request and waits for the server's preamble.
async fn open<T: Transport>(handle: &Handle<T>, opening: &[u8]) -> Result<BufReader<Handle<T>>, SessionError> {
    let mut reader = BufReader::with_capacity(DATA_BYTES_MAX, handle.clone());
    let mut writer = handle.clone();
    writer.write_all(opening).await.map_err(SessionError::Connection)?;
    writer.flush().await.map_err(SessionError::Connection)?;
    timeout(RECEIVER_SILENCE_MAX, read_preamble(&mut reader, Service::Perf))
        .await
        .map_err(|_| SessionError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() })??;
    Ok(reader)
}

/// Converts the arguments to a request, and copies the parameters to the path settings for new connections.
pub(super) fn prepare(args: &mut PerfClientArgs) -> anyhow::Result<Request> {
    let parameters = args.parameters.parameters()?;
    // With `Coding` off, the server could decode only the first block of this side's counts.
    anyhow::ensure!(
        !(args.reverse && parameters.is_coding_off()),
        "with --reverse the server sends: start it with --set coding=0, and give --set decoding=0 here"
    );
    let raw = parameters.is_coding_off() || parameters.is_decoding_off();
    args.path.parameters = parameters;
    let streams = if args.streams > 1 || args.bidir { args.streams } else { 0 };
    // The sending side opens the streams.
    args.path.peer_streams = if args.reverse || args.bidir { streams } else { 0 };
    let direction = if args.bidir { Direction::Both } else { Direction::of(args.reverse) };
    Ok(Request { direction, raw, streams, duration: args.duration, bytes_max: args.bytes })
}

/// Runs a one-way measurement on an open connection; `on_count` receives the current counts.
///
/// # Errors
/// Fails if the connection breaks or the server violates the protocol.
pub async fn session<T: Transport>(
    connection: T,
    request: &Request,
    on_count: impl FnMut(&Measured),
) -> Result<Measured, SessionError> {
    let handle = Handle::new(connection);
    // Accept streams before the server can open them.
    let streams = streams_for(&handle, request)?;
    let mut opening = Service::Perf.preamble().to_vec();
    request.encode(&mut opening);
    let mut reader = open(&handle, &opening).await?;
    if request.is_reverse() {
        if request.raw {
            await_raw(&mut reader).await?;
            handle.stop_decoding()?;
        }
        sink::sink(&handle, reader, request, streams, on_count).await
    } else {
        source::source(&handle, reader, request, streams, on_count).await
    }
}

/// Runs a bidirectional measurement on an open connection; `on_counts` receives the current counts.
///
/// # Errors
/// Fails if the connection breaks or lacks streams, or the server violates the protocol.
pub async fn both_session<T: Transport>(
    connection: T,
    request: &Request,
    on_counts: impl FnMut(&Both),
) -> Result<Both, SessionError> {
    let handle = Handle::new(connection);
    // Accept streams before the server can open them.
    let streams = streams_beside(&handle, request)?;
    let mut opening = Service::Perf.preamble().to_vec();
    request.encode(&mut opening);
    let reader = open(&handle, &opening).await?;
    bidir::measure(&handle, reader, (request, Side::Client), streams, on_counts).await
}

/// Waits for the server's announcement that raw data follows.
async fn await_raw<T: Transport>(reader: &mut BufReader<Handle<T>>) -> Result<(), SessionError> {
    let mut body = Vec::new();
    match next_frame(reader, &mut body, RECEIVER_SILENCE_MAX).await? {
        kind::PERF_RAW if body.is_empty() => Ok(()),
        other => Err(unexpected(other, &body)),
    }
}

/// Returns the JSON of the measurement: `total` covers the whole measurement, each member of `intervals` its own
/// interval.
pub(super) fn summary(peer: &str, request: &Request, measured: &Measured, intervals: &Intervals) -> serde_json::Value {
    let mut object = of_direction(measured, intervals);
    object["peer"] = json!(peer);
    object["reverse"] = json!(request.is_reverse());
    object["raw"] = json!(request.raw);
    object["streams"] = json!(request.streams.max(1));
    object
}
