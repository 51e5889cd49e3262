//! Configuration of the classic profile.

use std::time::Duration;

use dfcp_wire::Profile;

use crate::config::{ClassicSettings, Config, Rate, Schedule, in_range};
use crate::error::{ConfigError, ParameterError};
use crate::limits;
use crate::security::Security;
use crate::shared::parameters::Parameter;

impl Config {
    /// Default configuration of the classic profile, as the documents describe it. **It has no security at all**, and
    /// floods the path.
    ///
    /// ```
    /// # use dfcp_proto as dfcp;
    /// use dfcp::{Config, Schedule};
    ///
    /// // A measurement as in the documents: send 5 % more than the block's bytes, then the next block.
    /// let config = Config::danger_classic().with_schedule(Schedule::OpenLoop { redundancy: 0.05 });
    /// assert!(config.validate().is_ok());
    /// assert!(Config::modern().with_schedule(Schedule::Flood).validate().is_err());
    /// ```
    #[must_use]
    pub fn danger_classic() -> Self {
        Self {
            profile: Profile::Classic,
            security: Security::Unsealed,
            schedule: Schedule::Flood,
            rate: Rate::Line,
            breaker: false,
            time_wait: Duration::from_secs(60),
            ..Self::modern()
        }
    }

    /// Sets the parameters of the classic profile; see [`classic`](Self::classic).
    #[must_use]
    pub fn with_classic(mut self, classic: ClassicSettings) -> Self {
        self.classic = classic;
        self
    }

    /// Sets the initial value of a parameter of thesis table 3.2, for connections of this configuration.
    ///
    /// # Errors
    /// If the table does not permit setting it, this profile lacks it, or the value is out of range.
    pub fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        parameter.check_settable(value, self.profile)?;
        let small = u32::try_from(value).unwrap_or(u32::MAX);
        let classic = &mut self.classic;
        match parameter {
            Parameter::WindowSize => self.window_blocks = Some(small),
            Parameter::Redundancy => classic.redundancy_bytes = small,
            Parameter::Coding => classic.coding = value == 1,
            Parameter::Decoding => classic.decoding = value == 1,
            Parameter::Maxtokens => classic.maxtokens = small,
            Parameter::Numtokens => classic.numtokens = small,
            Parameter::Inctokens => classic.inctokens = small,
            Parameter::Inttokens => classic.inttokens = small,
            Parameter::OutgoingSegments
            | Parameter::IncomingSegments
            | Parameter::DroppedSegments
            | Parameter::AcksSent
            | Parameter::AcksReceived => return Err(ParameterError::ReadOnly(parameter.name())),
        }
        Ok(())
    }

    /// Checks that the schedule belongs to the profile, and that the classic parameters are in range.
    pub(crate) fn validate_classic(&self) -> Result<(), ConfigError> {
        match (self.profile, self.schedule) {
            (Profile::Modern, Schedule::Adaptive) | (Profile::Classic, Schedule::Flood) => {}
            (Profile::Classic, Schedule::OpenLoop { redundancy }) if (0.0..=16.0).contains(&redundancy) => {}
            (Profile::Classic, Schedule::OpenLoop { .. }) => return Err(ConfigError::Redundancy),
            (profile, schedule) => return Err(ConfigError::ScheduleOfOtherProfile { profile, schedule }),
        }
        let (least, most) = limits::REDUNDANCY_BYTES;
        in_range("redundancy_bytes", self.classic.redundancy_bytes.into(), least, most)
    }
}
