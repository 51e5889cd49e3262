//! Choice of the stream that sends next (`spec/protocol.md` §5.5). Streams of higher urgency go first, as in RFC 9218
//! (\[sched-1\]). Streams of equal urgency share in proportion to their weights, by start-time fair queueing (Goyal,
//! Vin, Cheng 1996), with an error of one datagram (\[sched-2\]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dfcp_wire::StreamId;

use crate::limits::STREAMS_LOOKED_AT_MAX;
use crate::shared::room::Room;
use crate::stream::table::StreamTable;

/// Priority and share of a stream among the streams of its session.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::Priority;
///
/// // Answers go first. Two downloads share the remaining rate, two to one.
/// let answers = Priority { urgency: 1, ..Priority::default() };
/// let film = Priority { weight: 32, ..Priority::default() };
/// let photos = Priority { weight: 16, ..Priority::default() };
/// assert!(answers.urgency < film.urgency && film.weight == 2 * photos.weight);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Urgency from 0, the most urgent, to 7 (RFC 9218 §4.1). While a more urgent stream can send, less urgent ones do
    /// not.
    pub urgency: u8,
    /// `true`: the stream shares with others of its urgency (RFC 9218 §4.2). `false`: such streams are served one after
    /// the other, in the order of their ids, before all streams that share.
    pub incremental: bool,
    /// Share relative to other sharing streams: 1 to 256.
    pub weight: u16,
}

/// The least urgent level.
const URGENCY_MAX: u8 = 7;
const URGENCIES: usize = URGENCY_MAX as usize + 1;
/// The largest weight.
const WEIGHT_MAX: u16 = 256;
/// Virtual time per byte of a stream of weight 1. Large, so that dividing it by a weight loses little precision.
const TIME_PER_BYTE: u64 = 1 << 16;

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: true, weight: 16 }
    }
}

impl Priority {
    /// Returns the priority with each value clamped to its range.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self { urgency: self.urgency.min(URGENCY_MAX), weight: self.weight.clamp(1, WEIGHT_MAX), ..self }
    }
}

/// The kind of symbols that a stream sends in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// Symbols of planned rounds, and new blocks.
    Rounds,
    /// Repair that no report has requested. Goes before the rounds of less urgent streams (\[sched-3\]).
    Proactive,
}

/// A stream's place in the queue. The least value is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    urgency: u8,
    work: Work,
    is_shared: bool,
    /// Start of the turn in virtual time. For streams that do not share, the stream's id.
    start: u64,
    id: StreamId,
    /// Unique number, so that a void turn never becomes valid again.
    serial: u64,
}

/// The scheduler's record of a stream.
#[derive(Debug, Default)]
struct Share {
    priority: Priority,
    /// End of the stream's latest service, in virtual time.
    finish: u64,
    /// The stream's valid turn, if it has one. Its other turns in the queue are void.
    turn: Option<Turn>,
}

impl Share {
    /// Returns the stream's next turn at virtual time `clock`.
    fn next_turn(&self, id: StreamId, work: Work, clock: u64, serial: u64) -> Turn {
        let Priority { urgency, incremental, .. } = self.priority;
        let start = if incremental { self.finish.max(clock) } else { u64::from(id.to_word()) };
        Turn { urgency, work, is_shared: incremental, start, id, serial }
    }
}

/// The queue of streams that may have something to send.
#[derive(Debug)]
pub(super) struct Scheduler {
    shares: StreamTable<Share>,
    turns: BinaryHeap<Reverse<Turn>>,
    /// Virtual time of each urgency: the start of the latest shared turn that was served at the front. Other service
    /// does not advance it: otherwise new streams would have to wait for old ones, or the reverse, for the duration of
    /// that service.
    clocks: [u64; URGENCIES],
    /// Number of turns created so far.
    made: u64,
}

impl Scheduler {
    pub(super) fn new() -> Self {
        Self {
            shares: StreamTable::with_first(Share::default()),
            turns: BinaryHeap::new(),
            clocks: [0; URGENCIES],
            made: 0,
        }
    }

    pub(super) fn add(&mut self, id: StreamId) {
        self.shares.insert(id, Share::default());
    }

    pub(super) fn remove(&mut self, id: StreamId) {
        self.shares.remove(id);
        self.forget_void_turns();
        self.turns.give_back();
    }

    pub(super) fn set_priority(&mut self, id: StreamId, priority: Priority) {
        let Some(share) = self.shares.get_mut(id) else { return };
        let clock = |priority: Priority| self.clocks[usize::from(priority.urgency)];
        // Keep the stream's lead over the virtual time of its urgency.
        let before = clock(share.priority);
        share.priority = priority.clamped();
        share.finish = clock(share.priority) + share.finish.saturating_sub(before);
        if let Some(Turn { work, .. }) = share.turn.take() {
            self.enqueue(id, work);
        }
    }

    /// Gives the stream a turn, since it may have something to send. Its rounds come first.
    pub(super) fn wake(&mut self, id: StreamId) {
        if self.shares.get(id).is_some_and(|share| share.turn.is_none_or(|turn| turn.work != Work::Rounds)) {
            self.enqueue(id, Work::Rounds);
        }
    }

    /// Returns some streams that have a turn, in no particular order.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        let is_valid = |turn: &Turn| self.shares.get(turn.id).is_some_and(|share| share.turn == Some(*turn));
        self.turns.iter().take(TURNS_LOOKED_AT_MAX).map(|Reverse(turn)| *turn).filter(is_valid).map(|turn| turn.id)
    }

    /// Returns true if the stream has a turn.
    pub(super) fn has_turn(&self, id: StreamId) -> bool {
        self.shares.get(id).is_some_and(|share| share.turn.is_some())
    }

    /// Returns the stream whose turn it is, and the kind of symbols to send.
    pub(super) fn next(&mut self) -> Option<(StreamId, Work)> {
        loop {
            let &Reverse(turn) = self.turns.peek()?;
            if self.shares.get(turn.id).is_some_and(|share| share.turn == Some(turn)) {
                return Some((turn.id, turn.work));
            }
            self.turns.pop();
        }
    }

    /// Ends the turn of a stream that had no more symbols of the kind `work`.
    pub(super) fn on_nothing(&mut self, id: StreamId, work: Work) {
        self.take_turn(id);
        if work == Work::Rounds {
            self.enqueue(id, Work::Proactive);
        }
    }

    /// Charges a stream for a datagram of `bytes` bytes.
    pub(super) fn on_sent(&mut self, id: StreamId, bytes: usize) {
        let Some(share) = self.shares.get_mut(id) else { return };
        let turn = share.turn;
        let clock = &mut self.clocks[usize::from(share.priority.urgency)];
        // The usual case: the stream was served because it was at the front.
        let is_front = self.turns.peek().is_some_and(|front| Some(front.0) == turn);
        if share.priority.incremental {
            let start = turn.map_or_else(|| share.finish.max(*clock), |turn| turn.start);
            share.finish = start + bytes as u64 * TIME_PER_BYTE / u64::from(share.priority.weight);
            if is_front {
                *clock = start.max(*clock);
            }
        }
        let Some(turn) = turn else { return };
        let next = share.next_turn(id, turn.work, *clock, self.made);
        self.made += 1;
        share.turn = Some(next);
        if let Some(mut front) = self.turns.peek_mut().filter(|_| is_front) {
            front.0 = next;
            return;
        }
        self.push(next);
    }

    /// Takes a stream's turn. The turn leaves the queue now if it is at the front, and otherwise becomes void.
    fn take_turn(&mut self, id: StreamId) -> Option<Turn> {
        let turn = self.shares.get_mut(id)?.turn.take()?;
        if self.turns.peek() == Some(&Reverse(turn)) {
            self.turns.pop();
        }
        Some(turn)
    }

    fn enqueue(&mut self, id: StreamId, work: Work) {
        let Some(share) = self.shares.get_mut(id) else { return };
        let clock = self.clocks[usize::from(share.priority.urgency)];
        let turn = share.next_turn(id, work, clock, self.made);
        self.made += 1;
        share.turn = Some(turn);
        self.push(turn);
    }

    fn push(&mut self, turn: Turn) {
        self.forget_void_turns();
        self.turns.push(Reverse(turn));
    }

    /// Removes void turns once they are the majority. A single void turn is removed when it comes to the front.
    fn forget_void_turns(&mut self) {
        if self.turns.len() > 2 * self.shares.len() + VOID_TURNS_MAX {
            let shares = &self.shares;
            self.turns.retain(|Reverse(turn)| shares.get(turn.id).is_some_and(|share| share.turn == Some(*turn)));
        }
    }
}

/// Maximum number of turns, void ones included, visited to find streams that have a turn.
const TURNS_LOOKED_AT_MAX: usize = 4 * STREAMS_LOOKED_AT_MAX;

/// Void turns tolerated in addition to the number that is proportional to the streams.
const VOID_TURNS_MAX: usize = 16;

#[cfg(test)]
impl Scheduler {
    pub(super) fn visits(&self) -> u64 {
        self.shares.visits.get()
    }
}

#[cfg(test)]
mod tests {
    use dfcp_wire::{Opener, StreamKind};

    use super::*;

    fn id(index: u32) -> StreamId {
        StreamId::new(Opener::Initiator, StreamKind::Bidirectional, index).unwrap()
    }

    fn with(priorities: &[Priority]) -> Scheduler {
        let mut scheduler = Scheduler::new();
        for (index, &priority) in (1..).zip(priorities) {
            scheduler.add(id(index));
            scheduler.set_priority(id(index), priority);
            scheduler.wake(id(index));
        }
        scheduler
    }

    /// Serves `datagrams` datagrams while all streams always have data. Returns the number sent by each stream.
    fn serve(scheduler: &mut Scheduler, datagrams: usize, streams: usize, bytes: impl Fn(u32) -> usize) -> Vec<usize> {
        let mut sent = vec![0; streams];
        for _ in 0..datagrams {
            let (next, work) = scheduler.next().unwrap();
            assert_eq!(work, Work::Rounds);
            scheduler.on_sent(next, bytes(next.index()));
            sent[next.index() as usize - 1] += 1;
        }
        sent
    }

    fn weighing(weight: u16) -> Priority {
        Priority { weight, ..Priority::default() }
    }

    #[test]
    fn each_gets_its_weight_to_a_datagram() {
        let mut scheduler = with(&[256, 128, 1].map(weighing));
        for datagrams in [86, 385, 385] {
            let sent = serve(&mut scheduler, datagrams, 3, |_| 1420);
            for (weight, sent) in [256, 128, 1].into_iter().zip(sent) {
                let due = datagrams as f64 * f64::from(weight) / 385.0;
                assert!((sent as f64 - due).abs() <= 2.0, "{sent} of {datagrams}, due {due}");
            }
        }
    }

    #[test]
    fn weights_are_of_bytes_and_not_of_datagrams() {
        let mut scheduler = with(&[weighing(16), weighing(16)]);
        let sent = serve(&mut scheduler, 1_100, 2, |index| if index == 1 { 1_000 } else { 100 });
        assert!((99..=101).contains(&sent[0]), "{sent:?}");
    }

    #[test]
    fn who_paused_does_not_catch_up() {
        let mut scheduler = with(&[weighing(16)]);
        serve(&mut scheduler, 1_000, 1, |_| 1420);
        scheduler.add(id(2));
        scheduler.wake(id(2));
        let sent = serve(&mut scheduler, 100, 2, |_| 1420);
        assert!((49..=51).contains(&sent[0]), "{sent:?}");
    }

    /// A stream that was served alone for long shares equally with later streams of its urgency, even if other streams
    /// were served in between.
    #[test]
    fn what_others_are_served_before_and_between_favours_nobody() {
        let equal = Priority::default();
        let others = [
            Priority { urgency: 0, ..equal },
            Priority { urgency: 7, ..equal },
            Priority { incremental: false, ..equal },
        ];
        for other in others {
            for other_first in [true, false] {
                let mut scheduler = with(&[equal, other]);
                scheduler.add(id(3));
                let serve_alone = |scheduler: &mut Scheduler, who: u32, datagrams| {
                    let idle = id(3 - who);
                    while let Some((next, work)) = scheduler.next().filter(|&(next, _)| next == idle) {
                        scheduler.on_nothing(next, work);
                    }
                    scheduler.wake(id(who));
                    assert_eq!(serve(scheduler, datagrams, 3, |_| 1420)[who as usize - 1], datagrams);
                };
                serve_alone(&mut scheduler, 1 + u32::from(other_first), 1_000);
                serve_alone(&mut scheduler, 2 - u32::from(other_first), 500);
                serve_alone(&mut scheduler, 2, 10);
                while let Some((next, work)) = scheduler.next() {
                    scheduler.on_nothing(next, work);
                }
                scheduler.wake(id(1));
                scheduler.wake(id(3));
                let sent = serve(&mut scheduler, 100, 3, |_| 1420);
                assert!((49..=51).contains(&sent[0]), "{other:?}, first: {other_first}: {sent:?}");
            }
        }
    }

    /// A stream that waited while a more urgent or unshared stream was served shares equally with a new stream
    /// afterwards.
    #[test]
    fn who_waits_while_others_go_first_has_no_claim_to_their_time() {
        let equal = Priority::default();
        for other in [Priority { urgency: 0, ..equal }, Priority { incremental: false, ..equal }] {
            let mut scheduler = with(&[equal, other]);
            assert_eq!(serve(&mut scheduler, 1_000, 2, |_| 1420), [0, 1_000]);
            scheduler.add(id(3));
            scheduler.wake(id(3));
            scheduler.on_nothing(id(2), Work::Rounds);
            if other.urgency == 0 {
                scheduler.on_nothing(id(2), Work::Proactive);
            }
            let sent = serve(&mut scheduler, 100, 3, |_| 1420);
            assert!((49..=51).contains(&sent[0]), "{other:?}: {sent:?}");
        }
    }

    #[test]
    fn urgency_goes_before_weight_and_whole_before_shared_turns() {
        let mut scheduler = with(&[
            Priority { urgency: 4, ..weighing(256) },
            Priority { urgency: 2, ..weighing(1) },
            Priority { incremental: false, urgency: 2, ..weighing(1) },
            Priority { incremental: false, urgency: 2, ..weighing(1) },
        ]);
        for expected in [3, 4, 2] {
            assert_eq!(serve(&mut scheduler, 10, 4, |_| 1420)[expected as usize - 1], 10);
            scheduler.on_nothing(id(expected), Work::Rounds);
        }
        for expected in [3, 4, 2] {
            assert_eq!(scheduler.next(), Some((id(expected), Work::Proactive)), "before what is less urgent");
            scheduler.on_nothing(id(expected), Work::Proactive);
        }
        assert_eq!(serve(&mut scheduler, 10, 4, |_| 1420)[0], 10);
    }

    #[test]
    fn a_queue_does_not_grow_with_wakes_and_changes() {
        let mut scheduler = with(&[weighing(16); 4]);
        for step in 0..10_000 {
            scheduler.set_priority(id(1 + step % 4), weighing(1 + step as u16 % 256));
            scheduler.wake(id(1 + step % 4));
        }
        assert!(scheduler.turns.len() <= 2 * 5 + VOID_TURNS_MAX + 1);
    }

    #[test]
    fn who_is_gone_has_no_turn() {
        let mut scheduler = with(&[weighing(16); 2]);
        scheduler.remove(id(1));
        assert_eq!(serve(&mut scheduler, 3, 2, |_| 1)[1], 3);
    }
}
