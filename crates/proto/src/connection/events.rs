//! Which events the application has yet to be told.

use crate::limits::EVENTS_MAX;

/// An event without what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurrence {
    Connected,
    Readable,
    Writable,
    Finished,
    Closed,
}

/// Those which wait, oldest first, each once at the most. They are few, and so stand here rather than on the heap.
#[derive(Debug, Default)]
pub(super) struct Events([Option<Occurrence>; EVENTS_MAX]);

impl Events {
    /// Unless it waits already, it comes last.
    pub(super) fn push(&mut self, event: Occurrence) {
        let waits = self.0.contains(&Some(event));
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()).filter(|_| !waits) {
            *place = Some(event);
        }
    }

    /// The oldest.
    pub(super) fn pop(&mut self) -> Option<Occurrence> {
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

    const ALL: [Occurrence; EVENTS_MAX] =
        [Occurrence::Connected, Occurrence::Readable, Occurrence::Writable, Occurrence::Finished, Occurrence::Closed];

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
