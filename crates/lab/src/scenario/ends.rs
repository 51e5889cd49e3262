//! Transport and special behaviour of a flow's endpoints in the simulator.

use std::time::Duration;

use dfcp_proto::{Config, PreSharedKey, Security};
use dfcp_sim::{Behaviour, Demand, DfcpConfig, QuicConfig, Transport};

use super::FlowSpec;
use crate::plan::{Carrier, Ends, Lie};

/// Pre-shared key for encrypted DFCP flows. It is public, since the laboratory has nothing to protect.
const KEY: [u8; 32] = [0x5A; 32];

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
    /// Returns the transport's options. An encrypted flow always codes real symbols, since encryption needs actual
    /// bytes.
    fn carrier(&self) -> Carrier {
        // DFCP accepts a changed address only with encryption (\[path-2\] of the specification).
        let is_encrypted = self.transport.kind.is_dfcp() && !self.rebinds_ns.is_empty();
        Carrier { codec: if is_encrypted { Some(true) } else { self.transport.codec }, ..self.transport.clone() }
    }

    /// Prepares `transport` for a change of the sender's address: DFCP gets encryption, QUIC gets migration. Unchanged
    /// if the flow's address does not change.
    #[must_use]
    pub fn movable(&self, transport: Transport) -> Transport {
        if self.rebinds_ns.is_empty() {
            return transport;
        }
        let encrypted = |config: Config| config.with_security(Security::Sealed(PreSharedKey::from_bytes(&KEY).into()));
        match transport {
            Transport::Dfcp(config) => {
                let DfcpConfig { sender, receiver, .. } = *config;
                let (sender, receiver) = (encrypted(sender), encrypted(receiver));
                Transport::Dfcp(Box::new(DfcpConfig { sender, receiver, ..*config }))
            }
            Transport::Quic(config) => Transport::Quic(QuicConfig { migration: true, ..config }),
            other => other,
        }
    }

    /// Returns the flow's transport for the simulator.
    ///
    /// # Errors
    /// Fails with a sentence about an invalid option.
    pub(super) fn carried_by(&self) -> Result<Transport, String> {
        let messages = self.messages.map(|messages| messages.to_sim());
        if let Some(messages) = messages.filter(|_| self.transport.kind.is_of_messages()) {
            return self.transport.model(messages);
        }
        let transport = self.movable(self.carrier().transport(self.share_bps, self.loss)?);
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
