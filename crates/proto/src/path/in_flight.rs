//! Data datagrams whose fate is unknown: sent, and not yet passed by the highest number in a report.

use std::collections::VecDeque;

use dfcp_time::Time;
use dfcp_wire::StreamId;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) at: Time,
    /// Of a message, whose sender knows more of it, whether its packet is above the base size.
    stream: u32,
    block_id: u32,
}

/// Content of a data datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried {
    /// A symbol of a block.
    Symbol { stream: StreamId, block_id: u32 },
    /// A symbol of messages, whose sender knows more of it; in a packet above the base size, or not.
    Message { is_large: bool },
}

/// No block has this id ([stream-6]): datagrams in flight may be a million, so that they have no room for more.
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

/// Room for this many is kept once there was any: a pause does not cost an allocation, and a burst does not hold memory for ever.
const KEPT_MAX: usize = 256;

/// Datagrams in flight, oldest first.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    sent: VecDeque<Sent>,
    /// So many of the oldest went to an address that the peer has left.
    stray: usize,
}

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Those which may be on the path that is used now.
    pub(crate) fn on_path(&self) -> usize {
        self.sent.len() - self.stray
    }

    /// Marks all datagrams so far as stray: the peer has left their destination address.
    pub(crate) fn leave_path(&mut self) {
        self.stray = self.sent.len();
    }

    pub(crate) fn oldest_sent_at(&self) -> Option<Time> {
        self.sent.front().map(|sent| sent.at)
    }

    /// Nobody waits for the fate of the symbols in flight that belong to streams, or of those that belong to messages.
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
            // Many connections never have more under way.
            self.sent.reserve_exact(1);
        }
        self.sent.push_back(sent);
    }

    /// Takes out the oldest datagram whose number is at most `highest`: its fate is known now.
    pub(crate) fn settle(&mut self, highest: u64) -> Option<Sent> {
        let settled = self.sent.front().is_some_and(|sent| sent.number <= highest).then(|| self.sent.pop_front())?;
        self.stray = self.stray.saturating_sub(1);
        settled
    }

    /// Departure of the datagram numbered `number`, if it is still in flight.
    pub(crate) fn sent_at(&self, number: u64) -> Option<Time> {
        let index = self.sent.binary_search_by_key(&number, |sent| sent.number).ok()?;
        self.sent.get(index).map(|sent| sent.at)
    }
}
