//! HTML page around the figures: head, header, summary, table of claims and contents.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::model::{Report, Table};
use super::palette::{self, Palette};
use super::text::{duration, escaped, prose};
use super::{claims, figure};
use crate::expand::Form;

const STYLE: &str = concat!(include_str!("style.css"), include_str!("plot.css"));
const SCRIPT: &str = include_str!("script.js");

pub(super) fn page(report: &Report) -> String {
    let palette = Palette::of(report);
    let anchors = anchors(report);
    let title = escaped(&report.title);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src \
         'unsafe-inline'\">\n<title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<header>\n\
         <h1>{title}</h1>",
        palette::rules()
    );
    out.push_str(&particulars(report));
    out.push_str("</header>\n<main>\n<section aria-labelledby=\"summary\">\n<h2 id=\"summary\">Claims</h2>\n");
    out.push_str(&claims::summary(report));
    report.tables.iter().for_each(|table| out.push_str(&words(table)));
    if report.claims().next().is_some() {
        out.push_str(&claims::table(report, &anchors));
    }
    out.push_str("</section>\n");
    out.push_str(&contents(report, &anchors));
    for (index, (figure, anchor)) in report.figures.iter().zip(&anchors).enumerate() {
        out.push_str(&figure::section(figure, index, anchor, &palette));
    }
    let _ = writeln!(out, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>");
    out
}

/// Returns the origin of the measurements in HTML: machine, date, version and platform.
fn particulars(report: &Report) -> String {
    let runs = match report.form {
        Form::Full => "full",
        Form::Quick => "quick: shorter and with fewer seeds than the full ones",
        Form::Small => "small: as the quick ones, with no link above 200 Mbit/s",
    };
    let is_known = report.wall_s.is_finite() && report.wall_s > 0.0;
    let wall = if is_known { duration(report.wall_s) } else { String::new() };
    let pairs = [
        ("Host", report.host.as_str()),
        ("Platform", &report.platform),
        ("Version", &report.version),
        ("Commit", &report.commit),
        ("Date", &report.date),
        ("Runs", runs),
        ("Time taken", &wall),
    ];
    let mut out = String::from("<dl class=\"pairs\">\n");
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(value));
    }
    out.push_str("</dl>\n");
    out
}

/// Returns a text table in HTML, folded.
fn words(table: &Table) -> String {
    let row = |cells: &[String], tag: &str| {
        let cell = |cell: &String| format!("<{tag}>{}</{}>", prose(cell), tag.split(' ').next().unwrap_or(tag));
        format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
    };
    let mut out = format!("<details><summary>{}</summary>\n", escaped(&table.title));
    if !table.text.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", prose(&table.text));
    }
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"words\">\n<thead>{}</thead>\n<tbody>\n{}</tbody>\n</table></div>\n</details>",
        row(&table.columns, "th scope=\"col\""),
        table.rows.iter().map(|cells| row(cells, "td")).collect::<String>()
    );
    out
}

fn contents(report: &Report, anchors: &[String]) -> String {
    if report.figures.is_empty() {
        return "<p>This report has no figures: run some experiments first.</p>\n".to_owned();
    }
    let mut out = String::from("<nav aria-labelledby=\"contents\">\n<h2 id=\"contents\">Figures</h2>\n<ul>\n");
    for (figure, anchor) in report.figures.iter().zip(anchors) {
        let (id, title) = (escaped(&figure.id), escaped(&figure.title));
        let _ = writeln!(out, "<li><a href=\"#{anchor}\"><span class=\"id\">{id}</span> {title}</a></li>");
    }
    out.push_str("</ul>\n</nav>\n");
    out
}

/// Returns the HTML ids of the figures' sections: the figures' ids, reduced to characters allowed in ids, and made
/// unique.
fn anchors(report: &Report) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut out = Vec::new();
    for (index, figure) in report.figures.iter().enumerate() {
        let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
        let name: String = format!("fig-{}", figure.id).chars().map(plain).collect();
        // Appending the index gives a unique id, unless a figure's own id ends with the same number. Then it is
        // appended again.
        let mut anchor = name.clone();
        while !taken.insert(anchor.clone()) {
            anchor = format!("{anchor}_{index}");
        }
        out.push(anchor);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Figure;

    #[test]
    fn anchors_are_plain_and_differ() {
        let figures = ["S1a", "S1 <a>", "S1a", "", "S1a"].map(|id| Figure { id: id.to_owned(), ..Figure::default() });
        let report = Report { figures: figures.into(), ..Report::default() };
        assert_eq!(anchors(&report), ["fig-S1a", "fig-S1--a-", "fig-S1a_2", "fig-", "fig-S1a_4"]);
    }
}
