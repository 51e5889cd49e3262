//! Operation of an open pipe, identical at both ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dfcp_files::transport::{Handle, Transport};
use dfcp_framing::messages::Worth;
use serde_json::json;
use tokio::io::BufReader;
use tokio::time::{Instant, sleep_until};

use super::local::Local;
use super::release::{Order, Release};
use crate::limits::{PIPE_DATAGRAM_BYTES_MAX, PIPE_REPORT_INTERVAL, PIPE_SHOWN_INTERVAL};
use crate::messages::{Exchange, Figures, Incoming, Outgoing, Talk};
use crate::output;
use crate::session_error::SessionError;
use crate::stop::Stop;

/// Settings of this end.
#[derive(Debug, Clone)]
pub(super) struct Carrying {
    pub(super) worth: Worth,
    pub(super) order: Order,
    pub(super) json: bool,
    /// Name of the other end.
    pub(super) peer: String,
}

/// Counts of a pipe.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Carried {
    /// Messages sent by this end.
    pub(super) sent: Figures,
    /// Messages sent to this end.
    pub(super) received: Figures,
    /// Received messages dropped because later ones had been delivered.
    pub(super) overtaken: u64,
    /// Received messages that no local program accepted.
    pub(super) refused: u64,
}

/// Counts of datagrams that arrived in time but were not delivered.
#[derive(Debug, Default)]
struct HandedOn {
    overtaken: AtomicU64,
    refused: AtomicU64,
}

/// Carries datagrams both ways until `stop`, or until the peer ends.
pub(super) async fn carry<T: Transport>(
    handle: Handle<T>,
    reader: BufReader<Handle<T>>,
    local: Arc<Local>,
    carrying: &Carrying,
    stop: Stop,
) -> Result<Carried, SessionError> {
    let without = || SessionError::Unsuited("a classic connection has no messages".to_owned());
    let session = handle.messages().ok_or_else(without)?;
    let outgoing = Arc::new(Outgoing::new(session.clone(), carrying.worth));
    let incoming = Arc::new(Incoming::new(session));
    let exchange = Exchange {
        outgoing: Some(Arc::clone(&outgoing)),
        incoming: Some(Arc::clone(&incoming)),
        tells_path: true,
        every: PIPE_REPORT_INTERVAL,
    };
    let talk = Talk::new(handle, exchange);
    let ended = async {
        tokio::select! {
            () = stop.requested() => {}
            () = talk.peer_has_ended() => {}
        }
    };
    let handed_on = HandedOn::default();
    let carried = |talk: &Talk<T>| Carried {
        sent: talk.outgoing().unwrap_or_default(),
        received: talk.incoming().unwrap_or_default(),
        overtaken: handed_on.overtaken.load(Ordering::Relaxed),
        refused: handed_on.refused.load(Ordering::Relaxed),
    };
    let mut shown = Shown { carrying, at: Instant::now(), last: Carried::default() };
    tokio::select! {
        ended = talk.run(reader, ended, |talk| shown.tick(carried(talk))) => ended?,
        error = take_in(&local, &outgoing) => return Err(error),
        () = hand_on(&local, &incoming, carrying, &handed_on) => {}
    }
    Ok(carried(&talk))
}

/// Sends datagrams from local programs until an error.
async fn take_in(local: &Local, outgoing: &Outgoing) -> SessionError {
    let mut buffer = vec![0; PIPE_DATAGRAM_BYTES_MAX];
    loop {
        match local.receive(&mut buffer).await {
            Ok(length) => {
                if let Err(error) = outgoing.offer(buffer.get(..length).unwrap_or_default()) {
                    // If the session has ended, the exchange reports why.
                    tracing::debug!(%error, "a datagram was not taken");
                    std::future::pending::<()>().await;
                }
            }
            Err(error) => return SessionError::Local(error),
        }
    }
}

/// Delivers datagrams from the pipe.
async fn hand_on(local: &Local, incoming: &Incoming, carrying: &Carrying, handed_on: &HandedOn) {
    let mut release = Release::new(carrying.order, carrying.worth.within);
    loop {
        let now = Instant::now();
        while let Some(datagram) = release.pop(now) {
            if !local.send(&datagram).await {
                handed_on.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        handed_on.overtaken.store(release.overtaken(), Ordering::Relaxed);
        let due = release.next_timeout();
        tokio::select! {
            biased;
            message = incoming.next() => match message {
                Some(message) => {
                    let took = message.waited + incoming.least_way();
                    release.push(Instant::now(), message.id, took, message.bytes);
                }
                // The exchange reports how the session ended.
                None => std::future::pending().await,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

/// Periodic output of an open pipe.
struct Shown<'a> {
    carrying: &'a Carrying,
    at: Instant,
    last: Carried,
}

impl Shown<'_> {
    fn tick(&mut self, now: Carried) {
        let Carrying { json, peer, .. } = self.carrying;
        if *json {
            output::json(
                &json!({ "event": "carried", "peer": peer, "sent": now.sent, "received": now.received, "overtaken": now.overtaken, "refused": now.refused }),
            );
        } else if self.at.elapsed() >= PIPE_SHOWN_INTERVAL {
            self.at = Instant::now();
            let part = now.since(&self.last);
            part.lines(peer, false).iter().for_each(|line| output::note(line));
            self.last = now;
        }
    }
}

impl Carried {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent.since(&earlier.sent),
            received: self.received.since(&earlier.received),
            overtaken: self.overtaken.saturating_sub(earlier.overtaken),
            refused: self.refused.saturating_sub(earlier.refused),
        }
    }

    /// Returns the text lines: one per direction with traffic, at least one.
    pub(super) fn lines(&self, peer: &str, total: bool) -> Vec<String> {
        let line = |direction: &str, figures: &Figures| {
            (figures.offered > 0).then(|| format!("{direction} {peer}: {}", figures.describe(total)))
        };
        let lines = [line("sent to", &self.sent), line("received from", &self.received)];
        let mut lines: Vec<_> = lines.into_iter().flatten().collect();
        let mut dropped = |count: u64, why: &str| {
            if count > 0 {
                lines.push(format!("{count} datagrams from {peer} were not handed on: {why}"));
            }
        };
        dropped(self.overtaken, "those behind them had been");
        dropped(self.refused, "nobody takes them here");
        if lines.is_empty() { vec![format!("{peer}: nothing to carry")] } else { lines }
    }

    /// Prints the final counts.
    pub(super) fn tell(&self, peer: &str, json: bool) {
        if json {
            output::json(
                &json!({ "event": "ended", "peer": peer, "sent": self.sent, "received": self.received, "overtaken": self.overtaken, "refused": self.refused }),
            );
        } else {
            self.lines(peer, true).iter().for_each(|line| output::line(line));
        }
    }
}

/// Delay before a caller reconnects.
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(1);
