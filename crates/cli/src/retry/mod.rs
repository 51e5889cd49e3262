//! Transfers that outlive their sessions: a side that calls opens a new session when one is lost, and goes on.
//!
//! Only a session that was open is followed by another: what is wrong with the first call is wrong with the command line.
//!
//! A session may come back to life after a silence, so the peer is called *beside* it: the first of the two that hears from the peer goes
//! on, and an outage that is shorter than the idle timeout costs nothing. Errors that another session would meet as well end the transfer
//! (`causes.rs`).

mod account;
mod calls;
mod causes;
mod schedule;

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

pub use self::account::Account;
use self::calls::Calls;
pub use self::calls::{CallFailure, Caller};
pub use self::causes::{is_transient_call, is_transient_loss};
use self::schedule::Schedule;
use crate::limits::{REPORT_INTERVAL, SESSION_SILENCE_MAX, SESSION_SILENCE_MORE};
use crate::output::human_seconds;
use crate::stop::Stop;
use crate::transfer::Report;
use crate::transfer::error::TransferError;

/// Follows the sessions of a transfer, and shows the time between them.
pub trait Watch: Send + Sync {
    /// A session begins.
    fn begins(&self);
    /// Time since the peer was last heard in the open session.
    fn unheard(&self) -> Duration;
    /// True if that session has brought the transfer on.
    fn has_progressed(&self) -> bool;
    /// It is over, and the peer is called from now on, for so long at most.
    fn lost(&self, cause: &TransferError, limit: Duration);
    /// The peer has been called so often since the session fell silent or was lost.
    fn waits(&self, outage: &OutageFigures);
    /// Another session is open.
    fn is_back(&self, outage: &OutageFigures);
}

/// A time without a session.
#[derive(Debug, Clone, Default)]
pub struct OutageFigures {
    /// Its duration so far.
    pub lasted: Duration,
    /// Calls so far.
    pub calls: u32,
    /// True if the session is over, and not only silent.
    pub is_lost: bool,
    /// Failure of the last call that has ended.
    pub last_failure: Option<String>,
}

/// The end of a transfer without success.
#[derive(Debug)]
pub enum Failed {
    /// A session ended by an error after which no other is tried.
    Session(TransferError),
    /// Another session could not be opened, and never will.
    Call {
        /// The end of the last session.
        lost: TransferError,
        /// The reason that no other was opened.
        error: anyhow::Error,
    },
    /// The user has ended the program while there was no session.
    Interrupted,
    /// The time for it is over.
    Exhausted {
        /// The end of the last session.
        lost: TransferError,
        /// The time since then.
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
    /// The error for the user. `why_not_again` says why a lost connection is the end where it always is; `explain` knows the peer.
    pub fn into_error(
        self,
        why_not_again: Option<&str>,
        explain: impl FnOnce(anyhow::Error) -> anyhow::Error,
    ) -> anyhow::Error {
        match self {
            Self::Session(error) => match why_not_again.filter(|_| is_transient_loss(&error)) {
                Some(why) => anyhow::anyhow!("{error}; {why}"),
                None => explain(error.into()),
            },
            Self::Interrupted => io::Error::from(io::ErrorKind::Interrupted).into(),
            other => anyhow::anyhow!("{other}"),
        }
    }
}

/// Runs sessions over connections to one peer, the `first` of which is open, until one is complete. `limit` is how long it may take to get
/// on after a session was lost; 0 stands for a single session. While there is none, the transfer ends when it is told to `stop`.
///
/// # Errors
/// Reason why the transfer is not complete.
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
    // Over all outages: a peer that takes every call and ends every session is called no more often than one that takes none.
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
    /// Another connection is open.
    Followed(T),
}

/// A time without a session, or with one that is silent.
struct Outage<T> {
    began: Instant,
    calls: Calls<T>,
    /// A connection that is open, and when it replaces a session that stays silent.
    candidate: Option<(T, Instant)>,
    /// The reason that every further call would fail.
    dead_end: Option<anyhow::Error>,
    /// The error that ended the session, if it has ended.
    lost: Option<TransferError>,
}

struct Outages<'a, C> {
    caller: &'a C,
    limit: Duration,
    watch: &'a dyn Watch,
    stop: &'a Stop,
    /// No session was lost yet.
    is_first: bool,
    schedule: Schedule,
}

impl<C: Caller> Outages<'_, C> {
    /// Runs a session, and calls the peer while it is silent and once it is lost.
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
                // A session tells its peer, and then ends by itself.
                () = self.stop.requested(), if is_lost => return Err(Failed::Interrupted),
                _ = ticks.tick() => {
                    let is_silent = !self.limit.is_zero() && self.watch.unheard() >= SESSION_SILENCE_MAX;
                    match &outage {
                        None if is_silent => outage = Some(self.begin()),
                        // The call beside it, or its connection, is let go of.
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

    /// True if another session follows one that ended so. A peer that refuses the first one at once has no time for this side, and nothing was
    /// lost.
    fn goes_on_after(&self, error: &TransferError) -> bool {
        let is_refused = self.is_first && matches!(error, TransferError::Refused(_)) && !self.watch.has_progressed();
        !self.limit.is_zero() && is_transient_loss(error) && !is_refused
    }

    fn begin(&mut self) -> Outage<C::Connection> {
        let now = Instant::now();
        self.schedule.begin(now, self.watch.has_progressed());
        Outage { began: now, calls: Calls::default(), candidate: None, dead_end: None, lost: None }
    }

    /// Ends an outage that is over, one way or the other.
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
            // A silent session may still come back.
            (lost, dead_end) => (outage.lost, outage.dead_end) = (lost, dead_end),
        }
        Ok(Settled::GoesOn(outage))
    }
}

enum Settled<T> {
    Followed(T),
    GoesOn(Outage<T>),
}

/// Waits for a call that is answered, or fails for good, or for the time when the answered one counts.
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
