//! Queues of files that wait for a stream or for the receiver's answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Stopped;
use super::job::Job;
use crate::basis::Known;
use crate::limits::FILES_OPENED_AHEAD_MAX;

/// Queue from the producer to the reading threads.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Opened files, at most [`FILES_OPENED_AHEAD_MAX`].
    opened: VecDeque<Job>,
    /// Files that the receiver has requested; the unanswered limit bounds them.
    wanted: VecDeque<Job>,
    /// Offered files without an answer, by ordinal.
    offered: BTreeMap<u32, Job>,
    /// All files have been found.
    is_complete: bool,
    /// The session is over.
    is_closed: bool,
}

impl Jobs {
    /// Queues a file for the next free stream; returns it if all are busy.
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

    /// Queues a file for the next free stream; waits for room.
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

    /// Adds a file that is about to be offered.
    pub(super) fn offer(&self, job: Job) {
        self.state().offered.insert(job.entry.index, job);
    }

    /// Moves a requested file to the queue. True if it was offered.
    pub(crate) fn want(&self, index: u32, known: Option<Known>) -> bool {
        let mut state = self.state();
        let Some(job) = state.offered.remove(&index) else { return false };
        state.wanted.push_back(Job { older: known, ..job });
        drop(state);
        self.changed.notify_all();
        true
    }

    /// True if the file's offer is unanswered.
    pub(crate) fn is_offered(&self, index: u32) -> bool {
        self.state().offered.contains_key(&index)
    }

    /// Removes an unwanted file; returns its length and hash if it was offered.
    pub(crate) fn answer(&self, index: u32) -> Option<(u64, Option<blake3::Hash>)> {
        let job = self.state().offered.remove(&index)?;
        self.changed.notify_all();
        Some((job.entry.len.unwrap_or_default(), job.hash))
    }

    /// Next queued file, if there is one.
    pub(super) fn try_next(&self) -> Option<Job> {
        let job = self.state().pop();
        if job.is_some() {
            self.changed.notify_all();
        }
        job
    }

    /// Waits for the next file; `None` after the last one.
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

    /// Marks the search as complete.
    pub(super) fn complete(&self) {
        self.state().is_complete = true;
        self.changed.notify_all();
    }

    /// True once the session is over.
    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Ends the session.
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
    /// Next job. Requested files come first: the receiver may hold directories open for them.
    fn pop(&mut self) -> Option<Job> {
        self.wanted.pop_front().or_else(|| self.opened.pop_front())
    }
}
