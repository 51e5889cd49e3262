//! Processing of the peer's reports on the sending side: validation first, then updates.

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

/// The outcome of a valid report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A later report was processed before: nothing has changed.
    Stale,
    /// The report is newer than all reports before.
    News {
        /// The report's information about the path.
        path: PathNews,
        /// Number of datagrams newly reported as arrived or lost whose symbol does not fit the smallest packets.
        large_passed: u64,
    },
}

impl SendSide {
    /// Processes the report in the peer's datagram `number`. `numbers` are the numbers of our datagrams.
    ///
    /// # Errors
    /// If the report contradicts itself, earlier reports, or what was sent.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        path: &mut Path,
        number: u64,
        (report, records): (&Report, &Records<'_>),
        numbers: &DatagramNumbers,
    ) -> Result<Heard, PeerMisbehaved> {
        let named = path.flight().read(number, report, numbers)?;
        // Ignore a report that an honest peer has made obsolete: it must count neither for nor against the peer
        // ([proof-7]).
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
                // Once its block is acknowledged, the symbol's size is unknown. Count the symbol as large, as it may
                // have been.
                let is_large = stream.on_fate(block_id).is_none_or(|bytes| shared.is_telling(bytes));
                large_passed += u64::from(is_large);
                // List each stream once. Otherwise a stream whose datagrams alternate with those of another would count
                // repeatedly.
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

    /// Returns true if an earlier report has already acknowledged, in any stream, the block that this report names as
    /// needed next.
    ///
    /// # Errors
    /// If the block lies beyond the last one sent.
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

    /// Applies all records, whose proofs are correct. Records of streams that no longer exist here are obsolete.
    fn take_records(&mut self, path: &mut Path, records: &Records<'_>) -> Result<Listed, PeerMisbehaved> {
        let mut all = Listed::default();
        for record in records.clone() {
            match record {
                Record::Stream(state, runs) => {
                    // Count streams that are gone, too: their records take room from others.
                    all.streams += 1;
                    self.take_record(path, &state, runs, &mut all)?;
                }
                Record::Unseen(first) => self.take_unseen(path, first, &mut all)?,
                // Records of features that were not negotiated ([open-40]).
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
            // The peer has already deducted the stream's unread bytes from the memory that it reports.
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

    /// Applies the record of unseen streams: the peer has seen none of our streams from these indices on. Symbols sent
    /// on them are lost, or still in flight (\[report-14\]).
    fn take_unseen(&mut self, path: &mut Path, first: StreamLimits, all: &mut Listed) -> Result<(), PeerMisbehaved> {
        let passed = std::mem::take(&mut self.passed);
        for &id in &passed {
            let first = match id.kind() {
                StreamKind::Bidirectional => first.bidirectional,
                StreamKind::OneWay => first.one_way,
            };
            // An earlier report has named this stream, so the peer has seen it.
            let Some(stream) = self.streams.get(id).filter(|stream| stream.is_unheard()) else { continue };
            if id.opener() == self.opener && id.index() >= first {
                let nothing = stream.unseen_state();
                self.take_record(path, &nothing, std::iter::once(Run::Empty(u32::MAX)), all)?;
            }
        }
        self.passed = passed;
        Ok(())
    }

    /// Handles streams without a record in this report, although the report shows some of their symbols as arrived or
    /// lost. For each one, schedules a request for a record at `at`. The request is later if the peer needs several
    /// reports for all streams with news. `named` is the number of streams with a record in this report.
    fn note_unnamed(&mut self, at: Time, named: u32) {
        let passed = std::mem::take(&mut self.passed);
        for &id in &passed {
            // Up to half of a report's room may go to streams with open blocks.
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

    /// Checks the report's count of received datagrams against the symbols that it accounts for ([report-12]), summed
    /// over all streams: each useful or wasted symbol came in one datagram, and each received data datagram contained
    /// one useful or wasted symbol. `sent` is the number of all our datagrams.
    fn check_counts(&self, path: &Path, listed: Listed, sent: u64) -> Result<(), PeerMisbehaved> {
        let shared = &self.shared;
        let received = path.flight().reported().map_or(0, |reported| reported.received);
        let control = sent.saturating_sub(shared.counters.sent.total());
        let served = shared.counters.acknowledged_symbols + shared.reset_symbols + listed.symbols;
        let least = served + self.waste.total.total();
        // A list may end anywhere, and not every stream is named.
        let unlisted_max = shared.served_max.saturating_sub(listed.served_max) + shared.unproven_max;
        if (least..=least + control + unlisted_max).contains(&received) {
            return Ok(());
        }
        Err(PeerMisbehaved::InconsistentReport { received, accounted: least })
    }

    /// Gives waiting streams a new turn, since the report may have opened windows.
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

/// Returns the stream records of a report.
fn stream_records<'a>(records: &Records<'a>) -> impl Iterator<Item = (StreamState, Runs<'a>)> + use<'a> {
    records.clone().filter_map(|record| match record {
        Record::Stream(state, runs) => Some((state, runs)),
        _ => None,
    })
}
