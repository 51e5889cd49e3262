//! The files that wait for a stream, and those which wait for the receiver's word.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Stopped;
use super::job::Job;
use crate::basis::Known;
use crate::limits::FILES_OPENED_AHEAD_MAX;

/// A queue from the thread that goes through what was found to those which read files.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Files that are open already, at most [`FILES_OPENED_AHEAD_MAX`].
    opened: VecDeque<Job>,
    /// Files that the receiver has asked for. As all others they are among the entries that may be unanswered.
    wanted: VecDeque<Job>,
    /// Files about which the receiver has said nothing yet, by their ordinals.
    offered: BTreeMap<u32, Job>,
    /// No further file is found.
    is_complete: bool,
    /// Nobody takes files, or nobody gives any.
    is_closed: bool,
}

impl Jobs {
    /// Leaves a file to the stream that is free next; gives it back if all are busy.
    pub(super) fn try_hand_on(&self, job: Job) -> Result<Option<Job>, Stopped> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Stopped);
        }
        if state.opened.len() >= FILES_OPENED_AHEAD_MAX {
            return Ok(Some(job));
        }
        state.opened.push_back(job);
        drop(state);
        self.changed.notify_all();
        Ok(None)
    }

    /// Leaves a file to the stream that is free next.
    pub(super) fn hand_on(&self, job: Job) -> Result<(), Stopped> {
        let mut state = self.state();
        while state.opened.len() >= FILES_OPENED_AHEAD_MAX && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return Err(Stopped);
        }
        state.opened.push_back(job);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// A file is about to be offered.
    pub(super) fn offer(&self, job: Job) {
        self.state().offered.insert(job.entry.index, job);
    }

    /// The receiver wants a file. True if it was offered.
    pub(crate) fn want(&self, index: u32, known: Option<Known>) -> bool {
        let mut state = self.state();
        let Some(job) = state.offered.remove(&index) else { return false };
        state.wanted.push_back(Job { older: known, ..job });
        drop(state);
        self.changed.notify_all();
        true
    }

    /// True if the receiver has said nothing about an offered file yet.
    pub(crate) fn is_offered(&self, index: u32) -> bool {
        self.state().offered.contains_key(&index)
    }

    /// The receiver has answered a file without wanting it; its length and hash, if it was offered.
    pub(crate) fn answer(&self, index: u32) -> Option<(u64, Option<blake3::Hash>)> {
        let job = self.state().offered.remove(&index)?;
        self.changed.notify_all();
        Some((job.entry.len.unwrap_or_default(), job.hash))
    }

    /// The next file that is waiting, if one is.
    pub(super) fn try_next(&self) -> Option<Job> {
        let job = self.state().pop();
        if job.is_some() {
            self.changed.notify_all();
        }
        job
    }

    /// Waits for the next file; none if there will not be one.
    pub(super) fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.pop() {
                drop(state);
                self.changed.notify_all();
                return Some(job);
            }
            if state.is_closed || (state.is_complete && state.offered.is_empty()) {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No further file is found.
    pub(super) fn complete(&self) {
        self.state().is_complete = true;
        self.changed.notify_all();
    }

    /// True once the session is over.
    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// The session is over.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.opened.clear();
        state.wanted.clear();
        drop(state);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Next job. Wanted files go first: the receiver may hold directories open for them.
    fn pop(&mut self) -> Option<Job> {
        self.wanted.pop_front().or_else(|| self.opened.pop_front())
    }
}
