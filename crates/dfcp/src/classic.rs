//! The classic profile: the protocol of Sz. Solymos's thesis of 2014. It **has no security at all**, and floods the
//! path. It is meant for experiments, and needs the feature `classic`, which is off by default.
//!
//! [`Config::danger_classic`](crate::Config::danger_classic) configures the profile.
//! [`Stream::parameters`](crate::Stream::parameters) reads and sets its parameters while a connection runs.

pub use dfcp_proto::{Access, ClassicSettings, Parameter, ParameterError, inctokens};

use crate::connection::Shared;

/// Access to a connection's parameters of thesis table 3.2. A modern connection has only *Window size* and the
/// counters.
///
/// ```
/// # use dfcp::{Stream, classic::{Parameter, ParameterError}};
/// # fn example(stream: &Stream) -> Result<(), ParameterError> {
/// stream.parameters().set(Parameter::Maxtokens, 2_840)?;
/// println!("{} segments have been sent", stream.parameters().get(Parameter::OutgoingSegments)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a>(pub(crate) &'a Shared);

impl Parameters<'_> {
    /// Sets a parameter.
    ///
    /// # Errors
    /// If the table forbids setting this parameter, the profile does not have it, the value is out of range, or the
    /// connection's state no longer permits the change.
    pub fn set(&self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        self.0.configure(|connection| connection.parameters().set(parameter, value))
    }

    /// Reads a parameter.
    ///
    /// # Errors
    /// If the table forbids reading this parameter, or the profile does not have it.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        self.0.read_parameter(parameter)
    }
}
