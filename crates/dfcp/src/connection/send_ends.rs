//! Ends of the halves that this side sends, for the tasks that wait for them ([`WriteHalf::stopped`](crate::WriteHalf::stopped)).

use std::collections::BTreeMap;
use std::io;

use dfcp_proto::{ConnectionError, StreamId};
use tokio::sync::watch;

use crate::error::{StreamError, connection_error};

/// The end of a half that this side sends.
#[derive(Clone, Debug)]
pub(super) enum SendEnd {
    /// The peer has all of it, and has proven that.
    Delivered,
    /// The peer wants no more, for this code.
    Stopped(u32),
    /// This side has reset it.
    Reset,
    /// The connection has ended before.
    Lost(ConnectionError),
}

impl SendEnd {
    /// The peer's code, if it has stopped the stream.
    fn into_result(self) -> io::Result<Option<u32>> {
        match self {
            Self::Delivered => Ok(None),
            Self::Stopped(code) => Ok(Some(code)),
            Self::Reset => Err(StreamError::EndedHere.into()),
            Self::Lost(error) => Err(connection_error(error)),
        }
    }
}

/// An end, and the tasks that wait for it. They must not be woken under the connection's lock.
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

/// The halves of a connection whose end somebody waits for. An entry lives until its half ends, so there are no more than streams.
#[derive(Debug, Default)]
pub(super) struct SendEnds {
    watched: BTreeMap<StreamId, watch::Sender<Option<SendEnd>>>,
    told: Vec<Told>,
}

impl SendEnds {
    /// Watches a half which has not ended.
    pub(super) fn watch(&mut self, id: StreamId) -> SendEndWatch {
        SendEndWatch(self.watched.entry(id).or_insert_with(|| watch::Sender::new(None)).subscribe())
    }

    /// A half has ended. Only the first end of each counts.
    pub(super) fn end(&mut self, id: StreamId, end: SendEnd) {
        if let Some(watches) = self.watched.remove(&id) {
            self.told.push(Told { watches, end });
        }
    }

    /// The connection is over, and with it all that has not ended.
    pub(super) fn end_all(&mut self, end: &SendEnd) {
        let ended = std::mem::take(&mut self.watched).into_values();
        self.told.extend(ended.map(|watches| Told { watches, end: end.clone() }));
    }

    /// The ends that no task has been told yet.
    pub(super) fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }
}

/// Waits for the end of one half. It keeps neither the stream nor the connection.
#[derive(Debug)]
pub(crate) struct SendEndWatch(watch::Receiver<Option<SendEnd>>);

impl SendEndWatch {
    /// For a half that has ended.
    pub(super) fn ended(end: SendEnd) -> Self {
        Self(watch::Sender::new(Some(end)).subscribe())
    }

    /// The peer's code, if it has stopped the stream; `None` if it has all of it.
    pub(crate) async fn wait(mut self) -> io::Result<Option<u32>> {
        match self.0.wait_for(Option::is_some).await {
            Ok(end) => end.clone().map_or_else(nothing_drives, SendEnd::into_result),
            // Every end is told before its sender goes.
            Err(_) => nothing_drives(),
        }
    }
}

fn nothing_drives() -> io::Result<Option<u32>> {
    Err(connection_error(ConnectionError::Aborted))
}
