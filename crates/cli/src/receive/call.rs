//! `dfcp receive --from`: the sender listens.

use std::sync::Arc;

use anyhow::ensure;
use dfcp_framing::frame::Service;
use indicatif::MultiProgress;

use crate::args::ReceiveArgs;
use crate::net;
use crate::net::again::{Answered, Redial};
use crate::progress::Display;
use crate::retry::{self, Account};
use crate::stop::Stop;
use crate::transfer::receive::receive_over;
use crate::transfer::target::Target;

/// Calls the sender at `from`, and receives what it sends into `target`.
pub(super) async fn run(args: &ReceiveArgs, from: &str, target: Target, stop: Stop) -> anyhow::Result<()> {
    net::announce(&args.path, args.json);
    let host = args.peers.host();
    let connected = tokio::select! {
        connected = net::connect(from, &args.path, &host) => connected?,
        () = stop.requested() => return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into()),
    };
    let limit = args.retry.limit(args.why_not_again().is_none());
    let (redial, first) = Redial::new(from, &args.path, connected);
    let account = Account::new(Display::new(&MultiProgress::new(), &first.peer, args.json, true), !limit.is_zero());
    // Whoever reads standard output is to know that a file came.
    let stored_min = u64::from(matches!(target, Target::Stream(_)));
    let session = |Answered { stream, peer }| {
        net::announce_peer(&stream, &peer, args.json);
        receive_over(stream, Service::FilesToCaller, target.clone(), Arc::clone(&account) as _, stop.clone())
    };
    match retry::run(first, &redial, limit, &*account, &stop, session).await {
        Ok(report) => {
            let report = account.finish(report);
            let all_stored = report.is_complete() && report.stored >= stored_min;
            ensure!(all_stored, "not everything was received; see the messages above and let the sender send it again");
            Ok(())
        }
        Err(failed) => {
            account.abandon();
            Err(failed.into_error(args.why_not_again(), |error| redial.explain(error)))
        }
    }
}
