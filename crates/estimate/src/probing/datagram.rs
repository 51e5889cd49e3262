//! Encoding and decoding of the datagrams of `spec/estimation.md` §1. Decoding never allocates and never panics.

use dfcp_secure::{COOKIE_BYTES, Cookie};
use dfcp_time::Time;

/// Length of every request, which exceeds that of every answer (\[estimate-5\]).
pub const REQUEST_BYTES: usize = 48;
/// Length of a test packet's UDP payload (\[estimate-2\]).
pub const PROBE_BYTES: usize = 32;
const CHALLENGE_BYTES: usize = HEADER_BYTES + COOKIE_BYTES;
const REFUSED_BYTES: usize = HEADER_BYTES + 1;
/// Longest datagram.
pub const DATAGRAM_BYTES_MAX: usize = REQUEST_BYTES;

const MAGIC: [u8; 4] = *b"DFBE";
/// Version of `spec/estimation.md`.
pub const VERSION: u8 = 1;
const HEADER_BYTES: usize = 16;

const CALL: u8 = 1;
const CHALLENGE: u8 = 2;
const START: u8 = 3;
const PROBE: u8 = 4;
const STOP: u8 = 5;
const REFUSED: u8 = 6;

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Request for a cookie, in any version of the format.
    Call {
        /// Session chosen by the client.
        session: u64,
    },
    /// Request for test packets, or renewal.
    Start {
        /// Session of the call.
        session: u64,
        /// Interval of test packets, µs.
        interval_us: u32,
        /// Cookie of the challenge.
        cookie: Cookie,
    },
    /// Request to stop.
    Stop {
        /// Session to end.
        session: u64,
    },
}

/// Test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeDatagram {
    /// Session of the client.
    pub session: u64,
    /// Sequence number, from 0.
    pub number: u32,
    /// Nominal interval of test packets, µs.
    pub interval_us: u32,
    /// Departure by the server's clock.
    pub sent: Time,
}

/// Answer of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Challenge with a cookie to send back.
    Challenge {
        /// Session of the request.
        session: u64,
        /// Cookie for the requesting address.
        cookie: Cookie,
    },
    /// Test packet.
    Probe(ProbeDatagram),
    /// Refusal of test packets for this session.
    Refused {
        /// Refused session.
        session: u64,
        /// Reason.
        reason: Reason,
    },
    /// Challenge of another, incompatible version.
    OtherVersion {
        /// Session of the request.
        session: u64,
        /// Version of the server.
        version: u8,
    },
}

/// Server's reason to refuse test packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The server is at its limit of clients.
    TooManyClients,
    /// The server does not permit this interval.
    Interval,
    /// Reason of a later version.
    Other(u8),
}

impl Reason {
    fn code(self) -> u8 {
        match self {
            Self::TooManyClients => 1,
            Self::Interval => 2,
            Self::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            1 => Self::TooManyClients,
            2 => Self::Interval,
            other => Self::Other(other),
        }
    }
}

/// Encoded datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    bytes: [u8; DATAGRAM_BYTES_MAX],
    len: usize,
}

impl Datagram {
    fn new(kind: u8, session: u64, len: usize, body: &[&[u8]]) -> Self {
        let mut bytes = [0; DATAGRAM_BYTES_MAX];
        let head = [&MAGIC[..], &[VERSION, kind, 0, 0], &session.to_be_bytes()];
        let mut at = 0;
        for part in head.iter().chain(body) {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Self { bytes, len }
    }
}

impl AsRef<[u8]> for Datagram {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Parts of a datagram: kind, version, session and body.
struct Parts<'a> {
    version: u8,
    kind: u8,
    session: u64,
    body: &'a [u8],
}

fn parts(bytes: &[u8]) -> Option<Parts<'_>> {
    let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let [m0, m1, m2, m3, version, kind, 0, 0, session @ ..] = *header else { return None };
    ([m0, m1, m2, m3] == MAGIC).then(|| Parts { version, kind, session: u64::from_be_bytes(session), body })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

impl Request {
    /// Encodes the request.
    #[must_use]
    pub fn encode(&self) -> Datagram {
        match self {
            Self::Call { session } => Datagram::new(CALL, *session, REQUEST_BYTES, &[]),
            Self::Start { session, interval_us, cookie } => {
                Datagram::new(START, *session, REQUEST_BYTES, &[&interval_us.to_be_bytes(), cookie])
            }
            Self::Stop { session } => Datagram::new(STOP, *session, REQUEST_BYTES, &[]),
        }
    }

    /// Decodes a request; `None` for any other bytes (\[estimate-1\]).
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let Parts { version, kind, session, body } = parts(bytes).filter(|_| bytes.len() == REQUEST_BYTES)?;
        if kind == CALL {
            // Bytes after the header belong to later versions.
            return (version != VERSION || is_zero(body)).then_some(Self::Call { session });
        }
        match kind {
            _ if version != VERSION => None,
            START => {
                let (interval_us, rest) = body.split_first_chunk()?;
                let (cookie, rest) = rest.split_first_chunk::<COOKIE_BYTES>()?;
                let interval_us = u32::from_be_bytes(*interval_us);
                is_zero(rest).then_some(Self::Start { session, interval_us, cookie: *cookie })
            }
            STOP => is_zero(body).then_some(Self::Stop { session }),
            _ => None,
        }
    }
}

impl Answer {
    /// Encodes the answer.
    #[must_use]
    pub fn encode(&self) -> Datagram {
        match self {
            Self::Challenge { session, cookie } => Datagram::new(CHALLENGE, *session, CHALLENGE_BYTES, &[cookie]),
            Self::Probe(probe) => {
                let sent_ns = probe.sent.as_ns().to_be_bytes();
                let parts: [&[u8]; 3] = [&probe.number.to_be_bytes(), &probe.interval_us.to_be_bytes(), &sent_ns];
                Datagram::new(PROBE, probe.session, PROBE_BYTES, &parts)
            }
            Self::Refused { session, reason } => Datagram::new(REFUSED, *session, REFUSED_BYTES, &[&[reason.code()]]),
            Self::OtherVersion { session, version } => {
                let mut datagram = Datagram::new(CHALLENGE, *session, CHALLENGE_BYTES, &[]);
                datagram.bytes[4] = *version;
                datagram
            }
        }
    }

    /// Decodes an answer; `None` for any other bytes (\[estimate-1\]).
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let Parts { version, kind, session, body } = parts(bytes)?;
        match kind {
            CHALLENGE if version != VERSION => Some(Self::OtherVersion { session, version }),
            _ if version != VERSION => None,
            CHALLENGE => Some(Self::Challenge { session, cookie: body.try_into().ok()? }),
            PROBE => {
                let [n0, n1, n2, n3, i0, i1, i2, i3, sent_ns @ ..]: [u8; PROBE_BYTES - HEADER_BYTES] =
                    body.try_into().ok()?;
                Some(Self::Probe(ProbeDatagram {
                    session,
                    number: u32::from_be_bytes([n0, n1, n2, n3]),
                    interval_us: u32::from_be_bytes([i0, i1, i2, i3]),
                    sent: Time::from_ns(u64::from_be_bytes(sent_ns)),
                }))
            }
            REFUSED => {
                let &[code] = body else { return None };
                Some(Self::Refused { session, reason: Reason::from_code(code) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COOKIE: Cookie = [7; COOKIE_BYTES];

    #[test]
    fn bytes_are_those_of_the_specification() {
        let probe =
            ProbeDatagram { session: 0x0102_0304_0506_0708, number: 9, interval_us: 100_000, sent: Time::from_ns(11) };
        let bytes = Answer::Probe(probe).encode();
        let expected = b"DFBE\x01\x04\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x09\0\x01\x86\xa0\0\0\0\0\0\0\0\x0b";
        assert_eq!(bytes.as_ref(), expected);
        let start = Request::Start { session: 1, interval_us: 2, cookie: COOKIE }.encode();
        let mut expected = b"DFBE\x01\x03\0\0\0\0\0\0\0\0\0\x01\0\0\0\x02".to_vec();
        expected.extend_from_slice(&COOKIE);
        expected.resize(REQUEST_BYTES, 0);
        assert_eq!(start.as_ref(), expected);
    }

    #[test]
    fn nothing_that_a_server_sends_to_strangers_is_longer_than_what_it_got() {
        let answers = [
            Answer::Challenge { session: 1, cookie: COOKIE },
            Answer::Refused { session: 1, reason: Reason::Interval },
        ];
        assert!(answers.iter().all(|answer| answer.encode().as_ref().len() < REQUEST_BYTES));
    }

    #[test]
    fn a_call_of_another_version_is_one() {
        let mut bytes = Request::Call { session: 5 }.encode().as_ref().to_vec();
        (bytes[4], bytes[40]) = (9, 1);
        assert_eq!(Request::decode(&bytes), Some(Request::Call { session: 5 }));
        let mut bytes = Request::Stop { session: 5 }.encode().as_ref().to_vec();
        bytes[4] = 9;
        assert_eq!(Request::decode(&bytes), None);
        let other = Answer::OtherVersion { session: 5, version: 9 };
        assert_eq!(Answer::decode(other.encode().as_ref()), Some(other));
    }

    fn any_datagram() -> impl Strategy<Value = Vec<u8>> {
        let header = (prop_oneof![9 => Just(1_u8), 1 => any::<u8>()], 0..8_u8, any::<u64>())
            .prop_map(|(version, kind, session)| [&MAGIC[..], &[version, kind, 0, 0], &session.to_be_bytes()].concat());
        let bodies = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..48),
            Just(vec![0; 32]),
            prop::collection::vec(any::<u8>(), 16),
            prop::collection::vec(any::<u8>(), 21).prop_map(|mut body| {
                body.resize(32, 0);
                body
            }),
            prop::collection::vec(any::<u8>(), 17),
            prop::collection::vec(any::<u8>(), 1),
        ];
        prop_oneof![
            1 => prop::collection::vec(any::<u8>(), 0..64),
            9 => (header, bodies).prop_map(|(header, body)| [header, body].concat()),
        ]
    }

    proptest! {
        #[test]
        fn what_decodes_is_encoded_to_the_same_bytes(bytes in any_datagram()) {
            if let Some(request) = Request::decode(&bytes) && bytes[4] == VERSION {
                let again = request.encode();
                prop_assert_eq!(again.as_ref(), &bytes);
            }
            match Answer::decode(&bytes) {
                Some(Answer::OtherVersion { version, .. }) => prop_assert_eq!(version, bytes[4]),
                Some(answer) => {
                    let again = answer.encode();
                    prop_assert_eq!(again.as_ref(), &bytes);
                }
                None => {}
            }
        }

        #[test]
        fn what_is_encoded_decodes(session: u64, number: u32, interval_us: u32, sent_ns: u64, cookie: Cookie, code: u8) {
            let reason = Reason::from_code(code);
            let sent = Time::from_ns(sent_ns);
            for request in [Request::Call { session }, Request::Start { session, interval_us, cookie }, Request::Stop { session }] {
                prop_assert_eq!(Request::decode(request.encode().as_ref()), Some(request));
                prop_assert_eq!(Answer::decode(request.encode().as_ref()), None);
            }
            for answer in [
                Answer::Challenge { session, cookie },
                Answer::Probe(ProbeDatagram { session, number, interval_us, sent }),
                Answer::Refused { session, reason },
            ] {
                prop_assert_eq!(Answer::decode(answer.encode().as_ref()), Some(answer));
                prop_assert_eq!(Request::decode(answer.encode().as_ref()), None);
            }
        }
    }
}
