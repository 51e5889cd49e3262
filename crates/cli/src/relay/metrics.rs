//! Counts of a relay, for `--metrics`.

use dfcp_relay::{Counters, Datagrams, DirectionStats};

use crate::metrics::Source;
use crate::metrics::text::{Kind, Text};

/// Counters of a running relay.
pub(super) struct OfRelay(pub(super) Counters);

impl Source for OfRelay {
    fn write(&self, text: &mut Text) {
        let stats = self.0.stats();
        text.gauge("dfcp_relay_clients", "Client addresses served at the moment.", stats.clients);
        text.counter("dfcp_relay_clients_total", "Client addresses served since the start.", stats.clients_total);
        let help = "Datagrams dropped because no further client could be served.";
        text.counter("dfcp_relay_datagrams_refused_total", help, stats.refused_packets);
        let help = "Datagrams dropped because they came to a client's socket from elsewhere than the target.";
        text.counter("dfcp_relay_datagrams_stray_total", help, stats.stray_packets);
        let directions = [("forward", stats.forward), ("backward", stats.backward)];
        let help = "Datagrams which came to the relay or were copied there, by what became of them.";
        let mut datagrams = text.family(Kind::Counter, "dfcp_relay_datagrams_total", help);
        for (direction, stats) in directions {
            for (fate, count) in fates(&stats) {
                datagrams.labelled(&[("direction", direction), ("fate", fate)], count.packets);
            }
        }
        let help = "Bytes of these datagrams with IP and UDP headers.";
        let mut bytes = text.family(Kind::Counter, "dfcp_relay_bytes_total", help);
        for (direction, stats) in directions {
            for (fate, count) in fates(&stats) {
                bytes.labelled(&[("direction", direction), ("fate", fate)], count.bytes);
            }
        }
        let help = "Datagrams among these which the link changed.";
        let mut changed = text.family(Kind::Counter, "dfcp_relay_datagrams_impaired_total", help);
        for (direction, stats) in directions {
            let how = [
                ("corrupted", stats.corrupted),
                ("duplicated", stats.duplicated),
                ("reordered", stats.reordered),
                ("marked", stats.marked),
            ];
            for (how, count) in how {
                changed.labelled(&[("direction", direction), ("how", how)], count.packets);
            }
        }
        let help = "Datagrams which wait in the queue or travel.";
        let mut held = text.family(Kind::Gauge, "dfcp_relay_datagrams_held", help);
        for (direction, stats) in directions {
            held.labelled(&[("direction", direction)], stats.on_the_way.packets);
        }
    }
}

/// Returns the datagrams that have left the link, by outcome.
fn fates(stats: &DirectionStats) -> [(&'static str, Datagrams); 5] {
    [
        ("forwarded", stats.forwarded),
        ("not_sent", stats.not_sent),
        ("lost", stats.lost),
        ("queue_full", stats.queue_drops),
        ("blackout", stats.blackout_drops),
    ]
}
