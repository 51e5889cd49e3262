//! `dfcp receive --from`: the sender listens.

use std::sync::Arc;

use anyhow::ensure;
use dfcp_framing::frame::Service;

use crate::args::ReceiveArgs;
use crate::net::{self, Connected};
use crate::progress::Display;
use crate::stop::{Interrupted, Stop};
use crate::transfer::error::TransferError;
use crate::transfer::receive::receive_over;
use crate::transfer::target::Target;
use crate::{contact, output};

/// Calls the sender at `from`, and receives what it sends into `target`.
pub(super) async fn run(args: &ReceiveArgs, from: &str, target: Target, stop: Stop) -> anyhow::Result<()> {
    net::announce(&args.path, args.json);
    let host = args.peers.host();
    let Connected { stream, peer, contact } = tokio::select! {
        connected = net::connect(from, &args.path, &host) => connected?,
        () = stop.requested() => return Err(Interrupted("interrupted before the sender answered".to_owned()).into()),
    };
    net::announce_peer(&stream, &peer, args.json);
    let display = Arc::new(Display::new(&output::bars(), &peer, args.json, true));
    // Whoever reads standard output is to know that a file came.
    let stored_min = u64::from(matches!(target, Target::Stream(_)));
    let outcome = receive_over(stream, Service::FilesToCaller, target, Arc::clone(&display) as _, stop).await;
    match outcome {
        Ok(report) => {
            display.finish(&report);
            let all_stored = report.is_complete() && report.stored >= stored_min;
            ensure!(all_stored, "not everything was received; see the messages above and let the sender send it again");
            Ok(())
        }
        Err(TransferError::Stopped) => {
            display.abandon();
            let next = if args.no_resume { "start it again" } else { "start it again: it goes on where it was" };
            Err(Interrupted(format!("interrupted while {peer} was sending; {next}")).into())
        }
        Err(error) => {
            display.abandon();
            Err(contact::explain(contact.as_ref(), error.into()))
        }
    }
}
