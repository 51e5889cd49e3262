//! What the sender learns from reports, and what it believes of them.

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::feedback::{Report, Run};

use super::{Adaptive, Reported};
use crate::error::PeerMisbehaved;
use crate::limits;
use crate::path::arrivals::expand;
use crate::path::numbers::DatagramNumbers;
use crate::proof::Layout;
use crate::send::peer_queue::QueueReport;

/// What the list of a report says.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    /// Symbols which its open blocks have.
    symbols: u64,
    /// Symbols which these, and its empty ones, could have.
    served_max: u32,
}

impl Adaptive {
    /// Takes in the report which came as datagram `number`; `numbers` are those of our datagrams. `None` if a later report
    /// has come before; otherwise the RTT sample, if there is one.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        number: u64,
        cumulative: u32,
        report: &Report,
        runs: impl Iterator<Item = Run> + Clone,
        numbers: &DatagramNumbers,
    ) -> Result<Option<Option<Duration>>, PeerMisbehaved> {
        let sent = numbers.sent_before(numbers.end());
        let highest = expand(report.highest_datagram, numbers.end());
        if highest >= numbers.end() {
            return Err(PeerMisbehaved::ReportOfUnsentDatagrams { claimed: highest, sent: numbers.end() });
        }
        if numbers.is_skipped(highest) {
            return Err(PeerMisbehaved::ReportOfSkippedDatagram { claimed: highest });
        }
        if cumulative > self.next_id() {
            let sent = u64::from(self.next_id());
            return Err(PeerMisbehaved::ReportOfUnsentBlocks { claimed: cumulative.into(), sent });
        }
        let overtaken = |newest: Reported| number < newest.number || highest < newest.highest;
        let stale = self.reported.is_some_and(overtaken) || cumulative < self.first_id;
        if stale {
            return Ok(None); // nothing that an honest peer has outdated may count against it, nor for it
        }
        let blocks = (cumulative - self.first_id) as usize;
        self.proofs.check_report(self.first_id, blocks, report, runs.clone())?;
        self.last_feedback = now;
        self.probes = 0;
        let before = self.reported.map_or(0, |newest| newest.received);
        let received = before + u64::from(report.datagrams_received.wrapping_sub(before as u32));
        if received > sent {
            return Err(PeerMisbehaved::ReportOfUnsentDatagrams { claimed: received, sent });
        }
        let age = self.in_flight.age(highest, now);
        let passed = numbers.sent_before(highest + 1);
        self.settle(Reported { number, highest, passed, received });
        self.advance(cumulative);
        self.peer_window_blocks = report.window_blocks.min(limits::WINDOW_BLOCKS_MAX);
        self.peer_window_bytes = report.window_bytes;
        self.counters.on_wasted(report.wasted);
        let listed = self.apply(cumulative, runs)?;
        self.check_counts(received, sent, listed)?;
        self.proactive_from = 0;
        // A peer which claims to have held it for longer than it was gone says nothing about the path.
        let sample = age.and_then(|age| age.checked_sub(Duration::from_micros(report.hold_us.into())));
        Ok(Some(sample.filter(|sample| !sample.is_zero())))
    }

    /// What the same report says of the queue in front of the receiver.
    pub(crate) fn on_queue(&mut self, now: Time, queue: QueueReport) {
        self.peer_queue.on_report(now, self.symbol_size, self.loss.low(), queue);
    }

    /// The fate of all datagrams up to the report's highest is known.
    pub(super) fn settle(&mut self, report: Reported) {
        while let Some(sent) = self.in_flight.settle(report.highest) {
            let index = sent.block_id.checked_sub(self.first_id).map(|index| index as usize);
            if let Some(block) = index.and_then(|index| self.blocks.get_mut(index)) {
                block.in_flight = block.in_flight.saturating_sub(1);
                block.unreported += 1;
            }
        }
        let (passed_before, before) = self.reported.map_or((0, 0), |newest| (newest.passed, newest.received));
        let passed = report.passed.saturating_sub(passed_before);
        let arrived = (report.received - before).min(passed.saturating_mul(2) + 1024);
        self.loss.observe(passed, arrived);
        self.reported = Some(report);
    }

    /// The peer has decoded the whole stream.
    pub(crate) fn on_finished(&mut self) {
        self.advance(self.next_id());
    }

    /// Checks the proof of an acknowledgement of our FIN, if that names our `end`, or whichever it is.
    pub(crate) fn check_end(&self, end: Option<u32>, proof: u32) -> Result<(), PeerMisbehaved> {
        match self.end().filter(|&ours| end.is_none_or(|named| named == ours)) {
            Some(ours) => self.proofs.check_end(ours, proof),
            None => Ok(()),
        }
    }

    /// All blocks before `cumulative` are acknowledged.
    fn advance(&mut self, cumulative: u32) {
        while self.first_id < cumulative {
            let Some(mut block) = self.blocks.pop_front() else { return };
            let served_max = block.served_max();
            if let Some(memory) = block.complete() {
                self.on_acknowledged(block.layout, served_max, memory);
            }
            self.span_bytes -= block.length_bytes();
            self.proofs.advance();
            self.due.remove(self.first_id);
            self.first_id += 1;
        }
        if self.blocks.is_empty() {
            // A lost symbol of a decoded block must not make the peer look silent when the next block comes.
            self.in_flight.clear();
            self.repairs.clear();
            self.due.clear();
        }
    }

    fn on_acknowledged(&mut self, layout: Layout, served_max: u32, memory: Vec<u8>) {
        self.served_max -= served_max;
        self.open_bytes -= layout.data().length_bytes() as u64;
        self.counters.on_acknowledged(layout);
        self.source.recycle(memory);
    }

    fn apply(&mut self, cumulative: u32, runs: impl Iterator<Item = Run>) -> Result<Listed, PeerMisbehaved> {
        let mut index = (cumulative - self.first_id) as usize;
        let mut listed = Listed::default();
        for run in runs {
            match run {
                Run::Complete(blocks) => {
                    let end = index + blocks as usize;
                    if end > self.blocks.len() {
                        return Err(self.unsent(end));
                    }
                    for i in index..end {
                        self.complete_at(i);
                    }
                    index = end;
                }
                Run::Empty(blocks) => {
                    // The receiver ends its list with blocks it has heard nothing of, sent or not.
                    let end = (index + blocks as usize).min(self.blocks.len());
                    for i in index..end {
                        self.report_missing(i, None, &mut listed);
                    }
                    index += blocks as usize;
                }
                Run::Open { missing } => {
                    if index >= self.blocks.len() {
                        return Err(self.unsent(index + 1));
                    }
                    self.report_missing(index, Some(missing.into()), &mut listed);
                    index += 1;
                }
            }
        }
        Ok(listed)
    }

    fn unsent(&self, end: usize) -> PeerMisbehaved {
        let claimed = u64::from(self.first_id) + end as u64;
        PeerMisbehaved::ReportOfUnsentBlocks { claimed, sent: self.next_id().into() }
    }

    fn complete_at(&mut self, index: usize) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        let (layout, served_max, Some(memory)) = (block.layout, block.served_max(), block.complete()) else { return };
        self.on_acknowledged(layout, served_max, memory);
        self.due.remove(self.first_id + index as u32);
    }

    /// What a report counts must be what it accounts for ([report-12]): each symbol which served or was wasted has come in
    /// a datagram, and each data datagram that has come did one of the two.
    fn check_counts(&self, received: u64, sent: u64, listed: Listed) -> Result<(), PeerMisbehaved> {
        let accounted = self.counters.acknowledged_symbols + listed.symbols + self.counters.wasted.total();
        let control = sent.saturating_sub(self.counters.sent.total());
        // Of blocks behind the end of a list, which may be cut anywhere, all may have come that can serve.
        let unlisted_max = self.served_max.saturating_sub(listed.served_max);
        if accounted > received || received > accounted + control + u64::from(unlisted_max) {
            return Err(PeerMisbehaved::InconsistentReport { received, accounted });
        }
        Ok(())
    }

    /// Block `index` lacks `missing` symbols, or all of them; unless it is acknowledged, `listed` counts it.
    fn report_missing(&mut self, index: usize, missing: Option<u32>, listed: &mut Listed) {
        let traffic = self.round_traffic();
        let Some(block) = self.blocks.get_mut(index).filter(|block| block.is_open()) else { return };
        block.on_missing(missing);
        listed.symbols += u64::from(block.k() - block.missing);
        listed.served_max += block.served_max();
        let id = self.first_id + index as u32;
        if block.awaits_round() {
            block.target = block.round_size(traffic, block.round, &self.loss);
            block.round += 1;
            self.due.insert(id);
        } else if block.target > 0 {
            // Planned while the path lost more, the rest of the round would be sent in vain and delay later blocks.
            let wanted = block.round_size(traffic, block.round - 1, &self.loss);
            block.target = block.target.min(wanted.saturating_sub(block.in_flight));
            if block.target == 0 {
                self.due.remove(id);
            }
        }
    }
}
