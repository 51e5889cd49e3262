//! Trace of one run: its flows and queues over time, and optionally its packets.
//!
//! Every platform writes tables with [`Tables`]. Only the simulator captures packets.

mod choose;
mod columns;
mod error;
mod files;
mod look;
mod summary;
mod tables;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dfcp_sim::{Captured, Observer, Pcapng, Simulation, Verifier};

pub use self::choose::{ChoiceError, Wanted, choose};
pub use self::columns::{FlowColumns, LinkColumns};
pub use self::error::TraceError;
use self::files::Files;
pub use self::summary::{FlowSummary, FlowTimes, LinkSummary, Traced};
pub use self::tables::Tables;
use crate::drive::drive;
use crate::expand::Run;
use crate::scenario::{Built, Scenario, build};

/// Greatest size of a capture, bytes: about 1.7 million TCP packets. Later packets are left out.
pub const CAPTURE_BYTES_MAX: u64 = 200_000_000;
/// Maximum number of lines in `flows.csv` and `queues.csv` together.
pub const ROWS_MAX: u64 = 10_000_000;
/// Longest duration of a trace, equal to the longest duration of a run.
const DURATION_MAX: Duration = Duration::from_secs(100_000);

/// Settings of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'trace> {
    /// Directory of the output files; created if missing.
    pub directory: &'trace Path,
    /// Width of the bins: each gets a line in the tables.
    pub bin: Duration,
    /// Duration of the run; `None` for the plan's duration.
    pub duration: Option<Duration>,
    /// True to capture packets.
    pub has_capture: bool,
    /// Greatest size of the capture, bytes; see [`CAPTURE_BYTES_MAX`].
    pub capture_bytes_max: u64,
    /// Ends the trace early with an error when set.
    pub stop: &'trace AtomicBool,
}

impl Settings<'_> {
    /// Returns the bin width and the end of the trace, ns.
    ///
    /// # Errors
    /// Fails if a setting is invalid, or the tables would have too many lines.
    pub fn times(&self, scenario: &Scenario) -> Result<(u64, u64), TraceError> {
        let duration = self.duration.unwrap_or_else(|| Duration::from_nanos(scenario.duration_ns));
        if duration.is_zero() || duration > DURATION_MAX {
            return Err(TraceError::Duration(duration));
        }
        // `DURATION_MAX` is far below 2⁶⁴ ns, so the cast is exact.
        let ns = |duration: Duration| duration.min(DURATION_MAX).as_nanos() as u64;
        let (bin_ns, end_ns) = (ns(self.bin), ns(duration));
        if bin_ns == 0 {
            return Err(TraceError::Bin);
        }
        let rows = end_ns.div_ceil(bin_ns).saturating_mul((scenario.flows.len() + scenario.links.len()) as u64);
        if rows > ROWS_MAX { Err(TraceError::Rows(rows)) } else { Ok((bin_ns, end_ns)) }
    }

    /// Creates the output directory if necessary, and checks that the trace may be written there. Called before a long
    /// run, to fail early.
    ///
    /// # Errors
    /// Fails if the directory cannot be created, or contains a file of another trace.
    pub fn prepare(&self) -> Result<(), TraceError> {
        Files::open(self.directory, self.has_capture).map(drop)
    }

    /// Copies the tables that a platform wrote into `from` to the output directory, and returns their new paths. After
    /// an error, the copies are removed.
    ///
    /// # Errors
    /// Fails if a table cannot be read or written.
    pub fn take_over(&self, from: &Path) -> Result<Vec<String>, TraceError> {
        let mut files = Files::open(self.directory, self.has_capture)?;
        let copied = [files::FLOWS, files::QUEUES].into_iter().map(|name| files.copy(name, from)).collect();
        if let Err(error) = copied {
            files.discard();
            return Err(error);
        }
        copied
    }
}

type Capture = Pcapng<BufWriter<File>>;
type Watched = Simulation<(Verifier, Option<Capture>)>;

/// Executes `run` on the simulator and writes its trace. The tables `flows.csv` and `queues.csv` have a line per bin
/// and flow or link; the optional `packets.pcapng` has all packets that senders send and receive. Conservation laws of
/// the links are checked during the run.
///
/// # Errors
/// Fails if a setting is invalid, the run is impossible, a file cannot be written, or a law was violated.
pub fn trace(run: &Run, settings: Settings<'_>) -> Result<Traced, TraceError> {
    let times = settings.times(&run.scenario)?;
    let mut files = Files::open(settings.directory, settings.has_capture)?;
    let outcome = write(run, settings, times, &mut files);
    // After a violation the trace is kept, to find the defect. After other errors it would be incomplete without any
    // sign, and is removed.
    if !matches!(outcome, Ok(_) | Err(TraceError::Violated { .. })) {
        files.discard();
    }
    outcome
}

fn write(
    run: &Run,
    settings: Settings<'_>,
    (bin_ns, end_ns): (u64, u64),
    files: &mut Files,
) -> Result<Traced, TraceError> {
    let scenario = &run.scenario.drawn(run.seed);
    let mut simulation = Simulation::new(run.seed, (Verifier::default(), None));
    let built = build(scenario, &mut simulation)?;
    let unwatched = watch(&mut simulation, scenario, &built);
    if settings.has_capture {
        let capture = capture(&simulation, &built, files, settings.capture_bytes_max)?;
        simulation.observer_mut().1 = Some(capture);
    }
    let mut tables = Tables::of(scenario, files)?;
    let of = (scenario, &built);
    let ended_ns = drive(&mut simulation, of, (bin_ns, end_ns), |simulation, now_ns| {
        if settings.stop.load(Ordering::Relaxed) {
            return Err(TraceError::Stopped);
        }
        if now_ns > 0 && now_ns.is_multiple_of(bin_ns) { sample(&mut tables, simulation, of, now_ns) } else { Ok(()) }
    })?;
    sample(&mut tables, &mut simulation, of, ended_ns)?;
    let paths = tables.finish()?;
    let capture = simulation.observer_mut().1.take().map(|capture| end(capture, files)).transpose()?;
    lawful(Verifier::verdict_within(&mut simulation, |observer| &observer.0), settings.directory)?;
    Ok(summary::summary(run, &mut simulation, &built, summary::End { ended_ns, capture, paths, unwatched }))
}

/// Enables the law checks on all links that the verifier supports, and returns the number of other links. A direction
/// counts as a link.
fn watch(simulation: &mut Watched, scenario: &Scenario, built: &Built) -> usize {
    let is_changed = |id| {
        let of_link = |change: &&crate::scenario::ChangeSpec| {
            (if change.is_back { &built.back_links } else { &built.links })[change.link] == id
        };
        let mut changes = scenario.changes.iter().filter(of_link);
        changes.any(|change| change.rate_bps.is_some() || change.delay_ns.is_some())
    };
    let mut unwatched = 0;
    for id in simulation.links() {
        let config = simulation.link(id).config().clone();
        let keeps_pace = config.jitter.is_zero() && config.batch.is_zero() && config.reorder == 0.0;
        if keeps_pace && !is_changed(id) {
            simulation.observer_mut().0.watch(id, config);
        } else {
            unwatched += 1;
        }
    }
    unwatched
}

fn capture<O: Observer>(
    simulation: &Simulation<O>,
    built: &Built,
    files: &mut Files,
    limit_bytes: u64,
) -> Result<Capture, TraceError> {
    let to = files.create(files::PACKETS)?;
    let flows: Vec<_> = built.flows.iter().chain(built.probes.iter().flatten()).copied().collect();
    let capture = Pcapng::at_senders(to, flows.len()).map_err(|error| files.error(files::PACKETS, error))?;
    let mut capture = capture.with_limit(limit_bytes);
    for flow in flows {
        capture.describe(flow, simulation.end(flow, false));
    }
    Ok(capture)
}

fn end(capture: Capture, files: &Files) -> Result<(Captured, String), TraceError> {
    let captured = capture.captured();
    capture.finish().map_err(|error| files.error(files::PACKETS, error))?;
    Ok((captured, files.path(files::PACKETS)))
}

/// # Errors
/// Fails with the first violation, if there is any.
fn lawful(violations: Vec<String>, directory: &Path) -> Result<(), TraceError> {
    let count = violations.len();
    match violations.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(TraceError::Violated { count, first, directory: directory.display().to_string() }),
    }
}

/// Ends a bin: writes a line for each flow and link.
fn sample(
    tables: &mut Tables,
    simulation: &mut Watched,
    (scenario, built): (&Scenario, &Built),
    now_ns: u64,
) -> Result<(), TraceError> {
    let kinds = scenario.flows.iter().map(|flow| flow.transport.kind);
    let flows: Vec<_> = built.flows.iter().zip(kinds).map(|(&id, kind)| look::flow(simulation, id, kind)).collect();
    let links: Vec<_> = built.links.iter().map(|&id| look::link(simulation.link(id))).collect();
    tables.sample(now_ns, &flows, &links)
}

#[cfg(test)]
mod tests;
