//! List of block states of a stream, from the first incomplete block on, oldest first and run-length coded. A list cut
//! at the datagram's end keeps its most important part. Blocks beyond the end of the list are unreported: the report
//! does not state whether they arrived.

use crate::bytes::{Reader, Writer};

/// Maximum number of missing symbols of an open block.
pub const MISSING_MAX: u16 = 256;

/// State of one open block, or of a run of blocks in the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// Number of decoded blocks.
    Complete(u32),
    /// Number of blocks of which no symbol has arrived.
    Empty(u32),
    /// One block of which some symbols have arrived.
    Open {
        /// Number of missing symbols, 1 to [`MISSING_MAX`].
        missing: u16,
    },
}

/// First byte of a two-byte entry for an open block.
const OPEN_LONG: u8 = 0x00;
/// Maximum number of missing symbols in a one-byte entry.
const OPEN_SHORT_MAX: u16 = 0x7F;
const OPEN_LONG_MIN: u16 = OPEN_SHORT_MAX + 1;
pub(super) const COMPLETE: u8 = 0x80;
pub(super) const EMPTY: u8 = 0xC0;
pub(super) const RUN_BITS: u8 = 0x3F;
/// Maximum number of blocks in one entry.
const RUN_MAX: u32 = RUN_BITS as u32 + 1;

/// In-place writer of a list.
#[derive(Debug)]
pub(super) struct RunWriter<'a> {
    writer: Writer<'a>,
    /// Kind bits of the last entry if it is a run, to which further blocks may be added.
    last_run: Option<u8>,
    /// True after an entry was omitted: a later entry would be read as the state of the omitted block.
    cut: bool,
}

impl<'a> RunWriter<'a> {
    pub(super) const fn new(out: &'a mut [u8]) -> Self {
        Self { writer: Writer::new(out), last_run: None, cut: false }
    }

    /// Returns the number of bytes written.
    pub(super) const fn len(&self) -> usize {
        self.writer.len()
    }

    /// Appends an entry; see [`StreamRecordWriter::push`](super::StreamRecordWriter::push).
    pub(super) fn push(&mut self, run: Run) -> bool {
        let complete = !self.cut
            && match run {
                Run::Complete(blocks) => self.push_run(COMPLETE, blocks),
                Run::Empty(blocks) => self.push_run(EMPTY, blocks),
                Run::Open { missing } => self.push_open(missing),
            };
        self.cut = !complete;
        complete
    }

    /// Appends an entry of a length byte and `bytes`: the symbols of a message. Returns false like
    /// [`push`](Self::push).
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) -> bool {
        let complete = !self.cut && self.writer.left() > bytes.len() && {
            self.last_run = None;
            self.writer.put(&[(bytes.len() - 1) as u8]).is_ok() && self.writer.put(bytes).is_ok()
        };
        self.cut = !complete;
        complete
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

/// Iterator over a stream's list, oldest block first: one [`Run`] per entry. A long run may be split into several
/// entries.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    entries: Reader<'a>,
}

impl<'a> Runs<'a> {
    /// Reads a list; `None` if its last entry lacks the second byte.
    pub(super) fn read(list: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(list);
        let runs = Self { entries: reader };
        while let Some([entry]) = reader.array() {
            if entry == OPEN_LONG {
                reader.array::<1>()?;
            }
        }
        Some(runs)
    }
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
