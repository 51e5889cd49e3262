//! Plots as inline SVG: curves over numbers, or bars over categories.

mod axis;
mod bars;
mod ends;
mod labels;
mod legend;
mod line;
mod scale;
mod standalone;
mod svg;
mod thin;
mod ticks;

pub(super) use legend::swatch;
pub(super) use standalone::standalone;

use svg::Svg;

use super::model::{Axis, Figure, Panel, Point, Scale};
use super::palette::Look;
use super::text::{escaped, value, value_with_unit};

/// Width and height of a plot in SVG units, which are CSS pixels if the page is wide enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Size of a single plot on a wide page.
pub(super) const WIDE: Size = Size { width: 760.0, height: 380.0 };
/// Size of each of two plots side by side.
pub(super) const HALF: Size = Size { width: 490.0, height: 330.0 };
/// Size of each of three plots side by side, and of any plot on a phone.
pub(super) const NARROW: Size = Size { width: 340.0, height: 290.0 };

/// A plot to draw: one panel of a figure.
#[derive(Debug)]
pub(super) struct Plot<'a> {
    pub(super) figure: &'a Figure,
    pub(super) panel: &'a Panel,
    /// Looks of the panel's series, in their order.
    pub(super) looks: Vec<Look>,
    /// Prefix of the ids of SVG elements; unique on the page.
    pub(super) id: String,
}

impl Plot<'_> {
    /// Returns the plot as an SVG element with CSS class `class`, as wide as the page permits.
    pub(super) fn svg(&self, size: Size, class: &str) -> String {
        self.element(size, |_| format!("class=\"plot {class}\"")).1
    }

    /// Returns the plot as an element nested in another SVG, at its left edge and at vertical position `y`, together
    /// with its height.
    fn nested(&self, size: Size, y: f64) -> (f64, String) {
        self.element(size, |Size { width, height }| {
            format!("class=\"plot\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{height:.0}\"")
        })
    }

    fn element(&self, size: Size, attributes: impl Fn(Size) -> String) -> (f64, String) {
        let mut svg = Svg::default();
        let layout = match &self.figure.x.scale {
            Scale::Categories(names) => Layout::Bars(bars::Layout::new(self, names, size)),
            _ => Layout::Curves(line::Layout::new(self, size)),
        };
        let Size { width, height } = layout.size();
        let (id, attributes) = (&self.id, attributes(layout.size()));
        svg.push(format_args!(
            "<svg {attributes} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">"
        ));
        svg.push(format_args!("<title id=\"{id}-t\">{}</title>", escaped(&self.title())));
        svg.push(format_args!("<desc id=\"{id}-d\">{}</desc>", escaped(&self.description())));
        match layout {
            Layout::Bars(bars) => bars.draw(&mut svg),
            Layout::Curves(curves) => curves.draw(&mut svg),
        }
        svg.push(format_args!("</svg>"));
        (height, svg.into_string())
    }

    fn title(&self) -> String {
        let Figure { id, title, .. } = self.figure;
        if self.panel.title.is_empty() {
            format!("{id}: {title}")
        } else {
            format!("{id}: {title}, {}", self.panel.title)
        }
    }

    /// Returns a description of the plot in words, for screen readers.
    fn description(&self) -> String {
        let Figure { x, y, .. } = self.figure;
        let kind = if matches!(x.scale, Scale::Categories(_)) { "Bars" } else { "Curves" };
        let mut out = format!("{kind} of {} against {}.", in_words(y), in_words(x));
        for series in &self.panel.series {
            let finite: Vec<&Point> = series.points.iter().filter(|point| point.is_finite()).collect();
            let least = finite.iter().map(|point| point.y).reduce(f64::min);
            let most = finite.iter().map(|point| point.y).reduce(f64::max);
            out.push_str(&match (least, most) {
                (Some(least), Some(most)) if finite.len() > 1 => {
                    format!(" {}: {} points from {} to {}.", series.label, finite.len(), value(least), value(most))
                }
                (Some(only), _) => format!(" {}: {}.", series.label, value_with_unit(only, &y.unit)),
                _ => format!(" {}: no values.", series.label),
            });
        }
        out
    }

    /// Iterates over the points of all panels. Panels share their axes, for comparison.
    fn all_points(&self) -> impl Iterator<Item = &Point> {
        self.figure.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points)
    }

    /// Iterates over the values that the vertical axis must include.
    fn y_values(&self) -> impl Iterator<Item = f64> {
        let log = self.figure.y.scale == Scale::Log;
        self.all_points().filter(|point| point.is_finite()).flat_map(move |point| {
            let ends = point.interval().map(|(low, high)| [low, high]);
            // An interval may extend below zero. On a logarithmic axis this end is ignored, to avoid a line for zero.
            let ends = ends.into_iter().flatten().filter(move |end| !log || *end > 0.0);
            std::iter::once(point.y).chain(ends)
        })
    }
}

/// Layout of a plot, either kind.
enum Layout<'a> {
    Bars(bars::Layout<'a>),
    Curves(line::Layout<'a>),
}

impl Layout<'_> {
    const fn size(&self) -> Size {
        match self {
            Self::Bars(bars) => bars.size,
            Self::Curves(curves) => curves.size,
        }
    }
}

/// Returns true if plots of this size name all curves at their ends, so that no legend is needed.
pub(super) fn is_labelled(figure: &Figure, size: Size) -> bool {
    let is_bars = matches!(figure.x.scale, Scale::Categories(_));
    !is_bars && ends::Ends::new(figure, size).is_some_and(|ends| ends.is_whole)
}

fn in_words(axis: &Axis) -> String {
    let scale = if axis.scale == Scale::Log { " (logarithmic)" } else { "" };
    format!("{}{scale}", axis.title())
}

/// Returns the text of a point's tooltip.
fn tip(label: &str, figure: &Figure, point: &Point, at: &str) -> String {
    let unit = &figure.y.unit;
    let interval = match point.interval() {
        Some((low, high)) => format!(" ({} to {})", value(low), value(high)),
        None => String::new(),
    };
    format!("{label}: {}{interval} at {at}", value_with_unit(point.y, unit))
}

/// Returns notes on a figure's plots: the position of zero, and the number of points left out.
pub(super) fn remarks(figure: &Figure) -> Vec<String> {
    let points = || figure.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    let mut out = Vec::new();
    let y_zero = figure.y.scale == Scale::Log && points().any(|point| point.is_finite() && point.y <= 0.0);
    let x_zero = figure.x.scale == Scale::Log && points().any(|point| point.is_finite() && point.x <= 0.0);
    let is_bars = matches!(figure.x.scale, Scale::Categories(_));
    if y_zero && is_bars {
        out.push("Bars of zero end below the break of the axis: a logarithmic one has no place for zero.".to_owned());
    } else if y_zero {
        out.push(
            "▽ marks a value of zero: a logarithmic axis has no place for it, so it is drawn below the break."
                .to_owned(),
        );
    }
    if x_zero {
        let name = if figure.x.label.is_empty() { "horizontal" } else { &figure.x.label };
        out.push(format!("Zero on the logarithmic axis “{name}” is drawn left of the break."));
    }
    if is_bars && figure.y.scale == Scale::Log {
        out.push(
            "Bars on a logarithmic axis start at its lower end: compare their tops, not their lengths.".to_owned(),
        );
    }
    let count = match &figure.x.scale {
        Scale::Categories(names) => Some(names.len()),
        _ => None,
    };
    let is_left_out =
        |point: &&Point| !point.is_finite() || count.is_some_and(|count| bars::slot(point, count).is_none());
    match points().filter(is_left_out).count() {
        0 => {}
        1 => out.push("One point without a value is left out.".to_owned()),
        missing => out.push(format!("{missing} points without a value are left out.")),
    }
    out
}

#[cfg(test)]
mod tests;
