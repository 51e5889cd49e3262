//! Resolved settings of a flow's messages.

use std::time::Duration;

use dfcp_sim::messages::{MODEL_BYTES_MAX, Messages, MessagesError};
use serde::{Deserialize, Serialize};

use super::Scenario;
use super::quantity::{ns, positive};
use crate::plan::{Carrier, Flows, Kind};

/// Greatest size of a DFCP message in a plan, bytes.
const DFCP_BYTES_MAX: u32 = 65_536;

/// Messages that an application sends at regular intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageSpec {
    /// Size of a message, bytes.
    pub bytes: u32,
    /// Interval between messages, ns.
    pub every_ns: u64,
    /// Deadline, ns after the message was handed over.
    pub deadline_ns: u64,
    /// Target share of messages delivered before their deadline.
    pub target: f64,
    /// True if the flow also sends an unlimited stream.
    pub beside_stream: bool,
}

impl MessageSpec {
    /// Returns the settings for the simulator.
    #[must_use]
    pub fn to_sim(&self) -> Messages {
        Messages {
            bytes: self.bytes,
            every: Duration::from_nanos(self.every_ns),
            deadline: Duration::from_nanos(self.deadline_ns),
            target: self.target,
            beside_stream: self.beside_stream,
        }
    }
}

/// Resolves the messages of `group`; `None` if it has none.
pub(super) fn messages(group: &Flows, carrier: &Carrier) -> Result<Option<MessageSpec>, String> {
    let kind = carrier.kind;
    // The bound builds no transport, which would otherwise check the options.
    if kind == Kind::MessageBound {
        carrier.check_options()?;
    }
    let Some(table) = group.messages else {
        if kind.is_of_messages() {
            let name = kind.name();
            return Err(format!(
                "the transport {name:?} has nothing but messages; add [flows.messages] below its [[flows]]"
            ));
        }
        return Ok(None);
    };
    let bytes_max = match kind {
        Kind::Modern => DFCP_BYTES_MAX,
        kind if kind.is_of_messages() => MODEL_BYTES_MAX,
        _ => {
            let name = kind.name();
            return Err(format!(
                "the transport {name:?} has no messages; use modern, fec-20-10, arq or message-bound, or remove [flows.messages]"
            ));
        }
    };
    let spec = MessageSpec {
        bytes: table.bytes,
        every_ns: ns(positive("every_ms", table.every_ms, 1e6)? / 1e3),
        deadline_ns: ns(positive("deadline_ms", table.deadline_ms, 1e6)? / 1e3),
        target: positive("target_percent", table.target_percent, 100.0)? / 100.0,
        beside_stream: table.beside_stream,
    };
    let has_stream = spec.beside_stream && kind != Kind::Modern;
    let refused = has_stream.then_some(MessagesError::Stream);
    let refused = refused.or_else(|| group.bytes.map(|_| MessagesError::Sized));
    let checked = refused.map_or(Ok(()), Err).and_then(|()| spec.to_sim().validate(bytes_max));
    checked.map(|()| Some(spec)).map_err(|error| error.to_string())
}

impl Scenario {
    /// Returns true if the scenario is the bound of messages, which is computed instead of simulated.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.flows.iter().any(|flow| flow.transport.kind == Kind::MessageBound)
    }

    /// Checks that the scenario is simple enough to compute the bound, if it is one.
    pub(super) fn check_bound(&self) -> Result<(), String> {
        let is_simple = self.flows.len() == 1 && self.nodes.is_empty();
        let is_steady = self.changes.is_empty() && self.walks.is_empty() && self.rates.is_empty();
        let has_bursts = self.links.iter().any(|link| link.loss_burst_packets > 0.0);
        if self.is_bound() && !(is_simple && is_steady && !has_bursts) {
            return Err("message-bound is of one flow over bottlenecks in a row, with independent losses and without \
                        changes; leave this series out"
                .to_owned());
        }
        Ok(())
    }
}
