//! The receiving side of a session: the streams' receiving halves, what they share, and what the peer is told of them.

mod ends;
mod half;
mod naming;
mod stops;
mod untold;

use std::collections::VecDeque;

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;
use dfcp_wire::feedback::{ReportWriter, Wasted};
use dfcp_wire::segment::{Ack, Data};
use dfcp_wire::{Opener, StreamId, StreamKind, StreamLimits};

use crate::config::Config;
use crate::error::{PeerMisbehaved, StreamError};
use crate::limits::STREAM_BYTES_MAX;
use crate::session::recv_side::ends::{Ended, Ends};
use crate::session::recv_side::half::Half;
use crate::session::recv_side::naming::Naming;
use crate::session::recv_side::untold::Untold;
use crate::shared::memory::MemoryReservation;
use crate::shared::room::Room;
use crate::shared::{PushError, Read, Role};
use crate::spare::SpareBlocks;
use crate::stats::{ReceivedSymbols, StreamStats};
use crate::stream::recv::memory::ReceiveMemory;
use crate::stream::recv::slot::one_symbol_bytes;
use crate::stream::recv::{RecvCommon, RecvStream};
use crate::stream::send::shared::KIB_BYTES;
use crate::stream::table::StreamTable;

/// An event of a stream that is received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RecvEvent {
    /// The peer has opened it.
    Opened,
    /// There is something to read, or its end, or the peer's error.
    Readable,
    /// Nothing is kept of it any more, after it has done this.
    Gone(Box<StreamStats>),
}

/// The receiving side of a session: its halves, and their common state.
#[derive(Debug)]
pub(crate) struct RecvSide {
    common: RecvCommon,
    halves: StreamTable<Half>,
    naming: Naming,
    ends: Ends,
    /// The end which opens the streams that are to be accepted, and whether there may be any.
    peer: Opener,
    permits_streams: bool,
    /// The first index of each kind which the peer has not opened, and which has not been accepted.
    opened: StreamLimits,
    accepted: StreamLimits,
    /// Streams with events, each once.
    events: VecDeque<StreamId>,
    /// Figures of halves which are gone, and of which the application has not been told.
    final_stats: Option<Box<FinalStats>>,
    gone: VecDeque<(StreamId, bool)>,
    /// Halves with open blocks.
    open_halves: usize,
    /// Bytes that the application has read since a report last said so.
    untold: Untold,
    /// Receive memory that the newest report announced.
    told_memory_bytes: u64,
    own_news: OwnNews,
}

/// Figures of halves which are gone. It is rare that the application has not been told of one.
#[derive(Debug, Default)]
struct FinalStats {
    halves: Vec<(StreamId, StreamStats)>,
}

/// State of a report about the application's reading, if that is worth one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum OwnNews {
    #[default]
    None,
    /// It is worth one; the session has not been told.
    Fresh,
    /// The session has been told; the report has not been written.
    Known,
}

impl RecvSide {
    /// The side of a session that has stream 0 alone.
    pub(crate) fn new(config: &Config, kernel: Kernel, proofs: bool, role: Role) -> Self {
        let (peer, first) = match role {
            Role::Initiator => (Opener::Acceptor, StreamLimits::default()),
            // Stream 0 is the initiator's first one, and needs no accepting.
            Role::Acceptor => (Opener::Initiator, StreamLimits { bidirectional: 1, one_way: 0 }),
        };
        Self {
            common: RecvCommon::new(config, kernel, proofs),
            halves: StreamTable::with_first(Half::default()),
            naming: Naming::default(),
            ends: Ends::default(),
            peer,
            permits_streams: config.streams != StreamLimits::default(),
            opened: first,
            accepted: first,
            events: VecDeque::new(),
            final_stats: None,
            gone: VecDeque::new(),
            open_halves: 0,
            untold: Untold::default(),
            told_memory_bytes: config.offer().receive_memory_bytes,
            own_news: OwnNews::None,
        }
    }

    /// From now on, `reservation` pays for blocks and streams.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.common.memory.charge_to(reservation);
    }

    /// The account that pays for what is held.
    pub(crate) fn memory(&mut self) -> &mut ReceiveMemory {
        &mut self.common.memory
    }

    /// Memory that the peer's blocks may take in all, beyond one symbol of each stream, in KiB.
    pub(crate) fn memory_kib(&self) -> u32 {
        u32::try_from(self.common.memory.told_bytes() / KIB_BYTES).unwrap_or(u32::MAX)
    }

    /// Memory of blocks comes from there.
    pub(crate) fn take_from(&mut self, spare: SpareBlocks) {
        self.common.spare = spare;
    }

    /// The size on which both ends have agreed. To be called before there is a stream besides stream 0.
    pub(crate) fn set_symbol_size(&mut self, symbol_size: u16) {
        self.common.set_symbol_size(symbol_size);
    }

    // ---- streams ----

    /// Charge for each stream besides stream 0: its state, and a place of its own for one symbol.
    fn opening_bytes(&self) -> u64 {
        STREAM_BYTES_MAX + one_symbol_bytes(self.common.symbol_size())
    }

    /// Opens the receiving half of a stream, the peer's in the order of their indices. `false` if there is no memory for it.
    pub(crate) fn open(&mut self, id: StreamId) -> bool {
        if !self.common.memory.pay(self.opening_bytes()) {
            return false;
        }
        let is_peers = id.opener() == self.peer;
        if is_peers {
            *of_kind(&mut self.opened, id.kind()) = id.index() + 1;
            self.events.push_back(id);
        }
        self.halves.insert(id, Half { opened: is_peers, ..Half::default() });
        true
    }

    /// The next stream that the peer has opened and the application has not got yet: bidirectional ones first, in the order of
    /// their opening.
    pub(crate) fn accept(&mut self) -> Option<StreamId> {
        for kind in [StreamKind::Bidirectional, StreamKind::OneWay] {
            let opened = *of_kind(&mut self.opened, kind);
            let accepted = of_kind(&mut self.accepted, kind);
            if *accepted < opened {
                *accepted += 1;
                return StreamId::new(self.peer, kind, *accepted - 1);
            }
        }
        None
    }

    /// The peer has stopped the other half of the stream, which is gone before this one.
    pub(crate) fn note_reset(&mut self, id: StreamId) {
        if let Some(half) = self.halves.get_mut(id) {
            half.is_other_reset = true;
        }
    }

    /// The next half which is done with, and whether the peer has reset the stream: nothing is kept of it but what answers need.
    pub(crate) fn take_gone(&mut self) -> Option<(StreamId, bool)> {
        self.gone.pop_front()
    }

    /// Streams have gone, and with them what queues held room for.
    pub(crate) fn give_back_room(&mut self) {
        self.gone.give_back();
        self.events.give_back();
        self.naming.give_back_room();
        self.untold.give_back();
        self.ends.give_back_room();
    }

    /// Lets a half do something, and keeps the sums over all halves true.
    fn with<T>(&mut self, id: StreamId, act: impl FnOnce(&mut RecvStream, &mut RecvCommon) -> T) -> Option<T> {
        let stream = &mut self.halves.get_mut(id)?.stream;
        let before = Share::of(stream, &self.common);
        let done = act(stream, &mut self.common);
        before.on_change(id, stream, &mut self.common, (&mut self.open_halves, &mut self.untold));
        Some(done)
    }

    fn on_news(&mut self, id: StreamId) {
        if let Some(half) = self.halves.get_mut(id) {
            self.naming.on_news(id, half);
        }
    }

    /// Lets go of a half with which neither end has any more to do, when the peer has been told what it did. Stream 0's is kept as long as
    /// its session, whose closing it tells.
    fn settle(&mut self, id: StreamId) {
        let is_done = |half: &&Half| half.stream.is_done() && !half.owes_news();
        if id == StreamId::FIRST || self.halves.get(id).filter(is_done).is_none() {
            return;
        }
        let Some(half) = self.halves.remove(id) else { return };
        self.ends.on_gone(id, Ended::of(&half.stream));
        self.final_stats.get_or_insert_default().halves.push((id, half.stream.stats()));
        self.gone.push_back((id, half.stream.is_reset() || half.is_other_reset));
        self.untold.change(id, half.stream.untold_bytes(), 0);
        self.open_halves -= usize::from(half.stream.has_open_blocks());
        self.common.memory.on_delivered_change(half.stream.delivered_bytes(&self.common), 0);
        half.stream.close(&mut self.common);
        self.common.fragments.forget(&mut self.common.memory, id, None);
        let bytes = self.opening_bytes();
        self.common.memory.give_back(bytes);
    }

    // ---- what arrives ----

    /// Takes in a symbol; `true` if its block is decoded now. That of a stream which is not kept any more is late, and is answered.
    ///
    /// # Errors
    /// If it has no place, or contradicts what came before.
    pub(crate) fn push(&mut self, data: &Data, payload: &[u8]) -> Result<bool, PushError> {
        let id = data.stream;
        let Some(half) = self.halves.get_mut(id) else {
            self.common.symbols.late += 1;
            self.ends.owe(id);
            return Ok(false);
        };
        let before = Share::of(&half.stream, &self.common);
        let taken = half.stream.push(&mut self.common, data, payload);
        before.on_change(id, &half.stream, &mut self.common, (&mut self.open_halves, &mut self.untold));
        if half.stream.is_reset() {
            self.ends.owe(id);
            return taken;
        }
        // Also of what was refused or late: its sender does not know better. So it is not done with, whatever the symbol has ended.
        self.naming.on_news(id, half);
        if half.stream.is_finished() {
            self.ends.on_ended(id);
        }
        if half.stream.is_readable() {
            half.on_readable(id, &mut self.events);
        }
        taken
    }

    /// The peer's FIN ends the stream before block `end`. Stream 0's is acknowledged by the session, with its own.
    ///
    /// # Errors
    /// If the stream is known to end elsewhere.
    pub(crate) fn on_fin(&mut self, id: StreamId, end: u32) -> Result<(), PushError> {
        match self.with(id, |half, _| half.set_end(end)) {
            Some(result) => result,
            None => self.check_gone(id, end),
        }
        .map_err(PushError::Misbehaved)?;
        if id != StreamId::FIRST {
            self.ends.on_ended(id);
            self.ends.owe(id);
        }
        self.on_ended(id);
        Ok(())
    }

    /// The peer gives the stream up before block `end`.
    ///
    /// # Errors
    /// If the stream is known to end elsewhere, or to have more blocks.
    pub(crate) fn on_reset(&mut self, id: StreamId, error: u32, end: u32) -> Result<(), PushError> {
        match self.with(id, |half, common| half.reset(common, error, end)) {
            Some(result) => result,
            None => self.check_gone(id, end),
        }
        .map_err(PushError::Misbehaved)?;
        self.ends.on_reset(id);
        self.ends.on_ended(id);
        self.ends.owe(id);
        self.on_ended(id);
        Ok(())
    }

    fn check_gone(&mut self, id: StreamId, end: u32) -> Result<(), PeerMisbehaved> {
        match self.ends.gone_mut(id) {
            Some(ended) if ended.end != end => Err(PeerMisbehaved::InconsistentEnd { earlier: ended.end, later: end }),
            Some(_) | None => Ok(()),
        }
    }

    fn on_ended(&mut self, id: StreamId) {
        if let Some(half) = self.halves.get_mut(id) {
            if half.stream.is_reset() {
                self.naming.on_silent(half);
            } else {
                self.naming.on_news(id, half);
            }
            half.on_readable(id, &mut self.events);
        }
        self.settle(id);
    }

    /// The peer asks for the record of the stream.
    pub(crate) fn on_question(&mut self, id: StreamId) {
        match self.halves.get(id) {
            Some(half) if !half.stream.is_reset() => self.on_news(id),
            Some(_) | None => self.ends.owe(id),
        }
    }

    /// There was no memory for the stream of a symbol.
    pub(crate) fn count_refused(&mut self) {
        self.common.symbols.refused += 1;
    }

    /// The network has delivered a symbol twice.
    pub(crate) fn count_duplicate(&mut self) {
        self.common.symbols.duplicate += 1;
    }

    // ---- what the peer is told ----

    /// The next acknowledgement or request about a stream which is to be sent.
    pub(crate) fn next_answer(&mut self, now: Time) -> Option<Ack> {
        let halves = &self.halves;
        self.ends.next(now, |id| halves.get(id))
    }

    /// Time at which [`next_answer`](Self::next_answer) has something; a time in the past means now.
    pub(crate) fn answer_at(&self) -> Option<Time> {
        self.ends.next_timeout()
    }

    /// True while reports owe the peer news of a stream, whatever arrives.
    pub(crate) fn owes_naming(&self) -> bool {
        self.naming.is_owing()
    }

    /// Writes the records of a report: the first indices of the peer's streams which were never seen, if it may open any, and
    /// then the streams which are to be named.
    pub(crate) fn write_records(&mut self, writer: &mut ReportWriter<'_>, unseen: StreamLimits) {
        // A report always has room for this.
        let _is_written = self.permits_streams && writer.unseen(unseen);
        self.told_memory_bytes = self.common.memory.told_bytes();
        self.own_news = OwnNews::None;
        self.naming.write(&mut self.halves, writer, &mut self.untold);
        while let Some(id) = self.naming.take_told() {
            self.settle(id);
        }
    }

    /// True after the application's reading has made a quarter of the window free, in bytes or in blocks, beyond what the peer
    /// was told; once for each report (\[report-3\]).
    pub(crate) fn has_room_to_tell(&mut self) -> bool {
        let is_fresh = self.own_news == OwnNews::Fresh;
        if is_fresh {
            self.own_news = OwnNews::Known;
        }
        is_fresh
    }

    // ---- what the application does ----

    /// Copies received bytes of a stream, in order, into `out`.
    ///
    /// # Errors
    /// The peer's [`Reset`](StreamError::Reset), once; [`StreamError::Ended`] after that, after the end, and for what is not
    /// received here.
    pub(crate) fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Read, StreamError> {
        let half = self.halves.get_mut(id).ok_or(StreamError::Ended)?;
        if half.stream.is_end_told() {
            return Err(StreamError::Ended);
        }
        // The usual answer to an application that polls.
        if half.stream.is_waiting() {
            return Ok(Read::Blocked);
        }
        let before = Share::of(&half.stream, &self.common);
        let result = half.stream.read(&mut self.common, out);
        before.on_change(id, &half.stream, &mut self.common, (&mut self.open_halves, &mut self.untold));
        if matches!(result, Ok(Read::Bytes(_))) {
            let has_untold_blocks = half.stream.has_untold_blocks(&self.common);
            self.on_read(has_untold_blocks);
        }
        self.settle(id);
        result
    }

    /// The peer may be waiting for room: it is told once a good part more is free than it knows of, in bytes or, of the stream that was
    /// read, in blocks.
    fn on_read(&mut self, has_untold_blocks: bool) {
        if self.own_news != OwnNews::None {
            return;
        }
        let memory = &self.common.memory;
        let is_wider = self.untold.bytes().saturating_add(memory.told_bytes())
            >= self.told_memory_bytes.saturating_add(memory.bytes() / 4);
        if !is_wider && !has_untold_blocks {
            return;
        }
        self.own_news = OwnNews::Fresh;
        // Whichever stream it is that the peer waits for.
        for id in self.untold.streams() {
            if let Some(half) = self.halves.get_mut(id) {
                self.naming.on_news(id, half);
            }
        }
    }

    /// Asks the peer, until it does, to end its half of a stream: what comes of it, and what has come, is discarded.
    pub(crate) fn stop_sending(&mut self, now: Time, id: StreamId, error: u32) {
        let goes_on = self.with(id, |half, common| {
            half.stop(common);
            !half.is_finished() && !half.is_reset()
        });
        if goes_on == Some(true) {
            self.ends.stop(now, id, error);
        }
        self.settle(id);
    }

    /// The next event, each at most once until it is polled.
    pub(crate) fn poll_event(&mut self) -> Option<(StreamId, RecvEvent)> {
        while let Some(id) = self.events.pop_front() {
            self.events.give_back();
            let Some(half) = self.halves.get_mut(id) else { continue };
            if !std::mem::take(&mut half.opened) {
                half.readable = false;
                return Some((id, RecvEvent::Readable));
            }
            if half.readable {
                self.events.push_front(id);
            }
            return Some((id, RecvEvent::Opened));
        }
        let (id, stats) = self.final_stats.as_mut()?.halves.pop()?;
        self.final_stats.take_if(|left| left.halves.is_empty());
        Some((id, RecvEvent::Gone(Box::new(stats))))
    }

    // ---- what is known ----

    /// True if [`read`](Self::read) would return something other than `Blocked`.
    pub(crate) fn is_readable(&self, id: StreamId) -> bool {
        self.halves.get(id).is_none_or(|half| {
            let half = &half.stream;
            half.is_readable() || half.is_drained() || half.is_reset() || half.is_stopped()
        })
    }

    /// True if anything is kept of a stream's receiving half.
    pub(crate) fn has(&self, id: StreamId) -> bool {
        self.halves.get(id).is_some()
    }

    /// True once all of stream 0 is decoded.
    pub(crate) fn is_first_finished(&self) -> bool {
        self.halves.get(StreamId::FIRST).is_some_and(|half| half.stream.is_finished())
    }

    /// The proof of all blocks of stream 0 before the one needed next.
    pub(crate) fn first_proof(&self) -> u32 {
        self.halves.get(StreamId::FIRST).map_or(0, |half| half.stream.proof())
    }

    /// True while any block of any stream lacks symbols, as far as is known.
    pub(crate) fn has_open_blocks(&self) -> bool {
        self.open_halves > 0
    }

    /// Symbols that arrived in vain, as reports tell them.
    pub(crate) fn wasted(&self) -> Wasted {
        let ReceivedSymbols { dependent, late, refused, .. } = self.common.symbols;
        Wasted { dependent: dependent as u32, late: late as u32, refused: refused as u32 }
    }

    pub(crate) fn symbols(&self) -> ReceivedSymbols {
        self.common.symbols
    }

    /// Figures of a half that is kept; zeros for any other.
    pub(crate) fn stats_of(&self, id: StreamId) -> StreamStats {
        self.halves.get(id).map(|half| half.stream.stats()).unwrap_or_default()
    }

    pub(crate) fn blocks_decoded(&self) -> u64 {
        self.common.blocks_decoded
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.common.bytes_read
    }
}

/// A half's share in the sums over all halves: of those with open blocks, of what no report has told, and of what is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    is_open: bool,
    untold_bytes: u64,
    delivered_bytes: u64,
}

impl Share {
    fn of(half: &RecvStream, common: &RecvCommon) -> Self {
        Self {
            is_open: half.has_open_blocks(),
            untold_bytes: half.untold_bytes(),
            delivered_bytes: half.delivered_bytes(common),
        }
    }

    /// The half may have changed since: the sums follow. Most symbols change none of them.
    #[inline]
    fn on_change(
        self,
        id: StreamId,
        half: &RecvStream,
        common: &mut RecvCommon,
        (open_halves, untold): (&mut usize, &mut Untold),
    ) {
        let now = Self::of(half, common);
        if now == self {
            return;
        }
        common.memory.on_delivered_change(self.delivered_bytes, now.delivered_bytes);
        *open_halves -= usize::from(self.is_open);
        *open_halves += usize::from(now.is_open);
        untold.change(id, self.untold_bytes, now.untold_bytes);
    }
}

/// The number of one kind.
const fn of_kind(limits: &mut StreamLimits, kind: StreamKind) -> &mut u32 {
    match kind {
        StreamKind::Bidirectional => &mut limits.bidirectional,
        StreamKind::OneWay => &mut limits.one_way,
    }
}

#[cfg(debug_assertions)]
impl RecvSide {
    /// The first fault in the lists and sums over all halves; `None` if they are right.
    pub(crate) fn find_fault(&self) -> Option<String> {
        let halves = || self.halves.iter();
        let open = halves().filter(|(_, half)| half.stream.has_open_blocks()).count();
        let untold_bytes: u64 = halves().map(|(_, half)| half.stream.untold_bytes()).sum();
        let delivered: u64 = halves().map(|(_, half)| half.stream.delivered_bytes(&self.common)).sum();
        let untold: Vec<_> = halves().filter(|(_, half)| half.stream.untold_bytes() > 0).map(|(id, _)| id).collect();
        if open != self.open_halves {
            return Some(format!("{open} halves are open, counted {}", self.open_halves));
        }
        if untold_bytes != self.untold.bytes() || !self.untold.streams().eq(untold.iter().copied()) {
            return Some(format!("{untold_bytes} bytes of {untold:?} are untold, listed {:?}", self.untold));
        }
        if delivered != self.common.memory.delivered_bytes() {
            return Some(format!("{delivered} bytes are delivered, counted {}", self.common.memory.delivered_bytes()));
        }
        if let Some((id, _)) =
            halves().find(|(id, half)| *id != StreamId::FIRST && half.stream.is_done() && !half.owes_news())
        {
            return Some(format!("{id:?} is done with, told, and kept"));
        }
        let lost = |id: &StreamId, half: &Half| (half.opened || half.readable) && !self.events.contains(id);
        if let Some((id, _)) = halves().find(|(id, half)| lost(id, half)) {
            return Some(format!("{id:?} has an event that is not listed"));
        }
        self.naming.find_fault(halves())
    }
}

#[cfg(test)]
impl RecvSide {
    /// Visits to halves so far.
    pub(crate) fn visits(&self) -> u64 {
        self.halves.visits.get()
    }
}

#[cfg(test)]
mod tests;
