//! Schedule of keep-alives: segments that request an answer while there is no data to send (`spec/protocol.md` §9).

use std::time::Duration;

use dfcp_time::Time;

use crate::config::Config;
use crate::limits::{KEEP_ALIVE_MIN, KEEP_ALIVE_REPEAT};
use crate::session::common::Common;
use crate::shared::earlier;

/// Interval of keep-alives while the peer's window is closed to our sender.
const WINDOW_PROBE: Duration = Duration::from_secs(1);
/// Minimum silence after which a receiver sends a keep-alive to request the rest of a block.
const MISSING_MIN: Duration = Duration::from_millis(200);
/// Minimum interval of keep-alives on a path that seems to deliver no message in time. The smoothed RTT, if longer.
const PATH_PROBE_MIN: Duration = Duration::from_millis(20);

/// Keep-alives of an open session.
#[derive(Debug)]
pub(super) struct KeepAlive {
    /// Silence after which a keep-alive is sent: the configured time, or less if the peer's idle timeout requires it.
    /// `None` if keep-alives are off.
    interval: Option<Duration>,
    last: Time,
    /// A keep-alive must be sent immediately from our new address.
    is_owed: bool,
}

impl KeepAlive {
    /// Creates the schedule of a session that began at `began_at`. The peer gives up after a silence of
    /// `peer_idle_timeout`.
    pub(super) fn new(config: &Config, began_at: Time, peer_idle_timeout: Option<Duration>) -> Self {
        // The peer must get a keep-alive before its idle timeout ends ([idle-3]).
        let interval = config.keep_alive.map(|interval| match peer_idle_timeout {
            Some(idle) => interval.min(idle / 3).max(KEEP_ALIVE_MIN),
            None => interval,
        });
        Self { interval, last: began_at, is_owed: false }
    }

    /// Requests an immediate keep-alive from our new address.
    pub(super) fn owe(&mut self) {
        self.is_owed = true;
    }

    /// Records that a keep-alive is sent.
    pub(super) fn on_sent(&mut self, now: Time) {
        (self.last, self.is_owed) = (now, false);
    }

    /// Time of the next keep-alive.
    pub(super) fn due_at(&self, common: &Common) -> Option<Time> {
        if self.is_owed {
            return Some(Time::ZERO);
        }
        let srtt = common.path().rtt().smoothed();
        let regular = self.interval.map(|interval| {
            if self.last <= common.last_heard {
                return common.last_sent + interval;
            }
            // Repeat unanswered keep-alives sooner: at 50 % loss, three losses within an idle timeout are not rare
            // ([idle-2]).
            self.last + interval.min(KEEP_ALIVE_REPEAT.max(srtt * 2))
        });
        // The report that opens a closed window or permits a stream may have been lost: request another one
        // ([silence-5]).
        let asks = common.streams.send.stuck().is_some() || common.streams.wants_more();
        let regular = earlier(regular, asks.then_some(self.last + WINDOW_PROBE));
        let lacks = common.streams.recv.has_open_blocks();
        let regular = earlier(regular, lacks.then(|| self.missing_at(common.last_heard, srtt)));
        // The path estimate forbids sending messages, and only a report can correct it ([message-14]).
        if common.messages.as_ref().is_some_and(|messages| messages.send.is_hopeless()) {
            return earlier(regular, Some(self.last + srtt.max(PATH_PROBE_MIN)));
        }
        regular
    }

    /// Time to request missing data. A NAT may have given this side another port: it then blocks the peer's datagrams
    /// until the peer has received one from that port ([idle-2]).
    fn missing_at(&self, last_heard: Time, srtt: Duration) -> Time {
        let wait = MISSING_MIN.max(srtt * 4);
        let asked = self.last.max(last_heard);
        asked + wait.max(asked.since(last_heard) / 4).min(WINDOW_PROBE.max(wait))
    }
}
