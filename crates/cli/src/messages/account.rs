//! Accounts of the messages that this side sends and receives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dfcp::{Deadline, MessageError, ReceivedMessage, Session};
use dfcp_framing::limits::MESSAGE_WITHIN_MAX;
use dfcp_framing::messages::{Came, Sent, Worth};
use hdrhistogram::Histogram;
use tokio::time::{Instant, sleep};

use crate::limits::{MESSAGES_LOOK_INTERVAL, MESSAGES_TAIL_MAX};

/// Quantiles reported in [`Came::waited_us`].
pub const SHARES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// Account of the messages that this side sends.
#[derive(Debug)]
pub struct Outgoing {
    session: Session,
    deadline: Deadline,
    within: Duration,
    offered: AtomicU64,
}

impl Outgoing {
    /// Starts an account of messages that all have the same `worth`.
    pub fn new(session: Session, worth: Worth) -> Self {
        let deadline = Deadline::within(worth.within).with_target(worth.target());
        Self { session, deadline, within: worth.within, offered: AtomicU64::new(0) }
    }

    /// Submits a message. If the send queue has no room, the message counts as offered and is not sent.
    ///
    /// # Errors
    /// Fails if the message is too long, the peer takes no messages, or the session has ended.
    pub fn offer(&self, message: &[u8]) -> Result<(), MessageError> {
        self.offered.fetch_add(1, Ordering::Relaxed);
        match self.session.send_message(message, self.deadline) {
            Ok(()) | Err(MessageError::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the counts of sent messages so far.
    pub fn sent(&self, is_final: bool) -> Sent {
        let sent = self.session.stats().messages_sent;
        let offered = self.offered.load(Ordering::Relaxed).max(sent.accepted);
        let unsent = sent.expired_unsent + (offered - sent.accepted);
        let (begun, datagrams, source_symbols) = (sent.begun, sent.datagrams, sent.source_symbols);
        Sent { is_final, offered, begun, unsent, datagrams, source_symbols }
    }

    /// Waits until the peer has reported on all messages that were started, or their deadline has passed.
    pub async fn settled(&self) {
        // Add a round trip, so that the last messages can still be acknowledged.
        let until = Instant::now() + self.within + MESSAGES_TAIL_MAX.min(self.session.stats().rtt * 2);
        loop {
            let sent = self.session.stats().messages_sent;
            if sent.complete + sent.expired_unsent >= sent.accepted || Instant::now() >= until {
                return;
            }
            sleep(MESSAGES_LOOK_INTERVAL).await;
        }
    }
}

/// Account of the peer's messages.
#[derive(Debug)]
pub struct Incoming {
    session: Session,
    tally: Mutex<Tally>,
}

#[derive(Debug)]
struct Tally {
    messages: u64,
    bytes: u64,
    /// Queueing times of the messages on time, µs.
    waited: Histogram<u32>,
    least_rtt: Option<Duration>,
}

impl Incoming {
    /// Starts an empty account.
    pub fn new(session: Session) -> Self {
        // A histogram of three digits up to an hour takes about 90 KiB.
        let waited = Histogram::new_with_bounds(1, MESSAGE_WITHIN_MAX.as_micros() as u64, 3);
        let waited = waited.unwrap_or_else(|_| unreachable!("these bounds are possible"));
        Self { session, tally: Mutex::new(Tally { messages: 0, bytes: 0, waited, least_rtt: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next message on time; `None` after the session has ended. Cancel-safe.
    pub async fn next(&self) -> Option<ReceivedMessage> {
        let message = self.session.receive_message().await?;
        let mut tally = self.lock();
        tally.messages += 1;
        tally.bytes += message.bytes.len() as u64;
        tally.waited.saturating_record(u64::try_from(message.waited.as_micros()).unwrap_or(u64::MAX));
        Some(message)
    }

    /// Returns half of the minimum RTT as the one-way delay, which cannot be measured without synchronised clocks.
    pub fn least_way(&self) -> Duration {
        self.lock().least_rtt.unwrap_or_default() / 2
    }

    /// Returns the counts of received messages so far.
    pub fn came(&self, is_final: bool) -> Came {
        let stats = self.session.stats();
        let (seen, mut tally) = (stats.messages_received, self.lock());
        if !stats.rtt.is_zero() {
            tally.least_rtt = Some(tally.least_rtt.map_or(stats.rtt, |least| least.min(stats.rtt)));
        }
        let waited_us = SHARES.map(|share| tally.waited.value_at_quantile(share));
        let (in_time, bytes) = (tally.messages, tally.bytes);
        Came { is_final, in_time, late: seen.late, unread: seen.unread, bytes, waited_us }
    }
}
