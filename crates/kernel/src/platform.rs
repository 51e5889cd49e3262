//! The kernel as a platform of the laboratory.

use std::path::PathBuf;
use std::time::Duration;

use dfcp_lab::metrics::Measured;
use dfcp_lab::plan::{Discipline, Kind};
use dfcp_lab::scenario::Scenario;
use dfcp_lab::{Engine, MeasureError, Platform};

use crate::host::Guest;
use crate::job::{ANSWER_FILE, Answer, JOB_FILE, Job, Task};
use crate::kernel::Kernel;

/// A kernel in virtual time.
#[derive(Debug)]
pub struct KernelPlatform {
    kernel: Kernel,
    /// What the guest starts as its first process: this program.
    program: PathBuf,
    engine: Engine,
}

/// Wall-clock time which a run may take: so much, and ...
const LIMIT: Duration = Duration::from_secs(120);
/// ... so much more for each of its units of cost, simulated seconds times Gbit/s; it takes some 10 s.
const LIMIT_S_PER_COST: f64 = 200.0;

impl KernelPlatform {
    /// Runs are made by `kernel`; `program` is this program, whose command line is known to have `lab kernel guest`.
    #[must_use]
    pub fn new(kernel: Kernel, program: PathBuf) -> Self {
        let hash = format!("{} {}", env!("DFCP_GUEST"), kernel.id());
        let engine = Engine { platform: format!("kernel-{}", kernel.release()), hash };
        Self { kernel, program, engine }
    }

    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Measured, String> {
        let directory = tempfile::tempdir().map_err(|error| format!("cannot make a directory: {error}"))?;
        let job = Job { scenario: scenario.clone(), seed, task: Task::Measure };
        let text = serde_json::to_vec(&job).map_err(|error| error.to_string())?;
        let path = directory.path().join(JOB_FILE);
        std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let guest = Guest {
            kernel: &self.kernel,
            program: &self.program,
            arguments: vec!["lab".to_owned(), "guest".to_owned(), directory.path().display().to_string()],
            environment: Vec::new(),
            memory_mib: memory_mib(scenario),
            limit: LIMIT + Duration::from_secs_f64(scenario.cost() * LIMIT_S_PER_COST),
        };
        let ended = guest.run().map_err(|error| error.to_string())?;
        let path = directory.path().join(ANSWER_FILE);
        let text = std::fs::read(&path)
            .map_err(|error| format!("the guest left no answer ({error}); its console says: {}", ended.console))?;
        match serde_json::from_slice(&text).map_err(|error| format!("{} makes no sense: {error}", path.display()))? {
            Answer::Measured(measured) => Ok(*measured),
            Answer::Executed(_) => Err("the guest has run a command instead of flows".to_owned()),
            Answer::Failed(why) => Err(why),
        }
    }
}

/// Sockets hold what an application has written: buffers of DFCP's ends are the largest part.
fn memory_mib(scenario: &Scenario) -> u32 {
    1_024 + 192 * scenario.flows.len().min(64) as u32
}

/// Why a kernel has no such transport.
fn refusal(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Cubic2008 | Kind::Newreno2008 => Some("a kernel of today has no TCP of 2008"),
        Kind::Reno | Kind::Tahoe => Some("the kernel has no Reno or Tahoe without selective acknowledgements"),
        _ => None,
    }
}

impl Platform for KernelPlatform {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn refusal(&self, scenario: &Scenario) -> Option<String> {
        let disciplines = || scenario.links.iter().map(|link| link.discipline);
        if disciplines().any(|discipline| discipline == Discipline::Wfq) {
            return Some("the kernel has no WFQ; drr and fq-codel are fair, too".to_owned());
        }
        scenario.flows.iter().find_map(|flow| refusal(flow.transport.kind)).map(str::to_owned)
    }

    fn measure(&self, scenario: &Scenario, seed: u64) -> Result<Measured, MeasureError> {
        self.run(scenario, seed).map_err(|error| MeasureError::Failed(format!("{}: {error}", self.engine.platform)))
    }
}
