//! The parts of the program `dfcp-lab`, as a library so that tests know its command line.

#![forbid(unsafe_code)]

pub mod cli;
pub mod demo;
pub mod lab;
mod limits;
