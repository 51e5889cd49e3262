//! The classic profile: the protocol of Sz. Solymos's thesis of 2014, **which has no security whatever**, and floods. With the feature
//! `classic` only, which is off by default: it is for experiments.
//!
//! [`Config::danger_classic`](crate::Config::danger_classic) configures it; [`Stream::parameters`](crate::Stream::parameters) has its
//! parameters while a connection runs.

pub use dfcp_proto::{Access, ClassicSettings, Parameter, ParameterError, inctokens};

use crate::connection::Shared;

/// The parameters of thesis table 3.2 of a connection. A modern one has *Window size*, and the counters.
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
    /// If the table does not let it be set, this profile does not have it, the value is out of range, or it is too late.
    pub fn set(&self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        self.0.configure(|connection| connection.parameters().set(parameter, value))
    }

    /// Reads a parameter.
    ///
    /// # Errors
    /// If the table does not let it be read, or this profile does not have it.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        self.0.read_parameter(parameter)
    }
}
