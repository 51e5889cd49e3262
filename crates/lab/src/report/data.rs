//! Values of a plot as HTML tables: exact, and accessible without the picture.

use std::fmt::Write;

use super::model::{Figure, Panel, Point, Scale, Series};
use super::text::{escaped, value, value_with_unit};

/// Maximum number of points per series in a full list; panels with longer series are summarised.
const LISTED_MAX: usize = 40;

/// Returns the tables of all panels, folded.
pub(super) fn tables(figure: &Figure) -> String {
    let mut out = String::new();
    for panel in figure.panels.iter().filter(|panel| panel.series.iter().any(|series| !series.points.is_empty())) {
        let listed = panel.series.iter().all(|series| series.points.len() <= LISTED_MAX);
        out.push_str("<div class=\"scroll\" tabindex=\"0\"><table class=\"values\">\n");
        let caption =
            if panel.title.is_empty() { figure.y.title() } else { format!("{}: {}", panel.title, figure.y.title()) };
        let _ = writeln!(out, "<caption>{}</caption>", escaped(&caption));
        out.push_str(&if listed { list(figure, panel) } else { sums(figure, panel) });
        out.push_str("</table></div>\n");
    }
    if out.is_empty() { out } else { format!("<details><summary>Values</summary>\n{out}</details>\n") }
}

/// Full list: a row per value of `x`, a column per series.
fn list(figure: &Figure, panel: &Panel) -> String {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let mut xs: Vec<f64> = points.map(|point| point.x).filter(|x| x.is_finite()).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut out = format!("<thead><tr><th scope=\"col\">{}</th>", escaped(&figure.x.title()));
    for series in &panel.series {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(&series.label));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for x in xs {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(&x_name(figure, x)));
        for series in &panel.series {
            let point = series.points.iter().find(|point| point.x == x);
            let _ = write!(out, "<td>{}</td>", point.map_or_else(|| "–".to_owned(), cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n");
    out
}

fn x_name(figure: &Figure, x: f64) -> String {
    match &figure.x.scale {
        Scale::Categories(names) => {
            let name = names.iter().enumerate().find(|(index, _)| (x - *index as f64).abs() < 0.5);
            name.map_or_else(|| value(x), |(_, name)| name.clone())
        }
        _ => value(x),
    }
}

fn cell(point: &Point) -> String {
    match point.interval() {
        Some((low, high)) if point.y.is_finite() => {
            format!("{} <span class=\"ends\">({} to {})</span>", value(point.y), value(low), value(high))
        }
        _ => value(point.y),
    }
}

/// Summary: a row per series, with number of points, minimum, mean and maximum.
fn sums(figure: &Figure, panel: &Panel) -> String {
    let mut out = String::from(
        "<thead><tr><th scope=\"col\">Series</th><th scope=\"col\">Points</th><th scope=\"col\">Least</th><th \
         scope=\"col\">Mean</th><th scope=\"col\">Greatest</th></tr></thead>\n<tbody>\n",
    );
    for series in &panel.series {
        let Series { label, points, .. } = series;
        let ys: Vec<f64> = points.iter().filter(|point| point.is_finite()).map(|point| point.y).collect();
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{}</td>", escaped(label), ys.len());
        let mean = ys.iter().map(|y| y / ys.len() as f64).sum::<f64>();
        let ends = [
            ys.iter().copied().reduce(f64::min),
            (!ys.is_empty()).then_some(mean),
            ys.iter().copied().reduce(f64::max),
        ];
        for end in ends {
            let text = end.map_or_else(|| "–".to_owned(), |end| value_with_unit(end, &figure.y.unit));
            let _ = write!(out, "<td>{}</td>", escaped(&text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n");
    out
}
