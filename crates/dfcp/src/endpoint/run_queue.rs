//! Order in which connections are served.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dfcp_time::Time;

use crate::connection::Shared;

/// Connections to be served: a round-robin queue of ready ones, and a timer queue of sleeping ones. A connection is in
/// at most one of the two, and at most once.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    ready: VecDeque<Arc<Shared>>,
    /// Sleeping connections by time. The index of the handle distinguishes connections of equal time.
    due: BTreeMap<(Time, usize), Arc<Shared>>,
    /// Positions by the index of the handle.
    places: Vec<Place>,
}

/// Position of a connection in the queues, so that it is found without a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Ready,
    Due(Time),
}

impl RunQueue {
    fn place(&mut self, connection: &Shared) -> &mut Place {
        let index = connection.handle.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, Place::Nowhere);
        }
        // In range: the vector was enlarged above.
        &mut self.places[index]
    }

    /// Appends `connection` to the ready queue, unless it is already there.
    pub(super) fn schedule_now(&mut self, connection: Arc<Shared>) {
        let index = connection.handle.index();
        let before = std::mem::replace(self.place(&connection), Place::Ready);
        if let Place::Due(at) = before {
            self.due.remove(&(at, index));
        }
        if before != Place::Ready {
            self.ready.push_back(connection);
        }
    }

    /// Schedules `connection` for `at`, unless it is ready. [`Time::MAX`] means never: then only
    /// [`schedule_now`](Self::schedule_now) makes it ready.
    pub(super) fn schedule_at(&mut self, connection: Arc<Shared>, at: Time) {
        let index = connection.handle.index();
        if *self.place(&connection) == Place::Ready {
            return;
        }
        *self.place(&connection) = Place::Due(at);
        if at < Time::MAX {
            self.due.insert((at, index), connection);
        }
    }

    /// Makes all connections ready whose time has come.
    pub(super) fn advance(&mut self, now: Time) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let connection = entry.remove();
            *self.place(&connection) = Place::Ready;
            self.ready.push_back(connection);
        }
    }

    /// Removes and returns the next ready connection.
    pub(super) fn next(&mut self) -> Option<Arc<Shared>> {
        let connection = self.ready.pop_front()?;
        *self.place(&connection) = Place::Nowhere;
        Some(connection)
    }

    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Returns the earliest time in the timer queue.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::Carrier;
    use crate::clock::Clock;
    use crate::connection::{Local, Path};
    use crate::outbox::Departure;
    use crate::wake_queue::WakeQueue;
    use dfcp_proto::{Config, Endpoint};

    fn connections<const N: usize>() -> [Arc<Shared>; N] {
        let (clock, wake_queue) = (Clock::start(), Arc::new(WakeQueue::of_task()));
        let mut endpoint = Endpoint::new(1, None, [0; 32]);
        std::array::from_fn(|_| {
            let remote = ([192, 0, 2, 1], 1).into();
            let (handle, connection) = endpoint.connect(clock.now(), remote, Config::danger_unsealed()).unwrap();
            let path = Path { carrier: Carrier::Udp, remote };
            let local = Local { address: remote, departure: Departure::default() };
            Shared::new(connection, clock, Arc::clone(&wake_queue), handle, (path, local), false)
        })
    }

    fn ready(run_queue: &mut RunQueue) -> Vec<usize> {
        std::iter::from_fn(|| run_queue.next()).map(|connection| connection.handle.index()).collect()
    }

    #[test]
    fn each_is_served_when_it_is_due() {
        let [a, b, c] = connections();
        let mut run_queue = RunQueue::default();
        run_queue.schedule_at(Arc::clone(&a), Time::from_ms(20));
        run_queue.schedule_at(Arc::clone(&b), Time::from_ms(10));
        run_queue.schedule_at(Arc::clone(&c), Time::MAX);
        assert_eq!(run_queue.next_due(), Some(Time::from_ms(10)));
        run_queue.advance(Time::from_ms(19));
        assert_eq!(ready(&mut run_queue), [1]);
        run_queue.schedule_now(c);
        run_queue.schedule_now(a);
        assert_eq!(ready(&mut run_queue), [2, 0]);
        assert_eq!(run_queue.next_due(), None, "what is served earlier is not due again");
    }

    /// A second entry would outlive the connection, and serve the next connection with the same handle.
    #[test]
    fn nobody_is_on_it_twice() {
        let [a] = connections();
        let mut run_queue = RunQueue::default();
        run_queue.schedule_now(Arc::clone(&a));
        run_queue.schedule_now(Arc::clone(&a));
        run_queue.schedule_at(Arc::clone(&a), Time::from_ms(10));
        assert_eq!((ready(&mut run_queue), run_queue.next_due()), (vec![0], None));
    }
}
