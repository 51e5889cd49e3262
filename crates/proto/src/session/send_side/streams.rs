//! The application's calls on the sending halves of streams, and the peer's segments about their ends.

use dfcp_time::Time;
use dfcp_wire::StreamId;

use super::{Priority, SendSide};
use crate::config::{SendBuffering, Traffic};
use crate::error::PeerMisbehaved;
use crate::limits::{self, PEER_QUEUE_DATAGRAMS_MIN};
use crate::path::Path;
use crate::shared::room::Room;
use crate::spare::SpareBlocks;
use crate::stats::StreamStats;
use crate::stream::send::counters::SendCounters;
use crate::stream::send::write_turns::WriteAllowance;
use crate::stream::send::{Due, SendStream};

/// An event of a sending half (\[end-8\]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendEvent {
    /// The stream has room for writing again.
    Writable,
    /// The peer has all data, and has proven it.
    Finished,
    /// The peer wants no more data, for this reason given by its application.
    Stopped(u32),
    /// The sending half is no longer kept. Contains its final statistics.
    Gone(Box<StreamStats>),
}

impl SendSide {
    /// Opens the sending half of a stream.
    pub(crate) fn open(&mut self, id: StreamId) {
        self.streams.insert(id, SendStream::new(id, self.traffic, &self.shared));
        self.scheduler.add(id);
    }

    /// Returns true if the stream exists, or has ended and was not yet returned by [`take_gone`](Self::take_gone).
    pub(crate) fn has(&self, id: StreamId) -> bool {
        self.streams.get(id).is_some() || self.gone.iter().any(|&(gone, _)| gone == id)
    }

    /// Writes as much of `data` as there is room for. Returns `None` if the stream does not exist, or can no longer be
    /// written to.
    pub(crate) fn write(&mut self, now: Time, path: &Path, id: StreamId, data: &[u8]) -> Option<usize> {
        let stream = self.streams.get_mut(id).filter(|stream| !stream.is_shut_down())?;
        let taken = stream.write(now, data, path.flight(), &mut self.shared);
        if stream.has_more_to_come() && !std::mem::replace(&mut stream.listed_in.writers, true) {
            self.writers.push(id);
        }
        if taken > 0 {
            self.scheduler.wake(id);
        }
        Some(taken)
    }

    /// Sends all written bytes without waiting for a full block.
    pub(crate) fn flush(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.flush();
            self.scheduler.wake(id);
        }
    }

    /// Ends writing to the stream.
    pub(crate) fn shut_down(&mut self, now: Time, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.shut_down(now);
            self.scheduler.wake(id);
            self.note_timed(id);
        }
    }

    /// Returns true if nothing more can be written to the stream.
    pub(crate) fn is_shut_down(&self, id: StreamId) -> bool {
        self.streams.get(id).is_none_or(SendStream::is_shut_down)
    }

    /// Drops undelivered data, and sends `error` to the peer.
    pub(crate) fn reset(&mut self, now: Time, id: StreamId, error: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.reset(now, error, &mut self.shared);
            self.note_timed(id);
        }
    }

    /// Sets priority and share of a stream among the others.
    pub(crate) fn set_priority(&mut self, id: StreamId, priority: Priority) {
        self.scheduler.set_priority(id, priority);
    }

    /// Returns the next event for the application.
    pub(crate) fn poll_event(&mut self) -> Option<(StreamId, SendEvent)> {
        let event = self.events.pop_front();
        self.events.give_back();
        event
    }

    // ---- the peer's segments about ends ----

    /// Processes the acknowledgement of an end before block `end`, in the peer's datagram `number`. It contains the
    /// proof of all blocks.
    ///
    /// # Errors
    /// If the proof is wrong.
    pub(crate) fn on_end_acknowledged(
        &mut self,
        path: &mut Path,
        (id, end, proof): (StreamId, u32, u32),
        number: u64,
    ) -> Result<(), PeerMisbehaved> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(()) };
        if stream.on_end_acknowledged(end, proof, &mut self.shared)? {
            self.note_told(number);
            self.finish(id, path);
        }
        Ok(())
    }

    /// Processes the acknowledgement of our reset. `served` is the number of the stream's symbols that were useful to
    /// the peer.
    ///
    /// # Errors
    /// If `served` exceeds the symbols sent.
    pub(crate) fn on_reset_acknowledged(
        &mut self,
        path: &mut Path,
        (id, served): (StreamId, u32),
        number: u64,
    ) -> Result<(), PeerMisbehaved> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(()) };
        if stream.on_reset_acknowledged(served, &mut self.shared)? {
            self.note_told(number);
            self.remove(id, path);
        }
        Ok(())
    }

    /// Resets a stream of which the peer wants no more. Undelivered data is dropped.
    pub(crate) fn on_stopped(&mut self, now: Time, id: StreamId, error: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.on_peer_reset();
        if stream.is_reset() {
            return;
        }
        // The peer may have proven everything, and have stopped the stream only because it had not yet learned of the
        // end.
        let has_all = stream.is_drained() && stream.end().is_some();
        self.events.push_back((id, if has_all { SendEvent::Finished } else { SendEvent::Stopped(error) }));
        self.reset(now, id, error);
    }

    /// Removes a stream that the peer no longer knows. This does not prove that the peer has received its end.
    pub(crate) fn on_gone(&mut self, path: &mut Path, id: StreamId, number: u64) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let was_delivered = stream.is_drained() && stream.end().is_some();
        if !stream.is_reset() {
            let event = if was_delivered { SendEvent::Finished } else { SendEvent::Stopped(0) };
            self.events.push_back((id, event));
        }
        stream.on_gone(&mut self.shared);
        self.note_told(number);
        self.remove(id, path);
    }

    /// Finishes a stream of which the peer has everything.
    pub(super) fn finish(&mut self, id: StreamId, path: &mut Path) {
        if id != StreamId::FIRST {
            self.events.push_back((id, SendEvent::Finished));
            self.remove(id, path);
        }
        self.forget_if_idle(path);
    }

    fn remove(&mut self, id: StreamId, path: &mut Path) {
        let Some(mut stream) = self.streams.remove(id) else { return };
        stream.release(&mut self.shared);
        let by_reset = stream.is_peer_reset();
        self.events.push_back((id, SendEvent::Gone(Box::new(stream.stats()))));
        self.timed.list(id, &mut stream.listed_in.timed, Due::default());
        self.stuck.remove(&id);
        self.scheduler.remove(id);
        self.gone.push((id, by_reset));
        self.forget_if_idle(path);
        self.wake_stuck();
    }

    /// Wakes streams that wait for the window released by a stream that is gone. Without blocks in flight, no report
    /// would wake them. Waking some is enough: their data causes reports, and as long as a stream is stuck, keep-alives
    /// request reports.
    fn wake_stuck(&mut self) {
        if self.is_idle() {
            self.stuck.iter().take(limits::STREAMS_LOOKED_AT_MAX).for_each(|&id| self.scheduler.wake(id));
        }
    }

    /// Records that the peer has reset the stream's other half. That half has already been removed.
    pub(crate) fn note_reset(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.on_peer_reset();
        } else if let Some((_, by_reset)) = self.gone.iter_mut().find(|(gone, _)| *gone == id) {
            *by_reset = true;
        }
    }

    /// Returns the next stream whose sending half has ended, and true if the peer has reset or stopped the stream.
    pub(crate) fn take_gone(&mut self) -> Option<(StreamId, bool)> {
        self.gone.pop()
    }

    /// Frees unused queue memory after streams have gone.
    pub(crate) fn give_back_room(&mut self) {
        self.timed.give_back();
        self.writers.give_back();
        self.waiting.give_back();
        self.passed.give_back();
        self.gone.give_back();
        self.events.give_back();
    }

    /// Forgets datagrams in flight once all blocks are decoded. Otherwise a lost one could make the peer look silent
    /// when the next block is sent.
    pub(super) fn forget_if_idle(&self, path: &mut Path) {
        if self.is_idle() {
            path.forget_streams();
        }
    }

    /// Records that the peer's datagram `number` acknowledged something, so reports sent before it are stale.
    fn note_told(&mut self, number: u64) {
        self.told_by = self.told_by.max(Some(number));
    }

    // ---- the first stream, whose end is the session's end ----

    /// Id after the last block of the first stream, once it is known.
    pub(crate) fn first_end(&self) -> Option<u32> {
        self.streams.get(StreamId::FIRST)?.end()
    }

    /// Checks the proof of an acknowledged end of the first stream. With `Some(end)`, only an acknowledgement of our
    /// end counts.
    ///
    /// # Errors
    /// If the proof is wrong.
    pub(crate) fn check_first_end(&self, end: Option<u32>, proof: u32) -> Result<(), PeerMisbehaved> {
        self.streams.get(StreamId::FIRST).map_or(Ok(()), |first| first.check_end(end, proof))
    }

    /// Finishes the first stream. The report that acknowledges its last blocks may still be in flight, or lost.
    pub(crate) fn on_first_finished(&mut self, path: &mut Path, number: u64) {
        if let Some(first) = self.streams.get_mut(StreamId::FIRST) {
            first.on_finished(&mut self.shared);
        }
        self.events.push_back((StreamId::FIRST, SendEvent::Finished));
        self.note_told(number);
        self.forget_if_idle(path);
    }

    /// Returns true if every other stream has ended.
    pub(crate) fn is_only_first(&self) -> bool {
        self.streams.len() == 1
    }

    // ---- all streams together ----

    /// Returns true if no block is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.blocks_open == 0
    }

    /// Returns true if everything written so far has been acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.shared.busy_streams == 0
    }

    /// Returns true if a stream has used all its block ids.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Returns a stream that waits for window while nothing is in flight, so that no report is expected.
    pub(crate) fn stuck(&self) -> Option<StreamId> {
        if self.stuck.is_empty() {
            return None;
        }
        let stuck = |id: &&StreamId| self.streams.get(**id).is_some_and(|it| it.is_stuck(&self.shared));
        self.stuck.iter().take(limits::STREAMS_LOOKED_AT_MAX).find(stuck).copied()
    }

    /// Number of blocks that the peer has not acknowledged.
    pub(crate) fn open_blocks(&self) -> usize {
        self.streams.iter().map(|(_, stream)| stream.open_blocks()).sum()
    }

    /// Statistics of a stream. Zeros if it is not kept.
    pub(crate) fn stats_of(&self, id: StreamId) -> StreamStats {
        self.streams.get(id).map(SendStream::stats).unwrap_or_default()
    }

    pub(crate) fn counters(&self) -> &SendCounters {
        &self.shared.counters
    }

    /// Updates the times for which a stream waits.
    pub(super) fn note_timed(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            let due = stream.due(&self.shared);
            self.timed.list(id, &mut stream.listed_in.timed, due);
        }
    }

    /// Notifies the writer of a stream once after there is room again.
    pub(super) fn tell_if_writable(&mut self, id: StreamId, path: &Path) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.wakes_writer(path.flight(), &self.shared) {
            self.events.push_back((id, SendEvent::Writable));
        }
    }

    /// Like [`tell_if_writable`](Self::tell_if_writable), for all listed writers, in the order of stream ids.
    pub(crate) fn wake_writers(&mut self, path: &Path) {
        let mut writers = std::mem::take(&mut self.writers);
        writers.sort_unstable();
        writers.retain(|&id| {
            self.tell_if_writable(id, path);
            self.streams.get_mut(id).is_some_and(|stream| {
                stream.listed_in.writers = stream.has_more_to_come();
                stream.listed_in.writers
            })
        });
        self.writers = writers;
    }

    /// Takes memory for blocks from `spare`.
    pub(crate) fn take_from(&mut self, spare: SpareBlocks) {
        self.shared.spare = spare;
        for (_, stream) in self.streams.iter_mut() {
            stream.take_from_shared(&self.shared);
        }
    }

    pub(crate) fn set_traffic(&mut self, traffic: Traffic) {
        self.traffic = traffic;
        self.streams.iter_mut().for_each(|(_, stream)| stream.set_traffic(traffic));
    }

    #[cfg(feature = "classic")]
    pub(crate) fn set_window_blocks(&mut self, window_blocks: u32) {
        self.shared.window_blocks = window_blocks;
    }

    pub(crate) fn set_send_buffering(&mut self, send_buffering: SendBuffering) {
        self.shared.send_buffering = send_buffering;
    }

    pub(crate) fn allow(&mut self, allowance: WriteAllowance) {
        self.shared.allowance = allowance;
    }

    /// Returns true if the allowance is used up, or if no writer has more data.
    pub(crate) fn has_used_allowance(&self) -> bool {
        self.shared.allowance == WriteAllowance::Bytes(0)
            || !self.unfinished_writers().any(SendStream::has_more_to_come)
    }

    /// Returns true if an application waits to write to a stream whose window permits a new block.
    pub(crate) fn is_writer_held_up(&self) -> bool {
        self.unfinished_writers().any(|stream| stream.is_write_blocked() && stream.next_fits(&self.shared))
    }

    /// Returns some of the streams whose writers had more data at their last call. Enough to find out if there are any.
    fn unfinished_writers(&self) -> impl Iterator<Item = &SendStream> {
        self.writers.iter().take(limits::STREAMS_LOOKED_AT_MAX).filter_map(|&id| self.streams.get(id))
    }

    /// Number of blocks that a report may describe, and of streams that it may wake.
    pub(crate) fn items_under_way(&self) -> usize {
        self.shared.blocks_open + self.waiting.len() + self.writers.len()
    }

    /// Returns true if more than [`PEER_QUEUE_DATAGRAMS_MIN`] datagrams are in flight, or wait to be sent within the
    /// windows.
    pub(crate) fn is_under_way(&self, path: &Path) -> bool {
        let least = PEER_QUEUE_DATAGRAMS_MIN as u64;
        let mut datagrams = path.flight().len() as u64;
        // Streams with data have a turn, or wait for a report. Visiting some of many streams is enough.
        let with_turns = self.scheduler.streams().take(limits::STREAMS_LOOKED_AT_MAX);
        let waiting = self.waiting.iter().copied().filter(|&id| !self.scheduler.has_turn(id));
        for id in with_turns.chain(waiting.take(limits::STREAMS_LOOKED_AT_MAX)) {
            if datagrams > least {
                break;
            }
            let waiting = self.streams.get(id).map(|it| it.waiting_datagrams(least - datagrams, &self.shared));
            datagrams += waiting.unwrap_or_default();
        }
        datagrams > least
    }
}
