//! The sending side of a session: its streams' sending halves, and which of them sends next.

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
    /// The end which opens streams here.
    opener: Opener,
    /// That of streams which are opened.
    traffic: Traffic,
    shared: SendShared,
    streams: StreamTable<SendStream>,
    scheduler: Scheduler,
    /// Streams that wait for a time: to cut a block, to ask the peer, or to say where they end.
    timed: TimedStreams,
    /// Streams that have data, but the windows had no room for them, or all had been sent for now: a report may change that.
    waiting: Vec<StreamId>,
    /// Those among them which may be stuck.
    stuck: BTreeSet<StreamId>,
    /// Streams whose writers have more than they could write.
    writers: Vec<StreamId>,
    /// Streams whose symbols the report at hand has passed by.
    passed: Vec<StreamId>,
    /// Events of the streams that applications are to be told.
    events: VecDeque<(StreamId, SendEvent)>,
    /// A stream has data, and no block ids left.
    is_exhausted: bool,
    /// Streams whose sending half has ended, and whether the peer has reset or stopped them.
    gone: Vec<(StreamId, bool)>,
    /// The number of the newest datagram of the peer's that told of what it has.
    told_by: Option<u64>,
    waste: WasteCounters,
    /// A symbol of which not all parts have been sent.
    parts: Option<Box<Parts>>,
}

/// Waste that the peer has reported, in all.
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

    /// The handshake is done: the peer takes symbols of `symbol_size` and the given window; packets have room for
    /// `packet_symbol_size`.
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
            // The peer's window is another one than was assumed: a writer that was cut short tries again.
            if stream.take_write_blocked() {
                self.events.push_back((id, SendEvent::Writable));
            }
        }
    }

    /// Packets have room for symbols of `packet_symbol_size`, secrets excluded: new blocks are cut for that, and symbols of older
    /// ones leave in parts where they are longer.
    pub(crate) fn set_packet_symbol_size(&mut self, now: Time, path: &Path, packet_symbol_size: usize) {
        self.shared.set_packet_symbol_size(packet_symbol_size);
        for (_, stream) in self.streams.iter_mut() {
            stream.recut(now, path.flight(), &self.shared);
        }
    }

    /// Bytes of data in a symbol that packets have room for.
    pub(crate) fn packet_symbol_size(&self) -> usize {
        self.shared.packet_symbol_size()
    }

    /// The next secret, of which none is drawn twice; 0 without proofs.
    pub(crate) fn draw_secret(&mut self) -> u32 {
        self.shared.secrets.as_mut().map_or(0, Secrets::draw)
    }

    // ---- sending ----

    /// The next symbol to send at `now`, without regard to the rate (`spec/protocol.md` \[plan-3\]). If the path is blocked, only a probe of silence
    /// is sent: without it, the loss of all datagrams would never be noticed.
    ///
    /// # Errors
    /// A block was cut and cannot be coded: its bytes are lost, and the session with them.
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

    /// The symbol, or its first part, that is sent next unless another one's parts are.
    fn choose(&mut self, now: Time, path: &Path, spending: Spending) -> Result<Option<Symbol>, CodeError> {
        if self.timed.is_due(now) {
            self.wake_timed(now);
        }
        self.shared.is_thrifty = spending != Spending::Freely;
        let due = if path.is_blocked(now) {
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

    /// The next part of a symbol that has been begun, unless the peer does not need it any more.
    fn next_part(&mut self) -> Option<Symbol> {
        let whole = self.parts.as_ref()?.whole;
        if !self.streams.get(whole.stream).is_some_and(|stream| stream.is_open(whole.block_id)) {
            self.parts = None;
        }
        self.parts.as_ref()?.next()
    }

    /// The next symbol that rounds owe, of a new block, or of repair in advance, of the stream whose turn it is.
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

    /// Streams whose partial block is due to be cut get their turn.
    fn wake_timed(&mut self, now: Time) {
        while let Some(id) = self.timed.cut(now) {
            let Some(stream) = self.streams.get_mut(id) else { return };
            let due = stream.due(&self.shared);
            if due.cut.is_some_and(|at| at <= now) {
                self.scheduler.wake(id);
            }
            // A stream that has a turn need not be looked at again.
            let later = Due { cut: due.cut.filter(|&at| at > now), ..due };
            self.timed.list(id, &mut stream.listed_in.timed, later);
        }
    }

    /// A stream has nothing that may be sent now: what may change that?
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

    /// A symbol that asks a peer which has not told of a stream's newest blocks (\[silence-4\]).
    fn question(&mut self, now: Time) -> Option<Symbol> {
        while let Some(id) = self.timed.ask(now) {
            let stream = self.streams.get(id)?;
            if stream.ask_at().is_some_and(|at| at <= now) {
                return stream.probe_symbol();
            }
            // It has been asked, or told of, since.
            self.note_timed(id);
        }
        None
    }

    /// A symbol to make a silent peer speak, if that is due.
    fn probe(&self, now: Time, path: &Path, spending: Spending) -> Option<Symbol> {
        if now < path.probe_at(spending) {
            return None;
        }
        self.streams.get(self.oldest_stream()?)?.probe_symbol()
    }

    /// The stream whose oldest block was begun before all others' ([credit-2], [sched-4]).
    fn oldest_stream(&self) -> Option<StreamId> {
        let first = self.streams.get(StreamId::FIRST).and_then(|first| Some((first.oldest_begun()?, StreamId::FIRST)));
        let begun = first.into_iter().chain(self.shared.oldest.first().copied());
        begun.min().map(|(_, id)| id)
    }

    /// Earliest time at which [`next_symbol`](Self::next_symbol) or [`next_ending`](Self::next_ending), which had nothing at `asked`, may
    /// have something, reports apart.
    pub(crate) fn next_timeout(&self, asked: Time, path: &Path, spending: Spending) -> Option<Time> {
        let probe = (!self.is_idle()).then(|| path.probe_at(spending));
        let trickle = match spending {
            Spending::Trickle { not_before } => Some(not_before),
            Spending::Freely | Spending::Needed | Spending::OldestBlock => None,
        };
        probe.into_iter().chain(trickle).filter(|&at| at > asked).chain(self.timed.next_after(asked)).min()
    }

    /// The next segment that is due at `now` about the end of a stream.
    pub(crate) fn next_ending(&mut self, now: Time, path: &Path) -> Option<Segment> {
        while let Some(id) = self.timed.end(now) {
            let segment = self.streams.get_mut(id)?.ending_segment(now, path.probe_timeout());
            // Its next copy is due later, or none is.
            self.note_timed(id);
            if segment.is_some() {
                return segment;
            }
        }
        None
    }

    /// Symbols which the oldest open block may take on credit ([credit-2]), and the bytes of one; 0 without an open block.
    pub(crate) fn oldest_block_symbols(&self, path: &Path) -> (u64, u64) {
        let oldest = self.oldest_stream().and_then(|id| self.streams.get(id));
        oldest.map_or((0, 0), |stream| stream.oldest_block_symbols(path.flight().loss()))
    }

    /// Waste that the peer has reported, in all.
    pub(crate) fn wasted(&self) -> WastedSymbols {
        self.waste.total
    }
}

#[cfg(test)]
impl SendSide {
    /// Visits to streams so far.
    pub(crate) fn visits(&self) -> u64 {
        self.streams.visits.get() + self.scheduler.visits()
    }
}

#[cfg(test)]
mod tests;
