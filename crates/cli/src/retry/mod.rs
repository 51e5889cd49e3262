//! Transfers that outlive their sessions: the calling side opens a new session after a loss, and resumes.
//!
//! Only an established session is retried: if the first connection fails, the command line is probably wrong.
//!
//! A silent session may recover, so the peer is called *in parallel*. If the session receives a datagram before the new
//! connection replaces it, the session continues and the new connection is dropped. So an outage shorter than the idle
//! timeout costs nothing.
//! Errors that would also occur in another session end the transfer ([`TransferError::may_be_resumed`]).

mod account;
mod calls;
mod causes;
mod schedule;

use std::fmt;
use std::io;
use std::time::Duration;

use dfcp_files::limits::REPORT_INTERVAL;
use dfcp_files::{Report, TransferError};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

pub use self::account::Account;
use self::calls::Calls;
pub use self::calls::{CallFailure, Caller};
pub use self::causes::is_transient_call;
use self::schedule::Schedule;
use crate::flags;
use crate::limits::{SESSION_SILENCE_MAX, SESSION_SILENCE_MORE};
use crate::output::human_seconds;
use crate::progress::OutageFigures;
use crate::stop::Stop;

/// Observer of a transfer's sessions, and of the outages between them.
pub trait Watch: Send + Sync {
    /// Called when a session has started.
    fn begins(&self);
    /// Returns the time since the peer's last datagram in the open session.
    fn unheard(&self) -> Duration;
    /// Returns true if the current session has made progress.
    fn has_progressed(&self) -> bool;
    /// Called when the session is lost; the peer will be called for at most `limit`.
    fn lost(&self, cause: &TransferError, limit: Duration);
    /// Called during an outage, with the calls so far.
    fn waits(&self, outage: &OutageFigures);
    /// Called when a new session is open.
    fn is_back(&self, outage: &OutageFigures);
}

/// Unsuccessful end of a transfer.
#[derive(Debug)]
pub enum Failed {
    /// The session failed with an error that rules out another session.
    Session(TransferError),
    /// A call failed with an error that rules out further calls.
    Call {
        /// Error of the last session.
        lost: TransferError,
        /// Reason why no further session was opened.
        error: anyhow::Error,
    },
    /// The user ended the program during an outage.
    Interrupted,
    /// The time limit of `--retry` was reached.
    Exhausted {
        /// Error of the last session.
        lost: TransferError,
        /// Outage since the last session.
        outage: OutageFigures,
    },
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(error) => error.fmt(f),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Call { lost, error } => write!(f, "{error:#}; before that, {lost}"),
            Self::Exhausted { lost, outage } => {
                write!(f, "no new connection in {} ", human_seconds(outage.lasted.as_secs_f64()))?;
                match &outage.last_failure {
                    Some(failure) => write!(f, "({failure}); before that, {lost}"),
                    None => write!(f, "({} attempts); before that, {lost}", outage.calls),
                }
            }
        }
    }
}

impl Failed {
    /// Converts to an error for display. `why_not_again` is the reason if this transfer can never resume; `explain` may
    /// reword the error by knowledge about the peer.
    pub fn into_error(
        self,
        why_not_again: Option<&str>,
        explain: impl FnOnce(anyhow::Error) -> anyhow::Error,
    ) -> anyhow::Error {
        match self {
            Self::Session(error) => match why_not_again.filter(|_| error.may_be_resumed()) {
                Some(why) => anyhow::anyhow!("{error}; {why}"),
                None => explain(flags::transfer_error(error)),
            },
            Self::Interrupted => io::Error::from(io::ErrorKind::Interrupted).into(),
            other => anyhow::anyhow!("{other}"),
        }
    }
}

/// Runs sessions over connections to one peer, the `first` of which is open, until one completes. `limit` bounds the time without progress
/// after a loss; 0 permits a single session. During an outage, `stop` ends the transfer.
///
/// # Errors
/// Returns the reason why the transfer is incomplete.
pub async fn run<C, S, F>(
    first: C::Connection,
    caller: &C,
    limit: Duration,
    watch: &dyn Watch,
    stop: &Stop,
    mut session: S,
) -> Result<Report, Failed>
where
    C: Caller,
    S: FnMut(C::Connection) -> F,
    F: Future<Output = Result<Report, TransferError>>,
{
    // One schedule for all outages: a peer that accepts every call and ends every session is called no more often than an absent one.
    let mut outages = Outages { caller, limit, watch, stop, is_first: true, schedule: Schedule::default() };
    let mut connection = first;
    loop {
        watch.begins();
        match outages.around(session(connection)).await? {
            Ended::Complete(report) => return Ok(*report),
            Ended::Followed(next) => connection = next,
        }
        outages.is_first = false;
    }
}

/// The end of a session.
enum Ended<T> {
    Complete(Box<Report>),
    /// A parallel connection replaces the session.
    Followed(T),
}

/// Outage: a time without a session, or with a silent session.
struct Outage<T> {
    began: Instant,
    calls: Calls<T>,
    /// Open parallel connection, and the time at which it replaces the silent session.
    candidate: Option<(T, Instant)>,
    /// Reason why every further call would fail.
    dead_end: Option<anyhow::Error>,
    /// Error of the session, if it has ended.
    lost: Option<TransferError>,
}

struct Outages<'a, C> {
    caller: &'a C,
    limit: Duration,
    watch: &'a dyn Watch,
    stop: &'a Stop,
    /// True until a session is lost.
    is_first: bool,
    schedule: Schedule,
}

impl<C: Caller> Outages<'_, C> {
    /// Runs a session until it ends or a parallel connection replaces it. Calls the peer while the session is silent, and
    /// after the session was lost.
    async fn around(
        &mut self,
        session: impl Future<Output = Result<Report, TransferError>>,
    ) -> Result<Ended<C::Connection>, Failed> {
        tokio::pin!(session);
        let mut ticks = interval(REPORT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut outage: Option<Outage<C::Connection>> = None;
        loop {
            let is_lost = outage.as_ref().is_some_and(|outage| outage.lost.is_some());
            tokio::select! {
                biased;
                outcome = &mut session, if !is_lost => match outcome {
                    Ok(report) => return Ok(Ended::Complete(Box::new(report))),
                    Err(error) if !self.goes_on_after(&error) => return Err(Failed::Session(error)),
                    Err(error) => {
                        self.watch.lost(&error, self.limit);
                        outage.get_or_insert_with(|| self.begin()).lost = Some(error);
                    }
                },
                () = progress(&mut outage, self.caller, &mut self.schedule), if outage.is_some() => {}
                // A running session itself obeys `stop`: it notifies its peer and ends.
                () = self.stop.requested(), if is_lost => return Err(Failed::Interrupted),
                _ = ticks.tick() => {
                    let is_silent = !self.limit.is_zero() && self.watch.unheard() >= SESSION_SILENCE_MAX;
                    match &outage {
                        None if is_silent => outage = Some(self.begin()),
                        // The session has recovered: drop the parallel call or its connection.
                        Some(outage_of_silence) if outage_of_silence.lost.is_none() && !is_silent => outage = None,
                        Some(under_way) => self.watch.waits(&under_way.figures()),
                        None => {}
                    }
                }
            }
            if let Some(under_way) = outage.take() {
                match self.settle(under_way)? {
                    Settled::Followed(next) => return Ok(Ended::Followed(next)),
                    Settled::GoesOn(under_way) => outage = Some(under_way),
                }
            }
        }
    }

    /// Returns true if a session that ended with this error is retried. A first session that is refused immediately is
    /// not retried: the peer is busy, and nothing was lost.
    fn goes_on_after(&self, error: &TransferError) -> bool {
        let is_refused = self.is_first && matches!(error, TransferError::Refused(_)) && !self.watch.has_progressed();
        !self.limit.is_zero() && error.may_be_resumed() && !is_refused
    }

    fn begin(&mut self) -> Outage<C::Connection> {
        let now = Instant::now();
        self.schedule.begin(now, self.watch.has_progressed());
        Outage { began: now, calls: Calls::default(), candidate: None, dead_end: None, lost: None }
    }

    /// Decides about an outage: replaces the session, ends the transfer, or continues the outage.
    fn settle(&self, mut outage: Outage<C::Connection>) -> Result<Settled<C::Connection>, Failed> {
        let now = Instant::now();
        if let Some((next, at)) = outage.candidate.take() {
            if outage.lost.is_some() || now >= at {
                self.watch.is_back(&outage.figures());
                return Ok(Settled::Followed(next));
            }
            outage.candidate = Some((next, at));
        }
        let figures = outage.figures();
        match (outage.lost.take(), outage.dead_end.take()) {
            (Some(lost), Some(error)) => return Err(Failed::Call { lost, error }),
            (Some(lost), None) if self.schedule.is_over(now, self.limit) => {
                return Err(Failed::Exhausted { lost, outage: figures });
            }
            // The silent session may still recover.
            (lost, dead_end) => (outage.lost, outage.dead_end) = (lost, dead_end),
        }
        Ok(Settled::GoesOn(outage))
    }
}

enum Settled<T> {
    Followed(T),
    GoesOn(Outage<T>),
}

/// Waits until a call succeeds or fails permanently, or until the parallel connection may replace the session.
async fn progress<C: Caller>(outage: &mut Option<Outage<C::Connection>>, caller: &C, schedule: &mut Schedule) {
    match outage {
        Some(Outage { candidate: Some((_, at)), .. }) => sleep_until(*at).await,
        Some(Outage { calls, candidate, dead_end: dead_end @ None, .. }) => match calls.next(caller, schedule).await {
            Ok(connection) => *candidate = Some((connection, Instant::now() + SESSION_SILENCE_MORE)),
            Err(error) => *dead_end = Some(error),
        },
        _ => std::future::pending().await,
    }
}

impl<T> Outage<T> {
    fn figures(&self) -> OutageFigures {
        OutageFigures {
            lasted: self.began.elapsed(),
            calls: self.calls.made(),
            is_lost: self.lost.is_some(),
            last_failure: self.calls.last_failure().map(|error| format!("{error:#}")),
        }
    }
}

#[cfg(test)]
mod tests;
