//! Ends of sending halves, and the tasks that wait for them ([`WriteHalf::stopped`](crate::WriteHalf::stopped)).

use std::collections::BTreeMap;
use std::io;

use dfcp_proto::{ConnectionError, StreamId};
use tokio::sync::watch;

use crate::error::{StreamError, connection_error};

/// Reason for the end of a sending half.
#[derive(Clone, Debug)]
pub(super) enum SendEnd {
    /// The peer has proven that it has every byte.
    Delivered,
    /// The peer stopped the half, with this code.
    Stopped(u32),
    /// This side has reset the half.
    Reset,
    /// The connection has ended first, with this error.
    Lost(ConnectionError),
}

impl SendEnd {
    /// Returns `Some(code)` if the peer stopped the half, `None` if all was delivered.
    fn into_result(self) -> io::Result<Option<u32>> {
        match self {
            Self::Delivered => Ok(None),
            Self::Stopped(code) => Ok(Some(code)),
            Self::Reset => Err(StreamError::EndedHere.into()),
            Self::Lost(error) => Err(connection_error(error)),
        }
    }
}

/// An end that waiting tasks have not been notified of. The notification must not happen under the connection's lock.
#[derive(Debug)]
pub(super) struct Told {
    watches: watch::Sender<Option<SendEnd>>,
    end: SendEnd,
}

impl Told {
    pub(super) fn wake(self) {
        self.watches.send_replace(Some(self.end));
    }
}

/// The sending halves of a connection that have waiting tasks. An entry lives until its half ends, so there are at most
/// as many entries as streams.
#[derive(Debug, Default)]
pub(super) struct SendEnds {
    watched: BTreeMap<StreamId, watch::Sender<Option<SendEnd>>>,
    told: Vec<Told>,
}

impl SendEnds {
    /// Returns a watch on a half that has not ended.
    pub(super) fn watch(&mut self, id: StreamId) -> SendEndWatch {
        SendEndWatch(self.watched.entry(id).or_insert_with(|| watch::Sender::new(None)).subscribe())
    }

    /// Records the end of a half. Only the first end of a half counts.
    pub(super) fn end(&mut self, id: StreamId, end: SendEnd) {
        if let Some(watches) = self.watched.remove(&id) {
            self.told.push(Told { watches, end });
        }
    }

    /// Records the end of the connection, for all halves that have not ended.
    pub(super) fn end_all(&mut self, end: &SendEnd) {
        let ended = std::mem::take(&mut self.watched).into_values();
        self.told.extend(ended.map(|watches| Told { watches, end: end.clone() }));
    }

    /// Returns the ends whose tasks must be notified.
    pub(super) fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }
}

/// A wait for the end of one half. It keeps neither the stream nor the connection alive.
#[derive(Debug)]
pub(crate) struct SendEndWatch(watch::Receiver<Option<SendEnd>>);

impl SendEndWatch {
    /// Returns a watch on a half that has already ended.
    pub(super) fn ended(end: SendEnd) -> Self {
        Self(watch::Sender::new(Some(end)).subscribe())
    }

    /// Waits for the end. Returns `Some(code)` if the peer stopped the half, `None` if all was delivered.
    pub(crate) async fn wait(mut self) -> io::Result<Option<u32>> {
        match self.0.wait_for(Option::is_some).await {
            Ok(end) => end.clone().map_or_else(nothing_drives, SendEnd::into_result),
            // Every end is sent before its sender is dropped, so the connection has lost its driver.
            Err(_) => nothing_drives(),
        }
    }
}

fn nothing_drives() -> io::Result<Option<u32>> {
    Err(connection_error(ConnectionError::Aborted))
}
