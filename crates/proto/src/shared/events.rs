//! Events for an application, and a connection's queue of undelivered events.

use dfcp_wire::StreamId;

use crate::error::ConnectionError;
use crate::limits::EVENTS_MAX;
use crate::stats::StreamStats;

/// An event of a connection as a whole. Events of streams are [`StreamEvent`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// A message may be available.
    Message,
    /// The connection has ended, with the reason unless both sides closed it. Streams have no event for this end:
    /// waiting readers and writers must try again.
    Closed(Option<ConnectionError>),
}

/// An event of a stream; the first stream ([`StreamId::FIRST`]) has events, too.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer has opened a stream, which [`Streams::accept`](crate::Streams::accept) returns.
    Opened(StreamId),
    /// The peer permits more of our streams, after [`Streams::open`](crate::Streams::open) failed for lack of credit.
    Available,
    /// Data may be available, or the stream has ended or been reset.
    Readable(StreamId),
    /// There is room to write again.
    Writable(StreamId),
    /// The peer has every byte that was written before the stream was finished, and has proven it (`spec/protocol.md`
    /// \[end-8\]). The peer's application may not have read the bytes yet.
    Finished(StreamId),
    /// The peer wants no more data of the stream. Data that were not delivered are dropped.
    Stopped {
        /// The stream.
        stream: StreamId,
        /// Error code of the peer's application.
        error: u32,
    },
    /// One direction of the stream has been removed from memory: [`Streams::stats`](crate::Streams::stats) no longer
    /// includes its figures. This is the last event of that direction.
    Gone {
        /// The stream.
        stream: StreamId,
        /// Figures of that direction.
        stats: Box<StreamStats>,
    },
}

/// An [`Event`] without its reason, which the connection stores separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Connected,
    Message,
    Closed,
}

impl EventKind {
    /// Adds the reason for which the connection ended.
    pub(crate) fn with_reason(self, reason: impl FnOnce() -> Option<ConnectionError>) -> Event {
        match self {
            Self::Connected => Event::Connected,
            Self::Message => Event::Message,
            Self::Closed => Event::Closed(reason()),
        }
    }
}

/// Pending events, oldest first, at most one of each kind. They are few enough to be stored in the connection itself.
#[derive(Debug, Default)]
pub(crate) struct Events([Option<EventKind>; EVENTS_MAX]);

impl Events {
    /// Appends the event, unless it is already pending.
    pub(crate) fn push(&mut self, event: EventKind) {
        let waits = self.0.contains(&Some(event));
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()).filter(|_| !waits) {
            *place = Some(event);
        }
    }

    /// Removes and returns the oldest event.
    pub(crate) fn pop(&mut self) -> Option<EventKind> {
        let oldest = self.0.first_mut()?.take();
        self.0.rotate_left(1);
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const ALL: [EventKind; EVENTS_MAX] = [EventKind::Connected, EventKind::Message, EventKind::Closed];

    proptest! {
        /// Model: an unbounded queue that ignores events it already contains.
        #[test]
        fn each_waits_once_and_in_its_order(steps in prop::collection::vec(prop::option::of(0..EVENTS_MAX), 0..100)) {
            let (mut events, mut model) = (Events::default(), VecDeque::new());
            for step in steps {
                match step.map(|index| ALL[index]) {
                    Some(event) => {
                        events.push(event);
                        if !model.contains(&event) {
                            model.push_back(event);
                        }
                    }
                    None => prop_assert_eq!(events.pop(), model.pop_front()),
                }
            }
            prop_assert_eq!(std::iter::from_fn(|| events.pop()).collect::<Vec<_>>(), Vec::from(model));
        }
    }
}
