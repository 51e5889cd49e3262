//! Record of each segment between the first that is not acknowledged and the next to be sent.
//!
//! All bookkeeping is in whole segments, numbered from 0. A segment that was selectively acknowledged points to one
//! after it, and chains of them are shortened when followed (a disjoint-set forest), so a block of any length which
//! was reported before is passed over in one step. Loss marks and retransmissions move cursors which only go forward.

mod rack;

use std::collections::VecDeque;

use dfcp_time::Time;

use super::config::LossDetection;
use super::delivery_rate::DeliveryRate;
use rack::Rack;
pub(crate) use rack::Report;

/// Segments taken for lost below this many later ones that arrived (DupThresh of RFC 5681 and RFC 6675).
pub(crate) const DUP_THRESH: u64 = 3;

const CAPACITY_START: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Time of its last transmission.
    sent: Time,
    /// 0: not selectively acknowledged. Otherwise a distance in segments: all segments from this one up to that distance, exclusive, are
    /// selectively acknowledged, so a search skips them.
    skip: u32,
    /// Taken for lost, and not selectively acknowledged since.
    lost: bool,
    /// A retransmission of it is in flight.
    retransmitted: bool,
    /// It was sent more than once.
    repeated: bool,
    /// It ended a burst, and does so again when it is repeated.
    pushed: bool,
}

/// Effect of a cumulative acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advance {
    /// Segments newly below the acknowledgement.
    pub(crate) segments: u64,
    /// Acknowledged segments that no selective acknowledgement had reported.
    pub(crate) delivered: u64,
    /// Sending time of the last of them that was sent only once (Karn's algorithm).
    pub(crate) sent: Option<Time>,
    /// One of the acknowledged segments had been retransmitted.
    pub(crate) repeated: bool,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    /// Indexed by segment number modulo its length, a power of two.
    ring: Vec<Entry>,
    detection: LossDetection,
    /// First segment not acknowledged.
    una: u64,
    /// Next segment to be sent for the first time.
    end: u64,
    sacked: u64,
    lost: u64,
    retransmitted: u64,
    /// Duplicate acknowledgements, each of which stands for a segment that arrived; without selective acknowledgements only.
    duplicates: u64,
    /// The three highest segments selectively acknowledged, plus one each, highest first; 0 is none.
    highest: [u64; 3],
    /// Every segment below that is not selectively acknowledged is marked lost.
    lost_below: u64,
    /// No lost segment below waits for its retransmission, but those in `relost`.
    retransmit_from: u64,
    /// Lost again after their retransmission.
    relost: VecDeque<u64>,
    /// Retransmissions in the order and with the time of their sending; empty where lost ones are left to the timer.
    repeats: VecDeque<(u64, Time)>,
    track_repeats: bool,
    /// Latest sending time of all segments that arrived.
    newest: Time,
    /// Times for senders that detect losses by time.
    rack: Option<Rack>,
    /// Delivery rate for algorithms that want it.
    rate: Option<DeliveryRate>,
    /// Segments taken for lost since the start, each as often as that happened.
    lost_total: u64,
}

impl Scoreboard {
    /// `track_repeats`: lost retransmissions can be found.
    pub(crate) fn new(detection: LossDetection, track_repeats: bool) -> Self {
        Self {
            ring: vec![Entry::default(); CAPACITY_START],
            detection,
            una: 0,
            end: 0,
            sacked: 0,
            lost: 0,
            retransmitted: 0,
            duplicates: 0,
            highest: [0; 3],
            lost_below: 0,
            retransmit_from: 0,
            relost: VecDeque::new(),
            repeats: VecDeque::new(),
            track_repeats,
            newest: Time::ZERO,
            rack: (detection == LossDetection::Rack).then(Rack::default),
            rate: None,
            lost_total: 0,
        }
    }

    /// Measures the delivery rate from now on.
    pub(crate) fn with_delivery_rate(mut self) -> Self {
        self.rate = Some(DeliveryRate::new(self.ring.len()));
        self
    }

    pub(crate) fn delivery_rate(&mut self) -> Option<&mut DeliveryRate> {
        self.rate.as_mut()
    }

    pub(crate) fn lost_total(&self) -> u64 {
        self.lost_total
    }

    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Segments sent and not cumulatively acknowledged.
    pub(crate) fn outstanding(&self) -> u64 {
        self.end - self.una
    }

    /// Segments taken for lost and not acknowledged since.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Duplicate acknowledgements: segments that arrived, but not known which.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Segments thought to be in the network (RFC 6675).
    pub(crate) fn pipe(&self) -> u64 {
        (self.outstanding() - self.sacked - self.lost).saturating_sub(self.duplicates) + self.retransmitted
    }

    /// Notes a segment sent for the first time.
    pub(crate) fn push(&mut self, now: Time) -> u64 {
        if self.outstanding() == self.ring.len() as u64 {
            self.grow();
        }
        let segment = self.end;
        self.note_sent(segment, now);
        *self.entry_mut(segment) = Entry { sent: now, ..Entry::default() };
        if let Some(rack) = &mut self.rack {
            rack.on_sent(segment, now);
        }
        self.end += 1;
        segment
    }

    /// Notes a segment sent again.
    pub(crate) fn retransmit(&mut self, segment: u64, now: Time) {
        self.note_sent(segment, now);
        let entry = self.entry_mut(segment);
        entry.sent = now;
        entry.repeated = true;
        if !entry.retransmitted {
            entry.retransmitted = true;
            self.retransmitted += 1;
        }
        if let Some(rack) = &mut self.rack {
            rack.on_sent(segment, now);
        } else if self.track_repeats {
            self.repeats.push_back((segment, now));
        }
    }

    /// Everything below `una` was acknowledged.
    pub(crate) fn advance(&mut self, una: u64) -> Advance {
        let mut advance = Advance::default();
        while self.una < una.min(self.end) {
            let entry = *self.entry(self.una);
            advance.segments += 1;
            if entry.skip > 0 {
                self.sacked -= 1;
                self.retransmitted -= u64::from(entry.retransmitted);
            } else {
                advance.delivered += 1;
                self.note_delivered(self.una, entry.sent);
                self.lost -= u64::from(entry.lost);
                self.retransmitted -= u64::from(entry.retransmitted);
            }
            if let Some(rack) = &mut self.rack {
                rack.on_acked(self.una, entry.sent, entry.repeated, entry.skip > 0);
            }
            if entry.repeated {
                advance.repeated = true;
            } else {
                advance.sent = Some(entry.sent);
            }
            self.una += 1;
        }
        advance
    }

    /// Segments from `start` up to but not including `end` were selectively acknowledged. Returns how many of them
    /// were not before.
    pub(crate) fn sack(&mut self, start: u64, end: u64) -> u64 {
        let end = end.min(self.end);
        let mut fresh = 0;
        let mut segment = self.next_unsacked(start.max(self.una));
        while segment < end {
            self.mark_sacked(segment);
            fresh += 1;
            segment = self.next_unsacked(segment + 1);
        }
        fresh
    }

    /// Notes that one more segment arrived, without selective acknowledgements: it is not known which.
    pub(crate) fn add_duplicate(&mut self) {
        if self.duplicates + self.lost < self.outstanding() {
            self.duplicates += 1;
        }
    }

    /// Without selective acknowledgements: `segments` were acknowledged, all but the first of which had probably caused
    /// duplicate acknowledgements.
    pub(crate) fn remove_duplicates(&mut self, segments: u64) {
        self.duplicates =
            self.duplicates.saturating_sub(segments.saturating_sub(1)).min(self.outstanding() - self.lost);
    }

    /// Forgets duplicate acknowledgements.
    pub(crate) fn clear_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// Marks what the rule says is lost by now. Returns how many segments that are.
    pub(crate) fn detect_losses(&mut self) -> u64 {
        let below = match self.detection {
            LossDetection::Rfc6675 => self.highest[2].saturating_sub(1),
            LossDetection::Fack => self.highest[0].saturating_sub(DUP_THRESH),
            LossDetection::Rack => 0,
        };
        self.mark_lost_below(below)
    }

    /// Marks the first outstanding segment as lost.
    pub(crate) fn mark_head_lost(&mut self) {
        self.mark_lost_below(self.una + 1);
    }

    /// The timer fired: everything not selectively acknowledged is lost, retransmissions too.
    pub(crate) fn mark_all_lost(&mut self) {
        self.duplicates = 0;
        self.relost.clear();
        self.repeats.clear();
        let mut segment = self.next_unsacked(self.una);
        while segment < self.end {
            let entry = self.entry_mut(segment);
            entry.lost = true;
            entry.retransmitted = false;
            segment = self.next_unsacked(segment + 1);
        }
        let lost = self.outstanding() - self.sacked;
        self.lost_total += lost - self.lost + self.retransmitted;
        self.lost = lost;
        self.retransmitted = 0;
        self.lost_below = self.end;
        self.retransmit_from = self.una;
    }

    /// The lost segment to be retransmitted next.
    pub(crate) fn next_lost(&mut self) -> Option<u64> {
        if self.lost == self.retransmitted && self.relost.is_empty() {
            return None;
        }
        while let Some(&segment) = self.relost.front() {
            if segment >= self.una && self.waits(segment) {
                return Some(segment);
            }
            self.relost.pop_front();
        }
        let mut segment = self.next_unsacked(self.retransmit_from.max(self.una));
        while segment < self.lost_below {
            if self.waits(segment) {
                self.retransmit_from = segment;
                return Some(segment);
            }
            segment = self.next_unsacked(segment + 1);
        }
        self.retransmit_from = self.retransmit_from.max(self.lost_below);
        None
    }

    /// The last outstanding segment that was neither selectively acknowledged nor retransmitted.
    pub(crate) fn last_unsacked(&self) -> Option<u64> {
        let last = self.end.checked_sub(1).filter(|&last| last >= self.una)?;
        let entry = self.entry(last);
        (entry.skip == 0 && !entry.retransmitted).then_some(last)
    }

    fn note_sent(&mut self, segment: u64, now: Time) {
        let idle = self.pipe() == 0;
        if let Some(rate) = &mut self.rate {
            rate.on_sent(segment, now, idle);
        }
    }

    fn note_delivered(&mut self, segment: u64, sent: Time) {
        self.newest = self.newest.max(sent);
        if let Some(rate) = &mut self.rate {
            rate.on_delivered(segment, sent);
        }
    }

    fn waits(&self, segment: u64) -> bool {
        let entry = self.entry(segment);
        entry.skip == 0 && entry.lost && !entry.retransmitted
    }

    fn mark_sacked(&mut self, segment: u64) {
        let by_time = self.rack.is_some();
        let entry = self.entry_mut(segment);
        let (sent, lost, retransmitted, repeated) = (entry.sent, entry.lost, entry.retransmitted, entry.repeated);
        // Linux thinks that what arrived is the original, if that was not taken for lost.
        let stays = by_time && retransmitted && !lost;
        entry.skip = 1;
        entry.lost = false;
        entry.retransmitted = stays;
        self.note_delivered(segment, sent);
        if let Some(rack) = &mut self.rack {
            rack.on_sacked(segment, sent, repeated, self.highest[0]);
        }
        self.lost -= u64::from(lost);
        self.retransmitted -= u64::from(retransmitted && !stays);
        self.sacked += 1;
        let mut mark = segment + 1;
        for highest in &mut self.highest {
            if mark > *highest {
                std::mem::swap(highest, &mut mark);
            }
        }
    }

    fn mark_lost_below(&mut self, below: u64) -> u64 {
        let below = below.min(self.end);
        let mut fresh = 0;
        if below <= self.lost_below {
            return fresh;
        }
        let mut segment = self.next_unsacked(self.lost_below.max(self.una));
        while segment < below {
            self.entry_mut(segment).lost = true;
            fresh += 1;
            segment = self.next_unsacked(segment + 1);
        }
        self.lost += fresh;
        self.lost_total += fresh;
        self.lost_below = below;
        fresh
    }

    /// A retransmission is lost when something that was sent after it has arrived. Returns how many are.
    pub(crate) fn detect_lost_retransmissions(&mut self) -> u64 {
        let mut fresh = 0;
        while let Some(&(segment, sent)) = self.repeats.front() {
            if segment >= self.una && sent >= self.newest {
                break;
            }
            self.repeats.pop_front();
            if segment < self.una {
                continue;
            }
            let entry = self.entry_mut(segment);
            if entry.lost && entry.retransmitted && entry.sent == sent {
                entry.retransmitted = false;
                self.retransmitted -= 1;
                self.relost.push_back(segment);
                fresh += 1;
            }
        }
        self.lost_total += fresh;
        fresh
    }

    /// The first segment from `from` on, or the end, that is not selectively acknowledged.
    fn next_unsacked(&mut self, from: u64) -> u64 {
        let mut root = from;
        while root < self.end && self.entry(root).skip > 0 {
            root += u64::from(self.entry(root).skip);
        }
        let mut segment = from;
        while segment < root {
            let entry = self.entry_mut(segment);
            let next = segment + u64::from(entry.skip);
            entry.skip = u32::try_from(root - segment).unwrap_or(entry.skip);
            segment = next;
        }
        root
    }

    fn grow(&mut self) {
        if let Some(rate) = &mut self.rate {
            rate.grow(self.una, self.end);
        }
        let mut ring = vec![Entry::default(); self.ring.len() * 2];
        let mask = ring.len() - 1;
        for segment in self.una..self.end {
            ring[segment as usize & mask] = *self.entry(segment);
        }
        self.ring = ring;
    }

    fn entry(&self, segment: u64) -> &Entry {
        &self.ring[segment as usize & (self.ring.len() - 1)]
    }

    fn entry_mut(&mut self, segment: u64) -> &mut Entry {
        let mask = self.ring.len() - 1;
        &mut self.ring[segment as usize & mask]
    }
}

#[cfg(test)]
mod tests;
