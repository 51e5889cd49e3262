//! Styles of series: colour, dashes, marker and hatching. Any two series of a figure differ in all of them, so that one
//! suffices to distinguish the series: in print without colour, for colour-blind readers, and where curves overlap.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::model::{Figure, Report, Role};

/// Style of one series: its role, and the index of a style within the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) role: Role,
    variant: usize,
}

/// Shape of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    /// A triangle on its tip, always filled; an open one marks zero on a logarithmic axis.
    Wedge,
    Diamond,
    Star,
    Cross,
    Plus,
    Asterisk,
    Dash,
}

/// One of the styles of a role.
struct Style {
    /// Colour on a white page, with a contrast of at least 3:1.
    light: &'static str,
    /// Colour on a dark page, with a contrast of at least 3:1.
    dark: &'static str,
    /// Dash pattern of the line.
    dashes: &'static str,
    /// Shape of the markers; true if they are filled.
    marker: (Shape, bool),
    /// Hatching of bars: angle in degrees, distance and thickness of the lines in pixels; `None` for solid bars. Bounds
    /// have no bars.
    hatch: Option<(i32, u32, u32)>,
}

const fn style(
    colours: (&'static str, &'static str),
    dashes: &'static str,
    marker: (Shape, bool),
    hatch: Option<(i32, u32, u32)>,
) -> Style {
    Style { light: colours.0, dark: colours.1, dashes, marker, hatch }
}

/// Styles in blue, beginning with the blue of Okabe and Ito's palette for colour-blind readers.
const DFCP: [Style; 6] = [
    style(("#0072b2", "#56b4e9"), "none", (Shape::Circle, true), None),
    style(("#00406b", "#a8dcff"), "12 3", (Shape::Diamond, false), Some((90, 6, 2))),
    style(("#2f8fce", "#2f8fce"), "2 2.5", (Shape::Circle, false), Some((90, 10, 6))),
    style(("#4046b8", "#98a2ff"), "12 3 2 3", (Shape::Diamond, true), Some((90, 4, 1))),
    style(("#007680", "#3fd0d8"), "6 2", (Shape::Star, true), Some((90, 14, 3))),
    style(("#54749a", "#9fb6d3"), "16 3 5 3", (Shape::Star, false), Some((90, 14, 11))),
];

/// Styles in the other colours of Okabe and Ito's palette, darkened for a white page where necessary, and in further
/// colours.
const RIVALS: [Style; 8] = [
    style(("#d55e00", "#ff8a3d"), "8 4", (Shape::Square, true), Some((45, 7, 4))),
    style(("#00805f", "#35c99d"), "3 3", (Shape::Triangle, false), Some((-45, 5, 1))),
    style(("#8e3fa8", "#d79af0"), "10 3 2 3", (Shape::Cross, true), Some((0, 7, 3))),
    style(("#8f6b00", "#f0c14b"), "5 2 1.5 2", (Shape::Wedge, true), Some((-45, 10, 6))),
    style(("#b3123f", "#ff6f91"), "1.5 4", (Shape::Square, false), Some((45, 5, 1))),
    style(("#4a4a4a", "#d0d0d0"), "14 4 2 3 2 4", (Shape::Plus, true), Some((0, 4, 1))),
    style(("#c4478f", "#ffb3dc"), "4 7", (Shape::Triangle, true), Some((-45, 7, 3))),
    style(("#6b3a1e", "#c98a5e"), "8 2 3 2", (Shape::Asterisk, true), Some((0, 12, 8))),
];

/// Styles in the strong and weak colour of text.
const BOUNDS: [Style; 2] = [
    style(("#1c1f23", "#e6e8ea"), "7 3", (Shape::Dash, true), None),
    style(("#61676e", "#a9b0b8"), "2 4", (Shape::Dash, false), None),
];

const ROLES: [Role; 3] = [Role::Dfcp, Role::Rival, Role::Bound];

/// Returns the name of a role in CSS classes, and its styles.
const fn styles(role: Role) -> (&'static str, &'static [Style]) {
    match role {
        Role::Dfcp => ("dfcp", &DFCP),
        Role::Rival => ("rival", &RIVALS),
        Role::Bound => ("bound", &BOUNDS),
    }
}

impl Shape {
    /// Returns true for a shape that consists of strokes, without an area to fill.
    pub(super) const fn is_strokes(self) -> bool {
        matches!(self, Self::Cross | Self::Plus | Self::Asterisk | Self::Dash)
    }
}

impl Look {
    /// Returns the number of distinct looks of a role. After the first round of styles, colours are combined with
    /// dashes and markers of other styles.
    const fn count(role: Role) -> usize {
        let styles = styles(role).1.len();
        styles * styles
    }

    /// Returns the index of the style that gives the colour, and the style that gives dashes, marker and hatching.
    const fn styles(self) -> (usize, &'static Style) {
        let styles = styles(self.role).1;
        let at = self.variant % styles.len();
        (at, &styles[(at + self.variant / styles.len()) % styles.len()])
    }

    /// Returns the CSS class.
    pub(super) fn class(self) -> String {
        format!("c-{}-{}", styles(self.role).0, self.styles().0)
    }

    /// Returns the dash pattern of the line.
    pub(super) const fn dashes(self) -> &'static str {
        self.styles().1.dashes
    }

    /// Returns the shape of the markers, and true if they are filled.
    pub(super) const fn marker(self) -> (Shape, bool) {
        self.styles().1.marker
    }

    /// Returns the hatching of bars: angle, distance and thickness of the lines; `None` for solid bars.
    pub(super) const fn hatch(self) -> Option<(i32, u32, u32)> {
        self.styles().1.hatch
    }
}

/// Looks of all series of a report. A label keeps its look in all figures if possible. Within a figure, no two labels
/// of a role share a look, unless there are more labels than looks.
#[derive(Debug)]
pub(super) struct Palette {
    figures: Vec<BTreeMap<(Role, String), Look>>,
}

impl Palette {
    /// Assigns looks to labels, in the order of their first appearance.
    pub(super) fn of(report: &Report) -> Self {
        let mut known = BTreeMap::new();
        let figures = report.figures.iter().map(|figure| looks_of(figure, &mut known)).collect();
        Self { figures }
    }

    /// Returns the look of a series in figure `index`.
    pub(super) fn look(&self, index: usize, label: &str, role: Role) -> Look {
        let looks = self.figures.get(index);
        let look = looks.and_then(|looks| looks.get(&(role, label.to_owned())));
        look.copied().unwrap_or(Look { role, variant: 0 })
    }
}

fn looks_of(figure: &Figure, known: &mut BTreeMap<(Role, String), Look>) -> BTreeMap<(Role, String), Look> {
    let mut looks: BTreeMap<(Role, String), Look> = BTreeMap::new();
    let keys =
        || figure.panels.iter().flat_map(|panel| &panel.series).map(|series| (series.role, series.label.clone()));
    // Labels known from earlier figures keep their looks, so new labels choose later.
    for key in keys() {
        if let Some(look) = known.get(&key).filter(|look| !looks.values().any(|taken| taken == *look)) {
            looks.insert(key, *look);
        }
    }
    for key in keys() {
        if looks.contains_key(&key) {
            continue;
        }
        let role = key.0;
        let is_free = |look: &Look| !looks.values().any(|taken| taken == look);
        let used = looks.values().filter(|look| look.role == role).count();
        let fresh = (0..Look::count(role)).map(|variant| Look { role, variant }).find(is_free);
        let look = fresh.unwrap_or_else(|| Look { role, variant: used % Look::count(role) });
        known.entry(key.clone()).or_insert(look);
        looks.insert(key, look);
    }
    looks
}

/// Returns the CSS rules of all colours, for light and dark mode.
pub(super) fn rules() -> String {
    let (light, dark) = (rules_of(|style| style.light), rules_of(|style| style.dark));
    format!("{light}@media screen and (prefers-color-scheme:dark){{\n{dark}}}\n")
}

/// Returns the CSS rules of the colours on a white page.
pub(super) fn light_rules() -> String {
    rules_of(|style| style.light)
}

fn rules_of(colour: impl Fn(&Style) -> &'static str) -> String {
    let mut rules = String::new();
    for role in ROLES {
        let (name, styles) = styles(role);
        for (index, style) in styles.iter().enumerate() {
            let _ = writeln!(rules, ".c-{name}-{index}{{color:{}}}", colour(style));
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Panel, Series};

    /// Relative luminance of `#rrggbb` (WCAG 2).
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn every_colour_has_contrast_on_its_page() {
        for style in DFCP.iter().chain(&RIVALS).chain(&BOUNDS) {
            for (colour, page) in [(style.light, "#ffffff"), (style.dark, "#15181c")] {
                let (a, b) = (luminance(colour) + 0.05, luminance(page) + 0.05);
                assert!(a.max(b) / a.min(b) >= 3.0, "{colour} on {page}: {:.2}", a.max(b) / a.min(b));
            }
        }
    }

    #[test]
    fn looks_differ_in_colour_and_dashes_and_marker_and_those_of_bars_in_hatching() {
        let looks =
            ROLES.into_iter().flat_map(|role| (0..styles(role).1.len()).map(move |variant| Look { role, variant }));
        let looks: Vec<Look> = looks.collect();
        for (index, look) in looks.iter().enumerate() {
            for other in &looks[..index] {
                assert_ne!(look.class(), other.class());
                assert_ne!(look.dashes(), other.dashes(), "{look:?} {other:?}");
                let has_bars = look.role != Role::Bound && other.role != Role::Bound;
                assert!(!has_bars || look.hatch() != other.hatch(), "{look:?} {other:?}");
                assert_ne!(look.marker(), other.marker(), "{look:?} {other:?}");
            }
        }
        let colours = |of: fn(&Style) -> &'static str| {
            DFCP.iter().chain(&RIVALS).chain(&BOUNDS).map(of).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!((colours(|style| style.light).len(), colours(|style| style.dark).len()), (looks.len(), looks.len()));
    }

    #[test]
    fn within_a_role_no_two_looks_are_drawn_alike() {
        for role in ROLES {
            let drawn: Vec<_> = (0..Look::count(role))
                .map(|variant| Look { role, variant })
                .map(|look| (look.class(), look.dashes(), look.marker()))
                .collect();
            for (index, look) in drawn.iter().enumerate() {
                assert!(!drawn[..index].contains(look), "{look:?}");
            }
        }
    }

    fn figure(labels: &[&str]) -> Figure {
        let series =
            labels.iter().map(|label| Series { label: (*label).to_owned(), role: Role::Rival, ..Series::default() });
        let panels = vec![Panel { title: String::new(), series: series.collect() }];
        Figure { panels, ..Figure::default() }
    }

    #[test]
    fn a_label_keeps_its_look_and_no_two_in_a_figure_share_one() {
        let figures = vec![figure(&["CUBIC", "NewReno"]), figure(&["NewReno"]), figure(&["BBR", "CUBIC"])];
        let palette = Palette::of(&Report { figures, ..Report::default() });
        assert_eq!(palette.look(0, "NewReno", Role::Rival), palette.look(1, "NewReno", Role::Rival));
        assert_ne!(palette.look(0, "CUBIC", Role::Rival), palette.look(0, "NewReno", Role::Rival));
        assert_eq!(palette.look(0, "CUBIC", Role::Rival), palette.look(2, "CUBIC", Role::Rival));
        assert_ne!(palette.look(2, "CUBIC", Role::Rival), palette.look(2, "BBR", Role::Rival));
    }
}
