//! `docs/experiments.md`, written from the plans.

use std::fmt::Write as _;

use crate::claims::describe;
use crate::metrics::METRICS;
use crate::plan::{Level, NUMBERED, PARAMETERS, Series, Source, Tag};

/// The keys by which plans name the documents (`source`).
const DOCUMENTS: [(&str, &str); 6] = [
    (
        "TH",
        "Sz. Solymos: Development of an Efficient Transport Protocol based on Digital Fountain. Students' thesis, BME, 2014",
    ),
    (
        "FC",
        "S. Molnár, Z. Móczár, B. Sonkoly: Fountain Code or Congestion Control Based Transfer: Evaluation on Different Testing Platforms, 2013",
    ),
    ("FL", "S. Molnár, Z. Móczár, B. Sonkoly: How to Transfer Flows Efficiently via the Internet? ICNC 2014"),
    ("DY", "Z. Móczár, S. Molnár: On the Dynamic Behavior of Digital Fountain Based Communication. GLOBECOM 2015"),
    (
        "PH",
        "Z. Móczár: New Methods for Efficient Data Transport in Future Networks. Summary of the dissertation, BME, 2015",
    ),
    ("DI", "The dissertation that PH summarises, of which only excerpts were at hand"),
];

/// Traps: statements of the documents that mislead, by the numbers under which plans and reasons name them.
const TRAPS: [(&str, &str); 8] = [
    (
        "N1",
        "As it is printed, the adaptation error of the sum equals that of the flows if their shares are equal, but table II of DY has other values. The plans take how far the sum of goodputs is from the sum of fair shares.",
    ),
    (
        "N2",
        "Dead packets: a packet that the second bottleneck drops has taken capacity of the first one. With senders at full rate a full link is not a useful one.",
    ),
    ("N3", "The round-trip time of the loss sweeps is not given, and the ratios between DFCP and TCP depend on it."),
    (
        "N5",
        "TCP's 200 Mbit/s at 100 ms are 2.5 MB in flight, the socket buffers of Linux 2.6.26. Congestion control is not the limit.",
    ),
    (
        "N6",
        "Behind a fair queue two CUBIC flows share equally unless one cannot fill its half. Unequal shares there follow from N5.",
    ),
    (
        "N7",
        "A flow completion time from the first packet of data to the last leaves out the handshake. For short flows that decides the ratio to TCP.",
    ),
    (
        "N9",
        "A window of 1000 blocks, 63.5 MB, cannot fill 10 Gbit/s at 100 ms, so one flow's goodput there is no measure of the link.",
    ),
    ("N12", "The networks of the claim that S13 judges are not described."),
];

/// The page as Markdown.
#[must_use]
pub fn experiments_page(sources: &[Source]) -> String {
    let mut page = String::from(
        "# Experiments\n\n\
         <!-- Written from crates/lab/plans by `cargo run -p dfcp-lab --example experiments_page`; change the plans, not this page. -->\n\n\
         Every figure of the documents which the laboratory reproduces, with its parameters and claims. Run one with\n\
         `dfcp lab run S1`, all in short with `dfcp lab run all --quick`. How to write a plan: [plans.md](plans.md).\n\n\
         Claims are marked N for a number given in the text, Q for a statement, D for a derivation of ours.\n",
    );
    page.push_str("\n## Documents\n\n| key | document |\n|---|---|\n");
    rows(&mut page, &DOCUMENTS);
    page.push_str(
        "\n## Traps\n\nStatements of the documents that mislead. Notes and reasons refer to them by number.\n\n",
    );
    page.push_str("| trap | what it is |\n|---|---|\n");
    rows(&mut page, &TRAPS);
    for source in sources {
        plan(&mut page, source);
    }
    page.push_str("\n## Metrics\n\n| name | what it is |\n|---|---|\n");
    rows(&mut page, &METRICS);
    page.push_str("\n## Parameters\n\n| name | what it is |\n|---|---|\n");
    rows(&mut page, &PARAMETERS);
    rows(&mut page, &NUMBERED);
    page
}

fn rows(page: &mut String, rows: &[(&str, &str)]) {
    for (name, text) in rows {
        line(page, &format!("| `{name}` | {text} |"));
    }
}

fn line(page: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{text}");
}

fn plan(page: &mut String, source: &Source) {
    let plan = &source.plan;
    line(page, &format!("\n## {}: {}\n", plan.id, plan.title));
    line(page, &format!("{} ({})\n", plan.question, plan.source));
    if !plan.says.is_empty() {
        let what = if plan.is_ours() { "Background" } else { "The document" };
        line(page, &format!("{what}: {}\n", plan.says));
    }
    let notes: Vec<String> = plan.oracle_note().into_iter().chain(plan.notes.iter().cloned()).collect();
    notes.iter().for_each(|note| line(page, &format!("- {note}")));
    if !notes.is_empty() {
        page.push('\n');
    }
    let run = &plan.run;
    line(
        page,
        &format!(
            "Runs of {} s, of which the first {} s are left out, {} of each point.",
            run.duration_s, run.warm_up_s, run.seeds
        ),
    );
    for (form, note) in [("quick", &plan.quick.note), ("small", &plan.small.note)] {
        if !note.is_empty() {
            line(page, &format!("With `--{form}`: {note}"));
        }
    }
    let name = |series: &Series| {
        let runs = series.seeds.map_or(String::new(), |seeds| format!(" ({seeds} of each point)"));
        format!("{}{runs}", series.label)
    };
    let series: Vec<_> = plan.series.iter().map(|series| name(series.get_ref())).collect();
    line(page, &format!("Series: {}.", series.join("; ")));
    for axis in plan.sweep.iter().map(|axis| axis.get_ref()) {
        let values: Vec<_> = axis.values.iter().map(|value| Level::of(value).to_string()).collect();
        line(page, &format!("Swept: `{}` over {}.", axis.parameter, values.join(", ")));
    }
    let metrics: Vec<_> = plan.metrics.plot.iter().map(|name| format!("`{}`", name.get_ref())).collect();
    line(page, &format!("Drawn: {}.", metrics.join(", ")));
    if plan.claims.is_empty() {
        return;
    }
    let what = if plan.is_ours() { "we expect" } else { "the document" };
    line(page, &format!("\n| claim | | {what} | holds if |\n|---|---|---|---|"));
    for claim in plan.claims.iter().map(|claim| claim.get_ref()) {
        let tag = match claim.tag {
            Tag::N => "N",
            Tag::Q => "Q",
            Tag::D => "D",
        };
        line(page, &format!("| {} | {tag} | {} | {} |", claim.id, cell(&claim.says), cell(&describe(claim))));
    }
}

/// Text in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
