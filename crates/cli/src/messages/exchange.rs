//! Reports between both ends, on the first stream, while messages are exchanged.

use std::sync::Arc;
use std::time::Duration;

use dfcp_files::limits::{CLOSE_WAIT_MAX, RECEIVER_SILENCE_MAX};
use dfcp_files::reading::read_frame;
use dfcp_files::transport::{Handle, PathSample, Transport};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::ToSender;
use dfcp_framing::frame::kind;
use dfcp_framing::messages::{Came, Sent};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::messages::figures::Figures;
use crate::messages::{Incoming, Outgoing};
use crate::path_frame::{decode_path, encode_path};
use crate::session_error::SessionError;

/// Message directions in use.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Messages that this side sends.
    pub outgoing: Option<Arc<Outgoing>>,
    /// Messages that the peer sends.
    pub incoming: Option<Arc<Incoming>>,
    /// True if the peer requests this side's path statistics.
    pub tells_path: bool,
    /// Interval of the reports.
    pub every: Duration,
}

/// Last report from the peer.
#[derive(Debug, Clone, Copy)]
struct Heard {
    at: Instant,
    sent: Sent,
    came: Came,
    path: Option<PathSample>,
}

/// Report exchange on a connection, after both preambles.
#[derive(Debug)]
pub struct Talk<T> {
    handle: Handle<T>,
    exchange: Exchange,
    heard: watch::Sender<Heard>,
    /// True after this side has announced its end.
    has_ended: watch::Sender<bool>,
    began_at: Instant,
    /// Minimum RTT seen, ms.
    rtt_ms: watch::Sender<Option<f64>>,
}

impl<T: Transport> Talk<T> {
    /// Starts the exchange, after the request.
    pub fn new(handle: Handle<T>, exchange: Exchange) -> Self {
        let began_at = Instant::now();
        let heard = Heard { at: began_at, sent: Sent::default(), came: Came::default(), path: None };
        Self {
            handle,
            exchange,
            heard: watch::Sender::new(heard),
            has_ended: watch::Sender::default(),
            began_at,
            rtt_ms: watch::Sender::default(),
        }
    }

    /// Runs until both directions have ended. This side's direction ends after `all_sent` and the peer's final report;
    /// the peer's direction ends when the peer announces it. `on_tick` may display the current counts.
    ///
    /// # Errors
    /// Fails if the connection breaks, or the peer violates the protocol or reports impossible counts.
    pub async fn run(
        &self,
        reader: BufReader<Handle<T>>,
        all_sent: impl Future<Output = ()>,
        on_tick: impl FnMut(&Self),
    ) -> Result<(), SessionError> {
        tokio::try_join!(self.listen(reader), self.tell(all_sent, on_tick))?;
        Ok(())
    }

    /// Waits until the peer announces its end.
    pub async fn peer_has_ended(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.heard.subscribe().wait_for(|heard| heard.sent.is_final).await;
    }

    /// Returns the counts of this side's messages.
    pub fn outgoing(&self) -> Option<Figures> {
        let sent = self.exchange.outgoing.as_ref()?.sent(*self.has_ended.borrow());
        Some(self.figures(sent, self.heard.borrow().came, self.handle.path_sample()))
    }

    /// Returns the counts of the peer's messages.
    pub fn incoming(&self) -> Option<Figures> {
        let heard = *self.heard.borrow();
        let came = self.exchange.incoming.as_ref()?.came(heard.sent.is_final);
        Some(self.figures(heard.sent, came, heard.path))
    }

    fn figures(&self, sent: Sent, came: Came, path: Option<PathSample>) -> Figures {
        let seconds = self.began_at.elapsed().as_secs_f64();
        let silence = self.heard.borrow().at.elapsed();
        Figures::new(sent, came, path, *self.rtt_ms.borrow()).after(seconds, silence)
    }

    async fn listen(&self, mut reader: BufReader<Handle<T>>) -> Result<(), SessionError> {
        let silent = |_| SessionError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() };
        let mut body = Vec::new();
        while !self.has_heard_all() {
            let next = timeout(RECEIVER_SILENCE_MAX, read_frame(&mut reader, &mut body)).await.map_err(silent)??;
            self.take(next.ok_or(SessionError::PeerClosed)?, &body)?;
        }
        Ok(())
    }

    fn has_heard_all(&self) -> bool {
        let heard = self.heard.borrow();
        let Exchange { outgoing, incoming, .. } = &self.exchange;
        (outgoing.is_none() || heard.came.is_final) && (incoming.is_none() || heard.sent.is_final)
    }

    /// Processes a frame from the peer.
    fn take(&self, frame_kind: u8, body: &[u8]) -> Result<(), SessionError> {
        let mut heard = *self.heard.borrow();
        heard.at = Instant::now();
        match frame_kind {
            kind::MESSAGES_SENT if self.exchange.incoming.is_some() => heard.sent = Sent::decode(body)?,
            kind::MESSAGES_CAME => {
                heard.came = Came::decode(body)?;
                let outgoing = self.exchange.outgoing.as_ref().ok_or(ProtocolError::Summary)?;
                // The peer cannot have received more than was sent, nor report the final count before this side has ended.
                let is_early = heard.came.is_final && !*self.has_ended.borrow();
                if is_early || heard.came.known() > outgoing.sent(false).begun {
                    return Err(ProtocolError::Summary.into());
                }
            }
            kind::PERF_PATH => {
                heard.path = Some(decode_path(body)?);
                self.note_rtt(heard.path);
            }
            other => {
                return Err(match ToSender::decode(other, body) {
                    Ok(ToSender::Refused(failure)) => SessionError::Refused(failure),
                    _ => ProtocolError::UnknownFrame { kind: other }.into(),
                });
            }
        }
        self.heard.send_replace(heard);
        Ok(())
    }

    fn note_rtt(&self, path: Option<PathSample>) {
        let Some(shown) = path.and_then(|path| path.rtt_ms) else { return };
        self.rtt_ms.send_modify(|least| *least = Some(least.map_or(shown, |least| least.min(shown))));
    }

    async fn tell(
        &self,
        all_sent: impl Future<Output = ()>,
        mut on_tick: impl FnMut(&Self),
    ) -> Result<(), SessionError> {
        let Exchange { outgoing, incoming, every, .. } = &self.exchange;
        let mut ticks = interval(*every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ending = Box::pin(async {
            if let Some(outgoing) = outgoing {
                all_sent.await;
                outgoing.settled().await;
            }
        });
        let mut peer_ended = Box::pin(self.peer_has_ended());
        let (mut is_ended, mut is_answered) = (outgoing.is_none(), incoming.is_none());
        while !is_ended || !is_answered {
            tokio::select! {
                biased;
                () = &mut ending, if !is_ended => {
                    is_ended = true;
                    self.has_ended.send_replace(true);
                    self.write(true, false).await?;
                }
                () = &mut peer_ended, if !is_answered => {
                    is_answered = true;
                    self.write(false, true).await?;
                }
                _ = ticks.tick() => {
                    self.note_rtt(self.handle.path_sample());
                    self.write(false, false).await?;
                    on_tick(self);
                }
            }
        }
        // The peer has its answers or is gone, so the result of the close does not matter.
        if !matches!(timeout(CLOSE_WAIT_MAX, self.handle.clone().shutdown()).await, Ok(Ok(()))) {
            tracing::debug!("the connection was not closed in order");
        }
        Ok(())
    }

    /// Sends a report with the current counts. The final count of each direction is sent once.
    async fn write(&self, is_end: bool, is_answer: bool) -> Result<(), SessionError> {
        let Exchange { outgoing, incoming, tells_path, .. } = &self.exchange;
        let mut bytes = Vec::new();
        if let Some(path) = self.handle.path_sample().filter(|_| *tells_path && !is_answer) {
            encode_path(&path, &mut bytes);
        }
        if let Some(outgoing) = outgoing.as_ref().filter(|_| !is_answer && (is_end || !*self.has_ended.borrow())) {
            outgoing.sent(is_end).encode(&mut bytes);
        }
        if let Some(incoming) =
            incoming.as_ref().filter(|_| !is_end && (is_answer || !self.heard.borrow().sent.is_final))
        {
            incoming.came(is_answer).encode(&mut bytes);
        }
        let mut writer = self.handle.clone();
        let write = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        let silent = |_| SessionError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() };
        timeout(RECEIVER_SILENCE_MAX, write).await.map_err(silent)?.map_err(SessionError::Connection)
    }
}
