//! Execution of many runs on all cores.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::expand::{Form, Run};
use crate::measure::MeasureError;
use crate::platform::Platform;
use crate::record::{Log, Origin, Record, RecordError, read};

/// Progress of a batch of runs. Costs are simulated seconds × Gbit/s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Number of finished runs, including those recorded earlier.
    pub done: usize,
    /// Number of all runs.
    pub total: usize,
    /// Cost of the runs executed so far.
    pub cost_done: f64,
    /// Cost of all runs to execute.
    pub cost_total: f64,
    /// Plan and series of the run that finished last.
    pub last: String,
}

/// Error that ended a batch.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Records cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A run failed or is impossible.
    #[error("{run}: {error}")]
    Measure {
        /// Plan and series of the run.
        run: String,
        /// Reason.
        error: MeasureError,
    },
}

/// Settings of a batch of runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'batch> {
    /// Platform of all runs.
    pub platform: &'batch dyn Platform,
    /// Directory of the records.
    pub results: &'batch Path,
    /// Form of the plans, written to the records.
    pub form: Form,
    /// Number of concurrent runs, unless the platform permits fewer.
    pub jobs: NonZeroUsize,
    /// Stops the batch when set: runs in progress finish, and no further run starts.
    pub stop: &'batch AtomicBool,
}

/// Executes all `runs` that have no record yet, and appends a record as soon as each run finishes. `tell` is called
/// with the progress.
///
/// # Errors
/// Fails if records cannot be read or written, or a run is impossible.
pub fn run_all(runs: &[Run], settings: Settings<'_>, mut tell: impl FnMut(&Progress)) -> Result<(), RunError> {
    let origin = Origin::here();
    let mut logs = BTreeMap::new();
    let mut known = BTreeSet::new();
    for plan in runs.iter().map(|run| run.plan.as_str()).collect::<BTreeSet<_>>() {
        logs.insert(plan, Log::open(settings.results, plan)?);
        known.extend(read(settings.results, plan)?.into_keys());
    }
    let mut new: Vec<&Run> = runs.iter().filter(|run| !known.contains(&run.hash)).collect();
    // Different points may resolve to the same settings, hence the same hash.
    new.retain(|run| known.insert(run.hash.clone()));
    let mut progress = Progress {
        done: runs.len() - new.len(),
        total: runs.len(),
        cost_total: new.iter().map(|run| run.scenario.cost()).sum(),
        ..Progress::default()
    };
    tell(&progress);
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        let jobs = settings.platform.runs_at_a_time().map_or(settings.jobs, |most| settings.jobs.min(most));
        for _ in 0..jobs.get().min(new.len()) {
            let (sender, new, next, is_over, origin) = (sender.clone(), &new, &next, &is_over, &origin);
            scope.spawn(move || {
                while !settings.stop.load(Ordering::Relaxed) && !is_over.load(Ordering::Relaxed) {
                    let Some(run) = new.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    if sender.send((*run, one(run, settings.form, settings.platform, origin))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let outcome = results.iter().try_for_each(|(run, outcome)| {
            let name = format!("{} {}", run.plan, run.label());
            let record = outcome.map_err(|error| RunError::Measure { run: name.clone(), error })?;
            if let Some(log) = logs.get_mut(run.plan.as_str()) {
                log.add(&record)?;
            }
            progress.done += 1;
            progress.cost_done += run.scenario.cost();
            progress.last = name;
            tell(&progress);
            Ok(())
        });
        is_over.store(outcome.is_err(), Ordering::Relaxed);
        outcome
    })
}

/// Executes one run and returns its record. `platform` must have the run's engine.
pub(crate) fn one(run: &Run, form: Form, platform: &dyn Platform, origin: &Origin) -> Result<Record, MeasureError> {
    let (start, cpu_start) = (Instant::now(), thread_cpu_s());
    let mut measured = platform.measure(&run.scenario, run.seed)?;
    // Platforms that run in another process report CPU time themselves.
    measured.cpu_s = measured.cpu_s.or_else(|| thread_cpu_s().zip(cpu_start).map(|(end, start)| end - start));
    Ok(Record::new(run, form, measured, origin, start.elapsed().as_secs_f64()))
}

/// Returns the CPU time of this thread, s.
#[cfg(unix)]
fn thread_cpu_s() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

#[cfg(not(unix))]
fn thread_cpu_s() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests;
