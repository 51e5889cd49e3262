//! Decides when to poll the sender for data: only after an event that may have given it some.

use dfcp_time::Time;

use crate::path::PathId;
use crate::session::common::Common;

/// All state whose change can give a sender data or room. After a change, the sender is polled again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Situation {
    inputs: u64,
    moves: u64,
    path: PathId,
    packet_bytes: u64,
}

impl Situation {
    pub(super) fn of(common: &Common) -> Self {
        let (path, moves) = (common.path(), common.paths.changes());
        Self { inputs: common.inputs, moves, path: path.id(), packet_bytes: path.packet_bytes() }
    }
}

/// Result of the last poll of the sender.
#[derive(Debug)]
pub(super) struct Asked {
    at: Time,
    /// The situation in which the sender had nothing to send. `None` if it had data.
    had_nothing: Option<Situation>,
    /// The pacer has prevented a poll since.
    is_held_back: bool,
}

impl Asked {
    /// Requests a poll as soon as the session is open.
    pub(super) fn new(common: &Common) -> Self {
        Self { at: Time::ZERO, had_nothing: Some(Situation::of(common)), is_held_back: true }
    }

    /// Time of the last poll.
    pub(super) fn at(&self) -> Time {
        self.at
    }

    /// Returns true if the sender had nothing to send at the last poll.
    pub(super) fn had_nothing(&self) -> bool {
        self.had_nothing.is_some()
    }

    /// Records that the pacer has prevented a poll.
    pub(super) fn on_held_back(&mut self) {
        self.is_held_back = true;
    }

    /// Records the result of a poll.
    pub(super) fn on_answer(&mut self, now: Time, had_data: bool, common: &Common) {
        let had_nothing = if had_data { None } else { Some(Situation::of(common)) };
        *self = Self { at: now, had_nothing, is_held_back: false };
    }

    /// Returns true if the sender may have data, so that it must be polled once the pacer permits.
    pub(super) fn may_have_data(&self, common: &Common) -> bool {
        self.is_held_back || self.had_nothing != Some(Situation::of(common))
    }
}
