//! `dfcp send`: sends files to a listening receiver, or as a listener.

mod listen;

use std::sync::Arc;

use anyhow::Context;
use dfcp_files::limits::PATTERNS_MAX;
use dfcp_files::{Exclude, Permission, Report, Root, SendOptions, Sender};
use dfcp_framing::frame::Service;

use crate::args::SendArgs;
use crate::flags;
use crate::net;
use crate::net::again::{Answered, Redial};
use crate::output;
use crate::progress::Display;
use crate::qlog::Side;
use crate::retry::{self, Account};
use crate::stop::Stop;

/// Sends the files. With `--listen`, `stop` ends the listener.
///
/// # Errors
/// Fails unless the receiver confirms every file.
pub async fn run(mut args: SendArgs, stop: Stop) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.exclude.len() <= PATTERNS_MAX,
        "--exclude is given more than {PATTERNS_MAX} times: give fewer"
    );
    let exclude = Exclude::new(&args.exclude)
        .map_err(|sentence| anyhow::anyhow!("--exclude: {sentence}; give another pattern"))?;
    let roots = Root::from_arguments(&args.files, args.name.as_deref()).map_err(|error| flags::root_error(&error))?;
    anyhow::ensure!(
        args.name.is_none() || !args.peers.reads_code(),
        "standard input cannot be both the code and a file: give the code as --code CODE"
    );
    dfcp_files::raise_limit();
    args.path.begin_recording(if args.listen.is_some() { Side::Server } else { Side::Client })?;
    let options = SendOptions {
        resume: !args.no_resume,
        checksum: args.checksum,
        delta: args.delta,
        dry_run: args.dry_run,
        delete: args.delete,
        links: args.links,
        follow: Permission::NEVER,
        strict: args.strict,
        exclude: Arc::new(exclude),
        service: Service::Files,
    };
    if let Some(place) = &args.listen {
        return listen::run(&args, place, roots, options, stop).await;
    }
    let to = args.to.as_deref().context("give HOST:PORT, or --listen PORT")?;
    net::announce(&args.path, args.json);
    let limit = args.retry.limit(args.why_not_again().is_none());
    let connected = net::connect(to, &args.path, &args.peers.host()).await?;
    let (redial, first) = Redial::new(to, &args.path, connected);
    let display = Display::new(&output::bars(), &first.peer, args.json, false);
    let display = if args.dry_run { display.of_dry_run() } else { display };
    let account = Account::new(display, !limit.is_zero());
    let tells_of_delta = args.delta && !args.json;
    let sender = Sender::from(options).observer(Arc::clone(&account) as _);
    let session = |Answered { stream, peer }| {
        net::announce_peer(&stream, &peer, args.json);
        sender.send(stream, roots.clone()).finish()
    };
    match retry::run(first, &redial, limit, &*account, &Stop::never(), session).await {
        Ok(report) => {
            let report = account.finish(report);
            if tells_of_delta && report.copied == 0 && report.stored > report.directories + report.links {
                output::note(NOTHING_COPIED);
            }
            verdict(&report)
        }
        Err(failed) => {
            account.abandon();
            Err(failed.into_error(args.why_not_again(), |error| redial.explain(error)))
        }
    }
}

/// Note that is printed if `--delta` found nothing to copy.
const NOTHING_COPIED: &str = "  --delta: nothing was copied there: the receiver has no older version of 256 KiB or more that this key has sent, or may not \
                              replace it (--force there), or they have nothing in common";

/// Turns an incomplete transfer into an error of one sentence; failures and reasons were printed before.
fn verdict(report: &Report) -> anyhow::Result<()> {
    if report.is_complete() {
        return Ok(());
    }
    if report.failed == 0 {
        anyhow::bail!(
            "everything else was sent, but --strict does not allow that something is left out; see above what and why"
        );
    }
    let all = report.failed + report.stored + report.unchanged + report.deleted + report.wanted;
    anyhow::bail!(
        "{} of {all} entries were not sent; see the reasons above, and send again what is missing",
        report.failed
    )
}
