//! The sending side of a session: the stream's data, the datagrams in flight, and what reports change in both.

use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;
use dfcp_wire::feedback::{Report, Run, StreamState, Wasted};

use crate::config::Config;
use crate::error::PeerMisbehaved;
use crate::path::credit::Spending;
use crate::path::flight::Flight;
use crate::path::in_flight::Sent;
use crate::path::numbers::DatagramNumbers;
use crate::path::receiver_flow_control::QueueReport;
use crate::path::rtt::RttEstimator;
use crate::stats::WastedSymbols;
use crate::stream::send::feedback::Accounted;
use crate::stream::send::symbol::{Reason, Symbol};
use crate::stream::send::{SendContext, SendStream};

/// What a session sends, and what it knows of it.
#[derive(Debug)]
pub(crate) struct SendSide {
    pub(crate) flight: Flight,
    pub(crate) stream: SendStream,
    waste: WasteCounters,
}

/// What a report was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A later one has come before it: nothing has changed.
    Stale,
    /// It was the newest.
    News {
        /// The time between the sending of the highest datagram that it names and its arrival here, less what the peer held it for.
        rtt_sample: Option<Duration>,
    },
}

/// What the peer has reported as waste, in all.
#[derive(Debug, Default)]
struct WasteCounters {
    total: WastedSymbols,
    /// The newest report's counts, which wrap.
    reported: Wasted,
}

impl WasteCounters {
    fn on_report(&mut self, now: Wasted) {
        let more = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        let before = std::mem::replace(&mut self.reported, now);
        self.total.dependent += more(now.dependent, before.dependent);
        self.total.late += more(now.late, before.late);
        self.total.refused += more(now.refused, before.refused);
    }
}

impl SendSide {
    /// Asks for proofs of decoding if it gets a secret for them.
    pub(crate) fn new(config: &Config, kernel: Kernel, proofs: Option<[u8; 32]>) -> Self {
        let (flight, stream) = (Flight::default(), SendStream::new(config, kernel, proofs));
        Self { flight, stream, waste: WasteCounters::default() }
    }

    /// The handshake is done: the peer takes symbols of `symbol_size` and the given window, and lends `memory_bytes`.
    pub(crate) fn establish(&mut self, now: Time, symbol_size: u16, window_blocks: u32, memory_bytes: u64) {
        self.flight.establish(now);
        self.stream.establish(now, &self.flight, symbol_size, window_blocks, memory_bytes);
    }

    // ---- writing ----

    /// Takes as much of `data` as there is room for; returns how much.
    pub(crate) fn write(&mut self, now: Time, data: &[u8]) -> usize {
        self.stream.write(now, data, &self.flight)
    }

    /// Whether waking a writer that waits is worth it.
    pub(crate) fn asks_for_more(&self) -> bool {
        self.stream.asks_for_more(&self.flight)
    }

    /// Whether more is in flight or waits to be, as far as the window permits it, than always may be in flight.
    pub(crate) fn is_under_way(&self) -> bool {
        self.stream.is_under_way(&self.flight)
    }

    // ---- sending ----

    /// The next symbol to send at `now`, without regard to the rate (`spec/protocol.md` \[plan-3\]).
    pub(crate) fn next_symbol(&mut self, now: Time, rtt: &RttEstimator, spending: Spending) -> Option<Symbol> {
        if matches!(spending, Spending::Trickle { not_before } if now < not_before) {
            return None;
        }
        let context = SendContext { now, flight: &self.flight, rtt, spending };
        self.stream.set_thrifty(spending != Spending::Freely);
        if self.flight.is_blocked(now, rtt) {
            return self.stream.probe_symbol(&context);
        }
        self.stream
            .round_symbol(&context)
            .or_else(|| (spending == Spending::Freely).then(|| self.stream.proactive_symbol(&context)).flatten())
            .or_else(|| self.stream.probe_symbol(&context))
    }

    /// When [`next_symbol`](Self::next_symbol), which had nothing at `asked`, may have something, reports apart.
    pub(crate) fn next_timeout(&self, asked: Time, rtt: &RttEstimator, spending: Spending) -> Option<Time> {
        let probe = (!self.stream.is_idle()).then(|| self.flight.probe_at(rtt, spending));
        let trickle = match spending {
            Spending::Trickle { not_before } => Some(not_before),
            Spending::Freely | Spending::Needed | Spending::OldestBlock => None,
        };
        probe.into_iter().chain(trickle).chain(self.stream.cut_at()).filter(|&at| at > asked).min()
    }

    /// `symbol` has been sent as datagram `number`.
    pub(crate) fn on_sent(&mut self, now: Time, symbol: Symbol, number: u64) {
        self.stream.on_sent(now, symbol, self.flight.loss().high());
        let sent = Sent { number, block_id: symbol.block_id, at: now };
        self.flight.on_sent(sent, symbol.reason == Reason::Probe);
    }

    // ---- reports ----

    /// Takes in the report that came as datagram `number`, and its `record` of the stream, if it has one; `numbers` are those of
    /// our datagrams.
    ///
    /// # Errors
    /// It says what no correct peer says.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        number: u64,
        report: &Report,
        record: Option<(StreamState, impl Iterator<Item = Run> + Clone)>,
        numbers: &DatagramNumbers,
    ) -> Result<Heard, PeerMisbehaved> {
        let named = self.flight.read(number, report, numbers)?;
        // What an honest peer has outdated may not count against it, nor for it ([proof-7]).
        let is_overtaken = match &record {
            Some((state, _)) => self.stream.is_overtaken(state.next_needed)?,
            None => false,
        };
        if is_overtaken || named.is_stale {
            return Ok(Heard::Stale);
        }
        if let Some((state, runs)) = &record {
            self.stream.check_proofs(state, runs.clone())?;
        }
        let stream = &mut self.stream;
        let sample = self.flight.on_report(now, named, report, numbers, |sent| stream.on_fate(sent.block_id))?;
        self.waste.on_report(report.wasted);
        self.stream.on_memory(report.memory_kib);
        let accounted = match record {
            Some((state, runs)) => self.stream.on_report(&state, runs, self.flight.loss())?,
            None => self.stream.unreported(),
        };
        if self.stream.is_idle() {
            self.flight.forget();
        }
        self.check_counts(accounted, numbers.sent_before(numbers.end()))?;
        Ok(Heard::News { rtt_sample: sample })
    }

    /// What a report counts must be what it accounts for ([report-12]): each symbol which served or was wasted has come in a
    /// datagram, and each data datagram that has come did one of the two. `sent` counts all our datagrams.
    fn check_counts(&self, accounted: Accounted, sent: u64) -> Result<(), PeerMisbehaved> {
        let received = self.flight.reported().map_or(0, |reported| reported.received);
        let control = sent.saturating_sub(self.stream.counters().sent.total());
        let least = accounted.symbols + self.waste.total.total();
        if (least..=least + control + accounted.unlisted_max).contains(&received) {
            return Ok(());
        }
        Err(PeerMisbehaved::InconsistentReport { received, accounted: least })
    }

    /// What the same report says of the queue in front of the receiver.
    pub(crate) fn on_queue(&mut self, now: Time, queue: QueueReport) {
        self.flight.on_queue(now, self.stream.symbol_size(), queue);
    }

    /// The peer has decoded the whole stream. The report which acknowledges its last blocks may still be on its way, or lost.
    pub(crate) fn on_finished(&mut self) {
        self.stream.on_finished();
        self.flight.forget();
    }

    /// Symbols which the oldest open block may take on credit ([credit-2]), and the bytes of one; 0 without an open block.
    pub(crate) fn oldest_block_symbols(&self) -> (u64, u64) {
        self.stream.oldest_block_symbols(self.flight.loss())
    }

    /// What the peer has reported as waste, in all.
    pub(crate) fn wasted(&self) -> WastedSymbols {
        self.waste.total
    }
}

#[cfg(test)]
mod tests;
