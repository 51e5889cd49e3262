//! Cases of one datagram's life: two endpoints, a bulk stream at 10 Gbit/s over a path with a round trip of 1 ms, reports included.

use anyhow::Result;
use dfcp_proto::{Policy, Rate};
use dfcp_protocol_tests::{Flow, FlowConfig};

use super::{Case, counted};

/// Datagrams before the counted ones, until the loss estimate and allocations have settled.
const WARM_UP_DATAGRAMS: u64 = 4_000;
const DATAGRAMS: u64 = 3_000;
/// Number of runs averaged for a case with losses. The lost symbols decide how often a block is solved twice, and one
/// run in eight costs half as much again as the other runs.
const SEEDS: u64 = 8;

/// Parts of a flow, by functions of [`Flow`].
const PARTS: &[(&str, &str)] = &[("sender", "Flow::sending_end"), ("receiver", "Flow::receiving_end")];

const fn case(name: &'static str, what: &'static str, run: fn(u64) -> Result<()>) -> Case {
    Case { name, unit: "datagram sent", what, repetitions: DATAGRAMS, parts: PARTS, run }
}

const fn lossy(name: &'static str, what: &'static str, run: fn(u64) -> Result<()>) -> Case {
    Case { repetitions: SEEDS * DATAGRAMS, ..case(name, what, run) }
}

pub(super) const CASES: &[Case] = &[
    case("life", "sealed: written, sent, taken in, read; both ends and their reports", |n| live(true, 0.0, n)),
    lossy("life-loss10", "the same where one datagram in ten is lost", |n| live(true, 0.1, n)),
    case("life-unsealed", "without seals, and with a CRC", |n| live(false, 0.0, n)),
    lossy("life-unsealed-loss10", "the same where one datagram in ten is lost", |n| live(false, 0.1, n)),
    case("life-auto", "sealed, at an automatic rate, which finds the interface's", |n| run(&automatic(0.0), n)),
    lossy("life-auto-loss10", "the same where one datagram in ten is lost", |n| run(&automatic(0.1), n)),
];

fn live(sealed: bool, loss: f64, datagrams: u64) -> Result<()> {
    run(&FlowConfig { sealed, loss, ..FlowConfig::default() }, datagrams)
}

fn automatic(loss: f64) -> FlowConfig {
    FlowConfig { loss, rate: Rate::auto(Policy::Fair), ..FlowConfig::default() }
}

fn run(config: &FlowConfig, datagrams: u64) -> Result<()> {
    let seeds = if config.loss > 0.0 { SEEDS } else { 1 };
    for seed in 1..=seeds {
        let mut flow = Flow::open(FlowConfig { seed, ..*config })?;
        flow.run(WARM_UP_DATAGRAMS)?;
        counted(|| flow.run(datagrams / seeds))?;
    }
    Ok(())
}
