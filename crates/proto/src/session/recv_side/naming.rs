//! Choice of the streams that the next report names (`spec/protocol.md` \[report-13\]).

use std::collections::VecDeque;

use dfcp_wire::StreamId;
use dfcp_wire::feedback::{ReportWriter, STREAM_RECORD_BYTES_MIN};

use crate::session::recv_side::half::{COPIES, Half, Reason};
use crate::session::recv_side::untold::Untold;
use crate::shared::room::Room;
use crate::stream::table::StreamTable;

/// Queues of streams with unreported changes (*news*) and of streams with open blocks. In each queue, the stream whose
/// record was in a report longest ago comes first. A stream that needs no further record leaves its queue when it
/// reaches the front.
#[derive(Debug, Default)]
pub(super) struct Naming {
    /// Streams with news that no report has contained yet. Their records precede repeated records: when thousands of
    /// streams end at the same time, the last streams must not wait until the first have been in three reports.
    /// Otherwise the senders of the last streams would send questions.
    fresh: VecDeque<StreamId>,
    /// Streams whose news must be repeated in further reports.
    again: VecDeque<StreamId>,
    open: VecDeque<StreamId>,
    /// Number of streams whose news still needs to be reported.
    owing: usize,
    /// Finished streams whose news has been reported completely.
    told: VecDeque<StreamId>,
    /// Counter of reports.
    report: u32,
}

impl Naming {
    /// Records that a stream has changed, or that the peer has asked about it.
    pub(super) fn on_news(&mut self, id: StreamId, half: &mut Half) {
        let named = &mut half.named;
        self.owing += usize::from(named.news == 0);
        named.news = COPIES;
        if !named.waits_fresh {
            named.waits_fresh = true;
            self.fresh.push_back(id);
        }
        if half.stream.has_open_blocks() && !half.named.waits_open {
            half.named.waits_open = true;
            self.open.push_back(id);
        }
    }

    /// Cancels all pending news of a stream.
    pub(super) fn on_silent(&mut self, half: &mut Half) {
        self.owing -= usize::from(half.named.news > 0);
        half.named.news = 0;
    }

    /// Returns true while reports are owed even if nothing arrives.
    pub(super) fn is_owing(&self) -> bool {
        self.owing > 0
    }

    /// Writes as many records as fit, each stream at most once. Streams with news and streams with open blocks each get
    /// half of the room, and the room that the other kind leaves. The kinds alternate in going first, so the first
    /// record may fill the whole report.
    pub(super) fn write(&mut self, halves: &mut StreamTable<Half>, writer: &mut ReportWriter<'_>, untold: &mut Untold) {
        self.report = self.report.wrapping_add(1);
        let half_room = writer.room_bytes() / 2;
        let (news, open) = ([Reason::Fresh, Reason::Again].as_slice(), [Reason::Open].as_slice());
        let (first, second) = if self.report.is_multiple_of(2) { (open, news) } else { (news, open) };
        for (reasons, room_left) in [(first, half_room), (second, 0), (first, 0)] {
            for &reason in reasons {
                self.write_some(reason, room_left, halves, writer, untold);
            }
        }
    }

    /// Writes the streams of one queue until only `room_left` bytes are left.
    fn write_some(
        &mut self,
        reason: Reason,
        room_left: usize,
        halves: &mut StreamTable<Half>,
        writer: &mut ReportWriter<'_>,
        untold: &mut Untold,
    ) {
        for _ in 0..self.queue(reason).len() {
            if writer.room_bytes() < room_left.max(STREAM_RECORD_BYTES_MIN) {
                return;
            }
            let Some(id) = self.queue(reason).pop_front() else { return };
            let Some(half) = halves.get_mut(id) else { continue };
            let untold_bytes = half.stream.untold_bytes();
            if half.is_worth_naming(reason) && half.named.report != self.report && half.stream.write_record(id, writer)
            {
                untold.change(id, untold_bytes, 0);
                half.named.report = self.report;
                self.on_named(id, half);
            }
            let waits = half.is_worth_naming(reason);
            match reason {
                Reason::Fresh => half.named.waits_fresh = waits,
                Reason::Again => half.named.waits_again = waits,
                Reason::Open => half.named.waits_open = waits,
            }
            if waits {
                self.queue(reason).push_back(id);
            }
        }
    }

    fn on_named(&mut self, id: StreamId, half: &mut Half) {
        if half.named.news == 1 {
            self.owing -= 1;
            if half.stream.is_done() {
                self.told.push_back(id);
            }
        }
        half.named.news = half.named.news.saturating_sub(1);
        if half.is_worth_naming(Reason::Again) && !half.named.waits_again {
            half.named.waits_again = true;
            self.again.push_back(id);
        }
    }

    /// Returns the next finished stream whose news has been reported completely.
    pub(super) fn take_told(&mut self) -> Option<StreamId> {
        self.told.pop_front()
    }

    /// The first inconsistency in the queues, given all halves.
    #[cfg(debug_assertions)]
    pub(super) fn find_fault<'a>(&self, halves: impl Iterator<Item = (StreamId, &'a Half)>) -> Option<String> {
        let mut owing = 0;
        for (id, half) in halves {
            owing += usize::from(half.named.news > 0);
            for (reason, waits, queue) in [
                (Reason::Fresh, half.named.waits_fresh, &self.fresh),
                (Reason::Again, half.named.waits_again, &self.again),
                (Reason::Open, half.named.waits_open, &self.open),
            ] {
                if waits != queue.contains(&id) || (half.is_worth_naming(reason) && !waits) {
                    return Some(format!("{id:?} waits to be named: {waits}, for {reason:?}: {:?}", half.named));
                }
            }
        }
        (owing != self.owing).then(|| format!("{owing} streams owe news, counted {}", self.owing))
    }

    pub(super) fn give_back_room(&mut self) {
        self.fresh.give_back();
        self.again.give_back();
        self.open.give_back();
        self.told.give_back();
    }

    const fn queue(&mut self, reason: Reason) -> &mut VecDeque<StreamId> {
        match reason {
            Reason::Fresh => &mut self.fresh,
            Reason::Again => &mut self.again,
            Reason::Open => &mut self.open,
        }
    }
}
