//! Who hears of a command's connections: its key log.

use dfcp::{Config, KeyLog};

use crate::args::PathArgs;
use crate::key_log;

/// What connections are told to record.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    key_log: Option<KeyLog>,
}

impl Recording {
    /// Begins what the command line asks for, and lets the connections of `args` know.
    ///
    /// # Errors
    /// What is to be written cannot be.
    pub fn begin(args: &mut PathArgs) -> anyhow::Result<()> {
        args.recording.key_log = key_log::begin(args.key_log)?;
        Ok(())
    }

    /// Puts it into a configuration.
    #[must_use]
    pub fn apply(&self, config: Config) -> Config {
        config.danger_with_key_log(self.key_log.clone())
    }
}
