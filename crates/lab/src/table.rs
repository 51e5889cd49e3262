//! Records of a plan, grouped by series and point.

use std::collections::{BTreeMap, BTreeSet};

use crate::expand::Run;
use crate::lateness;
use crate::lens::Lens;
use crate::metrics::{Measured, is_of_flows, mean_and_sd};
use crate::plan::{Point, name};
use crate::record::Record;

/// Fewest random losses per run for a reliable result. The relative error of a count of n independent losses is about
/// 1/√n: 18 % for n = 30.
pub const FEW_LOSSES: u64 = 30;

/// Maximum number of points named per series in a warning.
pub(crate) const WARNED_MAX: usize = 4;

/// Maximum number of flows shown individually; with more flows, only their mean is shown.
pub(crate) const FLOWS_APART_MAX: usize = 4;

/// All repetitions of one series at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters.
    pub point: Point,
    /// Warm-up of these runs, s; goodput is measured after it.
    pub warm_up_s: f64,
    /// Factor applied to all rates of the plan: 1, except in the small form.
    pub scale: f64,
    /// Measurements in the order of the repetitions; repetitions without a record are missing.
    pub measured: Vec<Measured>,
}

/// All cells of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Cells in the order of the sweep; for each point, in the order of the series.
    pub cells: Vec<Cell>,
}

impl Cell {
    /// Returns the fewest random losses in any repetition, over all flows or per flow. `None` without random loss.
    #[must_use]
    pub fn fewest_losses(&self, of_one_flow: bool) -> Option<u64> {
        // Records do not tell which flow lost a packet. All flows share the bottlenecks, so losses are assumed to be
        // spread evenly.
        let share = |run: &Measured| if of_one_flow { run.flows.len().max(1) as u64 } else { 1 };
        self.measured.iter().filter_map(|run| Some(run.random_losses? / share(run))).min()
    }

    /// Returns [`fewest_losses`](Self::fewest_losses) if it is below [`FEW_LOSSES`].
    #[must_use]
    pub fn few_losses(&self, of_one_flow: bool) -> Option<u64> {
        self.fewest_losses(of_one_flow).filter(|&losses| losses < FEW_LOSSES)
    }

    /// Returns true if all of several runs have the same measurements: the seed had no influence.
    fn has_idle_seeds(&self) -> bool {
        self.measured.len() > 1 && self.measured.windows(2).all(|two| two[0].went_as(&two[1]))
    }
}

impl Table {
    /// Returns the number of flows to show individually; `None` unless `metric` is defined per flow and the runs have 2
    /// to 4 flows.
    pub(crate) fn flows_apart<'cell>(cells: impl Iterator<Item = &'cell Cell>, metric: &str) -> Option<usize> {
        let flows = cells.filter_map(|cell| cell.measured.first()).map(|run| run.flows.len()).max();
        flows.filter(|flows| is_of_flows(metric) && (2..=FLOWS_APART_MAX).contains(flows))
    }

    /// Words the errors that ended flows early: a sentence per reason and cell.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for cell in &self.cells {
            let flows = cell.measured.iter().flat_map(|measured| &measured.flows);
            let reasons: BTreeSet<&str> = flows.filter_map(|flow| flow.failure.as_deref()).collect();
            let at = if cell.point.is_empty() { String::new() } else { format!(" at {}", name(&cell.point)) };
            sentences.extend(reasons.iter().map(|reason| format!("{}{at} ended early: {reason}", cell.series)));
        }
        sentences
    }

    /// Words warnings about late real-time runs and busy endpoints, by series.
    #[must_use]
    pub fn late(&self) -> Vec<String> {
        let series: BTreeSet<&str> = self.cells.iter().map(|cell| cell.series.as_str()).collect();
        let runs = |series| self.of_series(series).flat_map(|cell| &cell.measured).filter_map(|run| run.lateness);
        series.into_iter().flat_map(|series| lateness::sentences(series, runs(series))).collect()
    }

    /// Words a warning about points at which all runs have the same measurements, so that the seed had no influence.
    #[must_use]
    pub fn idle_seeds(&self) -> Option<String> {
        let mut found: Vec<(&str, Vec<String>)> = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.has_idle_seeds()) {
            match found.iter_mut().find(|(series, _)| *series == cell.series) {
                Some((_, places)) => places.push(name(&cell.point)),
                None => found.push((&cell.series, vec![name(&cell.point)])),
            }
        }
        let series = |(series, places): &(&str, Vec<String>)| match places.len() {
            1 if places[0].is_empty() => (*series).to_owned(),
            count if count > WARNED_MAX => format!("{series} at {count} points"),
            _ => format!("{series} at {}", places.join(" and ")),
        };
        let named: Vec<String> = found.iter().map(series).collect();
        (!named.is_empty()).then(|| {
            format!(
                "Seeds change nothing in some results, whose \u{b1} 0 says nothing of chance: {}. Let [spread] draw starts and \
                 round trips, or set `seeds = 1`.",
                named.join("; ")
            )
        })
    }

    /// Returns true if any of `metrics` is shown per flow.
    #[must_use]
    pub fn shows_flows<'name>(&self, mut metrics: impl Iterator<Item = &'name str>) -> bool {
        metrics.any(|metric| Self::flows_apart(self.cells.iter(), metric).is_some())
    }

    /// Returns the points with fewer than [`FEW_LOSSES`] random losses (per flow if `of_one_flow`), by series, each
    /// with the number of losses.
    #[must_use]
    pub fn few_losses(&self, of_one_flow: bool) -> Vec<(&str, Vec<(u64, &Point)>)> {
        let mut found: Vec<(&str, Vec<(u64, &Point)>)> = Vec::new();
        for (cell, losses) in self.cells.iter().filter_map(|cell| Some((cell, cell.few_losses(of_one_flow)?))) {
            match found.iter_mut().find(|(series, _)| *series == cell.series) {
                Some((_, points)) => points.push((losses, &cell.point)),
                None => found.push((&cell.series, vec![(losses, &cell.point)])),
            }
        }
        found
    }

    /// Groups the `records` of `runs`, all of one plan, by series and point.
    #[must_use]
    pub fn gather(runs: &[Run], records: &BTreeMap<String, Record>) -> Self {
        let mut cells: Vec<Cell> = Vec::new();
        for run in runs {
            if run.repetition == 1 {
                cells.push(Cell {
                    series: run.label(),
                    point: run.point.clone(),
                    warm_up_s: run.scenario.warm_up_ns as f64 / 1e9,
                    scale: run.scale,
                    measured: Vec::new(),
                });
            }
            if let (Some(cell), Some(record)) = (cells.last_mut(), records.get(&run.hash)) {
                cell.measured.push(record.measured.clone());
            }
        }
        Self { cells }
    }

    /// Returns the table as seen through `lens`. Cells with a run that is too short for it become empty.
    pub(crate) fn seen(&self, lens: Lens) -> Self {
        let seen = |cell: &Cell| {
            let measured: Option<_> = cell.measured.iter().map(|run| lens.see(run, cell.warm_up_s)).collect();
            Cell { warm_up_s: 0.0, measured: measured.unwrap_or_default(), ..cell.clone() }
        };
        Self { cells: self.cells.iter().map(seen).collect() }
    }

    /// Iterates over the cells of a series, in the order of the sweep.
    pub fn of_series<'table>(&'table self, series: &'table str) -> impl Iterator<Item = &'table Cell> {
        self.cells.iter().filter(move |cell| cell.series == series)
    }

    /// Returns the cell of a series at a point.
    #[must_use]
    pub fn at(&self, series: &str, point: &Point) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.series == series && cell.point == *point)
    }

    /// Returns metric `name` in every repetition of `cell`: of one flow, or the mean over all flows. Empty if the
    /// metric is undefined.
    #[must_use]
    pub fn values(&self, cell: &Cell, name: &str, flow: Option<usize>) -> Vec<f64> {
        let value = |measured: &Measured| measured.value(name, flow, cell.warm_up_s);
        let values: Option<Vec<f64>> = cell.measured.iter().map(value).collect();
        let values = values.unwrap_or_default();
        if name != "relative_percent" {
            return values;
        }
        // Values are relative to the same series at the last value of the first swept parameter.
        let last = self.of_series(&cell.series).filter(|other| other.point.get(1..) == cell.point.get(1..)).last();
        let whole = last.and_then(|last| mean_and_sd(&last.measured.iter().filter_map(value).collect::<Vec<_>>()));
        match whole {
            Some((whole, _)) if whole > 0.0 => values.into_iter().map(|value| 100.0 * value / whole).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the mean of a metric over the repetitions of `cell`; `None` if it is undefined.
    #[must_use]
    pub fn mean(&self, cell: &Cell, name: &str, flow: Option<usize>) -> Option<f64> {
        mean_and_sd(&self.values(cell, name, flow)).map(|(mean, _)| mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::FlowMeasured;
    use crate::plan::Level;

    #[test]
    fn seeds_which_change_nothing_are_named_and_what_a_run_costs_is_no_change() {
        let run = |bytes: u64, cpu_s: f64| Measured {
            flows: vec![FlowMeasured { delivered_bytes: bytes, ..FlowMeasured::default() }],
            cpu_s: Some(cpu_s),
            ..Measured::default()
        };
        let cell = |series: &str, loss: f64, measured: &[Measured]| Cell {
            series: series.to_owned(),
            point: vec![("loss".to_owned(), Level::Number(loss))],
            warm_up_s: 0.0,
            scale: 1.0,
            measured: measured.to_vec(),
        };
        let (same, differ) = ([run(7, 0.1), run(7, 0.2), run(7, 0.3)], [run(7, 0.1), run(7, 0.1), run(8, 0.1)]);
        let table = |cells: &[Cell]| Table { cells: cells.to_vec() };
        assert_eq!(
            table(&[cell("A", 0.0, &differ), cell("B", 0.0, &same[..1]), cell("C", 0.0, &[])]).idle_seeds(),
            None
        );
        let some =
            table(&[cell("A", 0.0, &same), cell("B", 0.0, &same), cell("A", 0.1, &differ), cell("B", 0.1, &same)]);
        let told = some.idle_seeds().unwrap();
        assert!(told.contains("A at loss 0; B at loss 0 and loss 0.1. Let [spread]"), "{told}");
        let many: Vec<Cell> = (0..5).map(|place| cell("A", f64::from(place), &same)).collect();
        assert!(table(&many).idle_seeds().unwrap().contains("A at 5 points."));
    }
}
