//! Code inside a guest: this program, as the first process of a kernel in virtual time.

mod clock;
mod execute;
mod experiment;
pub mod init;
pub mod network;
mod trace;
mod tuning;

use std::fs;
use std::path::Path;

use tokio::task::LocalSet;

use crate::job::{ANSWER_FILE, Answer, JOB_FILE, Job, Task};

/// Does the job in the host's directory `shared`, writes the answer there, and powers off the machine.
///
/// # Errors
/// Fails if this process is not the first one of a guest.
pub fn run(shared: &Path) -> Result<(), init::InitError> {
    init::run(shared, || answer(Path::new(init::JOB_DIR)))
}

fn answer(directory: &Path) -> Result<(), String> {
    let answer = work(directory).unwrap_or_else(Answer::Failed);
    let text = serde_json::to_vec(&answer).map_err(|error| error.to_string())?;
    let (path, new) = (directory.join(ANSWER_FILE), directory.join(format!("{ANSWER_FILE}.new")));
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn work(directory: &Path) -> Result<Answer, String> {
    let path = directory.join(JOB_FILE);
    let wrong = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let job = fs::read(&path).map_err(|error| wrong(&error))?;
    let Job { scenario, seed, task } = serde_json::from_slice(&job).map_err(|error| wrong(&error))?;
    // One thread, because the namespace of a new socket is that of its thread.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_io().on_thread_unpark(clock::on_waited);
    // The runtime's own timers read the clock twice per wait, which is a third of all system calls.
    if scenario.flows.iter().any(|flow| flow.transport.kind.is_quic()) {
        runtime.enable_time();
    }
    let runtime = runtime.build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    LocalSet::new().block_on(&runtime, async {
        match task {
            Task::Measure => {
                let measured = experiment::run(&scenario, seed).await?;
                Ok(Answer::Measured(Box::new(measured)))
            }
            Task::Trace { bin_ns, end_ns } => {
                Ok(Answer::Traced(trace::run((&scenario, seed), (bin_ns, end_ns), directory).await?))
            }
            Task::Execute(commands) => Ok(Answer::Executed(execute::run(&scenario, seed, &commands).await?)),
        }
    })
}
