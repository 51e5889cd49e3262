//! HTML section of a figure: question, legend, plots, statement of the source, measurement, verdicts and set-up.

use std::fmt::Write;

use super::claims::{badge, reason, tag};
use super::data;
use super::model::{Claim, Figure, Panel, Scale};
use super::palette::Palette;
use super::plot::{HALF, NARROW, Plot, Size, WIDE, is_labelled, remarks, swatch};
use super::text::{escaped, prose};

/// Returns the section of figure `index`, with the HTML id `anchor`.
pub(super) fn section(figure: &Figure, index: usize, anchor: &str, palette: &Palette) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "<section class=\"figure\" id=\"{anchor}\" aria-labelledby=\"{anchor}-h\">");
    let id = escaped(&figure.id);
    let _ = writeln!(out, "<h2 id=\"{anchor}-h\"><span class=\"id\">{id}</span> {}</h2>", escaped(&figure.title));
    if !figure.source.is_empty() {
        let documents = format!("In the documents: {}", escaped(&figure.source));
        let source = if figure.is_ours() { "Not in the documents" } else { &documents };
        let _ = writeln!(out, "<p class=\"source\">{source}</p>");
    }
    if !figure.question.is_empty() {
        let _ = writeln!(out, "<p class=\"question\">{}</p>", prose(&figure.question));
    }
    let _ = writeln!(out, "<div class=\"body of-{}\">", figure.panels.len().min(3));
    if !figure.panels.is_empty() {
        out.push_str("<div class=\"plots\">\n");
        if !sizes(figure).iter().all(|(size, _)| is_labelled(figure, *size)) {
            out.push_str(&legend(figure, index, anchor, palette));
        }
        let _ = writeln!(out, "<div class=\"panels of-{}\">", figure.panels.len().min(3));
        for (number, panel) in figure.panels.iter().enumerate() {
            out.push_str(&panel_of(figure, panel, index, &format!("{anchor}-{number}"), palette));
        }
        out.push_str("</div>\n");
        for remark in remarks(figure) {
            let _ = writeln!(out, "<p class=\"remark\">{}</p>", escaped(&remark));
        }
        out.push_str("</div>\n");
    }
    out.push_str("<div class=\"facts\">\n");
    let says = if figure.is_ours() { "Background" } else { "The documents say" };
    for (title, text) in [(says, &figure.says), ("Measured here", &figure.measured)] {
        if !text.is_empty() {
            let _ = writeln!(out, "<div><h3>{title}</h3><p>{}</p></div>", prose(text));
        }
    }
    out.push_str("</div>\n</div>\n");
    for warning in &figure.warnings {
        let _ = writeln!(out, "<p class=\"warning\"><span aria-hidden=\"true\">⚠</span> {}</p>", prose(warning));
    }
    out.push_str(&verdicts(&figure.claims));
    out.push_str(&notes(&figure.notes));
    out.push_str(&parameters(&figure.parameters));
    out.push_str(&data::tables(figure));
    out.push_str("</section>\n");
    out
}

/// Returns the legend, with one entry per label and role in the figure.
fn legend(figure: &Figure, index: usize, anchor: &str, palette: &Palette) -> String {
    let is_bar = matches!(figure.x.scale, Scale::Categories(_));
    let entries = figure.labels();
    if entries.is_empty() {
        return String::new();
    }
    let mut out = String::from("<ul class=\"legend\">\n");
    for (number, (label, role)) in entries.iter().enumerate() {
        let look = palette.look(index, label, *role);
        let swatch = swatch(look, is_bar, &format!("{anchor}-l{number}"));
        let _ = writeln!(out, "<li>{swatch}{}</li>", escaped(label));
    }
    out.push_str("</ul>\n");
    out
}

/// Returns a plot in all its sizes. For a phone it is drawn separately instead of scaled, to keep its text readable.
fn panel_of(figure: &Figure, panel: &Panel, index: usize, id: &str, palette: &Palette) -> String {
    let looks = || panel.series.iter().map(|series| palette.look(index, &series.label, series.role)).collect();
    let plot = |class: &str| Plot { figure, panel, looks: looks(), id: format!("{id}-{class}") };
    let mut out = String::from("<div class=\"panel\">\n");
    if !panel.title.is_empty() {
        let _ = writeln!(out, "<h3>{}</h3>", escaped(&panel.title));
    }
    for &(size, class) in sizes(figure) {
        out.push_str(&plot(class).svg(size, class));
    }
    out.push_str("</div>\n");
    out
}

/// Returns the sizes in which the figure's plots are drawn, with their CSS classes.
fn sizes(figure: &Figure) -> &'static [(Size, &'static str)] {
    match figure.panels.len() {
        1 => &[(WIDE, "wide"), (NARROW, "narrow")],
        2 => &[(HALF, "wide"), (NARROW, "narrow")],
        _ => &[(NARROW, "only")],
    }
}

fn verdicts(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut out = String::from("<ul class=\"verdicts\">\n");
    for claim in claims {
        let _ = write!(
            out,
            "<li>{} <b>{}</b> {} {}",
            badge(&claim.verdict),
            escaped(&claim.id),
            tag(claim.tag),
            prose(&claim.says)
        );
        if !claim.measured.is_empty() {
            let _ = write!(out, " <span class=\"measured\">Measured: {}</span>", prose(&claim.measured));
        }
        let _ = writeln!(out, " {}</li>", reason(&claim.verdict));
    }
    out.push_str("</ul>\n");
    out
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>\n", prose(note))).collect();
    format!("<h3>Notes</h3>\n<ul class=\"notes\">\n{items}</ul>\n")
}

fn parameters(parameters: &[(String, String)]) -> String {
    if parameters.is_empty() {
        return String::new();
    }
    let items: String = parameters
        .iter()
        .map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value)))
        .collect();
    format!("<details><summary>Parameters</summary>\n<dl class=\"pairs\">\n{items}</dl>\n</details>\n")
}
