//! `dfcp receive`: receives files as a listener, or from a listening sender.

mod apart;
mod call;
mod partials;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use anyhow::{Context, ensure};
use dfcp_files::limits::FILE_STREAMS_MAX;
use dfcp_files::transport::{Acceptor, Transport};
use dfcp_files::{OTHERS_WRITE, Receiver, STANDARD_STREAM, Scope, Store, StoreOptions, Target};
use dfcp_framing::frame::Service;
use dfcp_framing::{printable, printable_path};
use indicatif::MultiProgress;
use serde_json::json;

use self::apart::Trusted;
use crate::admission::pairs::Pairs;
use crate::admission::{Admission, Ways};
use crate::args::ReceiveArgs;
use crate::identity::{ConfigDir, PairedTransfers};
use crate::monitor::{self, Monitor};
use crate::qlog::Side;
use crate::serving::ending::SessionEnd;
use crate::serving::observer::SessionObserver;
use crate::serving::{Serving, ServingEnd, serve};
use crate::stats::StatsLine;
use crate::stop::{Interrupted, Stop};
use crate::{listening, net, output};

/// Receives until interrupted or `stop`. With `--once`, ends after one admitted sender; with `--from`, after the sender
/// that it connects to.
///
/// # Errors
/// Fails if no sender could be admitted, or the output directory or the address cannot be used; with `--once`, also unless every file is
/// stored.
pub async fn run(mut args: ReceiveArgs, stop: Stop) -> anyhow::Result<()> {
    dfcp_files::raise_limit();
    if args.forget {
        return forget(args.json);
    }
    if args.partials {
        return partials::list(&args.output, args.json);
    }
    // A single file needs only the first stream.
    args.path.peer_streams = if is_standard_output(&args) { 0 } else { FILE_STREAMS_MAX };
    if let Some(from) = args.from.clone() {
        let target = open_target(&args)?;
        args.path.begin_recording(Side::Client)?;
        return call::run(&args, &from, target, stop).await;
    }
    let listen = args.listen.clone().context("give --listen PORT, or --from HOST:PORT")?;
    let ways = Ways::prepare(&args.peers.admission(), &args.path, Ways::on_terminal())?;
    let target = open_target(&args)?;
    let pairs = pairs(&target, ways.as_ref())?;
    let ways = ways.map(|ways| Ways { pairs: pairs.clone(), ..ways });
    args.path.begin_recording(Side::Server)?;
    let listener = net::listen(&listen, &args.path, ways.as_ref()).await?;
    let address = listener.local_address()?;
    let monitor = Monitor::open(Service::Files, &args.audit, address)?;
    let mut stats = StatsLine::new(listener.endpoint(), args.json);
    let _metrics = monitor.serve_metrics(&args.metrics, listener.endpoint(), args.json).await?;
    net::announce(&args.path, args.json);
    let once = args.once || matches!(target, Target::Stream(_));
    let (doing, output) = match &target {
        Target::Stream(_) => (", for one file to standard output; Ctrl-C ends".to_owned(), None),
        Target::Directory(store) => {
            let until =
                if once { "until one sender is done" } else { "until Ctrl-C (with --once, until one sender is done)" };
            (format!(", storing in {} {until}", printable_path(store.path())), Some(store.path().to_string_lossy()))
        }
    };
    let reachable = listening::announce(
        address,
        &doing,
        |place| listening::call(Service::Files, place),
        args.json,
        json!({ "output": output }),
    );
    let open = |ways| Admission::open(ways, reachable.first(), Service::Files, once, args.json);
    let admission = ways.map(open).transpose()?;
    stats.during(run_over(listener, (admission, pairs), target, &monitor, &args, stop)).await
}

/// Returns the resumable transfers that were paired by code; `None` for standard output and for plaintext connections.
fn pairs(target: &Target, ways: Option<&Ways>) -> anyhow::Result<Option<Arc<Pairs>>> {
    let (Target::Directory(store), Some(_)) = (target, ways) else { return Ok(None) };
    let shown = || format!("cannot look at {}", printable_path(store.path()));
    Pairs::of_receiver(&ConfigDir::of_user()?, store.path()).map(Some).with_context(shown)
}

/// Forgets all transfers that were paired by code.
fn forget(json: bool) -> anyhow::Result<()> {
    let count = PairedTransfers::of(&ConfigDir::of_user()?).forget(SystemTime::now())?;
    if json {
        output::json(&json!({ "event": "forgotten", "transfers": count }));
    } else {
        output::note(&format!("transfers begun by a code that are forgotten: {count}"));
    }
    Ok(())
}

fn is_standard_output(args: &ReceiveArgs) -> bool {
    args.output.as_os_str() == STANDARD_STREAM
}

/// Opens the output directory, or standard output.
fn open_target(args: &ReceiveArgs) -> anyhow::Result<Target> {
    if !is_standard_output(args) {
        return Ok(Arc::new(open_store(args)?).into());
    }
    ensure!(!args.json, "--json and --output - both use standard output: leave one of them out");
    Ok(Target::stream(std::io::stdout(), args.max_bytes))
}

/// Opens the output directory. Fails if writing there would endanger this user's keys.
fn open_store(args: &ReceiveArgs) -> anyhow::Result<Store> {
    let options = StoreOptions {
        replace: args.force.into(),
        sync: !args.no_sync,
        preserve_modes: args.preserve_modes,
        session_bytes_max: args.max_bytes,
        keep_unfinished: !args.no_resume,
        allow_update: args.allow_update,
        allow_delete: args.allow_delete.into(),
    };
    // Check before anything is created in the output directory.
    Trusted::of(&args.peers.admission(), &args.audit, args.path.recorded_files()).check_apart(&args.output)?;
    let shown = |path: &Path| printable(&path.to_string_lossy());
    let store = Store::open(&args.output, options)
        .with_context(|| format!("cannot write to {}, choose another --output", shown(&args.output)))?;
    let mode = store.directory_mode().with_context(|| format!("cannot look at {}", shown(store.path())))?;
    if mode & OTHERS_WRITE != 0 {
        output::always(&format!(
            "warning: {} has mode {mode:04o}, so other users can replace or remove what is stored there; choose another \
             --output, or run: chmod go-w {}",
            shown(store.path()),
            shown(store.path())
        ));
    }
    let removed = store.remove_abandoned(SystemTime::now());
    if removed > 0 {
        output::note(&format!("removed unfinished files that no receiver holds, a week old or older: {removed}"));
    }
    Ok(store)
}

/// Receives on an open listener.
///
/// # Errors
/// Fails as [`run`] does.
pub async fn run_over<A: Acceptor>(
    acceptor: A,
    (admission, pairs): (Option<Admission>, Option<Arc<Pairs>>),
    target: Target,
    monitor: &Arc<Monitor>,
    args: &ReceiveArgs,
    stop: Stop,
) -> anyhow::Result<()> {
    let (bars, json) = (output::bars(), args.json);
    let once = args.once || matches!(target, Target::Stream(_));
    let returns_max = args.retry.limit(args.why_not_again().is_none());
    let serving = Serving { service: Service::Files, peers_max: args.max_senders, once, returns_max, json };
    let to_sessions = stop.clone();
    let is_first = Arc::new(AtomicBool::new(!once));
    let served = serve(acceptor, serving, admission, monitor, &stop, move |connection, told| {
        let session = session(connection, told, (target.clone(), pairs.clone()), bars.clone(), json, to_sessions.clone());
        let (is_first, stop) = (Arc::clone(&is_first), to_sessions.clone());
        async move {
            let end = session.await;
            if is_first.swap(false, Ordering::Relaxed) && !json && !stop.is_requested() {
                output::note(
                    "still listening for further senders; Ctrl-C ends this (with --once it ends after the first sender)",
                );
            }
            end
        }
    })
    .await?;
    let sentence = match served {
        ServingEnd::Once(all_stored) => {
            ensure!(all_stored, "not everything was received; see the messages above and let the sender send it again");
            return Ok(());
        }
        // An idle receiver may be stopped at any time: this is success.
        ServingEnd::Stopped { under_way: 0 } if !once => return Ok(()),
        ServingEnd::Stopped { under_way: 0 } => "interrupted before a sender came: nothing was received".to_owned(),
        ServingEnd::Stopped { under_way } => {
            let senders = if under_way == 1 { "a sender was".to_owned() } else { format!("{under_way} senders were") };
            let next = if args.no_resume { "from the beginning" } else { "which goes on where it was" };
            format!("interrupted while {senders} sending; start this again, and send again there, {next}")
        }
    };
    Err(Interrupted(sentence).into())
}

/// Serves one sender. A failure is reported and does not affect other sessions.
async fn session<T: Transport>(
    connection: T,
    told: monitor::Session,
    (target, pairs): (Target, Option<Arc<Pairs>>),
    bars: MultiProgress,
    json: bool,
    stop: Stop,
) -> SessionEnd {
    let (key, by) = (connection.seal().and_then(|seal| seal.peer), told.by());
    let scope = pairs.as_ref().map_or_else(|| Arc::new(Scope::everything()), |pairs| pairs.scope(key, by));
    let observer = SessionObserver::new(told, &bars, json, true);
    // The reader of standard output needs at least one file.
    let stored_min = u64::from(matches!(target, Target::Stream(_)));
    let receiver = Receiver::new(target).within(Arc::clone(&scope)).observer(Arc::clone(&observer) as _);
    let received = receiver.receive(connection).finish_unless(async move { stop.requested().await });
    let outcome = observer.watch(received).await;
    if let (Some(pairs), Ok(report)) = (pairs, &outcome)
        && report.is_complete()
    {
        pairs.complete(key, &scope.begun());
    }
    observer.end(&outcome, stored_min)
}

#[cfg(test)]
mod tests {
    use dfcp_files::TransferError;
    use tokio::time::Instant;

    use super::*;
    use crate::limits::GOODBYE_MAX;
    use crate::progress::Display;

    /// Slowest shutdown: neither pending answers nor the close get through.
    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_stopped_ends_in_time_although_its_sender_reads_nothing() {
        let (ask, stop) = Stop::new();
        let (_sender, ours) = tokio::io::duplex(1);
        let display = Arc::new(Display::new(&MultiProgress::new(), "somebody", true, true));
        let receiver = Receiver::new(Target::stream(std::io::sink(), None)).observer(display);
        let session = receiver.receive(ours).finish_unless(stop.requested());
        ask.send(true).unwrap();
        let asked = Instant::now();
        assert!(matches!(session.await, Err(TransferError::Stopped)));
        assert!(asked.elapsed() < GOODBYE_MAX, "{:?}", asked.elapsed());
    }
}
