//! Scoreboard: the state of each segment from the first unacknowledged one to the last one sent.
//!
//! All bookkeeping is in whole segments, numbered from 0. Each selectively acknowledged segment points to a later
//! segment, and chains of pointers are compressed when followed (a disjoint-set forest). A block that was reported
//! before is therefore skipped in one step, however long it is. The cursors of loss marks and retransmissions only
//! advance.

mod rack;

use std::collections::VecDeque;

use dfcp_time::Time;

use super::config::LossDetection;
use super::delivery_rate::DeliveryRate;
use rack::Rack;
pub(crate) use rack::Report;

/// Number of later arrivals from which a segment counts as lost (DupThresh of RFC 5681 and RFC 6675).
pub(crate) const DUP_THRESH: u64 = 3;

const CAPACITY_START: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Time of the most recent transmission.
    sent: Time,
    /// 0 if this segment was not selectively acknowledged. Otherwise, this many segments, starting with this one, are
    /// known to be selectively acknowledged.
    skip: u32,
    /// True if the segment is marked as lost and was not selectively acknowledged afterwards.
    lost: bool,
    /// True if a retransmission of the segment is in flight.
    retransmitted: bool,
    /// True if the segment was sent more than once.
    repeated: bool,
    /// True if the segment was the last one of a burst. Retransmissions then carry PSH too.
    pushed: bool,
}

/// Effect of a cumulative acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advance {
    /// Segments newly acknowledged.
    pub(crate) segments: u64,
    /// Segments newly acknowledged that had not been selectively acknowledged before.
    pub(crate) delivered: u64,
    /// Time at which the last acknowledged segment that was sent only once had been sent (Karn's algorithm).
    pub(crate) sent: Option<Time>,
    /// True if any of the acknowledged segments had been retransmitted.
    pub(crate) repeated: bool,
}

/// Scoreboard of the outstanding segments.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    /// Ring buffer, indexed by segment number modulo its length, which is a power of two.
    ring: Vec<Entry>,
    detection: LossDetection,
    /// First unacknowledged segment.
    una: u64,
    /// Next segment to be sent for the first time.
    end: u64,
    sacked: u64,
    lost: u64,
    retransmitted: u64,
    /// Number of duplicate acknowledgements, each of which stands for an arrival. Used only without SACK.
    duplicates: u64,
    /// The three highest selectively acknowledged segments, each plus one, highest first; 0 means none.
    highest: [u64; 3],
    /// All segments below this one that were not selectively acknowledged are marked as lost.
    lost_below: u64,
    /// No lost segment below this one waits for its retransmission, except those in `relost`.
    retransmit_from: u64,
    /// Segments whose retransmission was lost, too.
    relost: VecDeque<u64>,
    /// Retransmissions with their times, in order. Empty if only the timer detects lost retransmissions.
    repeats: VecDeque<(u64, Time)>,
    track_repeats: bool,
    /// Latest time of sending among all segments that have arrived.
    newest: Time,
    /// State of time-based loss detection; `None` for other rules.
    rack: Option<Rack>,
    /// Estimator of the delivery rate, for congestion control that uses it.
    rate: Option<DeliveryRate>,
    /// Number of times that a segment was marked as lost since the start.
    lost_total: u64,
}

impl Scoreboard {
    /// Creates an empty scoreboard. `track_repeats` enables the detection of lost retransmissions.
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

    /// Enables the estimation of the delivery rate.
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

    /// Returns the number of segments sent but not cumulatively acknowledged.
    pub(crate) fn outstanding(&self) -> u64 {
        self.end - self.una
    }

    /// Returns the number of segments that are marked as lost and not acknowledged since.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of duplicate acknowledgements: arrivals of segments that are not known individually.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns the estimated number of segments in flight (RFC 6675).
    pub(crate) fn pipe(&self) -> u64 {
        (self.outstanding() - self.sacked - self.lost).saturating_sub(self.duplicates) + self.retransmitted
    }

    /// Records the first transmission of the next segment; returns its number.
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

    /// Records a retransmission.
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

    /// Processes a cumulative acknowledgement of all segments below `una`.
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

    /// Processes a SACK of the segments `start..end`. Returns how many were not reported before.
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

    /// Without SACK: counts the arrival of some unknown segment.
    pub(crate) fn add_duplicate(&mut self) {
        if self.duplicates + self.lost < self.outstanding() {
            self.duplicates += 1;
        }
    }

    /// Without SACK: reduces the duplicates after a cumulative acknowledgement of `segments`. All of these but the
    /// first one have probably caused duplicate acknowledgements before.
    pub(crate) fn remove_duplicates(&mut self, segments: u64) {
        self.duplicates =
            self.duplicates.saturating_sub(segments.saturating_sub(1)).min(self.outstanding() - self.lost);
    }

    /// Without SACK: resets the number of duplicate acknowledgements.
    pub(crate) fn clear_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// Marks segments as lost by the configured rule; returns their number.
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

    /// Called after a timeout: marks all segments as lost that were not selectively acknowledged, including those whose
    /// retransmission is in flight.
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

    /// Returns the next lost segment to be retransmitted.
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

    /// Returns the last outstanding segment if it was neither selectively acknowledged nor retransmitted.
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
        // Like Linux, assume that the original has arrived, unless it was marked as lost.
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

    /// Marks retransmissions as lost if a segment sent later has arrived. Returns their number.
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

    /// Returns the first segment from `from` on that was not selectively acknowledged, or the end.
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
