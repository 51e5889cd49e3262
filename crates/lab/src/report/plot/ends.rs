//! Curve names at the right ends of the curves, instead of a legend. A sample of the line precedes each name.

use super::Size;
use super::labels::Area;
use super::svg::{Anchor, SMALL, Svg};
use crate::report::model::{Figure, Panel, Point, Series};
use crate::report::palette::Look;
use crate::report::text::{width, words, wrapped};

/// Maximum number of names at the ends of curves; with more curves, a legend is used.
const LABELS_MAX: usize = 16;
/// Greatest share of a plot's width for the names.
const SHARE_MAX: f64 = 0.27;
/// Maximum number of lines of a name.
const LINES_MAX: usize = 3;
/// Height of a line of a name.
const LINE: f64 = 13.0;
/// Vertical space between two names.
const BETWEEN: f64 = 3.0;
/// Distance from the plot area to the samples, for connecting lines.
const LEAD: f64 = 16.0;
/// Distance from a sample to its name, and from the longest name to the plot's edge.
const GAP: f64 = 5.0;

/// Coordinates (x, y) on the page.
type Place = (f64, f64);

/// Names of a figure's curves, laid out for a plot of one size.
#[derive(Debug)]
pub(super) struct Ends {
    room: f64,
    sample: f64,
    /// Width of the longest line of any name.
    widest: f64,
    /// Height of all names in the panel with the most names.
    pub(super) height: f64,
    /// True if all names of the figure are shown completely.
    pub(super) is_whole: bool,
}

/// Returns true if the curve has a finite point, where its name can be attached.
fn is_drawn(series: &Series) -> bool {
    series.points.iter().any(Point::is_finite)
}

impl Ends {
    /// Lays out the names of all panels together, so that their plot areas are aligned. `None` without curves, or with
    /// too many.
    pub(super) fn new(figure: &Figure, size: Size) -> Option<Self> {
        let drawn = |panel: &Panel| panel.series.iter().filter(|series| is_drawn(series)).count();
        if !(1..=LABELS_MAX).contains(&figure.panels.iter().map(drawn).max().unwrap_or(0)) {
            return None;
        }
        let mut ends = Self {
            room: size.width * SHARE_MAX,
            sample: if size.width < 400.0 { 18.0 } else { 26.0 },
            widest: 0.0,
            height: 0.0,
            is_whole: true,
        };
        for panel in &figure.panels {
            let mut height = 0.0;
            for series in panel.series.iter().filter(|series| is_drawn(series)) {
                let lines = ends.lines(&series.label);
                height += height_of(&lines);
                ends.widest = lines.iter().map(|line| width(line, SMALL)).fold(ends.widest, f64::max);
                ends.is_whole &= is_whole(&series.label, &lines);
            }
            ends.height = f64::max(ends.height, height);
        }
        let all = || figure.panels.iter().flat_map(|panel| &panel.series);
        let is_named = |series: &Series| all().any(|other| other.label == series.label && is_drawn(other));
        ends.is_whole &= all().all(is_named);
        Some(ends)
    }

    fn lines(&self, label: &str) -> Vec<String> {
        wrapped(label, SMALL, self.room, LINES_MAX)
    }

    /// Returns the width that the names need on the right of the plot area.
    pub(super) fn width(&self) -> f64 {
        LEAD + self.sample + GAP + self.widest + GAP
    }

    /// Draws the names of `curves` (look, name, end point) beside `area`, connected to the end points. Returns the
    /// corners of the connecting lines.
    pub(super) fn draw(&self, svg: &mut Svg, area: &Area, curves: &[(Look, &str, Place)]) -> Vec<[Place; 3]> {
        let mut labels: Vec<_> = curves.iter().map(|&(look, name, end)| (look, self.lines(name), end)).collect();
        labels.sort_by(|a, b| a.2.1.total_cmp(&b.2.1));
        let wanted: Vec<(f64, f64)> = labels.iter().map(|(_, lines, end)| (end.1, height_of(lines))).collect();
        let left = area.right + LEAD;
        let mut leads = Vec::new();
        for ((look, lines, end), middle) in labels.iter().zip(spread(&wanted, (area.top, area.bottom))) {
            svg.push(format_args!("<g class=\"{}\">", look.class()));
            let lead = [*end, (area.right.max(end.0), end.1), (left - 2.0, middle)];
            svg.curve("leader", "1 2", lead.into_iter());
            svg.curve("curve", look.dashes(), [(left, middle), (left + self.sample, middle)].into_iter());
            svg.marker(*look, (left + self.sample / 2.0, middle), "");
            svg.push(format_args!("</g>"));
            let first = middle + 4.0 - LINE * (lines.len() as f64 - 1.0) / 2.0;
            for (row, line) in lines.iter().enumerate() {
                let place = (left + self.sample + GAP, first + LINE * row as f64);
                svg.text(place, SMALL, Anchor::Start, line);
            }
            leads.push(lead);
        }
        leads
    }
}

fn height_of(lines: &[String]) -> f64 {
    LINE * lines.len().max(1) as f64 + BETWEEN
}

/// Returns true if `lines` contain all words of the label, uncut.
fn is_whole(label: &str, lines: &[String]) -> bool {
    lines.iter().flat_map(|line| words(line)).eq(words(label))
}

/// Arranges pieces without overlap and in order. `wanted` holds the wanted middle and the height of each. They are
/// placed as close to the wanted middles as possible, and between `top` and `bottom` if they fit. Returns the middles.
fn spread(wanted: &[(f64, f64)], (top, bottom): (f64, f64)) -> Vec<f64> {
    /// Adjacent pieces that touch: their number and total height. `sum` adds up the start of the group that each piece
    /// prefers.
    struct Group {
        count: usize,
        height: f64,
        sum: f64,
    }
    let begin = |group: &Group| (group.sum / group.count as f64).min(bottom - group.height).max(top);
    let mut groups: Vec<Group> = Vec::new();
    for &(middle, height) in wanted {
        groups.push(Group { count: 1, height, sum: middle - height / 2.0 });
        while let [.., before, last] = groups.as_mut_slice() {
            if begin(before) + before.height <= begin(last) {
                break;
            }
            before.sum += last.sum - before.height * last.count as f64;
            before.height += last.height;
            before.count += last.count;
            groups.pop();
        }
    }
    let mut heights = wanted.iter().map(|(_, height)| height);
    let mut middles = Vec::new();
    for group in &groups {
        let mut at = begin(group);
        for height in heights.by_ref().take(group.count) {
            middles.push(at + height / 2.0);
            at += height;
        }
    }
    middles
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_stand_at_their_ends_or_share_the_room() {
        assert_eq!(spread(&[(20.0, 10.0), (60.0, 10.0)], (0.0, 100.0)), [20.0, 60.0]);
        assert_eq!(spread(&[(50.0, 10.0), (50.0, 10.0)], (0.0, 100.0)), [45.0, 55.0]);
        assert_eq!(spread(&[(99.0, 10.0), (100.0, 10.0)], (0.0, 100.0)), [85.0, 95.0]);
        assert_eq!(spread(&[(0.0, 10.0), (2.0, 10.0), (90.0, 10.0)], (0.0, 100.0)), [5.0, 15.0, 90.0]);
    }

    proptest! {
        #[test]
        fn names_never_overlap(mut wanted in proptest::collection::vec((0.0..300.0f64, 10.0..50.0f64), 1..16)) {
            wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
            let bottom = wanted.iter().map(|(_, height)| height).sum::<f64>().max(300.0);
            let middles = spread(&wanted, (0.0, bottom));
            prop_assert_eq!(middles.len(), wanted.len());
            let ends: Vec<(f64, f64)> =
                middles.iter().zip(&wanted).map(|(middle, (_, height))| (middle - height / 2.0, middle + height / 2.0)).collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-6), "{ends:?}");
            prop_assert!(ends[0].0 >= -1e-6 && ends[ends.len() - 1].1 <= bottom + 1e-6, "{ends:?}");
        }
    }
}
