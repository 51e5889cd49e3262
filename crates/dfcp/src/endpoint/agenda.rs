//! Which connection is served next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dfcp_time::Time;

use crate::connection::Shared;

/// Connections which are to be served at once, in turns, and those which are at a certain time.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    ready: VecDeque<Arc<Shared>>,
    /// By time, and by the index of the handle.
    due: BTreeMap<(Time, usize), Arc<Shared>>,
    /// By the index of the handle.
    places: Vec<Place>,
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Ready,
    Due(Time),
}

impl Agenda {
    fn place(&mut self, connection: &Shared) -> &mut Place {
        let index = connection.handle.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, Place::Nowhere);
        }
        // Always there: the line above has made room.
        &mut self.places[index]
    }

    /// To be served when those which are ready already have been.
    pub(super) fn now(&mut self, connection: Arc<Shared>) {
        let index = connection.handle.index();
        let before = std::mem::replace(self.place(&connection), Place::Ready);
        if let Place::Due(at) = before {
            self.due.remove(&(at, index));
        }
        if before != Place::Ready {
            self.ready.push_back(connection);
        }
    }

    /// To be served at `at`, or never if that is the end of time.
    pub(super) fn at(&mut self, connection: Arc<Shared>, at: Time) {
        let index = connection.handle.index();
        *self.place(&connection) = Place::Due(at);
        if at < Time::MAX {
            self.due.insert((at, index), connection);
        }
    }

    /// Moves what is due at `now` to what is ready.
    pub(super) fn advance(&mut self, now: Time) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let connection = entry.remove();
            *self.place(&connection) = Place::Ready;
            self.ready.push_back(connection);
        }
    }

    /// Who is served next; it is on the agenda no more.
    pub(super) fn next(&mut self) -> Option<Arc<Shared>> {
        let connection = self.ready.pop_front()?;
        *self.place(&connection) = Place::Nowhere;
        Some(connection)
    }

    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// When the next connection is due which is not ready.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }
}
