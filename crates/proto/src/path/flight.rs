//! Data datagrams in flight, and the path estimates from reports. All streams of a session share this state.

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::MARKS_MAX;
use dfcp_wire::feedback::{Record, Records, Report};

use crate::config::controller::Mark;
use crate::error::PeerMisbehaved;
use crate::limits::REPORTS_LOST;
use crate::path::arrivals::expand;
use crate::path::credit::Spending;
use crate::path::in_flight::{InFlight, Sent};
use crate::path::loss::LossEstimator;
use crate::path::numbers::DatagramNumbers;
use crate::path::queue_delay::QueueDelay;
use crate::path::receiver_flow_control::{QueueReport, ReceiverFlowControl};
use crate::path::rtt::RttEstimator;
use crate::path::unjudged::{Cause, Judgement, Unjudged};

/// Longest interval between probes of a silent peer, unless the RTT is longer.
const PROBE_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Counters of the newest report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    /// Datagram number of the report itself.
    number: u64,
    /// Highest of our numbers that the report names.
    pub(crate) highest: u64,
    /// Number of datagrams sent up to `highest`.
    pub(crate) passed: u64,
    /// Number of datagrams that had arrived.
    pub(crate) received: u64,
}

/// Numbers in a report. Only their existence has been verified so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    number: u64,
    highest: u64,
    /// True if a newer report has arrived before.
    pub(crate) is_stale: bool,
}

/// Marks of one report on data arrivals, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedMarks {
    /// Filled from the end; the last `count` are valid.
    marks: [Mark; 1 + MARKS_MAX],
    count: usize,
}

impl ReportedMarks {
    /// Adds a mark, which must be older than those before.
    fn add(&mut self, mark: Mark) {
        self.count += 1;
        let at = self.marks.len() - self.count;
        self.marks[at] = mark;
    }

    /// Counts `lost` datagrams as arrived in all marks.
    fn forgive(&mut self, lost: u64) {
        let at = self.marks.len() - self.count;
        self.marks[at..].iter_mut().for_each(|mark| mark.received += lost);
    }

    pub(crate) fn as_slice(&self) -> &[Mark] {
        &self.marks[self.marks.len() - self.count..]
    }
}

/// Datagrams in flight, with the estimates that reports update.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    in_flight: InFlight,
    receiver: ReceiverFlowControl,
    loss: LossEstimator,
    queue_delay: QueueDelay,
    /// Losses excluded from estimates. `None` until there are some.
    unjudged: Option<Box<Unjudged>>,
    /// True if both ends have negotiated the receiver's clock in reports.
    reads_clock: bool,
    reported: Option<Reported>,
    last_report_at: Time,
    last_sent: Time,
    /// Probes sent since the last report or the peer's last data.
    probes: u32,
}

impl Flight {
    /// Ends the handshake. The peer's silence is measured from now on.
    pub(crate) fn establish(&mut self, now: Time) {
        self.last_report_at = now;
    }

    /// Sets whether reports carry the receiver's clock.
    pub(crate) fn set_reads_clock(&mut self, reads_clock: bool) {
        self.reads_clock = reads_clock;
    }

    /// Records a sent data datagram.
    pub(crate) fn on_sent(&mut self, sent: Sent, is_probe: bool) {
        self.last_sent = sent.at;
        self.probes = self.probes.saturating_add(u32::from(is_probe));
        self.in_flight.push(sent);
    }

    /// Records the sending of a part of a symbol that is not its last part.
    pub(crate) fn on_part_sent(&mut self, now: Time) {
        self.last_sent = now;
    }

    /// Records data from the peer: it is alive, and only its reports are lost. A report without news is no such
    /// evidence, because none of our datagrams arrived.
    pub(crate) fn on_data(&mut self) {
        self.probes = 0;
    }

    /// Forgets all stream symbols in flight, which are useless now. Otherwise a lost symbol of a decoded block would
    /// make the peer look silent when the next block is sent.
    pub(crate) fn forget(&mut self) {
        self.in_flight.forget(false);
    }

    /// Forgets all message symbols in flight, because their deadlines have passed.
    pub(crate) fn forget_messages(&mut self) {
        self.in_flight.forget(true);
    }

    // ---- reports ----

    /// Verifies the numbers in a report that arrived as datagram `number`.
    ///
    /// # Errors
    /// The report names a datagram that was never sent ([report-10]).
    pub(crate) fn read(
        &self,
        number: u64,
        report: &Report,
        numbers: &DatagramNumbers,
    ) -> Result<Named, PeerMisbehaved> {
        let highest = expand(report.highest_datagram, numbers.end());
        if highest >= numbers.end() {
            return Err(PeerMisbehaved::ReportOfUnsentDatagrams { claimed: highest, sent: numbers.end() });
        }
        if numbers.is_skipped(highest) {
            return Err(PeerMisbehaved::ReportOfSkippedDatagram { claimed: highest });
        }
        let overtaken = |newest: Reported| number < newest.number || highest < newest.highest;
        Ok(Named { number, highest, is_stale: self.reported.is_some_and(overtaken) })
    }

    /// Takes in the receiver's clock and marks from a report. Must precede [`on_report`](Self::on_report), which
    /// removes sending times. Returns the marks of arrivals.
    pub(crate) fn on_clock(
        &mut self,
        now: Time,
        named: Named,
        (report, records): (&Report, &Records<'_>),
        numbers: &DatagramNumbers,
    ) -> ReportedMarks {
        let mut reported = ReportedMarks::default();
        let mut clock_us = None;
        let mut marks = None;
        for record in records.clone() {
            match record {
                Record::ArrivalClock(us) => clock_us = Some(us),
                Record::Marks(of_report) => marks = Some(of_report),
                _ => {}
            }
        }
        if !self.reads_clock {
            // Without the receiver's clock use our own, which includes the delay of the way back.
            clock_us = Some((now.as_ns() / 1_000) as u32).map(|us| us.wrapping_sub(report.hold_us));
            marks = None;
        }
        let Some(clock_us) = clock_us else { return reported };
        let received = self.received(report);
        let newest = dfcp_wire::feedback::Mark { back_us: 0, numbers_back: 0, received_back: 0 };
        for mark in std::iter::once(newest).chain(marks.into_iter().flatten()).take(1 + MARKS_MAX) {
            let Some(number) = named.highest.checked_sub(mark.numbers_back.into()) else { continue };
            let (Some(sent_at), Some(received)) =
                (self.in_flight.sent_at(number), received.checked_sub(mark.received_back.into()))
            else {
                continue;
            };
            let sent = numbers.sent_before(number + 1);
            reported.add(Mark { sent, received, sent_at, arrived_us: clock_us.wrapping_sub(mark.back_us) });
        }
        if self.reads_clock {
            self.queue_delay.on_report(now, reported.as_slice().iter().map(|mark| (mark.sent_at, mark.arrived_us)));
        }
        reported
    }

    /// Returns the total number of datagrams that had arrived at the time of the report.
    fn received(&self, report: &Report) -> u64 {
        let before = self.reported.map_or(0, |newest| newest.received);
        before + u64::from(report.datagrams_received.wrapping_sub(before as u32))
    }

    /// Takes in a report. It settles the fate of all datagrams up to its highest number (\[data-4\]); `on_fate` is
    /// called for each. Returns the RTT sample, if any, and the judgement on losses.
    ///
    /// # Errors
    /// The report counts more datagrams than were sent.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        named: Named,
        report: &Report,
        (numbers, rtt): (&DatagramNumbers, &RttEstimator),
        on_fate: impl FnMut(Sent),
    ) -> Result<(Option<Duration>, Judgement), PeerMisbehaved> {
        let received = self.received(report);
        let sent = numbers.sent_before(numbers.end());
        if received > sent {
            return Err(PeerMisbehaved::ReportOfUnsentDatagrams { claimed: received, sent });
        }
        let age = self.in_flight.sent_at(named.highest).map(|sent_at| now.since(sent_at));
        let passed = numbers.sent_before(named.highest + 1);
        let silence = self.silence(now, rtt);
        if silence.is_some() || self.were_reports_missing(now, rtt) {
            self.unjudged.get_or_insert_default().leave_out(Cause::Silence, sent);
        }
        let watched = now.since(self.last_report_at).saturating_sub(silence.unwrap_or_default());
        (self.last_report_at, self.probes) = (now, 0);
        let reported = Reported { number: named.number, highest: named.highest, passed, received };
        let judgement = match self.settle(reported, watched, on_fate) {
            Some(forgiven) => Judgement::Judged { silence: silence.unwrap_or_default(), forgiven },
            None => Judgement::LeftOut,
        };
        // A hold time longer than the datagram's age is false, so there is no sample ([report-7]).
        let sample = age.and_then(|age| age.checked_sub(Duration::from_micros(report.hold_us.into())));
        Ok((sample.filter(|sample| !sample.is_zero()), judgement))
    }

    /// Returns the number of forgiven losses; `None` if the report's losses are not judged at all.
    fn settle(&mut self, report: Reported, watched: Duration, mut on_fate: impl FnMut(Sent)) -> Option<u64> {
        while let Some(sent) = self.in_flight.settle(report.highest) {
            on_fate(sent);
        }
        let (passed_before, before) = self.reported.map_or((0, 0), |newest| (newest.passed, newest.received));
        let passed = report.passed.saturating_sub(passed_before);
        let arrived = (report.received - before).min(passed.saturating_mul(2) + 1024);
        self.reported = Some(report);
        let lost = passed.saturating_sub(arrived);
        let forgiven = match &mut self.unjudged {
            Some(unjudged) => unjudged.on_report(watched, passed_before, report.highest, lost)?,
            None => 0,
        };
        self.loss.observe(passed - forgiven, arrived);
        Some(forgiven)
    }

    /// Removes unjudged losses from the marks of a report.
    pub(crate) fn judged_marks(&self, mut marks: ReportedMarks, judgement: Judgement) -> ReportedMarks {
        if judgement == Judgement::LeftOut {
            return ReportedMarks::default();
        }
        if let Some(unjudged) = &self.unjudged {
            marks.forgive(unjudged.lost());
        }
        marks
    }

    /// Updates flow control from the report's receive queue. `symbol_size` is the number of data bytes per datagram.
    pub(crate) fn on_queue(&mut self, now: Time, symbol_size: usize, queue: QueueReport) {
        self.receiver.on_report(now, symbol_size, self.loss.low(), queue);
    }

    // ---- silence of the peer ----

    /// Returns true if only probes may be sent: too many datagrams are in flight for the receiver (\[plan-6\]), or
    /// valid reports have been missing for too long (\[silence-1\]).
    pub(crate) fn is_blocked(&self, now: Time, rtt: &RttEstimator) -> bool {
        self.room() == 0 || self.is_silent(now, rtt)
    }

    fn is_silent(&self, now: Time, rtt: &RttEstimator) -> bool {
        self.silence(now, rtt).is_some()
    }

    /// Returns true if more reports in a row are missing than loss and a full queue explain ([loss-3]).
    fn were_reports_missing(&self, now: Time, rtt: &RttEstimator) -> bool {
        let patience = || rtt.probe_timeout(rtt.report_interval()) + REPORTS_LOST;
        self.unheard_since().is_some_and(|(since, _)| now.since(since) > patience())
    }

    /// Returns the time by which the peer's silence exceeds the tolerated one.
    fn silence(&self, now: Time, rtt: &RttEstimator) -> Option<Duration> {
        let oldest = self.in_flight.oldest_sent_at()?;
        let patience = (rtt.smoothed() * 4).max(rtt.report_interval() * 32).max(Duration::from_millis(100));
        let beyond = now.since(oldest.max(self.last_report_at)).checked_sub(patience)?;
        (!beyond.is_zero()).then_some(beyond)
    }

    /// Returns the time of the next probe (\[silence-2\]).
    pub(crate) fn probe_at(&self, rtt: &RttEstimator, spending: Spending) -> Time {
        let wait = rtt.probe_timeout(rtt.report_interval()).saturating_mul(1 << self.probes.min(10));
        let at = self.last_sent.max(self.last_report_at) + wait.min(PROBE_INTERVAL_MAX.max(rtt.smoothed()));
        match spending {
            Spending::Trickle { not_before } => at.max(not_before),
            Spending::Freely | Spending::Needed | Spending::OldestBlock => at,
        }
    }

    /// Returns the start of the peer's silence about datagrams in flight, and the number of probes sent since. `None`
    /// if none are in flight.
    pub(crate) fn unheard_since(&self) -> Option<(Time, u32)> {
        Some((self.in_flight.oldest_sent_at()?.max(self.last_report_at), self.probes))
    }

    // ---- estimates and limits ----

    /// Returns the number of data datagrams in flight.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the number of data datagrams in flight to the peer's current address.
    pub(crate) fn on_path(&self) -> usize {
        self.in_flight.on_path()
    }

    /// Returns the number of further data datagrams that may be in flight.
    pub(crate) fn room(&self) -> usize {
        self.receiver.in_flight_max().saturating_sub(self.in_flight.on_path())
    }

    /// Returns the departure time of the last data datagram.
    pub(crate) fn last_sent(&self) -> Time {
        self.last_sent
    }

    pub(crate) fn loss(&self) -> &LossEstimator {
        &self.loss
    }

    /// Returns the queueing delay of our datagrams, if reports carry the peer's clock.
    pub(crate) fn queue_delay(&self) -> Option<Duration> {
        self.queue_delay.latest()
    }

    /// Records that the peer has moved to another address, after `sent` datagrams. Datagrams in flight went to the old
    /// one, which explains the silence until now.
    pub(crate) fn on_moved(&mut self, now: Time, sent: u64) {
        self.unjudged.get_or_insert_default().leave_out(Cause::Move, sent);
        self.in_flight.leave_path();
        (self.last_report_at, self.probes) = (now, 0);
    }

    /// Records that datagram `number` goes to an unproven address.
    pub(crate) fn on_sent_elsewhere(&mut self, number: u64) {
        self.unjudged.get_or_insert_default().on_sent_elsewhere(number);
    }

    /// Keeps the datagrams in flight, and resets the estimates of loss and delay for a new path.
    pub(crate) fn onto_other_path(self) -> Self {
        let receiver = self.receiver.onto_other_path();
        Self { receiver, loss: LossEstimator::default(), queue_delay: QueueDelay::default(), ..self }
    }

    /// Returns the counters of the newest report.
    pub(crate) fn reported(&self) -> Option<Reported> {
        self.reported
    }

    /// Sets the number of connections that share the receive queue, this one included.
    pub(crate) fn set_queue_sharers(&mut self, sharers: usize) {
        self.receiver.set_sharers(sharers);
    }

    /// Returns the recent minimum RTT.
    pub(crate) fn least_rtt(&self) -> Option<Duration> {
        self.receiver.least_rtt()
    }

    /// Takes in the fate of `sent` datagrams, of which `arrived` arrived.
    #[cfg(test)]
    pub(crate) fn observe_loss(&mut self, sent: u64, arrived: u64) {
        self.loss.observe(sent, arrived);
    }

    /// Reports all datagrams from 0 to `highest` as arrived.
    #[cfg(test)]
    pub(crate) fn all_arrived(&mut self, highest: u64, on_fate: impl FnMut(Sent)) {
        let number = self.reported.map_or(0, |newest| newest.number + 1);
        let reported = Reported { number, highest, passed: highest + 1, received: highest + 1 };
        self.settle(reported, Duration::ZERO, on_fate);
    }
}
