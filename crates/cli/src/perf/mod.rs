//! `dfcp perf`: how fast a path is, as counted by the side that receives. Specified in `spec/file-transfer.md`.

pub mod bidir;
pub mod client;
pub mod local;
pub mod messages;
mod noise;
pub mod server;
pub mod sink;
pub mod source;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::ToSender;
use dfcp_framing::perf::{Direction, Request};
use serde::Serialize;
use tokio::io::BufReader;
use tokio::time::timeout;

use crate::output;
use crate::progress::SILENCE_SHOWN;
use crate::transfer::error::TransferError;
use crate::transfer::reading::read_frame;
use crate::transport::{FoundRate, Handle, Losses, PathSample, Streams, Transport};

/// Role of this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It has asked.
    Client,
    /// It was asked.
    Server,
}

/// A measurement, so far or at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes that reached the receiving side in this time.
    pub bytes: u64,
    /// Time since its first byte, s: until the time was up, or until the last byte if the sender had no more.
    pub seconds: f64,
    /// The path as the sending side knows it, with the counts of this time.
    pub path: Option<PathSample>,
    /// Losses of this time by their cause, as an automatic rate has judged them.
    pub losses: Option<Losses>,
    /// Time since the peer was last heard, while the measurement runs.
    #[serde(skip)]
    pub silence: Duration,
}

impl Measured {
    /// Bits of the application per second.
    pub fn goodput_bps(&self) -> f64 {
        if self.seconds > 0.0 { 8.0 * self.bytes as f64 / self.seconds } else { 0.0 }
    }

    /// Increase since `earlier`.
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

    /// All of it, to its end.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { losses: self.found().and_then(|found| found.losses()), ..self }
    }

    /// A line for people: amount, goodput and path; with everything sent in `total`, at the end.
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

/// The streams which carry the data, if the request asks for some.
///
/// # Errors
/// The connection has no streams.
fn streams_for<T: Transport>(handle: &Handle<T>, request: &Request) -> Result<Option<Arc<dyn Streams>>, TransferError> {
    if request.streams == 0 { Ok(None) } else { streams_beside(handle, request).map(Some) }
}

/// The streams beside the first one.
///
/// # Errors
/// The connection has none.
fn streams_beside<T: Transport>(handle: &Handle<T>, request: &Request) -> Result<Arc<dyn Streams>, TransferError> {
    let flag = if request.direction == Direction::Both { "--bidir" } else { "--streams" };
    let without = || TransferError::Unsuited(format!("a classic connection has no streams: leave {flag} away"));
    handle.streams().ok_or_else(without)
}

async fn next_frame<T: Transport>(
    reader: &mut BufReader<Handle<T>>,
    body: &mut Vec<u8>,
    silence_max: Duration,
) -> Result<u8, TransferError> {
    let silent = |_| TransferError::Silent { seconds: silence_max.as_secs() };
    timeout(silence_max, read_frame(reader, body)).await.map_err(silent)??.ok_or(TransferError::PeerClosed)
}

fn unexpected(frame_kind: u8, body: &[u8]) -> TransferError {
    match ToSender::decode(frame_kind, body) {
        Ok(ToSender::Refused(failure)) => TransferError::Refused(failure),
        _ => ProtocolError::UnknownFrame { kind: frame_kind }.into(),
    }
}

#[cfg(test)]
mod tests;
