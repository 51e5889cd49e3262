//! Placement of labels without overlap.

use super::svg::Anchor;
use crate::report::text::width;

/// A rectangle on the page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// Returns the area of a line of text. `(x, y)` is the start, middle or end of its baseline, as given by `anchor`.
    pub(super) fn of_text((x, y): (f64, f64), size: f64, anchor: Anchor, text: &str) -> Self {
        let width = width(text, size);
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        Self { left, top: y - 0.8 * size, right: left + width, bottom: y + 0.25 * size }
    }

    /// Returns a square around a marker, `reach` to each side.
    pub(super) const fn around((x, y): (f64, f64), reach: f64) -> Self {
        Self { left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        self.left <= other.left && other.right <= self.right && self.top <= other.top && other.bottom <= self.bottom
    }

    /// Returns true if the straight line between two points crosses the area (Liang–Barsky clipping).
    pub(super) fn is_crossed(&self, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> bool {
        let (dx, dy) = (x2 - x1, y2 - y1);
        let mut enter: f64 = 0.0;
        let mut leave: f64 = 1.0;
        for (step, room) in [(-dx, x1 - self.left), (dx, self.right - x1), (-dy, y1 - self.top), (dy, self.bottom - y1)]
        {
            if step == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if step < 0.0 {
                enter = enter.max(room / step);
            } else {
                leave = leave.min(room / step);
            }
        }
        enter <= leave
    }
}

/// Areas and lines of a plot that labels must not cover.
#[derive(Debug, Default)]
pub(super) struct Taken {
    areas: Vec<Area>,
    lines: Vec<((f64, f64), (f64, f64))>,
}

impl Taken {
    pub(super) fn add(&mut self, area: Area) {
        self.areas.push(area);
    }

    pub(super) fn add_line(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.lines.push((from, to));
    }

    pub(super) fn is_free(&self, area: &Area) -> bool {
        !self.areas.iter().any(|taken| taken.overlaps(area))
            && !self.lines.iter().any(|&(from, to)| area.is_crossed(from, to))
    }

    /// Finds a free place for `text` next to a point (above, below, right, left) and inside `inside`, and marks it as
    /// occupied. `None` if there is no free place.
    pub(super) fn beside(
        &mut self,
        (x, y): (f64, f64),
        size: f64,
        text: &str,
        inside: &Area,
    ) -> Option<((f64, f64), Anchor)> {
        let candidates = [
            ((x, y - 9.0), Anchor::Middle),
            ((x, y + 17.0), Anchor::Middle),
            ((x + 8.0, y - 6.0), Anchor::Start),
            ((x - 8.0, y - 6.0), Anchor::End),
            ((x + 9.0, y + 4.0), Anchor::Start),
            ((x - 9.0, y + 4.0), Anchor::End),
            ((x + 8.0, y + 15.0), Anchor::Start),
            ((x - 8.0, y + 15.0), Anchor::End),
        ];
        let (place, anchor, area) = candidates
            .into_iter()
            .map(|(place, anchor)| (place, anchor, Area::of_text(place, size, anchor, text)))
            .find(|(_, _, area)| inside.contains(area) && self.is_free(area))?;
        self.add(area);
        Some((place, anchor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Area = Area { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 };

    #[test]
    fn lines_cross_a_box_or_pass_it() {
        assert!(BOX.is_crossed((-5.0, 5.0), (15.0, 5.0)));
        assert!(BOX.is_crossed((2.0, 2.0), (3.0, 3.0)));
        assert!(!BOX.is_crossed((-5.0, 11.0), (15.0, 11.0)));
        assert!(!BOX.is_crossed((-5.0, 4.0), (-1.0, 4.0)));
        assert!(!BOX.is_crossed((-6.0, 5.0), (5.0, -6.0)));
    }

    #[test]
    fn a_label_goes_where_room_is_or_nowhere() {
        let page = Area { left: 0.0, top: 0.0, right: 100.0, bottom: 100.0 };
        let mut taken = Taken::default();
        let first = taken.beside((50.0, 50.0), 11.0, "945", &page);
        assert_eq!(first, Some(((50.0, 41.0), Anchor::Middle)));
        let second = taken.beside((50.0, 50.0), 11.0, "945", &page);
        assert_eq!(second, Some(((50.0, 67.0), Anchor::Middle)));
        taken.add(page);
        assert_eq!(taken.beside((50.0, 50.0), 11.0, "945", &page), None);
        assert_eq!(Taken::default().beside((50.0, 50.0), 11.0, "945", &BOX), None);
    }
}
