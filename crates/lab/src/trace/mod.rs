//! What happened in one run: its flows and queues over time, and its packets.

mod choose;
mod columns;
mod error;
mod files;
mod summary;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dfcp_sim::{Captured, Observer, Pcapng, Simulation, Verifier};

pub use self::choose::{ChoiceError, Wanted, choose};
use self::columns::{FlowColumns, LinkColumns, Row};
pub use self::error::TraceError;
use self::files::{Csv, Files};
pub use self::summary::{FlowSummary, LinkSummary, Traced};
use crate::drive::drive;
use crate::expand::Run;
use crate::scenario::{Built, Scenario, build};

/// A capture is no longer; it then ends before the run does. About 1.7 million packets of TCP.
pub const CAPTURE_BYTES_MAX: u64 = 200_000_000;
/// Lines of `flows.csv` and `queues.csv` together.
pub const ROWS_MAX: u64 = 10_000_000;
/// The longest trace: as long as a plan's run may be.
const DURATION_MAX: Duration = Duration::from_secs(100_000);

/// How a run is traced.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'trace> {
    /// Where the files go; made if it is not there.
    pub directory: &'trace Path,
    /// Width of the bins.
    pub bin: Duration,
    /// How long, instead of as long as the run.
    pub duration: Option<Duration>,
    /// Whether packets are written down as well.
    pub has_capture: bool,
    /// A capture ends before it is longer; see [`CAPTURE_BYTES_MAX`].
    pub capture_bytes_max: u64,
    /// Set it, and the trace ends early, with an error.
    pub stop: &'trace AtomicBool,
}

type Capture = Pcapng<BufWriter<File>>;
type Watched = Simulation<(Verifier, Option<Capture>)>;

/// Runs `run` on the simulator and writes `flows.csv` and `queues.csv`, a line for each bin and flow or link, and if asked
/// `packets.pcapng`: what the senders send and get. All the while physical laws are checked.
///
/// # Errors
/// A setting makes no sense, the run is impossible, a file cannot be written, or a law was violated.
pub fn trace(run: &Run, settings: Settings<'_>) -> Result<Traced, TraceError> {
    let times = limits(&run.scenario, settings)?;
    let mut files = Files::open(settings.directory, settings.has_capture)?;
    let outcome = write(run, settings, times, &mut files);
    // What broke a law is worth a look; any other file would end early without saying so.
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
    let scenario = &run.scenario;
    let mut simulation = Simulation::new(run.seed, (Verifier::default(), None));
    let built = build(scenario, &mut simulation)?;
    let unwatched = watch(&mut simulation, scenario, &built);
    if settings.has_capture {
        let capture = capture(&simulation, &built, files, settings.capture_bytes_max)?;
        simulation.observer_mut().1 = Some(capture);
    }
    let mut course = Course::new(scenario, &built, files)?;
    let ended_ns = drive(&mut simulation, (scenario, &built), (bin_ns, end_ns), |simulation, now_ns| {
        if settings.stop.load(Ordering::Relaxed) {
            return Err(TraceError::Stopped);
        }
        if now_ns > 0 && now_ns.is_multiple_of(bin_ns) { course.sample(simulation, now_ns) } else { Ok(()) }
    })?;
    course.sample(&mut simulation, ended_ns)?;
    let paths = course.finish()?;
    let capture = simulation.observer_mut().1.take().map(|capture| end(capture, files)).transpose()?;
    lawful(Verifier::verdict_within(&mut simulation, |observer| &observer.0), settings.directory)?;
    Ok(summary::summary(run, &mut simulation, &built, summary::End { ended_ns, capture, paths, unwatched }))
}

/// The width of a bin and the end, ns.
fn limits(scenario: &Scenario, settings: Settings<'_>) -> Result<(u64, u64), TraceError> {
    let duration = settings.duration.unwrap_or_else(|| Duration::from_nanos(scenario.duration_ns));
    if duration.is_zero() || duration > DURATION_MAX {
        return Err(TraceError::Duration(duration));
    }
    // No longer than the longest duration, which is far from 2⁶⁴ ns.
    let ns = |duration: Duration| duration.min(DURATION_MAX).as_nanos() as u64;
    let (bin_ns, end_ns) = (ns(settings.bin), ns(duration));
    if bin_ns == 0 {
        return Err(TraceError::Bin);
    }
    let rows = end_ns.div_ceil(bin_ns).saturating_mul((scenario.flows.len() + scenario.links.len()) as u64);
    if rows > ROWS_MAX { Err(TraceError::Rows(rows)) } else { Ok((bin_ns, end_ns)) }
}

/// Has the laws checked on all links which the verifier knows how to judge. Returns how many are left out.
fn watch(simulation: &mut Watched, scenario: &Scenario, built: &Built) -> usize {
    let is_changed = |id| {
        let of_link = |at: usize| built.links[at] == id;
        scenario
            .changes
            .iter()
            .any(|change| of_link(change.link) && (change.rate_bps.is_some() || change.delay_ns.is_some()))
    };
    let mut unwatched = 0;
    for id in simulation.links() {
        let config = simulation.link(id).config().clone();
        if config.jitter.is_zero() && !is_changed(id) {
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
    let capture = Pcapng::at_senders(to, built.flows.len()).map_err(|error| files.error(files::PACKETS, error))?;
    let mut capture = capture.with_limit(limit_bytes);
    for &flow in &built.flows {
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
/// There is a violation.
fn lawful(violations: Vec<String>, directory: &Path) -> Result<(), TraceError> {
    let count = violations.len();
    match violations.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(TraceError::Violated { count, first, directory: directory.display().to_string() }),
    }
}

/// What is written down while a run lasts.
struct Course<'run> {
    scenario: &'run Scenario,
    built: &'run Built,
    flows: Csv,
    links: Csv,
    flows_before: Vec<FlowColumns>,
    links_before: Vec<LinkColumns>,
    sampled_ns: u64,
}

impl<'run> Course<'run> {
    fn new(scenario: &'run Scenario, built: &'run Built, files: &mut Files) -> Result<Self, TraceError> {
        let names = |first: &[&'static str], row: &dyn Row| {
            first.iter().copied().chain(row.columns().iter().map(|(name, _)| *name)).collect::<Vec<_>>()
        };
        let flows = names(&["time_s", "flow", "goodput_mbps"], &FlowColumns::default());
        let links = names(&["time_s", "link"], &LinkColumns::default());
        Ok(Self {
            scenario,
            built,
            flows: files.csv(files::FLOWS, &flows)?,
            links: files.csv(files::QUEUES, &links)?,
            flows_before: vec![FlowColumns::default(); built.flows.len()],
            links_before: vec![LinkColumns::default(); built.links.len()],
            sampled_ns: 0,
        })
    }

    /// Ends a bin, unless it is empty.
    fn sample<O: Observer>(&mut self, simulation: &mut Simulation<O>, now_ns: u64) -> Result<(), TraceError> {
        let bin_ns = now_ns - self.sampled_ns;
        if bin_ns == 0 {
            return Ok(());
        }
        self.sampled_ns = now_ns;
        let time_s = (now_ns as f64 / 1e9).to_string();
        for (place, &id) in self.built.flows.iter().enumerate() {
            let row = FlowColumns::look(simulation, id, self.scenario.flows[place].transport.kind);
            let before = std::mem::replace(&mut self.flows_before[place], row);
            let goodput_mbps = (row.delivered_bytes - before.delivered_bytes) as f64 * 8e3 / bin_ns as f64;
            let head = [time_s.clone(), (place + 1).to_string(), format!("{goodput_mbps:.6}")];
            self.flows.add(head.into_iter().chain(columns::since(&row, &before)))?;
        }
        for (place, &id) in self.built.links.iter().enumerate() {
            let row = LinkColumns::look(simulation.link(id));
            let before = std::mem::replace(&mut self.links_before[place], row);
            let head = [time_s.clone(), (place + 1).to_string()];
            self.links.add(head.into_iter().chain(columns::since(&row, &before)))?;
        }
        Ok(())
    }

    /// The paths of the files.
    fn finish(self) -> Result<Vec<String>, TraceError> {
        Ok(vec![self.flows.finish()?, self.links.finish()?])
    }
}

#[cfg(test)]
mod tests;
