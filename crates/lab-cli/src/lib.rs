//! Library of the program `dfcp-lab`, which lets tests use its command line.

#![forbid(unsafe_code)]

pub mod cli;
pub mod demo;
pub mod lab;
mod limits;
