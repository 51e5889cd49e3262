//! A figure as a separate SVG file: title, legend, plots and notes below each other, dark on white.

use super::legend;
use super::svg::{Anchor, SMALL, Svg, TEXT};
use super::{Plot, Size, WIDE, remarks};
use crate::report::model::{Figure, Report, Scale};
use crate::report::palette::{Palette, light_rules};
use crate::report::text::{width, wrapped};

/// Margin around the drawing, and distance between its parts.
const MARGIN: f64 = 16.0;
const TITLE: f64 = 17.0;
/// Line spacing, as a multiple of the font size.
const LEADING: f64 = 1.45;
/// Width of a legend sample, including the gap after it.
const SAMPLE: f64 = 52.0;
/// Maximum number of lines of a paragraph.
const LINES_MAX: usize = 8;

/// Draws the file.
pub(in crate::report) fn standalone(figure: &Figure) -> String {
    let palette = Palette::of(&Report { figures: vec![figure.clone()], ..Report::default() });
    let mut sheet = Sheet { svg: Svg::default(), y: MARGIN };
    sheet.text(&figure.title, TITLE);
    sheet.legend(figure, &palette);
    for (number, panel) in figure.panels.iter().enumerate() {
        sheet.text(&panel.title, TEXT);
        let looks = panel.series.iter().map(|series| palette.look(0, &series.label, series.role)).collect();
        let (height, plot) = Plot { figure, panel, looks, id: format!("p{number}") }.nested(WIDE, sheet.y);
        sheet.svg.push(format_args!("{plot}"));
        sheet.y += height + MARGIN;
    }
    for note in remarks(figure).iter().chain(&figure.notes) {
        sheet.text(note, SMALL);
    }
    let Size { width, .. } = WIDE;
    let (height, body, style) = (sheet.y, sheet.svg.into_string(), style());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\">\n<style>\n{style}</style>\n<rect width=\"{width:.0}\" \
         height=\"{height:.0}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// Returns the style sheet of the file. CSS variables are replaced, because many image viewers do not support them.
fn style() -> String {
    let plot = include_str!("../plot.css");
    let plot =
        plot.replace("var(--ink)", "#1c1f23").replace("var(--page)", "#ffffff").replace("var(--rule)", "#d5d9de");
    format!("{plot}{}", light_rules())
}

/// Drawing that is filled from top to bottom.
struct Sheet {
    svg: Svg,
    /// Vertical position of the next part.
    y: f64,
}

impl Sheet {
    /// Adds a paragraph; does nothing if `text` is empty.
    fn text(&mut self, text: &str, size: f64) {
        for line in wrapped(text, size, WIDE.width - 2.0 * MARGIN, LINES_MAX) {
            self.svg.text((MARGIN, self.y + size), size, Anchor::Start, &line);
            self.y += size * LEADING;
        }
    }

    fn legend(&mut self, figure: &Figure, palette: &Palette) {
        let is_bar = matches!(figure.x.scale, Scale::Categories(_));
        let mut x = MARGIN;
        for (number, (label, role)) in figure.labels().into_iter().enumerate() {
            let entry = SAMPLE + width(label, TEXT) + MARGIN;
            if x > MARGIN && x + entry > WIDE.width {
                (x, self.y) = (MARGIN, self.y + TEXT * 2.0);
            }
            let look = palette.look(0, label, role);
            let (class, y) = (look.class(), self.y);
            self.svg.push(format_args!("<g class=\"{class}\" transform=\"translate({x:.1} {y:.1})\">"));
            legend::draw(&mut self.svg, look, is_bar, &format!("l{number}"));
            self.svg.push(format_args!("</g>"));
            self.svg.text((x + SAMPLE, y + TEXT), TEXT, Anchor::Start, label);
            x += entry;
        }
        self.y += TEXT * 2.0;
    }
}
