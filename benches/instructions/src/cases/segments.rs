//! Cases of encoding and decoding segments and reports.

use std::hint::black_box;

use anyhow::{Context, Result, bail, ensure};
use dfcp_wire::feedback::{self, Record, Report, ReportWriter, Run, StreamState, Wasted};
use dfcp_wire::segment::{Address, Data, Envelope, KeyEpoch, Segment};
use dfcp_wire::{
    BlockInfo, DATAGRAM_BYTES_MAX, DatagramBuffer, Finished, Fragment, StreamId, StreamLimits, Unverified,
};

use super::{Case, counted, random_bytes};

const REPETITIONS: u64 = 2_000;
const PAYLOAD_BYTES: usize = 1_420;
/// List of blocks in a report from a path with losses.
const RUNS: [Run; 12] = [
    Run::Open { missing: 3 },
    Run::Complete(1),
    Run::Open { missing: 1 },
    Run::Open { missing: 130 },
    Run::Complete(7),
    Run::Open { missing: 12 },
    Run::Complete(1),
    Run::Open { missing: 9 },
    Run::Empty(2),
    Run::Open { missing: 45 },
    Run::Complete(90),
    Run::Empty(256),
];

const fn case(name: &'static str, unit: &'static str, what: &'static str, run: fn(u64) -> Result<()>) -> Case {
    Case { name, unit, what, repetitions: REPETITIONS, parts: &[], run }
}

pub(super) const CASES: &[Case] = &[
    case("header-write", "datagram", "header of a sealed data segment, written", write_headers),
    case("header-read", "datagram", "the same, read and checked", read_headers),
    case("segment-write", "datagram", "data segment of 1420 bytes without seal: header, copy and CRC", write_segments),
    case("segment-read", "datagram", "the same, read and its CRC verified", read_segments),
    case("report-write", "report", "report with a list of 12 entries, written", write_reports),
    case("report-read", "report", "the same, read with its list", read_reports),
];

fn data(number: u64) -> Segment {
    let block = BlockInfo { k: 45, length_bytes: 45 * PAYLOAD_BYTES as u32, end_of_stream: false };
    let number = number as u32;
    let (block_id, esi) = (number / 45, number % 45);
    Segment::Data(Data { stream: StreamId::FIRST, block_id, esi, block, fragment: Fragment::WHOLE })
}

fn envelope(number: u64, sealed: bool) -> Envelope {
    let seal = sealed.then_some(KeyEpoch::of(0));
    Envelope { address: Address::Connection(0x1234_5678), number: number as u32, seal }
}

/// Encodes an unencrypted data segment with this payload; returns the datagram's length.
fn write_segment(number: u64, payload: &[u8], out: &mut DatagramBuffer) -> Result<usize> {
    let mut draft = black_box(data(number)).begin(&black_box(envelope(number, false)), out);
    draft.payload(payload.len())?.copy_from_slice(payload);
    let Finished::Complete(length) = draft.finish() else { bail!("it has no seal") };
    Ok(length)
}

fn write_headers(repetitions: u64) -> Result<()> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    counted(|| {
        for number in 0..repetitions {
            let mut draft = black_box(data(number)).begin(&black_box(envelope(number, true)), &mut out);
            draft.payload(PAYLOAD_BYTES)?;
            let Finished::ToSeal(datagram) = draft.finish() else { bail!("it has a seal") };
            black_box(datagram);
        }
        Ok(())
    })
}

fn read_headers(repetitions: u64) -> Result<()> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let mut draft = data(7).begin(&envelope(7, true), &mut out);
    draft.payload(PAYLOAD_BYTES)?;
    let Finished::ToSeal(datagram) = draft.finish() else { bail!("it has a seal") };
    let length = datagram.datagram_bytes();
    counted(|| {
        for _ in 0..repetitions {
            let datagram = black_box(&mut out[..length]);
            let Unverified::Sealed(header) = Unverified::read(datagram)? else { bail!("it has a seal") };
            let (head, sealed) = header.split(datagram)?;
            black_box((head, header.opened(head, sealed)?));
        }
        Ok(())
    })
}

fn write_segments(repetitions: u64) -> Result<()> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let payload = random_bytes(2, PAYLOAD_BYTES);
    counted(|| {
        for number in 0..repetitions {
            black_box(write_segment(number, black_box(&payload), &mut out)?);
            black_box(&mut out);
        }
        Ok(())
    })
}

fn read_segments(repetitions: u64) -> Result<()> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let payload = random_bytes(2, PAYLOAD_BYTES);
    let length = write_segment(7, &payload, &mut out)?;
    counted(|| {
        for _ in 0..repetitions {
            let datagram = black_box(&out[..length]);
            let Unverified::Clear(header) = Unverified::read(datagram)? else { bail!("it has no seal") };
            black_box(header.verify(datagram)?);
        }
        Ok(())
    })
}

fn report(number: u64) -> Report {
    Report {
        highest_datagram: number as u32,
        datagrams_received: number as u32,
        bytes_received: number * 1_460,
        hold_us: 17,
        arrival_rate_bps: 1_000_000_000,
        memory_kib: 30_000,
        streams: StreamLimits::default(),
        wasted: Wasted { dependent: 1, late: 2, refused: 3 },
    }
}

fn write_report(number: u64, out: &mut [u8]) -> Result<usize> {
    let mut writer = ReportWriter::new(out, &report(number))?;
    let state = StreamState {
        stream: StreamId::FIRST,
        next_needed: number as u32,
        blocks_read: number as u32,
        kib_read: number as u32,
        proof_cumulative: 0x0102_0304,
        proof_listed: 0,
    };
    let mut record = writer.stream(&black_box(state)).context("there is room for a stream")?;
    for run in black_box(RUNS) {
        ensure!(record.push(run), "there is room for the list");
    }
    record.set_proof_listed(5);
    record.finish();
    Ok(writer.finish())
}

fn write_reports(repetitions: u64) -> Result<()> {
    let mut out = [0; PAYLOAD_BYTES];
    counted(|| {
        for number in 0..repetitions {
            black_box(write_report(number, &mut out)?);
            black_box(&mut out);
        }
        Ok(())
    })
}

fn read_reports(repetitions: u64) -> Result<()> {
    let mut out = [0; PAYLOAD_BYTES];
    let length = write_report(9, &mut out)?;
    counted(|| {
        for _ in 0..repetitions {
            let (report, records) = feedback::decode(black_box(&out[..length]))?;
            black_box(report);
            for record in records {
                let Record::Stream(state, runs) = record else { bail!("it is a stream's") };
                black_box(state);
                runs.for_each(|run| _ = black_box(run));
            }
        }
        Ok(())
    })
}
