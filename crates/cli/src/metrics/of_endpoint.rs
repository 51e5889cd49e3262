//! Transport counters over all connections of an endpoint.

use std::sync::{Mutex, PoisonError};

use dfcp::{Endpoint, EndpointStats, Stats, Totals};
use dfcp_files::transport::PathSample;

use super::Source;
use super::text::{Kind, Text};

/// Metrics of a listener's endpoint.
#[derive(Debug)]
pub struct OfEndpoint {
    endpoint: Endpoint,
    /// Last values of counters that may decrease slightly: a decreasing counter would look like a restarted server.
    shown: Mutex<MayFall>,
}

/// Counters that may decrease, see [`Totals`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct MayFall {
    received: [u64; 5],
    wasted: [u64; 3],
    missing: u64,
}

impl MayFall {
    fn of(totals: &Totals) -> Self {
        let (received, wasted) = (totals.received, totals.wasted);
        Self {
            received: [received.useful, received.dependent, received.late, received.duplicate, received.refused],
            wasted: [wasted.dependent, wasted.late, wasted.refused],
            missing: totals.datagrams_missing,
        }
    }

    fn at_least(self, before: Self) -> Self {
        Self {
            received: std::array::from_fn(|i| self.received[i].max(before.received[i])),
            wasted: std::array::from_fn(|i| self.wasted[i].max(before.wasted[i])),
            missing: self.missing.max(before.missing),
        }
    }
}

impl OfEndpoint {
    /// Creates the metrics of this endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, shown: Mutex::default() }
    }
}

impl Source for OfEndpoint {
    fn write(&self, text: &mut Text) {
        let totals = self.endpoint.totals();
        let shown = {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            *shown = MayFall::of(&totals).at_least(*shown);
            *shown
        };
        write_connections(text, &self.endpoint.stats(), &totals);
        write_traffic(text, &totals);
        write_symbols(text, &totals, &shown);
        write_paths(text, &self.endpoint.connection_stats());
    }
}

fn write_connections(text: &mut Text, stats: &EndpointStats, totals: &Totals) {
    text.gauge("dfcp_connections", "Connections in any state.", stats.connections);
    text.gauge("dfcp_connections_max", "Connections accepted at once, at the most.", stats.connections_max);
    text.gauge("dfcp_half_open_connections", "Initiators whose proof is awaited.", stats.half_open);
    text.counter("dfcp_connections_established_total", "Connections whose handshake was done.", totals.established);
    text.counter("dfcp_calls_refused_total", "SYNs refused, or dropped for want of room.", stats.refused);
    text.counter("dfcp_cookies_sent_total", "Answers which asked for a cookie and kept nothing.", stats.cookies_sent);
    let help = "Datagrams which should have proven an initiator and did not.";
    text.counter("dfcp_proofs_failed_total", help, stats.proofs_failed);
    let help = "First messages on which the handshake was computed.";
    text.counter("dfcp_first_messages_computed_total", help, stats.first_messages_computed);
    text.gauge("dfcp_memory_bytes", "Memory of accepted connections, reserves included.", stats.memory_bytes);
    text.gauge("dfcp_memory_bytes_max", "What peers can make it hold at the very most.", stats.memory_bytes_max);
}

fn write_traffic(text: &mut Text, totals: &Totals) {
    text.counter("dfcp_datagrams_sent_total", "Datagrams sent.", totals.segments_sent);
    text.counter("dfcp_datagrams_received_total", "Datagrams received.", totals.segments_received);
    let help = "Datagrams of connections dropped on arrival.";
    text.counter("dfcp_datagrams_dropped_total", help, totals.segments_dropped);
    let help = "Datagrams among the dropped ones which did not authenticate.";
    text.counter("dfcp_datagrams_forged_total", help, totals.segments_forged);
    text.counter("dfcp_sent_bytes_total", "Bytes of datagrams sent, without UDP and IP headers.", totals.bytes_sent);
    let help = "Bytes of datagrams received, without UDP and IP headers.";
    text.counter("dfcp_received_bytes_total", help, totals.bytes_received);
    let help = "Bytes of streams which peers have acknowledged.";
    text.counter("dfcp_stream_acknowledged_bytes_total", help, totals.stream_bytes_acknowledged);
    text.counter("dfcp_stream_read_bytes_total", "Bytes of streams received in order.", totals.stream_bytes_read);
}

fn write_symbols(text: &mut Text, totals: &Totals, shown: &MayFall) {
    let sent = totals.sent;
    text.family(Kind::Counter, "dfcp_data_datagrams_sent_total", "Data datagrams sent, by reason.")
        .labelled(&[("reason", "source")], sent.source)
        .labelled(&[("reason", "repair")], sent.repair)
        .labelled(&[("reason", "proactive")], sent.proactive)
        .labelled(&[("reason", "probe")], sent.probe);
    let help = "Data datagrams received, by use: all but the useful ones are waste.";
    let mut received = text.family(Kind::Counter, "dfcp_data_datagrams_received_total", help);
    for (usage, count) in ["useful", "dependent", "late", "duplicate", "refused"].into_iter().zip(shown.received) {
        received.labelled(&[("use", usage)], count);
    }
    let help = "Data datagrams sent which arrived and were not needed, by cause, as peers report.";
    let mut wasted = text.family(Kind::Counter, "dfcp_data_datagrams_wasted_total", help);
    for (cause, count) in ["dependent", "late", "refused"].into_iter().zip(shown.wasted) {
        wasted.labelled(&[("cause", cause)], count);
    }
    let help = "Datagrams which peers numbered and which did not come; one number in 128 is skipped on purpose.";
    text.counter("dfcp_datagrams_missing_total", help, shown.missing);
}

/// Writes sums and extremes over the paths of current connections: a label per connection would be unbounded.
fn write_paths(text: &mut Text, connections: &[Stats]) {
    let rate: u64 = connections.iter().fold(0, |sum, stats| sum.saturating_add(stats.rate_bps));
    let help = "Sum of the rates at which connections may send data, bits of IP packets per second.";
    text.gauge("dfcp_send_rate_bits_per_second", help, rate);
    let rtt = connections.iter().map(|stats| stats.rtt.as_secs_f64()).fold(0.0, f64::max);
    text.gauge("dfcp_rtt_max_seconds", "The longest smoothed round-trip time of a connection.", rtt);
    let evident = |stats: &Stats| PathSample::evident_loss(stats.loss, stats.sent.source);
    let loss = connections.iter().filter_map(evident).fold(0.0, f64::max);
    text.gauge("dfcp_loss_max_ratio", "The highest estimated loss of a connection that sends data, 0 to 1.", loss);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_takes_something_back_waits_until_it_has_it_again() {
        let before = MayFall { received: [5, 1, 0, 0, 0], wasted: [3, 0, 0], missing: 9 };
        let after = MayFall { received: [4, 3, 0, 0, 0], wasted: [2, 1, 0], missing: 2 };
        let shown = after.at_least(before);
        assert_eq!(shown, MayFall { received: [5, 3, 0, 0, 0], wasted: [3, 1, 0], missing: 9 });
    }
}
