//! Session state of one receiving half.

use std::collections::VecDeque;

use dfcp_wire::StreamId;

use crate::stream::recv::RecvStream;

/// Number of reports that contain the record of a stream after each change of the stream, and after each question of
/// the peer. With three copies, at least one arrives over a path with heavy loss.
pub(super) const COPIES: u8 = 3;

/// State that decides which reports contain the record of a stream (the stream is *named* in a report).
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Number of reports that still have to contain the record of the stream because of its latest change.
    pub(super) news: u8,
    /// True if the stream waits in the queue of `Reason::Fresh`; the two fields below are for `Again` and `Open`.
    pub(super) waits_fresh: bool,
    pub(super) waits_again: bool,
    pub(super) waits_open: bool,
    /// The latest report that contains a record of the stream.
    pub(super) report: u32,
}

/// Reason for a stream's record in a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    Fresh,
    Again,
    Open,
}

/// A receiving half, with the state that decides which reports contain its record, and its pending events.
#[derive(Debug, Default)]
pub(super) struct Half {
    pub(super) stream: RecvStream,
    pub(super) named: Named,
    /// An `Opened` event is pending. While any event is pending, the stream is in the event queue.
    pub(super) opened: bool,
    /// A `Readable` event is pending.
    pub(super) readable: bool,
    /// The peer has stopped the stream's other half, and that half is gone.
    pub(super) is_other_reset: bool,
}

impl Half {
    /// Queues a `Readable` event, unless one is pending.
    pub(super) fn on_readable(&mut self, id: StreamId, events: &mut VecDeque<StreamId>) {
        if !self.opened && !self.readable {
            events.push_back(id);
        }
        self.readable = true;
    }

    /// Returns true while `reason` applies to the stream.
    pub(super) fn is_worth_naming(&self, reason: Reason) -> bool {
        match reason {
            Reason::Fresh => self.named.news == COPIES,
            Reason::Again => (1..COPIES).contains(&self.named.news),
            Reason::Open => self.stream.has_open_blocks(),
        }
    }

    /// Returns true while further reports must contain the stream's latest change.
    pub(super) const fn owes_news(&self) -> bool {
        self.named.news > 0
    }
}
