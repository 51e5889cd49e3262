//! Groups of bars over categories.

use super::axis::{Frame, Names, RIGHT, Room};
use super::scale::Range;
use super::svg::{Anchor, SMALL, Svg, fill};
use super::{Plot, Size, tip};
use crate::report::model::{Axis, Point, Scale};
use crate::report::text::{escaped, value, width};

/// The widest bar.
const BAR_MAX: f64 = 54.0;
/// Share of a slot that its bars fill.
const FILLED: f64 = 0.8;
/// The narrowest bar that has room for an upright value above.
const UPRIGHT_MIN: f64 = 12.0;

/// Category of `point`, of `count`, if any.
pub(super) fn slot(point: &Point, count: usize) -> Option<usize> {
    (0..count).find(|&index| (point.x - index as f64).abs() < 0.5)
}

/// Layout of one panel's bar chart, computed before anything is drawn.
pub(super) struct Layout<'a> {
    /// Higher than asked for by what long names and upright values would take from the bars.
    pub(super) size: Size,
    names: Names,
    bars: Bars<'a>,
    y_range: Range,
}

impl<'a> Layout<'a> {
    pub(super) fn new(plot: &'a Plot<'a>, names: &[String], size: Size) -> Self {
        let figure = plot.figure;
        let y_range = Range::of(&figure.y, plot.y_values()).down_to_zero(figure.y.scale != Scale::Log);
        // Only the width of this frame counts.
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
        // A higher plot may have other numbers at its side, and so a little less or more room.
        self.bars.slot_width = (frame.area.right - frame.area.left) / self.bars.count.max(1) as f64;
        self.bars.draw(svg, &frame);
        svg.line("axis", (frame.area.left, frame.y.base()), (frame.area.right, frame.y.base()));
        let slot_width = self.bars.slot_width;
        self.names.draw(svg, frame.area.bottom, |index| frame.area.left + (index as f64 + 0.5) * slot_width);
    }
}

/// Orientation of the values above their bars.
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
    /// Width of the widest value.
    widest: f64,
}

impl<'a> Bars<'a> {
    fn new(plot: &'a Plot<'a>, count: usize, slot_width: f64) -> Self {
        // The same in all panels, so that they line up and can be compared.
        let panels = &plot.figure.panels;
        let series = panels.iter().map(|panel| panel.series.len()).max().unwrap_or(0).max(1);
        let bar_width = (slot_width * FILLED / series as f64).min(BAR_MAX);
        let points = plot.all_points().filter(|point| point.is_finite());
        let widest = points.map(|point| width(&value(point.y), SMALL)).fold(0.0, f64::max);
        let room = if series == 1 { slot_width } else { bar_width };
        let values = match () {
            () if widest + 2.0 <= room => Values::Level,
            () if bar_width >= UPRIGHT_MIN => Values::Upright,
            () => Values::None,
        };
        Self { plot, count, slot_width, bar_width, values, widest }
    }

    /// Room above the area for the value of a bar which reaches its top.
    fn headroom(&self) -> f64 {
        match self.values {
            Values::Level => 20.0,
            Values::Upright => self.widest + 10.0,
            Values::None => 8.0,
        }
    }

    fn draw(&self, svg: &mut Svg, frame: &Frame) {
        for (index, (series, look)) in self.plot.panel.series.iter().zip(&self.plot.looks).enumerate() {
            svg.push(format_args!("<g class=\"{}\">", look.class()));
            let fill = fill(*look, &format!("{}-h{index}", self.plot.id));
            for category in 0..self.count {
                let in_slot = |point: &&Point| slot(point, self.count) == Some(category) && point.is_finite();
                if let Some(point) = series.points.iter().find(in_slot) {
                    let all = self.plot.panel.series.len() as f64;
                    let middle = frame.area.left + (category as f64 + 0.5) * self.slot_width;
                    let x = middle + (index as f64 + 0.5 - all / 2.0) * self.bar_width;
                    self.draw_bar(svg, frame, (x, &fill), (&series.label, category, point));
                }
            }
            svg.push(format_args!("</g>"));
        }
    }

    /// One bar with its interval and its value.
    fn draw_bar(&self, svg: &mut Svg, frame: &Frame, (x, fill): (f64, &str), what: (&str, usize, &Point)) {
        let (label, category, point) = what;
        let Some(end) = frame.y.at(point.y) else { return };
        let base = frame.y.base();
        // A sliver stays visible however little it was.
        let height = (end - base).abs().max(1.5);
        let top = if end > base { base } else { base - height };
        let (left, bar_width) = (x - self.bar_width * 0.44, self.bar_width * 0.88);
        let name = match &self.plot.figure.x.scale {
            Scale::Categories(names) => names.get(category).map_or("", String::as_str),
            _ => "",
        };
        let tip = escaped(&tip(label, self.plot.figure, point, name));
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
