//! Segments and reports to and from bytes.

use std::hint::black_box;

use anyhow::{Result, ensure};
use dfcp_wire::feedback::{self, Report, ReportWriter, Run, Wasted};
use dfcp_wire::{BlockInfo, DATAGRAM_BYTES_MAX, Flags, Header, Options, Segment, finish, write_header};

use super::{Case, counted, random_bytes};

const REPETITIONS: u64 = 2_000;
const PAYLOAD_BYTES: usize = 1_420;
/// What the list of a report from a path with losses is like.
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

fn header(number: u64, sealed: bool) -> Header {
    let flags = if sealed { Flags::SEC } else { Flags::default() };
    let info = BlockInfo { k: 45, length_bytes: 45 * PAYLOAD_BYTES as u32, end_of_stream: false };
    let number = number as u32;
    Header { block_id: number / 45, s1: number % 45, s2: info.to_s2(), s3: number, ..Header::modern(flags) }
        .with_connection_id(0x1234_5678)
}

fn write_headers(repetitions: u64) -> Result<()> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    counted(|| {
        for number in 0..repetitions {
            let start = write_header(&mut out, &black_box(header(number, true)), &Options::default())?;
            finish(&mut out, start + PAYLOAD_BYTES)?;
            black_box(&mut out);
        }
        Ok(())
    })
}

fn read_headers(repetitions: u64) -> Result<()> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let payload = random_bytes(2, PAYLOAD_BYTES + 16);
    let length = dfcp_wire::encode(&mut out, &header(7, true), &Options::default(), &payload)?;
    counted(|| {
        for _ in 0..repetitions {
            black_box(Segment::decode(black_box(&out[..length]))?);
        }
        Ok(())
    })
}

fn write_segments(repetitions: u64) -> Result<()> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let payload = random_bytes(2, PAYLOAD_BYTES);
    counted(|| {
        for number in 0..repetitions {
            dfcp_wire::encode(&mut out, &header(number, false), &Options::default(), black_box(&payload))?;
            black_box(&mut out);
        }
        Ok(())
    })
}

fn read_segments(repetitions: u64) -> Result<()> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let payload = random_bytes(2, PAYLOAD_BYTES);
    let length = dfcp_wire::encode(&mut out, &header(7, false), &Options::default(), &payload)?;
    counted(|| {
        for _ in 0..repetitions {
            black_box(Segment::decode(black_box(&out[..length]))?);
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
        window_blocks: 4_096,
        window_bytes: 30_000_000,
        wasted: Wasted { dependent: 1, late: 2, refused: 3 },
        proof_cumulative: 0x0102_0304,
        proof_listed: 0x0506_0708,
    }
}

fn write_report(number: u64, out: &mut [u8]) -> Result<usize> {
    let mut writer = ReportWriter::new(out, &report(number))?;
    for run in black_box(RUNS) {
        ensure!(writer.push(run), "there is room for the list");
    }
    writer.set_proof_listed(5);
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
            let (report, runs) = feedback::decode(black_box(&out[..length]))?;
            black_box(report);
            runs.for_each(|run| _ = black_box(run));
        }
        Ok(())
    })
}
