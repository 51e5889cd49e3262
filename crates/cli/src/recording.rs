//! Recordings of a command's connections: a trace, and a key log.

use std::path::PathBuf;
use std::sync::Arc;

use dfcp::{Config, KeyLog};

use crate::args::PathArgs;
use crate::key_log;
use crate::qlog::{Side, Trace};

/// Recorders of connections. The trace ends when the last of these is gone.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    trace: Option<Arc<Trace>>,
    key_log: Option<KeyLog>,
}

impl Recording {
    /// Begins what the command line asks for, and lets the connections of `args` know.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin(args: &mut PathArgs, side: Side) -> anyhow::Result<()> {
        let trace = args.qlog.as_ref().map(|path| Trace::begin(path, side)).transpose()?;
        args.recording = Self { trace: trace.map(Arc::new), key_log: key_log::begin(args.key_log)? };
        Ok(())
    }

    /// The files that would be written.
    #[must_use]
    pub fn files(args: &PathArgs) -> Vec<PathBuf> {
        key_log::path(args.key_log).into_iter().chain(args.qlog.clone()).collect()
    }

    /// Puts it into a configuration.
    #[must_use]
    pub fn apply(&self, config: Config) -> Config {
        let observer = self.trace.as_ref().map(|trace| trace.observer());
        config.with_observer(observer).danger_with_key_log(self.key_log.clone())
    }
}
