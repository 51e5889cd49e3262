//! The payload of feedback segments (flag FBK): a report of fixed layout, then the state of the blocks from the
//! cumulative one on, which is the segment's block id: the next block needed. Oldest first and run-length coded, so
//! that a list cut at one datagram keeps what matters most. Blocks behind the list's end are not reported, which says
//! nothing about them.

use crate::bytes::{Reader, Writer};
use crate::{DecodeError, EncodeError};

/// Bytes of the report's fixed part.
pub const REPORT_BYTES: usize = 60;

/// The most symbols that an open block can miss.
pub const MISSING_MAX: u16 = 256;

/// The fixed part of a feedback payload. Every number counts the direction which the report is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Highest datagram number (S3) seen.
    pub highest_datagram: u32,
    /// Distinct valid datagrams received, control included; wraps.
    pub datagrams_received: u32,
    /// Their bytes: header, options, payload and CRC or tag.
    pub bytes_received: u64,
    /// Time from the arrival of the highest datagram to the sending of this report, in microseconds.
    pub hold_us: u32,
    /// Rate at which bytes arrive, in bits per second, as the receiver estimates it.
    pub arrival_rate_bps: u64,
    /// Blocks, from the cumulative one, which the receiver will accept.
    pub window_blocks: u32,
    /// Bytes of blocks, from the cumulative one, which the receiver will accept.
    pub window_bytes: u64,
    /// What arrived in vain.
    pub wasted: Wasted,
    /// XOR of the proofs of decoding of all blocks before the cumulative one; 0 in connections without proofs.
    pub proof_cumulative: u32,
    /// XOR of the proofs of the blocks which the list names as complete; 0 in connections without proofs. Which ones
    /// fit is known only when the list is written: [`ReportWriter::set_proof_listed`].
    pub proof_listed: u32,
}

/// Distinct data datagrams which arrived in vain, so far, by cause; each number wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wasted {
    /// Symbols which were linearly dependent on those already there.
    pub dependent: u32,
    /// Symbols of blocks which were already decoded.
    pub late: u32,
    /// Symbols for which there was no room: outside the window, or no memory.
    pub refused: u32,
}

/// The state of one open block, or of a run of blocks in the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// So many blocks are decoded.
    Complete(u32),
    /// Of so many blocks nothing has arrived.
    Empty(u32),
    /// Something of this block has arrived.
    Open {
        /// Symbols which it still needs, 1 to [`MISSING_MAX`].
        missing: u16,
    },
}

/// First byte of the two-byte entry of an open block.
const OPEN_LONG: u8 = 0x00;
/// The most missing symbols that the one-byte entry expresses.
const OPEN_SHORT_MAX: u16 = 0x7F;
const OPEN_LONG_MIN: u16 = OPEN_SHORT_MAX + 1;
const COMPLETE: u8 = 0x80;
const EMPTY: u8 = 0xC0;
const RUN_BITS: u8 = 0x3F;
/// The most blocks of one entry.
const RUN_MAX: u32 = RUN_BITS as u32 + 1;

impl Report {
    fn to_bytes(self) -> Result<[u8; REPORT_BYTES], EncodeError> {
        let mut bytes = [0; REPORT_BYTES];
        let mut writer = Writer::new(&mut bytes);
        writer.put(&self.highest_datagram.to_be_bytes())?;
        writer.put(&self.datagrams_received.to_be_bytes())?;
        writer.put(&self.bytes_received.to_be_bytes())?;
        writer.put(&self.hold_us.to_be_bytes())?;
        writer.put(&self.arrival_rate_bps.to_be_bytes())?;
        writer.put(&self.window_blocks.to_be_bytes())?;
        writer.put(&self.window_bytes.to_be_bytes())?;
        writer.put(&self.wasted.dependent.to_be_bytes())?;
        writer.put(&self.wasted.late.to_be_bytes())?;
        writer.put(&self.wasted.refused.to_be_bytes())?;
        writer.put(&self.proof_cumulative.to_be_bytes())?;
        writer.put(&self.proof_listed.to_be_bytes())?;
        Ok(bytes)
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            highest_datagram: u32::from_be_bytes(reader.array()?),
            datagrams_received: u32::from_be_bytes(reader.array()?),
            bytes_received: u64::from_be_bytes(reader.array()?),
            hold_us: u32::from_be_bytes(reader.array()?),
            arrival_rate_bps: u64::from_be_bytes(reader.array()?),
            window_blocks: u32::from_be_bytes(reader.array()?),
            window_bytes: u64::from_be_bytes(reader.array()?),
            wasted: Wasted {
                dependent: u32::from_be_bytes(reader.array()?),
                late: u32::from_be_bytes(reader.array()?),
                refused: u32::from_be_bytes(reader.array()?),
            },
            proof_cumulative: u32::from_be_bytes(reader.array()?),
            proof_listed: u32::from_be_bytes(reader.array()?),
        })
    }
}

/// Writes a feedback payload in place.
#[derive(Debug)]
pub struct ReportWriter<'a> {
    fixed: &'a mut [u8; REPORT_BYTES],
    /// The list alone.
    writer: Writer<'a>,
    /// Kind bits of the last entry if it is a run: such a run may grow.
    last_run: Option<u8>,
    /// Whether an entry was left out: a later one would then be taken for another block's.
    cut: bool,
}

impl<'a> ReportWriter<'a> {
    /// Starts a payload in `out`, whose length limits the list of runs.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`] if `out` cannot hold the fixed part.
    pub fn new(out: &'a mut [u8], report: &Report) -> Result<Self, EncodeError> {
        let have = out.len();
        let Some((fixed, list)) = out.split_first_chunk_mut() else {
            return Err(EncodeError::BufferTooSmall { have, need: REPORT_BYTES });
        };
        *fixed = report.to_bytes()?;
        Ok(Self { fixed, writer: Writer::new(list), last_run: None, cut: false })
    }

    /// Replaces the report's [`proof_listed`](Report::proof_listed), now that the list is known: with the proofs of those
    /// complete blocks for which [`push`](Self::push) has returned true, each pushed as a run of its own.
    pub const fn set_proof_listed(&mut self, proof_listed: u32) {
        let [.., a, b, c, d] = &mut *self.fixed;
        [*a, *b, *c, *d] = proof_listed.to_be_bytes();
    }

    /// Appends the state of the next block or blocks; a run that continues the last one is merged into it.
    ///
    /// `false` means: stop, nothing more will be written. Either the buffer is full, and of a long run the list then
    /// holds the part which fitted; or `missing` is not between 1 and [`MISSING_MAX`], and nothing was written.
    #[must_use = "after false nothing more is written"]
    pub fn push(&mut self, run: Run) -> bool {
        let complete = !self.cut
            && match run {
                Run::Complete(blocks) => self.push_run(COMPLETE, blocks),
                Run::Empty(blocks) => self.push_run(EMPTY, blocks),
                Run::Open { missing } => self.push_open(missing),
            };
        self.cut = !complete;
        complete
    }

    /// The payload's length.
    #[must_use]
    pub const fn finish(self) -> usize {
        REPORT_BYTES + self.writer.len()
    }

    fn push_open(&mut self, missing: u16) -> bool {
        let written = match missing {
            1..=OPEN_SHORT_MAX => self.writer.put(&[missing as u8]),
            OPEN_LONG_MIN..=MISSING_MAX => self.writer.put(&[OPEN_LONG, (missing - 1) as u8]),
            _ => return false,
        };
        self.last_run = None;
        written.is_ok()
    }

    fn push_run(&mut self, kind: u8, blocks: u32) -> bool {
        let mut left = blocks;
        if self.last_run == Some(kind)
            && let Some(entry) = self.writer.last_mut()
        {
            let room = RUN_BITS - (*entry & RUN_BITS);
            let more = left.min(u32::from(room));
            *entry += more as u8;
            left -= more;
        }
        while left > 0 {
            let run = left.min(RUN_MAX);
            if self.writer.put(&[kind | (run - 1) as u8]).is_err() {
                return false;
            }
            self.last_run = Some(kind);
            left -= run;
        }
        true
    }
}

/// The entries of a decoded feedback payload, oldest block first, one [`Run`] per entry. A long run may come in several
/// pieces.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    entries: Reader<'a>,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let [entry] = self.entries.array()?;
        let blocks = u32::from(entry & RUN_BITS) + 1;
        match entry {
            OPEN_LONG => {
                let [missing_minus_1] = self.entries.array()?;
                Some(Run::Open { missing: u16::from(missing_minus_1) + 1 })
            }
            COMPLETE..EMPTY => Some(Run::Complete(blocks)),
            EMPTY.. => Some(Run::Empty(blocks)),
            missing => Some(Run::Open { missing: u16::from(missing) }),
        }
    }
}

/// Reads a feedback payload. All of it is validated here, so the iterator cannot fail.
///
/// # Errors
/// [`DecodeError::ReportTooShort`] or [`DecodeError::ReportEntryTruncated`].
pub fn decode(payload: &[u8]) -> Result<(Report, Runs<'_>), DecodeError> {
    let mut reader = Reader::new(payload);
    let Some(report) = Report::read(&mut reader) else {
        return Err(DecodeError::ReportTooShort { bytes: payload.len() });
    };
    let runs = Runs { entries: reader };
    while let Some([entry]) = reader.array() {
        if entry == OPEN_LONG && reader.array::<1>().is_none() {
            return Err(DecodeError::ReportEntryTruncated { offset: payload.len() - 1 });
        }
    }
    Ok((report, runs))
}
