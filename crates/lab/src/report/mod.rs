//! The report: one self-contained HTML page which shows every figure beside what the documents say.
//!
//! The input is a plain [`Report`], which knows nothing of plans, runs or records: the caller fills in results.
//! [`html`] turns it into a page without external files, which reads on a phone, in print, in light and dark, and
//! without a script (the one inside sorts the table of claims and unfolds the details before printing).

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
/// Any input gives a well-formed page: all text is escaped, and points without a finite value are left out of the
/// plot and counted below it.
pub fn html(report: &Report) -> String {
    page::page(report)
}

/// One figure as an SVG file of its own, with its title, legend and notes; claims and explanations are left out.
///
/// Any input gives a well-formed file, as for [`html`].
pub fn svg(figure: &Figure) -> String {
    plot::standalone(figure)
}
