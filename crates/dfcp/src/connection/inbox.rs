//! Datagrams on their way from the endpoint's task, which only receives, to the connection's, which decodes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dfcp_time::Time;

use crate::buffers::Buffer;
use crate::limits;

/// Datagrams which arrived together: each of `stride` bytes, the last perhaps shorter.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) at: Time,
    pub(crate) remote: SocketAddr,
    pub(crate) bytes: Run,
    pub(crate) stride: usize,
}

/// Where the bytes of datagrams are which wait.
#[derive(Debug)]
pub(crate) enum Run {
    /// A few, copied.
    Copied(Vec<u8>),
    /// In the buffer that they were received into.
    Whole(Buffer, Range<usize>),
}

impl Run {
    fn len(&self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.len(),
            Self::Whole(_, range) => range.len(),
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Whole(buffer, range) => buffer.get_mut(range.clone()).unwrap_or_default(),
        }
    }
}

impl Received {
    /// To be decrypted in place.
    pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.bytes.bytes().chunks_mut(self.stride.max(1))
    }

    pub(crate) fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.stride.max(1))
    }

    fn cost(&self) -> usize {
        match &self.bytes {
            Run::Copied(bytes) => bytes.len().max(self.count() * limits::INBOX_DATAGRAM_BYTES_MIN),
            Run::Whole(..) => limits::BUFFER_BYTES.max(self.count() * limits::INBOX_DATAGRAM_BYTES_MIN),
        }
    }
}

/// What waits in all inboxes of an endpoint, besides what each may hold of its own.
#[derive(Debug, Default)]
pub(crate) struct InboxBudget {
    used_bytes: AtomicUsize,
}

impl InboxBudget {
    /// What waits.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if at least `left_bytes` are free afterwards.
    fn take(&self, bytes: usize, left_bytes: usize) -> bool {
        let used =
            |used: usize| (used + bytes + left_bytes <= limits::INBOXES_SHARED_BYTES_MAX).then_some(used + bytes);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, used).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A bounded queue.
#[derive(Debug)]
pub(crate) struct Inbox {
    budget: Arc<InboxBudget>,
    queue: VecDeque<Received>,
    cost: usize,
    /// The part of `cost` which the budget has paid for.
    shared: usize,
    dropped: u64,
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.budget.give_back(self.shared);
    }
}

impl Inbox {
    pub(crate) fn new(budget: Arc<InboxBudget>) -> Self {
        Self { budget, queue: VecDeque::new(), cost: 0, shared: 0, dropped: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues `received`, or drops and counts it.
    pub(crate) fn push(&mut self, received: Received) {
        let cost = self.cost + received.cost();
        let shared = cost.saturating_sub(limits::INBOX_OWN_BYTES);
        let fits = cost <= limits::INBOX_BYTES_MAX
            && (shared <= self.shared || self.budget.take(shared - self.shared, shared));
        if !fits {
            self.dropped += received.count() as u64;
            return;
        }
        self.shared = shared.max(self.shared);
        self.cost = cost;
        self.queue.push_back(received);
    }

    /// Takes [`DATAGRAMS_PER_LOCK`](limits::DATAGRAMS_PER_LOCK) datagrams, and the rest of the run that reaches it,
    /// into `out`.
    pub(crate) fn take(&mut self, out: &mut Vec<Received>) {
        let mut count = 0;
        while count < limits::DATAGRAMS_PER_LOCK {
            let Some(received) = self.queue.pop_front() else { return };
            self.cost -= received.cost();
            let shared = self.cost.saturating_sub(limits::INBOX_OWN_BYTES);
            self.budget.give_back(self.shared.saturating_sub(shared));
            self.shared = self.shared.min(shared);
            count += received.count();
            out.push(received);
        }
    }

    /// Datagrams dropped for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(len: usize, stride: usize) -> Received {
        Received { at: Time::ZERO, remote: ([127, 0, 0, 1], 1).into(), bytes: Run::Copied(vec![7; len]), stride }
    }

    #[test]
    fn a_run_is_split_by_its_stride() {
        let mut run = received(2_500, 1_000);
        assert_eq!(run.datagrams().map(|datagram| datagram.len()).collect::<Vec<_>>(), [1_000, 1_000, 500]);
        assert_eq!((run.count(), received(0, 0).count()), (3, 0));
    }

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let mut inbox = Inbox::new(Arc::default());
        let runs = limits::INBOX_BYTES_MAX / 64_000;
        for _ in 0..runs + 2 {
            inbox.push(received(64_000, 1_000));
        }
        assert_eq!(inbox.dropped(), 2 * 64);
        let mut out = Vec::new();
        while !inbox.queue.is_empty() {
            inbox.take(&mut out);
        }
        assert_eq!((out.len(), inbox.cost), (runs, 0));
    }

    #[test]
    fn all_inboxes_together_are_bounded_and_each_keeps_room_for_a_run() {
        let budget = Arc::new(InboxBudget::default());
        let mut inboxes: Vec<_> = (0..100).map(|_| Inbox::new(Arc::clone(&budget))).collect();
        for inbox in &mut inboxes {
            for _ in 0..limits::INBOX_BYTES_MAX / 60_000 {
                inbox.push(received(60_000, 1_000));
            }
            assert!(!inbox.queue.is_empty(), "its own room is nobody else's");
            assert!(budget.used_bytes() <= limits::INBOXES_SHARED_BYTES_MAX);
        }
        let waiting: usize = inboxes.iter().map(|inbox| inbox.cost).sum();
        assert!(waiting <= limits::INBOXES_SHARED_BYTES_MAX + 100 * limits::INBOX_OWN_BYTES);
        assert!(inboxes.iter().map(Inbox::dropped).sum::<u64>() > 0, "the test fills them");
        let mut out = Vec::new();
        while !inboxes[0].queue.is_empty() {
            inboxes[0].take(&mut out);
        }
        assert_eq!((inboxes[0].cost, inboxes[0].shared), (0, 0));
        drop(inboxes);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn tiny_datagrams_are_not_cheap() {
        let mut inbox = Inbox::new(Arc::default());
        let fits = limits::INBOX_BYTES_MAX / limits::INBOX_DATAGRAM_BYTES_MIN;
        for _ in 0..fits + 1 {
            inbox.push(received(1, 1));
        }
        assert_eq!(inbox.dropped(), 1);
    }
}
