//! `dfcp send --listen`: sends files to receivers that connect.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use anyhow::ensure;
use dfcp_files::transport::{Acceptor, Transport};
use dfcp_files::{Root, SendOptions, Sender, TransferError, refuse};
use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::frame::Service;
use serde_json::Value;
use tokio::time::timeout;

use crate::admission::opening::Opening;
use crate::admission::pairs::Pairs;
use crate::admission::{Admission, Ways};
use crate::args::{ListenArg, SendArgs};
use crate::flags;
use crate::limits::{OPENING_MAX, SENDERS_DEFAULT};
use crate::monitor::Monitor;
use crate::serving::ending::SessionEnd;
use crate::serving::observer::SessionObserver;
use crate::serving::{Serving, ServingEnd, serve};
use crate::stats::StatsLine;
use crate::stop::{Interrupted, Stop};
use crate::{listening, net, output};

/// Protocol spoken on the connections.
const SERVICE: Service = Service::FilesToCaller;

/// Sends `roots` to the first admitted receiver, or with `--keep` to each, until interrupted.
pub(super) async fn run(
    args: &SendArgs,
    listen: &ListenArg,
    roots: Vec<Root>,
    options: SendOptions,
    stop: Stop,
) -> anyhow::Result<()> {
    let ways = Ways::prepare(&args.peers.admission(), &args.path, Ways::on_terminal())?;
    let pairs = Pairs::of_sender();
    let ways = ways.map(|ways| Ways { pairs: Some(Arc::clone(&pairs)), ..ways });
    let listener = net::listen(listen, &args.path, ways.as_ref()).await?;
    let address = listener.local_address()?;
    let monitor = Monitor::open(SERVICE, &args.audit, address)?;
    let mut stats = StatsLine::new(listener.endpoint(), args.json);
    let _metrics = monitor.serve_metrics(&args.metrics, listener.endpoint(), args.json).await?;
    net::announce(&args.path, args.json);
    let whom = if args.keep { " for receivers until Ctrl-C" } else { " for one receiver; Ctrl-C ends" };
    let call = |place: &str| listening::call(SERVICE, place);
    let reachable = listening::announce(address, whom, call, args.json, Value::Null);
    let open = |ways| Admission::open(ways, reachable.first(), SERVICE, !args.keep, args.json);
    let admission = ways.map(open).transpose()?;
    let returns_max = args.retry.limit(args.why_not_again().is_none());
    let serving =
        Serving { service: SERVICE, peers_max: SENDERS_DEFAULT, once: !args.keep, returns_max, json: args.json };
    stats.during(run_over((listener, serving), (admission, pairs), roots, options, &monitor, (args.json, stop))).await
}

/// Serves on an open listener.
pub(super) async fn run_over<A: Acceptor>(
    (acceptor, serving): (A, Serving),
    (admission, pairs): (Option<Admission>, Arc<Pairs>),
    roots: Vec<Root>,
    options: SendOptions,
    monitor: &Arc<Monitor>,
    (json, stop): (bool, Stop),
) -> anyhow::Result<()> {
    let bars = output::bars();
    let to_sessions = stop.clone();
    let served = serve(acceptor, serving, admission, monitor, &stop, move |connection, told| {
        let observer = SessionObserver::new(told, &bars, json, false);
        let key = connection.seal().and_then(|seal| seal.peer);
        let session = session(connection, Arc::clone(&observer), roots.clone(), options.clone());
        let (pairs, stop) = (Arc::clone(&pairs), to_sessions.clone());
        async move {
            // The reset of the connection notifies the receiver, as with a calling sender.
            let end = stop.cut(session).await.unwrap_or(SessionEnd::Incomplete);
            if end == SessionEnd::Complete {
                pairs.complete(key, &BTreeSet::new());
            }
            end
        }
    })
    .await?;
    let sentence = match served {
        ServingEnd::Once(all_sent) => {
            ensure!(
                all_sent,
                "not everything was sent; see the messages above, start it again, and let the receiver call again"
            );
            return Ok(());
        }
        ServingEnd::Stopped { under_way: 0 } if !serving.once => return Ok(()),
        ServingEnd::Stopped { under_way: 0 } => "interrupted before a receiver came: nothing was sent".to_owned(),
        ServingEnd::Stopped { under_way } => {
            let receivers =
                if under_way == 1 { "a receiver was".to_owned() } else { format!("{under_way} receivers were") };
            format!(
                "interrupted while {receivers} receiving; start this again, and let it be called again: it goes on where it was"
            )
        }
    };
    Err(Interrupted(sentence).into())
}

/// Serves one admitted receiver.
async fn session<T: Transport>(
    connection: T,
    observer: Arc<SessionObserver>,
    roots: Vec<Root>,
    options: SendOptions,
) -> SessionEnd {
    let mut opening = Opening::new(connection);
    let outcome = match greet(&mut opening).await {
        Ok(()) => {
            let sender = Sender::from(options).to_caller().observer(Arc::clone(&observer) as _);
            observer.watch(sender.send(opening, roots).finish()).await
        }
        Err(error) => {
            refuse(opening, SERVICE, Failure::new(FailureCode::Unsuited, flags::describe(&error))).await;
            Err(error)
        }
    };
    observer.end(&outcome, 0)
}

/// Reads the caller's preamble. A caller that is a sender must learn nothing about the files.
async fn greet<T: Transport>(opening: &mut Opening<T>) -> Result<(), TransferError> {
    let silent = |_| TransferError::Silent { seconds: OPENING_MAX.as_secs() };
    let preamble = match timeout(OPENING_MAX, opening.peek()).await.map_err(silent)? {
        Ok(preamble) => preamble,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(TransferError::PeerClosed),
        Err(error) => return Err(TransferError::Connection(error)),
    };
    SERVICE.check(preamble).map_err(|error| TransferError::from(error).at_sender())
}

#[cfg(test)]
mod tests;
