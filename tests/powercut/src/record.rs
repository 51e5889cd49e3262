//! Counter of modifying operations, which cuts the power at one of them.

use std::fmt;
use std::io::PipeWriter;

use rustix::io::Errno;

/// A modifying or flushing operation. It may have failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Number of the operation, from 1.
    pub number: u64,
    /// Name of the operation: `write`, `rename`, ...
    pub name: &'static str,
    /// Path below the mount point, and arguments.
    pub subject: String,
}

/// The operations since mounting.
#[derive(Debug, Default)]
pub(crate) struct Record {
    operations: Vec<Operation>,
    cut_at: Option<u64>,
    is_cut: bool,
    /// Dropped when the power is cut, which readers see as end of file.
    alarm: Option<PipeWriter>,
}

impl Record {
    pub(crate) fn with_alarm(alarm: PipeWriter) -> Self {
        Self { alarm: Some(alarm), ..Self::default() }
    }

    /// Counts an operation before its execution.
    ///
    /// # Errors
    /// Fails if the power is off, possibly since this operation.
    pub(crate) fn begin(&mut self, name: &'static str, subject: impl FnOnce() -> String) -> Result<(), Errno> {
        self.check_power()?;
        let number = self.count() + 1;
        self.operations.push(Operation { number, name, subject: subject() });
        if self.cut_at.is_some_and(|at| number >= at) {
            self.cut();
        }
        self.check_power()
    }

    /// # Errors
    /// Fails if the power is off.
    pub(crate) fn check_power(&self) -> Result<(), Errno> {
        if self.is_cut { Err(Errno::IO) } else { Ok(()) }
    }

    pub(crate) fn cut_at(&mut self, number: u64) {
        self.cut_at = Some(number);
    }

    /// Cuts the power now.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
        self.alarm = None;
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn count(&self) -> u64 {
        self.operations.len() as u64
    }

    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.number, self.name, self.subject)
    }
}
