//! `dfcp receive --from`: calls a listening sender.

use std::sync::Arc;

use anyhow::ensure;
use dfcp_files::{Receiver, Target, TransferError};

use crate::args::ReceiveArgs;
use crate::net;
use crate::net::again::{Answered, Redial};
use crate::output;
use crate::progress::Display;
use crate::retry::{self, Account, Failed};
use crate::stop::{Interrupted, Stop};

/// Calls the sender at `from` and receives its files into `target`.
pub(super) async fn run(args: &ReceiveArgs, from: &str, target: Target, stop: Stop) -> anyhow::Result<()> {
    net::announce(&args.path, args.json);
    let host = args.peers.host();
    let connected = tokio::select! {
        connected = net::connect(from, &args.path, &host) => connected?,
        () = stop.requested() => return Err(Interrupted("interrupted before the sender answered".to_owned()).into()),
    };
    let peer = connected.peer.clone();
    let limit = args.retry.limit(args.why_not_again().is_none());
    let (redial, first) = Redial::new(from, &args.path, connected);
    let account = Account::new(Display::new(&output::bars(), &first.peer, args.json, true), !limit.is_zero());
    // The reader of standard output must learn whether a file arrived.
    let stored_min = u64::from(matches!(target, Target::Stream(_)));
    let receiver = Receiver::new(target).from_called().observer(Arc::clone(&account) as _);
    let session = |Answered { stream, peer }| {
        net::announce_peer(&stream, &peer, args.json);
        receiver.receive(stream).finish_unless(stop.requested())
    };
    match retry::run(first, &redial, limit, &*account, &stop, session).await {
        Ok(report) => {
            let report = account.finish(report);
            let all_stored = report.is_complete() && report.stored >= stored_min;
            ensure!(all_stored, "not everything was received; see the messages above and let the sender send it again");
            Ok(())
        }
        Err(Failed::Interrupted | Failed::Session(TransferError::Stopped)) => {
            account.abandon();
            let next = if args.no_resume { "start it again" } else { "start it again: it goes on where it was" };
            Err(Interrupted(format!("interrupted while {peer} was sending; {next}")).into())
        }
        Err(failed) => {
            account.abandon();
            Err(failed.into_error(args.why_not_again(), |error| redial.explain(error)))
        }
    }
}
