//! Writer of SVG elements. Colours are CSS classes of the page, so that they follow light and dark mode.

use std::fmt::{Arguments, Write};

use crate::report::palette::{Look, Shape};
use crate::report::text::escaped;

/// Font size of the axes' numbers and titles.
pub(super) const TEXT: f64 = 12.0;
/// Font size of the values beside points and bars.
pub(super) const SMALL: f64 = 11.0;

/// Point of a text that lies at its coordinates (SVG `text-anchor`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// SVG text being written. Writing to a string cannot fail, so this type alone ignores the results of `write!`.
#[derive(Debug, Default)]
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn push(&mut self, element: Arguments<'_>) {
        let _ = self.0.write_fmt(element);
        self.0.push('\n');
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(format_args!("<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>"));
    }

    /// Draws a curve through `places` with dash pattern `dashes`.
    pub(super) fn curve(&mut self, class: &str, dashes: &str, places: impl Iterator<Item = (f64, f64)>) {
        let path = path(places);
        self.push(format_args!("<path class=\"{class}\" stroke-dasharray=\"{dashes}\" d=\"{path}\"/>"));
    }

    /// Draws the straight line of a bound, with a tooltip.
    pub(super) fn bound(&mut self, dashes: &str, ends: [(f64, f64); 2], tip: &str) {
        let (path, title) = (path(ends.into_iter()), title(tip));
        self.push(format_args!("<path class=\"curve\" stroke-dasharray=\"{dashes}\" d=\"{path}\">{title}</path>"));
    }

    /// Draws a filled area with outline `places`.
    pub(super) fn band(&mut self, places: impl Iterator<Item = (f64, f64)>) {
        let path = path(places);
        self.push(format_args!("<path class=\"band\" d=\"{path}Z\"/>"));
    }

    /// Draws a vertical interval at `x`, with end caps that extend by `cap` to both sides.
    pub(super) fn interval(&mut self, class: &str, (x, cap): (f64, f64), low: f64, high: f64) {
        let (left, right) = (x - cap, x + cap);
        self.push(format_args!(
            "<path class=\"{class}\" d=\"M{left:.1} {low:.1}H{right:.1}M{x:.1} {low:.1}V{high:.1}M{left:.1} \
             {high:.1}H{right:.1}\"/>"
        ));
    }

    /// Draws a series' marker with a tooltip.
    pub(super) fn marker(&mut self, look: Look, (x, y): (f64, f64), tip: &str) {
        let (shape, filled) = look.marker();
        let class = if filled && !shape.is_strokes() { "m" } else { "m hollow" };
        // Open markers are larger, so that they remain visible around a filled marker at the same place.
        let path = outline(shape, (x, y), if filled { 1.0 } else { 1.35 });
        self.push(format_args!("<path class=\"{class}\" d=\"{path}\">{}</path>", title(tip)));
    }

    /// Draws an open triangle on its tip, the marker of values on the line for zero.
    pub(super) fn zero_marker(&mut self, (x, y): (f64, f64), tip: &str) {
        let (left, right, top) = (x - 5.0, x + 5.0, y - 8.0);
        self.push(format_args!(
            "<path class=\"m hollow\" d=\"M{left:.1} {top:.1}H{right:.1}L{x:.1} {y:.1}Z\">{}</path>",
            title(tip)
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// Draws vertical text that reads upwards.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" \
             transform=\"rotate(-90 {x:.1} {y:.1})\">{text}</text>"
        ));
    }

    /// Defines the fill pattern `id` of hatched bars; does nothing for solid bars.
    pub(super) fn hatch(&mut self, look: Look, id: &str) {
        let Some((angle, distance, thickness)) = look.hatch() else { return };
        let class = look.class();
        self.push(format_args!(
            "<pattern id=\"{id}\" class=\"{class}\" patternUnits=\"userSpaceOnUse\" width=\"{distance}\" \
             height=\"{distance}\" patternTransform=\"rotate({angle})\"><rect width=\"{distance}\" \
             height=\"{distance}\" fill=\"currentColor\" fill-opacity=\"0.22\"/><rect width=\"{thickness}\" \
             height=\"{distance}\" fill=\"currentColor\"/></pattern>"
        ));
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Returns the fill of bars: the pattern `id`, or the solid colour.
pub(super) fn fill(look: Look, id: &str) -> String {
    if look.hatch().is_some() { format!("url(#{id})") } else { "currentColor".to_owned() }
}

fn title(tip: &str) -> String {
    if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(tip)) }
}

fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (index, (x, y)) in places.enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
    }
    path
}

fn outline(shape: Shape, (x, y): (f64, f64), size: f64) -> String {
    let at = |dx: f64, dy: f64| format!("{:.1} {:.1}", x + dx * size, y + dy * size);
    match shape {
        Shape::Circle => {
            let radius = 4.0 * size;
            let across = format!("{radius:.1} {radius:.1} 0 1 0");
            format!("M{}A{across} {}A{across} {}Z", at(-4.0, 0.0), at(4.0, 0.0), at(-4.0, 0.0))
        }
        Shape::Square => format!("M{}L{}L{}L{}Z", at(-3.6, -3.6), at(3.6, -3.6), at(3.6, 3.6), at(-3.6, 3.6)),
        Shape::Triangle => format!("M{}L{}L{}Z", at(0.0, -4.8), at(4.6, 3.4), at(-4.6, 3.4)),
        Shape::Diamond => format!("M{}L{}L{}L{}Z", at(0.0, -5.2), at(5.2, 0.0), at(0.0, 5.2), at(-5.2, 0.0)),
        Shape::Wedge => format!("M{}L{}L{}Z", at(0.0, 4.8), at(4.6, -3.4), at(-4.6, -3.4)),
        Shape::Star => star(at),
        Shape::Cross => format!("M{}L{}M{}L{}", at(-4.0, -4.0), at(4.0, 4.0), at(-4.0, 4.0), at(4.0, -4.0)),
        Shape::Dash => format!("M{}L{}", at(-5.0, 0.0), at(5.0, 0.0)),
        Shape::Plus => format!("M{}L{}M{}L{}", at(-5.0, 0.0), at(5.0, 0.0), at(0.0, -5.0), at(0.0, 5.0)),
        Shape::Asterisk => {
            let falling = format!("M{}L{}M{}L{}", at(-4.3, -2.5), at(4.3, 2.5), at(-4.3, 2.5), at(4.3, -2.5));
            format!("{falling}M{}L{}", at(0.0, -5.0), at(0.0, 5.0))
        }
    }
}

/// Returns the outline of a five-pointed star.
fn star(at: impl Fn(f64, f64) -> String) -> String {
    let corner = |index: u32| {
        let reach = if index.is_multiple_of(2) { 5.8 } else { 2.4 };
        let angle = f64::from(index) * std::f64::consts::PI / 5.0;
        at(reach * angle.sin(), -reach * angle.cos())
    };
    let corners: Vec<String> = (0..10).map(corner).collect();
    format!("M{}Z", corners.join("L"))
}
