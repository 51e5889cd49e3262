//! The streams of one direction of a session, by id.

use dfcp_wire::StreamId;

use crate::shared::room::Room;

/// Streams in the order of their ids, which is also the order in which they are walked through: never that of a hash, so
/// that a seed tells what happens. Each has a place of its own in memory, so that only pointers move.
#[derive(Debug)]
pub(crate) struct StreamTable<T> {
    streams: Vec<(StreamId, Box<T>)>,
}

impl<T> StreamTable<T> {
    /// A table with the one stream that every session has.
    pub(crate) fn with_first(first: T) -> Self {
        Self { streams: vec![(StreamId::FIRST, Box::new(first))] }
    }

    fn place(&self, id: StreamId) -> Result<usize, usize> {
        // Most sessions have one stream, and most datagrams are for the first or the newest.
        match self.streams.last() {
            Some(&(last, _)) if last == id => Ok(self.streams.len() - 1),
            Some(&(last, _)) if last < id => Err(self.streams.len()),
            _ => self.streams.binary_search_by_key(&id, |&(id, _)| id),
        }
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&T> {
        let place = self.place(id).ok()?;
        self.streams.get(place).map(|(_, stream)| &**stream)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut T> {
        let place = self.place(id).ok()?;
        self.streams.get_mut(place).map(|(_, stream)| &mut **stream)
    }

    /// Adds a stream; one with the same id is replaced.
    pub(crate) fn insert(&mut self, id: StreamId, stream: T) {
        match self.place(id) {
            Ok(place) => *self.streams[place].1 = stream,
            Err(place) => self.streams.insert(place, (id, Box::new(stream))),
        }
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Box<T>> {
        let place = self.place(id).ok()?;
        let (_, stream) = self.streams.remove(place);
        self.streams.give_back();
        Some(stream)
    }

    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// The id of the one in this place of the order.
    pub(crate) fn id_at(&self, place: usize) -> Option<StreamId> {
        self.streams.get(place).map(|&(id, _)| id)
    }

    /// All of them, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &T)> {
        self.streams.iter().map(|(id, stream)| (*id, &**stream))
    }

    /// All of them, by id.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut T)> {
        self.streams.iter_mut().map(|(id, stream)| (*id, &mut **stream))
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
