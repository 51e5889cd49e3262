//! Events for an application, and those which it is still to be told.

use crate::error::ConnectionError;
use crate::limits::EVENTS_MAX;

/// Something the application may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done.
    Connected,
    /// There may be something to read, or the peer's stream has ended.
    Readable,
    /// There may be a message to take.
    Message,
    /// There is room to write again.
    Writable,
    /// The peer has every byte written before `shutdown`, and says so.
    Finished,
    /// The connection is over, with the reason unless both sides closed it.
    Closed(Option<ConnectionError>),
}

/// An [`Event`] without its reason, which the connection keeps anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Connected,
    Readable,
    Message,
    Writable,
    Finished,
    Closed,
}

impl EventKind {
    /// The event, with the reason for which its connection ended.
    pub(crate) fn with_reason(self, reason: impl FnOnce() -> Option<ConnectionError>) -> Event {
        match self {
            Self::Connected => Event::Connected,
            Self::Readable => Event::Readable,
            Self::Message => Event::Message,
            Self::Writable => Event::Writable,
            Self::Finished => Event::Finished,
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

    /// The connection is over: readers, writers and those that wait for the end are told.
    pub(crate) fn push_end(&mut self) {
        [EventKind::Readable, EventKind::Writable, EventKind::Closed].into_iter().for_each(|event| self.push(event));
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

    const ALL: [EventKind; EVENTS_MAX] = [
        EventKind::Connected,
        EventKind::Readable,
        EventKind::Message,
        EventKind::Writable,
        EventKind::Finished,
        EventKind::Closed,
    ];

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
