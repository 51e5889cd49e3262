//! Snapshot tests: one picture of each kind, as written into the page or a file.

use super::*;
use crate::report::model::{Report, Role, Series};
use crate::report::palette::Palette;

fn series(label: &str, role: Role, points: Vec<Point>) -> Series {
    Series { label: label.to_owned(), points, role }
}

/// Returns points with these values at x = 0, 1, 2 and so on.
fn points(values: &[f64]) -> Vec<Point> {
    values.iter().enumerate().map(|(index, value)| Point::exact(index as f64, *value)).collect()
}

fn figure(x: Axis, y: Axis, series: Vec<Series>) -> Figure {
    let panels = vec![Panel { title: String::new(), series }];
    Figure { id: "F".to_owned(), title: "A figure".to_owned(), x, y, panels, ..Figure::default() }
}

fn drawn(figure: &Figure, size: Size) -> String {
    let palette = Palette::of(&Report { figures: vec![figure.clone()], ..Report::default() });
    let panel = &figure.panels[0];
    let looks = panel.series.iter().map(|series| palette.look(0, &series.label, series.role)).collect();
    Plot { figure, panel, looks, id: "p".to_owned() }.svg(size, "only")
}

fn losses() -> Axis {
    Axis::categories("Loss", &["0 %", "10 %"])
}

fn goodput() -> Axis {
    Axis::linear("Goodput", "Mbit/s")
}

#[test]
fn bars() {
    let dfcp = vec![Point::within(0.0, 93.3, 92.0, 94.0), Point::exact(1.0, 83.5)];
    let series = vec![series("DFCP", Role::Dfcp, dfcp), series("CUBIC", Role::Rival, points(&[89.3, 0.0]))];
    insta::assert_snapshot!(drawn(&figure(losses(), goodput(), series), NARROW));
}

#[test]
fn bars_under_bounds() {
    let series = vec![
        series("DFCP", Role::Dfcp, points(&[93.3, 83.5])),
        series("CUBIC", Role::Rival, points(&[89.3, 0.8])),
        series("capacity", Role::Bound, points(&[96.2, 86.6])),
        // This bound is too close to another one to have its own printed value.
        series("rate", Role::Bound, points(&[100.0, 100.0])),
    ];
    insta::assert_snapshot!(drawn(&figure(losses(), goodput(), series), NARROW));
}

#[test]
fn bars_on_a_logarithmic_axis_with_upright_values_and_names() {
    let names: Vec<String> = (0..6).map(|index| format!("a_long_name_{index}")).collect();
    let values = [0.001, 1.0, 0.0, 1000.0, 45.67, 0.5];
    let series = vec![series("DFCP", Role::Dfcp, points(&values)), series("CUBIC", Role::Rival, points(&values))];
    let figure = figure(Axis::categories("Plan", &names), Axis::log("Time", "s"), series);
    insta::assert_snapshot!(drawn(&figure, HALF));
}

#[test]
fn curves_with_intervals_and_values() {
    let dfcp = vec![Point::within(0.0, 900.0, 880.0, 915.0), Point::exact(10.0, 850.0), Point::exact(20.0, 450.0)];
    let gap = vec![Point::exact(0.0, 941.0), Point::exact(10.0, f64::NAN), Point::exact(20.0, 10.0)];
    let series = vec![
        series("DFCP", Role::Dfcp, dfcp),
        series("CUBIC of Linux 2.6.26", Role::Rival, gap),
        series("limit", Role::Bound, vec![Point::exact(0.0, 960.0), Point::exact(20.0, 480.0)]),
    ];
    insta::assert_snapshot!(drawn(&figure(Axis::linear("Loss", "%"), goodput(), series), WIDE));
}

#[test]
fn curves_on_logarithmic_axes_with_zeros() {
    let dfcp = vec![Point::exact(0.0, 1e-4), Point::exact(0.001, 0.02), Point::exact(0.1, 300.0)];
    let cubic = vec![Point::exact(0.001, 0.0), Point::exact(0.01, 5.0)];
    let series = vec![series("DFCP", Role::Dfcp, dfcp), series("CUBIC", Role::Rival, cubic)];
    insta::assert_snapshot!(drawn(&figure(Axis::log("Loss", ""), Axis::log("Delay", "ms"), series), NARROW));
}

#[test]
fn a_long_curve_with_a_band() {
    let wave = |index: u32| {
        let (x, y) = (f64::from(index), f64::from(50 + index * 7 % 40));
        Point::within(x, y, y - 5.0, y + 5.0)
    };
    let series = vec![series("DFCP", Role::Dfcp, (0..60).map(wave).collect())];
    insta::assert_snapshot!(drawn(&figure(Axis::linear("Time", "s"), goodput(), series), NARROW));
}

#[test]
fn no_values() {
    insta::assert_snapshot!(drawn(&figure(Axis::linear("Time", "s"), goodput(), Vec::new()), NARROW));
}

#[test]
fn a_file_of_its_own() {
    let series =
        vec![series("DFCP", Role::Dfcp, points(&[93.3, 83.5])), series("capacity", Role::Bound, points(&[96.2, 86.6]))];
    let figure = Figure { notes: vec!["A note.".to_owned()], ..figure(losses(), goodput(), series) };
    insta::assert_snapshot!(standalone(&figure));
}
