//! Model of fixed FEC: after every 20 messages, 10 repair datagrams of an ideal code are sent. Any 20 of the 30
//! datagrams recover all messages. There is no feedback.

use std::collections::BTreeMap;

use dfcp_time::Time;

use super::{LATE, Messages};

/// Messages per group.
pub(super) const SOURCE: u64 = 20;
/// Repair datagrams per group.
pub(super) const REPAIR: u64 = 10;

/// State of a group at the receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Bit set of the messages that were received or recovered.
    whole: u32,
    repairs: u32,
}

/// Receiver of the FEC model.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    messages: Messages,
    /// Groups by number. They are kept until a while after their last deadline.
    groups: BTreeMap<u64, Group>,
}

impl Receiver {
    pub(super) fn new(messages: Messages) -> Self {
        Self { messages, groups: BTreeMap::new() }
    }

    /// Processes a message. Returns the numbers of the messages that are now available: this one and recovered ones.
    pub(super) fn on_data(&mut self, now: Time, number: u64, began: Time) -> Vec<u64> {
        self.forget(now, began);
        let (place, group) = (number / SOURCE, self.groups.entry(number / SOURCE).or_default());
        let bit = 1 << (number % SOURCE);
        if group.whole & bit != 0 {
            return Vec::new();
        }
        group.whole |= bit;
        let mut complete = vec![number];
        complete.extend(group.rebuild(place));
        complete
    }

    /// Processes a repair datagram. Returns the numbers of the messages that it recovers.
    pub(super) fn on_repair(&mut self, now: Time, place: u64, began: Time) -> Vec<u64> {
        self.forget(now, began);
        let group = self.groups.entry(place).or_default();
        group.repairs += 1;
        group.rebuild(place)
    }

    /// Drops groups whose last deadline passed a while ago.
    fn forget(&mut self, now: Time, began: Time) {
        while let Some(oldest) = self.groups.first_entry() {
            let last = oldest.key() * SOURCE + SOURCE - 1;
            if now <= self.messages.handed_over_at(began, last) + self.messages.deadline + LATE {
                break;
            }
            oldest.remove();
        }
    }
}

impl Group {
    /// Returns the numbers of the recovered messages; empty until enough symbols have arrived.
    fn rebuild(&mut self, place: u64) -> Vec<u64> {
        if u64::from(self.whole.count_ones() + self.repairs) < SOURCE {
            return Vec::new();
        }
        let missing = (0..SOURCE).filter(|bit| self.whole & 1 << bit == 0).map(|bit| place * SOURCE + bit).collect();
        self.whole = (1 << SOURCE) - 1;
        missing
    }
}
