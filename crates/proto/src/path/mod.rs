//! Paths of a session, as its sender knows them. [`Path`] owns the state of one; the modules are its parts, and what both profiles use of them.

pub(crate) mod arrivals;
pub(crate) mod breaker;
pub(crate) mod credit;
pub(crate) mod ecn;
pub(crate) mod flight;
pub(crate) mod hint;
pub(crate) mod in_flight;
pub(crate) mod least_delay;
pub(crate) mod loss;
pub(crate) mod numbers;
pub(crate) mod pacing;
pub(crate) mod packet_size;
pub(crate) mod queue_delay;
pub(crate) mod rate_control;
pub(crate) mod receiver_flow_control;
pub(crate) mod rtt;
pub(crate) mod unjudged;
pub(crate) mod windowed;

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::feedback::{Records, Report};

use self::credit::Spending;
use self::flight::{Flight, Named, ReportedMarks};
use self::in_flight::Sent;
use self::loss::LossEstimator;
use self::numbers::DatagramNumbers;
use self::receiver_flow_control::QueueReport;
use self::rtt::RttEstimator;
use self::unjudged::Judgement;
use crate::error::PeerMisbehaved;

/// State of one path, as far as sending needs it.
#[derive(Debug, Default)]
pub(crate) struct Path {
    rtt: RttEstimator,
    flight: Flight,
}

/// Content of a report that concerns the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathNews {
    /// The time between the sending of the highest datagram that it names and its arrival here, less what the peer held it for.
    pub(crate) rtt_sample: Option<Duration>,
    /// Its marks of arrivals.
    pub(crate) marks: ReportedMarks,
    /// The judgement of its losses: if they say something of the path.
    pub(crate) judgement: Judgement,
}

impl Path {
    /// The handshake is done: the peer's silence counts from now. Reports have the receiver's clock, or not.
    pub(crate) fn establish(&mut self, now: Time, reads_clock: bool) {
        self.flight.establish(now);
        self.flight.set_reads_clock(reads_clock);
    }

    // ---- round trip ----

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// A handshake or a challenge took this long; see [`RttEstimator::guess`].
    pub(crate) fn guess_rtt(&mut self, rtt: Duration) {
        self.rtt.guess(rtt);
    }

    /// Wait for feedback before a probe.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.rtt.probe_timeout(self.rtt.report_interval())
    }

    // ---- datagrams in flight ----

    /// The datagrams in flight, and the estimates that reports feed.
    pub(crate) fn flight(&self) -> &Flight {
        &self.flight
    }

    pub(crate) fn loss(&self) -> &LossEstimator {
        self.flight.loss()
    }

    /// True if only probes may be sent: too much is in flight (\[plan-6\]), or valid reports have been missing for too long (\[silence-1\]).
    pub(crate) fn is_blocked(&self, now: Time) -> bool {
        self.flight.is_blocked(now, &self.rtt)
    }

    /// Time of the next probe of a silent peer (\[silence-2\]).
    pub(crate) fn probe_at(&self, spending: Spending) -> Time {
        self.flight.probe_at(&self.rtt, spending)
    }

    /// A data datagram has been sent.
    pub(crate) fn on_data_sent(&mut self, sent: Sent, is_probe: bool) {
        self.flight.on_sent(sent, is_probe);
    }

    /// A part of a symbol has been sent, and not the last.
    pub(crate) fn on_part_sent(&mut self, now: Time) {
        self.flight.on_part_sent(now);
    }

    /// A data datagram of the peer has come.
    pub(crate) fn on_peer_data(&mut self) {
        self.flight.on_data();
    }

    /// Nothing of streams that is in flight is of use any more. A lost symbol of a decoded block must not make the peer look silent when the
    /// next block is sent.
    pub(crate) fn forget_streams(&mut self) {
        self.flight.forget();
    }

    /// The same of messages: the time of all is over.
    pub(crate) fn forget_messages(&mut self) {
        self.flight.forget_messages();
    }

    /// The number of connections that share the queue in front of the receiver, this one included.
    pub(crate) fn set_queue_sharers(&mut self, sharers: usize) {
        self.flight.set_queue_sharers(sharers);
    }

    // ---- moves ----

    /// The peer has answered from another address. What is in flight went to the one before, and the silence since then was for that reason;
    /// `sent` datagrams have been sent.
    pub(crate) fn on_moved(&mut self, now: Time, sent: u64) {
        self.flight.on_moved(now, sent);
    }

    /// Datagram `number` goes to an address that is not proven.
    pub(crate) fn on_sent_elsewhere(&mut self, number: u64) {
        self.flight.on_sent_elsewhere(number);
    }

    /// Forgets what was known of the old path: it says nothing about this one, whose round trip may be `rtt`.
    pub(crate) fn on_new_path(&mut self, rtt: Duration) {
        self.rtt = RttEstimator::default();
        self.rtt.guess(rtt);
        self.flight.on_new_path();
    }

    // ---- reports ----

    /// Reads which datagrams the report names that came as datagram `number`.
    ///
    /// # Errors
    /// It names one that was never sent ([report-10]).
    pub(crate) fn read(
        &self,
        number: u64,
        report: &Report,
        numbers: &DatagramNumbers,
    ) -> Result<Named, PeerMisbehaved> {
        self.flight.read(number, report, numbers)
    }

    /// Takes in what a report says of our datagrams and their path; `on_fate` is told of each whose fate it settles.
    ///
    /// # Errors
    /// It counts more than were sent.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        named: Named,
        (report, records): (&Report, &Records<'_>),
        numbers: &DatagramNumbers,
        on_fate: impl FnMut(Sent),
    ) -> Result<PathNews, PeerMisbehaved> {
        // While the datagrams that it names still have their times.
        let marks = self.flight.on_clock(now, named, (report, records), numbers);
        let (rtt_sample, judgement) = self.flight.on_report(now, named, report, (numbers, &self.rtt), on_fate)?;
        let marks = self.flight.judged_marks(marks, judgement);
        Ok(PathNews { rtt_sample, marks, judgement })
    }

    /// Takes in a round trip that a report of news tells.
    pub(crate) fn sample_rtt(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
    }

    /// Takes in the same report's queue in front of the receiver; `symbol_size` is that of the data in it.
    pub(crate) fn on_queue(&mut self, now: Time, symbol_size: usize, queue: QueueReport) {
        self.flight.on_queue(now, symbol_size, queue);
    }
}

#[cfg(test)]
impl Path {
    /// The fate of `sent` datagrams is known: `arrived` of them arrived.
    pub(crate) fn observe_loss(&mut self, sent: u64, arrived: u64) {
        self.flight.observe_loss(sent, arrived);
    }

    /// All datagrams up to `highest`, the first of them number 0, have arrived.
    pub(crate) fn all_arrived(&mut self, highest: u64, on_fate: impl FnMut(Sent)) {
        self.flight.all_arrived(highest, on_fate);
    }
}
