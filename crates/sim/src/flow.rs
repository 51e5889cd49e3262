//! Flow: two ends, the routes between them, and the results.

use dfcp_time::Time;

use crate::config::{FlowConfig, FlowError, Transport};
use crate::end::End;
use crate::event_queue::Slot;
use crate::messages::MessageReport;
use crate::packet::LinkId;

/// Results of a flow so far.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowReport {
    /// Time at which the sender opened the connection.
    pub started_at: Time,
    /// Arrival of the first byte at the receiver.
    pub first_byte_at: Option<Time>,
    /// Arrival of the last byte at the receiver, for a flow of finite size.
    pub completed_at: Option<Time>,
    /// Time at which the sender got the confirmation of the last byte.
    pub confirmed_at: Option<Time>,
    /// Application bytes delivered: of streams in order, of messages on time.
    pub delivered_bytes: u64,
    /// Results of the flow's messages; `None` without messages.
    pub messages: Option<MessageReport>,
    /// Error that ended the flow early; `None` without an error.
    pub failure: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Flow {
    /// Sender and receiver.
    pub(crate) ends: [End; 2],
    pub(crate) slots: [Slot; 2],
    /// Routes of packets from the sender, and of packets from the receiver.
    pub(crate) routes: [Vec<LinkId>; 2],
    bytes: Option<u64>,
    stop: Option<Time>,
    rebinds: Vec<Time>,
    /// Error that ended the flow early and that neither end has noticed.
    failure: Option<String>,
    started_at: Time,
    first_byte_at: Option<Time>,
    completed_at: Option<Time>,
    confirmed_at: Option<Time>,
}

impl Flow {
    pub(crate) fn new(config: FlowConfig, seed: u64, slots: [Slot; 2]) -> Result<Self, FlowError> {
        let has_address = !matches!(config.transport, Transport::Model(_) | Transport::Web(_));
        if !has_address && !config.rebinds.is_empty() {
            return Err(FlowError::NoAddress);
        }
        Ok(Self {
            ends: End::pair(config.transport, config.bytes, seed)?,
            slots,
            routes: [config.forward, config.back],
            bytes: config.bytes,
            stop: config.stop,
            rebinds: config.rebinds,
            failure: None,
            started_at: config.start,
            first_byte_at: None,
            completed_at: None,
            confirmed_at: None,
        })
    }

    /// Returns true once both ends are silent.
    pub(crate) fn is_stopped(&self, now: Time) -> bool {
        self.stop.is_some_and(|stop| now >= stop)
    }

    /// Returns the number of the sender's current address.
    pub(crate) fn address(&self, now: Time) -> u16 {
        self.rebinds.partition_point(|&at| at <= now) as u16
    }

    /// Returns true if packets from the sender's address number `address` belong to the connection. A TCP connection is
    /// bound to its first address: the receiver resets it for packets from another address, which ends the flow.
    pub(crate) fn admits(&mut self, now: Time, address: u16) -> bool {
        let is_tcp = matches!(self.ends[0], End::TcpSender(_));
        if !is_tcp || address == self.address(self.started_at) {
            return true;
        }
        self.failure = Some("the sender's address changed, which ends a connection of TCP".to_owned());
        self.stop = Some(now);
        false
    }

    /// Updates the results after a delivery to an end.
    pub(crate) fn note_progress(&mut self, now: Time) {
        if self.confirmed_at.is_some() {
            return;
        }
        let delivered_bytes = self.ends[1].delivered_bytes();
        if delivered_bytes == 0 {
            return;
        }
        self.first_byte_at.get_or_insert(now);
        if self.bytes == Some(delivered_bytes) {
            self.completed_at.get_or_insert(now);
            if self.ends[0].is_confirmed() {
                self.confirmed_at = Some(now);
            }
        }
    }

    fn messages(&self, now: Time) -> Option<MessageReport> {
        let [sender, receiver] = &self.ends;
        let (sent, received) = (sender.messages_sent(now)?, receiver.messages_received(now)?);
        Some(MessageReport {
            handed_over: sent.handed_over,
            due: sent.due,
            in_time: received.in_time,
            late: received.late,
            datagrams: sent.datagrams,
        })
    }

    pub(crate) fn report(&self, now: Time) -> FlowReport {
        FlowReport {
            started_at: self.started_at,
            first_byte_at: self.first_byte_at,
            completed_at: self.completed_at,
            confirmed_at: self.confirmed_at,
            delivered_bytes: self.ends[1].delivered_bytes(),
            messages: self.messages(now),
            failure: self.failure.clone().or_else(|| self.ends.iter().find_map(End::failure)),
        }
    }
}
