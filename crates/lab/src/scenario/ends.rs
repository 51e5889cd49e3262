//! What the ends of a flow do that others do not, as the simulator is told it.

use std::time::Duration;

use dfcp_sim::{Behaviour, Demand, DfcpConfig, Transport};

use super::FlowSpec;
use crate::plan::{Ends, Lie};

fn bps(mbps: f64) -> u64 {
    ((mbps * 1e6).round() as u64).max(1)
}

fn behaviour(ends: &Ends) -> Behaviour {
    let time = |s: Option<f64>| Duration::from_secs_f64(s.unwrap_or(0.0));
    let demand = |mbps| Demand { rate_bps: bps(mbps), on: time(ends.on_s), off: time(ends.off_s) };
    Behaviour {
        demand: ends.app_mbps.map(demand),
        read_bps: ends.read_mbps.map(bps),
        clock_ppm: ends.clock_ppm.unwrap_or(0),
        lie: ends.lie.map(|lie| match lie {
            Lie::Arrivals => dfcp_sim::Lie::Arrivals,
            Lie::Losses => dfcp_sim::Lie::Losses,
        }),
    }
}

impl FlowSpec {
    /// What carries it in the simulator.
    ///
    /// # Errors
    /// One sentence about an option which makes no sense.
    pub(super) fn carried_by(&self) -> Result<Transport, String> {
        let messages = self.messages.map(|messages| messages.to_sim());
        if let Some(messages) = messages.filter(|_| self.transport.kind.is_of_messages()) {
            return self.transport.model(messages);
        }
        let transport = self.transport.transport(self.share_bps, self.loss)?;
        if let (Some(web), Transport::Tcp(tcp)) = (&self.web, &transport) {
            return Ok(Transport::Web(web.to_sim(*tcp)));
        }
        let Transport::Dfcp(config) = transport else { return Ok(transport) };
        let DfcpConfig { sender, mut receiver, .. } = *config;
        if let Some(kib) = self.ends.receive_memory_kib {
            receiver = receiver.with_receive_memory_bytes(kib.saturating_mul(1024));
            receiver.validate().map_err(|error| format!("receive_memory_kib: {error}"))?;
        }
        let config = DfcpConfig { sender, receiver, behaviour: behaviour(&self.ends), messages: None };
        let config = messages.into_iter().fold(config, DfcpConfig::with_messages);
        Ok(Transport::Dfcp(Box::new(config)))
    }
}
