//! A session's record of one receiving half.

use std::collections::VecDeque;

use dfcp_wire::StreamId;

use crate::session::recv_side::named::{COPIES, Named, Reason};
use crate::stream::recv::RecvStream;

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
