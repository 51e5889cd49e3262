//! `dfcp estimate client`: measures the path from a server to this machine.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use dfcp_estimate::probing::{Client, ClientError, DATAGRAM_BYTES_MAX, Progress};
use dfcp_estimate::{BusyPeriod, Config};
use dfcp_relay::is_of_the_past;
use dfcp_time::Time;
use serde_json::json;
use tokio::net::UdpSocket;
use tokio::time::sleep_until;

use super::Clock;
use super::args::ClientArgs;
use super::figures::{Figures, Periods};
use crate::output;
use crate::resolve::resolve;
use crate::stop::Stop;
use crate::units::{human_duration, human_rate};

/// Size of the receive buffer: larger than any answer, so that an overlong datagram is not truncated to a valid one.
const RECEIVE_BYTES: usize = 2 * DATAGRAM_BYTES_MAX;

/// Runs one measurement and prints the estimate.
///
/// # Errors
/// Fails if the server is unreachable or refuses, the traffic cannot be counted, or no busy period occurred.
pub(super) async fn run(args: &ClientArgs, stop: &Stop) -> anyhow::Result<()> {
    let config = args.model.apply(Config::new(args.interval)).context("these times do not go together")?;
    let addresses = resolve(&args.server).await?;
    let mut failure = None;
    for address in addresses {
        match measure_at(address, args, config, stop).await {
            Ok(measured) => return report(args, address, &measured),
            // Another address of the server may be reachable.
            Err(error) if matches!(error.downcast_ref(), Some(ClientError::NoAnswer)) => {
                failure = Some(error.context(format!("{address}")));
            }
            Err(error) => return Err(error.context(format!("{address}"))),
        }
    }
    Err(failure.unwrap_or_else(|| anyhow::anyhow!("{} has no address, check the name", args.server)))
}

/// Completed measurement.
struct Measured {
    figures: Figures,
    interface: Option<String>,
}

/// Function that returns the number of all IP bytes received so far.
type Count<'a> = &'a (dyn Fn() -> anyhow::Result<u64> + Send + Sync);

async fn measure_at(address: SocketAddr, args: &ClientArgs, config: Config, stop: &Stop) -> anyhow::Result<Measured> {
    let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(address).await.context("there is no route; check the address and the network")?;
    let (interface, count) = counter(args, &socket)?;
    if !args.json {
        let counted = interface
            .as_ref()
            .map_or_else(|| "nothing else is counted".to_owned(), |name| format!("{name} counts what arrives"));
        let interval = human_duration(args.interval);
        output::note(&format!(
            "{address}: a test packet every {interval}; {counted}. Use the network meanwhile; Ctrl-C ends"
        ));
    }
    let on_period = |at: Duration, period: &BusyPeriod| {
        if !args.json {
            let (seconds, rate) = (period.duration().as_secs_f64(), human_rate(period.rate_bps()));
            output::progress(&format!("{:7.1} s  busy for {seconds:5.2} s  {rate}", at.as_secs_f64()));
        }
    };
    let figures = measure(&socket, config, args.duration, &*count, stop, on_period).await?;
    Ok(Measured { figures, interface })
}

type OwnedCount = Box<dyn Fn() -> anyhow::Result<u64> + Send + Sync>;

/// Returns the traffic counter of the interface, and the interface's name.
#[cfg(target_os = "linux")]
fn counter(args: &ClientArgs, socket: &UdpSocket) -> anyhow::Result<(Option<String>, OwnedCount)> {
    use super::counter::Counter;
    if args.probes_only {
        return Ok((None, Box::new(|| Ok(0))));
    }
    let counter = match &args.interface {
        Some(name) => Counter::named(name)?,
        None => Counter::of_address(socket.local_addr()?.ip())?,
    };
    Ok((Some(counter.name().to_owned()), Box::new(move || counter.bytes())))
}

#[cfg(not(target_os = "linux"))]
fn counter(args: &ClientArgs, _: &UdpSocket) -> anyhow::Result<(Option<String>, OwnedCount)> {
    anyhow::ensure!(
        args.probes_only,
        "what arrives is counted on Linux only: give --probes-only, record meanwhile with tcpdump -w, and use dfcp estimate trace"
    );
    Ok((None, Box::new(|| Ok(0))))
}

/// Measures against the server at the other end of `socket`. Calls `on_period` at the end of each busy period, with the
/// time since the first test packet.
///
/// # Errors
/// Fails if the server is unreachable or refuses, or if `count` fails.
async fn measure(
    socket: &UdpSocket,
    config: Config,
    duration: Duration,
    count: Count<'_>,
    stop: &Stop,
    mut on_period: impl FnMut(Duration, &BusyPeriod),
) -> anyhow::Result<Figures> {
    let mut session = [0; 8];
    getrandom::fill(&mut session).context("the system gives no random numbers")?;
    let clock = Clock::start();
    let mut client = Client::new(clock.now(), config, u64::from_ne_bytes(session))?;
    let (mut periods, mut began) = (Periods::default(), None);
    let mut buffer = [0; RECEIVE_BYTES];
    loop {
        while let Some(datagram) = client.poll(clock.now())? {
            // A failed send is treated as loss: the client retransmits.
            drop(socket.try_send(datagram.as_ref()));
        }
        let now = clock.now();
        let end = began.map(|began| began + duration);
        if end.is_some_and(|end| now >= end) {
            break;
        }
        let next = client.next_time().min(end.unwrap_or(Time::MAX));
        let length = tokio::select! {
            biased;
            received = socket.recv(&mut buffer) => match received {
                Ok(length) => length,
                // After the start, a refused connection may be a server restart or a forged ICMP message.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && began.is_none() => {
                    bail!("nothing listens there: check that `dfcp estimate server` runs, and that the port is its --listen port")
                }
                Err(error) if is_of_the_past(&error) => continue,
                Err(error) => return Err(error).context("the socket failed; check the network"),
            },
            () = stop.requested() => break,
            () = sleep_until(clock.instant(next)) => continue,
        };
        let now = clock.now();
        let progress = client.receive(now, &buffer[..length], count()?)?;
        let Some(Progress::Probe(period)) = progress else { continue };
        let began = *began.get_or_insert(now);
        if let Some(period) = period {
            on_period(now.since(began), &period);
            periods.add(period);
        }
    }
    // Without this message the server sends for 10 s more.
    drop(socket.try_send(client.stop().as_ref()));
    let now = clock.now();
    Ok(Figures::new(client.estimator(), periods, began.unwrap_or(now), now))
}

fn report(args: &ClientArgs, server: SocketAddr, measured: &Measured) -> anyhow::Result<()> {
    if args.json {
        let mut object = json!({ "server": server, "interface": measured.interface });
        if let (Some(object), serde_json::Value::Object(figures)) = (object.as_object_mut(), measured.figures.to_json())
        {
            object.extend(figures);
        }
        output::json(&object);
    } else {
        measured.figures.lines().iter().for_each(|line| output::line(line));
    }
    if args.probes_only { Ok(()) } else { measured.figures.check() }
}

#[cfg(test)]
mod tests;
