//! Testbed as a platform of the laboratory.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dfcp_lab::metrics::Measured;
use dfcp_lab::scenario::Scenario;
use dfcp_lab::trace::{Settings, TraceError, Traced};
use dfcp_lab::{Engine, MeasureError, Platform, Run};

use crate::host::Host;
use crate::job::{Answer, Job};
use crate::limits::OVERTIME_MAX;
use crate::process::give;
use crate::refusal::refusal;

/// This machine as a platform, in real time.
#[derive(Debug)]
pub struct TestbedPlatform {
    host: Host,
    /// Path of the program that executes a run if called with `argument`.
    program: PathBuf,
    argument: &'static str,
    engine: Engine,
    /// Lock that serialises runs: concurrent runs would compete for processors.
    one_at_a_time: Mutex<()>,
}

impl TestbedPlatform {
    /// Creates the platform. The program `program` executes runs: called with `argument`, it must call
    /// [`serve`](crate::serve).
    #[must_use]
    pub fn new(host: Host, program: PathBuf, argument: &'static str) -> Self {
        let hash = format!("{} {}", env!("DFCP_TESTBED"), host.release);
        let engine = Engine { platform: format!("testbed-{}", host.release), hash };
        Self { host, program, argument, engine, one_at_a_time: Mutex::new(()) }
    }

    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Measured, String> {
        let _alone = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let job = Job { scenario: scenario.clone(), seed };
        let limit = Duration::from_nanos(scenario.duration_ns) + OVERTIME_MAX;
        match give(&self.program, self.argument, &job, limit)? {
            Answer::Measured(measured) => Ok(*measured),
            Answer::Failed(why) => Err(why),
        }
    }
}

impl Platform for TestbedPlatform {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn refusal(&self, scenario: &Scenario) -> Option<String> {
        refusal(scenario, &self.host)
    }

    fn runs_at_a_time(&self) -> Option<NonZeroUsize> {
        Some(NonZeroUsize::MIN)
    }

    fn measure(&self, scenario: &Scenario, seed: u64) -> Result<Measured, MeasureError> {
        self.run(scenario, seed).map_err(|error| MeasureError::Failed(format!("{}: {error}", self.engine.platform)))
    }

    fn trace(&self, _: &Run, _: Settings<'_>) -> Result<Traced, TraceError> {
        Err(TraceError::Refused("the testbed writes no traces; use --platform sim or --platform kernel".to_owned()))
    }
}
