//! Targets of DFCP, with this run's verdict on each.

use std::fmt::Write as _;

use serde::Serialize;

use crate::contenders::Contender;
use crate::records::{Flow, Records};
use crate::statistics::{Spread, quotients};

/// The bound of a target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A target, with its measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Target {
    what: &'static str,
    unit: &'static str,
    bound: Bound,
    /// Measured value; `None` if this run did not measure it.
    measured: Option<Spread>,
    met: Option<bool>,
}

impl Target {
    fn new(what: &'static str, unit: &'static str, bound: Bound, measured: Option<Spread>) -> Self {
        let met = measured.map(|measured| match bound {
            Bound::AtLeast(least) => measured.median >= least,
            Bound::AtMost(most) => measured.median <= most,
        });
        Self { what, unit, bound, measured, met }
    }

    fn verdict(&self) -> String {
        let (Some(measured), Some(met)) = (self.measured, self.met) else { return "not measured".to_owned() };
        let (Bound::AtLeast(bound) | Bound::AtMost(bound)) = self.bound;
        let percent = 100.0 * (measured.median / bound - 1.0).abs();
        match (met, self.bound) {
            (true, _) => "met".to_owned(),
            (false, Bound::AtLeast(_)) => format!("missed: {percent:.0} % too little"),
            (false, Bound::AtMost(_)) => format!("missed: {percent:.0} % too much"),
        }
    }

    /// Fields of the table row.
    pub(crate) fn row(&self) -> Vec<String> {
        let mut bound = String::new();
        let (sign, value) = match self.bound {
            Bound::AtLeast(least) => ('≥', least),
            Bound::AtMost(most) => ('≤', most),
        };
        // Writing to a string cannot fail.
        let _ = write!(bound, "{sign} {value}{}", self.unit);
        vec![self.what.to_owned(), bound, Spread::show(self.measured, 2), self.verdict()]
    }
}

/// Values of a figure in every round that has it.
fn figures<'a>(flows: impl IntoIterator<Item = &'a Flow>, figure: impl Fn(&Flow) -> Option<f64>) -> Vec<(u32, f64)> {
    flows.into_iter().filter_map(|flow| Some((flow.round, figure(flow)?))).collect()
}

fn of(flows: &[Flow], contender: Contender) -> impl Iterator<Item = &Flow> {
    flows.iter().filter(move |flow| flow.contender == contender)
}

fn goodput(flow: &Flow) -> Option<f64> {
    Some(flow.goodput_bps())
}

/// Better value of each round, for quinn with its best number of threads.
fn best(one: &[(u32, f64)], other: &[(u32, f64)], better: fn(f64, f64) -> f64) -> Vec<(u32, f64)> {
    let mut best = std::collections::BTreeMap::new();
    for &(round, figure) in one.iter().chain(other) {
        best.entry(round).and_modify(|known| *known = better(*known, figure)).or_insert(figure);
    }
    best.into_iter().collect()
}

/// All targets, in the order of the sections.
pub(crate) fn targets(records: &Records) -> Vec<Target> {
    use Bound::{AtLeast, AtMost};
    use Contender::{DfcpSealed, DfcpUnsealed, Quinn, Quinn1, Udp, UdpAes};
    let bulk = |contender, figure: fn(&Flow) -> Option<f64>| figures(of(&records.bulk, contender), figure);
    let bulk_ratio = |one, other| quotients(&bulk(one, goodput), &bulk(other, goodput));
    let both = Flow::cpu_per_gb_of_both;
    let at = |contender, per_mille| {
        figures(of(&records.loss, contender).filter(|flow| flow.loss_per_mille == per_mille), goodput)
    };
    let many =
        |connections| figures(of(&records.flows, DfcpSealed).filter(|flow| flow.connections == connections), goodput);
    let p99 = |contender| -> Vec<(u32, f64)> {
        let own = records.pingpong.iter().filter(|record| record.contender == contender);
        own.map(|record| (record.round, record.latency.p99_us)).collect()
    };
    let quinn = best(&bulk(Quinn, goodput), &bulk(Quinn1, goodput), f64::max);
    let idle = records.memory.iter().filter(|record| record.contender == DfcpSealed);
    vec![
        Target::new("sealed / quinn, goodput", "×", AtLeast(3.0), quotients(&bulk(DfcpSealed, goodput), &quinn)),
        Target::new(
            "sealed / quinn, CPU per byte, both sides",
            "×",
            AtMost(0.4),
            quotients(&bulk(DfcpSealed, both), &best(&bulk(Quinn, both), &bulk(Quinn1, both), f64::min)),
        ),
        Target::new("sealed / udp-aes, goodput", "×", AtLeast(0.6), bulk_ratio(DfcpSealed, UdpAes)),
        Target::new("unsealed / udp, goodput", "×", AtLeast(0.6), bulk_ratio(DfcpUnsealed, Udp)),
        Target::new(
            "sealed, goodput at 10 % loss / at 0 %",
            "×",
            AtLeast(0.85),
            quotients(&at(DfcpSealed, 100), &at(DfcpSealed, 0)),
        ),
        Target::new(
            "unsealed, goodput at 10 % loss / at 0 %",
            "×",
            AtLeast(0.85),
            quotients(&at(DfcpUnsealed, 100), &at(DfcpUnsealed, 0)),
        ),
        Target::new(
            "sealed / quinn, goodput at 10 % loss",
            "×",
            AtLeast(3.0),
            quotients(&at(DfcpSealed, 100), &best(&at(Quinn, 100), &at(Quinn1, 100), f64::max)),
        ),
        Target::new("sealed, 1000 connections / 1", "×", AtLeast(0.8), quotients(&many(1_000), &many(1))),
        Target::new(
            "sealed / quinn, p99 round trip",
            "×",
            AtMost(1.0),
            quotients(&p99(DfcpSealed), &best(&p99(Quinn), &p99(Quinn1), f64::min)),
        ),
        Target::new(
            "sealed, memory per idle connection, server",
            " KiB",
            AtMost(8.0),
            Spread::of(idle.map(|record| record.server.per_connection_bytes() / 1_024.0)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::flow;

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let targets = targets(&Records::default());
        assert_eq!(targets.len(), 10);
        for target in targets {
            assert_eq!(target.met, None);
            assert!(target.row().contains(&"not measured".to_owned()));
        }
    }

    #[test]
    fn targets_of_bulk_are_judged_by_the_medians_of_rounds() {
        let mut records = Records::default();
        for (round, sealed) in [(1, 2.0), (2, 4.0), (3, 9.0)] {
            records.bulk.push(flow(Contender::DfcpSealed, round, sealed, 1.0));
            records.bulk.push(flow(Contender::Quinn, round, 1.0, 1.0));
            records.bulk.push(flow(Contender::UdpAes, round, 10.0, 1.0));
        }
        let targets = targets(&records);
        assert_eq!((targets[0].measured.unwrap().median, targets[0].met), (4.0, Some(true)));
        assert_eq!((targets[1].measured.unwrap().median, targets[1].met), (0.25, Some(true)));
        assert_eq!((targets[2].measured.unwrap().median, targets[2].met), (0.4, Some(false)));
        assert_eq!(targets[2].row()[3], "missed: 33 % too little");
        assert_eq!(targets[3].met, None);
    }

    #[test]
    fn loss_is_compared_under_the_same_offloads() {
        let mut records = Records::default();
        let lossy = |contender, gigabit| Flow { loss_per_mille: 100, ..flow(contender, 1, gigabit, 1.0) };
        records.loss.push(flow(Contender::DfcpSealed, 1, 1.0, 1.0));
        records.loss.push(lossy(Contender::DfcpSealed, 0.8));
        records.loss.push(lossy(Contender::Quinn, 0.1));
        let targets = targets(&records);
        assert_eq!(targets[4].row()[1..], ["≥ 0.85×", "0.80", "missed: 6 % too little"]);
        assert_eq!(targets[6].met, Some(true));
    }
}
