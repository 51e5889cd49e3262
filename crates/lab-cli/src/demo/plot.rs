//! Bar chart of goodput.

use dfcp_lab::report::{self, Axis, Figure, Panel, Point, Role, Series};
use dfcp_terminal::units::{human_bytes, human_duration, human_percent, human_rate};

use super::result::{Ending, RunResult, Transport};

/// Draws a group of bars per loss rate: a bar per transport, and a line at the path's ceiling. Results are in order;
/// each DFCP run begins a new group.
pub(super) fn chart(results: &[RunResult]) -> String {
    let groups: Vec<&[RunResult]> =
        results.chunk_by(|a, b| a.path.loss == b.path.loss && b.transport != Transport::Dfcp).collect();
    let names: Vec<String> = groups.iter().map(|group| human_percent(group[0].path.loss)).collect();
    let runs = Transport::ALL.iter().map(|&transport| {
        let goodput = |run: &RunResult| (run.transport == transport).then(|| run.goodput_bps());
        let role = if transport.is_dfcp() { Role::Dfcp } else { Role::Rival };
        series(transport.label(), role, &groups, |group| group.iter().find_map(goodput))
    });
    let ceiling = series("ceiling of the path", Role::Bound, &groups, |group| {
        group.first().map(|run| run.path.ceiling_bps(run.path.loss))
    });
    report::svg(&Figure {
        id: "demo".to_owned(),
        title: results.first().map(title).unwrap_or_default(),
        x: Axis::categories("Packet loss each way, independent", &names),
        y: Axis::linear("Goodput", "Mbit/s"),
        panels: vec![Panel { title: String::new(), series: runs.chain([ceiling]).collect() }],
        notes: notes(results),
        ..Figure::default()
    })
}

fn title(first: &RunResult) -> String {
    format!(
        "Goodput of {} over {} with {} round-trip time",
        human_bytes(first.file_bytes),
        human_rate(first.path.rate_bps as f64),
        human_duration(first.path.rtt)
    )
}

/// Builds a series with a point for each group that has a value. `value` is in bit/s.
fn series(label: &str, role: Role, groups: &[&[RunResult]], value: impl Fn(&[RunResult]) -> Option<f64>) -> Series {
    let bar = |(index, group): (usize, &&[RunResult])| Some(Point::exact(index as f64, value(group)? / 1e6));
    Series { label: label.to_owned(), points: groups.iter().enumerate().filter_map(bar).collect(), role }
}

/// Words notes on the bars of incomplete transfers.
fn notes(results: &[RunResult]) -> Vec<String> {
    let bar = |run: &RunResult| format!("{} at {}", run.transport.label(), human_percent(run.path.loss));
    let note = |run: &RunResult| match run.ending {
        Ending::Complete => None,
        Ending::Cut { .. } => {
            Some(format!("{}: cut after {:.0} s; the goodput until then, start-up left out.", bar(run), run.elapsed_s))
        }
        Ending::Failed { .. } => Some(format!("{}: failed.", bar(run))),
    };
    results.iter().filter_map(note).collect()
}
