//! Bidirectional measurements, `perf client --bidir`. Each direction has its own data streams. Counts, statistics and
//! end markers of both directions share the first stream, which has one reader and one writer on each side.

mod account;
mod first_stream;
pub(super) mod shown;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dfcp_files::limits::{CLOSE_WAIT_MAX, SENDER_SILENCE_MAX};
use dfcp_files::transport::{Handle, Streams, Transport};
use dfcp_framing::perf::Request;
use tokio::io::BufReader;
use tokio::time::{Instant, timeout};

use self::account::Account;
use super::{Measured, Side, sink, source};
use crate::limits::PERF_TAIL_MAX;
use crate::session_error::SessionError;

/// Results of both directions, so far or final; both sides use the same names.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Both {
    /// Data from the client to the server.
    pub to_server: Measured,
    /// Data from the server to the client.
    pub to_client: Measured,
}

impl Both {
    /// Assigns the results of this `side` to their directions.
    fn new(side: Side, sent: Measured, received: Measured) -> Self {
        match side {
            Side::Client => Self { to_server: sent, to_client: received },
            Side::Server => Self { to_server: received, to_client: sent },
        }
    }

    /// Returns the displayed name and the results of each direction.
    pub fn named(&self) -> [(&'static str, &Measured); 2] {
        [("to server", &self.to_server), ("to client", &self.to_client)]
    }
}

/// Sends and receives as requested, over streams `beside` the first one, until the data of both directions is counted.
/// `on_counts` receives the counts of every report interval.
///
/// # Errors
/// Fails if the connection breaks or the peer violates the protocol before both directions are counted.
pub async fn measure<T: Transport>(
    handle: &Handle<T>,
    reader: BufReader<Handle<T>>,
    (request, side): (&Request, Side),
    beside: Arc<dyn Streams>,
    on_counts: impl FnMut(&Both),
) -> Result<Both, SessionError> {
    let account = Account::new(handle, request, side);
    let mut work = Box::pin(async {
        let own = async {
            tokio::try_join!(
                fill(&account, &*beside),
                absorb(&account, &*beside),
                first_stream::tell(&account, on_counts)
            )
            .map(|((), (), ())| ())
        };
        together(own, first_stream::hear(&account, reader)).await
    });
    let worked = tokio::select! {
        biased;
        () = account.counted() => {
            // Statistics become exact when all data is acknowledged; the counts are final already.
            timeout(PERF_TAIL_MAX, &mut work).await.unwrap_or(Err(SessionError::Silent { seconds: PERF_TAIL_MAX.as_secs() }))
        }
        worked = &mut work => worked,
    };
    match (account.total(), worked) {
        (Some(total), worked) => {
            if let Err(error) = worked {
                tracing::debug!(%error, "the measurement was not closed in order");
            }
            Ok(total)
        }
        (None, worked) => Err(worked.err().unwrap_or(SessionError::PeerClosed)),
    }
}

/// Runs both futures to completion. If `own` fails, its error is returned, unless the peer gives a reason.
async fn together(
    own: impl Future<Output = Result<(), SessionError>>,
    heard: impl Future<Output = Result<(), SessionError>>,
) -> Result<(), SessionError> {
    let (mut own, mut heard) = (pin!(own), pin!(heard));
    tokio::select! {
        done = &mut own => match done {
            Ok(()) => heard.await,
            Err(error) => match timeout(CLOSE_WAIT_MAX, heard).await {
                Ok(Err(reason @ SessionError::Refused(_))) => Err(reason),
                _ => Err(error),
            },
        },
        done = &mut heard => {
            done?;
            own.await
        }
    }
}

/// Sends this side's data until the peer has received all of it.
async fn fill<T: Transport>(account: &Account<'_, T>, beside: &dyn Streams) -> Result<(), SessionError> {
    let filled = source::streams::fill_all(account.handle, beside, account.request, &account.progress).await;
    filled.map_err(SessionError::Connection)?;
    account.progress.is_ended.store(true, Ordering::Relaxed);
    account.changed.notify_one();
    Ok(())
}

/// Counts the peer's data until every stream has ended.
async fn absorb<T: Transport>(account: &Account<'_, T>, beside: &dyn Streams) -> Result<(), SessionError> {
    sink::streams::count_all(beside, account.request.streams, &account.tally).await?;
    let silent = |_| SessionError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    timeout(SENDER_SILENCE_MAX, account.ended.notified()).await.map_err(silent)?;
    account.tally.lock().end(Instant::now());
    account.changed.notify_one();
    Ok(())
}
