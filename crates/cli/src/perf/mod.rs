//! `dfcp perf`: throughput of a path, as counted by the receiving side. Specified in `spec/file-transfer.md`.

pub mod bidir;
pub mod client;
mod intervals;
pub mod local;
pub mod messages;
mod noise;
pub mod server;
pub mod sink;
pub mod source;

use std::sync::Arc;
use std::time::Duration;

use dfcp_files::reading::read_frame;
use dfcp_files::transport::{FoundRate, Handle, Losses, PathSample, Streams, Transport};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::ToSender;
use dfcp_framing::perf::{Direction, Request};
use serde::Serialize;
use tokio::io::BufReader;
use tokio::time::timeout;

use crate::output;
use crate::progress::SILENCE_SHOWN;
use crate::session_error::SessionError;

/// Role of this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Side that sends the request.
    Client,
    /// Side that answers the request.
    Server,
}

/// Result of a measurement, so far or final.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes that reached the receiving side.
    pub bytes: u64,
    /// Time since the first byte, s: up to the end of the measurement, or to the last byte if the sender ran out of data.
    pub seconds: f64,
    /// Sending side's path statistics, with counts of this interval.
    pub path: Option<PathSample>,
    /// Losses of this interval by cause, as judged by automatic rate control.
    pub losses: Option<Losses>,
    /// Current silence of the peer, during the measurement.
    #[serde(skip)]
    pub silence: Duration,
}

impl Measured {
    /// Returns the goodput in bits per second.
    pub fn goodput_bps(&self) -> f64 {
        if self.seconds > 0.0 { 8.0 * self.bytes as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the increase since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            seconds: (self.seconds - earlier.seconds).max(0.0),
            path: self.path.map(|now| now.since(&earlier.path.unwrap_or_default())),
            silence: self.silence,
            ..Self::default()
        }
        .whole()
    }

    fn found(&self) -> Option<FoundRate> {
        self.path.and_then(|path| path.found)
    }

    /// Turns the final counts into the result of the whole measurement, with its losses by cause.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { losses: self.found().and_then(|found| found.losses()), ..self }
    }

    /// Formats a text line: amount, goodput and path; with `total`, also everything sent.
    pub fn describe(&self, total: bool) -> String {
        let amount = crate::units::human_bytes(self.bytes);
        let mut text = format!("{amount:>7}  {:>11}", crate::units::human_rate(self.goodput_bps()));
        if let Some(path) = self.path {
            let rtt = path.rtt_ms.map_or_else(|| "–".to_owned(), |rtt_ms| format!("{rtt_ms:.1} ms"));
            let loss = path.describe_loss(self.losses).unwrap_or_else(|| "loss –".to_owned());
            let found = [path.found.map(|found| found.describe(self.goodput_bps())), path.describe_queue()];
            let [rate, queue] = found.map(|figure| figure.map_or_else(String::new, |figure| format!("  {figure}")));
            text += &format!("{rate}  rtt {rtt}{queue}  {loss}");
            if total {
                path.describe_surplus().iter().for_each(|figure| text += &format!("  {figure}"));
            }
        }
        if self.silence >= SILENCE_SHOWN && !total {
            text += &format!("  {}", output::nothing_heard(self.silence));
        }
        text
    }
}

/// Returns the streams that carry the data; `None` if the request uses only the first stream.
///
/// # Errors
/// Fails if the connection lacks streams.
fn streams_for<T: Transport>(handle: &Handle<T>, request: &Request) -> Result<Option<Arc<dyn Streams>>, SessionError> {
    if request.streams == 0 { Ok(None) } else { streams_beside(handle, request).map(Some) }
}

/// Returns the streams besides the first one.
///
/// # Errors
/// Fails if the connection lacks streams.
fn streams_beside<T: Transport>(handle: &Handle<T>, request: &Request) -> Result<Arc<dyn Streams>, SessionError> {
    let flag = if request.direction == Direction::Both { "--bidir" } else { "--streams" };
    let without = || SessionError::Unsuited(format!("a classic connection has no streams: leave {flag} away"));
    handle.streams().ok_or_else(without)
}

async fn next_frame<T: Transport>(
    reader: &mut BufReader<Handle<T>>,
    body: &mut Vec<u8>,
    silence_max: Duration,
) -> Result<u8, SessionError> {
    let silent = |_| SessionError::Silent { seconds: silence_max.as_secs() };
    timeout(silence_max, read_frame(reader, body)).await.map_err(silent)??.ok_or(SessionError::PeerClosed)
}

fn unexpected(frame_kind: u8, body: &[u8]) -> SessionError {
    match ToSender::decode(frame_kind, body) {
        Ok(ToSender::Refused(failure)) => SessionError::Refused(failure),
        _ => ProtocolError::UnknownFrame { kind: frame_kind }.into(),
    }
}

#[cfg(test)]
mod tests;
