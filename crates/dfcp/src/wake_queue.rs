//! The wake-ups of an endpoint's driver. Handles on any thread leave them here, and wake the driver if it waits.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dfcp_proto::Handle;

use tokio::sync::Notify;

use crate::waiting::PollWaker;

/// Pending wake-ups, and the means to wake the driver. A wake-up costs a system call only if the driver is asleep.
#[derive(Debug)]
pub(crate) struct WakeQueue {
    pending: Mutex<Pending>,
    target: WakeTarget,
}

/// Target of a wake-up: the driver's thread or its task.
#[derive(Debug)]
enum WakeTarget {
    Thread(PollWaker),
    Task(Notify),
}

#[derive(Debug, Default)]
struct Pending {
    /// A connection is pushed when it is opened, and later only while it sleeps (`Inner::sleeps_until`): a fast writer cannot
    /// make this grow.
    connections: Vec<Handle>,
    /// The endpoint itself may be over.
    endpoint: bool,
    /// The driver waits, or is about to: the next push must wake it.
    asleep: bool,
}

impl WakeQueue {
    /// For a driver with a thread of its own.
    pub(crate) fn of_thread() -> io::Result<Self> {
        Ok(Self { pending: Mutex::default(), target: WakeTarget::Thread(PollWaker::new()?) })
    }

    /// For a driver which is a task.
    pub(crate) fn of_task() -> Self {
        Self { pending: Mutex::default(), target: WakeTarget::Task(Notify::new()) }
    }

    /// True if the driver is a task, on the thread of the application.
    pub(crate) fn is_of_task(&self) -> bool {
        matches!(self.target, WakeTarget::Task(_))
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the driver serve a connection.
    pub(crate) fn push(&self, handle: Handle) {
        self.wake(|pending| pending.connections.push(handle));
    }

    /// Has the driver check whether the endpoint is over.
    pub(crate) fn push_endpoint(&self) {
        self.wake(|pending| pending.endpoint = true);
    }

    fn wake(&self, note: impl FnOnce(&mut Pending)) {
        let mut pending = self.pending();
        note(&mut pending);
        let was_asleep = std::mem::take(&mut pending.asleep);
        drop(pending);
        if !was_asleep {
            return;
        }
        match &self.target {
            WakeTarget::Thread(waker) => waker.wake(),
            WakeTarget::Task(notify) => notify.notify_one(),
        }
    }

    /// Moves the pending connections to `connections`. Returns whether the endpoint itself was pushed.
    pub(crate) fn drain(&self, connections: &mut Vec<Handle>) -> bool {
        let mut pending = self.pending();
        connections.append(&mut pending.connections);
        std::mem::take(&mut pending.endpoint)
    }

    /// True if the driver may wait now, as nothing is pending. Pushes from now on wake it: check and mark are one step under
    /// the lock, so no wake-up is lost between them.
    pub(crate) fn may_sleep(&self) -> bool {
        let mut pending = self.pending();
        pending.asleep = pending.connections.is_empty() && !pending.endpoint;
        pending.asleep
    }

    /// The driver is awake: pushes need not wake it.
    pub(crate) fn awake(&self) {
        self.pending().asleep = false;
    }

    /// Waker that a thread polls beside its socket; `None` if the driver is a task.
    pub(crate) fn poll_waker(&self) -> Option<&PollWaker> {
        if let WakeTarget::Thread(waker) = &self.target { Some(waker) } else { None }
    }

    /// Wake-up that a task awaits; it never ends if the driver has a thread.
    #[cfg(unix)]
    pub(crate) async fn woken(&self) {
        match &self.target {
            WakeTarget::Task(notify) => notify.notified().await,
            WakeTarget::Thread(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_before_the_thread_waits_keeps_it_awake_and_a_later_one_wakes_it() {
        let wake_queue = WakeQueue::of_thread().unwrap();
        let was_woken = || wake_queue.poll_waker().unwrap().clear();
        wake_queue.push_endpoint();
        assert!(!wake_queue.may_sleep() && !was_woken());
        let mut connections = Vec::new();
        assert!(wake_queue.drain(&mut connections) && connections.is_empty());
        assert!(!wake_queue.drain(&mut connections));
        assert!(wake_queue.may_sleep());
        wake_queue.push_endpoint();
        wake_queue.push_endpoint();
        assert!(was_woken() && !was_woken(), "one wake-up is enough");
        wake_queue.awake();
        assert!(wake_queue.drain(&mut connections));
        assert!(wake_queue.may_sleep());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_task_is_woken_too() {
        let wake_queue = WakeQueue::of_task();
        assert!(wake_queue.may_sleep());
        wake_queue.push_endpoint();
        wake_queue.woken().await;
    }
}
