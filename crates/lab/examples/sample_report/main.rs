//! Writer of a report with invented data, to inspect the page without runs: `cargo run -p dfcp-lab --example
//! sample_report -- sample.html`.

mod figures;

use std::process::ExitCode;

use dfcp_lab::report::{Report, html};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        return fail(
            "name the file to write, for example: cargo run -p dfcp-lab --example sample_report -- sample.html",
        );
    };
    let report = Report {
        title: "Sample report: all values are made up".to_owned(),
        host: "no host: sample data".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: "0123abc".to_owned(),
        date: "2026-01-01 12:00 UTC".to_owned(),
        platform: "none: sample data".to_owned(),
        form: dfcp_lab::Form::Quick,
        figures: figures::all(),
        tables: dfcp_lab::legend(),
        wall_s: 372.0,
    };
    match std::fs::write(&path, html(&report)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot write {}: {error}; name a file in a folder that exists", path.display())),
    }
}

#[expect(clippy::print_stderr, reason = "an example is a command")]
fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}
