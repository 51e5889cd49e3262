//! Timed events of a path, in command-line syntax.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::units;

/// Outage of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutageArg {
    /// Start of the outage, from the beginning of the run.
    pub start: Duration,
    /// Length of the outage.
    pub length: Duration,
}

impl OutageArg {
    pub(super) fn end(self) -> Duration {
        self.start.saturating_add(self.length)
    }
}

impl FromStr for OutageArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (start, length) = text.split_once(':').ok_or("write START:LENGTH, for example 10s:500ms")?;
        let time = |text| units::duration(text).map_err(|error| error.to_string());
        let outage = Self { start: time(start)?, length: time(length)? };
        if outage.length.is_zero() {
            return Err("an outage of no length is none; write START:LENGTH, for example 10s:500ms".to_owned());
        }
        Ok(outage)
    }
}

impl fmt::Display for OutageArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [start, length] = [self.start, self.length].map(units::human_duration);
        write!(f, "of {length} after {start}")
    }
}
