//! The frames of a measurement, beside data and end, which are those of [`crate::transfer::frame`].

use std::time::Duration;

use crate::limits::PERF_DURATION_MAX;
use crate::transfer::error::ProtocolError;
use crate::transfer::frame::{Fields, kind, with_header};
use crate::transport::PathSample;

/// A sender's own figures, sent along with the data when the server sends.
pub const PERF_PATH: u8 = 0x22;

/// Losses travel in parts per million.
const PPM: f64 = 1e6;

/// What the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The server sends.
    pub reverse: bool,
    /// How long to send; above 0, at most [`PERF_DURATION_MAX`].
    pub duration: Duration,
    /// Bytes after which to stop earlier.
    pub bytes_max: Option<u64>,
}

impl Request {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let duration_ms = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX).max(1);
        with_header(kind::PERF_REQUEST, out, |out| {
            out.push(u8::from(self.reverse));
            out.extend_from_slice(&duration_ms.to_be_bytes());
            out.extend_from_slice(&self.bytes_max.unwrap_or(u64::MAX).to_be_bytes());
        });
    }

    /// From a body.
    ///
    /// # Errors
    /// Wrong length, or a field out of range.
    pub fn decode(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let mut decoded = || {
            let reverse = match fields.array()? {
                [0] => false,
                [1] => true,
                _ => return None,
            };
            let duration = Duration::from_millis(u64::from_be_bytes(fields.array()?));
            let bytes_max = Some(u64::from_be_bytes(fields.array()?)).filter(|bytes| *bytes != u64::MAX);
            let valid = fields.0.is_empty() && !duration.is_zero() && duration <= PERF_DURATION_MAX;
            valid.then_some(Self { reverse, duration, bytes_max })
        };
        decoded().ok_or(ProtocolError::Malformed { frame: "perf request" })
    }
}

/// What the receiving side has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// No more follows.
    pub is_final: bool,
    /// Bytes of data.
    pub bytes: u64,
    /// Between the first byte and the last, µs.
    pub elapsed_us: u64,
}

impl Count {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_header(kind::PERF_REPORT, out, |out| {
            out.push(u8::from(self.is_final));
            out.extend_from_slice(&self.bytes.to_be_bytes());
            out.extend_from_slice(&self.elapsed_us.to_be_bytes());
        });
    }

    /// From a body.
    ///
    /// # Errors
    /// Wrong length.
    pub fn decode(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let mut decoded = || {
            let [is_final] = fields.array()?;
            let bytes = u64::from_be_bytes(fields.array()?);
            let elapsed_us = u64::from_be_bytes(fields.array()?);
            fields.0.is_empty().then_some(Self { is_final: is_final != 0, bytes, elapsed_us })
        };
        decoded().ok_or(ProtocolError::Malformed { frame: "perf report" })
    }

    /// The time in seconds.
    pub fn seconds(&self) -> f64 {
        self.elapsed_us as f64 / 1e6
    }
}

/// Appends a frame with the sender's figures.
pub fn encode_path(path: &PathSample, out: &mut Vec<u8>) {
    with_header(PERF_PATH, out, |out| {
        // Saturating: both are far below 2³² unless the figures are nonsense.
        out.extend_from_slice(&((path.loss * PPM) as u32).to_be_bytes());
        out.extend_from_slice(&path.rtt_ms.map_or(u32::MAX, |rtt_ms| (rtt_ms * 1e3) as u32).to_be_bytes());
        for number in [path.datagrams_sent, path.datagrams_repair, path.ip_bytes_sent] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    });
}

/// From a body.
///
/// # Errors
/// Wrong length.
pub fn decode_path(body: &[u8]) -> Result<PathSample, ProtocolError> {
    let mut fields = Fields(body);
    let mut decoded = || {
        let loss = (f64::from(u32::from_be_bytes(fields.array()?)) / PPM).min(1.0);
        let rtt_us = Some(u32::from_be_bytes(fields.array()?)).filter(|rtt_us| *rtt_us != u32::MAX);
        let sample = PathSample {
            loss,
            rtt_ms: rtt_us.map(|rtt_us| f64::from(rtt_us) / 1e3),
            datagrams_sent: u64::from_be_bytes(fields.array()?),
            datagrams_repair: u64::from_be_bytes(fields.array()?),
            ip_bytes_sent: u64::from_be_bytes(fields.array()?),
        };
        fields.0.is_empty().then_some(sample)
    };
    decoded().ok_or(ProtocolError::Malformed { frame: "perf path" })
}
