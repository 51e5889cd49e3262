//! Consistency check of the sending side's lists against its streams. For tests: it may visit all streams.

use dfcp_wire::StreamId;

use super::SendSide;
use crate::stream::send::Due;

impl SendSide {
    /// The first inconsistency in the lists. `None` if they are correct.
    pub(crate) fn find_fault(&self) -> Option<String> {
        let mut timed = [0; 3];
        for (id, stream) in self.streams.iter() {
            let listed = stream.listed_in;
            let Due { cut, ask, end } = listed.timed;
            for (count, at) in timed.iter_mut().zip([cut, ask, end]) {
                *count += usize::from(at.is_some());
            }
            if !self.timed.holds(id, listed.timed) {
                return Some(format!("{id:?} is not listed as due: {:?}", listed.timed));
            }
            if stream.ending_at() != end {
                return Some(format!("{id:?} says its end at {:?}, listed {end:?}", stream.ending_at()));
            }
            if let Some(at) = stream.ask_at()
                && ask.is_none_or(|listed| listed > at)
            {
                return Some(format!("{id:?} asks at {at}, listed {ask:?}"));
            }
            if listed.waiting != self.waiting.contains(&id) {
                return Some(format!("{id:?} waits for a report: {}, and is not listed so", listed.waiting));
            }
            if listed.writers != self.writers.contains(&id) || (stream.has_more_to_come() && !listed.writers) {
                return Some(format!("{id:?} has a writer listed: {}", listed.writers));
            }
            if listed.passed {
                return Some(format!("{id:?} was passed by a report that has been taken in"));
            }
            let is_listed = listed.oldest.is_some_and(|begun| self.shared.oldest.contains(&(begun, id)));
            if id != StreamId::FIRST && (listed.oldest != stream.oldest_begun() || is_listed == stream.is_idle()) {
                return Some(format!("{id:?} is listed with the oldest block {:?}", listed.oldest));
            }
            let has_turn = self.scheduler.has_turn(id);
            if stream.has_data_to_send() && !has_turn && !listed.waiting {
                return Some(format!("{id:?} has data to send, no turn, and waits for nothing"));
            }
            // Data that may be sent, with no event that would cause a report, would wait forever.
            if self.is_idle() && stream.has_data_to_send() && !has_turn {
                let asks = self.stuck.contains(&id) && stream.is_stuck(&self.shared);
                if !asks && cut.is_none() && stream.cut_at(&self.shared).is_none() {
                    return Some(format!("{id:?} has data to send, and nothing will bring it a turn"));
                }
            }
        }
        let others = self.shared.oldest.len();
        let with_blocks = self.streams.iter().filter(|(id, it)| *id != StreamId::FIRST && !it.is_idle()).count();
        if others != with_blocks {
            return Some(format!("{others} oldest blocks of {with_blocks} streams"));
        }
        let unacknowledged: usize = self.streams.iter().map(|(_, it)| it.open_blocks()).sum();
        if unacknowledged != self.shared.hold_up.blocks as usize {
            let counted = self.shared.hold_up.blocks;
            return Some(format!("{unacknowledged} blocks are not acknowledged, counted {counted}"));
        }
        if self.timed.lengths() != timed {
            return Some(format!("{:?} streams are due, {timed:?} say so", self.timed.lengths()));
        }
        if let Some(id) = self.stuck.iter().find(|&&id| self.streams.get(id).is_none()) {
            return Some(format!("{id:?} is stuck and gone"));
        }
        None
    }
}
