//! Progress bar for long sweeps, with the remaining time.

use dfcp_lab::Progress;
use dfcp_terminal::output;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar per unit of cost (simulated seconds × Gbit/s).
const STEPS: f64 = 100.0;

/// Progress bar, visible on a terminal only.
pub(super) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(super) fn new(is_hidden: bool) -> Self {
        let bar = output::bar(Some(0), is_hidden);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent} %  {msg}  {eta} left") {
            bar.set_style(style);
        }
        Self { bar }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        self.bar.set_length((progress.cost_total * STEPS) as u64);
        self.bar.set_position((progress.cost_done * STEPS) as u64);
        self.bar.set_message(format!("{} of {} runs  {}", progress.done, progress.total, progress.last));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
