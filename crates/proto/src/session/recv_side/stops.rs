//! Requests to end streams, repeated until the peer complies (`spec/protocol.md` \[end-3\]).

use std::collections::{BTreeMap, BTreeSet};

use dfcp_time::Time;
use dfcp_wire::StreamId;
use dfcp_wire::segment::Ack;

use crate::shared::retransmit::{RetransmitSchedule, RetransmitTimer};

/// All pending requests, without a limit on their number. Also sorted by time, since the next due time is needed for
/// each datagram.
#[derive(Debug, Default)]
pub(super) struct Stops {
    by_id: BTreeMap<StreamId, Stop>,
    by_time: BTreeSet<(Time, StreamId)>,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    error: u32,
    timer: RetransmitTimer,
}

impl Stops {
    /// Adds a request to end a stream. Has no effect if there is one already.
    pub(super) fn ask(&mut self, now: Time, id: StreamId, error: u32) {
        if !self.by_id.contains_key(&id) {
            let timer = RetransmitTimer::start(now, &RetransmitSchedule::STOP_SENDING);
            self.by_time.insert((timer.next_at(), id));
            self.by_id.insert(id, Stop { error, timer });
        }
    }

    /// Cancels the request for a stream that has ended.
    pub(super) fn on_ended(&mut self, id: StreamId) {
        if let Some(stop) = self.by_id.remove(&id) {
            self.by_time.remove(&(stop.timer.next_at(), id));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Returns the next request to send.
    pub(super) fn next(&mut self, now: Time) -> Option<Ack> {
        let &(at, stream) = self.by_time.first().filter(|(at, _)| *at <= now)?;
        self.by_time.remove(&(at, stream));
        let stop = self.by_id.get_mut(&stream)?;
        stop.timer.on_sent(now);
        self.by_time.insert((stop.timer.next_at(), stream));
        Some(Ack::StopSending { stream, error: stop.error })
    }

    /// Time at which [`next`](Self::next) returns something.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.by_time.first().map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use dfcp_wire::{Opener, StreamKind};

    use super::*;

    #[test]
    fn each_is_asked_for_when_it_is_due_until_its_stream_has_ended() {
        let id = |index| StreamId::new(Opener::Initiator, StreamKind::OneWay, index).unwrap();
        let ms = Time::from_ms;
        let mut stops = Stops::default();
        assert_eq!((stops.next(ms(9)), stops.next_timeout()), (None, None));
        stops.ask(ms(10), id(5), 1);
        stops.ask(ms(20), id(3), 2);
        stops.ask(ms(30), id(5), 3);
        let ask = |index, error| Some(Ack::StopSending { stream: id(index), error });
        assert_eq!([stops.next(ms(30)), stops.next(ms(30)), stops.next(ms(30))], [ask(5, 1), ask(3, 2), None]);
        assert_eq!(stops.next_timeout(), Some(ms(130)));
        stops.on_ended(id(3));
        stops.on_ended(id(3));
        assert_eq!((stops.next(ms(130)), stops.next(ms(130)), stops.is_empty()), (ask(5, 1), None, false));
        stops.on_ended(id(5));
        assert_eq!((stops.next_timeout(), stops.is_empty()), (None, true));
    }
}
