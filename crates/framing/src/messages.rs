//! Control frames for messages with deadlines: requests, and counters of both ends. Messages themselves travel outside
//! of the stream with these frames.

use std::time::Duration;

use crate::error::ProtocolError;
use crate::frame::{Fields, kind, with_header};
use crate::limits::{MESSAGE_BYTES_MAX, MESSAGE_INTERVAL_MAX, MESSAGE_WITHIN_MAX, PERF_DURATION_MAX};

/// Parts per million in one.
const PPM: f64 = 1e6;

/// Deadline and delivery target of messages, as sent to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worth {
    /// Time from handing over a message to its deadline; above 0, at most [`MESSAGE_WITHIN_MAX`].
    pub within: Duration,
    /// Fraction of messages to deliver in time, parts per million: 500 000 to 999 999.
    pub target_ppm: u32,
}

impl Worth {
    /// Returns the fraction of messages to deliver in time, 0.5 to 1.
    pub fn target(&self) -> f64 {
        f64::from(self.target_ppm) / PPM
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&micros(self.within).to_be_bytes());
        out.extend_from_slice(&self.target_ppm.to_be_bytes());
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let within = Duration::from_micros(u64::from_be_bytes(fields.array()?));
        let target_ppm = u32::from_be_bytes(fields.array()?);
        let valid = !within.is_zero() && within <= MESSAGE_WITHIN_MAX && (500_000..1_000_000).contains(&target_ppm);
        valid.then_some(Self { within, target_ppm })
    }

    /// Appends the frame that opens a pipe.
    pub fn encode_pipe(&self, out: &mut Vec<u8>) {
        with_header(kind::PIPE_OPEN, out, |out| self.write(out));
    }

    /// Decodes the body of a frame that opens a pipe.
    ///
    /// # Errors
    /// Fails for a wrong length, or a field out of range.
    pub fn decode_pipe(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let worth = Self::read(&mut fields).filter(|_| fields.0.is_empty());
        worth.ok_or(ProtocolError::Malformed { frame: "pipe open" })
    }
}

/// Request of a perf client for a measurement with messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// True if the server sends the messages.
    pub reverse: bool,
    /// Length of each message, bytes; at most [`MESSAGE_BYTES_MAX`].
    pub bytes: u32,
    /// Time between two messages; above 0, at most [`MESSAGE_INTERVAL_MAX`].
    pub every: Duration,
    /// Duration of the measurement; above 0, at most [`PERF_DURATION_MAX`].
    pub duration: Duration,
    /// Deadline and delivery target of the messages.
    pub worth: Worth,
}

impl Request {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_header(kind::PERF_MESSAGES, out, |out| {
            out.push(self.reverse.into());
            out.extend_from_slice(&self.bytes.to_be_bytes());
            out.extend_from_slice(&micros(self.every).to_be_bytes());
            out.extend_from_slice(&micros(self.duration).to_be_bytes());
            self.worth.write(out);
        });
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// Fails for a wrong length, or a field out of range.
    pub fn decode(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let mut decoded = || {
            let [reverse] = fields.array()?;
            let bytes = u32::from_be_bytes(fields.array()?);
            let mut time = || Some(Duration::from_micros(u64::from_be_bytes(fields.array()?)));
            let (every, duration) = (time()?, time()?);
            let worth = Worth::read(&mut fields)?;
            let is_time = |time: Duration, max| !time.is_zero() && time <= max;
            let valid = reverse <= 1
                && bytes <= MESSAGE_BYTES_MAX
                && is_time(every, MESSAGE_INTERVAL_MAX)
                && is_time(duration, PERF_DURATION_MAX)
                && fields.0.is_empty();
            valid.then_some(Self { reverse: reverse == 1, bytes, every, duration, worth })
        };
        decoded().ok_or(ProtocolError::Malformed { frame: "perf messages" })
    }

    /// Returns the number of messages of the measurement: one per interval, rounded up.
    pub fn count(&self) -> u64 {
        let count = self.duration.as_nanos().div_ceil(self.every.as_nanos().max(1));
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// Counters of a sender of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// True for the last frame: every message was delivered or has missed its deadline.
    pub is_final: bool,
    /// Messages offered by the application.
    pub offered: u64,
    /// Messages of which at least one datagram was sent.
    pub begun: u64,
    /// Messages of which no datagram could be sent before the deadline, for lack of capacity.
    pub unsent: u64,
    /// Datagrams with symbols of messages.
    pub datagrams: u64,
    /// Source symbols in `datagrams`.
    pub source_symbols: u64,
}

impl Sent {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_header(kind::MESSAGES_SENT, out, |out| {
            out.push(self.is_final.into());
            let Self { offered, begun, unsent, datagrams, source_symbols, .. } = *self;
            put(&[offered, begun, unsent, datagrams, source_symbols], out);
        });
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// Fails for a wrong length, an unknown flag, or `begun` + `unsent` above `offered`.
    pub fn decode(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let mut decoded = || {
            let is_final = flag(&mut fields)?;
            let [offered, begun, unsent, datagrams, source_symbols] = take(&mut fields)?;
            let valid = begun.checked_add(unsent)? <= offered && fields.0.is_empty();
            valid.then_some(Self { is_final, offered, begun, unsent, datagrams, source_symbols })
        };
        decoded().ok_or(ProtocolError::Malformed { frame: "messages sent" })
    }
}

/// Counters of a receiver of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Came {
    /// True for the answer to the sender's last frame.
    pub is_final: bool,
    /// Messages delivered in time to the application.
    pub in_time: u64,
    /// Messages completed after their deadline.
    pub late: u64,
    /// Messages completed in time, but dropped because the application did not read.
    pub unread: u64,
    /// Bytes of the messages delivered in time.
    pub bytes: u64,
    /// Delay of messages delivered in time, µs: time from handing over to delivery, minus the least one-way delay.
    /// Median, 99th percentile, 99.9th percentile and maximum.
    pub waited_us: [u64; 4],
}

impl Came {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_header(kind::MESSAGES_CAME, out, |out| {
            out.push(self.is_final.into());
            put(&[self.in_time, self.late, self.unread, self.bytes], out);
            put(&self.waited_us, out);
        });
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// Fails for a wrong length, or an unknown flag.
    pub fn decode(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let mut decoded = || {
            let is_final = flag(&mut fields)?;
            let [in_time, late, unread, bytes] = take(&mut fields)?;
            let waited_us = take(&mut fields)?;
            fields.0.is_empty().then_some(Self { is_final, in_time, late, unread, bytes, waited_us })
        };
        decoded().ok_or(ProtocolError::Malformed { frame: "messages came" })
    }

    /// Returns the number of messages whose result the receiver knows.
    pub fn known(&self) -> u64 {
        [self.in_time, self.late, self.unread].into_iter().fold(0, u64::saturating_add)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1)
}

fn flag(fields: &mut Fields<'_>) -> Option<bool> {
    let [flag] = fields.array()?;
    (flag <= 1).then_some(flag == 1)
}

fn put(numbers: &[u64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
}

fn take<const N: usize>(fields: &mut Fields<'_>) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = u64::from_be_bytes(fields.array()?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::HEADER_BYTES;

    const WORTH: Worth = Worth { within: Duration::from_millis(60), target_ppm: 999_000 };

    #[test]
    fn what_is_out_of_range_is_refused() {
        let second = Duration::from_secs(1);
        let request = Request { reverse: false, bytes: 1_316, every: second, duration: second, worth: WORTH };
        let with = |within, target_ppm| Request { worth: Worth { within, target_ppm }, ..request };
        let too_long = Duration::from_micros(1);
        for (what, request) in [
            ("bytes", Request { bytes: MESSAGE_BYTES_MAX + 1, ..request }),
            ("every", Request { every: MESSAGE_INTERVAL_MAX + too_long, ..request }),
            ("duration", Request { duration: PERF_DURATION_MAX + too_long, ..request }),
            ("years", with(MESSAGE_WITHIN_MAX + too_long, 999_000)),
            ("a target of all", with(second, 1_000_000)),
            ("a target below half", with(second, 499_999)),
        ] {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert!(Request::decode(&bytes[HEADER_BYTES..]).is_err(), "{what}");
        }
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        for (place, times) in [(5, "every"), (13, "duration"), (21, "within")] {
            let mut bytes = bytes.clone();
            bytes[HEADER_BYTES + place..HEADER_BYTES + place + 8].fill(0);
            assert!(Request::decode(&bytes[HEADER_BYTES..]).is_err(), "no {times}");
        }
        for (begun, unsent) in [(4, 0), (2, 2), (1, u64::MAX)] {
            let mut bytes = Vec::new();
            Sent { offered: 3, begun, unsent, ..Sent::default() }.encode(&mut bytes);
            assert!(Sent::decode(&bytes[HEADER_BYTES..]).is_err(), "{begun} begun and {unsent} unsent of 3");
        }
    }

    #[test]
    fn as_many_are_sent_as_fit_into_the_time() {
        let request = |every_us, duration_ms| Request {
            reverse: false,
            bytes: 1,
            every: Duration::from_micros(every_us),
            duration: Duration::from_millis(duration_ms),
            worth: WORTH,
        };
        assert_eq!((request(400, 10).count(), request(4_000, 10).count(), request(60_000_000, 1).count()), (25, 3, 1));
    }

    proptest! {
        #[test]
        fn frames_survive_the_wire(
            reverse: bool, bytes in 0..=MESSAGE_BYTES_MAX, every_us in 1_u64..60_000_000, ms in 1_u64..86_400_000,
            within_us in 1_u64..3_600_000_000, target_ppm in 500_000_u32..1_000_000, is_final: bool, numbers: [u64; 8],
        ) {
            let worth = Worth { within: Duration::from_micros(within_us), target_ppm };
            let (every, duration) = (Duration::from_micros(every_us), Duration::from_millis(ms));
            let request = Request { reverse, bytes, every, duration, worth };
            let mut out = Vec::new();
            request.encode(&mut out);
            prop_assert_eq!(Request::decode(&out[HEADER_BYTES..]).unwrap(), request);
            out.clear();
            worth.encode_pipe(&mut out);
            prop_assert_eq!(Worth::decode_pipe(&out[HEADER_BYTES..]).unwrap(), worth);
            let [a, b, datagrams, source_symbols, d, e, f, g] = numbers;
            let (offered, begun) = (a.max(b), a.min(b));
            let sent = Sent { is_final, offered, begun, unsent: (offered - begun) / 2, datagrams, source_symbols };
            out.clear();
            sent.encode(&mut out);
            prop_assert_eq!(Sent::decode(&out[HEADER_BYTES..]).unwrap(), sent);
            let came = Came { is_final, in_time: a, late: b, unread: datagrams, bytes: source_symbols, waited_us: [d, e, f, g] };
            out.clear();
            came.encode(&mut out);
            prop_assert_eq!(Came::decode(&out[HEADER_BYTES..]).unwrap(), came);
        }

        #[test]
        fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (Request::decode(&body), Worth::decode_pipe(&body), Sent::decode(&body), Came::decode(&body));
        }
    }
}
