//! Library of the program `dfcp-lab`, so that tests can use its command line.

#![forbid(unsafe_code)]

pub mod cli;
pub mod demo;
pub mod lab;
mod limits;
