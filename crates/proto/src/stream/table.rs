//! The streams of one direction of a session, by id.

use std::collections::BTreeMap;

use dfcp_wire::StreamId;

/// Streams in the order of their ids, which is also the order of iteration. Hash order would make runs with equal seeds
/// differ. Each stream has its own allocation, so only pointers move.
///
/// Finding, adding and removing a stream takes logarithmic time: in a session with thousands of streams, they come and
/// go one by one.
#[derive(Debug)]
pub(crate) struct StreamTable<T> {
    /// The session's first stream, which is the only one in most sessions, and the first in the order.
    first: Option<Box<T>>,
    others: BTreeMap<StreamId, Box<T>>,
    #[cfg(test)]
    pub(crate) visits: std::cell::Cell<u64>,
}

impl<T> StreamTable<T> {
    /// Creates a table with the first stream, which every session has.
    pub(crate) fn with_first(first: T) -> Self {
        Self {
            first: Some(Box::new(first)),
            others: BTreeMap::new(),
            #[cfg(test)]
            visits: std::cell::Cell::new(0),
        }
    }

    /// Counts accesses to streams, in tests.
    fn visit(&self) {
        #[cfg(test)]
        self.visits.update(|visits| visits + 1);
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&T> {
        self.visit();
        let stream = if id == StreamId::FIRST { self.first.as_ref() } else { self.others.get(&id) };
        stream.map(|stream| &**stream)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut T> {
        self.visit();
        let stream = if id == StreamId::FIRST { self.first.as_mut() } else { self.others.get_mut(&id) };
        stream.map(|stream| &mut **stream)
    }

    /// Adds a stream. A stream with the same id is replaced.
    pub(crate) fn insert(&mut self, id: StreamId, stream: T) {
        self.visit();
        if id == StreamId::FIRST {
            self.first = Some(Box::new(stream));
        } else {
            self.others.insert(id, Box::new(stream));
        }
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Box<T>> {
        self.visit();
        if id == StreamId::FIRST { self.first.take() } else { self.others.remove(&id) }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Returns all streams, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &T)> {
        let first = self.first.as_ref().map(|stream| (StreamId::FIRST, &**stream));
        let others = self.others.iter().map(|(&id, stream)| (id, &**stream));
        first.into_iter().chain(others).inspect(|_| self.visit())
    }

    /// Returns all streams, by id.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut T)> {
        #[cfg(test)]
        self.visits.update(|visits| visits + self.others.len() as u64 + 1);
        let first = self.first.as_mut().map(|stream| (StreamId::FIRST, &mut **stream));
        first.into_iter().chain(self.others.iter_mut().map(|(&id, stream)| (id, &mut **stream)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Model: an ordered map.
        #[test]
        fn it_is_a_map_in_the_order_of_ids(steps in proptest::collection::vec((0_u8..3, 0_u32..20, any::<u16>()), 0..200)) {
            let mut table = StreamTable::with_first(0);
            let mut model = BTreeMap::from([(StreamId::FIRST, 0)]);
            for (what, id, value) in steps {
                let id = StreamId::from_word(id);
                match what {
                    0 => prop_assert_eq!(table.remove(id).map(|value| *value), model.remove(&id)),
                    1 => prop_assert_eq!(table.get_mut(id).copied(), model.get(&id).copied()),
                    _ => {
                        table.insert(id, value);
                        model.insert(id, value);
                    }
                }
                prop_assert_eq!(table.get(id), model.get(&id));
                prop_assert!(table.iter().map(|(id, value)| (id, *value)).eq(model.iter().map(|(id, value)| (*id, *value))));
                prop_assert!(table.iter_mut().map(|(id, value)| (id, *value)).eq(model.iter().map(|(id, value)| (*id, *value))));
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
