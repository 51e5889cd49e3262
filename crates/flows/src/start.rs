//! Set-up of a flow: choice of the transport, and start of both ends.

use std::rc::Rc;

use dfcp_lab::plan::{Carrier, Kind, Pace};
use dfcp_lab::scenario::FlowSpec;
use dfcp_sim::{Node, Transport};

use crate::flow::{Ends, Hosts, Surroundings, Told};
#[cfg(feature = "quic")]
use crate::quic;
use crate::{dfcp, first_data, tcp};

/// Sets up a flow that starts at the time in `spec`. `endpoints` are its sender and receiver.
///
/// # Errors
/// Fails with a sentence about the set-up.
pub fn start<H: Hosts>(
    surroundings: Surroundings<'_, H>,
    endpoints: (Node, Node),
    spec: &FlowSpec,
    #[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "QUIC's alone"))] seed: u64,
) -> Result<Rc<Told>, String> {
    let told = Rc::new(Told::new(surroundings.clock, spec.start_ns));
    let ends = Ends {
        surroundings,
        sender: endpoints.0,
        receiver: endpoints.1,
        spec,
        told: Rc::clone(&told),
        #[cfg(feature = "quic")]
        seed,
    };
    if spec.bytes.is_some() {
        first_data::watch(&ends)?;
    }
    match transport_at(spec, ends.device_bps())? {
        Transport::Tcp(config) => tcp::start(&ends, &config)?,
        Transport::Dfcp(config) => dfcp::start(&ends, *config)?,
        #[cfg(feature = "quic")]
        Transport::Quic(config) => quic::start(&ends, config)?,
        #[cfg(not(feature = "quic"))]
        Transport::Quic(_) => return Err("this program was built without QUIC".to_owned()),
        Transport::Model(_) => {
            return Err("models of messages run on the simulator alone; use --platform sim".to_owned());
        }
        Transport::Web(_) => {
            return Err("web traffic runs on the simulator alone; use --platform sim".to_owned());
        }
    }
    Ok(told)
}

/// Returns the transport of a flow, as in the simulator, but with real coding of symbols.
///
/// # Errors
/// Fails with a sentence about an unsupported option.
pub fn transport(spec: &FlowSpec) -> Result<Transport, String> {
    transport_at(spec, None)
}

/// Returns the transport of a flow. A flow at line rate is limited to the device's rate.
fn transport_at(spec: &FlowSpec, device_bps: Option<u64>) -> Result<Transport, String> {
    let is_dfcp = spec.transport.kind.is_dfcp();
    let mut carrier = Carrier { codec: is_dfcp.then_some(true), ..spec.transport.clone() };
    let own = carrier.rate.or_else(|| (carrier.kind == Kind::Classic).then_some(Pace::Line));
    // Thesis parameters set a rate themselves.
    let told_bps = device_bps.filter(|_| is_dfcp && own == Some(Pace::Line) && carrier.parameters.is_empty());
    if let Some(bps) = told_bps {
        carrier.rate = Some(Pace::Mbps(bps as f64 / 1e6));
    }
    let mut transport = carrier.transport(spec.share_bps, spec.loss)?;
    if let (Transport::Dfcp(config), Some(_)) = (&mut transport, told_bps) {
        // The circuit breaker does not act at line rate, so it must not act at the rate that replaces it.
        config.sender.breaker = false;
    }
    Ok(spec.movable(transport))
}
