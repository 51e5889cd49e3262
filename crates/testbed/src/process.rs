//! Execution of a run in a separate process.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::job::{Answer, Job};
use crate::limits::{ANSWER_BYTES_MAX, POLL_INTERVAL};

/// Starts `program` with `argument`, which must call [`serve`](crate::serve), sends it the job, and returns its answer.
///
/// # Errors
/// Fails with a sentence if the process cannot be started, does not answer, or takes longer than `limit`.
pub(crate) fn give(program: &Path, argument: &str, job: &Job, limit: Duration) -> Result<Answer, String> {
    let mut line = serde_json::to_vec(job).map_err(|error| error.to_string())?;
    line.push(b'\n');
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let mut child = KillOnDrop(child);
    // The run's process exits when this pipe closes, so it is kept open until the answer.
    let mut input = child.0.stdin.take().ok_or("a run's process has no standard input")?;
    let output = child.0.stdout.take().ok_or("a run's process has no standard output")?;
    let answer = thread::spawn(move || {
        let mut text = Vec::new();
        output.take(ANSWER_BYTES_MAX).read_to_end(&mut text).map(|_| text)
    });
    input.write_all(&line).map_err(|error| format!("a run's process does not take its job: {error}"))?;
    let ended = wait(&mut child.0, limit).map_err(|error| format!("cannot wait for a run's process: {error}"))?;
    if !ended {
        return Err(format!("a run took longer than {} s; is the machine overloaded?", limit.as_secs()));
    }
    let text = answer.join().map_err(|_| "reading an answer ended in a panic".to_owned())?;
    let text = text.map_err(|error| format!("cannot read what a run came to: {error}"))?;
    serde_json::from_slice(&text)
        .map_err(|_| "a run's process ended without an answer; see what it says above".to_owned())
}

/// Waits for the end of the process; returns false if it takes longer than `limit`.
fn wait(child: &mut Child, limit: Duration) -> io::Result<bool> {
    let started = Instant::now();
    while started.elapsed() < limit {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(false)
}

/// Guard that kills the run's process when dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Killing a process that has already ended fails without harm.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
