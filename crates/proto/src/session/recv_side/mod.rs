//! The receiving side of a session: the receiving halves of its streams, their common state, and reports about them.

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

/// An event of a receiving half.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RecvEvent {
    /// The peer has opened the stream.
    Opened,
    /// Reading returns data, the stream's end, or the peer's error.
    Readable,
    /// The receiving half is no longer kept. Contains its final statistics.
    Gone(Box<StreamStats>),
}

/// The receiving side of a session: its halves, and their common state.
#[derive(Debug)]
pub(crate) struct RecvSide {
    common: RecvCommon,
    halves: StreamTable<Half>,
    naming: Naming,
    ends: Ends,
    /// Role of the peer, whose streams are to be accepted.
    peer: Opener,
    /// True if the configuration permits streams of the peer.
    permits_streams: bool,
    /// For each kind, the peer's first index that is not opened.
    opened: StreamLimits,
    /// For each kind, the peer's first index that the application has not accepted.
    accepted: StreamLimits,
    /// Streams with events, each listed once.
    events: VecDeque<StreamId>,
    /// Final statistics of halves that are gone, until the application has polled them.
    final_stats: Option<Box<FinalStats>>,
    gone: VecDeque<(StreamId, bool)>,
    /// Number of halves with open blocks.
    open_halves: usize,
    /// Bytes read by the application and not yet reported to the peer.
    untold: Untold,
    /// Receive memory announced by the newest report, bytes.
    told_memory_bytes: u64,
    own_news: OwnNews,
}

/// Final statistics of halves that are gone. Boxed by its owner, since it is rarely needed.
#[derive(Debug, Default)]
struct FinalStats {
    halves: Vec<(StreamId, StreamStats)>,
}

/// State of a report about memory or blocks that the application's reading has freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum OwnNews {
    #[default]
    None,
    /// Enough is free for a report, and the session has not been notified.
    Fresh,
    /// The session has been notified, and the report has not been written.
    Known,
}

impl RecvSide {
    /// Creates the receiving side of a session that has only stream 0.
    pub(crate) fn new(config: &Config, kernel: Kernel, proofs: bool, role: Role) -> Self {
        let (peer, first) = match role {
            Role::Initiator => (Opener::Acceptor, StreamLimits::default()),
            // Stream 0 is the initiator's first stream, and needs no accepting.
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

    /// Charges blocks and streams to `reservation` from now on.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.common.memory.charge_to(reservation);
    }

    /// The account that is charged for received data.
    pub(crate) fn memory(&mut self) -> &mut ReceiveMemory {
        &mut self.common.memory
    }

    /// Memory that all blocks of the peer may take, in addition to one symbol per stream, KiB.
    pub(crate) fn memory_kib(&self) -> u32 {
        u32::try_from(self.common.memory.told_bytes() / KIB_BYTES).unwrap_or(u32::MAX)
    }

    /// Takes memory for blocks from `spare`.
    pub(crate) fn take_from(&mut self, spare: SpareBlocks) {
        self.common.spare = spare;
    }

    /// Sets the agreed symbol size, bytes. Must be called before there is a stream besides stream 0.
    pub(crate) fn set_symbol_size(&mut self, symbol_size: u16) {
        self.common.set_symbol_size(symbol_size);
    }

    // ---- streams ----

    /// Memory charged for each stream besides stream 0, bytes: its state, and room for one symbol.
    fn opening_bytes(&self) -> u64 {
        STREAM_BYTES_MAX + one_symbol_bytes(self.common.symbol_size())
    }

    /// Opens a receiving half. The peer's streams must be opened in the order of their indices. Returns false if there
    /// is no memory.
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

    /// Returns the next stream that the peer has opened and the application has not accepted: bidirectional streams
    /// first, in the order of opening.
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

    /// Records that the peer has stopped the stream's other half. That half has already been removed.
    pub(crate) fn note_reset(&mut self, id: StreamId) {
        if let Some(half) = self.halves.get_mut(id) {
            half.is_other_reset = true;
        }
    }

    /// Returns the next finished half, and true if the peer has reset the stream. Only data for answers is kept of such
    /// a half.
    pub(crate) fn take_gone(&mut self) -> Option<(StreamId, bool)> {
        self.gone.pop_front()
    }

    /// Frees unused queue memory after streams have gone.
    pub(crate) fn give_back_room(&mut self) {
        self.gone.give_back();
        self.events.give_back();
        self.naming.give_back_room();
        self.untold.give_back();
        self.ends.give_back_room();
    }

    /// Applies `act` to a half, and updates the sums over all halves.
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

    /// Releases a half that neither end needs any more, once its news has been reported. Stream 0 is kept as long as
    /// its session, whose closing reports it.
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

    // ---- received segments ----

    /// Processes a symbol. Returns true if it completes its block. A symbol of a stream that is no longer kept counts
    /// as late, and is answered.
    ///
    /// # Errors
    /// If there is no room for the symbol, or if it contradicts earlier segments.
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
        // Report also after refused and late symbols, since the sender needs the news. This keeps the half even if the
        // symbol has finished it.
        self.naming.on_news(id, half);
        if half.stream.is_finished() {
            self.ends.on_ended(id);
        }
        if half.stream.is_readable() {
            half.on_readable(id, &mut self.events);
        }
        taken
    }

    /// Processes a FIN that ends the stream before block `end`. The session acknowledges stream 0's FIN together with
    /// its own.
    ///
    /// # Errors
    /// If the stream is known to have another end.
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

    /// Processes a reset of the stream before block `end`.
    ///
    /// # Errors
    /// If the stream is known to have another end, or more blocks.
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

    /// Processes the peer's request for a record of the stream.
    pub(crate) fn on_question(&mut self, id: StreamId) {
        match self.halves.get(id) {
            Some(half) if !half.stream.is_reset() => self.on_news(id),
            Some(_) | None => self.ends.owe(id),
        }
    }

    /// Counts a symbol for whose stream there was no memory.
    pub(crate) fn count_refused(&mut self) {
        self.common.symbols.refused += 1;
    }

    /// Counts a symbol that the network has delivered twice.
    pub(crate) fn count_duplicate(&mut self) {
        self.common.symbols.duplicate += 1;
    }

    // ---- reports and answers to the peer ----

    /// Returns the next acknowledgement or request about a stream.
    pub(crate) fn next_answer(&mut self, now: Time) -> Option<Ack> {
        let halves = &self.halves;
        self.ends.next(now, |id| halves.get(id))
    }

    /// Time at which [`next_answer`](Self::next_answer) returns something. A time in the past means now.
    pub(crate) fn answer_at(&self) -> Option<Time> {
        self.ends.next_timeout()
    }

    /// Returns true while reports owe the peer news of a stream, even if nothing arrives.
    pub(crate) fn owes_naming(&self) -> bool {
        self.naming.is_owing()
    }

    /// Writes a report's records: first the lowest unseen indices of the peer's streams, if it may open any, then the
    /// streams to be named.
    pub(crate) fn write_records(&mut self, writer: &mut ReportWriter<'_>, unseen: StreamLimits) {
        // A report always has room for this record.
        let _is_written = self.permits_streams && writer.unseen(unseen);
        self.told_memory_bytes = self.common.memory.told_bytes();
        self.own_news = OwnNews::None;
        self.naming.write(&mut self.halves, writer, &mut self.untold);
        while let Some(id) = self.naming.take_told() {
            self.settle(id);
        }
    }

    /// Returns true if the application's reading has freed a quarter of the window, in bytes or blocks, beyond what the
    /// peer was told. Returns true once per report (\[report-3\]).
    pub(crate) fn has_room_to_tell(&mut self) -> bool {
        let is_fresh = self.own_news == OwnNews::Fresh;
        if is_fresh {
            self.own_news = OwnNews::Known;
        }
        is_fresh
    }

    // ---- calls of the application ----

    /// Copies received bytes of a stream, in order, into `out`.
    ///
    /// # Errors
    /// The peer's [`Reset`](StreamError::Reset), once. After that, after the end, and for streams not received here:
    /// [`StreamError::Ended`].
    pub(crate) fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Read, StreamError> {
        let half = self.halves.get_mut(id).ok_or(StreamError::Ended)?;
        if half.stream.is_end_told() {
            return Err(StreamError::Ended);
        }
        // The usual result for an application that polls.
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

    /// Checks if reading has freed enough for a report: a quarter of the memory beyond the amount reported to the peer,
    /// or enough blocks of the stream that was read. The peer may be waiting for room.
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
        // Report all streams with unreported reading, since the peer may wait for any of them.
        for id in self.untold.streams() {
            if let Some(half) = self.halves.get_mut(id) {
                self.naming.on_news(id, half);
            }
        }
    }

    /// Requests the end of a stream's half from the peer, repeatedly until it ends. Data received before and after is
    /// discarded.
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

    /// Returns the next event. An event is queued at most once at a time.
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

    // ---- queries ----

    /// Returns true if [`read`](Self::read) would return something other than `Blocked`.
    pub(crate) fn is_readable(&self, id: StreamId) -> bool {
        self.halves.get(id).is_none_or(|half| {
            let half = &half.stream;
            half.is_readable() || half.is_drained() || half.is_reset() || half.is_stopped()
        })
    }

    /// Returns true if the stream's receiving half is still kept.
    pub(crate) fn has(&self, id: StreamId) -> bool {
        self.halves.get(id).is_some()
    }

    /// Returns true once all of stream 0 is decoded.
    pub(crate) fn is_first_finished(&self) -> bool {
        self.halves.get(StreamId::FIRST).is_some_and(|half| half.stream.is_finished())
    }

    /// Proof of all blocks of stream 0 before the one needed next.
    pub(crate) fn first_proof(&self) -> u32 {
        self.halves.get(StreamId::FIRST).map_or(0, |half| half.stream.proof())
    }

    /// Returns true while any block of any stream is known to lack symbols.
    pub(crate) fn has_open_blocks(&self) -> bool {
        self.open_halves > 0
    }

    /// Counts of wasted symbols, as told in reports.
    pub(crate) fn wasted(&self) -> Wasted {
        let ReceivedSymbols { dependent, late, refused, .. } = self.common.symbols;
        Wasted { dependent: dependent as u32, late: late as u32, refused: refused as u32 }
    }

    pub(crate) fn symbols(&self) -> ReceivedSymbols {
        self.common.symbols
    }

    /// Statistics of a receiving half. Zeros if it is not kept.
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

/// A half's contribution to the sums over all halves: open halves, unreported bytes, delivered bytes.
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

    /// Updates the sums after the half may have changed. Most symbols change none of them.
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

/// Returns the field for one kind of streams.
const fn of_kind(limits: &mut StreamLimits, kind: StreamKind) -> &mut u32 {
    match kind {
        StreamKind::Bidirectional => &mut limits.bidirectional,
        StreamKind::OneWay => &mut limits.one_way,
    }
}

#[cfg(debug_assertions)]
impl RecvSide {
    /// The first inconsistency in lists and sums. `None` if they are correct.
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
    /// Number of visits to halves so far.
    pub(crate) fn visits(&self) -> u64 {
        self.halves.visits.get()
    }
}

#[cfg(test)]
mod tests;
