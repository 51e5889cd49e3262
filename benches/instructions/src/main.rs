//! Counts instructions, which are deterministic, while times on a shared machine are noisy.
//!
//! A case repeats one operation: a kernel, a seal, a whole datagram's life ([`cases`]). For each case this program runs itself under
//! callgrind ([`callgrind`]), which counts the instructions within one function, [`cases::COUNTED`], so that preparation is not counted.
//! `check` compares the counts with those in `recorded.json` ([`recorded`]), `record` writes them there. `growth` counts a datagram's
//! instructions after a peer has filled tables ([`growth`]).

#![forbid(unsafe_code)]

mod args;
mod callgrind;
mod cases;
mod counts;
mod growth;
mod output;
mod recorded;
mod table;

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::args::{Args, Command};
use crate::callgrind::{Missing, Valgrind};
use crate::cases::Case;
use crate::counts::Build;
use crate::recorded::Recorded;
use crate::table::Comparison;

/// Exit code for changed counts, or a failure.
const EXIT_FAILURE: u8 = 1;
/// Exit code if counting or comparison is impossible.
const EXIT_INCOMPARABLE: u8 = 2;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::note(&format!("instructions: {error:#}"));
            ExitCode::from(if error.is::<Missing>() { EXIT_INCOMPARABLE } else { EXIT_FAILURE })
        }
    }
}

fn run(args: &Args) -> Result<u8> {
    match &args.command {
        Command::Check { json } => check(*json),
        Command::Record => record(),
        Command::Growth => growing(),
        Command::List => {
            output::text(&table::list(&cases::all()))?;
            Ok(0)
        }
        Command::Profile { case } => profile(cases::find(case)?),
        Command::Run { case } => {
            output::text(&format!("{}\n", dfcp_fountain::kernel::Kernel::detect().name()))?;
            let case = cases::find(case)?;
            (case.run)(case.repetitions)?;
            Ok(0)
        }
    }
}

/// Counts, prints the comparison, and returns the exit code.
fn check(json: bool) -> Result<u8> {
    let valgrind = Valgrind::find()?;
    let recorded = Recorded::read()?;
    let counts = counts::all(&valgrind)?;
    let comparison = Comparison::new(&recorded, &counts);
    if json {
        let text = serde_json::to_string_pretty(&comparison).context("the comparison cannot be written as JSON")?;
        output::text(&format!("{text}\n"))?;
    } else {
        output::text(&comparison.table(&cases::all()))?;
    }
    if let Some(why) = recorded.build.differs_by_settings(&counts.build) {
        output::note(&format!("not judged: {why}; `benches/instructions/run.sh check` builds with those recorded"));
        return Ok(EXIT_INCOMPARABLE);
    }
    if let Some(why) = recorded.build.differs_by_machine(&counts.build) {
        output::note(&format!("not judged: {why}; `benches/instructions/run.sh record` records the counts anew"));
        return Ok(0);
    }
    let complaints = comparison.complaints();
    complaints.iter().for_each(|complaint| output::note(complaint));
    Ok(if complaints.is_empty() { 0 } else { EXIT_FAILURE })
}

/// Counts and prints the cost of datagrams after tables have been filled, and returns the exit code.
fn growing() -> Result<u8> {
    let rows = growth::count(&Valgrind::find()?)?;
    output::text(&growth::table(&rows))?;
    let complaints = growth::complaints(&rows);
    complaints.iter().for_each(|complaint| output::note(complaint));
    Ok(if complaints.is_empty() { 0 } else { EXIT_FAILURE })
}

/// Counts twice, because irreproducible counts are useless, and writes the record.
fn record() -> Result<u8> {
    let valgrind = Valgrind::find()?;
    let counts = counts::all(&valgrind)?;
    let again = counts::all(&valgrind)?;
    ensure!(
        counts == again,
        "two runs did not give the same counts: something in a case is not determined by its seed"
    );
    if let Ok(before) = Recorded::read() {
        output::text(&Comparison::new(&before, &counts).table(&cases::all()))?;
    }
    let path = Recorded::write(&counts)?;
    output::note(&format!("recorded in {}", path.display()));
    if !Build::current(String::new()).has_recorded_settings() {
        output::note("these are not the settings of CI: `benches/instructions/run.sh record` has them");
    }
    Ok(0)
}

/// Writes a profile, and prints its top if callgrind_annotate is installed.
fn profile(case: Case) -> Result<u8> {
    let path = Valgrind::find()?.profile(&case)?;
    output::note(&format!("the profile is {}: look at it with callgrind_annotate or kcachegrind", path.display()));
    match callgrind::annotate(&path) {
        Some(text) => output::text(&text)?,
        None => output::note("callgrind_annotate, which would print its top here, could not be run"),
    }
    Ok(0)
}
