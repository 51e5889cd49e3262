//! Records about arrivals in addition to the report's counters: earlier marks of the receiver's clock, ECN counts, and
//! lost datagrams. Each record is an optional feature; `spec/wire-format.md` §9 defines the fields.

use crate::DecodeError;
use crate::bytes::Reader;
use crate::sizes::{LOSS_RUNS_MAX, MARKS_MAX};

/// Length of an encoded [`Mark`], bytes.
pub(super) const MARK_BYTES: usize = 9;
/// Maximum length of an encoded [`LossRun`], bytes.
pub(super) const LOSS_RUN_BYTES_MAX: usize = 16;
/// Length of encoded [`EcnCounts`], bytes.
pub(super) const ECN_BYTES: usize = 8;
const BITS_24: u32 = (1 << 24) - 1;

/// State of arrivals at an earlier time, relative to the arrival of the report's highest datagram. Each number is below
/// 2²⁴.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// Time before the arrival of the report's highest datagram, µs; not 0.
    pub back_us: u32,
    /// Amount by which the highest datagram number was lower at that time.
    pub numbers_back: u32,
    /// Amount by which the count of received datagrams was lower at that time.
    pub received_back: u32,
}

/// Marks of a report, newest first.
#[derive(Clone, Debug)]
pub struct Marks<'a>(Reader<'a>);

impl Mark {
    /// Encodes the mark; `None` if a number does not fit into 24 bits.
    pub(super) fn to_bytes(self) -> Option<[u8; MARK_BYTES]> {
        let mut bytes = [0; MARK_BYTES];
        let numbers = [self.back_us, self.numbers_back, self.received_back];
        for (place, number) in bytes.as_chunks_mut::<3>().0.iter_mut().zip(numbers) {
            if number > BITS_24 {
                return None;
            }
            let [_, a, b, c] = number.to_be_bytes();
            *place = [a, b, c];
        }
        Some(bytes)
    }

    /// Returns true if this mark may follow `newer`: it is earlier, and neither count was higher.
    const fn may_follow(&self, newer: &Self) -> bool {
        self.back_us > newer.back_us
            && self.numbers_back >= newer.numbers_back
            && self.received_back >= newer.received_back
    }
}

impl<'a> Marks<'a> {
    /// Validates and reads all marks.
    pub(super) fn read(kind: u8, value: &'a [u8]) -> Result<Self, DecodeError> {
        let whole = value.len().is_multiple_of(MARK_BYTES);
        if !whole || value.is_empty() || value.len() > MARKS_MAX * MARK_BYTES {
            return Err(DecodeError::RecordLength { kind, bytes: value.len() });
        }
        let marks = Self(Reader::new(value));
        let mut newer = Mark::default();
        for mark in marks.clone() {
            if !mark.may_follow(&newer) {
                return Err(DecodeError::RecordValue { kind, what: "a mark is not earlier than the one before" });
            }
            newer = mark;
        }
        Ok(marks)
    }
}

impl Iterator for Marks<'_> {
    type Item = Mark;

    fn next(&mut self) -> Option<Mark> {
        let mut number = || self.0.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]));
        Some(Mark { back_us: number()?, numbers_back: number()?, received_back: number()? })
    }
}

/// Counters of distinct datagrams by the ECN field of their IP packets (RFC 3168 §5). Each counter wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// Datagrams that arrived with CE: a queue on the path has marked them.
    pub ce: u32,
    /// Datagrams that arrived with ECT(0) or ECT(1). The path clears the field if `ect` and `ce` together are below the
    /// number of arrived datagrams that were sent with ECT.
    pub ect: u32,
}

impl EcnCounts {
    pub(super) const fn to_bytes(self) -> [u8; ECN_BYTES] {
        ((self.ce as u64) << 32 | self.ect as u64).to_be_bytes()
    }

    pub(super) fn read(kind: u8, value: &[u8]) -> Result<Self, DecodeError> {
        let bytes = value.try_into().map_err(|_| DecodeError::RecordLength { kind, bytes: value.len() })?;
        let both = u64::from_be_bytes(bytes);
        Ok(Self { ce: (both >> 32) as u32, ect: both as u32 })
    }
}

/// A run of consecutive lost datagrams, including numbers that the sender skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossRun {
    /// Number of received datagrams directly above the run, up to the report's highest datagram (inclusive) or up to
    /// the previous run. At least 1.
    pub gap: u32,
    /// Number of lost datagrams in the run, at least 1.
    pub length: u32,
}

/// Loss runs of a report, newest first: numbers count down from the report's highest datagram.
#[derive(Clone, Debug)]
pub struct LossRuns<'a>(Reader<'a>);

impl LossRun {
    /// Returns the shortest encoding, at the front of the array, and its length; `None` for an invalid run.
    pub(super) fn to_bytes(self) -> Option<([u8; LOSS_RUN_BYTES_MAX], usize)> {
        let mut bytes = [0; LOSS_RUN_BYTES_MAX];
        let mut len = 0;
        for number in [self.gap, self.length] {
            if number == 0 {
                return None;
            }
            let (encoded, count) = encode_integer(number);
            bytes.get_mut(len..len + count)?.copy_from_slice(encoded.get(..count)?);
            len += count;
        }
        Some((bytes, len))
    }
}

impl<'a> LossRuns<'a> {
    /// Validates and reads all runs.
    pub(super) fn read(kind: u8, value: &'a [u8]) -> Result<Self, DecodeError> {
        let refused = |what| Err(DecodeError::RecordValue { kind, what });
        let mut reader = Reader::new(value);
        let (mut runs, mut span) = (0, 0_u64);
        while reader.left() > 0 {
            let (Some(gap), Some(length)) = (decode_integer(&mut reader), decode_integer(&mut reader)) else {
                return refused("its last loss run is cut");
            };
            runs += 1;
            if runs > LOSS_RUNS_MAX {
                return refused("it has too many loss runs");
            }
            if gap == 0 || length == 0 {
                return refused("a gap or a loss run has no datagrams");
            }
            // Each number is below 2⁶², so a sum of three cannot overflow.
            span += gap + length;
            if span > u64::from(u32::MAX) {
                return refused("its loss runs reach back further than datagram numbers do");
            }
        }
        Ok(Self(Reader::new(value)))
    }
}

impl Iterator for LossRuns<'_> {
    type Item = LossRun;

    fn next(&mut self) -> Option<LossRun> {
        let mut number = || decode_integer(&mut self.0).and_then(|number| u32::try_from(number).ok());
        Some(LossRun { gap: number()?, length: number()? })
    }
}

/// Returns the shortest encoding of a variable-length integer (RFC 9000 §16), at the front of the array, and its
/// length.
fn encode_integer(number: u32) -> ([u8; 8], usize) {
    let number = u64::from(number);
    let (exponent, count) = match number {
        0..0x40 => (0, 1),
        0x40..0x4000 => (1, 2),
        0x4000..0x4000_0000 => (2, 4),
        _ => (3, 8),
    };
    let bits = 8 * count as u32;
    ((number << (64 - bits) | exponent << 62).to_be_bytes(), count)
}

/// Decodes the next variable-length integer (RFC 9000 §16), in any of its lengths.
fn decode_integer(reader: &mut Reader<'_>) -> Option<u64> {
    let [first] = reader.array()?;
    let more = (1 << (first >> 6)) - 1;
    let head = u64::from(first & 0x3F);
    Some(reader.take(more)?.iter().fold(head, |number, &byte| number << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::{Reader, decode_integer, encode_integer};

    #[test]
    fn integers_are_those_of_rfc_9000() {
        // Samples from RFC 9000 §A.1.
        let samples: [(&[u8], u64); 5] = [
            (&[0xC2, 0x19, 0x7C, 0x5E, 0xFF, 0x14, 0xE8, 0x8C], 151_288_809_941_952_652),
            (&[0x9D, 0x7F, 0x3E, 0x7D], 494_878_333),
            (&[0x7B, 0xBD], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, number) in samples {
            assert_eq!(decode_integer(&mut Reader::new(bytes)), Some(number));
            assert_eq!(decode_integer(&mut Reader::new(&bytes[..bytes.len() - 1])), None);
        }
        for number in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, u32::MAX] {
            let (bytes, count) = encode_integer(number);
            assert_eq!(decode_integer(&mut Reader::new(&bytes[..count])), Some(number.into()), "{number}");
        }
        assert_eq!([63, 64, 16_383, 16_384, 1 << 30].map(|number| encode_integer(number).1), [1, 2, 2, 4, 8]);
    }
}
