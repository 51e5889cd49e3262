//! Measurements of messages with deadlines, `perf client --messages`.

use std::sync::Arc;
use std::time::Duration;

use dfcp::{MessageError, Session};
use dfcp_files::limits::REPORT_INTERVAL;
use dfcp_files::transport::{Handle, Transport};
use dfcp_framing::messages::Request;
use serde_json::json;
use tokio::io::BufReader;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Side;
use super::intervals::INTERVAL_S;
use super::noise::Noise;
use crate::messages::{Exchange, Figures, Incoming, Outgoing, Talk};
use crate::output;
use crate::progress::SILENCE_SHOWN;
use crate::session_error::SessionError;

/// Returns the session of the connection, which carries the messages.
///
/// # Errors
/// Fails on a classic connection, which has no messages.
pub fn session<T: Transport>(handle: &Handle<T>) -> Result<Session, SessionError> {
    let without = || SessionError::Unsuited("a classic connection has no messages: leave --messages away".to_owned());
    handle.messages().ok_or_else(without)
}

/// Sends or receives messages as requested. `on_figures` receives each count.
///
/// # Errors
/// Fails if the connection breaks, or the peer violates the protocol or takes no messages.
pub async fn measure<T: Transport>(
    handle: &Handle<T>,
    reader: BufReader<Handle<T>>,
    (request, side): (&Request, Side),
    mut on_figures: impl FnMut(&Figures),
) -> Result<Figures, SessionError> {
    let session = session(handle)?;
    let sends = request.reverse == (side == Side::Server);
    let exchange = Exchange {
        outgoing: sends.then(|| Arc::new(Outgoing::new(session.clone(), request.worth))),
        incoming: (!sends).then(|| Arc::new(Incoming::new(session))),
        tells_path: sends && side == Side::Server,
        every: REPORT_INTERVAL,
    };
    let (outgoing, incoming) = (exchange.outgoing.clone(), exchange.incoming.clone());
    let talk = Talk::new(handle.clone(), exchange);
    let figures = |talk: &Talk<T>| talk.outgoing().or_else(|| talk.incoming()).unwrap_or_default();
    let refused = watch::Sender::new(None);
    let all_sent = async {
        if let Some(outgoing) = outgoing {
            refused.send_replace(emit(&outgoing, request).await.err());
        }
    };
    let take_in = async {
        if let Some(incoming) = incoming {
            while incoming.next().await.is_some() {}
        }
        // The exchange reports how the session ended.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = talk.run(reader, all_sent, |talk| on_figures(&figures(talk))) => ended?,
        () = take_in => {}
    }
    match refused.borrow().clone() {
        Some(error) => Err(SessionError::Unsuited(error.to_string())),
        None => Ok(figures(&talk)),
    }
}

/// Sends the messages at their scheduled times.
async fn emit(outgoing: &Outgoing, request: &Request) -> Result<(), MessageError> {
    let (started, mut number) = (Instant::now(), 0_u64);
    let mut message: Vec<u8> = Noise::new(1).take(request.bytes as usize).collect();
    while number < request.count() {
        let due = started + request.every.mul_f64(number as f64);
        if due > Instant::now() {
            sleep_until(due).await;
        }
        // Make every message different.
        message.iter_mut().zip(number.to_be_bytes()).for_each(|(byte, of_number)| *byte = of_number);
        outgoing.offer(&message)?;
        number += 1;
    }
    Ok(())
}

/// Splits a measurement into intervals of about a second.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    last: Figures,
    finished: Vec<Figures>,
}

impl Intervals {
    /// Returns the text line to print, if one is due.
    pub(super) fn advance(&mut self, now: &Figures) -> Option<String> {
        if now.silence >= SILENCE_SHOWN && now.in_time == self.last.in_time && now.offered == self.last.offered {
            return (now.silence - self.last.silence.min(now.silence) >= SILENCE_SHOWN / 3).then(|| {
                self.last.silence = now.silence;
                output::nothing_heard(now.silence)
            });
        }
        (now.seconds - self.last.seconds >= INTERVAL_S).then(|| {
            let part = now.since(&self.last);
            let text = format!("{:6.1} – {:6.1} s  {}", self.last.seconds, now.seconds, part.describe(false));
            self.last = *now;
            if self.finished.len() < crate::limits::PERF_INTERVALS_MAX {
                self.finished.push(part);
            }
            text
        })
    }
}

/// Returns the JSON of the measurement.
pub(super) fn summary(peer: &str, request: &Request, figures: &Figures, intervals: &Intervals) -> serde_json::Value {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    json!({
        "peer": peer, "reverse": request.reverse,
        "request": {
            "bytes": request.bytes, "every_ms": milliseconds(request.every), "deadline_ms": milliseconds(request.worth.within),
            "target": request.worth.target(),
        },
        "messages": figures,
        "datagrams_per_message": figures.datagrams_per_message(), "ip_bytes_per_byte": figures.ip_bytes_per_byte(),
        "intervals": intervals.finished,
    })
}
