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

    /// To be served at `at`, or never if that is the end of time; unless it is to be at once.
    pub(super) fn at(&mut self, connection: Arc<Shared>, at: Time) {
        let index = connection.handle.index();
        if *self.place(&connection) == Place::Ready {
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::Carrier;
    use crate::clock::Clock;
    use crate::connection::Path;
    use crate::endpoint::Bell;
    use dfcp_proto::{Config, Endpoint};

    fn connections<const N: usize>() -> [Arc<Shared>; N] {
        let (clock, bell) = (Clock::start(), Arc::new(Bell::of_task()));
        let mut endpoint = Endpoint::new(1, None, [0; 32]);
        std::array::from_fn(|_| {
            let remote = ([192, 0, 2, 1], 1).into();
            let (handle, connection) = endpoint.connect(clock.now(), remote, Config::danger_unsealed()).unwrap();
            let path = Path { carrier: Carrier::Udp, remote, local: remote, src_ip: None };
            Shared::new(connection, clock, Arc::clone(&bell), handle, path, false)
        })
    }

    fn ready(agenda: &mut Agenda) -> Vec<usize> {
        std::iter::from_fn(|| agenda.next()).map(|connection| connection.handle.index()).collect()
    }

    #[test]
    fn each_is_served_when_it_is_due() {
        let [a, b, c] = connections();
        let mut agenda = Agenda::default();
        agenda.at(Arc::clone(&a), Time::from_ms(20));
        agenda.at(Arc::clone(&b), Time::from_ms(10));
        agenda.at(Arc::clone(&c), Time::MAX);
        assert_eq!(agenda.next_due(), Some(Time::from_ms(10)));
        agenda.advance(Time::from_ms(19));
        assert_eq!(ready(&mut agenda), [1]);
        agenda.now(c);
        agenda.now(a);
        assert_eq!(ready(&mut agenda), [2, 0]);
        assert_eq!(agenda.next_due(), None, "what is served earlier is not due again");
    }

    /// Two entries of one connection would outlive it, and serve whoever has its handle then.
    #[test]
    fn nobody_is_on_it_twice() {
        let [a] = connections();
        let mut agenda = Agenda::default();
        agenda.now(Arc::clone(&a));
        agenda.now(Arc::clone(&a));
        agenda.at(Arc::clone(&a), Time::from_ms(10));
        assert_eq!((ready(&mut agenda), agenda.next_due()), (vec![0], None));
    }
}
