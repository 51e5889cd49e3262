//! Receivers that send false reports. Every value that a plaintext connection cannot prove is falsified before
//! departure.

use dfcp_wire::feedback::{REPORT_BYTES, Report, ReportWriter, decode};
use dfcp_wire::segment::{Address, Received, Segment};
use dfcp_wire::{DatagramBuffer, Unverified};

/// Falsification of a receiver's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Data is claimed to arrive four times as fast as it does.
    Arrivals,
    /// Half of the arrivals are claimed to be lost.
    Losses,
}

/// Factor by which the claimed arrival rate exceeds the true one.
const FASTER: u32 = 4;
/// Type of the record that contains marks (`spec/wire-format.md` §9).
const MARKS: u8 = 4;
const MARK_BYTES: usize = 9;

impl Lie {
    /// Falsifies the datagram in the first `length` bytes of `datagram` if it is a report. Its length does not change.
    pub(crate) fn tell(self, datagram: &mut [u8], length: usize) {
        let Some(lied) = datagram.get(..length).and_then(|honest| self.lied(honest)) else { return };
        datagram[..length].copy_from_slice(&lied[..length]);
    }

    /// Returns a falsified copy of the report `honest`; `None` if the datagram is no report.
    fn lied(self, honest: &[u8]) -> Option<DatagramBuffer> {
        let Ok(Unverified::Clear(clear)) = Unverified::read(honest) else { return None };
        let Ok(Received { segment: segment @ Segment::Report(_), number, payload }) = clear.verify(honest) else {
            return None;
        };
        let (report, _) = decode(payload).ok()?;
        let mut lied = [0; dfcp_wire::DATAGRAM_BYTES_MAX];
        let mut draft = segment.begin_clear(Address::Connection(clear.connection_id()), number, &mut lied);
        let place = draft.payload(payload.len()).ok()?;
        place.copy_from_slice(payload);
        let (fixed, records) = place.split_at_mut_checked(REPORT_BYTES)?;
        ReportWriter::new(fixed, &self.of_report(&report)).ok()?;
        self.of_records(records);
        (draft.finish() == honest.len()).then_some(lied)
    }

    fn of_report(self, report: &Report) -> Report {
        match self {
            Self::Arrivals => {
                Report { arrival_rate_bps: report.arrival_rate_bps.saturating_mul(FASTER.into()), ..*report }
            }
            Self::Losses => Report { datagrams_received: report.datagrams_received / 2, ..*report },
        }
    }

    /// Falsifies the marks in the records of a report. Each record consists of type, length and value.
    fn of_records(self, mut records: &mut [u8]) {
        while let Some(([kind, high, low], rest)) = records.split_first_chunk_mut::<3>() {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let Some((value, after)) = rest.split_at_mut_checked(length) else { return };
            if *kind == MARKS {
                self.of_marks(value);
            }
            records = after;
        }
    }

    /// Falsifies the marks of a report. A mark consists of three 24-bit numbers: how much earlier it was, and how many
    /// datagram numbers and how many arrivals lie in between. Each mark must be earlier than the previous mark in the
    /// report.
    fn of_marks(self, marks: &mut [u8]) {
        let mut newer_us = 0;
        for mark in marks.as_chunks_mut::<MARK_BYTES>().0 {
            let number = |bytes: &[u8]| bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
            let (back_us, received_back) = (number(&mark[..3]), number(&mark[6..]));
            match self {
                Self::Arrivals => {
                    newer_us = (back_us / FASTER).max(newer_us + 1);
                    mark[..3].copy_from_slice(&newer_us.to_be_bytes()[1..]);
                }
                Self::Losses => mark[6..].copy_from_slice(&(received_back / 2).to_be_bytes()[1..]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dfcp_wire::feedback::{Mark, Record};
    use dfcp_wire::segment::ReportHeader;

    use super::*;

    const HONEST: Report = Report {
        highest_datagram: 1_000,
        datagrams_received: 901,
        arrival_rate_bps: 5_000_000,
        bytes_received: 7,
        hold_us: 3,
        memory_kib: 9,
        streams: dfcp_wire::StreamLimits { bidirectional: 1, one_way: 2 },
        wasted: dfcp_wire::feedback::Wasted { dependent: 4, late: 5, refused: 6 },
    };

    /// Returns a report with two marks and a record of another type.
    fn honest() -> (DatagramBuffer, usize) {
        let mut datagram = [0; dfcp_wire::DATAGRAM_BYTES_MAX];
        let segment = Segment::Report(ReportHeader { receive_queue_kib: 0 });
        let mut draft = segment.begin_clear(Address::Connection(77), 5, &mut datagram);
        let mut payload = vec![0; REPORT_BYTES];
        ReportWriter::new(&mut payload, &HONEST).unwrap();
        payload.extend([3, 0, 4, 0, 1, 2, 3]);
        payload.extend([MARKS, 0, 18, 0, 0, 2, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 0, 8]);
        draft.payload(payload.len()).unwrap().copy_from_slice(&payload);
        let length = draft.finish();
        (datagram, length)
    }

    fn told(lie: Lie) -> (Report, Vec<Mark>) {
        let (mut datagram, length) = honest();
        lie.tell(&mut datagram, length);
        let Ok(Unverified::Clear(clear)) = Unverified::read(&datagram[..length]) else { panic!("it is clear") };
        let received = clear.verify(&datagram[..length]).unwrap();
        assert_eq!((clear.connection_id(), received.number), (77, 5));
        let (report, records) = decode(received.payload).unwrap();
        let mut marks = Vec::new();
        for record in records {
            match record {
                Record::Marks(all) => marks.extend(all),
                other => assert!(matches!(other, Record::ArrivalClock(0x0001_0203)), "{other:?}"),
            }
        }
        (report, marks)
    }

    #[test]
    fn a_lie_changes_what_it_is_about_and_nothing_else() {
        let mark = |back_us, numbers_back, received_back| Mark { back_us, numbers_back, received_back };
        let (report, marks) = told(Lie::Arrivals);
        assert_eq!(report, Report { arrival_rate_bps: 20_000_000, ..HONEST });
        assert_eq!(marks, [mark(1, 1, 1), mark(64, 9, 8)]);
        let (report, marks) = told(Lie::Losses);
        assert_eq!(report, Report { datagrams_received: 450, ..HONEST });
        assert_eq!(marks, [mark(2, 1, 0), mark(256, 9, 4)]);
    }

    #[test]
    fn what_is_no_report_stays() {
        let (honest, length) = honest();
        let mut broken = honest;
        broken[30] ^= 1;
        let before = broken;
        Lie::Losses.tell(&mut broken, length);
        assert_eq!(broken, before);
        let mut short = [1_u8; 3];
        Lie::Losses.tell(&mut short, 3);
        assert_eq!(short, [1; 3]);
    }
}
