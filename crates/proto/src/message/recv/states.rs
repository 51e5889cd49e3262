//! State of each message id, and the messages record of reports (`spec/protocol.md` \[message-8\], \[message-9\]).

use std::collections::VecDeque;
use std::ops::Range;

use dfcp_wire::feedback::{MessageRun, ReportWriter, SymbolSet};

use super::known::Place;
use crate::limits::MESSAGE_IDS_MAX;

/// Number of reports that state each change of a message's state, in case reports are lost.
const TELLINGS: u8 = 3;
/// Largest size of a partial message's symbol set in a report, bytes.
const SYMBOLS_BYTES_MAX: usize = 1 + dfcp_wire::MESSAGE_SYMBOLS_MAX as usize / 8;
/// Unit of the report counter in the upper bits of a mark. The lower two bits hold the state.
const OWED: u8 = 4;
/// Number of marks that are compared together, for vectorisation.
const MARKS_TOGETHER: usize = 64;

/// Reception state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No symbol has arrived.
    Empty,
    /// Some symbols have arrived, but too few to decode the message.
    Partial,
    /// The message is complete. `proof` is the XOR of its source symbols' secrets.
    Complete { proof: u32 },
}

/// Returns the memory that the states of all ids take, bytes. It is part of the session's reserve: without these states
/// the receiver could not tell which messages its peer still repairs, up to [`MESSAGE_IDS_MAX`] ids back.
pub(crate) const fn reserve_bytes(has_proofs: bool) -> usize {
    MESSAGE_IDS_MAX * (size_of::<u8>() + size_of::<Place>() + if has_proofs { size_of::<u32>() } else { 0 })
}

/// States of the newest [`MESSAGE_IDS_MAX`] ids. They are compact, because a single datagram with a high id allocates
/// all of them.
#[derive(Debug)]
pub(super) struct States {
    /// Id of the first entry of `marks`. Lower ids are forgotten.
    first: u64,
    /// State of each id in the lower two bits; above them the number of reports that must still include the id.
    marks: VecDeque<u8>,
    /// Proof of each id. Empty without proofs.
    proofs: VecDeque<u32>,
    /// Position of each id's stored row.
    places: VecDeque<Place>,
    has_proofs: bool,
    /// Index before which no mark has pending reports.
    owing_from: usize,
    is_owing: bool,
}

/// Received symbols of a message, for a report.
pub(super) struct Named<'a> {
    pub(super) bits: &'a [u8],
    /// XOR of the secrets of these symbols.
    pub(super) proof: u32,
}

impl States {
    pub(super) const fn new(has_proofs: bool) -> Self {
        Self {
            first: 0,
            marks: VecDeque::new(),
            proofs: VecDeque::new(),
            places: VecDeque::new(),
            has_proofs,
            owing_from: 0,
            is_owing: false,
        }
    }

    /// Extends the remembered ids up to `id`. Forgets old ones so that at most [`MESSAGE_IDS_MAX`] remain.
    pub(super) fn reach(&mut self, id: u32) {
        let end = u64::from(id) + 1;
        if end <= self.begun() {
            return;
        }
        let keep_from = end.saturating_sub(MESSAGE_IDS_MAX as u64).max(self.first);
        let gone = (keep_from - self.first).min(self.marks.len() as u64) as usize;
        self.marks.drain(..gone);
        self.places.drain(..gone);
        self.proofs.drain(..gone.min(self.proofs.len()));
        self.owing_from = self.owing_from.saturating_sub(gone);
        self.first = keep_from;
        let count = (end - keep_from) as usize;
        self.make_room(count);
        self.marks.resize(count, 0);
        self.places.resize(count, Place::NONE);
        if self.has_proofs {
            self.proofs.resize(count, 0);
        }
    }

    /// Reserves capacity for `ids` ids. Capacity doubles, to avoid a move per id, but never exceeds the session's
    /// reserve.
    fn make_room(&mut self, ids: usize) {
        if self.marks.capacity() < ids {
            let more = ids.next_power_of_two().min(MESSAGE_IDS_MAX) - self.marks.len();
            self.marks.reserve_exact(more);
            self.places.reserve_exact(more);
            self.proofs.reserve_exact(if self.has_proofs { more } else { 0 });
        }
    }

    /// Returns the oldest remembered id.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    fn at(&self, id: u32) -> Option<usize> {
        let at = u64::from(id).checked_sub(self.first)? as usize;
        (at < self.marks.len()).then_some(at)
    }

    /// Returns the state of a message; `None` if its id is forgotten or not yet known.
    pub(super) fn get(&self, id: u32) -> Option<State> {
        Some(self.state(self.at(id)?))
    }

    fn state(&self, at: usize) -> State {
        match self.marks.get(at).map_or(0, |mark| mark % OWED) {
            0 => State::Empty,
            1 => State::Partial,
            _ => State::Complete { proof: self.proofs.get(at).copied().unwrap_or(0) },
        }
    }

    /// Returns the number of ids that the peer is known to have begun.
    pub(super) fn begun(&self) -> u64 {
        self.first + self.marks.len() as u64
    }

    /// Sets the state of a message, and schedules it for the next reports.
    pub(super) fn set(&mut self, id: u32, state: State) {
        let Some(at) = self.at(id) else { return };
        let (kind, proof) = match state {
            State::Empty => (0, 0),
            State::Partial => (1, 0),
            State::Complete { proof } => (2, proof),
        };
        if let Some(place) = self.proofs.get_mut(at) {
            *place = proof;
        }
        self.owe(at, kind);
    }

    fn owe(&mut self, at: usize, kind: u8) {
        if let Some(mark) = self.marks.get_mut(at) {
            *mark = kind + TELLINGS * OWED;
        }
        self.owing_from = if self.is_owing { self.owing_from.min(at) } else { at };
        self.is_owing = true;
    }

    /// Reports the message again, unless reports of it are pending: the peer repeats symbols, so that it seems to have
    /// missed the reports (\[message-15\]).
    pub(super) fn tell_again(&mut self, id: u32) {
        let Some(at) = self.at(id) else { return };
        if let Some(&kind) = self.marks.get(at).filter(|mark| **mark < OWED) {
            self.owe(at, kind);
        }
    }

    /// Sets the position of the message's row.
    pub(super) fn set_place(&mut self, id: u32, place: Place) {
        if let Some(at) = self.at(id)
            && let Some(entry) = self.places.get_mut(at)
        {
            *entry = place;
        }
    }

    /// Returns the position at which the message's row was stored. The row may be gone by now.
    pub(super) fn place(&self, id: u32) -> Option<Place> {
        self.places.get(self.at(id)?).copied()
    }

    /// Returns true if a report is pending.
    pub(super) fn is_owing(&self) -> bool {
        self.is_owing
    }

    /// Writes a report's record, of the messages from the oldest to the newest with pending reports, as far as `room`
    /// bytes permit. `named` returns the received symbols of a partial message.
    pub(super) fn write<'a>(
        &mut self,
        writer: &mut ReportWriter<'_>,
        room: usize,
        named: impl Fn(u32) -> Option<Named<'a>>,
    ) {
        let Some(Range { start: from, end: to }) = self.owing() else { return };
        let Ok(first_id) = u32::try_from(self.first + from as u64) else { return };
        let Some(mut record) = writer.messages(first_id) else { return };
        let (mut proof, mut left) = (0, room);
        for (id, at) in (first_id..).zip(from..to) {
            let (run, of_run) = match self.state(at) {
                State::Complete { proof } => (MessageRun::Complete(1), proof),
                State::Empty => (MessageRun::Empty(1), 0),
                State::Partial => {
                    let named = named(id).and_then(|named| Some((SymbolSet::new(named.bits)?, named.proof)));
                    // A partial message whose symbols were discarded is reported as empty.
                    named.map_or((MessageRun::Empty(1), 0), |(set, proof)| (MessageRun::Partial(set), proof))
                }
            };
            // An upper bound, because adjacent runs are merged.
            let bytes = if let MessageRun::Partial(_) = run { SYMBOLS_BYTES_MAX } else { 1 };
            if bytes > left || !record.push(run) {
                break;
            }
            left -= bytes;
            proof ^= of_run;
            if let Some(mark) = self.marks.get_mut(at).filter(|mark| **mark >= OWED) {
                *mark -= OWED;
            }
        }
        record.finish(proof);
    }

    /// Returns the range of indices from the first to the last mark with a pending report.
    fn owing(&mut self) -> Option<Range<usize>> {
        if !self.is_owing {
            return None;
        }
        let owes = |mark: &u8| *mark >= OWED;
        let Some(from) = first_where(&self.marks, self.owing_from, owes) else {
            self.is_owing = false;
            return None;
        };
        self.owing_from = from;
        Some(from..last_where(&self.marks, owes).map_or(from, |last| last + 1))
    }
}

/// Returns the index of the first mark at or after `from` that satisfies `is`. Marks are tested in groups: a few
/// microseconds suffice for all ids.
fn first_where(marks: &VecDeque<u8>, from: usize, is: impl Fn(&u8) -> bool + Copy) -> Option<usize> {
    let (front, back) = marks.as_slices();
    let in_front = front.get(from..).and_then(|rest| Some(from + first_in(rest, is)?));
    in_front.or_else(|| {
        let from = from.saturating_sub(front.len());
        Some(front.len() + from + first_in(back.get(from..)?, is)?)
    })
}

fn first_in(marks: &[u8], is: impl Fn(&u8) -> bool + Copy) -> Option<usize> {
    let group = marks.chunks(MARKS_TOGETHER).position(|group| has(group, is))?;
    let at = group * MARKS_TOGETHER;
    Some(at + marks[at..].iter().position(is)?)
}

/// Returns the index of the last mark that satisfies `is`.
fn last_where(marks: &VecDeque<u8>, is: impl Fn(&u8) -> bool + Copy) -> Option<usize> {
    let (front, back) = marks.as_slices();
    last_in(back, is).map(|at| front.len() + at).or_else(|| last_in(front, is))
}

fn last_in(marks: &[u8], is: impl Fn(&u8) -> bool + Copy) -> Option<usize> {
    let groups = marks.rchunks(MARKS_TOGETHER);
    let from_end = groups.clone().position(|group| has(group, is))?;
    let end = marks.len() - from_end * MARKS_TOGETHER;
    marks[..end].iter().rposition(is)
}

/// Returns true if any mark satisfies `is`. The loop has no branch per mark, so that it can be vectorised.
fn has(marks: &[u8], is: impl Fn(&u8) -> bool) -> bool {
    marks.iter().fold(false, |any, mark| any | is(mark))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_are_found_as_by_looking_at_each(
            steps in proptest::collection::vec((0_u8..20, any::<bool>(), 0_usize..200), 0..40),
            from in 0_usize..600,
        ) {
            let mut marks = VecDeque::new();
            for (mark, at_front, count) in steps {
                let zeros = std::iter::repeat_n(0, count);
                if at_front {
                    marks.push_front(mark);
                    zeros.for_each(|zero| marks.push_front(zero));
                } else {
                    marks.push_back(mark);
                    marks.extend(zeros);
                }
            }
            let is = |mark: &u8| *mark >= OWED;
            let expected = marks.iter().enumerate().skip(from).find(|(_, mark)| is(mark)).map(|(at, _)| at);
            prop_assert_eq!(first_where(&marks, from, is), expected);
            prop_assert_eq!(last_where(&marks, is), marks.iter().rposition(is));
        }
    }

    #[test]
    fn the_newest_ids_are_remembered_and_take_no_more_than_is_reserved() {
        for has_proofs in [false, true] {
            let mut states = States::new(has_proofs);
            for id in [0, 100, 300, 9_000, 40_000, 1_000_000, 1_000_001, u32::MAX] {
                states.reach(id);
                assert_eq!(states.get(id), Some(State::Empty));
                let proof = if has_proofs { id } else { 0 };
                states.set(id, State::Complete { proof });
                assert_eq!(states.get(id), Some(State::Complete { proof }));
                let oldest = id.saturating_sub(MESSAGE_IDS_MAX as u32 - 1);
                assert!(states.get(oldest).is_some(), "{oldest}");
                assert!(oldest == 0 || states.get(oldest - 1).is_none(), "{oldest}");
                let allocated = states.marks.capacity() + 4 * (states.proofs.capacity() + states.places.capacity());
                assert!(allocated <= reserve_bytes(has_proofs), "{allocated}");
            }
            assert_eq!(states.begun(), 1 << 32);
        }
    }
}
