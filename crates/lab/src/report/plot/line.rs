//! Curves over a numeric axis.

use super::axis::{Frame, RIGHT, Room, numbers_height};
use super::ends::Ends;
use super::labels::{Area, Taken};
use super::scale::{Mapping, Range};
use super::svg::{Anchor, SMALL, Svg};
use super::thin::{Dot, thinned};
use super::{Plot, Size, tip};
use crate::report::model::{Point, Scale, Series};
use crate::report::palette::Look;
use crate::report::text::{value, value_with_unit};

/// Greatest number of points of a series that has a marker and an error bar at each point. Longer series have a few
/// markers, and a band as interval.
const MARKED_MAX: usize = 40;

/// Number of markers on a long curve, enough to recognise it without colour.
const MARKERS: usize = 7;

/// Greatest number of points of a panel in which values are printed beside points, as far as there is room.
const VALUES_MAX: usize = 12;

/// Space above the plot area for printed values.
const ABOVE: f64 = 10.0;

/// Layout of the curves of a panel, computed before drawing.
pub(super) struct Layout<'a> {
    /// Size of the plot: the requested one, plus additional height if the names of the curves need it.
    pub(super) size: Size,
    plot: &'a Plot<'a>,
    ends: Option<Ends>,
    y_range: Range,
}

impl<'a> Layout<'a> {
    pub(super) fn new(plot: &'a Plot<'a>, size: Size) -> Self {
        let figure = plot.figure;
        let y_range = Range::of(&figure.y, plot.y_values()).down_to_zero(false);
        let ends = Ends::new(figure, size);
        let area = frame(plot, size, y_range, ends.as_ref()).area;
        let lacking = ends.as_ref().map_or(0.0, |ends| ends.height - (area.bottom - area.top));
        Self { size: Size { height: size.height + lacking.max(0.0).ceil(), ..size }, plot, ends, y_range }
    }

    pub(super) fn draw(self, svg: &mut Svg) {
        let (plot, figure) = (self.plot, self.plot.figure);
        let frame = frame(plot, self.size, self.y_range, self.ends.as_ref());
        let finite = plot.all_points().filter(|point| point.is_finite()).map(|point| point.x);
        let x_range = Range::of(&figure.x, finite);
        let ends = (frame.area.left, frame.area.right);
        let spacing = if figure.x.scale == Scale::Log { 36.0 } else { 45.0 };
        let x = Mapping::new(&figure.x, x_range, ends, ((ends.1 - ends.0) / spacing) as usize);
        frame.draw_y(svg);
        frame.draw_x(svg, &x);
        let series = plot.panel.series.iter().zip(&plot.looks).enumerate();
        let curves: Vec<Curve<'_>> =
            series.map(|(index, (series, look))| Curve::new(series, *look, index, &x, &frame.y)).collect();
        if curves.iter().all(|curve| curve.points.is_empty()) {
            let middle = ((frame.area.left + frame.area.right) / 2.0, (frame.area.top + frame.area.bottom) / 2.0);
            svg.text(middle, 12.0, Anchor::Middle, "no values");
        }
        let mut taken = Taken::default();
        if let Some(ends) = &self.ends {
            let last = |curve: &Curve<'a>| curve.points.last().map(|(_, dot)| (dot.x, dot.y));
            let named = curves.iter().filter_map(|curve| Some((curve.look, curve.series.label.as_str(), last(curve)?)));
            for [end, corner, name] in ends.draw(svg, &frame.area, &named.collect::<Vec<_>>()) {
                taken.add_line(end, corner);
                taken.add_line(corner, name);
            }
        }
        // The first series, usually DFCP, is drawn last, so that it is on top.
        for curve in curves.iter().rev() {
            svg.push(format_args!("<g class=\"{}\">", curve.look.class()));
            curve.draw(svg, plot, &frame.y);
            svg.push(format_args!("</g>"));
        }
        if curves.iter().map(|curve| curve.points.len()).sum::<usize>() <= VALUES_MAX {
            draw_values(svg, &curves, &frame.area, taken);
        }
    }
}

fn frame(plot: &Plot<'_>, size: Size, y_range: Range, ends: Option<&Ends>) -> Frame {
    let room = Room { above: ABOVE, below: numbers_height(), right: ends.map_or(RIGHT, Ends::width) };
    Frame::new(size, (&plot.figure.x, &plot.figure.y), y_range, room)
}

/// A series with its coordinates on the page.
struct Curve<'a> {
    series: &'a Series,
    look: Look,
    index: usize,
    /// Points with finite coordinates, by ascending `x`.
    points: Vec<(&'a Point, Dot)>,
    /// Uninterrupted parts of the curve, as ranges of `points`.
    runs: Vec<std::ops::Range<usize>>,
}

impl<'a> Curve<'a> {
    fn new(series: &'a Series, look: Look, index: usize, x: &Mapping, y: &Mapping) -> Self {
        let mut sorted: Vec<&Point> = series.points.iter().filter(|point| point.x.is_finite()).collect();
        sorted.sort_by(|a, b| a.x.total_cmp(&b.x));
        let mut points = Vec::new();
        let mut runs = Vec::new();
        let mut begin = 0;
        for point in sorted {
            if let (Some(place_x), Some(place_y)) = (x.at(point.x), y.at(point.y)) {
                let interval = point.interval().and_then(|(low, high)| Some((y.at(low)?, y.at(high)?)));
                points.push((point, Dot { x: place_x, y: place_y, interval }));
            } else if begin < points.len() {
                runs.push(begin..points.len());
                begin = points.len();
            }
        }
        if begin < points.len() {
            runs.push(begin..points.len());
        }
        Self { series, look, index, points, runs }
    }

    fn draw(&self, svg: &mut Svg, plot: &Plot<'_>, y: &Mapping) {
        let few = self.points.len() <= MARKED_MAX;
        for run in &self.runs {
            let dots: Vec<Dot> = self.points[run.clone()].iter().map(|(_, dot)| *dot).collect();
            let dots = if few { dots } else { thinned(&dots) };
            if few {
                for dot in &dots {
                    if let Some((low, high)) = dot.interval {
                        svg.interval("interval", (dot.x, 3.0), low, high);
                    }
                }
            } else if dots.iter().any(|dot| dot.interval.is_some()) {
                let ends = |dot: &Dot| dot.interval.unwrap_or((dot.y, dot.y));
                let lower = dots.iter().map(|dot| (dot.x, ends(dot).0));
                svg.band(lower.chain(dots.iter().rev().map(|dot| (dot.x, ends(dot).1))));
            }
            if dots.len() > 1 {
                svg.curve(
                    if few { "curve" } else { "curve long" },
                    self.look.dashes(),
                    dots.iter().map(|dot| (dot.x, dot.y)),
                );
            }
        }
        let stride = if few { 1 } else { self.points.len().div_ceil(MARKERS) };
        // Markers of different curves are staggered, so that they stay distinguishable if the curves overlap.
        let first = if few { 0 } else { stride * (2 * self.index + 1) / 8 % stride };
        let alone = |index: usize| self.runs.iter().any(|run| run.len() == 1 && run.start == index);
        for (index, (point, dot)) in self.points.iter().enumerate() {
            if index % stride == first || alone(index) {
                let at = value_with_unit(point.x, &plot.figure.x.unit);
                let tip = tip(&self.series.label, plot.figure, point, &at);
                if y.is_on_zero_line(point.y) {
                    svg.zero_marker((dot.x, dot.y), &tip);
                } else {
                    svg.marker(self.look, (dot.x, dot.y), &tip);
                }
            }
        }
    }
}

/// Prints the values beside the points, where they overlap neither curves nor any area in `taken`.
fn draw_values(svg: &mut Svg, curves: &[Curve<'_>], area: &Area, mut taken: Taken) {
    for curve in curves {
        for (_, dot) in &curve.points {
            taken.add(Area::around((dot.x, dot.y), 6.0));
            if let Some((low, high)) = dot.interval {
                taken.add(Area { left: dot.x - 4.0, top: high - 1.0, right: dot.x + 4.0, bottom: low + 1.0 });
            }
        }
        for run in &curve.runs {
            for pair in curve.points[run.clone()].windows(2) {
                if let [(_, from), (_, to)] = pair {
                    taken.add_line((from.x, from.y), (to.x, to.y));
                }
            }
        }
    }
    let inside = Area { top: area.top - ABOVE, right: area.right + 14.0, ..*area };
    for curve in curves {
        for (point, dot) in &curve.points {
            let text = value(point.y);
            if let Some((place, anchor)) = taken.beside((dot.x, dot.y), SMALL, &text, &inside) {
                svg.text(place, SMALL, anchor, &text);
            }
        }
    }
}
