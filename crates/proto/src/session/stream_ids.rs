//! Streams that a session has opened and may open, at both ends: credit and directions, and nothing of what is in the streams.

use std::ops::Range;
use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::{Opener, StreamId, StreamKind, StreamLimits};

use crate::error::PeerMisbehaved;
use crate::limits::{STREAM_RESETS_BURST, STREAM_RESETS_PER_S};
use crate::shared::Role;
use crate::shared::bucket::Bucket;

/// The last index that an id has room for.
const STREAM_INDEX_MAX: u32 = (1 << 30) - 1;

const RESET_INTERVAL: Duration = Duration::from_micros(1_000_000 / STREAM_RESETS_PER_S as u64);

/// The meaning of an id which the peer has named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// The stream has been opened before, and may be gone.
    Known,
    /// It opens the streams of its kind with these indices, of which it is the last.
    Opens(Range<u32>),
}

/// The streams of one kind which one side opens.
#[derive(Clone, Copy, Debug)]
struct Credit {
    /// The index of the first one that costs credit.
    first: u32,
    /// The first index not opened yet.
    next: u32,
    /// Streams that may have been opened until now; never falls.
    permitted: u32,
}

impl Credit {
    fn new(first: u32, permitted: u32) -> Self {
        let mut credit = Self { first, next: first, permitted: 0 };
        credit.raise(permitted);
        credit
    }

    /// Permits as many, as far as there are ids, if it is more than before.
    fn raise(&mut self, permitted: u32) {
        self.permitted = self.permitted.max(permitted.min(STREAM_INDEX_MAX + 1 - self.first));
    }

    fn permits(&self, index: u32) -> bool {
        index < self.first + self.permitted
    }
}

/// The two kinds of streams which one side opens.
#[derive(Clone, Copy, Debug)]
struct Credits {
    bidirectional: Credit,
    one_way: Credit,
}

impl Credits {
    /// Stream 0 is open from the beginning and costs nothing.
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

/// The ids of a session's streams. An id opens all below it of its kind, so one number tells which are open or gone.
#[derive(Debug)]
pub(crate) struct StreamIds {
    us: Opener,
    ours: Credits,
    theirs: Credits,
    /// Bound on the rate at which reset streams give credit back: the excess is held back.
    resets: Bucket,
    held_back: StreamLimits,
    /// Streams that the peer may have opened, as it was told last.
    told: StreamLimits,
}

impl StreamIds {
    /// The peer may open as many as `granted` from the beginning; how many we may open is not known yet.
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

    /// As many streams of ours the peer permits in all. A smaller number than before is an older one, or a lie which
    /// changes nothing. Returns whether these are more.
    pub(crate) fn on_peer_limits(&mut self, limits: StreamLimits) -> bool {
        let Credits { bidirectional, one_way } = self.ours;
        self.ours.bidirectional.raise(limits.bidirectional);
        self.ours.one_way.raise(limits.one_way);
        bidirectional.permitted < self.ours.bidirectional.permitted || one_way.permitted < self.ours.one_way.permitted
    }

    /// True if the peer takes streams of this kind at all. A peer which permits none in the handshake never does: credit is given back
    /// only for streams that have been open.
    pub(crate) fn takes(&self, kind: StreamKind) -> bool {
        self.ours.of(kind).permitted > 0
    }

    /// The next stream of ours, if the peer permits one.
    pub(crate) fn open(&mut self, kind: StreamKind) -> Option<StreamId> {
        let credit = self.ours.of_mut(kind);
        let index = credit.next;
        let id = StreamId::new(self.us, kind, index).filter(|_| credit.permits(index))?;
        credit.next += 1;
        Some(id)
    }

    /// The stream of ours which was opened last is none after all: the peer has not been told of it.
    pub(crate) fn close_unused(&mut self, kind: StreamKind) {
        let credit = self.ours.of_mut(kind);
        credit.next = credit.next.saturating_sub(1).max(credit.first);
    }

    /// The peer has named `id`. What that opens counts as opened (\[stream-8\]).
    ///
    /// # Errors
    /// If the peer may not open it, or if it is ours and not open.
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

    /// There was no room for the peer's stream `id`, nor for those after it of its kind: they count as never seen (\[stream-10\]).
    pub(crate) fn unsee(&mut self, id: StreamId) {
        let credit = self.theirs.of_mut(id.kind());
        credit.next = credit.next.min(id.index()).max(credit.first);
    }

    pub(crate) fn is_ours(&self, id: StreamId) -> bool {
        id.opener() == self.us
    }

    /// True if the stream has the direction from the peer to us.
    pub(crate) fn peer_may_send(&self, id: StreamId) -> bool {
        id.kind() == StreamKind::Bidirectional || !self.is_ours(id)
    }

    /// True if the stream has the direction from us to the peer.
    pub(crate) fn we_may_send(&self, id: StreamId) -> bool {
        id.kind() == StreamKind::Bidirectional || self.is_ours(id)
    }

    /// Streams of each kind that the peer may have opened until `now` (\[stream-9\]), to tell it. Gives back what was held back for as
    /// long as it had to be.
    pub(crate) fn granted(&mut self, now: Time) -> StreamLimits {
        self.give_back(now);
        self.told = self.theirs.permitted();
        self.told
    }

    /// Time to tell the peer, which has used up what it was told, of more (\[end-4\]); a time in the past means now. A peer that has
    /// credit left learns of more when it uses that.
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

    /// Gives back what was held back, as far as it may be.
    fn give_back(&mut self, now: Time) {
        while self.held_back != StreamLimits::default()
            && self.resets.has_token(now, RESET_INTERVAL, STREAM_RESETS_BURST)
        {
            self.resets.take(now, RESET_INTERVAL);
            // Of the kind of which more wait: neither keeps the other back for ever.
            let (kind, held_back) = if self.held_back.bidirectional >= self.held_back.one_way {
                (StreamKind::Bidirectional, &mut self.held_back.bidirectional)
            } else {
                (StreamKind::OneWay, &mut self.held_back.one_way)
            };
            *held_back -= 1;
            self.grant_one(kind);
        }
    }

    /// The first index of each of the peer's kinds which it has never named.
    pub(crate) fn unseen(&self) -> StreamLimits {
        let Credits { bidirectional, one_way } = self.theirs;
        StreamLimits { bidirectional: bidirectional.next, one_way: one_way.next }
    }

    /// Nothing of a stream is left at this end: it has been read or given up, and what we sent is acknowledged. If the peer
    /// opened it, it may open another one, after a `reset` perhaps later (\[end-4\]).
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
