//! Engine of the relay: moves datagrams from sockets into links, and from links to sockets.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use dfcp_netem::{self as netem, Ecn, Link, PathEvent, Schedule};
use dfcp_time::Time;
use quinn_udp::{EcnCodepoint, RecvMeta};
use tokio::time::Sleep;

use super::batch::{Batch, Packet, Tag, Way};
use super::clients::{Client, Clients};
use super::limits::{BATCHES_PER_TURN, TIMESTAMP_AGE_MAX};
use super::socket::{ReceiveBuffer, Socket};
use super::stats::{Datagrams, DirectionStats, RelayStats};

/// One direction of the relay: its link, and the datagrams that left the link but could not be sent.
#[derive(Debug)]
struct Direction {
    link: Link<Packet>,
    not_sent: Datagrams,
}

impl Direction {
    fn new(link: Link<Packet>) -> Self {
        Self { link, not_sent: Datagrams::default() }
    }

    fn stats(&self) -> DirectionStats {
        DirectionStats::new(self.link.stats(), self.link.held(), self.not_sent)
    }

    fn push(&mut self, arrival: Time, bytes: &[u8], client: &Arc<Client>, ecn: Option<EcnCodepoint>, overhead: u32) {
        let tag = Tag { client: Arc::clone(client) };
        let ecn = ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
        let flow = u64::from(client.addr.port());
        self.link.push(arrival, Packet { bytes: bytes.to_vec(), overhead_bytes: overhead, flow, ecn, tag });
    }
}

/// Clock of the links: nanoseconds since the relay's start.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
}

impl Clock {
    fn now(self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn instant(self, time: Time) -> Instant {
        let since_start = time.since(Time::ZERO);
        // The time is centuries away, so any later wake-up suffices.
        self.start.checked_add(since_start).unwrap_or_else(|| self.start + Duration::from_secs(86_400))
    }

    /// Returns a datagram's arrival time at this machine, from the kernel's timestamp. So the wait in the socket buffer
    /// counts as part of the link's delay.
    fn arrival(self, meta: &RecvMeta) -> Time {
        let wall_clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
        let age = wall_clock.zip(meta.timestamp).and_then(|(now, received)| now.checked_sub(received));
        self.now() - age.filter(|&age| age <= TIMESTAMP_AGE_MAX).unwrap_or_default()
    }
}

/// Returns the length of the IP and UDP headers of a datagram exchanged with `addr`, bytes.
fn overhead_bytes(addr: SocketAddr) -> u32 {
    let is_ipv4 = match addr.ip() {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
    };
    if is_ipv4 { 28 } else { 48 }
}

/// State of the relay's task.
#[derive(Debug)]
pub(super) struct Engine {
    listener: Socket,
    target: SocketAddr,
    forward: Direction,
    backward: Direction,
    shared: Arc<Mutex<RelayStats>>,
    clock: Clock,
    clients: Clients,
    schedule: Schedule,
    /// Arrival time of the first client datagram, at which the schedule starts.
    first_at: Option<Time>,
    receive_buffer: ReceiveBuffer,
    batch: Batch,
    refused_packets: u64,
    stray_packets: u64,
}

impl Engine {
    pub(super) fn new(
        listener: Socket,
        target: SocketAddr,
        ([forward, backward], schedule): ([Link<Packet>; 2], Schedule),
        shared: Arc<Mutex<RelayStats>>,
    ) -> Self {
        Self {
            listener,
            target,
            forward: Direction::new(forward),
            backward: Direction::new(backward),
            shared,
            clock: Clock { start: Instant::now() },
            clients: Clients::new(target),
            schedule,
            first_at: None,
            receive_buffer: ReceiveBuffer::new(),
            batch: Batch::default(),
            refused_packets: 0,
            stray_packets: 0,
        }
    }

    /// Relays until the task is dropped or the listening socket fails.
    pub(super) async fn run(mut self) -> io::Error {
        let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        loop {
            self.wait(timer.as_mut()).await;
            // Push all arrivals before popping, so that the links see events in order.
            if let Err(error) = self.receive_from_clients() {
                return error;
            }
            self.receive_from_target();
            let now = self.clock.now();
            self.follow_schedule(now);
            self.release(now);
            self.clients.expire(now);
            self.publish();
            // Under load there is always work, so let other tasks run.
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a socket is readable or a packet is due. Tokio's timer rounds up to milliseconds, so at high rates
    /// datagrams leave in bursts.
    async fn wait(&mut self, mut timer: Pin<&mut Sleep>) {
        let links = [&self.forward.link, &self.backward.link];
        let next_event = self.first_at.zip(self.schedule.next_at()).map(|(first_at, at)| first_at + at);
        let due = links.into_iter().filter_map(Link::next_time).chain(next_event).min();
        if let Some(due) = due {
            timer.as_mut().reset(self.clock.instant(due).into());
        }
        poll_fn(|context| {
            let mut ready = self.listener.poll_readable(context);
            for client in self.clients.iter() {
                ready |= client.socket.poll_readable(context);
            }
            ready |= due.is_some() && timer.as_mut().poll(context).is_ready();
            if ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Applies due events of the schedule to the path.
    fn follow_schedule(&mut self, now: Time) {
        let Some(first_at) = self.first_at else { return };
        while let Some(event) = self.schedule.pop(now - first_at) {
            match event {
                PathEvent::Change(way, change) => {
                    let direction = if way == netem::Way::Up { &mut self.forward } else { &mut self.backward };
                    if let Err(error) = direction.link.change(now, &change) {
                        tracing::debug!(%error, "a change that makes no sense is left out");
                    }
                }
                PathEvent::Rebind => self.clients.rebind(now),
            }
        }
    }

    fn receive_from_clients(&mut self) -> io::Result<()> {
        for _ in 0..BATCHES_PER_TURN {
            if !self.listener.receive(&mut self.receive_buffer)? {
                break;
            }
            for (meta, bytes) in self.receive_buffer.datagrams() {
                let arrival = self.clock.arrival(meta);
                self.first_at.get_or_insert(arrival);
                match self.clients.of(meta.addr, meta.dst_ip, arrival) {
                    Ok(Some(client)) => {
                        self.forward.push(arrival, bytes, &client, meta.ecn, overhead_bytes(self.target));
                    }
                    Ok(None) => self.refused_packets += 1,
                    Err(error) => {
                        self.refused_packets += 1;
                        tracing::debug!(%error, addr = %meta.addr, "no socket for a new client");
                    }
                }
            }
        }
        Ok(())
    }

    fn receive_from_target(&mut self) {
        for (client, last_seen) in self.clients.iter_mut() {
            for _ in 0..BATCHES_PER_TURN {
                match client.socket.receive(&mut self.receive_buffer) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        // Other clients are unaffected. This client is removed at the next check, and may be admitted
                        // again with a new socket.
                        tracing::debug!(%error, addr = %client.addr, "cannot receive for a client");
                        *last_seen = Time::ZERO;
                        break;
                    }
                }
                for (meta, bytes) in self.receive_buffer.datagrams() {
                    if (meta.addr.ip(), meta.addr.port()) != (self.target.ip(), self.target.port()) {
                        self.stray_packets += 1;
                        continue;
                    }
                    let arrival = self.clock.arrival(meta);
                    *last_seen = arrival.max(*last_seen);
                    self.backward.push(arrival, bytes, client, meta.ecn, overhead_bytes(client.addr));
                }
            }
        }
    }

    /// Sends packets that have left their links.
    fn release(&mut self, now: Time) {
        let Self { forward, backward, batch, .. } = self;
        forward.not_sent += batch.send_due(&mut forward.link, now, &Way::ToTarget(self.target));
        backward.not_sent += batch.send_due(&mut backward.link, now, &Way::ToClients(&self.listener));
    }

    fn publish(&self) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.forward = self.forward.stats();
        shared.backward = self.backward.stats();
        shared.clients = self.clients.len() as u64;
        shared.clients_total = self.clients.admitted;
        shared.refused_packets = self.refused_packets;
        shared.stray_packets = self.stray_packets;
    }
}
