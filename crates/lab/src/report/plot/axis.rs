//! Frame of a plot: margins, grid, axes, ticks, numbers and titles. Lengths are in SVG units.

use super::Size;
use super::labels::{Area, Taken};
use super::scale::{Mapping, Range};
use super::svg::{Anchor, Svg, TEXT};
use crate::report::model::{Axis, Scale};
use crate::report::text::{shortened, width, words, wrapped};

/// Height of a line of text.
const LINE: f64 = 15.0;
/// Distance from the axis to the baseline of the numbers.
const NUMBERS: f64 = 18.0;
/// Right margin of a plot without labels on its right side.
pub(super) const RIGHT: f64 = 16.0;
/// Greatest length of a category name written vertically; longer names are cut.
const UPRIGHT_MAX: f64 = 150.0;

/// Plot area with its vertical axis and titles.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) area: Area,
    pub(super) y: Mapping,
    size: Size,
    y_title: Vec<String>,
    x_title: Vec<String>,
}

/// Margins around the plot area.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Margin for values above the area.
    pub(super) above: f64,
    /// Margin for numbers or names below the area.
    pub(super) below: f64,
    /// Margin for names of curves on the right, or for half of the last number.
    pub(super) right: f64,
}

impl Frame {
    /// Computes the frame of a plot whose vertical axis covers `y_range`, with margins `room` around the plot area.
    pub(super) fn new(size: Size, axes: (&Axis, &Axis), y_range: Range, room: Room) -> Self {
        let (x_axis, y_axis) = axes;
        let y_title = wrapped(&y_axis.title(), TEXT, size.width - 8.0, 2);
        let x_title = wrapped(&x_axis.title(), TEXT, size.width - 24.0, 2);
        let top = 8.0 + LINE * y_title.len() as f64 + room.above;
        let bottom = size.height - room.below - LINE * x_title.len() as f64 - 6.0;
        // The number of ticks depends on the size only. Plots with different lower margins therefore have the same
        // numbers.
        let log = y_axis.scale == Scale::Log;
        let count = ((size.height - 100.0) / if log { 21.0 } else { 31.0 }) as usize;
        let y = Mapping::new(y_axis, y_range, (bottom, top), count);
        let widest = y.labels().iter().map(|(_, label)| width(label, TEXT)).fold(0.0, f64::max);
        let area = Area { left: widest + 14.0, top, right: size.width - room.right, bottom };
        Self { area, y, size, y_title, x_title }
    }

    /// Draws grid, numbers and title of the vertical axis, and the titles of both axes.
    pub(super) fn draw_y(&self, svg: &mut Svg) {
        let Area { left, top, right, bottom } = self.area;
        for (index, line) in self.y_title.iter().enumerate() {
            svg.text((4.0, 13.0 + LINE * index as f64), TEXT, Anchor::Start, line);
        }
        let middle = (left + right) / 2.0;
        for (index, line) in self.x_title.iter().rev().enumerate() {
            let y = self.size.height - 7.0 - LINE * index as f64;
            // Centred below the plot area, but kept inside the page.
            let half = width(line, TEXT) / 2.0;
            let x = middle.clamp(half + 2.0, (self.size.width - half - 2.0).max(half + 2.0));
            svg.text((x, y), TEXT, Anchor::Middle, line);
        }
        for (y, label) in self.y.labels() {
            svg.line("grid", (left, y), (right, y));
            svg.line("axis", (left - 5.0, y), (left, y));
            svg.text((left - 8.0, y + 4.0), TEXT, Anchor::End, &label);
        }
        for y in self.y.minor() {
            svg.line("axis", (left - 3.0, y), (left, y));
        }
        match self.y.zero_and_break() {
            None => svg.line("axis", (left, top), (left, bottom)),
            Some((_, gap)) => {
                svg.line("axis", (left, top), (left, gap - 2.0));
                svg.line("axis", (left, gap + 2.0), (left, bottom));
                svg.line("axis", (left - 5.0, gap + 0.5), (left + 5.0, gap - 4.5));
                svg.line("axis", (left - 5.0, gap + 4.5), (left + 5.0, gap - 0.5));
            }
        }
    }

    /// Draws grid, numbers and line of a numeric horizontal axis.
    pub(super) fn draw_x(&self, svg: &mut Svg, x: &Mapping) {
        let Area { left, top, right, bottom } = self.area;
        let mut taken = Taken::default();
        let y = bottom + NUMBERS;
        for (place, label) in x.labels() {
            svg.line("grid", (place, top), (place, bottom));
            svg.line("axis", (place, bottom), (place, bottom + 5.0));
            let half = width(&label, TEXT) / 2.0;
            let at = (place.min(self.size.width - half - 1.0).max(half + 1.0), y);
            let mut area = Area::of_text(at, TEXT, Anchor::Middle, &label);
            area.right += 5.0;
            if taken.is_free(&area) {
                taken.add(area);
                svg.text(at, TEXT, Anchor::Middle, &label);
            }
        }
        for place in x.minor() {
            svg.line("axis", (place, bottom), (place, bottom + 3.0));
        }
        match x.zero_and_break() {
            None => svg.line("axis", (left, bottom), (right, bottom)),
            Some((_, gap)) => {
                svg.line("axis", (left, bottom), (gap - 2.0, bottom));
                svg.line("axis", (gap + 2.0, bottom), (right, bottom));
                svg.line("axis", (gap - 4.5, bottom + 5.0), (gap + 0.5, bottom - 5.0));
                svg.line("axis", (gap - 0.5, bottom + 5.0), (gap + 4.5, bottom - 5.0));
            }
        }
    }
}

/// Returns the height that the numbers of a horizontal axis need.
pub(super) const fn numbers_height() -> f64 {
    NUMBERS + 8.0
}

/// Category names below a row of slots, arranged without overlap.
#[derive(Debug)]
pub(super) enum Names {
    /// Horizontal names, each wrapped into lines.
    Level(Vec<Vec<String>>),
    /// Vertical names; only every `every`-th name is shown.
    Upright { names: Vec<String>, every: usize },
}

impl Names {
    /// Arranges names for slots of width `slot`: horizontally if every name fits without being cut, vertically
    /// otherwise.
    pub(super) fn new(names: &[String], slot: f64) -> Self {
        let is_whole = |name: &String| {
            let lines = wrapped(name, TEXT, slot - 4.0, 3);
            lines.iter().map(|line| line.split(' ').count()).sum::<usize>() == words(name).count()
                && !lines.iter().any(|line| line.ends_with('…'))
        };
        if names.iter().all(is_whole) {
            return Self::Level(names.iter().map(|name| wrapped(name, TEXT, slot - 4.0, 3)).collect());
        }
        let names = names.iter().map(|name| shortened(name, TEXT, UPRIGHT_MAX)).collect();
        Self::Upright { names, every: ((TEXT + 2.0) / slot).ceil().max(1.0) as usize }
    }

    /// Returns the height that the names need.
    pub(super) fn height(&self) -> f64 {
        match self {
            Self::Level(names) => 10.0 + LINE * names.iter().map(Vec::len).max().unwrap_or(0) as f64,
            Self::Upright { names, .. } => {
                12.0 + names.iter().map(|name| width(name, TEXT)).fold(0.0, f64::max).min(UPRIGHT_MAX)
            }
        }
    }

    /// Draws the names below `y`, each centred at `middle(index)`.
    pub(super) fn draw(&self, svg: &mut Svg, y: f64, middle: impl Fn(usize) -> f64) {
        match self {
            Self::Level(names) => {
                for (index, lines) in names.iter().enumerate() {
                    for (row, line) in lines.iter().enumerate() {
                        let place = (middle(index), y + 16.0 + LINE * row as f64);
                        svg.text(place, TEXT, Anchor::Middle, line);
                    }
                }
            }
            Self::Upright { names, every } => {
                for (index, name) in names.iter().enumerate().step_by(*every) {
                    svg.upright((middle(index) + 4.0, y + 7.0), TEXT, Anchor::End, name);
                }
            }
        }
    }
}
