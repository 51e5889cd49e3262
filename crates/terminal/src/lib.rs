//! Terminal output and input of the programs `dfcp` and `dfcp-lab`.
//!
//! [`program`] handles log, errors and exit codes, [`output`] does all printing, [`units`] formats and parses numbers,
//! [`signals`] receives Ctrl-C and SIGTERM, and [`man`] writes man pages.

#![forbid(unsafe_code)]

pub mod man;
pub mod output;
pub mod program;
pub mod signals;
pub mod units;
