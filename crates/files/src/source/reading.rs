//! Files being read, and the receiver's feedback on them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use dfcp_framing::error::ProtocolError;

use crate::hash_tree::Part;

/// Files being read, at most one per stream.
#[derive(Debug, Default)]
pub(super) struct ReadingFiles {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<u32, Reading>,
    /// The session is over.
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Reading {
    /// The receiver rejects the rest.
    is_refused: bool,
    /// State of a resumed file.
    beginning: Option<Beginning>,
}

/// Comparison of a file's beginning at the receiver.
#[derive(Debug)]
struct Beginning {
    offset: u64,
    /// Offset up to which parts are compared.
    compared: u64,
    /// First bytes of parts that may still be requested.
    parts: BTreeSet<u64>,
    /// First bytes of the requested parts.
    asked: VecDeque<u64>,
}

/// Next step after the rest of a file was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The part at this offset must be sent again.
    Again(u64),
    /// All parts are compared and equal.
    Settled,
    /// The receiver rejects the file.
    Refused,
    /// The session is over.
    Closed,
}

impl ReadingFiles {
    pub(super) fn begin(&self, index: u32) {
        self.state().files.insert(index, Reading::default());
    }

    /// Registers a resumed file, of which the receiver has these parts.
    pub(super) fn begin_at(&self, index: u32, parts: &[Part]) {
        let beginning = Beginning {
            offset: parts.last().map_or(0, |part| part.end),
            compared: 0,
            parts: parts.iter().map(|part| part.start).collect(),
            asked: VecDeque::new(),
        };
        self.state().files.insert(index, Reading { is_refused: false, beginning: Some(beginning) });
    }

    pub(super) fn end(&self, index: u32) {
        self.state().files.remove(&index);
    }

    /// Records that the receiver rejects the rest of this entry.
    pub(super) fn refuse(&self, index: u32) {
        if let Some(reading) = self.state().files.get_mut(&index) {
            reading.is_refused = true;
        }
        self.changed.notify_all();
    }

    pub(super) fn is_refused(&self, index: u32) -> bool {
        self.state().files.get(&index).is_some_and(|reading| reading.is_refused)
    }

    /// True if the rest of this entry is no longer needed.
    pub(super) fn is_over(&self, index: u32) -> bool {
        let state = self.state();
        state.is_closed || state.files.get(&index).is_some_and(|reading| reading.is_refused)
    }

    /// Records that the receiver has compared up to `end` and requests differing parts. True if the file is being read.
    ///
    /// # Errors
    /// Fails for an impossible or repeated request.
    pub(super) fn checked(&self, index: u32, end: u64, differ: &[u64]) -> Result<bool, ProtocolError> {
        let stray = ProtocolError::StrayVerdict { index };
        let mut state = self.state();
        let Some(reading) = state.files.get_mut(&index) else { return Ok(false) };
        let beginning = reading.beginning.as_mut().ok_or(stray)?;
        if end > beginning.offset || end < beginning.compared {
            return Err(stray);
        }
        beginning.compared = end;
        for start in differ {
            if !beginning.parts.remove(start) {
                return Err(stray);
            }
            beginning.asked.push_back(*start);
        }
        drop(state);
        self.changed.notify_all();
        Ok(true)
    }

    /// Waits for the next step of a file's beginning.
    pub(super) fn next(&self, index: u32) -> Next {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return Next::Closed;
            }
            let Some(reading) = state.files.get_mut(&index) else { return Next::Closed };
            let Some(beginning) = &mut reading.beginning else { return Next::Settled };
            match beginning.asked.pop_front() {
                _ if reading.is_refused => return Next::Refused,
                Some(start) => return Next::Again(start),
                None if beginning.compared == beginning.offset => return Next::Settled,
                None => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the session.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_tree::{LEAF_BYTES, Shape};

    #[test]
    fn a_receiver_asks_for_each_part_once_and_only_for_what_it_has() {
        let files = ReadingFiles::default();
        let shape = Shape::of(LEAF_BYTES * 40).unwrap();
        let parts: Vec<_> = shape.parts(0, LEAF_BYTES * 19).collect();
        let begin = |index| files.begin_at(index, &parts);
        let (first, last) = (parts[0].start, parts.last().unwrap());
        begin(1);
        files.checked(1, parts[0].end, &[first]).unwrap();
        assert_eq!(files.next(1), Next::Again(first));
        files.checked(1, last.end, &[last.start]).unwrap();
        assert_eq!((files.next(1), files.next(1)), (Next::Again(last.start), Next::Settled));
        for (end, differ) in [
            // Cases: requested before, between parts, beyond the beginning, backwards.
            (last.end, first),
            (last.end, 1),
            (last.end, last.end),
            (0, parts[1].start),
            (last.end + LEAF_BYTES, parts[1].start),
        ] {
            assert!(files.checked(1, end, &[differ]).is_err(), "{end} {differ}");
        }
        files.begin(2);
        assert!(files.checked(2, 0, &[]).is_err(), "it has nothing of this one");
        files.end(1);
        assert_eq!(files.checked(1, 0, &[]), Ok(false));
        begin(3);
        files.refuse(3);
        assert_eq!(files.next(3), Next::Refused);
        files.close();
        assert_eq!(files.next(3), Next::Closed);
    }
}
