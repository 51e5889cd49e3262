//! Events for an application, and those of a connection that it is still to be told.

use dfcp_wire::StreamId;

use crate::error::ConnectionError;
use crate::limits::EVENTS_MAX;
use crate::stats::StreamStats;

/// An event of a connection as a whole. Those of its streams are [`StreamEvent`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done.
    Connected,
    /// There may be a message to take.
    Message,
    /// The connection is over, with the reason unless both sides closed it. No stream has an event of that: those who wait for one try again.
    Closed(Option<ConnectionError>),
}

/// An event of a stream, the first one ([`StreamId::FIRST`]) included.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer has opened it: [`Streams::accept`](crate::Streams::accept) has it.
    Opened(StreamId),
    /// The peer permits more streams of ours than when [`Streams::open`](crate::Streams::open) had none.
    Available,
    /// There may be something to read, or it has ended or been reset.
    Readable(StreamId),
    /// There is room to write again.
    Writable(StreamId),
    /// The peer has every byte written before it was finished, and has proven it (`spec/protocol.md` \[end-8\]). That its
    /// application has read them is not said.
    Finished(StreamId),
    /// The peer wants no more of it, for its application's `error`; what was not delivered is dropped.
    Stopped {
        /// The stream.
        stream: StreamId,
        /// The peer's application's reason.
        error: u32,
    },
    /// Nothing is kept any more of one direction of it: what that has done is none of [`Streams::stats`](crate::Streams::stats) from now on.
    /// The last that is heard of that direction.
    Gone {
        /// The stream.
        stream: StreamId,
        /// Figures of that direction.
        stats: Box<StreamStats>,
    },
}

/// An [`Event`] without its reason, which the connection keeps anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Connected,
    Message,
    Closed,
}

impl EventKind {
    /// The event, with the reason for which its connection ended.
    pub(crate) fn with_reason(self, reason: impl FnOnce() -> Option<ConnectionError>) -> Event {
        match self {
            Self::Connected => Event::Connected,
            Self::Message => Event::Message,
            Self::Closed => Event::Closed(reason()),
        }
    }
}

/// Pending events, oldest first, each kind at most once. They are few enough to live in the connection itself.
#[derive(Debug, Default)]
pub(crate) struct Events([Option<EventKind>; EVENTS_MAX]);

impl Events {
    /// Unless it waits already, it comes last.
    pub(crate) fn push(&mut self, event: EventKind) {
        let waits = self.0.contains(&Some(event));
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()).filter(|_| !waits) {
            *place = Some(event);
        }
    }

    /// The oldest.
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
        /// Model: a queue without limit which takes nothing that is in it.
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
