//! Web traffic of one user: many TCP connections, each with a start time and a size.

use std::collections::BTreeMap;

use dfcp_time::Time;

use crate::tcp::{self, Receiver, Segment, Sender};

/// One TCP connection of web traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebConnection {
    /// Time at which the connection is opened.
    pub start: Time,
    /// Application bytes sent to the user over the connection.
    pub bytes: u64,
}

/// All connections of one user. They form one flow, so fair queues treat them as one.
#[derive(Clone, Debug, PartialEq)]
pub struct WebConfig {
    /// TCP configuration of all connections.
    pub tcp: tcp::Config,
    /// Connections, in any order.
    pub connections: Vec<WebConnection>,
}

/// Reason why a web flow cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The flow has a size, which only its connections may have.
    #[error("a flow of web traffic has no size of its own; leave out its bytes")]
    Sized,
}

/// Counters summed over all connections of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebStats {
    /// Connections opened.
    pub opened: u64,
    /// Connections whose data is completely acknowledged.
    pub finished: u64,
    /// Retransmitted data segments.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl WebStats {
    fn with(self, sender: &Sender) -> Self {
        let own = sender.stats();
        Self {
            retransmissions: self.retransmissions + own.retransmissions,
            timeouts: self.timeouts + own.timeouts,
            ..self
        }
    }
}

/// Sender of all connections of one user.
#[derive(Debug)]
pub struct WebSender {
    config: WebConfig,
    seed: u64,
    /// Number of connections opened so far, in the order of their start times.
    opened: usize,
    /// Unfinished connections, by index in the order of their start times.
    open: BTreeMap<u32, Sender>,
    /// Counters summed over finished connections.
    finished: WebStats,
}

/// Receiver of all connections of one user.
#[derive(Debug)]
pub struct WebReceiver {
    tcp: tcp::Config,
    /// Connections that are not complete, or have a timer set.
    open: BTreeMap<u32, Receiver>,
    /// Completed connections, which still answer late segments, as in TIME-WAIT. They are kept apart because there may
    /// be thousands of them, and `open` is polled at every event.
    closed: BTreeMap<u32, Receiver>,
    /// Bytes delivered by the connections in `closed`.
    closed_bytes: u64,
}

/// Creates both ends of a user's connections. The TCP configuration must be valid.
pub(crate) fn pair(
    mut config: WebConfig,
    flow_bytes: Option<u64>,
    seed: u64,
) -> Result<(WebSender, WebReceiver), WebError> {
    if flow_bytes.is_some() {
        return Err(WebError::Sized);
    }
    let tcp = config.tcp;
    config.connections.sort_by_key(|connection| connection.start);
    let sender = WebSender { config, seed, opened: 0, open: BTreeMap::new(), finished: WebStats::default() };
    Ok((sender, WebReceiver { tcp, open: BTreeMap::new(), closed: BTreeMap::new(), closed_bytes: 0 }))
}

impl WebSender {
    pub(crate) fn on_segment(&mut self, now: Time, connection: u32, segment: &Segment) {
        // A late segment of a finished connection is ignored.
        let Some(sender) = self.open.get_mut(&connection) else { return };
        sender.on_segment(now, segment);
        if sender.is_finished() {
            self.finished = self.finished.with(sender);
            self.finished.finished += 1;
            self.open.remove(&connection);
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some(next) = self.config.connections.get(self.opened).filter(|next| next.start <= now) {
            let seed = self.seed.wrapping_add(self.opened as u64);
            // Cannot fail: the configuration was validated when the flow was added.
            if let Ok(sender) = Sender::new(self.config.tcp, Some(next.bytes), seed) {
                self.open.insert(self.opened as u32, sender);
            }
            self.opened += 1;
        }
        self.open.values_mut().for_each(|sender| sender.handle_timeout(now));
    }

    pub(crate) fn poll_transmit(&mut self, now: Time) -> Option<(u32, Segment)> {
        self.open.iter_mut().find_map(|(&number, sender)| Some((number, sender.poll_transmit(now)?)))
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let opens = self.config.connections.get(self.opened).map(|next| next.start);
        self.open.values().filter_map(Sender::next_timeout).chain(opens).min()
    }

    pub(crate) fn note_device_queue(&mut self, segments: usize) {
        self.open.values_mut().for_each(|sender| sender.note_device_queue(segments));
    }

    pub(crate) fn waits_for_device(&self) -> bool {
        self.open.values().any(Sender::waits_for_device)
    }

    /// Returns the TCP configuration of the connections.
    #[must_use]
    pub fn tcp(&self) -> &tcp::Config {
        &self.config.tcp
    }

    /// Returns the counters summed over all connections so far, including open ones.
    #[must_use]
    pub fn stats(&self) -> WebStats {
        let stats = WebStats { opened: self.opened as u64, ..self.finished };
        self.open.values().fold(stats, WebStats::with)
    }
}

impl WebReceiver {
    pub(crate) fn on_segment(&mut self, now: Time, connection: u32, segment: &Segment) {
        if let Some(closed) = self.closed.remove(&connection) {
            self.closed_bytes -= closed.stats().delivered_bytes;
            self.open.insert(connection, closed);
        }
        if !self.open.contains_key(&connection) {
            let Some(new) = Receiver::new(self.tcp).ok().filter(|_| segment.flags.syn) else { return };
            self.open.insert(connection, new);
        }
        if let Some(receiver) = self.open.get_mut(&connection) {
            receiver.on_segment(now, segment);
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.open.values_mut().for_each(|receiver| receiver.handle_timeout(now));
    }

    pub(crate) fn poll_transmit(&mut self, now: Time) -> Option<(u32, Segment)> {
        let next = self.open.iter_mut().find_map(|(&number, receiver)| Some((number, receiver.poll_transmit(now)?)));
        if next.is_none() {
            self.close();
        }
        next
    }

    /// Moves completed connections to `closed`.
    fn close(&mut self) {
        let is_over = |receiver: &Receiver| receiver.is_finished() && receiver.next_timeout().is_none();
        let over: Vec<u32> =
            self.open.iter().filter(|(_, receiver)| is_over(receiver)).map(|(&number, _)| number).collect();
        for number in over {
            let Some(receiver) = self.open.remove(&number) else { continue };
            self.closed_bytes += receiver.stats().delivered_bytes;
            self.closed.insert(number, receiver);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.open.values().filter_map(Receiver::next_timeout).min()
    }

    pub(crate) fn delivered_bytes(&self) -> u64 {
        self.closed_bytes + self.open.values().map(|receiver| receiver.stats().delivered_bytes).sum::<u64>()
    }
}
