//! Log of a session's streams.
//!
//! Either side may open and end thousands of streams in a second, each with a single datagram, so a line per stream
//! would be a line per datagram. Therefore level DEBUG has only sums, at most once per [`limits::STORY_INTERVAL`], and
//! before the session's totals. Level TRACE has a line for each event.

use dfcp_proto::{StreamId, StreamKind};
use dfcp_time::Time;

use super::{Name, TARGET, is_due};

/// Event of a stream. The numbers are codes chosen by the applications.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) enum StreamNews {
    OpenedHere,
    OpenedByPeer,
    /// The peer opened the stream, but the application accepts none.
    Refused,
    /// The peer has proven that it has every byte of this side.
    Delivered,
    /// The application has read all bytes of the peer.
    ReadToEnd,
    ResetHere(u32),
    ResetByPeer(u32),
    StoppedHere(u32),
    StoppedByPeer(u32),
}

impl StreamNews {
    fn text(self) -> &'static str {
        match self {
            Self::OpenedHere => "stream opened",
            Self::OpenedByPeer => "stream opened by the peer",
            Self::Refused => "stream of the peer refused: the application accepts none",
            Self::Delivered => "stream finished: the peer has all of it",
            Self::ReadToEnd => "stream read to its end",
            Self::ResetHere(_) => "stream reset",
            Self::ResetByPeer(_) => "stream reset by the peer",
            Self::StoppedHere(_) => "stream stopped: the peer is told to send no more",
            Self::StoppedByPeer(_) => "stream stopped by the peer, which wants no more of it",
        }
    }

    /// Returns true if this side has ended the stream early.
    pub(super) fn is_our_doing(self) -> bool {
        matches!(self, Self::ResetHere(_) | Self::StoppedHere(_))
    }

    fn code(self) -> Option<u32> {
        match self {
            Self::ResetHere(code) | Self::ResetByPeer(code) | Self::StoppedHere(code) | Self::StoppedByPeer(code) => {
                Some(code)
            }
            Self::OpenedHere | Self::OpenedByPeer | Self::Refused | Self::Delivered | Self::ReadToEnd => None,
        }
    }
}

/// Counters of stream events since the last line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    opened: u64,
    opened_by_peer: u64,
    refused: u64,
    delivered: u64,
    read_to_end: u64,
    reset: u64,
    reset_by_peer: u64,
    stopped: u64,
    stopped_by_peer: u64,
    /// Newest code from the peer's application.
    peer_code: Option<u32>,
    without_credit: u64,
}

impl Sums {
    fn add(&mut self, news: StreamNews) {
        let sum = match news {
            StreamNews::OpenedHere => &mut self.opened,
            StreamNews::OpenedByPeer => &mut self.opened_by_peer,
            StreamNews::Refused => &mut self.refused,
            StreamNews::Delivered => &mut self.delivered,
            StreamNews::ReadToEnd => &mut self.read_to_end,
            StreamNews::ResetHere(_) => &mut self.reset,
            StreamNews::StoppedHere(_) => &mut self.stopped,
            StreamNews::ResetByPeer(code) => {
                self.peer_code = Some(code);
                &mut self.reset_by_peer
            }
            StreamNews::StoppedByPeer(code) => {
                self.peer_code = Some(code);
                &mut self.stopped_by_peer
            }
        };
        *sum += 1;
    }
}

/// Log of a session's streams, with the sums since the last line.
#[derive(Debug, Default)]
pub(super) struct StreamStory {
    told_at: Option<Time>,
    news: Sums,
}

impl StreamStory {
    pub(super) fn on_news(&mut self, name: Name, id: StreamId, news: StreamNews) {
        self.news.add(news);
        let (stream, kind, code) = (id.to_word(), id.kind(), news.code());
        tracing::trace!(target: TARGET, connection = %name, stream, ?kind, code, "{}", news.text());
    }

    /// Counts a failed attempt to open a stream: the peer's limit is reached.
    pub(super) fn on_no_credit(&mut self, name: Name, kind: StreamKind) {
        self.news.without_credit += 1;
        tracing::trace!(target: TARGET, connection = %name, ?kind, "no stream opened: waits for the peer to permit more");
    }

    pub(super) fn tell_if_due(&mut self, name: Name, now: Time) {
        if self.told_at.is_none_or(|told_at| is_due(told_at, now)) {
            self.tell(name, now);
        }
    }

    /// Logs the sums that are not 0, and resets them.
    pub(super) fn tell(&mut self, name: Name, now: Time) {
        if self.news == Sums::default() {
            return;
        }
        let sums = std::mem::take(&mut self.news);
        self.told_at = Some(now);
        let if_any = |sum: u64| (sum > 0).then_some(sum);
        tracing::debug!(
            target: TARGET,
            connection = %name,
            opened = if_any(sums.opened),
            opened_by_peer = if_any(sums.opened_by_peer),
            refused = if_any(sums.refused),
            delivered = if_any(sums.delivered),
            read_to_end = if_any(sums.read_to_end),
            reset = if_any(sums.reset),
            reset_by_peer = if_any(sums.reset_by_peer),
            stopped = if_any(sums.stopped),
            stopped_by_peer = if_any(sums.stopped_by_peer),
            peer_code = sums.peer_code,
            without_credit = if_any(sums.without_credit),
            "streams"
        );
    }
}
