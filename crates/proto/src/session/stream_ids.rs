//! Ids of the streams that each end of a session has opened and may open: stream credit and directions, without stream
//! contents.

use std::ops::Range;
use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::{Opener, StreamId, StreamKind, StreamLimits};

use crate::error::PeerMisbehaved;
use crate::limits::{STREAM_RESETS_BURST, STREAM_RESETS_PER_S};
use crate::shared::Role;
use crate::shared::bucket::Bucket;

/// Largest stream index that an id can hold.
const STREAM_INDEX_MAX: u32 = (1 << 30) - 1;

const RESET_INTERVAL: Duration = Duration::from_micros(1_000_000 / STREAM_RESETS_PER_S as u64);

/// The effect of a stream id that the peer has named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// The stream was opened before, and may be gone.
    Known,
    /// The id opens the streams of its kind with these indices. The last index is its own.
    Opens(Range<u32>),
}

/// Credit for streams of one kind that one side opens.
#[derive(Clone, Copy, Debug)]
struct Credit {
    /// Index of the first stream that costs credit.
    first: u32,
    /// Index of the next stream to be opened.
    next: u32,
    /// Total number of streams permitted so far. Never decreases.
    permitted: u32,
}

impl Credit {
    fn new(first: u32, permitted: u32) -> Self {
        let mut credit = Self { first, next: first, permitted: 0 };
        credit.raise(permitted);
        credit
    }

    /// Raises the total to `permitted`, limited by the number of ids. A smaller total has no effect.
    fn raise(&mut self, permitted: u32) {
        self.permitted = self.permitted.max(permitted.min(STREAM_INDEX_MAX + 1 - self.first));
    }

    fn permits(&self, index: u32) -> bool {
        index < self.first + self.permitted
    }
}

/// Credit for both kinds of streams that one side opens.
#[derive(Clone, Copy, Debug)]
struct Credits {
    bidirectional: Credit,
    one_way: Credit,
}

impl Credits {
    /// Creates the credit. Stream 0 is open from the beginning and costs no credit.
    fn new(opener: Opener, limits: StreamLimits) -> Self {
        let first = u32::from(opener == Opener::Initiator);
        Self { bidirectional: Credit::new(first, limits.bidirectional), one_way: Credit::new(0, limits.one_way) }
    }

    const fn permitted(&self) -> StreamLimits {
        StreamLimits { bidirectional: self.bidirectional.permitted, one_way: self.one_way.permitted }
    }

    const fn of(&self, kind: StreamKind) -> &Credit {
        match kind {
            StreamKind::Bidirectional => &self.bidirectional,
            StreamKind::OneWay => &self.one_way,
        }
    }

    const fn of_mut(&mut self, kind: StreamKind) -> &mut Credit {
        match kind {
            StreamKind::Bidirectional => &mut self.bidirectional,
            StreamKind::OneWay => &mut self.one_way,
        }
    }
}

/// Ids of a session's streams. An id opens all lower ids of its kind, so one number per kind describes all streams that
/// are open or gone.
#[derive(Debug)]
pub(crate) struct StreamIds {
    us: Opener,
    ours: Credits,
    theirs: Credits,
    /// Limits the rate at which reset streams return credit. Credit above this rate is held back.
    resets: Bucket,
    held_back: StreamLimits,
    /// Total numbers of streams that the peer may open, as last reported to it.
    told: StreamLimits,
}

impl StreamIds {
    /// The peer may open `granted` streams from the beginning. The peer's limit for our streams is not known yet.
    pub(crate) fn new(role: Role, granted: StreamLimits) -> Self {
        let (us, peer) = match role {
            Role::Initiator => (Opener::Initiator, Opener::Acceptor),
            Role::Acceptor => (Opener::Acceptor, Opener::Initiator),
        };
        let theirs = Credits::new(peer, granted);
        Self {
            us,
            ours: Credits::new(us, StreamLimits::default()),
            theirs,
            resets: Bucket::default(),
            held_back: StreamLimits::default(),
            told: theirs.permitted(),
        }
    }

    /// Applies the peer's limits: the total number of streams that it permits us. Smaller numbers than before are
    /// outdated or lies, and have no effect. Returns true if a limit has grown.
    pub(crate) fn on_peer_limits(&mut self, limits: StreamLimits) -> bool {
        let Credits { bidirectional, one_way } = self.ours;
        self.ours.bidirectional.raise(limits.bidirectional);
        self.ours.one_way.raise(limits.one_way);
        bidirectional.permitted < self.ours.bidirectional.permitted || one_way.permitted < self.ours.one_way.permitted
    }

    /// Returns true if the peer ever permits streams of this kind. A peer that permits none in the handshake never
    /// will, since only closed streams return credit.
    pub(crate) fn takes(&self, kind: StreamKind) -> bool {
        self.ours.of(kind).permitted > 0
    }

    /// Opens our next stream of this kind. Returns `None` without credit.
    pub(crate) fn open(&mut self, kind: StreamKind) -> Option<StreamId> {
        let credit = self.ours.of_mut(kind);
        let index = credit.next;
        let id = StreamId::new(self.us, kind, index).filter(|_| credit.permits(index))?;
        credit.next += 1;
        Some(id)
    }

    /// Takes back our latest stream of this kind. The peer must not have seen it yet.
    pub(crate) fn close_unused(&mut self, kind: StreamKind) {
        let credit = self.ours.of_mut(kind);
        credit.next = credit.next.saturating_sub(1).max(credit.first);
    }

    /// Records that the peer has named `id`, which may open streams (\[stream-8\]).
    ///
    /// # Errors
    /// If the peer may not open this stream, or if only we may open it and have not.
    pub(crate) fn see(&mut self, id: StreamId) -> Result<Seen, PeerMisbehaved> {
        let (kind, index) = (id.kind(), id.index());
        if self.is_ours(id) {
            let is_open = id == StreamId::FIRST || index < self.ours.of(kind).next;
            return if is_open {
                Ok(Seen::Known)
            } else {
                Err(PeerMisbehaved::StreamNotOpened { stream: id.to_word() })
            };
        }
        let credit = self.theirs.of_mut(kind);
        if index < credit.next {
            return Ok(Seen::Known);
        }
        if !credit.permits(index) {
            let permitted = credit.permitted;
            return Err(PeerMisbehaved::StreamBeyondCredit { stream: id.to_word(), permitted });
        }
        let opened = credit.next..index + 1;
        credit.next = opened.end;
        Ok(Seen::Opens(opened))
    }

    /// Takes back the peer's stream `id` and all later ones of its kind, for which there was no room. They count as
    /// never named (\[stream-10\]).
    pub(crate) fn unsee(&mut self, id: StreamId) {
        let credit = self.theirs.of_mut(id.kind());
        credit.next = credit.next.min(id.index()).max(credit.first);
    }

    pub(crate) fn is_ours(&self, id: StreamId) -> bool {
        id.opener() == self.us
    }

    /// Returns true if the peer may send on this stream.
    pub(crate) fn peer_may_send(&self, id: StreamId) -> bool {
        id.kind() == StreamKind::Bidirectional || !self.is_ours(id)
    }

    /// Returns true if we may send on this stream.
    pub(crate) fn we_may_send(&self, id: StreamId) -> bool {
        id.kind() == StreamKind::Bidirectional || self.is_ours(id)
    }

    /// Returns the total numbers of streams that the peer may have opened until `now` (\[stream-9\]), and records them
    /// as reported. Includes held-back credit whose waiting time is over.
    pub(crate) fn granted(&mut self, now: Time) -> StreamLimits {
        self.give_back(now);
        self.told = self.theirs.permitted();
        self.told
    }

    /// Returns the time to report more credit to a peer that has used up the reported credit (\[end-4\]). A time in the
    /// past means now. A peer with credit left gets the report when it uses that credit.
    pub(crate) fn credit_at(&self) -> Option<Time> {
        let is_awaited = |kind, held_back: u32, told: u32| {
            let credit = self.theirs.of(kind);
            held_back > 0 && credit.next >= credit.first + told
        };
        let (held_back, told) = (self.held_back, self.told);
        let is_any = is_awaited(StreamKind::Bidirectional, held_back.bidirectional, told.bidirectional)
            || is_awaited(StreamKind::OneWay, held_back.one_way, told.one_way);
        is_any.then(|| self.resets.token_at(RESET_INTERVAL, STREAM_RESETS_BURST))
    }

    /// Returns held-back credit, as far as the rate limit permits.
    fn give_back(&mut self, now: Time) {
        while self.held_back != StreamLimits::default()
            && self.resets.has_token(now, RESET_INTERVAL, STREAM_RESETS_BURST)
        {
            self.resets.take(now, RESET_INTERVAL);
            // Take from the kind with more held-back streams, so that neither kind starves.
            let (kind, held_back) = if self.held_back.bidirectional >= self.held_back.one_way {
                (StreamKind::Bidirectional, &mut self.held_back.bidirectional)
            } else {
                (StreamKind::OneWay, &mut self.held_back.one_way)
            };
            *held_back -= 1;
            self.grant_one(kind);
        }
    }

    /// For each kind, the first index of the peer that it has never named.
    pub(crate) fn unseen(&self) -> StreamLimits {
        let Credits { bidirectional, one_way } = self.theirs;
        StreamLimits { bidirectional: bidirectional.next, one_way: one_way.next }
    }

    /// Records that a stream is gone: received data has been read or discarded, and sent data is acknowledged. If the
    /// peer opened the stream, it may open another one; after a reset (`by_reset`) perhaps with a delay (\[end-4\]).
    pub(crate) fn on_gone(&mut self, now: Time, id: StreamId, by_reset: bool) {
        if self.is_ours(id) || id == StreamId::FIRST {
            return;
        }
        if !by_reset {
            return self.grant_one(id.kind());
        }
        match id.kind() {
            StreamKind::Bidirectional => self.held_back.bidirectional += 1,
            StreamKind::OneWay => self.held_back.one_way += 1,
        }
        self.give_back(now);
    }

    fn grant_one(&mut self, kind: StreamKind) {
        let credit = self.theirs.of_mut(kind);
        credit.raise(credit.permitted + 1);
    }
}

#[cfg(test)]
mod tests;
