//! `dfcp estimate server`: sends test packets to clients.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use dfcp_estimate::probing::{Change, Received, Server, ServerConfig, Step};
use dfcp_relay::is_of_the_past;
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::time::sleep_until;

use super::Clock;
use super::args::ServerArgs;
use crate::args::ListenArg;
use crate::metrics::text::Text;
use crate::metrics::{Exporter, Source};
use crate::stop::Stop;
use crate::units::human_duration;
use crate::{listening, output};

/// Size of the receive buffer: larger than any request, so that an overlong datagram is not truncated to a valid one.
const RECEIVE_BYTES: usize = 2 * dfcp_estimate::probing::DATAGRAM_BYTES_MAX;

/// Sends test packets until `stop`.
///
/// # Errors
/// Fails if the address cannot be used or its socket fails.
pub(super) async fn run(args: &ServerArgs, stop: &Stop) -> anyhow::Result<()> {
    let socket = listen(&args.listen).await?;
    let address = socket.local_addr()?;
    let counts = Arc::new(Counts::default());
    let _metrics = Exporter::start(&args.metrics, vec![Arc::clone(&counts) as _], args.json).await?;
    // Start the metrics before the listening line is printed: a script may query them as soon as it reads that line.
    let call = |place: &str| format!("dfcp estimate client {place}");
    listening::announce(address, " until Ctrl-C", call, args.json, Value::Null);
    let config = ServerConfig { clients_max: args.max_clients, ..ServerConfig::default() };
    serve(&socket, config, stop, &counts, |event| event.tell(args.json)).await
}

/// Counters that `--metrics` serves.
#[derive(Debug, Default)]
pub(super) struct Counts {
    clients: AtomicU64,
    began: AtomicU64,
    lost: AtomicU64,
    displaced: AtomicU64,
    sent: AtomicU64,
    not_sent: AtomicU64,
    received: AtomicU64,
}

impl Source for Counts {
    fn write(&self, text: &mut Text) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        text.gauge("dfcp_estimate_clients", "Clients that get test packets.", read(&self.clients));
        let help = "Measurements which clients have begun, or begun anew with another interval.";
        text.counter("dfcp_estimate_measurements_total", help, read(&self.began));
        let help = "Clients which got no more test packets because they were not heard any more.";
        text.counter("dfcp_estimate_clients_lost_total", help, read(&self.lost));
        let help = "Clients which got no more test packets because others of their address had most places, and another address none.";
        text.counter("dfcp_estimate_clients_displaced_total", help, read(&self.displaced));
        text.counter("dfcp_estimate_datagrams_received_total", "Datagrams received.", read(&self.received));
        let help = "Test packets and answers sent.";
        text.counter("dfcp_estimate_datagrams_sent_total", help, read(&self.sent));
        let help = "Test packets and answers which the system did not take.";
        text.counter("dfcp_estimate_datagrams_not_sent_total", help, read(&self.not_sent));
    }
}

impl Counts {
    /// Sends a datagram; a failed send is treated as loss.
    fn send(&self, socket: &UdpSocket, datagram: &[u8], to: SocketAddr) {
        let count = if socket.try_send_to(datagram, to).is_ok() { &self.sent } else { &self.not_sent };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn event(&self, event: Event) {
        match event {
            Event::Changed(_, Change::Began(_)) => self.began.fetch_add(1, Ordering::Relaxed),
            Event::Lost(_) => self.lost.fetch_add(1, Ordering::Relaxed),
            Event::Displaced(_) => self.displaced.fetch_add(1, Ordering::Relaxed),
            Event::Changed(_, Change::Ended) => return,
        };
    }
}

/// Change of the set of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Client joined, left or changed ([`Change`]).
    Changed(SocketAddr, Change),
    /// Client timed out.
    Lost(SocketAddr),
    /// Client was displaced by one from another address.
    Displaced(SocketAddr),
}

impl Event {
    fn tell(self, json: bool) {
        let (Self::Changed(client, _) | Self::Lost(client) | Self::Displaced(client)) = self;
        // A dual-stack socket reports IPv4 addresses as mapped.
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let (event, text) = match self {
            Self::Changed(_, Change::Began(interval)) => {
                ("began", format!("gets a test packet every {}", human_duration(interval)))
            }
            Self::Changed(_, Change::Ended) => ("ended", "has ended its measurement".to_owned()),
            Self::Lost(_) => ("lost", "is not heard any more and gets no more test packets".to_owned()),
            Self::Displaced(_) => (
                "displaced",
                "gets no more test packets: its address had most places, and another one needs one".to_owned(),
            ),
        };
        if json {
            output::json(&json!({ "event": event, "client": client }));
        } else {
            output::note(&format!("{client} {text}"));
        }
    }
}

/// Serves clients at `socket` and updates `counts`; `on_event` receives client events.
///
/// # Errors
/// Fails if the socket fails.
pub(super) async fn serve(
    socket: &UdpSocket,
    config: ServerConfig,
    stop: &Stop,
    counts: &Counts,
    mut on_event: impl FnMut(Event),
) -> anyhow::Result<()> {
    let mut on_event = |event| {
        counts.event(event);
        on_event(event);
    };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no random numbers")?;
    let (clock, mut server) = (Clock::start(), Server::new(config, seed));
    let mut buffer = [0; RECEIVE_BYTES];
    loop {
        while let Some(step) = server.poll(clock.now()) {
            match step {
                Step::Send(to, datagram) => counts.send(socket, datagram.as_ref(), to),
                Step::Ended(client) => on_event(Event::Lost(client)),
            }
        }
        counts.clients.store(server.clients() as u64, Ordering::Relaxed);
        let next = server.next_time().map(|next| clock.instant(next));
        let due = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        let (length, from) = tokio::select! {
            biased;
            () = due => continue,
            () = stop.requested() => return Ok(()),
            received = socket.recv_from(&mut buffer) => match received {
                Ok(received) => received,
                // The error, an ICMP message, belongs to an earlier answer.
                Err(error) if is_of_the_past(&error) => continue,
                Err(error) => return Err(error).context("the socket failed; start the server again"),
            },
        };
        counts.received.fetch_add(1, Ordering::Relaxed);
        let Received { answer, change, displaced } = server.receive(clock.now(), from, &buffer[..length]);
        if let Some(answer) = answer {
            counts.send(socket, answer.as_ref(), from);
        }
        if let Some(displaced) = displaced {
            on_event(Event::Displaced(displaced));
        }
        if let Some(change) = change {
            on_event(Event::Changed(from, change));
        }
    }
}

/// Binds to the first usable address.
async fn listen(at: &ListenArg) -> anyhow::Result<UdpSocket> {
    let mut failure = None;
    for address in at.addresses(true).await? {
        match bind(address) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = Some(error),
        }
    }
    let failure = failure.unwrap_or_else(|| io::Error::other("it has no address"));
    Err(failure).with_context(|| format!("cannot listen on {at}: is another program using it?"))
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}
