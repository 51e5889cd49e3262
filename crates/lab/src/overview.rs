//! A metric of a plan as a table: a row per point, a column per series.

use serde::Serialize;

use crate::metrics::label_and_unit;
use crate::plan::{Level, Plan};
use crate::table::{Cell, Table};

/// One metric of a plan over its whole sweep, as a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// Name of the metric.
    pub metric: String,
    /// Label of the metric, as printed.
    pub label: String,
    /// Unit of the metric; empty for plain numbers.
    pub unit: String,
    /// Names of the swept parameters.
    pub parameters: Vec<String>,
    /// Labels of the series.
    pub series: Vec<String>,
    /// Rows, in the order of the sweep.
    pub rows: Vec<Row>,
}

/// Row of the table: a point of the sweep, or one flow at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Values of the swept parameters.
    pub levels: Vec<Level>,
    /// Number of the flow, from 1; `None` in a row for the mean over all flows. Flows have own rows if the metric is
    /// defined per flow and there are few flows.
    pub flow: Option<usize>,
    /// Label of the flow, if it has one.
    pub flow_label: Option<String>,
    /// One summary per series, in the order of [`Overview::series`]. `None` if the series has no run or no value at the
    /// point.
    pub cells: Vec<Option<Summary>>,
}

/// Statistics over the repetitions of a series at one point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Mean over the repetitions.
    pub mean: f64,
    /// Sample standard deviation over the repetitions; `None` for a single run.
    pub sd: Option<f64>,
    /// Number of runs.
    pub runs: usize,
    /// Fewest randomly lost packets in any of the runs; in the row of a flow, estimated for this flow. `None` without
    /// random loss.
    pub random_losses: Option<u64>,
    /// True if `random_losses` is too low for a reliable result.
    pub has_few_losses: bool,
}

/// Returns a table for each plotted metric of `plan` that has measurements.
#[must_use]
pub fn overviews(plan: &Plan, table: &Table) -> Vec<Overview> {
    let metrics = plan.metrics.plot.iter().map(|name| name.get_ref().as_str());
    metrics.map(|metric| overview(plan, table, metric)).filter(Overview::has_values).collect()
}

impl Overview {
    fn has_values(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(Option::is_some)
    }

    /// Iterates over all summaries, each with its row and the label of its series.
    pub fn summaries(&self) -> impl Iterator<Item = (&Row, &str, &Summary)> {
        self.rows.iter().flat_map(|row| {
            let cells = self.series.iter().zip(&row.cells);
            cells.filter_map(move |(series, cell)| Some((row, series.as_str(), cell.as_ref()?)))
        })
    }
}

fn overview(plan: &Plan, table: &Table, metric: &str) -> Overview {
    let (label, unit) = label_and_unit(metric);
    let series: Vec<String> = plan.series.iter().map(|series| series.get_ref().label.clone()).collect();
    let flows = Table::flows_apart(table.cells.iter(), metric);
    let labels = plan.flow_labels();
    let mut rows = Vec::new();
    // Cells of one point are adjacent in the table, one per series.
    for cells in table.cells.chunk_by(|a, b| a.point == b.point) {
        let levels: Vec<Level> = cells[0].point.iter().map(|(_, level)| level.clone()).collect();
        for flow in flows.map_or_else(|| vec![None], |flows| (0..flows).map(Some).collect()) {
            let cell = |label: &String| {
                let cell = cells.iter().find(|cell| cell.series == *label)?;
                summary(cell, &table.values(cell, metric, flow), flow.is_some())
            };
            let cells = series.iter().map(cell).collect();
            let flow_label = flow.and_then(|flow| labels.get(flow).cloned().flatten());
            rows.push(Row { levels: levels.clone(), flow: flow.map(|flow| flow + 1), flow_label, cells });
        }
    }
    let parameters = plan.sweep.iter().map(|axis| axis.get_ref().parameter.clone()).collect();
    Overview { metric: metric.to_owned(), label, unit, parameters, series, rows }
}

fn summary(cell: &Cell, values: &[f64], of_one_flow: bool) -> Option<Summary> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(Summary {
        mean,
        sd: (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
        runs: values.len(),
        random_losses: cell.fewest_losses(of_one_flow),
        has_few_losses: cell.few_losses(of_one_flow).is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{FlowMeasured, Measured};
    use crate::plan::Source;
    use crate::reading::parse;

    fn plan() -> Source {
        let text = "id = \"t\"\ntitle = \"\"\nsource = \"ours\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\n\
             transport = \"modern\"\n[[series]]\nlabel = \"B\"\ntransport = \"cubic\"\n[[sweep]]\nparameter = \"loss\"\n\
             values = [0, 0.1]\n[metrics]\nplot = [\"goodput_mbps\", \"jain\", \"waste_percent\"]\n";
        parse("t.toml", text).unwrap()
    }

    fn cell(series: &str, loss: f64, runs: &[([f64; 2], Option<u64>)]) -> Cell {
        let flow = |mbps: f64| FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() };
        let measured = runs.iter().map(|(goodputs, random_losses)| Measured {
            flows: goodputs.iter().map(|mbps| flow(*mbps)).collect(),
            random_losses: *random_losses,
            ..Measured::default()
        });
        Cell {
            series: series.to_owned(),
            point: vec![("loss".to_owned(), Level::Number(loss))],
            warm_up_s: 0.0,
            scale: 1.0,
            measured: measured.collect(),
        }
    }

    #[test]
    fn every_point_is_a_row_and_every_series_a_column_with_mean_spread_and_losses() {
        let cells = vec![
            cell("A", 0.0, &[([1.0, 3.0], None), ([3.0, 3.0], None)]),
            cell("B", 0.0, &[]),
            cell("A", 0.1, &[([8.0, 8.0], Some(59))]),
            cell("B", 0.1, &[([4.0, 4.0], Some(60)), ([4.0, 4.0], Some(300))]),
        ];
        let found = overviews(&plan().plan, &Table { cells });
        // `waste_percent` has no values in this plan, and so no table.
        assert_eq!(found.iter().map(|one| one.metric.as_str()).collect::<Vec<_>>(), ["goodput_mbps", "jain"]);
        let goodput = &found[0];
        assert_eq!(
            (goodput.unit.as_str(), goodput.parameters.join(" "), goodput.series.join(" ")),
            ("Mbit/s", "loss".to_owned(), "A B".to_owned())
        );
        let places: Vec<_> = goodput.rows.iter().map(|row| (row.levels[0].to_string(), row.flow)).collect();
        assert_eq!(
            places,
            [
                ("0".to_owned(), Some(1)),
                ("0".to_owned(), Some(2)),
                ("0.1".to_owned(), Some(1)),
                ("0.1".to_owned(), Some(2))
            ]
        );
        let all = Summary { mean: 2.0, sd: Some(2f64.sqrt()), runs: 2, random_losses: None, has_few_losses: false };
        assert_eq!(goodput.rows[0].cells, [Some(all), None]);
        let few = Summary { mean: 8.0, sd: None, runs: 1, random_losses: Some(29), has_few_losses: true };
        let enough = Summary { mean: 4.0, sd: Some(0.0), runs: 2, random_losses: Some(30), has_few_losses: false };
        assert_eq!(goodput.rows[2].cells, [Some(few), Some(enough)]);
        // Results over all flows depend on the losses of all flows.
        assert_eq!(found[1].rows.len(), 2);
        let losses: Vec<_> = found[1].rows[1].cells.iter().flatten().map(|all| all.random_losses).collect();
        assert_eq!(losses, [Some(59), Some(60)]);
        assert!(found[1].summaries().all(|(_, _, summary)| !summary.has_few_losses));
    }
}
