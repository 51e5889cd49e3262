//! Scaling of a scenario to lower link rates.

use super::{FlowSpec, Scenario};
use crate::plan::Pace;

impl Scenario {
    /// Returns the fastest rate in the scenario, bit/s: of links, access links, changes and recorded rates.
    #[must_use]
    pub fn fastest_bps(&self) -> u64 {
        let links = self.links.iter().flat_map(|link| [link.rate_bps, link.back_bps.unwrap_or(0)]);
        let changes = self.changes.iter().filter_map(|change| change.rate_bps);
        let recorded = self.rates.iter().map(super::RatesSpec::fastest_bps);
        links.chain(changes).chain(recorded).chain(self.flows.iter().map(|flow| flow.access_bps)).max().unwrap_or(0)
    }

    /// Scales all rates by `factor`. Buffers, windows and sizes are scaled likewise; jitter and message intervals are
    /// divided by `factor`, since packets take longer. Round-trip times stay.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let rate = |bps: u64| (bps as f64 * factor).round() as u64;
        let packets = |packets: usize| ((packets as f64 * factor).round() as usize).max(1);
        let mut scaled = self.clone();
        for link in &mut scaled.links {
            link.rate_bps = rate(link.rate_bps).max(1);
            link.queue_packets = packets(link.queue_packets);
            link.back_bps = link.back_bps.map(|bps| rate(bps).max(1));
            link.back_queue_packets = link.back_queue_packets.map(packets);
            link.impairments.policer_mbps = link.impairments.policer_mbps.map(|mbps| mbps * factor);
        }
        for change in &mut scaled.changes {
            change.rate_bps = change.rate_bps.map(|bps| rate(bps).max(1));
        }
        scaled.rates.iter_mut().for_each(|rates| rates.packet_bits *= factor);
        scaled.flows.iter_mut().for_each(|flow| flow.scale(factor));
        scaled
    }
}

impl FlowSpec {
    fn scale(&mut self, factor: f64) {
        let rate = |bps: u64| (bps as f64 * factor).round() as u64;
        self.access_bps = rate(self.access_bps);
        self.share_bps = rate(self.share_bps).max(1);
        for mbps in [&mut self.ends.app_mbps, &mut self.ends.read_mbps].into_iter().flatten() {
            *mbps *= factor;
        }
        self.ends.receive_memory_kib = self.ends.receive_memory_kib.map(|kib| rate(kib).max(1));
        self.bytes = self.bytes.map(|bytes| rate(bytes).max(1));
        self.jitter_ns = (self.jitter_ns as f64 / factor).round() as u64;
        if let Some(web) = &mut self.web {
            web.connection_bytes = rate(web.connection_bytes).max(1);
        }
        if let Some(messages) = &mut self.messages {
            messages.every_ns = (messages.every_ns as f64 / factor).round() as u64;
        }
        let transport = &mut self.transport;
        transport.window_blocks = transport.window_blocks.map(|blocks| (rate(u64::from(blocks)) as u32).max(1));
        // Below a few segments, a window would change the transport's behaviour.
        transport.max_window_bytes =
            transport.max_window_bytes.map(|bytes| (rate(u64::from(bytes)) as u32).max(15_000));
        transport.initial_ssthresh_segments =
            transport.initial_ssthresh_segments.map(|segments| (rate(u64::from(segments)) as u32).max(2));
        if let Some(Pace::Mbps(mbps)) = &mut transport.rate {
            *mbps *= factor;
        }
    }
}
