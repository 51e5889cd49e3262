//! Ping-pong: the client's end, and for bare UDP also the server's.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{say, server};
use crate::contenders::{Dial, udp_socket};
use crate::limits::{ANSWER_MAX, LATENCY_NS_MAX, MESSAGE_BYTES, WARM_UP_MESSAGES};
use crate::protocol::{Job, Latency, Message, Ready};

/// Classes of a printed histogram per power of ten.
const CLASSES_PER_DECADE: f64 = 5.0;

/// Sends one message after the other, each after the previous one has returned.
pub(super) async fn ping<D: Dial>(dialer: &D, messages: u64, seconds: f64) -> anyhow::Result<Latency> {
    let mut stream = dialer.dial().await?;
    let mut measured = Measured::new(messages, seconds)?;
    let (message, mut answer) = ([0x5a; MESSAGE_BYTES], [0; MESSAGE_BYTES]);
    while measured.goes_on() {
        let begin = Instant::now();
        let exchange = async {
            stream.write_all(&message).await?;
            stream.flush().await?;
            stream.read_exact(&mut answer).await
        };
        exchange.await.context("the ping-pong's connection broke")?;
        measured.record(begin.elapsed())?;
    }
    measured.latency()
}

/// [`ping`] with a bare datagram per message.
pub(super) fn ping_datagrams(job: &Job, messages: u64, seconds: f64) -> anyhow::Result<Latency> {
    let socket = datagram_socket(job)?;
    socket.connect(server(job)?.address)?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    let mut measured = Measured::new(messages, seconds)?;
    let (message, mut answer) = ([0x5a; MESSAGE_BYTES], [0; MESSAGE_BYTES]);
    while measured.goes_on() {
        let begin = Instant::now();
        socket.send(&message).context("cannot send a ping-pong datagram")?;
        socket.recv(&mut answer).context("a ping-pong datagram was lost")?;
        measured.record(begin.elapsed())?;
    }
    measured.latency()
}

/// Sends every datagram back until the process ends.
pub(super) fn echo_datagrams(job: &Job) -> anyhow::Result<()> {
    let socket = datagram_socket(job)?;
    say(&Message::Ready(Ready { address: socket.local_addr()?, key: None, bytes: None }))?;
    let mut buffer = [0; MESSAGE_BYTES];
    loop {
        let (bytes, from) = match socket.recv_from(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            result => result?,
        };
        socket.send_to(&buffer[..bytes], from)?;
    }
}

fn datagram_socket(job: &Job) -> anyhow::Result<UdpSocket> {
    udp_socket(SocketAddr::new(job.ip, 0)).context("cannot open a socket for UDP")
}

/// Round trips so far.
struct Measured {
    histogram: Histogram<u64>,
    to_warm_up: u64,
    messages_max: u64,
    until: Instant,
}

impl Measured {
    fn new(messages_max: u64, seconds: f64) -> anyhow::Result<Self> {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)?;
        let to_warm_up = WARM_UP_MESSAGES.min(messages_max / 10);
        Ok(Self { histogram, to_warm_up, messages_max, until: Instant::now() + Duration::from_secs_f64(seconds) })
    }

    fn goes_on(&self) -> bool {
        self.histogram.is_empty() || (self.histogram.len() < self.messages_max && Instant::now() < self.until)
    }

    fn record(&mut self, round_trip: Duration) -> anyhow::Result<()> {
        if self.to_warm_up > 0 {
            self.to_warm_up -= 1;
            return Ok(());
        }
        let ns = u64::try_from(round_trip.as_nanos())?;
        self.histogram.record(ns.clamp(1, LATENCY_NS_MAX)).context("a round trip took longer than a minute")
    }

    fn latency(&self) -> anyhow::Result<Latency> {
        ensure!(!self.histogram.is_empty(), "no message came back");
        let us = |ns: u64| ns as f64 / 1e3;
        let quantile = |quantile| us(self.histogram.value_at_quantile(quantile));
        Ok(Latency {
            messages: self.histogram.len(),
            mean_us: self.histogram.mean() / 1e3,
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: us(self.histogram.max()),
            histogram: classes(&self.histogram),
        })
    }
}

/// Round trips in each class, without empty classes; a class is named by its upper end, µs.
fn classes(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    let mut classes: Vec<(f64, u64)> = Vec::new();
    for recorded in histogram.iter_recorded() {
        let us = recorded.value_iterated_to() as f64 / 1e3;
        let upper_us = 10_f64.powf((us.log10() * CLASSES_PER_DECADE).ceil() / CLASSES_PER_DECADE);
        match classes.last_mut() {
            Some((last_us, count)) if (*last_us - upper_us).abs() < 1e-9 * upper_us => {
                *count += recorded.count_since_last_iteration();
            }
            _ => classes.push((upper_us, recorded.count_since_last_iteration())),
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_classes_of_known_round_trips() {
        let mut measured = Measured::new(1_000, 60.0).unwrap();
        for _ in 0..measured.to_warm_up {
            measured.record(Duration::from_secs(9)).unwrap();
        }
        for us in 1..=1_000 {
            assert!(measured.goes_on());
            measured.record(Duration::from_micros(us)).unwrap();
        }
        assert!(!measured.goes_on());
        let latency = measured.latency().unwrap();
        let near = |value: f64, wanted: f64| (value - wanted).abs() <= 0.002 * wanted;
        assert_eq!(latency.messages, 1_000);
        assert!(near(latency.p50_us, 500.0) && near(latency.p99_us, 990.0) && near(latency.max_us, 1_000.0));
        assert_eq!(latency.histogram.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
        let (upper_us, count) = *latency.histogram.iter().find(|(us, _)| near(*us, 100.0)).unwrap();
        // From 63.1 to 100 µs, with the histogram's own three digits at both ends.
        assert!(near(upper_us, 100.0) && (36..=38).contains(&count), "{count}");
    }

    #[test]
    fn without_a_round_trip_there_is_no_latency() {
        assert!(Measured::new(10, 0.0).unwrap().latency().is_err());
    }
}
