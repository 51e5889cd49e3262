//! The platforms which make runs.

use std::sync::Arc;

use dfcp_lab::{Platform, Sim};

use super::args::{self, RunsArg};

/// In the order in which they stand side by side.
pub(super) type Platforms = Vec<Box<dyn Platform>>;

/// Those that were asked for, each once.
///
/// # Errors
/// One of them is not there.
pub(super) fn of(runs: &RunsArg) -> anyhow::Result<Arc<Platforms>> {
    let mut all: Platforms = Vec::new();
    for name in &runs.platform {
        let platform: Box<dyn Platform> = match name {
            args::Platform::Sim => Box::new(Sim::default()),
        };
        if !all.iter().any(|other| other.engine() == platform.engine()) {
            all.push(platform);
        }
    }
    Ok(Arc::new(all))
}
