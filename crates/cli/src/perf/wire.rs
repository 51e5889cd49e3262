//! The frames of a measurement, beside data and end, which are those of [`crate::transfer::frame`].

use std::time::Duration;

use crate::limits::{PERF_DURATION_MAX, PERF_STREAMS_MAX};
use crate::transfer::error::ProtocolError;
use crate::transfer::frame::{Fields, kind, with_header};
use crate::transport::{DataDatagrams, PathSample, Wasted};

/// The server's answer to a raw request to send: what follows has no frames. Without a body.
pub const PERF_RAW: u8 = 0x23;

/// A sender's own figures, sent along with the data when the server sends.
pub const PERF_PATH: u8 = 0x22;

/// Losses travel in parts per million.
const PPM: f64 = 1e6;

/// What the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The server sends.
    pub reverse: bool,
    /// The data has no frames, because it is not decoded: everything up to the end of its stream is data.
    pub raw: bool,
    /// One-way streams beside the first one, which carry the data; 0: the first one does. At most [`PERF_STREAMS_MAX`].
    pub streams: u16,
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
            out.extend([u8::from(self.reverse), u8::from(self.raw)]);
            out.extend_from_slice(&self.streams.to_be_bytes());
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
            let [reverse, raw] = fields.array()?;
            let is_flag = reverse <= 1 && raw <= 1;
            let streams = u16::from_be_bytes(fields.array()?);
            let duration = Duration::from_millis(u64::from_be_bytes(fields.array()?));
            let bytes_max = Some(u64::from_be_bytes(fields.array()?)).filter(|bytes| *bytes != u64::MAX);
            let is_duration = !duration.is_zero() && duration <= PERF_DURATION_MAX;
            let are_streams = streams <= PERF_STREAMS_MAX && (streams == 0 || raw == 0);
            let valid = is_flag && are_streams && is_duration && fields.0.is_empty();
            valid.then_some(Self { reverse: reverse == 1, raw: raw == 1, streams, duration, bytes_max })
        };
        decoded().ok_or(ProtocolError::Malformed { frame: "perf request" })
    }
}

/// Where a measurement stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// More follows.
    #[default]
    Running = 0,
    /// The sender's end came within the time: these are all the bytes it sent.
    Ended = 1,
    /// The time was up first; what comes now is not counted.
    TimeUp = 2,
}

/// What the receiving side has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Whether more follows.
    pub stage: Stage,
    /// Bytes of data.
    pub bytes: u64,
    /// Since the first byte, µs: until now, until the last byte ([`Stage::Ended`]) or the time asked for
    /// ([`Stage::TimeUp`]).
    pub elapsed_us: u64,
}

impl Count {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_header(kind::PERF_REPORT, out, |out| {
            out.push(self.stage as u8);
            out.extend_from_slice(&self.bytes.to_be_bytes());
            out.extend_from_slice(&self.elapsed_us.to_be_bytes());
        });
    }

    /// From a body.
    ///
    /// # Errors
    /// Wrong length, or an unknown stage.
    pub fn decode(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let mut decoded = || {
            let stage = match fields.array()? {
                [0] => Stage::Running,
                [1] => Stage::Ended,
                [2] => Stage::TimeUp,
                _ => return None,
            };
            let bytes = u64::from_be_bytes(fields.array()?);
            let elapsed_us = u64::from_be_bytes(fields.array()?);
            fields.0.is_empty().then_some(Self { stage, bytes, elapsed_us })
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
        let loss_ppm = path.loss.map_or(u32::MAX, |loss| (loss * PPM) as u32);
        out.extend_from_slice(&loss_ppm.to_be_bytes());
        out.extend_from_slice(&path.rtt_ms.map_or(u32::MAX, |rtt_ms| (rtt_ms * 1e3) as u32).to_be_bytes());
        let DataDatagrams { source, repair, proactive, probe } = path.data_datagrams;
        let Wasted { dependent, late, refused } = path.wasted;
        for number in [path.datagrams_sent, source, repair, proactive, probe, dependent, late, refused] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for number in [path.ip_bytes_sent, path.bytes_acknowledged, path.carried_rate_bps.unwrap_or_default()] {
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
        let known = |number: u32| (number != u32::MAX).then_some(f64::from(number));
        let loss_ppm = known(u32::from_be_bytes(fields.array()?));
        let rtt_us = known(u32::from_be_bytes(fields.array()?));
        let mut number = || fields.array().map(u64::from_be_bytes);
        let sample = PathSample {
            loss: loss_ppm.map(|loss_ppm| (loss_ppm / PPM).min(1.0)),
            rtt_ms: rtt_us.map(|rtt_us| rtt_us / 1e3),
            datagrams_sent: number()?,
            data_datagrams: DataDatagrams {
                source: number()?,
                repair: number()?,
                proactive: number()?,
                probe: number()?,
            },
            wasted: Wasted { dependent: number()?, late: number()?, refused: number()? },
            ip_bytes_sent: number()?,
            bytes_acknowledged: number()?,
            carried_rate_bps: Some(number()?).filter(|&rate_bps| rate_bps > 0),
        };
        fields.0.is_empty().then_some(sample)
    };
    decoded().ok_or(ProtocolError::Malformed { frame: "perf path" })
}
