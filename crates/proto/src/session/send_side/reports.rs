//! The reports that a session's sending side takes in: what they teach it, and how far it believes them.

use dfcp_time::Time;
use dfcp_wire::feedback::{Record, Records, Report, Run, Runs, StreamState};
use dfcp_wire::{StreamKind, StreamLimits};

use super::SendSide;
use crate::error::PeerMisbehaved;
use crate::limits::{REPORT_SPACING_MIN, STREAM_END_INTERVAL_MAX};
use crate::path::in_flight::Carried;
use crate::path::numbers::DatagramNumbers;
use crate::path::{Path, PathNews};
use crate::stream::send::feedback::Listed;

/// The worth of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A later one has come before it: nothing has changed.
    Stale,
    /// It was the newest.
    News {
        /// Content that concerns the path.
        path: PathNews,
        /// Datagrams whose fate it tells with symbols that do not fit the least packets.
        large_passed: u64,
    },
}

impl SendSide {
    /// Takes in the report that came as datagram `number`; `numbers` are those of our datagrams.
    ///
    /// # Errors
    /// It says what no correct peer says.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        path: &mut Path,
        number: u64,
        (report, records): (&Report, &Records<'_>),
        numbers: &DatagramNumbers,
    ) -> Result<Heard, PeerMisbehaved> {
        let named = path.flight().read(number, report, numbers)?;
        // A report that an honest peer has outdated may not count against it, nor for it ([proof-7]).
        if self.told_by.is_some_and(|told_by| number < told_by) || self.is_overtaken(records)? || named.is_stale {
            return Ok(Heard::Stale);
        }
        for (state, runs) in stream_records(records) {
            if let Some(stream) = self.streams.get(state.stream).filter(|stream| !stream.is_reset()) {
                stream.check_record(&state, runs)?;
            }
        }
        self.passed.clear();
        let mut large_passed = 0;
        let (streams, shared, passed) = (&mut self.streams, &self.shared, &mut self.passed);
        let news = path.on_report(now, named, (report, records), numbers, |sent| {
            let (id, block_id) = match sent.what() {
                Carried::Symbol { stream, block_id } => (stream, block_id),
                Carried::Message { is_large } => {
                    large_passed += u64::from(is_large);
                    return;
                }
            };
            if let Some(stream) = streams.get_mut(id) {
                // Of an acknowledged block it may have been a large one that arrived.
                let is_large = stream.on_fate(block_id).is_none_or(|bytes| shared.is_telling(bytes));
                large_passed += u64::from(is_large);
                // Each once, or what the peer has not seen of a stream would count as often as its datagrams alternate with others'.
                if !std::mem::replace(&mut stream.listed_in.passed, true) {
                    passed.push(id);
                }
            }
        })?;
        self.waste.on_report(report.wasted);
        self.shared.on_report(report);
        let listed = self.take_records(path, records)?;
        self.note_unnamed(now + path.probe_timeout(), listed.streams);
        self.check_counts(path, listed, numbers.sent_before(numbers.end()))?;
        self.wake_waiting(path);
        self.forget_if_idle(path);
        Ok(Heard::News { path: news, large_passed })
    }

    /// True if a report names as needed next, in any stream, a block that another has said to be there.
    ///
    /// # Errors
    /// The block lies past the last one sent, or nothing was ever sent on the stream.
    fn is_overtaken(&self, records: &Records<'_>) -> Result<bool, PeerMisbehaved> {
        for (state, _) in stream_records(records) {
            if let Some(stream) = self.streams.get(state.stream).filter(|stream| !stream.is_reset())
                && stream.is_overtaken(state.next_needed)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes in what the records say, the proofs of which are right. What is said of streams that are gone here is outdated.
    fn take_records(&mut self, path: &mut Path, records: &Records<'_>) -> Result<Listed, PeerMisbehaved> {
        let mut all = Listed::default();
        for record in records.clone() {
            match record {
                Record::Stream(state, runs) => {
                    // Also of those that are gone: they take room from others.
                    all.streams += 1;
                    self.take_record(path, &state, runs, &mut all)?;
                }
                Record::Unseen(first) => self.take_unseen(path, first, &mut all)?,
                // Of features which are not chosen ([open-40]).
                _ => {}
            }
        }
        Ok(all)
    }

    fn take_record(
        &mut self,
        path: &mut Path,
        state: &StreamState,
        runs: impl Iterator<Item = Run>,
        all: &mut Listed,
    ) -> Result<(), PeerMisbehaved> {
        let id = state.stream;
        let Some(stream) = self.streams.get_mut(id).filter(|stream| !stream.is_reset()) else { return Ok(()) };
        let listed = stream.on_record(state, runs, path.flight().loss(), &mut self.shared)?;
        all.symbols += listed.symbols;
        all.served_max += listed.served_max;
        let was_to_ask = stream.listed_in.timed.ask.is_some();
        if stream.is_delivered() {
            // The peer has already taken what is unread of it off the memory which it tells.
            stream.release(&mut self.shared);
            self.finish(id, path);
        } else if !stream.is_idle() || stream.has_data_to_send() {
            self.scheduler.wake(id);
        }
        if was_to_ask {
            self.note_timed(id);
        }
        Ok(())
    }

    /// Of our streams from these indices on the peer has seen nothing: whatever was sent on them has met its fate, or will
    /// (\[report-14\]).
    fn take_unseen(&mut self, path: &mut Path, first: StreamLimits, all: &mut Listed) -> Result<(), PeerMisbehaved> {
        let passed = std::mem::take(&mut self.passed);
        for &id in &passed {
            let first = match id.kind() {
                StreamKind::Bidirectional => first.bidirectional,
                StreamKind::OneWay => first.one_way,
            };
            // A stream that an earlier report named has been seen.
            let Some(stream) = self.streams.get(id).filter(|stream| stream.is_unheard()) else { continue };
            if id.opener() == self.opener && id.index() >= first {
                let nothing = stream.unseen_state();
                self.take_record(path, &nothing, std::iter::once(Run::Empty(u32::MAX)), all)?;
            }
        }
        self.passed = passed;
        Ok(())
    }

    /// Streams whose symbols the report has passed by, and which it does not name, ask for themselves at `at`, or when it is their turn
    /// to be named: the peer may have news of more streams than it can name at once, as this report does with `named`.
    fn note_unnamed(&mut self, at: Time, named: u32) {
        let passed = std::mem::take(&mut self.passed);
        for &id in &passed {
            // Half of a report's room may go to others, which have open blocks.
            let reports = (2 * self.timed.asking()).checked_div(named as usize).unwrap_or_default();
            let turn = (REPORT_SPACING_MIN * u32::try_from(reports).unwrap_or(u32::MAX)).min(STREAM_END_INTERVAL_MAX);
            if let Some(stream) = self.streams.get_mut(id) {
                stream.listed_in.passed = false;
                stream.on_unnamed(at + turn);
                if stream.ask_at().is_some() {
                    self.note_timed(id);
                }
            }
        }
        self.passed = passed;
    }

    /// Checks a report's count of arrivals against what it accounts for ([report-12]), over all streams: each symbol which served or
    /// was wasted has come in a datagram, and each data datagram that has come did one of the two. `sent` counts all our datagrams.
    fn check_counts(&self, path: &Path, listed: Listed, sent: u64) -> Result<(), PeerMisbehaved> {
        let shared = &self.shared;
        let received = path.flight().reported().map_or(0, |reported| reported.received);
        let control = sent.saturating_sub(shared.counters.sent.total());
        let served = shared.counters.acknowledged_symbols + shared.reset_symbols + listed.symbols;
        let least = served + self.waste.total.total();
        // A list may be cut anywhere, and not every stream is named.
        let unlisted_max = shared.served_max.saturating_sub(listed.served_max) + shared.unproven_max;
        if (least..=least + control + unlisted_max).contains(&received) {
            return Ok(());
        }
        Err(PeerMisbehaved::InconsistentReport { received, accounted: least })
    }

    /// Windows may have opened, and time has passed: streams that waited are asked again.
    fn wake_waiting(&mut self, path: &Path) {
        self.stuck.clear();
        for id in self.waiting.drain(..) {
            self.scheduler.wake(id);
            if let Some(stream) = self.streams.get_mut(id) {
                stream.listed_in.waiting = false;
            }
        }
        self.wake_writers(path);
    }
}

/// The records of streams, without others.
fn stream_records<'a>(records: &Records<'a>) -> impl Iterator<Item = (StreamState, Runs<'a>)> + use<'a> {
    records.clone().filter_map(|record| match record {
        Record::Stream(state, runs) => Some((state, runs)),
        _ => None,
    })
}
