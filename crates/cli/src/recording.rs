//! Recordings of a command's connections: trace and key log.

use std::path::Path;
use std::sync::Arc;

use dfcp::{Config, KeyLog};

use crate::key_log;
use crate::qlog::{Side, Trace};

/// Recorders of connections. The trace ends when the last clone is dropped.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    trace: Option<Arc<Trace>>,
    key_log: Option<KeyLog>,
}

impl Recording {
    /// Opens a trace for this `side` in the file `trace`, and a key log, as requested.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn begin(trace: Option<&Path>, has_key_log: bool, side: Side) -> anyhow::Result<Self> {
        let trace = trace.map(|path| Trace::begin(path, side)).transpose()?;
        Ok(Self { trace: trace.map(Arc::new), key_log: key_log::begin(has_key_log)? })
    }

    /// Adds the recorders to a configuration.
    #[must_use]
    pub fn apply(&self, config: Config) -> Config {
        let observer = self.trace.as_ref().map(|trace| trace.observer());
        config.with_observer(observer).danger_with_key_log(self.key_log.clone())
    }
}
