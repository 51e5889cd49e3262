//! Data datagrams in flight: sent, and not yet covered by the highest number in a report.

use std::collections::VecDeque;

use dfcp_time::Time;
use dfcp_wire::StreamId;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) at: Time,
    /// Stream id. For a message symbol: 1 if its packet exceeds the base size, otherwise 0.
    stream: u32,
    block_id: u32,
}

/// Content of a data datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried {
    /// A symbol of a block.
    Symbol { stream: StreamId, block_id: u32 },
    /// A symbol of messages; the sender of messages keeps its details. `is_large` means that the packet exceeds the
    /// base size.
    Message { is_large: bool },
}

/// Marks a message symbol. No block has this id ([stream-6]). An extra field would cost memory for up to a million
/// datagrams.
const MESSAGE: u32 = u32::MAX;

impl Sent {
    pub(crate) const fn new(number: u64, at: Time, what: Carried) -> Self {
        let (stream, block_id) = match what {
            Carried::Symbol { stream, block_id } => (stream.to_word(), block_id),
            Carried::Message { is_large } => (is_large as u32, MESSAGE),
        };
        Self { number, at, stream, block_id }
    }

    pub(crate) const fn what(&self) -> Carried {
        match self.block_id {
            MESSAGE => Carried::Message { is_large: self.stream != 0 },
            block_id => Carried::Symbol { stream: StreamId::from_word(self.stream), block_id },
        }
    }
}

/// Capacity kept once it was used. A pause does not cost an allocation, and a burst does not hold memory for ever.
const KEPT_MAX: usize = 256;

/// Datagrams in flight, oldest first.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    sent: VecDeque<Sent>,
    /// Number of oldest datagrams that went to an address which the peer has left.
    stray: usize,
}

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Returns the number of datagrams in flight on the current path.
    pub(crate) fn on_path(&self) -> usize {
        self.sent.len() - self.stray
    }

    /// Marks all datagrams as stray: the peer has left their destination address.
    pub(crate) fn leave_path(&mut self) {
        self.stray = self.sent.len();
    }

    pub(crate) fn oldest_sent_at(&self) -> Option<Time> {
        self.sent.front().map(|sent| sent.at)
    }

    /// Forgets all symbols of messages, or all symbols of streams.
    pub(crate) fn forget(&mut self, messages: bool) {
        let after_stray = self.sent.get(self.stray).map(|sent| sent.number);
        self.sent.retain(|sent| matches!(sent.what(), Carried::Message { .. }) != messages);
        if self.stray > 0 {
            self.stray = match after_stray {
                Some(number) => self.sent.partition_point(|sent| sent.number < number),
                None => self.sent.len(),
            };
        }
        self.sent.shrink_to(KEPT_MAX);
    }

    pub(crate) fn push(&mut self, sent: Sent) {
        if self.sent.capacity() == 0 {
            // Many connections never have more than one datagram in flight.
            self.sent.reserve_exact(1);
        }
        self.sent.push_back(sent);
    }

    /// Removes and returns the oldest datagram up to `highest`, whose fate is now known.
    pub(crate) fn settle(&mut self, highest: u64) -> Option<Sent> {
        let settled = self.sent.front().is_some_and(|sent| sent.number <= highest).then(|| self.sent.pop_front())?;
        self.stray = self.stray.saturating_sub(1);
        settled
    }

    /// Returns the sending time of datagram `number`, if it is in flight.
    pub(crate) fn sent_at(&self, number: u64) -> Option<Time> {
        let index = self.sent.binary_search_by_key(&number, |sent| sent.number).ok()?;
        self.sent.get(index).map(|sent| sent.at)
    }
}
