//! Records of arrivals besides their counts: earlier marks of the receiver's clock, ECN, and the datagrams which did not
//! arrive. Each is a feature; `spec/wire-format.md` §9 has the fields.

use crate::DecodeError;
use crate::bytes::Reader;
use crate::sizes::{LOSS_RUNS_MAX, MARKS_MAX};

/// Bytes of a [`Mark`].
pub(super) const MARK_BYTES: usize = 9;
/// The most bytes of a [`LossRun`].
pub(super) const LOSS_RUN_BYTES_MAX: usize = 16;
/// Bytes of [`EcnCounts`].
pub(super) const ECN_BYTES: usize = 8;
const BITS_24: u32 = (1 << 24) - 1;

/// The state of arrivals at an earlier moment, counted back from the arrival of the report's highest datagram. Each number is
/// below 2²⁴.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// Microseconds before that arrival; not 0.
    pub back_us: u32,
    /// Difference by which the highest datagram's number was lower.
    pub numbers_back: u32,
    /// Difference by which the number of datagrams received was lower.
    pub received_back: u32,
}

/// The marks of a report, newest first.
#[derive(Clone, Debug)]
pub struct Marks<'a>(Reader<'a>);

impl Mark {
    /// `None` if a number does not fit.
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

    /// True if a mark may stand behind `newer`: it is earlier, and neither number was higher then.
    const fn may_follow(&self, newer: &Self) -> bool {
        self.back_us > newer.back_us
            && self.numbers_back >= newer.numbers_back
            && self.received_back >= newer.received_back
    }
}

impl<'a> Marks<'a> {
    /// Validates all of them.
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

/// Distinct datagrams by what the ECN field of their IP packets said (RFC 3168 §5); each number wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// Arrived with CE: a queue on the path has marked them.
    pub ce: u32,
    /// Arrived with ECT(0) or ECT(1). Fewer than were sent so, less those with CE, show that the path clears the field.
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

/// Datagrams which did not arrive one after the other. Numbers which the sender skipped are among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossRun {
    /// Number of arrivals above the lost ones: up to the report's highest datagram, which is included, or up to the run before. At
    /// least 1.
    pub gap: u32,
    /// Number of lost datagrams, at least 1.
    pub length: u32,
}

/// The loss runs of a report, newest first: numbers count down from the report's highest datagram.
#[derive(Clone, Debug)]
pub struct LossRuns<'a>(Reader<'a>);

impl LossRun {
    /// The run in the fewest bytes, at the front of the array, and how many; `None` for one that cannot be.
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
    /// Validates all of them.
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
            // Each is below 2⁶², so that three of them do not overflow.
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

/// An integer of RFC 9000 §16 in the fewest bytes, at the front of the array, and how many.
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

/// The next integer of RFC 9000 §16, whether it has the fewest bytes or not.
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
        // RFC 9000 §A.1.
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
