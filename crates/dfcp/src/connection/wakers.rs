//! Tasks that wait for a connection, to be woken after its lock is released.

use std::task::{Context, Waker};

use tokio::sync::Notify;

use crate::connection::send_ends::Told;

/// Notifications for tasks that wait for a stream or message of the peer (`opened`), for a higher stream limit
/// (`available`), or for the session's end (`ended`).
#[derive(Debug, Default)]
pub(super) struct Notifies {
    pub(super) opened: Notify,
    pub(super) available: Notify,
    pub(super) ended: Notify,
}

/// Tasks to wake after the lock is released.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    /// The first two wakers. There are rarely more, so that the vector rarely allocates.
    first: [Option<Waker>; 2],
    others: Vec<Waker>,
    /// Ends of sending halves, with their waiting tasks.
    pub(super) told: Vec<Told>,
    pub(super) news: News,
}

/// Events that any number of tasks may wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    pub(super) opened: bool,
    pub(super) available: bool,
    pub(super) ended: bool,
}

impl News {
    /// All events: the connection is over.
    pub(super) const ALL: Self = Self { opened: true, available: true, ended: true };
}

impl Wakers {
    /// Adds a waker. `spare` is the allocation for a third and further ones.
    pub(super) fn push(&mut self, waker: Waker, spare: &mut Vec<Waker>) {
        if let Some(place) = self.first.iter_mut().find(|place| place.is_none()) {
            *place = Some(waker);
            return;
        }
        if self.others.capacity() == 0 {
            self.others = std::mem::take(spare);
        }
        self.others.push(waker);
    }

    /// Wakes the collected tasks, and the tasks that wait on `notifies`. Returns true if there was a task to wake, and
    /// the allocation for reuse.
    pub(super) fn wake(mut self, notifies: &Notifies) -> (bool, Vec<Waker>) {
        let News { opened, available, ended } = self.news;
        let is_news = opened || available || ended;
        let is_anybody = self.first.iter().any(Option::is_some) || !self.others.is_empty() || is_news;
        let is_anybody = is_anybody || !self.told.is_empty();
        self.first.into_iter().flatten().for_each(Waker::wake);
        self.told.into_iter().for_each(Told::wake);
        for (is_news, notify) in
            [(opened, &notifies.opened), (available, &notifies.available), (ended, &notifies.ended)]
        {
            if is_news {
                notify.notify_waiters();
            }
        }
        self.others.drain(..).for_each(Waker::wake);
        (is_anybody, self.others)
    }
}

/// Stores the waker of the current task.
pub(super) fn register(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}
