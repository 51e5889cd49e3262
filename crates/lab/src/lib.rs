//! Laboratory for transport experiments, described by TOML plans.
//!
//! [`reading`] reads and checks a [`plan`]. [`expand()`] derives its runs, each with a resolved [`scenario`].
//! [`run_all`] executes the runs on all cores and appends one [`Record`] per run. [`judge`] tests the plan's claims on
//! these records, and [`figures()`] draws them.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod agreement;
pub mod archive;
mod bound;
mod claims;
pub mod course;
mod docs;
mod draw;
mod drive;
pub mod dynamics;
mod engine;
mod estimation;
mod expand;
mod figures;
mod host;
pub mod job;
mod lateness;
mod lens;
mod measure;
pub mod metrics;
mod overview;
pub mod plan;
mod platform;
pub mod random_paths;
pub mod reading;
mod record;
pub mod report;
mod run;
pub mod scenario;
mod table;
pub mod trace;

pub use claims::{Change, Judged, Verdict, digits, judge};
pub use docs::{experiments, legend, markdown};
pub use engine::Engine;
pub use expand::{Choice, Form, Run, SCHEMA, expand};
pub use figures::figures;
pub use lateness::{ENDS_BUSY, ENDS_WAITED, LATE_P99_MS, Lateness};
pub use measure::{HANDSHAKE_BYTES_MAX, MeasureError, measure};
pub use overview::{Overview, Row, Summary, overviews};
pub use plan::{Level, Point};
pub use platform::{Platform, SideBySide, Sim, side_by_side};
pub use record::{Log, Origin, Record, RecordError, read, write_csv};
pub use run::{Progress, RunError, Settings, run_all};
pub use table::{Cell, FEW_LOSSES, Table};
