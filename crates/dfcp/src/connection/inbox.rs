//! Datagrams on their way from the endpoint's task, which only receives, to the connection's, which decodes.

use std::collections::VecDeque;

use bytes::Bytes;
use dfcp_time::Time;

use crate::limits;

/// Datagrams which arrived together: each of `stride` bytes, the last perhaps shorter.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) at: Time,
    pub(crate) bytes: Bytes,
    pub(crate) stride: usize,
}

impl Received {
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.stride.max(1))
    }

    pub(crate) fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.stride.max(1))
    }

    fn cost(&self) -> usize {
        self.bytes.len().max(self.count() * limits::INBOX_DATAGRAM_BYTES_MIN)
    }
}

/// A bounded queue.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    queue: VecDeque<Received>,
    cost: usize,
    dropped: u64,
}

impl Inbox {
    /// Queues `received`, or drops and counts it.
    pub(crate) fn push(&mut self, received: Received) {
        let cost = received.cost();
        if self.cost + cost > limits::INBOX_BYTES_MAX {
            self.dropped += received.count() as u64;
            return;
        }
        self.cost += cost;
        self.queue.push_back(received);
    }

    /// Takes [`DATAGRAMS_PER_LOCK`](limits::DATAGRAMS_PER_LOCK) datagrams, and the rest of the run that reaches it,
    /// into `out`.
    pub(crate) fn take(&mut self, out: &mut Vec<Received>) {
        let mut count = 0;
        while count < limits::DATAGRAMS_PER_LOCK {
            let Some(received) = self.queue.pop_front() else { return };
            self.cost -= received.cost();
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
        Received { at: Time::ZERO, bytes: Bytes::from(vec![7; len]), stride }
    }

    #[test]
    fn a_run_is_split_by_its_stride() {
        let run = received(2_500, 1_000);
        assert_eq!(run.datagrams().map(<[u8]>::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
        assert_eq!((run.count(), received(0, 0).count()), (3, 0));
    }

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let mut inbox = Inbox::default();
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
    fn tiny_datagrams_are_not_cheap() {
        let mut inbox = Inbox::default();
        let fits = limits::INBOX_BYTES_MAX / limits::INBOX_DATAGRAM_BYTES_MIN;
        for _ in 0..fits + 1 {
            inbox.push(received(1, 1));
        }
        assert_eq!(inbox.dropped(), 1);
    }
}
