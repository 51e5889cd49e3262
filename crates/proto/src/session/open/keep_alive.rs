//! Times at which this side asks to be answered, though it has nothing to send (`spec/protocol.md` §9).

use std::time::Duration;

use dfcp_time::Time;

use crate::config::Config;
use crate::limits::{KEEP_ALIVE_MIN, KEEP_ALIVE_REPEAT};
use crate::session::common::Common;
use crate::shared::earlier;

/// Interval at which a sender whose window is closed asks if it still is.
const WINDOW_PROBE: Duration = Duration::from_secs(1);
/// The least silence after which a receiver asks for the rest of a block.
const MISSING_MIN: Duration = Duration::from_millis(200);
/// The same for news of a path on which no message seems to be in time: at least this, and the round trip.
const PATH_PROBE_MIN: Duration = Duration::from_millis(20);

/// Keep-alives of an open session.
#[derive(Debug)]
pub(super) struct KeepAlive {
    /// The configured silence before we speak, or what the peer needs.
    interval: Option<Duration>,
    last: Time,
    /// The peer is to hear from our new address at once.
    is_owed: bool,
}

impl KeepAlive {
    /// For a session that began at `began_at`, with a peer that gives up after a silence of `peer_idle_timeout`.
    pub(super) fn new(config: &Config, began_at: Time, peer_idle_timeout: Option<Duration>) -> Self {
        // A peer which gives up sooner than we would speak must hear of us in time ([idle-3]).
        let interval = config.keep_alive.map(|interval| match peer_idle_timeout {
            Some(idle) => interval.min(idle / 3).max(KEEP_ALIVE_MIN),
            None => interval,
        });
        Self { interval, last: began_at, is_owed: false }
    }

    /// The peer is to hear from this side's new address.
    pub(super) fn owe(&mut self) {
        self.is_owed = true;
    }

    /// One leaves.
    pub(super) fn on_sent(&mut self, now: Time) {
        (self.last, self.is_owed) = (now, false);
    }

    /// Time of the next one.
    pub(super) fn due_at(&self, common: &Common) -> Option<Time> {
        if self.is_owed {
            return Some(Time::ZERO);
        }
        let srtt = common.path().rtt().smoothed();
        let regular = self.interval.map(|interval| {
            if self.last <= common.last_heard {
                return common.last_sent + interval;
            }
            // Three unanswered ones in an idle timeout are no rarity at 50 % loss ([idle-2]).
            self.last + interval.min(KEEP_ALIVE_REPEAT.max(srtt * 2))
        });
        // The report which opens a closed window, or permits a stream, may have been lost: ask for another ([silence-5]).
        let asks = common.streams.send.stuck().is_some() || common.streams.wants_more();
        let regular = earlier(regular, asks.then_some(self.last + WINDOW_PROBE));
        let lacks = common.streams.recv.has_open_blocks();
        let regular = earlier(regular, lacks.then(|| self.missing_at(common.last_heard, srtt)));
        // An estimate forbids sending, and nothing else would correct it ([message-14]).
        if common.messages.as_ref().is_some_and(|messages| messages.send.is_hopeless()) {
            return earlier(regular, Some(self.last + srtt.max(PATH_PROBE_MIN)));
        }
        regular
    }

    /// Time to ask for what this side lacks. A NAT that has given it another port lets nothing in until the peer has heard of that
    /// ([idle-2]).
    fn missing_at(&self, last_heard: Time, srtt: Duration) -> Time {
        let wait = MISSING_MIN.max(srtt * 4);
        let asked = self.last.max(last_heard);
        asked + wait.max(asked.since(last_heard) / 4).min(WINDOW_PROBE.max(wait))
    }
}
