//! `dfcp send`.

use std::sync::Arc;

use indicatif::MultiProgress;

use crate::args::SendArgs;
use crate::net::{self, Connected};
use crate::progress::Display;
use crate::transfer::Report;
use crate::transfer::source::Root;
use crate::transport::Transport;
use crate::{contact, transfer};

/// Sends the files.
///
/// # Errors
/// Anything but every file confirmed by the receiver.
pub async fn run(args: SendArgs) -> anyhow::Result<()> {
    let roots = Root::from_arguments(&args.files)?;
    net::announce(&args.path, args.json);
    let Connected { stream, peer, contact } = net::connect(&args.to, &args.path, &args.host).await?;
    let sent = run_over(stream, &peer, roots, args.json).await;
    sent.map_err(|error| contact::explain(contact.as_ref(), error))
}

/// The part after connecting.
///
/// # Errors
/// As [`run`].
pub async fn run_over<T: Transport>(connection: T, peer: &str, roots: Vec<Root>, json: bool) -> anyhow::Result<()> {
    net::announce_peer(&connection, peer, json);
    let display = Arc::new(Display::new(&MultiProgress::new(), peer, json, false));
    match transfer::send::send(connection, roots, Arc::clone(&display) as _).await {
        Ok(report) => {
            display.finish(&report);
            verdict(&report)
        }
        Err(error) => {
            display.abandon();
            Err(error.into())
        }
    }
}

/// One sentence which names what failed, up to a readable number.
fn verdict(report: &Report) -> anyhow::Result<()> {
    const NAMED_MAX: usize = 5;
    if report.is_complete() {
        return Ok(());
    }
    let mut named: Vec<_> =
        report.failures.iter().take(NAMED_MAX).map(|(name, why)| format!("{name}: {why}")).collect();
    let more = report.failed.saturating_sub(named.len() as u64);
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    anyhow::bail!("{} of {} entries were not sent ({})", report.failed, report.failed + report.stored, named.join("; "))
}
