//! The kernel as a platform of the laboratory.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, thread};

use dfcp_lab::metrics::Measured;
use dfcp_lab::plan::{Carrier, Discipline, Ends, Impairments, Kind};
use dfcp_lab::scenario::{FlowSpec, Scenario};
use dfcp_lab::trace::{Settings, TraceError, Traced};
use dfcp_lab::{Engine, MeasureError, Platform, Run};
use tempfile::TempDir;

use crate::console::Listener;
use crate::host::{Guest, mappings_max};
use crate::job::{ANSWER_FILE, Answer, Commands, JOB_FILE, Job, OUTPUT_FILES, Task};
use crate::kernel::Kernel;

/// Platform that runs scenarios in a kernel in virtual time.
#[derive(Debug)]
pub struct KernelPlatform {
    kernel: Kernel,
    /// Path of this program, the first process of a guest.
    program: PathBuf,
    engine: Engine,
    events: Option<Events>,
}

/// Events of the guests' connections: filter and callback.
#[derive(Debug)]
struct Events {
    filter: String,
    tell: Tell,
}

/// Callback for a line of events, with the seed of the run.
type TellLine = dyn Fn(u64, &str) + Send + Sync;

struct Tell(Arc<TellLine>);

impl fmt::Debug for Tell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tell")
    }
}

/// Variable with the event filter; this program reads it in a guest and on a host.
const FILTER: &str = "DFCP_LOG";

/// Least wall-clock time limit of a run.
const LIMIT: Duration = Duration::from_secs(120);
/// Additional time limit per unit of cost (one simulated second at 1 Gbit/s), s.
const LIMIT_S_PER_COST: f64 = 200.0;

/// Variables that make the C library keep freed memory: a new page costs a guest as much as several system calls.
const MALLOC: [(&str, &str); 4] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_TOP_PAD_", "16777216"),
    ("MALLOC_TRIM_THRESHOLD_", "1073741824"),
    ("MALLOC_MMAP_THRESHOLD_", "33554432"),
];

/// Most flows for which a guest keeps freed memory. With more, its mappings may exceed the host's default limit per process.
const MALLOC_FLOWS_MAX: usize = 4;

/// Host limit of mappings from which memory is kept with any number of flows.
const MAPPINGS_AMPLE: u64 = 1 << 18;

impl KernelPlatform {
    /// Makes a platform with `kernel`; `program` is the path of this program, whose command line must support `lab kernel guest`.
    #[must_use]
    pub fn new(kernel: Kernel, program: PathBuf) -> Self {
        let hash = format!("{} {}", env!("DFCP_GUEST"), kernel.id());
        let engine = Engine { platform: format!("kernel-{}", kernel.release()), hash };
        Self { kernel, program, engine, events: None }
    }

    /// Passes guests' events that match `filter` to `tell` as they occur, with the seed of the run.
    #[must_use]
    pub fn with_events(mut self, filter: String, tell: impl Fn(u64, &str) + Send + Sync + 'static) -> Self {
        self.events = Some(Events { filter, tell: Tell(Arc::new(tell)) });
        self
    }

    /// Runs `commands` at the hosts of the first flow of `scenario`. Their output is copied to `stdout` and `stderr` as it is written; the
    /// guest is killed soon after `stop` is set. Returns the status of the sender's command.
    ///
    /// # Errors
    /// Fails with one sentence about the failed set-up or run.
    pub fn execute(
        &self,
        scenario: &Scenario,
        seed: u64,
        commands: Commands,
        outputs: [&mut (dyn Write + Send); 3],
        stop: &AtomicBool,
    ) -> Result<i32, String> {
        let job = Job { scenario: scenario.clone(), seed, task: Task::Execute(commands) };
        let desk = Desk::new(&job)?;
        let is_over = AtomicBool::new(false);
        let answer = thread::scope(|scope| {
            let follow = scope.spawn(|| follow(desk.directory.path(), outputs, &is_over));
            let answer = desk.give(self, &[], None, stop);
            is_over.store(true, Ordering::Release);
            match follow.join() {
                Ok(followed) => followed.map_err(|error| format!("cannot pass on what the command wrote: {error}"))?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
            answer
        })?;
        match answer {
            Answer::Executed(status) => Ok(status),
            Answer::Failed(why) => Err(why),
            Answer::Measured(_) | Answer::Traced(_) => Err("the guest has run flows instead of a command".to_owned()),
        }
    }

    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Measured, String> {
        let desk = Desk::new(&Job { scenario: scenario.clone(), seed, task: Task::Measure })?;
        match desk.give(self, malloc(scenario), Some(limit(scenario.cost_max())), &AtomicBool::new(false))? {
            Answer::Measured(measured) => Ok(*measured),
            Answer::Failed(why) => Err(why),
            Answer::Executed(_) | Answer::Traced(_) => Err("the guest has done something else".to_owned()),
        }
    }

    fn trace_run(&self, run: &Run, settings: Settings<'_>, times: (u64, u64)) -> Result<Traced, TraceError> {
        let (bin_ns, end_ns) = times;
        let scenario = &run.scenario;
        let failed = |why| TraceError::Impossible(MeasureError::Failed(format!("{}: {why}", self.engine.platform)));
        let job = Job { scenario: scenario.clone(), seed: run.seed, task: Task::Trace { bin_ns, end_ns } };
        let desk = Desk::new(&job).map_err(failed)?;
        let cost = scenario.cost_max() * end_ns as f64 / scenario.duration_ns.max(1) as f64;
        let answer = desk.give(self, malloc(scenario), Some(limit(cost)), settings.stop);
        if settings.stop.load(Ordering::Relaxed) {
            return Err(TraceError::Stopped);
        }
        match answer.map_err(failed)? {
            Answer::Traced(traced) => {
                let files = settings.take_over(desk.directory.path())?;
                Ok(Traced::of(run, &self.engine.platform, traced.ended_ns, traced.flows, traced.links, files))
            }
            Answer::Failed(why) => Err(failed(why)),
            Answer::Measured(_) | Answer::Executed(_) => Err(failed("the guest has done something else".to_owned())),
        }
    }
}

/// Settings of the C library in a guest: freed memory is kept unless the host's limit of mappings could be exceeded.
fn malloc(scenario: &Scenario) -> &'static [(&'static str, &'static str)] {
    let is_ample = mappings_max().is_some_and(|limit| limit >= MAPPINGS_AMPLE);
    if is_ample || scenario.flows.len() <= MALLOC_FLOWS_MAX { &MALLOC } else { &[] }
}

/// Wall-clock time limit of a run of this cost.
fn limit(cost: f64) -> Duration {
    LIMIT + Duration::from_secs_f64(cost * LIMIT_S_PER_COST)
}

/// Directory for the exchange between host and guest.
struct Desk {
    directory: TempDir,
    memory_mib: u32,
    seed: u64,
}

impl Desk {
    /// Creates a directory with the job's file.
    fn new(job: &Job) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| format!("cannot make a directory: {error}"))?;
        let text = serde_json::to_vec(job).map_err(|error| error.to_string())?;
        let path = directory.path().join(JOB_FILE);
        std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Self { directory, memory_mib: memory_mib(&job.scenario), seed: job.seed })
    }

    /// Runs a guest that does the job.
    fn give(
        &self,
        platform: &KernelPlatform,
        malloc: &[(&str, &str)],
        limit: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<Answer, String> {
        let directory = self.directory.path();
        let events = platform.events.as_ref();
        let filter = events.map(|events| (FILTER, events.filter.as_str()));
        let variables = malloc.iter().copied().chain(filter);
        let listener = events.map(|events| {
            let (tell, seed) = (Arc::clone(&events.tell.0), self.seed);
            Listener::new(move |line| tell(seed, line))
        });
        let guest = Guest {
            kernel: &platform.kernel,
            program: &platform.program,
            arguments: vec!["lab".to_owned(), "guest".to_owned(), directory.display().to_string()],
            environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            memory_mib: self.memory_mib,
            limit: limit.unwrap_or(Duration::MAX),
            listener,
        };
        let ended = guest.run_unless(stop).map_err(|error| error.to_string())?;
        let path = directory.join(ANSWER_FILE);
        let text = std::fs::read(&path)
            .map_err(|error| format!("the guest left no answer ({error}); its console says: {}", ended.console))?;
        serde_json::from_slice(&text).map_err(|error| format!("{} makes no sense: {error}", path.display()))
    }
}

/// Interval at which the output files of a command are read.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

/// Copies the output files as they grow, until the guest has ended and everything is copied.
fn follow(directory: &Path, outputs: [&mut (dyn Write + Send); 3], is_over: &AtomicBool) -> io::Result<()> {
    let mut files = OUTPUT_FILES.map(|_| None);
    let mut outputs = outputs;
    loop {
        // Read before the files: output written before the end was noticed is copied in the last pass.
        let is_last = is_over.load(Ordering::Acquire);
        for ((file, name), output) in files.iter_mut().zip(OUTPUT_FILES).zip(&mut outputs) {
            if file.is_none() {
                *file = File::open(directory.join(name)).ok();
            }
            if let Some(file) = file {
                io::copy(file, *output)?;
                output.flush()?;
            }
        }
        if is_last {
            return Ok(());
        }
        thread::sleep(FOLLOW_INTERVAL);
    }
}

/// Memory of a guest, MiB. Sockets hold the data written by applications; the buffers of DFCP endpoints are the largest part.
fn memory_mib(scenario: &Scenario) -> u32 {
    1_024 + 192 * scenario.flows.len().min(64) as u32
}

/// Reason for which a kernel does not support this transport; `None` if it does.
fn refusal(carrier: &Carrier) -> Option<&'static str> {
    match carrier.kind {
        Kind::Cubic2008 | Kind::Newreno2008 => Some("a kernel of today has no TCP of 2008"),
        Kind::Reno | Kind::Tahoe => Some("the kernel has no Reno or Tahoe without selective acknowledgements"),
        _ if carrier.initial_ssthresh_segments.is_some() => {
            Some("the kernel gives a slow-start threshold to a second connection alone")
        }
        // The kernel derives small window limits from the buffer and the overhead of packets, so they are not exact.
        _ if carrier.max_window_bytes.is_some_and(|bytes| bytes < WINDOW_BYTES_FREE) => {
            Some("the kernel has no exact bound of the window")
        }
        _ if carrier.clock_hz.is_some_and(|hz| hz != CLOCK_HZ) => {
            Some("the clock of a kernel with the architecture `um` has 100 ticks per second")
        }
        _ => None,
    }
}

/// Reason for which a kernel does not support this link; `None` if it does.
fn refusal_of_link(link: &Impairments) -> Option<&'static str> {
    match link {
        _ if link.reorder.is_some_and(|share| share > 0.0) => Some("links keep order in the kernel"),
        _ => None,
    }
}

/// Reason for which a kernel does not support these hosts; `None` if it does.
fn refusal_of_flow(flow: &FlowSpec) -> Option<&'static str> {
    match flow {
        _ if flow.stop_ns.is_some() => Some("hosts are not switched off in the kernel"),
        _ if flow.messages.is_some() => Some("flows of messages run on the simulator alone"),
        _ if flow.web.is_some() => Some("web traffic runs on the simulator alone"),
        _ if flow.estimate.is_some() => Some("estimators watch the simulator alone"),
        _ if flow.ends != Ends::default() => {
            Some("ends are as fast as they can be in the kernel, and their clocks agree")
        }
        _ => None,
    }
}

/// Reason for which a kernel cannot run this scenario; `None` if it can.
fn refused(scenario: &Scenario) -> Option<String> {
    if scenario.links.iter().any(|link| link.discipline == Discipline::Wfq) {
        return Some("the kernel has no WFQ; drr and fq-codel are fair, too".to_owned());
    }
    let why = scenario.links.iter().find_map(|link| refusal_of_link(&link.impairments));
    let why = why.or_else(|| scenario.flows.iter().find_map(|flow| refusal(&flow.transport)));
    let why = why.or_else(|| scenario.flows.iter().find_map(refusal_of_flow));
    why.map(str::to_owned)
}

/// Clock ticks per second of every kernel with the architecture `um` (`arch/um/Kconfig`).
const CLOCK_HZ: u32 = 100;

/// Window that never limits at 200 Mbit/s, bytes.
const WINDOW_BYTES_FREE: u32 = 16 << 20;

impl Platform for KernelPlatform {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn refusal(&self, scenario: &Scenario) -> Option<String> {
        refused(scenario)
    }

    fn measure(&self, scenario: &Scenario, seed: u64) -> Result<Measured, MeasureError> {
        self.run(scenario, seed).map_err(|error| MeasureError::Failed(format!("{}: {error}", self.engine.platform)))
    }

    fn trace(&self, run: &Run, settings: Settings<'_>) -> Result<Traced, TraceError> {
        let times = settings.times(&run.scenario)?;
        if settings.has_capture {
            let why = "packets of a kernel are not written down; leave --pcap out";
            return Err(TraceError::Refused(why.to_owned()));
        }
        match refused(&run.scenario) {
            Some(why) => Err(TraceError::Refused(format!("{}: {why}", self.engine.platform))),
            None => {
                settings.prepare()?;
                self.trace_run(run, settings, times)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dfcp_lab::reading::parse;
    use dfcp_lab::{Choice, expand};

    use super::*;

    /// Refusal of the only run of a plan with these lines.
    fn refused(topology: &str, transport: &str) -> Option<String> {
        let text = format!(
            "id = \"t\"\ntitle = \"\"\nsource = \"ours\"\nquestion = \"\"\n[run]\n[topology]\n{topology}\n[[series]]\nlabel = \"A\"\n\
             transport = {transport}\n[metrics]\nplot = [\"jain\"]\n"
        );
        let runs = expand(&parse("t.toml", &text).unwrap(), Choice::default()).unwrap();
        super::refused(&runs[0].scenario)
    }

    #[test]
    fn what_a_kernel_does_not_have_is_refused_in_words() {
        for (topology, transport, part) in [
            ("discipline = \"wfq\"", "\"cubic\"", "no WFQ"),
            ("", "\"cubic-2008\"", "no TCP of 2008"),
            ("", "\"newreno-2008\"", "no TCP of 2008"),
            ("", "\"tahoe\"", "no Reno or Tahoe"),
            ("", "{ kind = \"cubic\", initial_ssthresh_segments = 10 }", "second connection alone"),
            ("", "{ kind = \"cubic\", max_window_bytes = 100000 }", "no exact bound"),
            ("", "{ kind = \"cubic\", clock_hz = 250 }", "has 100 ticks per second"),
            ("impairments = { reorder = 0.01 }", "\"cubic\"", "keep order"),
            ("[[flows]]\nstays_s = 1", "\"cubic\"", "not switched off"),
            ("[[flows]]\nmessages = { bytes = 9, every_ms = 4, deadline_ms = 9 }", "\"modern\"", "simulator alone"),
            ("[[flows]]\nweb = { connection_bytes = 9, page_every_s = 4 }", "\"cubic\"", "web traffic runs on"),
            ("[[flows]]\nestimate = {}", "\"cubic\"", "estimators watch"),
            ("[[flows]]\nends = { clock_ppm = 100 }", "\"modern\"", "their clocks agree"),
        ] {
            let why = refused(topology, transport).unwrap_or_default();
            assert!(why.contains(part), "{topology} {transport}: {why}");
        }
    }

    #[test]
    fn what_it_has_is_not() {
        for transport in [
            "\"cubic\"",
            "\"newreno\"",
            "\"bbr\"",
            "\"dctcp\"",
            "{ kind = \"bbr\", ecn = true }",
            "\"modern\"",
            "\"classic\"",
        ] {
            assert_eq!(refused("discipline = \"codel\"\nce_threshold_us = 1000", transport), None, "{transport}");
            assert_eq!(refused("discipline = \"drr\"", transport), None, "{transport}");
        }
        assert_eq!(refused("", "{ kind = \"cubic\", max_window_bytes = 1000000000, clock_hz = 100 }"), None);
        assert_eq!(
            refused("impairments = { jitter_ms = 2, back_loss = 0.2 }\n[[flows]]\nis_back = true", "\"cubic\""),
            None
        );
        let impairments = "impairments = { batch_ms = 4, policer_packets = 2, policer_mbps = 3, ways = \"both\" }";
        let more = "up_mbps = 5\n[[outages]]\nat_s = 1\nlasts_s = 1\n[[flows]]\nrebind_s = [1]\nis_back = true";
        assert_eq!(refused(&format!("{impairments}\n{more}"), "\"cubic\""), None);
    }

    #[test]
    fn what_a_command_writes_is_passed_on_to_the_last_byte() {
        let directory = tempfile::tempdir().unwrap();
        let [stdout, _, peer] = OUTPUT_FILES;
        std::fs::write(directory.path().join(stdout), "out").unwrap();
        std::fs::write(directory.path().join(peer), [0xFF, 0]).unwrap();
        let (mut one, mut two, mut three) = (Vec::new(), Vec::new(), Vec::new());
        follow(directory.path(), [&mut one, &mut two, &mut three], &AtomicBool::new(true)).unwrap();
        assert_eq!((one, two, three), (b"out".to_vec(), Vec::new(), vec![0xFF, 0]));
    }
}
