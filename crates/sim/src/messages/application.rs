//! Application that sends or receives messages over DFCP.

use dfcp_proto::{Connection, Deadline, State};
use dfcp_time::Time;

use super::{Messages, Received, Schedule, Sent, Tally};

/// Message application of a DFCP end.
#[derive(Debug)]
pub(crate) enum MessageApplication {
    /// Sender, which follows a schedule.
    Sends(Schedule),
    /// Receiver, which counts messages of `bytes` bytes each.
    Receives { tally: Tally, bytes: u32 },
}

impl MessageApplication {
    pub(crate) fn pair(messages: Messages) -> [Self; 2] {
        let receives = Self::Receives { tally: Tally::new(messages.deadline), bytes: messages.bytes };
        [Self::Sends(Schedule::new(messages)), receives]
    }

    /// Submits the messages that are due, or reads those that have arrived. `shown` is the time on this end's clock.
    pub(crate) fn work(&mut self, now: Time, shown: Time, connection: &mut Connection, buffer: &mut [u8]) {
        let is_open = connection.state() == State::Established;
        let Some(mut messages) = connection.messages() else { return };
        match self {
            Self::Sends(schedule) => {
                if !is_open || !messages.are_taken() {
                    return;
                }
                let Messages { bytes, deadline, target, .. } = *schedule.messages();
                let began = schedule.begin(now);
                while let Some(number) = schedule.take(now) {
                    let message = &mut buffer[..bytes as usize];
                    let handed_over_at = schedule.messages().handed_over_at(began, number);
                    if let Some(place) = message.first_chunk_mut() {
                        *place = handed_over_at.as_ns().to_le_bytes();
                    }
                    // A message that is refused for lack of room counts as submitted and lost.
                    let _ = messages.send(shown, message, Deadline::within(deadline).with_target(target));
                }
            }
            Self::Receives { tally, .. } => {
                while let Some(message) = messages.receive() {
                    if let Some(place) = message.bytes.first_chunk() {
                        tally.complete(now, Time::from_ns(u64::from_le_bytes(*place)));
                    }
                }
            }
        }
    }

    /// Returns the time of the next submission.
    pub(crate) fn next_at(&self) -> Option<Time> {
        match self {
            Self::Sends(schedule) => schedule.next_at(),
            Self::Receives { .. } => None,
        }
    }

    pub(crate) fn sent(&self, now: Time, datagrams: u64) -> Option<Sent> {
        match self {
            Self::Sends(schedule) => Some(schedule.sent(now, datagrams)),
            Self::Receives { .. } => None,
        }
    }

    /// Returns the receiver's counts. `late` is the number of messages that were completed too late and not delivered.
    pub(crate) fn received(&self, now: Time, late: u64) -> Option<Received> {
        match self {
            Self::Sends(_) => None,
            Self::Receives { tally, .. } => Some(tally.received(now, late)),
        }
    }

    pub(crate) fn delivered_bytes(&self) -> u64 {
        match self {
            Self::Sends(_) => 0,
            Self::Receives { tally, bytes } => tally.delivered() * u64::from(*bytes),
        }
    }
}
