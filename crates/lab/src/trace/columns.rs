//! What the lines of a trace say.

use dfcp_netem::{Link, LinkStats};
use dfcp_sim::{End, FlowId, Observer, Packet, Simulation};

use crate::plan::Kind;

/// A value of a line. `None` where it has no meaning for the transport, or nothing is known yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Column {
    /// Counted since the start; a line says how many more than the line before.
    Count(Option<u64>),
    /// As it is at the end of a bin.
    State(Option<f64>),
}

pub(super) trait Row {
    /// Names and values, in the order in which they are written.
    fn columns(&self) -> Vec<(&'static str, Column)>;
}

/// The fields of a line: what was counted since `before`, and what is now.
pub(super) fn since<'row, R: Row>(now: &'row R, before: &'row R) -> impl Iterator<Item = String> + use<'row, R> {
    now.columns().into_iter().zip(before.columns()).map(|((_, now), (_, before))| match (now, before) {
        (Column::Count(Some(now)), Column::Count(before)) => (now - before.unwrap_or(0)).to_string(),
        (Column::State(Some(now)), _) => now.to_string(),
        _ => String::new(),
    })
}

/// Of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FlowColumns {
    pub(super) delivered_bytes: u64,
    pub(super) cwnd_segments: Option<f64>,
    pub(super) cwnd_bytes: Option<f64>,
    pub(super) srtt_ms: Option<f64>,
    pub(super) retransmissions: Option<u64>,
    pub(super) timeouts: Option<u64>,
    /// Which the sender took for lost.
    pub(super) lost_packets: Option<u64>,
    pub(super) blocks_in_flight: Option<f64>,
    pub(super) symbols_sent: Option<u64>,
    /// Data datagrams which arrived and were not needed.
    pub(super) symbols_wasted: Option<u64>,
    pub(super) p_hat: Option<f64>,
    /// What the receiver says arrives.
    pub(super) arrival_mbps: Option<f64>,
}

impl Row for FlowColumns {
    fn columns(&self) -> Vec<(&'static str, Column)> {
        vec![
            ("delivered_bytes", Column::Count(Some(self.delivered_bytes))),
            ("cwnd_segments", Column::State(self.cwnd_segments)),
            ("cwnd_bytes", Column::State(self.cwnd_bytes)),
            ("srtt_ms", Column::State(self.srtt_ms)),
            ("retransmissions", Column::Count(self.retransmissions)),
            ("timeouts", Column::Count(self.timeouts)),
            ("lost_packets", Column::Count(self.lost_packets)),
            ("blocks_in_flight", Column::State(self.blocks_in_flight)),
            ("symbols_sent", Column::Count(self.symbols_sent)),
            ("symbols_wasted", Column::Count(self.symbols_wasted)),
            ("p_hat", Column::State(self.p_hat)),
            ("arrival_mbps", Column::State(self.arrival_mbps)),
        ]
    }
}

impl FlowColumns {
    /// How a flow over `kind` stands now.
    pub(super) fn look<O: Observer>(simulation: &Simulation<O>, id: FlowId, kind: Kind) -> Self {
        let delivered_bytes = simulation.flow(id).delivered_bytes;
        let row = Self { delivered_bytes, ..Self::default() };
        let ms = |duration: std::time::Duration| duration.as_nanos() as f64 / 1e6;
        match (simulation.end(id, false), simulation.end(id, true)) {
            (End::TcpSender(sender), _) => {
                let (stats, segments) = (sender.stats(), f64::from(sender.cwnd_segments()));
                Self {
                    cwnd_segments: Some(segments),
                    cwnd_bytes: Some(segments * f64::from(sender.config().mss_bytes)),
                    srtt_ms: sender.srtt().map(ms),
                    retransmissions: Some(stats.retransmissions),
                    timeouts: Some(stats.timeouts),
                    ..row
                }
            }
            (End::Dfcp(sender), End::Dfcp(receiver)) => {
                let (sent, received) = (sender.stats(), receiver.stats().received);
                // A classic receiver reports nothing of the kind.
                let reports = kind != Kind::Classic;
                Self {
                    srtt_ms: (!sent.rtt.is_zero()).then(|| ms(sent.rtt)),
                    blocks_in_flight: Some(sender.blocks_in_flight() as f64),
                    symbols_sent: Some(sent.sent.total()),
                    symbols_wasted: Some(received.distinct() - received.useful + received.duplicate),
                    p_hat: reports.then_some(sent.loss),
                    arrival_mbps: reports.then_some(sent.arrival_rate_bps as f64 / 1e6),
                    ..row
                }
            }
            #[cfg(feature = "quic")]
            (End::Quic(sender), _) => {
                let path = sender.stats().map(|stats| stats.path);
                Self {
                    cwnd_bytes: path.map(|path| path.cwnd as f64),
                    srtt_ms: path.map(|path| ms(path.rtt)),
                    lost_packets: path.map(|path| path.lost_packets),
                    ..row
                }
            }
            _ => row,
        }
    }
}

/// Of a bottleneck, in data's direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LinkColumns {
    packets_waiting: f64,
    stats: LinkStats,
}

/// Packets which a queue dropped because it was full.
pub(super) fn drops_full(stats: &LinkStats) -> u64 {
    stats.queue_drops.packets - stats.early_drops.packets
}

impl Row for LinkColumns {
    fn columns(&self) -> Vec<(&'static str, Column)> {
        vec![
            ("packets_waiting", Column::State(Some(self.packets_waiting))),
            ("offered", Column::Count(Some(self.stats.offered.packets))),
            ("drops_full", Column::Count(Some(drops_full(&self.stats)))),
            ("drops_early", Column::Count(Some(self.stats.early_drops.packets))),
            ("lost", Column::Count(Some(self.stats.lost.packets))),
            ("delivered", Column::Count(Some(self.stats.delivered.packets))),
        ]
    }
}

impl LinkColumns {
    pub(super) fn look(link: &Link<Packet>) -> Self {
        Self { packets_waiting: link.queue_len() as f64, stats: link.stats() }
    }
}
