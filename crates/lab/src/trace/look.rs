//! Extraction of trace columns from the simulator's flows and links.

use dfcp_netem::Link;
use dfcp_sim::{End, FlowId, Observer, Packet, Simulation};

use super::columns::{FlowColumns, LinkColumns, ms};
use crate::plan::Kind;

/// Returns the present columns of flow `id`, whose transport is `kind`.
pub(super) fn flow<O: Observer>(simulation: &Simulation<O>, id: FlowId, kind: Kind) -> FlowColumns {
    let row = FlowColumns { delivered_bytes: simulation.flow(id).delivered_bytes, ..FlowColumns::default() };
    match (simulation.end(id, false), simulation.end(id, true)) {
        (End::TcpSender(sender), _) => {
            let (stats, segments) = (sender.stats(), f64::from(sender.cwnd_segments()));
            FlowColumns {
                cwnd_segments: Some(segments),
                cwnd_bytes: Some(segments * f64::from(sender.config().mss_bytes)),
                srtt_ms: sender.srtt().map(ms),
                retransmissions: Some(stats.retransmissions),
                timeouts: Some(stats.timeouts),
                ..row
            }
        }
        // Web traffic has many connections, so there is no single window or round-trip time.
        (End::WebSender(sender), _) => {
            let stats = sender.stats();
            FlowColumns { retransmissions: Some(stats.retransmissions), timeouts: Some(stats.timeouts), ..row }
        }
        (End::Dfcp(sender), End::Dfcp(receiver)) => FlowColumns {
            blocks_in_flight: Some(sender.blocks_in_flight() as f64),
            // Classic receivers send no reports, so the columns from reports stay empty.
            ..row
                .with_dfcp_sender(&sender.stats(), kind != Kind::Classic)
                .with_dfcp_receiver(&receiver.stats().received)
        },
        #[cfg(feature = "quic")]
        (End::Quic(sender), _) => {
            let path = sender.stats().map(|stats| stats.path);
            FlowColumns {
                cwnd_bytes: path.map(|path| path.cwnd as f64),
                srtt_ms: path.map(|path| ms(path.rtt)),
                lost_packets: path.map(|path| path.lost_packets),
                ..row
            }
        }
        _ => row,
    }
}

/// Returns the present columns of a link.
pub(super) fn link(link: &Link<Packet>) -> LinkColumns {
    let stats = link.stats();
    LinkColumns {
        packets_waiting: link.queue_len() as u64,
        offered: stats.offered.packets,
        drops: stats.queue_drops.packets,
        drops_early: Some(stats.early_drops.packets),
        lost: stats.lost.packets,
        delivered: stats.delivered.packets,
        marks: stats.ce_marked.packets,
    }
}
