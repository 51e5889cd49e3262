//! Files being read for sending, and the receiver's requests concerning them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use dfcp_framing::error::ProtocolError;

use crate::hash_tree::Part;

/// Files being read, by ordinal; at most one per stream.
#[derive(Debug, Default)]
pub(super) struct ReadingFiles {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<u32, Reading>,
    /// True once the session has ended.
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Reading {
    /// True if the receiver rejects the rest of the file.
    is_refused: bool,
    /// Comparison of the beginning; `None` unless the file is resumed.
    beginning: Option<Beginning>,
}

/// Receiver's comparison of the beginning of a resumed file.
#[derive(Debug)]
struct Beginning {
    offset: u64,
    /// Offset up to which the receiver has compared, bytes.
    compared: u64,
    /// Start offsets of parts that the receiver has not requested.
    parts: BTreeSet<u64>,
    /// Start offsets of requested parts that have not been sent yet.
    asked: VecDeque<u64>,
}

/// Next step, after the rest of a resumed file has been sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The part at this offset must be sent again.
    Again(u64),
    /// The receiver has compared all parts, and all requested parts have been sent.
    Settled,
    /// The receiver rejects the file.
    Refused,
    /// The session has ended.
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

    /// Records that the receiver rejects the rest of this file.
    pub(super) fn refuse(&self, index: u32) {
        if let Some(reading) = self.state().files.get_mut(&index) {
            reading.is_refused = true;
        }
        self.changed.notify_all();
    }

    pub(super) fn is_refused(&self, index: u32) -> bool {
        self.state().files.get(&index).is_some_and(|reading| reading.is_refused)
    }

    /// Returns true if the rest of this file need not be read, because the session has ended or the receiver rejects
    /// the file.
    pub(super) fn is_over(&self, index: u32) -> bool {
        let state = self.state();
        state.is_closed || state.files.get(&index).is_some_and(|reading| reading.is_refused)
    }

    /// Records that the receiver has compared up to the offset `end` and requests the parts at the offsets `differ`.
    /// Returns true if the file is being read.
    ///
    /// # Errors
    /// Fails if the request is inconsistent or repeated.
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

    /// Waits for the next step concerning the beginning of this file.
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

    /// Ends the session: waiting threads are woken.
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
            // Cases: requested before, inside a part, at the end of the beginning, going backwards, beyond the
            // beginning.
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
