//! Runs a program repeatedly, and stops it at successive operations.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use crate::disk::Disk;
use crate::mount::PowerCut;
use crate::record::Operation;

/// Maximum number of operations before the cut that a failing case prints.
const LOG_LINES_MAX: usize = 20;

/// A program under test, with its helper processes.
pub trait Program {
    /// Starts the program, which works below `directory`. Other access there would shift the operation numbers.
    ///
    /// # Errors
    /// Fails if the program cannot be started, which ends the sweep.
    fn start(&mut self, directory: &Path) -> io::Result<Child>;

    /// Reports that the program has ended with `status`, or was killed (`None`). Helper processes must be ended here.
    ///
    /// # Errors
    /// Fails if a helper process failed, which ends the sweep.
    fn stopped(&mut self, _status: Option<ExitStatus>) -> io::Result<()> {
        Ok(())
    }

    /// Checks the state left by the program. The sweep calls this several times per run: once after a kill, and once per seed.
    ///
    /// # Errors
    /// Fails with the violated expectation, as one sentence.
    fn check(&mut self, case: &Case<'_>) -> Result<(), String>;
}

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The program was killed, and the machine kept running.
    Kill,
    /// The power was cut, with the state that [`Disk::after_power_cut`] draws from the seed.
    PowerCut {
        /// Seed of the power cut.
        seed: u64,
    },
}

/// State after one run.
#[derive(Debug)]
pub struct Case<'a> {
    /// Number of the first operation that failed, from 1.
    pub cut_at: u64,
    /// Event at that operation.
    pub ending: Ending,
    /// Exit status of a program that ended before the cut.
    pub status: Option<ExitStatus>,
    /// File system after the run.
    pub disk: &'a Disk,
    /// All operations of this run, including the one that failed.
    pub log: &'a [Operation],
    /// Mount point for [`Case::mount`].
    directory: &'a Path,
}

impl Case<'_> {
    /// Mounts the disk, so that a program can run on it. Reading files does not need this.
    ///
    /// # Errors
    /// Fails like [`PowerCut::mount`].
    pub fn mount(&self) -> io::Result<PowerCut> {
        PowerCut::mount(self.directory, self.disk.clone())
    }
}

/// Settings of a sweep: the cuts to try.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Initial state of each run.
    pub disk: Disk,
    /// Operation of the first cut.
    pub first: u64,
    /// Number of operations between two cuts.
    pub stride: u64,
    /// Operation of the last possible cut. A longer program leaves [`Report::is_complete`] false.
    pub last: u64,
    /// Seeds of the power cuts after each run.
    pub seeds: Range<u64>,
    /// Longest run of the program; a longer one is an error.
    pub patience: Duration,
}

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct Report {
    /// Runs of the program.
    pub points: u64,
    /// Checked states: one per run and ending.
    pub cases: u64,
    /// True if the last run ended without a cut: the sweep reached the end of the program.
    pub is_complete: bool,
    /// Cases that failed their check.
    pub failures: Vec<Failed>,
}

/// A case that failed its check.
#[derive(Debug)]
pub struct Failed {
    /// Same as [`Case::cut_at`].
    pub cut_at: u64,
    /// Same as [`Case::ending`].
    pub ending: Ending,
    /// Violated expectation, as one sentence.
    pub sentence: String,
    /// The last operations of that run.
    pub log: Vec<Operation>,
}

impl Default for Sweep {
    /// Default sweep: every operation, on an empty disk, with four seeds.
    fn default() -> Self {
        let patience = Duration::from_secs(60);
        Self { disk: Disk::new(), first: 1, stride: 1, last: u64::MAX, seeds: 0..4, patience }
    }
}

impl Sweep {
    /// Runs `program` with one cut after the other until it ends without a cut. Each run is checked after a kill, and after power cuts with
    /// all seeds.
    ///
    /// # Errors
    /// Fails if the file system cannot be mounted, or the program cannot be run. Failed checks are in the report instead.
    pub fn run(&self, program: &mut impl Program) -> io::Result<Report> {
        let directory = tempfile::tempdir()?;
        let mut report = Report::default();
        let points = (self.first..=self.last).step_by(usize::try_from(self.stride.max(1)).unwrap_or(usize::MAX));
        for cut_at in points {
            let in_run = |error: io::Error| io::Error::new(error.kind(), format!("cut at operation {cut_at}: {error}"));
            report.is_complete = self.run_once(program, directory.path(), cut_at, &mut report).map_err(in_run)?;
            if report.is_complete {
                break;
            }
        }
        Ok(report)
    }

    /// Runs the program once; returns true if it ended without a cut.
    fn run_once(
        &self,
        program: &mut impl Program,
        directory: &Path,
        cut_at: u64,
        report: &mut Report,
    ) -> io::Result<bool> {
        let mounted = PowerCut::mount(directory, self.disk.clone())?;
        mounted.cut_at(cut_at);
        let watched = mounted.watch(&mut program.start(directory)?, self.patience);
        // Helper processes must end in any case.
        program.stopped(watched.as_ref().ok().copied().flatten())?;
        let status = watched?;
        let log = mounted.log();
        let killed = mounted.after_kill();
        report.points += 1;
        let endings = std::iter::once(Ending::Kill).chain(self.seeds.clone().map(|seed| Ending::PowerCut { seed }));
        for ending in endings {
            let left = match ending {
                Ending::Kill => None,
                Ending::PowerCut { seed } => Some(killed.after_power_cut(seed)),
            };
            let disk = left.as_ref().unwrap_or(&killed);
            report.cases += 1;
            if let Err(sentence) = program.check(&Case { cut_at, ending, status, disk, log: &log, directory }) {
                let log = log[log.len().saturating_sub(LOG_LINES_MAX)..].to_vec();
                report.failures.push(Failed { cut_at, ending, sentence, log });
            }
        }
        Ok(status.is_some())
    }
}

impl Report {
    /// # Panics
    /// Panics if a case failed, with a message on how to replay it.
    #[track_caller]
    pub fn assert_right(&self) {
        assert!(self.failures.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} cases after {} runs were wrong", self.failures.len(), self.cases, self.points)?;
        self.failures.iter().try_for_each(|failed| write!(f, "\n\n{failed}"))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cut_at, ending, sentence, log } = self;
        let (how, seeds) = match ending {
            Ending::Kill => ("killed".to_owned(), "0..0".to_owned()),
            Ending::PowerCut { seed } => {
                (format!("the power was cut with seed {seed}"), format!("{seed}..{}", seed + 1))
            }
        };
        writeln!(f, "at operation {cut_at} {how}: {sentence}")?;
        write!(f, "replay: Sweep {{ first: {cut_at}, last: {cut_at}, seeds: {seeds}, .. }}; what was done:")?;
        log.iter().try_for_each(|operation| write!(f, "\n  {operation}"))
    }
}
