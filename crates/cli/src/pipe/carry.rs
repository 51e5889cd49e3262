//! Operation of an open pipe, the same at both ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dfcp_framing::messages::Worth;
use serde_json::json;
use tokio::io::BufReader;
use tokio::time::{Instant, sleep_until};

use super::local::Local;
use super::release::{Order, Release};
use crate::limits::{PIPE_DATAGRAM_BYTES_MAX, PIPE_REPORT_INTERVAL, PIPE_SHOWN_INTERVAL};
use crate::messages::{Exchange, Figures, Incoming, Outgoing, Talk};
use crate::output;
use crate::stop::Stop;
use crate::transfer::error::TransferError;
use crate::transport::{Handle, Transport};

/// Settings of this end.
#[derive(Debug, Clone)]
pub(super) struct Carrying {
    pub(super) worth: Worth,
    pub(super) order: Order,
    pub(super) json: bool,
    /// Name of the other end.
    pub(super) peer: String,
}

/// Datagrams that went through a pipe.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Carried {
    /// Messages sent from here.
    pub(super) sent: Figures,
    /// Messages sent to here.
    pub(super) received: Figures,
    /// Received messages that were dropped because their successors had been handed on.
    pub(super) overtaken: u64,
    /// Received messages that no program here takes.
    pub(super) refused: u64,
}

/// Losses of datagrams after they had come in time.
#[derive(Debug, Default)]
struct HandedOn {
    overtaken: AtomicU64,
    refused: AtomicU64,
}

/// Carries datagrams both ways until this program is to `stop` or the peer has ended.
pub(super) async fn carry<T: Transport>(
    handle: Handle<T>,
    reader: BufReader<Handle<T>>,
    local: Arc<Local>,
    carrying: &Carrying,
    stop: Stop,
) -> Result<Carried, TransferError> {
    let without = || TransferError::Unsuited("a classic connection has no messages".to_owned());
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

/// Sends what comes from the programs here, until something fails.
async fn take_in(local: &Local, outgoing: &Outgoing) -> TransferError {
    let mut buffer = vec![0; PIPE_DATAGRAM_BYTES_MAX];
    loop {
        match local.receive(&mut buffer).await {
            Ok(length) => {
                if let Err(error) = outgoing.offer(buffer.get(..length).unwrap_or_default()) {
                    // If the session has ended, the exchange tells why.
                    tracing::debug!(%error, "a datagram was not taken");
                    std::future::pending::<()>().await;
                }
            }
            Err(error) => return TransferError::Local(error),
        }
    }
}

/// Hands on what comes through the pipe.
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
                // The exchange tells how the session has ended.
                None => std::future::pending().await,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

/// Lines shown while a pipe is open.
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

    /// Lines for people: one for each direction with traffic, and one at least.
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

    /// Says at the end what went through.
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

/// Time that a caller waits before it tries again.
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(1);
