//! Samples of line and bar styles for the legend. The legend itself is HTML, which wraps on a phone and never covers a
//! curve.

use super::svg::{Svg, fill};
use crate::report::model::Role;
use crate::report::palette::Look;

/// Returns the sample of a curve, a bar, or a bound's line over bars. `id` is a unique id on the page.
pub(in crate::report) fn swatch(look: Look, is_bar: bool, id: &str) -> String {
    let mut svg = Svg::default();
    let class = look.class();
    svg.push(format_args!("<svg class=\"swatch {class}\" viewBox=\"0 0 44 16\" aria-hidden=\"true\">"));
    draw(&mut svg, look, is_bar, id);
    svg.push(format_args!("</svg>"));
    svg.into_string()
}

/// Draws the sample without an enclosing SVG element. It is 44 units wide and 16 high.
pub(super) fn draw(svg: &mut Svg, look: Look, is_bar: bool, id: &str) {
    let line = [(1.0, 8.0), (43.0, 8.0)].into_iter();
    if is_bar && look.role == Role::Bound {
        svg.curve("curve", look.dashes(), line);
    } else if is_bar {
        svg.hatch(look, id);
        let fill = fill(look, id);
        svg.push(format_args!("<rect class=\"bar\" x=\"6\" y=\"1\" width=\"32\" height=\"14\" fill=\"{fill}\"/>"));
    } else {
        svg.curve("curve", look.dashes(), line);
        svg.marker(look, (22.0, 8.0), "");
    }
}
