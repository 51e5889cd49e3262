//! Session state of one receiving half.

use std::collections::VecDeque;

use dfcp_wire::StreamId;

use crate::stream::recv::RecvStream;

/// Number of reports that name a stream after each change or question: three copies survive a path with heavy loss.
pub(super) const COPIES: u8 = 3;

/// State that decides in which reports a stream is named.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Number of reports that still have to name the stream for its news.
    pub(super) news: u8,
    /// Membership in each of the three queues.
    pub(super) waits_fresh: bool,
    pub(super) waits_again: bool,
    pub(super) waits_open: bool,
    /// The report that named the stream last.
    pub(super) report: u32,
}

/// The reason why a report names a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    Fresh,
    Again,
    Open,
}

/// A receiving half, its naming state and its pending events.
#[derive(Debug, Default)]
pub(super) struct Half {
    pub(super) stream: RecvStream,
    pub(super) named: Named,
    /// An `Opened` event is pending. The stream is in the event queue while any event is.
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

    /// Returns true while reports still owe news of the stream.
    pub(super) const fn owes_news(&self) -> bool {
        self.named.news > 0
    }
}
