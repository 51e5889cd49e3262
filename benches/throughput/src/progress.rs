//! The current measurement, on standard error: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Tells how far all measurements are.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress of this number of measurements.
    pub(crate) fn new(measurements: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(measurements as u64);
            if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar }
    }

    /// One measurement begins.
    pub(crate) fn begin(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.tick();
        }
    }

    /// It is over.
    pub(crate) fn end(&self, what: &str, result: &str) {
        self.note(&format!("{what:<44} {result}"));
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Something else to be known.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// All measurements are over.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
