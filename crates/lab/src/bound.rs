//! Theoretical bound of messages, drawn as a series of a plan: fewest datagrams for which any transport meets the
//! deadlines.

use dfcp_sim::messages::{Bound, Least, Losses, MODEL_HEADER_BYTES};

use crate::metrics::{FlowMeasured, Measured, MessagesMeasured};
use crate::scenario::Scenario;

/// Computes the bound for a `scenario` of transport `message-bound`. `None` for other transports.
pub(crate) fn bound(scenario: &Scenario) -> Option<Measured> {
    let flow = scenario.flows.first().filter(|_| scenario.is_bound())?;
    let messages = flow.messages?;
    let rtt_ns = scenario.longest_rtt_ns();
    let beyond_ns = messages.deadline_ns.saturating_sub(rtt_ns / 2);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let slowest_bps = scenario.links[flow.over.0..=flow.over.1].iter().map(|link| link.rate_bps).min()?;
    let least = if messages.deadline_ns < rtt_ns / 2 {
        Least::Lost(1.0)
    } else {
        let bound = Bound {
            losses: Losses::Independent(flow.loss),
            spacing_s: seconds(messages.every_ns),
            beyond_s: seconds(beyond_ns),
            rtt_s: seconds(rtt_ns),
            datagram_s: f64::from(messages.bytes + MODEL_HEADER_BYTES) * 8.0 / slowest_bps as f64,
            lost_max: 1.0 - messages.target,
        };
        bound.least()
    };
    let (in_time, datagrams_each) = match least {
        Least::Datagrams(datagrams) => (messages.target, Some(datagrams)),
        Least::Lost(share) => (1.0 - share, None),
    };
    let messages = MessagesMeasured { in_time, datagrams_each, ..MessagesMeasured::default() };
    Some(Measured {
        flows: vec![FlowMeasured { messages: Some(messages), ..FlowMeasured::default() }],
        ..Measured::default()
    })
}
