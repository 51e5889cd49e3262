//! Comparison of two series run by run.

use super::{Claimed, GOODPUT};
use crate::plan::name;
use crate::table::Cell;

impl Claimed<'_> {
    /// Combines every run of the claim's series with the run of the same number of the compared series. Returns for
    /// each point its worst run: the point's name with the number of that run and of those that fail, the combined
    /// value, and true if no run fails. `None` if the series have different numbers of runs at any point.
    pub(super) fn worst_runs(
        &self,
        of: impl Fn(f64, f64) -> f64,
        holds: impl Fn(&f64) -> bool,
        is_worse: impl Fn(f64, f64) -> bool,
    ) -> Option<Vec<(String, f64, bool)>> {
        let worst = |cell: &Cell| {
            let own = self.table.values(cell, self.metric, self.flow);
            let others = self.values_of_better(cell).filter(|others| others.len() == own.len())?;
            let values: Vec<f64> = own.into_iter().zip(others).map(|(own, others)| of(own, others)).collect();
            // NaN is worse than any number: it compares with none, and fails.
            let worse =
                |a: usize, b: usize| (values[a].is_nan() && !values[b].is_nan()) || is_worse(values[a], values[b]);
            let place = (0..values.len()).reduce(|worst, place| if worse(place, worst) { place } else { worst })?;
            let (failing, runs) = (values.iter().filter(|value| !holds(value)).count(), values.len());
            let run = format!("run {} ({failing} of {runs} fail)", place + 1);
            let at = if cell.point.is_empty() { run } else { format!("{} in {run}", name(&cell.point)) };
            Some((at, values[place], failing == 0))
        };
        let worst: Vec<_> = self.cells().map(worst).collect::<Option<_>>()?;
        (!worst.is_empty()).then_some(worst)
    }

    /// Returns the metric in every run of the compared series; of several series, in each run that of the one with the
    /// greatest goodput. `None` if a series has no runs at this point, or another number of them.
    fn values_of_better(&self, cell: &Cell) -> Option<Vec<f64>> {
        let mut best: Option<Vec<(f64, f64)>> = None;
        for other in self.others(&cell.point)? {
            let goodputs = self.table.values(other, GOODPUT, None);
            let values = self.table.values(other, self.metric, self.other_flow());
            if values.is_empty() || values.len() != goodputs.len() {
                return None;
            }
            let runs: Vec<(f64, f64)> = goodputs.into_iter().zip(values).collect();
            best = Some(match best {
                None => runs,
                Some(best) if best.len() != runs.len() => return None,
                Some(best) => best.into_iter().zip(runs).map(|(a, b)| if b.0 > a.0 { b } else { a }).collect(),
            });
        }
        best.map(|runs| runs.into_iter().map(|(_, value)| value).collect())
    }
}
