//! The report: one self-contained HTML page that shows every figure beside the statements of the documents.
//!
//! The input is a plain [`Report`], independent of plans, runs and records: the caller fills in results. [`html`] turns it into a page
//! without external files, which is readable on a phone, in print, in light and dark mode, and without scripts (the only script sorts the
//! table of claims and unfolds the details before printing).

mod claims;
mod data;
mod figure;
mod model;
mod page;
mod palette;
mod plot;
mod text;

pub use model::{Axis, Claim, Counts, Figure, OURS, Panel, Point, Report, Role, Scale, Series, Table, Tag, Verdict};

/// The whole report as one HTML page.
///
/// The page is well-formed for any input: all text is escaped, and points without a finite value are left out of the plot and counted below
/// it.
pub fn html(report: &Report) -> String {
    page::page(report)
}

/// One figure as a separate SVG file with its title, legend and notes; claims and explanations are left out.
///
/// The file is well-formed for any input, as for [`html`].
pub fn svg(figure: &Figure) -> String {
    plot::standalone(figure)
}
