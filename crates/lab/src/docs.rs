//! Generator of the documentation page of all experiments, and of the legend of abbreviations.

use std::fmt::Write as _;

use crate::claims::describe;
use crate::metrics::METRICS;
use crate::plan::{Level, NUMBERED, PARAMETERS, Series, Source, Tag};
use crate::report::Table;

/// Keys of the source documents to which plans refer in `source`.
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

/// Misleading statements of the source documents. Plans and known reasons refer to them by these numbers.
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

/// Groups of plans by the first letter of their ids.
const GROUPS: [(&str, &str); 10] = [
    ("V", "DFCP alone: how goodput depends on loss, delay, redundancy and window"),
    ("S", "Flows that never end: DFCP beside TCP, on one bottleneck and several"),
    ("F", "Flows that end: completion times of web objects and DVDs"),
    ("D", "Dynamics: how flows come to their shares, and follow a bandwidth that changes"),
    ("B", "Bandwidth estimation by busy periods"),
    ("X", "Beyond the documents: QUIC, the codec, losses in bursts, rates that starve others"),
    ("T", "The models of TCP, beside a Linux kernel"),
    ("A", "The automatic rate"),
    ("R", "The automatic rate on paths that A leaves out, beside the better of BBR and CUBIC"),
    ("M", "Messages with a deadline"),
];

/// Returns the tables that explain the abbreviations in ids, sources and known reasons.
#[must_use]
pub fn legend() -> Vec<Table> {
    vec![
        legend_table("Documents", "Sources of plans and claims.", ["key", "document"], &DOCUMENTS),
        legend_table(
            "Traps",
            "Statements of the documents that mislead. Notes and reasons refer to them by number.",
            ["trap", "what it is"],
            &TRAPS,
        ),
        legend_table(
            "Plans",
            "The first letter of an id names its group. S1.2 is the second claim of plan S1.",
            ["id", "plans"],
            &GROUPS,
        ),
    ]
}

fn legend_table(title: &str, text: &str, columns: [&str; 2], rows: &[(&str, &str)]) -> Table {
    Table {
        title: title.to_owned(),
        text: text.to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(|(name, text)| vec![(*name).to_owned(), (*text).to_owned()]).collect(),
    }
}

/// Returns the documentation page in Markdown: all plans with parameters and claims, the legend, all metrics and
/// parameters.
#[must_use]
pub fn experiments(sources: &[Source]) -> String {
    let mut page = String::from(
        "# Experiments\n\n\
         Every experiment of the laboratory, with its parameters and claims, as `dfcp lab report` writes them.\n\
         Claims are marked N for a number given in the text, Q for a statement, D for a derivation of ours.\n",
    );
    legend().iter().for_each(|table| page += &markdown(table));
    for source in sources {
        plan(&mut page, source);
    }
    let parameters: Vec<(&str, &str)> = PARAMETERS.iter().chain(&NUMBERED).copied().collect();
    for table in [
        legend_table("Metrics", "", ["name", "what it is"], &METRICS),
        legend_table("Parameters", "", ["name", "what it is"], &parameters),
    ] {
        page += &markdown(&table);
    }
    page
}

/// Formats a table with its heading as Markdown. Names in the first column are formatted as code.
#[must_use]
pub fn markdown(table: &Table) -> String {
    let mut page = format!("\n## {}\n\n", table.title);
    if !table.text.is_empty() {
        line(&mut page, &format!("{}\n", table.text));
    }
    line(&mut page, &format!("| {} |", table.columns.join(" | ")));
    line(&mut page, &format!("|{}", "---|".repeat(table.columns.len())));
    for row in &table.rows {
        let name = row.first().map_or("", String::as_str);
        let rest = row.iter().skip(1).map(|text| format!(" {} |", cell(text)));
        line(&mut page, &format!("| `{name}` |{}", rest.collect::<String>()));
    }
    page
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

/// Escapes text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
