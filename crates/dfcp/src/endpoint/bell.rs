//! How others reach what drives the endpoint, asleep or not.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dfcp_proto::Handle;

use tokio::sync::Notify;

use crate::endpoint::waiting::Line;

/// Calls for the endpoint's driver.
#[derive(Debug)]
pub(crate) struct Bell {
    calls: Mutex<Calls>,
    waked: Waked,
}

/// How the driver is woken.
#[derive(Debug)]
enum Waked {
    Thread(Line),
    Task(Notify),
}

#[derive(Debug, Default)]
struct Calls {
    /// Each at most once for each time that the driver has looked, see `Inner::sleeps_until`.
    connections: Vec<Handle>,
    /// The endpoint itself is to be looked at.
    endpoint: bool,
    /// The driver waits, or is about to.
    asleep: bool,
}

impl Bell {
    /// For a driver with a thread of its own.
    pub(super) fn of_thread() -> io::Result<Self> {
        Ok(Self { calls: Mutex::default(), waked: Waked::Thread(Line::new()?) })
    }

    /// For a driver which is a task.
    pub(super) fn of_task() -> Self {
        Self { calls: Mutex::default(), waked: Waked::Task(Notify::new()) }
    }

    /// Whether the driver is a task, on the thread of the application.
    pub(super) fn is_of_task(&self) -> bool {
        matches!(self.waked, Waked::Task(_))
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a connection served.
    pub(crate) fn call(&self, handle: Handle) {
        self.ring(|calls| calls.connections.push(handle));
    }

    /// Has the endpoint looked at.
    pub(crate) fn call_endpoint(&self) {
        self.ring(|calls| calls.endpoint = true);
    }

    fn ring(&self, note: impl FnOnce(&mut Calls)) {
        let mut calls = self.calls();
        note(&mut calls);
        let was_asleep = std::mem::take(&mut calls.asleep);
        drop(calls);
        if !was_asleep {
            return;
        }
        match &self.waked {
            Waked::Thread(line) => line.ring(),
            Waked::Task(notify) => notify.notify_one(),
        }
    }

    /// Who has called, and whether the endpoint is to be looked at.
    pub(super) fn answer(&self, connections: &mut Vec<Handle>) -> bool {
        let mut calls = self.calls();
        connections.append(&mut calls.connections);
        std::mem::take(&mut calls.endpoint)
    }

    /// `true` if the driver may wait now: whoever calls from now on rings.
    pub(super) fn may_sleep(&self) -> bool {
        let mut calls = self.calls();
        calls.asleep = calls.connections.is_empty() && !calls.endpoint;
        calls.asleep
    }

    /// The driver is awake: nobody needs to ring.
    pub(super) fn awake(&self) {
        self.calls().asleep = false;
    }

    /// What a thread waits for.
    pub(super) fn line(&self) -> Option<&Line> {
        if let Waked::Thread(line) = &self.waked { Some(line) } else { None }
    }

    /// What a task waits for.
    #[cfg(unix)]
    pub(super) async fn rung(&self) {
        match &self.waked {
            Waked::Task(notify) => notify.notified().await,
            Waked::Thread(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_before_the_thread_waits_keeps_it_awake_and_who_calls_later_rings() {
        let bell = Bell::of_thread().unwrap();
        let rung = || bell.line().unwrap().clear();
        bell.call_endpoint();
        assert!(!bell.may_sleep() && !rung());
        let mut connections = Vec::new();
        assert!(bell.answer(&mut connections) && connections.is_empty());
        assert!(!bell.answer(&mut connections));
        assert!(bell.may_sleep());
        bell.call_endpoint();
        bell.call_endpoint();
        assert!(rung() && !rung(), "one ring is enough");
        bell.awake();
        assert!(bell.answer(&mut connections));
        assert!(bell.may_sleep());
    }

    #[tokio::test]
    async fn a_task_hears_it_too() {
        let bell = Bell::of_task();
        assert!(bell.may_sleep());
        bell.call_endpoint();
        bell.rung().await;
    }
}
