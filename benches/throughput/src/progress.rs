//! Display of the current measurement on standard error: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Display of the progress of all measurements.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts the display for this number of measurements.
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

    /// Shows the start of a measurement.
    pub(crate) fn begin(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.tick();
        }
    }

    /// Shows the result of a measurement.
    pub(crate) fn end(&self, what: &str, result: &str) {
        self.note(&format!("{what:<44} {result}"));
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Shows a note.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// Ends the display.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
