//! The sending side of a session: the sending halves of its streams, and the choice of the stream that sends next.

#[cfg(debug_assertions)]
mod check;
mod ready;
mod reports;
mod scheduler;
mod streams;
mod timed;

use std::collections::{BTreeSet, VecDeque};

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;
use dfcp_wire::feedback::Wasted;
use dfcp_wire::segment::Segment;
use dfcp_wire::{Opener, StreamId};

pub(crate) use self::ready::Ready;
pub(crate) use self::reports::Heard;
pub use self::scheduler::Priority;
use self::scheduler::{Scheduler, Work};
pub(crate) use self::streams::SendEvent;
use self::timed::TimedStreams;
use crate::config::{Config, Traffic};
use crate::path::Path;
use crate::path::credit::Spending;
use crate::stats::WastedSymbols;
use crate::stream::send::parts::Parts;
use crate::stream::send::proofs::Secrets;
use crate::stream::send::shared::SendShared;
use crate::stream::send::symbol::{CodeError, Symbol};
use crate::stream::send::{Due, SendContext, SendStream};
use crate::stream::table::StreamTable;

/// The sending side of a session: its streams, and their common state.
#[derive(Debug)]
pub(crate) struct SendSide {
    /// Role of this end, initiator or responder, which the ids of its streams contain.
    opener: Opener,
    /// Kind of traffic of newly opened streams.
    traffic: Traffic,
    shared: SendShared,
    streams: StreamTable<SendStream>,
    scheduler: Scheduler,
    /// Streams that wait for a time: to cut a partial block, to send a question, or to announce their end.
    timed: TimedStreams,
    /// Streams with data that cannot be sent now, because windows are full or all their blocks have been sent. A report
    /// may change this.
    waiting: Vec<StreamId>,
    /// Streams that wait for window with no block in flight, so that no report is expected.
    stuck: BTreeSet<StreamId>,
    /// Streams whose writers could not write everything.
    writers: Vec<StreamId>,
    /// Streams with symbols that the current report shows as arrived or lost.
    passed: Vec<StreamId>,
    /// Events for the application.
    events: VecDeque<(StreamId, SendEvent)>,
    /// A stream has data, but has used all block ids.
    is_exhausted: bool,
    /// Streams whose sending half has ended. `true` if the peer has reset or stopped the stream.
    gone: Vec<(StreamId, bool)>,
    /// Number of the peer's newest datagram that acknowledged something.
    told_by: Option<u64>,
    waste: WasteCounters,
    /// A symbol of which some parts are still to be sent.
    parts: Option<Box<Parts>>,
}

/// Totals of the waste that the peer has reported.
#[derive(Debug, Default)]
struct WasteCounters {
    total: WastedSymbols,
    /// Counts of the newest report. They wrap around.
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
    /// Creates the sending side. With a secret in `proofs`, the peer must prove that it has decoded blocks.
    pub(crate) fn new(config: &Config, kernel: Kernel, opener: Opener, proofs: Option<[u8; 32]>) -> Self {
        let shared = SendShared::new(config, kernel, proofs);
        let first = SendStream::new(StreamId::FIRST, config.traffic, &shared);
        Self {
            opener,
            traffic: config.traffic,
            shared,
            streams: StreamTable::with_first(first),
            scheduler: Scheduler::new(),
            timed: TimedStreams::default(),
            waiting: Vec::new(),
            stuck: BTreeSet::new(),
            writers: Vec::new(),
            passed: Vec::new(),
            events: VecDeque::new(),
            is_exhausted: false,
            gone: Vec::new(),
            told_by: None,
            waste: WasteCounters::default(),
            parts: None,
        }
    }

    /// Applies the handshake: the peer accepts symbols of `symbol_size` bytes, and has the given window. Packets have
    /// room for symbols of `packet_symbol_size` bytes.
    pub(crate) fn establish(
        &mut self,
        now: Time,
        path: &Path,
        (symbol_size, packet_symbol_size): (u16, usize),
        (window_blocks, window_bytes): (u32, u64),
    ) {
        self.shared.establish(symbol_size, window_blocks, window_bytes);
        self.shared.set_packet_symbol_size(packet_symbol_size);
        self.shared.set_base();
        for (id, stream) in self.streams.iter_mut() {
            stream.recut(now, path.flight(), &self.shared);
            self.scheduler.wake(id);
            // The peer's window differs from the assumed one, so a writer without room should try again.
            if stream.take_write_blocked() {
                self.events.push_back((id, SendEvent::Writable));
            }
        }
    }

    /// Sets the symbol bytes that fit into a packet, secrets excluded. New blocks get symbols of this size; larger
    /// symbols of older blocks are sent in parts.
    pub(crate) fn set_packet_symbol_size(&mut self, now: Time, path: &Path, packet_symbol_size: usize) {
        self.shared.set_packet_symbol_size(packet_symbol_size);
        for (_, stream) in self.streams.iter_mut() {
            stream.recut(now, path.flight(), &self.shared);
        }
    }

    /// Symbol bytes that fit into a packet.
    pub(crate) fn packet_symbol_size(&self) -> usize {
        self.shared.packet_symbol_size()
    }

    /// Draws the next secret. No secret is drawn twice. Returns 0 without proofs.
    pub(crate) fn draw_secret(&mut self) -> u32 {
        self.shared.secrets.as_mut().map_or(0, Secrets::draw)
    }

    // ---- sending ----

    /// Returns the next symbol to send at `now`, regardless of the rate (`spec/protocol.md` \[plan-3\]). If the path is
    /// blocked, only a silence probe is sent: without it, the loss of all datagrams would never be noticed.
    ///
    /// # Errors
    /// If a new block cannot be encoded. Its bytes are lost, and so is the session.
    pub(crate) fn next_symbol(
        &mut self,
        now: Time,
        path: &Path,
        spending: Spending,
    ) -> Result<Option<Ready<'_>>, CodeError> {
        if matches!(spending, Spending::Trickle { not_before } if now < not_before) {
            return Ok(None);
        }
        let next = match self.next_part() {
            Some(part) => Some(part),
            None => self.choose(now, path, spending)?,
        };
        Ok(next.and_then(|symbol| Ready::new(self, symbol)))
    }

    /// Chooses the next symbol, and returns it or its first part. Called only if no parts of another symbol are left.
    fn choose(&mut self, now: Time, path: &Path, spending: Spending) -> Result<Option<Symbol>, CodeError> {
        if self.timed.is_due(now) {
            self.wake_timed(now);
        }
        self.shared.is_thrifty = spending != Spending::Freely;
        self.shared.hold_up.update(now, path.rtt().smoothed());
        // Without an open block, whose symbol would be the probe, the first symbol of a new one is it.
        let due = if path.is_blocked(now) && (self.oldest_stream().is_some() || now < path.probe_at(spending)) {
            None
        } else if let Some(question) = self.question(now) {
            Some(question)
        } else {
            self.due_symbol(now, path, spending)?
        };
        let Some(symbol) = due.or_else(|| self.probe(now, path, spending)) else { return Ok(None) };
        Ok(match self.shared.parts_of(symbol.symbol_size) {
            1 => Some(symbol),
            count => self.parts.insert(Box::new(Parts::new(symbol, count))).next(),
        })
    }

    /// Returns the next part of a symbol that was begun. Drops the remaining parts if the peer no longer needs the
    /// symbol.
    fn next_part(&mut self) -> Option<Symbol> {
        let whole = self.parts.as_ref()?.whole;
        if !self.streams.get(whole.stream).is_some_and(|stream| stream.is_open(whole.block_id)) {
            self.parts = None;
        }
        self.parts.as_ref()?.next()
    }

    /// Returns the next due symbol of the stream whose turn it is: from a planned round, of a new block, or proactive
    /// repair.
    fn due_symbol(&mut self, now: Time, path: &Path, spending: Spending) -> Result<Option<Symbol>, CodeError> {
        let context = SendContext { now, flight: path.flight(), rtt: path.rtt(), spending };
        if spending.is_for_oldest_block()
            && let Some(id) = self.oldest_stream()
        {
            let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
            return stream.round_symbol(&mut self.shared, &context);
        }
        while let Some((id, work)) = self.scheduler.next() {
            let symbol = match (self.streams.get_mut(id), work) {
                (Some(stream), Work::Rounds) => stream.round_symbol(&mut self.shared, &context)?,
                (Some(stream), Work::Proactive) if spending == Spending::Freely => {
                    stream.proactive_symbol(&mut self.shared, &context)
                }
                (Some(_), Work::Proactive) | (None, _) => None,
            };
            if symbol.is_some() {
                return Ok(symbol);
            }
            self.scheduler.on_nothing(id, work);
            if work == Work::Rounds {
                self.note_waiting(id);
            }
        }
        Ok(None)
    }

    /// Gives a turn to streams whose partial block is due to be cut.
    fn wake_timed(&mut self, now: Time) {
        while let Some(id) = self.timed.cut(now) {
            let Some(stream) = self.streams.get_mut(id) else { return };
            let due = stream.due(&self.shared);
            if due.cut.is_some_and(|at| at <= now) {
                self.scheduler.wake(id);
            }
            // A stream that already has a turn need not be visited again.
            let later = Due { cut: due.cut.filter(|&at| at > now), ..due };
            self.timed.list(id, &mut stream.listed_in.timed, later);
        }
    }

    /// Lists a stream that has nothing to send now under the events that may change this.
    fn note_waiting(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        self.is_exhausted |= stream.is_exhausted();
        if stream.has_data_to_send() && !std::mem::replace(&mut stream.listed_in.waiting, true) {
            self.waiting.push(id);
        }
        if stream.is_stuck(&self.shared) {
            self.stuck.insert(id);
        }
        self.note_timed(id);
    }

    /// Returns a symbol that serves as a question, for a stream whose newest blocks no report has named
    /// (\[silence-4\]).
    fn question(&mut self, now: Time) -> Option<Symbol> {
        while let Some(id) = self.timed.ask(now) {
            let stream = self.streams.get(id)?;
            if stream.ask_at().is_some_and(|at| at <= now) {
                return stream.probe_symbol();
            }
            // The stream was named or asked about since.
            self.note_timed(id);
        }
        None
    }

    /// Returns a symbol that probes a silent peer, if a probe is due.
    fn probe(&self, now: Time, path: &Path, spending: Spending) -> Option<Symbol> {
        if now < path.probe_at(spending) {
            return None;
        }
        self.streams.get(self.oldest_stream()?)?.probe_symbol()
    }

    /// Returns the stream whose oldest block was begun first ([credit-2], [sched-4]).
    fn oldest_stream(&self) -> Option<StreamId> {
        let first = self.streams.get(StreamId::FIRST).and_then(|first| Some((first.oldest_begun()?, StreamId::FIRST)));
        let begun = first.into_iter().chain(self.shared.oldest.first().copied());
        begun.min().map(|(_, id)| id)
    }

    /// Returns the earliest time when [`next_symbol`](Self::next_symbol) or [`next_ending`](Self::next_ending), which
    /// had nothing at `asked`, may have something. Reports may change this earlier.
    pub(crate) fn next_timeout(&self, asked: Time, path: &Path, spending: Spending) -> Option<Time> {
        let probe = (!self.is_idle() || !self.is_drained()).then(|| path.probe_at(spending));
        let trickle = match spending {
            Spending::Trickle { not_before } => Some(not_before),
            Spending::Freely | Spending::Needed | Spending::OldestBlock => None,
        };
        probe.into_iter().chain(trickle).filter(|&at| at > asked).chain(self.timed.next_after(asked)).min()
    }

    /// Returns the next segment about the end of a stream that is due at `now`.
    pub(crate) fn next_ending(&mut self, now: Time, path: &Path) -> Option<Segment> {
        while let Some(id) = self.timed.end(now) {
            let segment = self.streams.get_mut(id)?.ending_segment(now, path.probe_timeout());
            // List the time of its next copy, if there is one.
            self.note_timed(id);
            if segment.is_some() {
                return segment;
            }
        }
        None
    }

    /// Symbols that credit permits for the oldest open block ([credit-2]), and the bytes of one symbol. Zeros without
    /// an open block.
    pub(crate) fn oldest_block_symbols(&self, path: &Path) -> (u64, u64) {
        let oldest = self.oldest_stream().and_then(|id| self.streams.get(id));
        oldest.map_or((0, 0), |stream| stream.oldest_block_symbols(path.flight().loss()))
    }

    /// Totals of the waste that the peer has reported.
    pub(crate) fn wasted(&self) -> WastedSymbols {
        self.waste.total
    }
}

#[cfg(test)]
impl SendSide {
    /// Number of visits to streams so far.
    pub(crate) fn visits(&self) -> u64 {
        self.streams.visits.get() + self.scheduler.visits()
    }
}

#[cfg(test)]
mod tests;
