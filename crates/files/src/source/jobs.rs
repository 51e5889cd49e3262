//! Queues of files that wait for a free stream or for the receiver's answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Stopped;
use super::job::Job;
use crate::basis::Known;
use crate::limits::FILES_OPENED_AHEAD_MAX;

/// Queue of files between the producer and the reading threads.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Open files, at most [`FILES_OPENED_AHEAD_MAX`].
    opened: VecDeque<Job>,
    /// Offered files that the receiver has requested. The limit on unanswered entries bounds their number.
    wanted: VecDeque<Job>,
    /// Offered files without an answer yet, by ordinal.
    offered: BTreeMap<u32, Job>,
    /// True once all files have been found.
    is_complete: bool,
    /// True once the session has ended.
    is_closed: bool,
}

impl Jobs {
    /// Queues a file for the next free stream. Returns the file if the queue is full.
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

    /// Queues a file for the next free stream, waiting while the queue is full.
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

    /// Adds a file whose offer is about to be sent.
    pub(super) fn offer(&self, job: Job) {
        self.state().offered.insert(job.entry.index, job);
    }

    /// Queues an offered file that the receiver has requested. Returns false if the file was not offered.
    pub(crate) fn want(&self, index: u32, known: Option<Known>) -> bool {
        let mut state = self.state();
        let Some(job) = state.offered.remove(&index) else { return false };
        state.wanted.push_back(Job { older: known, ..job });
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Returns true if the file was offered and not answered yet.
    pub(crate) fn is_offered(&self, index: u32) -> bool {
        self.state().offered.contains_key(&index)
    }

    /// Removes an offered file that the receiver does not want. Returns its length and hash; `None` if it was not
    /// offered.
    pub(crate) fn answer(&self, index: u32) -> Option<(u64, Option<blake3::Hash>)> {
        let job = self.state().offered.remove(&index)?;
        self.changed.notify_all();
        Some((job.entry.len.unwrap_or_default(), job.hash))
    }

    /// Returns the next queued file, if there is one.
    pub(super) fn try_next(&self) -> Option<Job> {
        let job = self.state().pop();
        if job.is_some() {
            self.changed.notify_all();
        }
        job
    }

    /// Waits for the next queued file; `None` after the last one.
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

    /// Records that all files have been found.
    pub(super) fn complete(&self) {
        self.state().is_complete = true;
        self.changed.notify_all();
    }

    /// Returns true once the session has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Ends the session: discards queued files and wakes all waiting threads.
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
    /// Returns the next file. Requested files come first, because the receiver may hold directories open for them.
    fn pop(&mut self) -> Option<Job> {
        self.wanted.pop_front().or_else(|| self.opened.pop_front())
    }
}
