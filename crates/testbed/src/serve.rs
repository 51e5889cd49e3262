//! Main function of a run's process.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::process;

use crate::experiment;
use crate::job::{Answer, Job};
use crate::limits::JOB_BYTES_MAX;

/// Executes the run described by the first line of standard input, and prints its result. The process exits if standard
/// input closes, which means that the caller has ended. It must be single-threaded when called.
///
/// # Errors
/// Fails if the input is not a job, or the result cannot be printed.
pub fn serve() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().take(JOB_BYTES_MAX).read_line(&mut line)?;
    let job: Job = serde_json::from_str(&line).map_err(|_| {
        io::Error::other("this is a part of `dfcp lab run --platform testbed`, which calls it by itself")
    })?;
    let answer = match experiment::run(&job.scenario, job.seed, end_with_standard_input) {
        Ok(measured) => Answer::Measured(Box::new(measured)),
        Err(why) => Answer::Failed(why),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    io::stdout().write_all(&line)
}

/// Starts a thread that exits the process when the caller ends. The kernel then removes networks and flows.
fn end_with_standard_input() -> Result<(), String> {
    let wait = || {
        let mut bytes = [0];
        while io::stdin().read(&mut bytes).is_ok_and(|count| count > 0) {}
        process::exit(1);
    };
    let thread = std::thread::Builder::new().name("standard input".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
}
