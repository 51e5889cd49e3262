//! A session's record of one receiving half.

use std::collections::VecDeque;

use dfcp_wire::StreamId;

use crate::stream::recv::RecvStream;

/// Reports which name a stream after each change or question: three copies survive a path that loses many.
pub(super) const COPIES: u8 = 3;

/// One stream's place in reports.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Reports which are still to name it for its news.
    pub(super) news: u8,
    /// Membership in each of the three queues.
    pub(super) waits_fresh: bool,
    pub(super) waits_again: bool,
    pub(super) waits_open: bool,
    /// The report which has named it last.
    pub(super) report: u32,
}

/// Reason for which a report names a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    Fresh,
    Again,
    Open,
}

/// One receiving half, with its place in reports and its events.
#[derive(Debug, Default)]
pub(super) struct Half {
    pub(super) stream: RecvStream,
    pub(super) named: Named,
    /// Events to be polled. The stream waits in the queue while there is any.
    pub(super) opened: bool,
    pub(super) readable: bool,
    /// The peer has stopped the other half of the stream, which is gone.
    pub(super) is_other_reset: bool,
}

impl Half {
    /// Tells the application, once until it asks, that there is something to read.
    pub(super) fn on_readable(&mut self, id: StreamId, events: &mut VecDeque<StreamId>) {
        if !self.opened && !self.readable {
            events.push_back(id);
        }
        self.readable = true;
    }

    /// True while reports have a reason to name it.
    pub(super) fn is_worth_naming(&self, reason: Reason) -> bool {
        match reason {
            Reason::Fresh => self.named.news == COPIES,
            Reason::Again => (1..COPIES).contains(&self.named.news),
            Reason::Open => self.stream.has_open_blocks(),
        }
    }

    /// True while reports still owe news of it.
    pub(super) const fn owes_news(&self) -> bool {
        self.named.news > 0
    }
}
