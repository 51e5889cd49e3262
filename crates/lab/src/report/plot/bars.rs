//! Bar charts: groups of bars over categories, with bounds as lines.

use super::axis::{Frame, Names, RIGHT, Room};
use super::labels::{Area, Taken};
use super::scale::Range;
use super::svg::{Anchor, SMALL, Svg, fill};
use super::{Plot, Size, tip};
use crate::report::model::{Axis, Panel, Point, Role, Scale, Series};
use crate::report::palette::Look;
use crate::report::text::{escaped, value, width};

/// Greatest width of a bar.
const BAR_MAX: f64 = 54.0;
/// Share of a slot's width filled by its bars. A slot is the horizontal space of one category.
const FILLED: f64 = 0.8;
/// Least width of a bar that has its value written vertically above it.
const UPRIGHT_MIN: f64 = 12.0;
/// Gap beside the printed value of a bound.
const BESIDE: f64 = 4.0;
/// Distance from a bound's line up to the top of its printed value.
const ABOVE: f64 = 15.0;

fn has_bars(series: &Series) -> bool {
    series.role != Role::Bound
}

/// Returns the category index of `point`; `None` if it is not below `count`.
pub(super) fn slot(point: &Point, count: usize) -> Option<usize> {
    (0..count).find(|&index| (point.x - index as f64).abs() < 0.5)
}

/// Layout of the bar chart of a panel, computed before drawing.
pub(super) struct Layout<'a> {
    /// Size of the plot: the requested one, plus additional height for long names and vertical values.
    pub(super) size: Size,
    names: Names,
    bars: Bars<'a>,
    y_range: Range,
}

impl<'a> Layout<'a> {
    pub(super) fn new(plot: &'a Plot<'a>, names: &[String], size: Size) -> Self {
        let figure = plot.figure;
        let y_range = Range::of(&figure.y, plot.y_values()).down_to_zero(figure.y.scale != Scale::Log);
        // A preliminary frame, of which only the width is used.
        let room = Room { above: 0.0, below: 0.0, right: RIGHT };
        let area = Frame::new(size, (&figure.x, &figure.y), y_range, room).area;
        let slot_width = (area.right - area.left) / names.len().max(1) as f64;
        let (bars, names) = (Bars::new(plot, names.len(), slot_width), Names::new(names, slot_width));
        let extra = (names.height() - 25.0).max(0.0) + (bars.headroom() - 20.0).max(0.0);
        Self { size: Size { height: size.height + extra.ceil(), ..size }, names, bars, y_range }
    }

    pub(super) fn draw(mut self, svg: &mut Svg) {
        let plot = self.bars.plot;
        let axes: (&Axis, &Axis) = (&plot.figure.x, &plot.figure.y);
        let room = Room { above: self.bars.headroom(), below: self.names.height(), right: RIGHT };
        let frame = Frame::new(self.size, axes, self.y_range, room);
        frame.draw_y(svg);
        for (index, look) in plot.looks.iter().enumerate() {
            svg.hatch(*look, &format!("{}-h{index}", plot.id));
        }
        // A higher plot may have other numbers on its vertical axis, and therefore a slightly different width.
        self.bars.slot_width = (frame.area.right - frame.area.left) / self.bars.count.max(1) as f64;
        self.bars.draw(svg, &frame);
        svg.line("axis", (frame.area.left, frame.y.base()), (frame.area.right, frame.y.base()));
        let slot_width = self.bars.slot_width;
        self.names.draw(svg, frame.area.bottom, |index| frame.area.left + (index as f64 + 0.5) * slot_width);
    }
}

/// Orientation of the values printed above bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Level,
    Upright,
    None,
}

struct Bars<'a> {
    plot: &'a Plot<'a>,
    count: usize,
    slot_width: f64,
    bar_width: f64,
    values: Values,
    /// Width of the widest printed value of a bar.
    widest: f64,
    /// Space on the right of each group for the printed values of bounds; 0 if they are not printed.
    beside: f64,
}

impl<'a> Bars<'a> {
    fn new(plot: &'a Plot<'a>, count: usize, slot_width: f64) -> Self {
        // Computed over all panels, so that they are aligned and comparable.
        let panels = &plot.figure.panels;
        let bars = |panel: &Panel| panel.series.iter().filter(|series| has_bars(series)).count();
        let series = panels.iter().map(bars).max().unwrap_or(0).max(1);
        let bar_width = (slot_width * FILLED / series as f64).min(BAR_MAX);
        let widest = |bars: bool| {
            let series = panels.iter().flat_map(|panel| &panel.series).filter(|series| has_bars(series) == bars);
            let points = series.flat_map(|series| &series.points).filter(|point| point.is_finite());
            points.map(|point| width(&value(point.y), SMALL)).fold(0.0, f64::max)
        };
        let beside = match widest(false) + BESIDE {
            room if room > BESIDE && room + BESIDE <= slot_width - series as f64 * bar_width => room,
            _ => 0.0,
        };
        let widest = widest(true);
        let room = if series == 1 && beside == 0.0 { slot_width } else { bar_width };
        let values = match () {
            () if widest + 2.0 <= room => Values::Level,
            () if bar_width >= UPRIGHT_MIN => Values::Upright,
            () => Values::None,
        };
        Self { plot, count, slot_width, bar_width, values, widest, beside }
    }

    /// Returns the space needed above the plot area for the value of the highest bar.
    fn headroom(&self) -> f64 {
        let bars = match self.values {
            Values::Level => 20.0,
            Values::Upright => self.widest + 10.0,
            Values::None => 8.0,
        };
        if self.beside > 0.0 { f64::max(bars, ABOVE + 1.0) } else { bars }
    }

    fn draw(&self, svg: &mut Svg, frame: &Frame) {
        // Bounds are drawn first, so that a bar that exceeds its bound covers the line visibly.
        self.draw_bounds(svg, frame);
        let all = self.plot.panel.series.iter().filter(|series| has_bars(series)).count() as f64;
        let free = self.slot_width - all * self.bar_width;
        let group = free - f64::max(free / 2.0, self.beside);
        let series = self.series().filter(|(_, series, _)| has_bars(series)).enumerate();
        for (place, (index, series, look)) in series {
            svg.push(format_args!("<g class=\"{}\">", look.class()));
            let fill = fill(look, &format!("{}-h{index}", self.plot.id));
            for (category, point) in self.points(series) {
                let x = self.left_of(frame, category) + group + (place as f64 + 0.5) * self.bar_width;
                self.draw_bar(svg, frame, (x, &fill), (&series.label, category, point));
            }
            svg.push(format_args!("</g>"));
        }
    }

    /// Iterates over all series of the panel, with index and look.
    fn series(&self) -> impl Iterator<Item = (usize, &'a Series, Look)> {
        let series = self.plot.panel.series.iter().zip(&self.plot.looks);
        series.enumerate().map(|(index, (series, look))| (index, series, *look))
    }

    /// Iterates over the points to draw: the first finite one of each category.
    fn points(&self, series: &'a Series) -> impl Iterator<Item = (usize, &'a Point)> {
        let count = self.count;
        (0..count).filter_map(move |category| {
            let in_slot = |point: &&Point| slot(point, count) == Some(category) && point.is_finite();
            Some((category, series.points.iter().find(in_slot)?))
        })
    }

    /// Returns the left edge of a category's slot.
    fn left_of(&self, frame: &Frame, category: usize) -> f64 {
        frame.area.left + category as f64 * self.slot_width
    }

    /// Draws the lines of bounds across the groups, and their values if there is room.
    fn draw_bounds(&self, svg: &mut Svg, frame: &Frame) {
        let mut taken = Taken::default();
        for (_, series, look) in self.series().filter(|(_, series, _)| !has_bars(series)) {
            svg.push(format_args!("<g class=\"{}\">", look.class()));
            for (category, point) in self.points(series) {
                let Some(y) = frame.y.at(point.y) else { continue };
                let left = self.left_of(frame, category);
                let right = left + self.slot_width;
                let tip = self.tip(&series.label, category, point);
                svg.bound(look.dashes(), [(left + 1.0, y), (right - 1.0, y)], &tip);
                let (place, text) = ((right - 2.0, y - ABOVE + 0.8 * SMALL), value(point.y));
                let area = Area::of_text(place, SMALL, Anchor::End, &text);
                if self.beside > 0.0 && taken.is_free(&area) {
                    taken.add(area);
                    svg.text(place, SMALL, Anchor::End, &text);
                }
            }
            svg.push(format_args!("</g>"));
        }
    }

    fn tip(&self, label: &str, category: usize, point: &Point) -> String {
        let name = match &self.plot.figure.x.scale {
            Scale::Categories(names) => names.get(category).map_or("", String::as_str),
            _ => "",
        };
        tip(label, self.plot.figure, point, name)
    }

    /// Draws a bar with its interval and value.
    fn draw_bar(&self, svg: &mut Svg, frame: &Frame, (x, fill): (f64, &str), what: (&str, usize, &Point)) {
        let (label, category, point) = what;
        let Some(end) = frame.y.at(point.y) else { return };
        let base = frame.y.base();
        // Keeps tiny bars visible.
        let height = (end - base).abs().max(1.5);
        let top = if end > base { base } else { base - height };
        let (left, bar_width) = (x - self.bar_width * 0.44, self.bar_width * 0.88);
        let tip = escaped(&self.tip(label, category, point));
        svg.push(format_args!(
            "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{bar_width:.1}\" height=\"{height:.1}\" \
             fill=\"{fill}\"><title>{tip}</title></rect>"
        ));
        let interval = point.interval().and_then(|(low, high)| Some((frame.y.at(low)?, frame.y.at(high)?)));
        if let Some((low, high)) = interval {
            svg.interval("interval ink", (x, (self.bar_width * 0.35).min(3.0)), low, high);
        }
        let clear = interval.map_or(top, |(_, high)| top.min(high));
        let text = value(point.y);
        match self.values {
            Values::Level => svg.text((x, clear - 5.0), SMALL, Anchor::Middle, &text),
            Values::Upright => svg.upright((x + 4.0, clear - 4.0), SMALL, Anchor::Start, &text),
            Values::None => {}
        }
    }
}
