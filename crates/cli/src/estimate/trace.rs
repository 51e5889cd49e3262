//! `dfcp estimate trace`: estimate from a capture.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context;
use dfcp_estimate::probing::{Answer, ProbeDatagram};
use dfcp_estimate::{Config, Estimator, INTERVAL_DEFAULT, Probe};
use dfcp_time::Time;
use serde_json::json;

use super::args::{Prefix, ProbesArg, TraceArgs};
use super::figures::{Figures, Periods};
use crate::capture::packet::{IpPacket, Udp, ip_packet};
use crate::capture::{self, CaptureError, Captured};
use crate::output;

/// Reads the capture and prints the estimate.
///
/// # Errors
/// Fails if the file cannot be read, or has no test packets or no busy period.
pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    let name = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot open {name}, check the path"))?;
    let (figures, is_whole) = figures(file, args).with_context(|| format!("{name}"))?;
    if !is_whole {
        output::always(&format!("{name} ends within a packet; what is before it counts"));
    }
    if args.json {
        let mut object = json!({ "file": name.to_string(), "is_whole": is_whole });
        if let (Some(object), serde_json::Value::Object(figures)) = (object.as_object_mut(), figures.to_json()) {
            object.extend(figures);
        }
        output::json(&object);
    } else {
        figures.lines().iter().for_each(|line| output::line(line));
    }
    figures.check()
}

/// Reason why a capture cannot be evaluated.
#[derive(Debug, thiserror::Error)]
enum TraceError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(
        "has no test packets: record while `dfcp estimate client` measures, or name another tool's by --probes PORT"
    )]
    NoProbes,
    #[error("is not in order of time ({0}): sort it by `reordercap`")]
    Order(#[from] dfcp_estimate::TimeError),
    #[error("{0}; give other times")]
    Config(#[from] dfcp_estimate::ConfigError),
}

/// Returns the results of the capture, and true if the capture is complete.
fn figures(file: impl Read + Send, args: &TraceArgs) -> Result<(Figures, bool), TraceError> {
    let mut walk = Walk { args, state: None };
    let is_whole = capture::read(file, |captured| walk.take(&captured))?;
    let state = walk.state.ok_or(TraceError::NoProbes)?;
    Ok((Figures::new(&state.estimator, state.periods, state.began, state.ended), is_whole))
}

/// State of the pass over the packets of a capture.
struct Walk<'a> {
    args: &'a TraceArgs,
    /// Estimator state; `None` before the first test packet.
    state: Option<State>,
}

/// Estimator state from the first test packet on.
struct State {
    estimator: Estimator,
    periods: Periods,
    /// Destination address and port of the test packets.
    target: (IpAddr, u16),
    /// Addresses whose traffic counts as the user's.
    user: Prefix,
    session: Option<u64>,
    /// Sequence number for test packets that carry none.
    next_number: u64,
    began: Time,
    ended: Time,
}

/// Recognised test packet.
enum Found {
    Ours(ProbeDatagram),
    Unnumbered,
}

impl Walk<'_> {
    fn take(&mut self, captured: &Captured<'_>) -> Result<(), TraceError> {
        let Some(packet) = ip_packet(captured.link, captured.bytes, captured.wire_bytes) else { return Ok(()) };
        let found = found(self.args.probes, &packet);
        let Some(state) = &mut self.state else {
            // Traffic before the first test packet is not evaluated.
            if let Some((found, port)) = found {
                let mut state = State::new(self.args, &found, (packet.to, port), captured.at)?;
                state.probe(&found, &packet, captured.at)?;
                self.state = Some(state);
            }
            return Ok(());
        };
        match found {
            Some((found, port)) if (packet.to, port) == state.target => state.probe(&found, &packet, captured.at),
            _ if state.user.contains(packet.to) => state.traffic(&packet, captured.at),
            _ => Ok(()),
        }
    }
}

/// Returns the test packet in `packet`, if there is one, with its destination port.
fn found(probes: Option<ProbesArg>, packet: &IpPacket<'_>) -> Option<(Found, u16)> {
    let Udp { port, payload } = packet.udp?;
    let found = match probes {
        None => match Answer::decode(payload) {
            Some(Answer::Probe(probe)) => Found::Ours(probe),
            _ => return None,
        },
        Some(ProbesArg { address, port: named }) => {
            let is_one = port == named && address.is_none_or(|address| address == packet.to);
            is_one.then_some(Found::Unnumbered)?
        }
    };
    Some((found, port))
}

impl State {
    fn new(args: &TraceArgs, first: &Found, target: (IpAddr, u16), at: Time) -> Result<Self, TraceError> {
        let config = match first {
            Found::Ours(probe) => Config::new(Duration::from_micros(probe.interval_us.into())),
            Found::Unnumbered => Config::unnumbered(args.interval.unwrap_or(INTERVAL_DEFAULT)),
        };
        Ok(Self {
            estimator: Estimator::new(args.model.apply(config)?)?,
            periods: Periods::default(),
            target,
            user: args.to.unwrap_or_else(|| Prefix::of(target.0)),
            session: None,
            next_number: 0,
            began: at,
            ended: at,
        })
    }

    fn probe(&mut self, found: &Found, packet: &IpPacket<'_>, at: Time) -> Result<(), TraceError> {
        let (number, sent) = match found {
            Found::Ours(probe) => {
                // The client started a new session, whose numbers restart at 0.
                if self.session.replace(probe.session).is_some_and(|session| session != probe.session) {
                    self.estimator.restart();
                }
                (probe.number.into(), Some(probe.sent))
            }
            Found::Unnumbered => (self.next_number, None),
        };
        self.next_number += 1;
        self.ended = self.ended.max(at);
        let period = self.estimator.probe(Probe { number, sent, at, size_bytes: packet.size_bytes })?;
        if let Some(period) = period {
            self.periods.add(period);
        }
        Ok(())
    }

    fn traffic(&mut self, packet: &IpPacket<'_>, at: Time) -> Result<(), TraceError> {
        self.ended = self.ended.max(at);
        Ok(self.estimator.traffic(at, packet.size_bytes.into())?)
    }
}

#[cfg(test)]
pub(crate) mod tests;
