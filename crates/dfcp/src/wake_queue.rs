//! Queue of wake-ups for an endpoint's driver. Handles on any thread push to it, and wake the driver if it waits.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dfcp_proto::Handle;

use tokio::sync::Notify;

use crate::waiting::PollWaker;

/// Pending wake-ups, and the target that wakes the driver. A wake-up costs a system call only if the driver is asleep.
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
    /// Connections to serve. A connection is pushed when it is opened, and later only while it sleeps
    /// (`Inner::sleeps_until`), so a fast writer cannot make this queue grow.
    connections: Vec<Handle>,
    /// The driver must check whether the endpoint is over.
    endpoint: bool,
    /// The driver waits, or is about to wait: the next push must wake it.
    asleep: bool,
}

impl WakeQueue {
    /// Returns a queue for a driver with its own thread.
    pub(crate) fn of_thread() -> io::Result<Self> {
        Ok(Self { pending: Mutex::default(), target: WakeTarget::Thread(PollWaker::new()?) })
    }

    /// Returns a queue for a driver that is a task.
    pub(crate) fn of_task() -> Self {
        Self { pending: Mutex::default(), target: WakeTarget::Task(Notify::new()) }
    }

    /// Returns true if the driver is a task, on the application's thread.
    pub(crate) fn is_of_task(&self) -> bool {
        matches!(self.target, WakeTarget::Task(_))
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the driver to serve a connection.
    pub(crate) fn push(&self, handle: Handle) {
        self.wake(|pending| pending.connections.push(handle));
    }

    /// Wakes the driver to check whether the endpoint is over.
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

    /// Moves the pending connections to `connections`. Returns true if [`push_endpoint`](Self::push_endpoint) was
    /// called.
    pub(crate) fn drain(&self, connections: &mut Vec<Handle>) -> bool {
        let mut pending = self.pending();
        connections.append(&mut pending.connections);
        std::mem::take(&mut pending.endpoint)
    }

    /// Returns true if the driver may wait now, as nothing is pending. Later pushes will wake it: the check and the
    /// mark are one step under the lock, so no wake-up is lost between them.
    pub(crate) fn may_sleep(&self) -> bool {
        let mut pending = self.pending();
        pending.asleep = pending.connections.is_empty() && !pending.endpoint;
        pending.asleep
    }

    /// Marks the driver as awake: pushes need not wake it.
    pub(crate) fn awake(&self) {
        self.pending().asleep = false;
    }

    /// Returns the waker that a thread polls beside its socket, or `None` if the driver is a task.
    pub(crate) fn poll_waker(&self) -> Option<&PollWaker> {
        if let WakeTarget::Thread(waker) = &self.target { Some(waker) } else { None }
    }

    /// Waits for a wake-up of a task. The future never completes if the driver has a thread.
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
