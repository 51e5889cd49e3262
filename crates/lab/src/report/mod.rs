//! HTML report: one self-contained page that compares every figure with the statements of its source.
//!
//! The input is a plain [`Report`], independent of plans, runs and records. [`html`] turns it into a page without
//! external files, readable on a phone, in print, in light and dark mode, and without scripts. The only script sorts
//! the table of claims, and unfolds all details before printing.

mod claims;
mod data;
mod figure;
mod model;
mod page;
mod palette;
mod plot;
mod text;

pub use model::{Axis, Claim, Counts, Figure, OURS, Panel, Point, Report, Role, Scale, Series, Table, Tag, Verdict};

/// Returns the whole report as one HTML page.
///
/// The page is well-formed for any input: all text is escaped. Points without a finite value are left out of a plot,
/// and their number is stated below it.
pub fn html(report: &Report) -> String {
    page::page(report)
}

/// Returns one figure as an SVG file with title, legend and notes, but without claims and explanations.
///
/// The file is well-formed for any input, like the page of [`html`].
pub fn svg(figure: &Figure) -> String {
    plot::standalone(figure)
}
