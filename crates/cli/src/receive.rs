//! `dfcp receive`.

use std::sync::Arc;

use anyhow::Context;
use indicatif::MultiProgress;
use serde_json::json;

use crate::admission::{Admission, Ways};
use crate::args::ReceiveArgs;
use crate::progress::Display;
use crate::serving::{Serving, serve};
use crate::stats::StatsLine;
use crate::transfer::frame::Service;
use crate::transfer::store::Store;
use crate::transport::{Acceptor, Transport};
use crate::{net, output, transfer};

/// Receives until interrupted, or with `--once` from one sender who is admitted.
///
/// # Errors
/// Nobody could be admitted; the output directory or the address cannot be used; with `--once` also anything but every
/// file stored.
pub async fn run(args: ReceiveArgs) -> anyhow::Result<()> {
    let ways = Ways::prepare(&args.admission, &args.path, Ways::on_terminal())?;
    let store = Store::open(&args.output, args.force, !args.no_sync).with_context(|| {
        format!("cannot write to {}, choose another --output", output::printable(&args.output.to_string_lossy()))
    })?;
    let listener = net::listen(args.listen, &args.path, ways.as_ref())?;
    let mut stats = StatsLine::new(listener.endpoint(), args.json);
    let address = listener.local_address()?;
    net::announce(&args.path, args.json);
    if args.json {
        output::json(&json!({ "event": "listening", "address": address, "output": store.root().to_string_lossy() }));
    } else {
        let directory = output::printable(&store.root().to_string_lossy());
        output::note(&format!("listening on {address}, storing in {directory}; Ctrl-C ends"));
    }
    let open = |ways| Admission::open(ways, address, Service::Files, args.once, args.json);
    let admission = ways.map(open).transpose()?;
    stats.during(run_over(listener, admission, store, &args)).await
}

/// The part after listening.
///
/// # Errors
/// As [`run`].
pub async fn run_over<A: Acceptor>(
    acceptor: A,
    admission: Option<Admission>,
    store: Store,
    args: &ReceiveArgs,
) -> anyhow::Result<()> {
    let (store, bars, json) = (Arc::new(store), MultiProgress::new(), args.json);
    let serving = Serving { service: Service::Files, peers_max: args.max_senders, once: args.once };
    let all_stored = serve(acceptor, serving, admission, move |connection, peer| {
        session(connection, peer, Arc::clone(&store), bars.clone(), json)
    })
    .await?;
    anyhow::ensure!(all_stored, "not everything was received; see the messages above and let the sender send it again");
    Ok(())
}

/// One sender. Its failure is told, and ends nobody else's session.
async fn session<T: Transport>(
    connection: T,
    peer: String,
    store: Arc<Store>,
    bars: MultiProgress,
    json: bool,
) -> bool {
    let display = Arc::new(Display::new(&bars, &peer, json, true));
    match transfer::receive::receive(connection, store, Arc::clone(&display) as _).await {
        Ok(report) => {
            display.finish(&report);
            report.is_complete()
        }
        Err(error) => {
            display.abandon();
            if json {
                output::json(&json!({ "event": "error", "peer": peer, "message": error.to_string() }));
            } else {
                output::note(&format!("{peer}: {error}"));
            }
            false
        }
    }
}
