//! What is known of each message by its id, and what reports say of it (`spec/protocol.md` \[message-8\], \[message-9\]).

use std::collections::VecDeque;

use dfcp_wire::feedback::{MessageRun, ReportWriter, SymbolSet};

use crate::limits::MESSAGE_IDS_MAX;

/// Each change is told in this number of reports.
const TELLINGS: u8 = 3;
/// The most that the symbols of one message take in a report.
const SYMBOLS_BYTES_MAX: usize = 1 + dfcp_wire::MESSAGE_SYMBOLS_MAX as usize / 8;

/// What has come of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    Empty,
    /// Symbols, and too few.
    Partial,
    /// All of it, with this proof.
    Complete { proof: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// In how many reports the present state is still to be told.
    owed: u8,
}

/// The states of the newest [`MESSAGE_IDS_MAX`] ids.
#[derive(Debug, Default)]
pub(super) struct States {
    /// The id of the first entry; ids below are forgotten.
    first: u64,
    entries: VecDeque<Entry>,
    /// No entry before this place owes anything.
    owing_from: usize,
    is_owing: bool,
}

/// What of a message's symbols has come, for a report.
pub(super) struct Named<'a> {
    pub(super) bits: &'a [u8],
    /// XOR of the secrets of these symbols.
    pub(super) proof: u32,
}

impl States {
    /// The state of a message; `None` if it is too old to be remembered. A new one makes room for itself, and all ids below it.
    pub(super) fn get(&mut self, id: u32) -> Option<State> {
        let id = u64::from(id);
        let end = self.first + self.entries.len() as u64;
        if id >= end {
            self.extend_to(id);
        }
        let at = id.checked_sub(self.first)? as usize;
        self.entries.get(at).map(|entry| entry.state)
    }

    fn extend_to(&mut self, id: u64) {
        let keep_from = (id + 1).saturating_sub(MESSAGE_IDS_MAX as u64);
        let end = self.first + self.entries.len() as u64;
        if keep_from >= end {
            self.entries.clear();
            self.first = keep_from;
            self.owing_from = 0;
        }
        while self.first < keep_from {
            self.entries.pop_front();
            self.first += 1;
            self.owing_from = self.owing_from.saturating_sub(1);
        }
        let count = (id + 1 - self.first) as usize;
        self.entries.resize(count, Entry { state: State::Empty, owed: 0 });
    }

    /// Ids that the peer has begun, as far as is known.
    pub(super) fn begun(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The message has this state now.
    pub(super) fn set(&mut self, id: u32, state: State) {
        let Some(at) = u64::from(id).checked_sub(self.first) else { return };
        let at = at as usize;
        let Some(entry) = self.entries.get_mut(at) else { return };
        *entry = Entry { state, owed: TELLINGS };
        self.owing_from = if self.is_owing { self.owing_from.min(at) } else { at };
        self.is_owing = true;
    }

    /// The peer does not know that this message is complete: it is told again, unless it is being told (\[message-15\]).
    pub(super) fn tell_again(&mut self, id: u32) {
        let Some(at) = u64::from(id).checked_sub(self.first) else { return };
        if let Some(&Entry { state, owed: 0 }) = self.entries.get(at as usize) {
            self.set(id, state);
        }
    }

    /// Whether a report has something to tell.
    pub(super) fn is_owing(&self) -> bool {
        self.is_owing
    }

    /// Writes a report's record, of the messages from the oldest to the newest which has news, as far as it fits into `room` bytes;
    /// `named` says what has come of one of which too little has.
    pub(super) fn write<'a>(
        &mut self,
        writer: &mut ReportWriter<'_>,
        room: usize,
        named: impl Fn(u32) -> Option<Named<'a>>,
    ) {
        let Some(from) = self.oldest_owing() else { return };
        let to = self.entries.iter().rposition(|entry| entry.owed > 0).map_or(from, |last| last + 1);
        let Ok(first_id) = u32::try_from(self.first + from as u64) else { return };
        let Some(mut record) = writer.messages(first_id) else { return };
        let (mut proof, mut left) = (0, room);
        for (id, entry) in (first_id..).zip(self.entries.range_mut(from..to)) {
            let (run, of_run) = match entry.state {
                State::Complete { proof } => (MessageRun::Complete(1), proof),
                State::Empty => (MessageRun::Empty(1), 0),
                State::Partial => {
                    let named = named(id).and_then(|named| Some((SymbolSet::new(named.bits)?, named.proof)));
                    // What was given up is told as nothing.
                    named.map_or((MessageRun::Empty(1), 0), |(set, proof)| (MessageRun::Partial(set), proof))
                }
            };
            // Runs are merged, so that this is more than they take.
            let bytes = if let MessageRun::Partial(_) = run { SYMBOLS_BYTES_MAX } else { 1 };
            if bytes > left || !record.push(run) {
                break;
            }
            left -= bytes;
            proof ^= of_run;
            entry.owed = entry.owed.saturating_sub(1);
        }
        record.finish(proof);
    }

    fn oldest_owing(&mut self) -> Option<usize> {
        if !self.is_owing {
            return None;
        }
        let found = self.entries.range(self.owing_from..).position(|entry| entry.owed > 0);
        match found {
            Some(offset) => {
                self.owing_from += offset;
                Some(self.owing_from)
            }
            None => {
                self.is_owing = false;
                None
            }
        }
    }
}
