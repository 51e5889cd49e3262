//! Terminal output and input of the programs `dfcp` and `dfcp-lab`.
//!
//! [`program`] is the frame of a program, from its log to its exit code; [`output`] does all printing, [`units`] formats and parses
//! numbers, [`signals`] handles requests to end, and [`man`] writes the manual.

#![forbid(unsafe_code)]

pub mod man;
pub mod output;
pub mod program;
pub mod signals;
pub mod units;
