//! Figures of the report, drawn from records.

mod course;

use std::collections::BTreeMap;

use crate::agreement::judged;
use crate::claims::{Judged, Verdict, digits, judge};
use crate::expand::{Form, Run};
use crate::lens::Lens;
use crate::metrics::{label_and_unit, mean_and_sd};
use crate::plan::{Carrier, Kind, Level, Over, Plan, Point, Scale, Series, Source, Tag, name};
use crate::record::Record;
use crate::report;
use crate::table::{Cell, FEW_LOSSES, FLOWS_APART_MAX, Table, WARNED_MAX};

/// Student's t for a 95 % confidence interval, for 2 to 10 values.
const T95: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];

/// Returns the figures of a plan, one per plotted metric. Only the first has the verdicts on claims.
#[must_use]
pub fn figures(source: &Source, runs: &[Run], records: &BTreeMap<String, Record>) -> Vec<report::Figure> {
    let plan = &source.plan;
    let table = Table::gather(runs, records);
    let mut figures = Vec::new();
    for (index, metric) in plan.metrics.plot.iter().map(|name| name.get_ref().as_str()).enumerate() {
        let draw = Draw { plan, table: &table, metric };
        let (x, panels) = match plan.axes.over {
            Over::Sweep => (draw.sweep_axis(), draw.over_sweep()),
            Over::Time => (draw.x_axis(report::Scale::Linear), draw.over_time()),
            Over::Distribution => (draw.x_axis(report::Scale::Linear), draw.distribution()),
            Over::BinWidth => (draw.x_axis(report::Scale::Log), draw.over_bin_widths()),
        };
        let figure = report::Figure {
            id: if index == 0 { plan.id.clone() } else { format!("{}-{}", plan.id, index + 1) },
            title: if index == 0 {
                plan.title.clone()
            } else {
                format!("{}: {}", plan.title, label_and_unit(metric).0)
            },
            x,
            y: draw.y_axis(),
            panels,
            ..report::Figure::default()
        };
        if index > 0 {
            if !figure.panels.is_empty() {
                figures.push(figure);
            }
            continue;
        }
        let mut notes: Vec<String> = plan.oracle_note().into_iter().chain(plan.notes.iter().cloned()).collect();
        let has = |forms: &[Form]| records.values().any(|record| forms.contains(&record.form));
        if has(&[Form::Quick, Form::Small]) && !plan.quick.note.is_empty() {
            notes.push(format!("Quick run: {}", plan.quick.note));
        }
        if has(&[Form::Small]) && !plan.small.note.is_empty() {
            notes.push(format!("Small run: {}", plan.small.note));
        }
        notes.extend(table.failures().into_iter().map(|sentence| format!("{sentence}.")));
        let late = table.late().into_iter().map(|sentence| format!("{sentence}."));
        figures.push(report::Figure {
            source: if plan.is_ours() { report::OURS.to_owned() } else { plan.source.clone() },
            question: plan.question.clone(),
            says: plan.says.clone(),
            measured: draw.sentence(),
            claims: judge(plan, &table)
                .into_iter()
                .zip(&plan.claims)
                .map(|(judged, claim)| claim_of(plan, judged, claim.get_ref().tag))
                .chain(judged(&plan.id, runs, records).into_iter().map(|judged| claim_of(plan, judged, Tag::D)))
                .collect(),
            warnings: few_losses(plan, &table).into_iter().chain(table.idle_seeds()).chain(late).collect(),
            notes,
            parameters: parameters(runs),
            ..figure
        });
    }
    let count = figures.len();
    for (index, metric) in plan.metrics.over_bins.iter().map(|name| name.get_ref().as_str()).enumerate() {
        let (label, unit) = label_and_unit(metric);
        figures.push(report::Figure {
            id: format!("{}-{}", plan.id, count + index + 1),
            title: format!("{}: how often it is below what", label_and_unit(metric).0),
            x: report::Axis::linear(&label, &unit),
            y: report::Axis::linear("share of bins below", "%").reaching(0.0, 100.0),
            panels: Draw { plan, table: &table, metric }.over_bins(),
            ..report::Figure::default()
        });
    }
    figures
}

fn claim_of(plan: &Plan, judged: Judged, tag: Tag) -> report::Claim {
    report::Claim {
        id: judged.id,
        figure: plan.id.clone(),
        says: judged.says,
        tag: match tag {
            Tag::N => report::Tag::Number,
            Tag::Q => report::Tag::Statement,
            Tag::D => report::Tag::Derived,
        },
        measured: judged.measured,
        verdict: match judged.verdict {
            Verdict::Reproduced => report::Verdict::Reproduced,
            Verdict::Differs => report::Verdict::Differs,
            Verdict::NotReproducible(because) => report::Verdict::NotReproducible(because),
            Verdict::NotRun => report::Verdict::NotRun,
        },
    }
}

/// Words a warning about points whose results depend on fewer than [`FEW_LOSSES`] random losses.
fn few_losses(plan: &Plan, table: &Table) -> Option<String> {
    let of_one_flow = table.shows_flows(plan.metrics.plot.iter().map(|name| name.get_ref().as_str()));
    let place = |(losses, point): &(u64, &Point)| {
        let at = if point.is_empty() { String::new() } else { format!(" at {}", name(point)) };
        format!("{losses}{at}")
    };
    let series = |(series, points): (&str, Vec<(u64, &Point)>)| {
        let places = if points.len() <= WARNED_MAX {
            points.iter().map(place).collect::<Vec<_>>().join(", ")
        } else {
            let fewest = points.iter().min_by_key(|(losses, _)| *losses).map_or_else(String::new, place);
            format!("at {} points, the fewest {fewest}", points.len())
        };
        format!("{series} ({places})")
    };
    let named: Vec<String> = table.few_losses(of_one_flow).into_iter().map(series).collect();
    (!named.is_empty()).then(|| {
        format!(
            "Some results hang on fewer than {FEW_LOSSES} packets{} lost at random in a run. Another seed may give another \
             result, and a longer run gives a surer one: {}.",
            if of_one_flow { " of a flow" } else { "" },
            named.join("; ")
        )
    })
}

fn role(carrier: &Carrier) -> report::Role {
    match carrier.kind {
        Kind::Classic | Kind::Modern => report::Role::Dfcp,
        Kind::MessageBound => report::Role::Bound,
        _ => report::Role::Rival,
    }
}

/// Point at the mean over repetitions, with a 95 % confidence interval.
fn point(x: f64, values: &[f64]) -> Option<report::Point> {
    let (mean, sd) = mean_and_sd(values)?;
    if values.len() < 2 {
        return Some(report::Point::exact(x, mean));
    }
    let t = T95.get(values.len() - 2).copied().unwrap_or(1.96);
    let half = t * sd / ((values.len() - 1) as f64).sqrt();
    Some(report::Point::within(x, mean, mean - half, mean + half))
}

struct Draw<'plan> {
    plan: &'plan Plan,
    table: &'plan Table,
    metric: &'plan str,
}

impl Draw<'_> {
    fn x_axis(&self, scale: report::Scale) -> report::Axis {
        let first = self.plan.sweep.first().map_or("", |axis| axis.get_ref().parameter.as_str());
        let label = self.plan.axes.x_label.clone().unwrap_or_else(|| first.to_owned());
        report::Axis { label, unit: self.plan.axes.x_unit.clone(), scale, reach: None }
    }

    fn y_axis(&self) -> report::Axis {
        if self.plan.axes.over == Over::Distribution {
            let what = if self.metric == "busy_s" { "busy periods" } else { "scenarios" };
            return report::Axis::linear(&format!("share of {what} below"), "%").reaching(0.0, 100.0);
        }
        let (label, unit) = label_and_unit(self.metric);
        let scale = match self.plan.axes.y_scale {
            Scale::Log => report::Scale::Log,
            Scale::Linear | Scale::Categories => report::Scale::Linear,
        };
        report::Axis { label, unit, scale, reach: None }
    }

    /// Returns the values of the first parameter, in the order of the sweep.
    fn first_levels(&self) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::new();
        for (_, level) in self.table.cells.iter().filter_map(|cell| cell.point.first()) {
            if !levels.contains(level) {
                levels.push(level.clone());
            }
        }
        levels
    }

    fn sweep_axis(&self) -> report::Axis {
        let levels = self.first_levels();
        let is_named = levels.is_empty() || levels.iter().any(|level| matches!(level, Level::Name(_)));
        let scale = match self.plan.axes.x_scale {
            Scale::Categories => self.categories(&levels),
            _ if is_named => self.categories(&levels),
            Scale::Log => report::Scale::Log,
            Scale::Linear => report::Scale::Linear,
        };
        self.x_axis(scale)
    }

    /// Returns the categories of the horizontal axis: the swept values, or the flows if nothing is swept.
    fn categories(&self, levels: &[Level]) -> report::Scale {
        let flows = self.table.cells.iter().filter_map(|cell| cell.measured.first()).map(|run| run.flows.len()).max();
        let names = if levels.is_empty() {
            let labels = self.plan.flow_labels();
            let name = |flow: usize| labels.get(flow).cloned().flatten().unwrap_or_else(|| (flow + 1).to_string());
            (0..flows.unwrap_or(0)).map(name).collect()
        } else {
            levels.iter().map(Level::to_string).collect()
        };
        report::Scale::Categories(names)
    }

    fn x_of(&self, point: &Point, axis: &report::Axis, levels: &[Level]) -> Option<f64> {
        let level = &point.first()?.1;
        match (&axis.scale, level) {
            (report::Scale::Categories(_), level) => Some(levels.iter().position(|other| other == level)? as f64),
            (_, Level::Number(x)) => Some(x * self.plan.axes.x_factor.unwrap_or(1.0)),
            (_, Level::Name(_)) => None,
        }
    }

    /// Returns the combinations of all parameters after the first `skip`; each combination gets its own panel.
    fn panels(&self, skip: usize) -> Vec<Point> {
        let mut panels: Vec<Point> = Vec::new();
        for cell in &self.table.cells {
            let rest: Point = cell.point.iter().skip(skip).cloned().collect();
            if !panels.contains(&rest) {
                panels.push(rest);
            }
        }
        panels
    }

    fn over_sweep(&self) -> Vec<report::Panel> {
        let (axis, levels) = (self.sweep_axis(), self.first_levels());
        let panel = |rest: Point| {
            let mut all = Vec::new();
            for series in self.plan.series.iter().map(|series| series.get_ref()) {
                let cells: Vec<&Cell> = self
                    .table
                    .of_series(&series.label)
                    .filter(|cell| cell.point.iter().skip(1).eq(rest.iter()))
                    .collect();
                let flows = Table::flows_apart(cells.iter().copied(), self.metric);
                if levels.is_empty() {
                    // Without a sweep, the flows are drawn side by side on the horizontal axis.
                    let values =
                        |flow: usize| point(flow as f64, &self.table.values(cells.first()?, self.metric, Some(flow)));
                    let points = (0..flows.unwrap_or(1)).filter_map(values).collect();
                    all.push(report::Series { label: series.label.clone(), points, role: role(&series.transport) });
                    continue;
                }
                let each = flows.map_or_else(|| vec![None], |flows| (0..flows).map(Some).collect());
                for flow in each {
                    let values = |cell: &&Cell| {
                        point(self.x_of(&cell.point, &axis, &levels)?, &self.table.values(cell, self.metric, flow))
                    };
                    let points = cells.iter().filter_map(values).collect();
                    let label = flow.map_or_else(
                        || series.label.clone(),
                        |flow| format!("{}, {}", series.label, self.flow_name(flow)),
                    );
                    all.push(report::Series { label, points, role: self.role(series, flow) });
                }
            }
            panel_of(&rest, all)
        };
        self.panels(1).into_iter().map(panel).filter_map(drawn).collect()
    }

    /// Returns the label of a flow, or `flow N`, from 1.
    fn flow_name(&self, flow: usize) -> String {
        let label = self.plan.flow_labels().get(flow).cloned().flatten();
        label.unwrap_or_else(|| format!("flow\u{a0}{}", flow + 1))
    }

    /// Returns the role that decides a curve's colour. `flow` may have its own transport, different from the series'
    /// transport.
    fn role(&self, series: &Series, flow: Option<usize>) -> report::Role {
        let flows = self.plan.flows.iter().map(|flows| flows.get_ref());
        let mut own = flows.flat_map(|flows| std::iter::repeat_n(flows.transport.as_ref(), flows.count as usize));
        role(flow.and_then(|flow| own.nth(flow)).flatten().unwrap_or(&series.transport))
    }

    /// Returns panels over time. Each series shows its first run.
    fn over_time(&self) -> Vec<report::Panel> {
        let queue_step_s = self.plan.metrics.queue_trace_ms.unwrap_or(0.0) / 1e3;
        let steps = (queue_step_s, self.plan.axes.average_s);
        self.at_each_point(|series, cell| {
            let first = cell.measured.first();
            let courses = first.map(|run| course::over_time(run, self.metric, cell.warm_up_s, steps));
            let drawn = |(name, points): (String, _)| report::Series {
                label: format!("{}{name}", series.label),
                points,
                role: role(&series.transport),
            };
            courses.into_iter().flatten().map(drawn).collect()
        })
    }

    fn distribution(&self) -> Vec<report::Panel> {
        let series = self.plan.series.iter().map(|series| series.get_ref()).map(|series| {
            let cells = self.table.of_series(&series.label);
            let values = |cell: &Cell| {
                let samples = cell.measured.iter().filter_map(|run| run.samples(self.metric));
                let samples = samples.flatten().collect::<Vec<_>>();
                if samples.is_empty() {
                    self.table.mean(cell, self.metric, None).into_iter().collect()
                } else {
                    samples
                }
            };
            let mut values: Vec<f64> = cells.flat_map(values).collect();
            values.sort_by(f64::total_cmp);
            let count = values.len() as f64;
            let share = |(index, x): (usize, f64)| report::Point::exact(x, 100.0 * (index + 1) as f64 / count);
            let points = values.into_iter().enumerate().map(share).collect();
            report::Series { label: series.label.clone(), points, role: role(&series.transport) }
        });
        drawn(panel_of(&Point::new(), series.collect())).into_iter().collect()
    }

    /// Returns one panel per point with the distribution of the metric over the bins of all runs.
    fn over_bins(&self) -> Vec<report::Panel> {
        self.at_each_point(|series, cell| {
            let points = course::over_bins(cell.measured.iter(), self.metric, cell.warm_up_s);
            vec![report::Series { label: series.label.clone(), points, role: role(&series.transport) }]
        })
    }

    /// Returns one panel per point with the metric as a function of the bin width.
    fn over_bin_widths(&self) -> Vec<report::Panel> {
        self.at_each_point(|series, cell| {
            let at = |&bin_s: &f64| {
                let lens = Lens { bin_s: Some(bin_s), window_s: None };
                let seen: Option<Vec<_>> = cell.measured.iter().map(|run| lens.see(run, cell.warm_up_s)).collect();
                let values: Option<Vec<f64>> = seen?.iter().map(|run| run.value(self.metric, None, 0.0)).collect();
                point(bin_s, &values?)
            };
            let points = self.plan.axes.bin_widths_s.iter().filter_map(at).collect();
            vec![report::Series { label: series.label.clone(), points, role: role(&series.transport) }]
        })
    }

    /// Returns one panel per point of the sweep. `of` makes the curves of a series at this point.
    fn at_each_point(&self, of: impl Fn(&Series, &Cell) -> Vec<report::Series>) -> Vec<report::Panel> {
        let panel = |rest: Point| {
            let series = self.plan.series.iter().map(|series| series.get_ref());
            let all = series.filter_map(|series| Some(of(series, self.table.at(&series.label, &rest)?))).flatten();
            panel_of(&rest, all.collect())
        };
        self.panels(0).into_iter().map(panel).filter_map(drawn).collect()
    }

    /// Words the range of the metric for each series.
    fn sentence(&self) -> String {
        let (label, unit) = label_and_unit(self.metric);
        let range = |series: &str| {
            let values = self.table.of_series(series).filter_map(|cell| self.table.mean(cell, self.metric, None));
            let (low, high) =
                values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
            let text =
                if digits(low) == digits(high) { digits(low) } else { format!("{} to {}", digits(low), digits(high)) };
            (low <= high).then(|| format!("{series} {text} {unit}").trim_end().to_owned())
        };
        let ranges: Vec<_> = self.plan.series.iter().filter_map(|series| range(&series.get_ref().label)).collect();
        if ranges.is_empty() { "Not run.".to_owned() } else { format!("{label}: {}.", ranges.join("; ")) }
    }
}

fn panel_of(rest: &Point, series: Vec<report::Series>) -> report::Panel {
    let title = rest.iter().map(|(name, level)| format!("{name} {level}")).collect::<Vec<_>>().join(", ");
    report::Panel { title, series }
}

/// Returns the panel, or `None` if it has no points.
fn drawn(panel: report::Panel) -> Option<report::Panel> {
    panel.series.iter().any(|series| !series.points.is_empty()).then_some(panel)
}

/// Returns the plan's parameters for display, read from the scenario of its first run.
fn parameters(runs: &[Run]) -> Vec<(String, String)> {
    let Some(first) = runs.first() else { return Vec::new() };
    let scenario = &first.scenario;
    let seconds = |ns: u64| format!("{} s", ns as f64 / 1e9);
    let repetitions = runs.iter().map(|run| run.repetition).max().unwrap_or(0);
    let mut all = vec![
        ("duration".to_owned(), seconds(scenario.duration_ns)),
        ("left out at the start".to_owned(), seconds(scenario.warm_up_ns)),
        ("runs of each point".to_owned(), repetitions.to_string()),
        (
            "first point".to_owned(),
            first.point.iter().map(|(name, level)| format!("{name} {level}")).collect::<Vec<_>>().join(", "),
        ),
    ];
    for (index, link) in scenario.links.iter().enumerate() {
        let text = format!(
            "{} Mbit/s, {} ms one way, loss {}, {:?}, {} packets",
            link.rate_bps as f64 / 1e6,
            link.delay_ns as f64 / 1e6,
            link.loss,
            link.discipline,
            link.queue_packets
        );
        all.push((format!("bottleneck {} there", index + 1), text));
    }
    for (index, flow) in scenario.flows.iter().enumerate().take(FLOWS_APART_MAX) {
        let access = if flow.access_bps == 0 {
            "infinite".to_owned()
        } else {
            format!("{} Mbit/s", flow.access_bps as f64 / 1e6)
        };
        let text = format!("access {access}, {} ms round trip over it", flow.rtt_ns as f64 / 1e6);
        let label = flow.label.as_ref().map_or_else(String::new, |label| format!(" (\"{label}\")"));
        all.push((format!("flow {}{label} there", index + 1), text));
    }
    if scenario.flows.len() > FLOWS_APART_MAX {
        all.push(("flows there".to_owned(), scenario.flows.len().to_string()));
    }
    all
}

#[cfg(test)]
mod tests;
