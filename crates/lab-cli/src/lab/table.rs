//! Measurements as text tables.

use std::collections::BTreeSet;

use dfcp_framing::printable;
use dfcp_lab::plan::Plan;
use dfcp_lab::{FEW_LOSSES, Overview, Row, Summary, digits};
use serde_json::{Map, Value, json};

/// Maximum line width, characters, which suits most terminals and mails. A wider table continues in another block of
/// columns.
const WIDTH: usize = 100;

/// Maximum length of a word in a label; longer words are cut.
const LABEL_MAX: usize = 30;

/// Spaces between two columns.
const GAP: usize = 2;

/// Text in place of a missing value.
const NOTHING: &str = "–";

/// Returns the lines about a plan: title, question, and a table per metric.
pub(super) fn text(plan: &Plan, overviews: &[Overview]) -> Vec<String> {
    let mut lines = wrapped(&format!("{}: {}", printable(&plan.id), printable(&plan.title)), WIDTH);
    lines.extend(wrapped(&printable(&plan.question), WIDTH));
    for overview in overviews {
        lines.push(String::new());
        lines.extend(table(overview));
    }
    if let Some(note) = plan.oracle_note() {
        lines.push(String::new());
        lines.extend(wrapped(&printable(&note), WIDTH));
    }
    lines.push(String::new());
    lines
}

/// Returns all values of a plan's tables, each as a JSON object.
pub(super) fn values(plan: &Plan, overviews: &[Overview]) -> Vec<Value> {
    let mut all = Vec::new();
    for overview in overviews {
        for (row, series, summary) in overview.summaries() {
            let levels = overview.parameters.iter().cloned().zip(row.levels.iter().map(|level| json!(level)));
            all.push(json!({ "plan": plan.id, "value": {
                "metric": overview.metric, "unit": overview.unit, "point": levels.collect::<Map<_, _>>(),
                "series": series, "flow": row.flow, "flow_label": row.flow_label, "summary": summary,
            }}));
        }
    }
    all
}

fn table(overview: &Overview) -> Vec<String> {
    let mut lines = wrapped(&heading(overview), WIDTH);
    let places = places(overview);
    let mut columns =
        overview.series.iter().enumerate().map(|(index, series)| column(overview, index, series)).peekable();
    let mut is_first = true;
    while columns.peek().is_some() {
        let mut block = places.clone();
        let mut width: usize = block.iter().map(|column| column.width + GAP).sum();
        let is_begun = block.len();
        while let Some(column) = columns.next_if(|next| block.len() == is_begun || width + next.width <= WIDTH) {
            width += column.width + GAP;
            block.push(column);
        }
        if !is_first {
            lines.push(String::new());
        }
        is_first = false;
        lines.extend(rows(&block));
    }
    if overview.summaries().any(|(_, _, summary)| summary.has_few_losses) {
        let of_a_flow = if overview.rows.iter().any(|row| row.flow.is_some()) { " of the flow" } else { "" };
        lines.extend(wrapped(
            &format!(
                "!n: in one of its runs only n packets{of_a_flow} were lost at random, fewer than {FEW_LOSSES}. Another seed may give \
                 another result, and a longer run gives a surer one."
            ),
            WIDTH,
        ));
    }
    lines
}

/// Returns the heading of a table: metric, unit, number of runs and kind of spread.
fn heading(overview: &Overview) -> String {
    let unit = if overview.unit.is_empty() { String::new() } else { format!(", {}", overview.unit) };
    let counts: BTreeSet<usize> = overview.summaries().map(|(_, _, summary)| summary.runs).collect();
    let runs = match (counts.first(), counts.last()) {
        (Some(1), Some(1)) => "one run each".to_owned(),
        (Some(least), Some(most)) if least == most => format!("mean ± standard deviation of {most} runs"),
        (Some(least), Some(most)) => format!("mean ± standard deviation of {least} to {most} runs"),
        _ => "no runs".to_owned(),
    };
    format!("{}{unit} ({runs})", overview.label)
}

/// A column of a text table.
#[derive(Clone, Debug)]
struct Column {
    /// Lines of the column's heading.
    head: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

impl Column {
    /// Creates a column with right-aligned cells. The heading is broken at spaces.
    fn new(label: &str, cells: Vec<String>) -> Self {
        let label = printable(label);
        let longest = label.split(' ').map(length).max().unwrap_or(0).min(LABEL_MAX);
        let width = cells.iter().map(|cell| length(cell)).max().unwrap_or(0).max(longest);
        Self { head: wrapped(&label, width), cells, width }
    }
}

/// Returns the columns that identify a row: one per swept parameter, and the flow.
fn places(overview: &Overview) -> Vec<Column> {
    let level =
        |row: &Row, at: usize| row.levels.get(at).map_or_else(String::new, |level| printable(&level.to_string()));
    let parameters = overview.parameters.iter().enumerate();
    let mut columns: Vec<Column> = parameters
        .map(|(at, name)| Column::new(name, overview.rows.iter().map(|row| level(row, at)).collect()))
        .collect();
    if overview.rows.iter().any(|row| row.flow.is_some()) {
        let number = |row: &Row| row.flow.map_or_else(String::new, |flow| flow.to_string());
        let flow = |row: &Row| row.flow_label.as_deref().map_or_else(|| number(row), printable);
        columns.push(Column::new("flow", overview.rows.iter().map(flow).collect()));
    }
    columns
}

/// Returns the column of a series: means, spreads and warning marks, aligned.
fn column(overview: &Overview, index: usize, series: &str) -> Column {
    let summaries = || overview.rows.iter().map(|row| row.cells.get(index).copied().flatten());
    let parts: Vec<[String; 3]> =
        summaries().map(|summary| summary.map_or_else(nothing, |summary| cell(&summary))).collect();
    let width = |part: usize| parts.iter().map(|parts| length(&parts[part])).max().unwrap_or(0);
    let [mean, spread, mark] = [width(0), width(1), width(2)];
    let cell = |[a, b, c]: &[String; 3]| format!("{}{}{}", right(a, mean), left(b, spread), left(c, mark));
    Column::new(series, parts.iter().map(cell).collect())
}

fn nothing() -> [String; 3] {
    [NOTHING.to_owned(), String::new(), String::new()]
}

/// Returns mean, spread with as many decimals, and the mark of few losses.
fn cell(summary: &Summary) -> [String; 3] {
    let mean = digits(summary.mean);
    let decimals = mean.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let spread = summary.sd.map_or_else(String::new, |sd| format!(" ±{sd:.decimals$}"));
    let losses = summary.random_losses.filter(|_| summary.has_few_losses);
    [mean, spread, losses.map_or_else(String::new, |losses| format!(" !{losses}"))]
}

fn rows(block: &[Column]) -> Vec<String> {
    let line = |cell: &dyn Fn(&Column) -> &str| {
        let cells: Vec<_> = block.iter().map(|column| right(cell(column), column.width)).collect();
        cells.join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    let height = block.iter().map(|column| column.head.len()).max().unwrap_or(0);
    let head = |column: &Column, row: usize| (row + column.head.len()).checked_sub(height);
    let mut lines: Vec<String> = (0..height)
        .map(|row| line(&|column| head(column, row).and_then(|at| column.head.get(at)).map_or("", String::as_str)))
        .collect();
    let count = block.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    lines.extend((0..count).map(|row| line(&|column| column.cells.get(row).map_or("", String::as_str))));
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(length(text))))
}

fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(length(text))))
}

/// Wraps `text` into lines of at most `width` characters, broken at spaces. Longer words are cut.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let word: String = if length(word) > width {
            word.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        } else {
            word.to_owned()
        };
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(&word) <= width => *line = format!("{line} {word}"),
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
