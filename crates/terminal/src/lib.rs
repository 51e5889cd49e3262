//! Output and input of the programs `dfcp` and `dfcp-lab` on a terminal.
//!
//! [`program`] is the frame of a program, from its log to its exit code; [`output`] has all that it prints, [`units`] the numbers in it and in
//! its arguments, [`signals`] the requests to end it, and [`man`] its manual.

#![forbid(unsafe_code)]

pub mod man;
pub mod output;
pub mod program;
pub mod signals;
pub mod units;
