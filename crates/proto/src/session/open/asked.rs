//! Times at which the sender is asked for data: whenever something may have given it some.

use dfcp_time::Time;

use crate::path::PathId;
use crate::session::common::Common;

/// Everything that can give a sender data which had none, or room: it is asked again when any of it has changed.
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

/// The sender's last answer.
#[derive(Debug)]
pub(super) struct Asked {
    at: Time,
    /// It had nothing, in this situation.
    had_nothing: Option<Situation>,
    /// The pacer has held it back since.
    is_held_back: bool,
}

impl Asked {
    /// It is to be asked as soon as the session is open.
    pub(super) fn new(common: &Common) -> Self {
        Self { at: Time::ZERO, had_nothing: Some(Situation::of(common)), is_held_back: true }
    }

    /// Time of the answer.
    pub(super) fn at(&self) -> Time {
        self.at
    }

    /// It had nothing when it was last asked.
    pub(super) fn had_nothing(&self) -> bool {
        self.had_nothing.is_some()
    }

    /// It is not asked, because the pacer permits nothing.
    pub(super) fn on_held_back(&mut self) {
        self.is_held_back = true;
    }

    /// It has been asked, and had data or none.
    pub(super) fn on_answer(&mut self, now: Time, had_data: bool, common: &Common) {
        let had_nothing = if had_data { None } else { Some(Situation::of(common)) };
        *self = Self { at: now, had_nothing, is_held_back: false };
    }

    /// True if the sender may have something, so that it is to be asked once the pacer permits.
    pub(super) fn may_have_data(&self, common: &Common) -> bool {
        self.is_held_back || self.had_nothing != Some(Situation::of(common))
    }
}
