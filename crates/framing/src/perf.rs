//! Frames of a bandwidth measurement; data and end frames are defined in [`crate::frame`].

use std::time::Duration;

use crate::error::ProtocolError;
use crate::frame::{Fields, kind, with_header};
use crate::limits::{PERF_DURATION_MAX, PERF_STREAMS_MAX};

/// Direction of the data of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// From the client to the server.
    ToServer = 0,
    /// From the server to the client.
    ToClient = 1,
    /// In both directions at the same time, each on its own streams.
    Both = 2,
}

impl Direction {
    const ALL: [Self; 3] = [Self::ToServer, Self::ToClient, Self::Both];

    /// Returns [`ToClient`](Self::ToClient) if `reverse`, otherwise [`ToServer`](Self::ToServer).
    pub const fn of(reverse: bool) -> Self {
        if reverse { Self::ToClient } else { Self::ToServer }
    }
}

/// Request of a perf client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Direction of the data.
    pub direction: Direction,
    /// True if the data has no frames, because its blocks are not decoded: all bytes up to the end of the stream are
    /// data.
    pub raw: bool,
    /// Number of one-way streams that carry the data of one direction, in addition to the first stream; with 0, the
    /// first stream carries the data. At most [`PERF_STREAMS_MAX`]; at least 1 for [`Direction::Both`].
    pub streams: u16,
    /// Sending time; above 0, at most [`PERF_DURATION_MAX`].
    pub duration: Duration,
    /// Number of bytes after which to stop early.
    pub bytes_max: Option<u64>,
}

impl Request {
    /// Returns true if only the server sends.
    pub fn is_reverse(&self) -> bool {
        self.direction == Direction::ToClient
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let duration_ms = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX).max(1);
        with_header(kind::PERF_REQUEST, out, |out| {
            out.extend([self.direction as u8, u8::from(self.raw)]);
            out.extend_from_slice(&self.streams.to_be_bytes());
            out.extend_from_slice(&duration_ms.to_be_bytes());
            out.extend_from_slice(&self.bytes_max.unwrap_or(u64::MAX).to_be_bytes());
        });
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// Fails for a wrong length, or a field out of range.
    pub fn decode(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let mut decoded = || {
            let [direction, raw] = fields.array()?;
            let direction = Direction::ALL.into_iter().find(|known| *known as u8 == direction)?;
            let streams = u16::from_be_bytes(fields.array()?);
            let duration = Duration::from_millis(u64::from_be_bytes(fields.array()?));
            let bytes_max = Some(u64::from_be_bytes(fields.array()?)).filter(|bytes| *bytes != u64::MAX);
            let is_duration = !duration.is_zero() && duration <= PERF_DURATION_MAX;
            let are_streams = streams <= PERF_STREAMS_MAX && (streams == 0 || raw == 0);
            // For both directions, the first stream carries no data.
            let are_enough = direction != Direction::Both || streams > 0;
            let valid = raw <= 1 && are_streams && are_enough && is_duration && fields.0.is_empty();
            valid.then_some(Self { direction, raw: raw == 1, streams, duration, bytes_max })
        };
        decoded().ok_or(ProtocolError::Malformed { frame: "perf request" })
    }
}

/// Stage of a measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// The measurement continues.
    #[default]
    Running = 0,
    /// The sender's end frame arrived in time: all bytes sent are counted.
    Ended = 1,
    /// The time ended before the sender's end frame; later bytes are not counted.
    TimeUp = 2,
}

/// Counters of the receiving end of a measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Stage of the measurement.
    pub stage: Stage,
    /// Received bytes of data.
    pub bytes: u64,
    /// Time from the first byte, µs: until now ([`Stage::Running`]), until the last byte ([`Stage::Ended`]) or until
    /// the requested time ([`Stage::TimeUp`]).
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

    /// Decodes a body.
    ///
    /// # Errors
    /// Fails for a wrong length, or an unknown stage.
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

    /// Returns the elapsed time, seconds.
    pub fn seconds(&self) -> f64 {
        self.elapsed_us as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::HEADER_BYTES;
    use proptest::prelude::*;
    use proptest::sample::select;

    #[test]
    fn requests_out_of_range_are_refused() {
        let (direction, duration) = (Direction::ToClient, Duration::from_secs(1));
        let request = Request { direction, raw: false, streams: 0, duration, bytes_max: None };
        for (duration, is_possible) in [
            (PERF_DURATION_MAX, true),
            (PERF_DURATION_MAX + Duration::from_secs(1), false),
            (Duration::from_secs(u64::MAX / 1000), false),
        ] {
            let mut bytes = Vec::new();
            Request { duration, ..request }.encode(&mut bytes);
            assert_eq!(Request::decode(&bytes[HEADER_BYTES..]).is_ok(), is_possible, "{duration:?}");
        }
        // Raw data uses only the first stream.
        for (raw, streams, is_possible) in
            [(false, PERF_STREAMS_MAX, true), (false, PERF_STREAMS_MAX + 1, false), (true, 1, false)]
        {
            let mut bytes = Vec::new();
            Request { raw, streams, ..request }.encode(&mut bytes);
            assert_eq!(Request::decode(&bytes[HEADER_BYTES..]).is_ok(), is_possible, "raw {raw}, {streams} streams");
        }
        // Both directions need additional streams.
        for (raw, streams, is_possible) in [(false, 1, true), (false, 0, false), (true, 0, false), (true, 1, false)] {
            let mut bytes = Vec::new();
            Request { direction: Direction::Both, raw, streams, ..request }.encode(&mut bytes);
            assert_eq!(Request::decode(&bytes[HEADER_BYTES..]).is_ok(), is_possible, "raw {raw}, {streams} streams");
        }
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        bytes[HEADER_BYTES] = 3;
        assert!(Request::decode(&bytes[HEADER_BYTES..]).is_err(), "no such direction");
    }

    proptest! {
        #[test]
        fn frames_survive_the_wire(
            direction in select(&Direction::ALL[..]),
            raw: bool,
            streams in 0..=PERF_STREAMS_MAX,
            ms in 1u64..86_400_000,
            bytes in proptest::option::of(0..u64::MAX),
            stage in prop_oneof![Just(Stage::Running), Just(Stage::Ended), Just(Stage::TimeUp)],
            elapsed_us: u64,
        ) {
            let is_both = direction == Direction::Both;
            let raw = raw && !is_both;
            let streams = if raw { 0 } else { streams.max(is_both.into()) };
            let request = Request { direction, raw, streams, duration: Duration::from_millis(ms), bytes_max: bytes };
            let mut out = Vec::new();
            request.encode(&mut out);
            prop_assert_eq!(Request::decode(&out[HEADER_BYTES..]).unwrap(), request);
            let count = Count { stage, bytes: ms, elapsed_us };
            out.clear();
            count.encode(&mut out);
            prop_assert_eq!(Count::decode(&out[HEADER_BYTES..]).unwrap(), count);
        }

        #[test]
        fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (Request::decode(&body), Count::decode(&body));
        }
    }
}
