//! Calling end of a pipe: `dfcp pipe udp`.

use std::sync::Arc;

use dfcp_files::limits::RECEIVER_SILENCE_MAX;
use dfcp_files::reading::read_preamble;
use dfcp_files::transport::{Handle, Transport};
use dfcp_framing::frame::Service;
use dfcp_framing::limits::DATA_BYTES_MAX;
use dfcp_framing::messages::Worth;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};

use super::args::PipeUdpArgs;
use super::carry::{AGAIN_AFTER, Carried, Carrying, carry};
use super::local::Local;
use crate::net::{self, Connected};
use crate::qlog::Side;
use crate::session_error::SessionError;
use crate::stop::Stop;
use crate::{contact, output};

/// Carries datagrams until `stop`, and reconnects after a broken connection.
pub(super) async fn run(mut args: PipeUdpArgs, stop: Stop) -> anyhow::Result<()> {
    args.path.messages = true;
    anyhow::ensure!(!args.path.insecure_classic, "a classic connection has no messages: leave --insecure-classic away");
    let local = Arc::new(Local::listen(&args.input, args.in_from).await?);
    args.path.begin_recording(Side::Client)?;
    net::announce(&args.path, args.json);
    if !args.json {
        output::note(&format!("taking datagrams at {}; Ctrl-C ends", local.address()?));
    }
    if args.in_from.is_none() && !local.address()?.ip().to_canonical().is_loopback() {
        output::always(
            "warning: every host that reaches this port can put datagrams into the pipe, and have answers sent to it, or to an address that it \
             forges, when it is the first, or the program here is silent: name that program's address in --in-from",
        );
    }
    let mut was_open = false;
    loop {
        let error = match open_and_carry(&args, Arc::clone(&local), &stop, &mut was_open).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // Give up: a code opens only one connection, and after a failed first connection the user must act.
        if !was_open || args.host.code.is_some() {
            return Err(error);
        }
        output::always(&format!("{error:#}; trying again"));
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = sleep(AGAIN_AFTER) => {}
        }
    }
}

async fn open_and_carry(args: &PipeUdpArgs, local: Arc<Local>, stop: &Stop, was_open: &mut bool) -> anyhow::Result<()> {
    let Connected { stream, peer, contact } = tokio::select! {
        connected = net::connect(&args.to, &args.path, &args.host) => connected?,
        () = stop.requested() => return Ok(()),
    };
    net::announce_peer(&stream, &peer, args.json);
    *was_open = true;
    let worth = Worth { within: args.deadline, target_ppm: args.target };
    let carrying = Carrying { worth, order: args.order, json: args.json, peer: peer.clone() };
    let carried = session(stream, local, &carrying, stop.clone()).await;
    let carried = carried.map_err(|error| contact::explain(contact.as_ref(), error.into()))?;
    carried.tell(&peer, args.json);
    Ok(())
}

/// Carries datagrams on an open connection.
pub(super) async fn session<T: Transport>(
    connection: T,
    local: Arc<Local>,
    carrying: &Carrying,
    stop: Stop,
) -> Result<Carried, SessionError> {
    let handle = Handle::new(connection);
    let mut opening = Service::Pipe.preamble().to_vec();
    carrying.worth.encode_pipe(&mut opening);
    let mut writer = handle.clone();
    writer.write_all(&opening).await.map_err(SessionError::Connection)?;
    writer.flush().await.map_err(SessionError::Connection)?;
    let mut reader = BufReader::with_capacity(DATA_BYTES_MAX, handle.clone());
    timeout(RECEIVER_SILENCE_MAX, read_preamble(&mut reader, Service::Pipe))
        .await
        .map_err(|_| SessionError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() })??;
    carry(handle, reader, local, carrying, stop).await
}
