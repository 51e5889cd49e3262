//! What series look like: colour by role, and dashes, markers and hatches so that colour is never needed.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::model::{Figure, Report, Role};

/// Looks that a role has before they repeat.
const VARIANTS: usize = 6;

/// How one series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) role: Role,
    variant: usize,
}

/// The form of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
}

/// Colours of a role on white and on the dark page: after Okabe and Ito, which colour-blind people can tell apart, but
/// with at least 3:1 contrast to the page.
struct Colours {
    name: &'static str,
    light: [&'static str; 3],
    dark: [&'static str; 3],
}

const fn colours(role: Role) -> Colours {
    match role {
        Role::Dfcp => {
            Colours { name: "dfcp", light: ["#0072b2", "#2f8fce", "#003e66"], dark: ["#56b4e9", "#9bd4f7", "#2f8fce"] }
        }
        Role::Tcp => {
            Colours { name: "tcp", light: ["#d55e00", "#a87400", "#7a3300"], dark: ["#ff8a3d", "#f0c14b", "#d9743c"] }
        }
        Role::Quic => {
            Colours { name: "quic", light: ["#a8498a", "#c76bb0", "#5e2460"], dark: ["#e59aca", "#f4c6e4", "#c56fb0"] }
        }
        Role::Other => {
            Colours { name: "other", light: ["#00805f", "#6b6b6b", "#3d5c00"], dark: ["#35c99d", "#b0b0b0", "#a9c94f"] }
        }
    }
}

const ROLES: [Role; 4] = [Role::Dfcp, Role::Tcp, Role::Quic, Role::Other];

impl Look {
    /// Its class in the style sheet.
    pub(super) fn class(self) -> String {
        format!("c-{}-{}", colours(self.role).name, self.variant % 3)
    }

    /// Dashes of its line.
    pub(super) const fn dashes(self) -> &'static str {
        match (self.role, self.variant) {
            (Role::Dfcp, 0) => "none",
            (Role::Dfcp, 1) => "9 4",
            (Role::Dfcp, 2) => "2 3",
            (Role::Tcp, 0) => "7 3",
            (Role::Tcp, 1) => "3 3",
            (Role::Tcp, 2) => "10 3 2 3",
            (Role::Quic, 0) => "8 3 2 3",
            (Role::Quic, 1) => "5 2",
            (Role::Other, 0) => "1.5 3",
            (Role::Other, 1) => "12 4",
            (_, 3) => "8 3 2 3 2 3",
            (_, 4) => "14 3",
            _ => "4 2 1 2",
        }
    }

    /// Form of its markers, and whether they are filled.
    pub(super) const fn marker(self) -> (Shape, bool) {
        let shape = match (self.role, self.variant % 3) {
            (Role::Dfcp, 0) | (Role::Tcp, 2) | (Role::Quic, 2) => Shape::Circle,
            (Role::Tcp, 0) | (Role::Dfcp, 1) | (Role::Other, 2) => Shape::Square,
            (Role::Tcp, 1) | (Role::Quic, 1) => Shape::Triangle,
            (Role::Quic, 0) | (Role::Dfcp, 2) => Shape::Diamond,
            (Role::Other, _) => Shape::Cross,
            (_, _) => Shape::Circle,
        };
        let hollow =
            matches!((self.role, self.variant), (Role::Dfcp, 1) | (Role::Tcp, 1) | (Role::Quic, 1) | (_, 3 | 5));
        (shape, !hollow)
    }

    /// Hatching of its bars: the angle of the lines, their distance and their thickness. `None` is solid.
    pub(super) const fn hatch(self) -> Option<(i32, u32, u32)> {
        let angle = match self.role {
            Role::Dfcp if self.variant == 0 => return None,
            Role::Dfcp => 90,
            Role::Tcp => 45,
            Role::Quic => -45,
            Role::Other => 0,
        };
        Some(match self.variant % 3 {
            0 => (angle, 7, 4),
            1 => (angle, 5, 1),
            _ => (angle, 10, 6),
        })
    }
}

/// Looks of all series of a report. A label keeps its look from figure to figure where it can, and within a figure no
/// two labels of a role share one as long as there are enough.
#[derive(Debug)]
pub(super) struct Palette {
    figures: Vec<BTreeMap<(Role, String), Look>>,
}

impl Palette {
    /// Chosen in the order in which labels appear.
    pub(super) fn of(report: &Report) -> Self {
        let mut known = BTreeMap::new();
        let figures = report.figures.iter().map(|figure| looks_of(figure, &mut known)).collect();
        Self { figures }
    }

    /// The look of a series with `label` and `role` in the figure at `index`.
    pub(super) fn look(&self, index: usize, label: &str, role: Role) -> Look {
        let looks = self.figures.get(index);
        let look = looks.and_then(|looks| looks.get(&(role, label.to_owned())));
        look.copied().unwrap_or(Look { role, variant: 0 })
    }
}

fn looks_of(figure: &Figure, known: &mut BTreeMap<(Role, String), Look>) -> BTreeMap<(Role, String), Look> {
    let mut looks: BTreeMap<(Role, String), Look> = BTreeMap::new();
    for series in figure.panels.iter().flat_map(|panel| &panel.series) {
        let key = (series.role, series.label.clone());
        if looks.contains_key(&key) {
            continue;
        }
        let is_free = |look: &Look| !looks.values().any(|taken| taken == look);
        let used = looks.values().filter(|look| look.role == series.role).count();
        let fresh = (0..VARIANTS).map(|variant| Look { role: series.role, variant }).find(is_free);
        let fresh = fresh.unwrap_or(Look { role: series.role, variant: used % VARIANTS });
        let look = known.get(&key).copied().filter(is_free).unwrap_or(fresh);
        known.entry(key.clone()).or_insert(look);
        looks.insert(key, look);
    }
    looks
}

/// The style sheet's rules for the colours.
pub(super) fn rules() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for role in ROLES {
        let colours = colours(role);
        for (index, (on_light, on_dark)) in colours.light.iter().zip(colours.dark).enumerate() {
            let _ = writeln!(light, ".c-{}-{index}{{color:{on_light}}}", colours.name);
            let _ = writeln!(dark, ".c-{}-{index}{{color:{on_dark}}}", colours.name);
        }
    }
    format!("{light}@media screen and (prefers-color-scheme:dark){{\n{dark}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Panel, Series};

    /// Relative luminance of `#rrggbb` as WCAG 2 defines it.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn every_colour_has_contrast_on_its_page() {
        for role in ROLES {
            for (colour, page) in colours(role)
                .light
                .map(|colour| (colour, "#ffffff"))
                .into_iter()
                .chain(colours(role).dark.map(|colour| (colour, "#15181c")))
            {
                let (a, b) = (luminance(colour) + 0.05, luminance(page) + 0.05);
                assert!(a.max(b) / a.min(b) >= 3.0, "{colour} on {page}: {:.2}", a.max(b) / a.min(b));
            }
        }
    }

    #[test]
    fn within_a_role_no_two_looks_are_drawn_alike() {
        for role in ROLES {
            let drawn: Vec<_> = (0..VARIANTS)
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
            labels.iter().map(|label| Series { label: (*label).to_owned(), role: Role::Tcp, ..Series::default() });
        let panels = vec![Panel { title: String::new(), series: series.collect() }];
        Figure { panels, ..Figure::default() }
    }

    #[test]
    fn a_label_keeps_its_look_and_no_two_in_a_figure_share_one() {
        let figures = vec![figure(&["CUBIC", "NewReno"]), figure(&["NewReno"]), figure(&["BBR", "CUBIC"])];
        let palette = Palette::of(&Report { figures, ..Report::default() });
        assert_eq!(palette.look(0, "NewReno", Role::Tcp), palette.look(1, "NewReno", Role::Tcp));
        assert_ne!(palette.look(0, "CUBIC", Role::Tcp), palette.look(0, "NewReno", Role::Tcp));
        assert_ne!(palette.look(2, "CUBIC", Role::Tcp), palette.look(2, "BBR", Role::Tcp));
    }
}
