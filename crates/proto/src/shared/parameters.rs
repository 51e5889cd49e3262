//! The thirteen parameters of thesis table 3.2, by their documented names and types.

use std::str::FromStr;

use dfcp_fountain::raptor::SEGMENT_BYTES;
use dfcp_wire::Profile;

use crate::error::ParameterError;
use crate::limits;
use crate::shared::counters::Counters;

/// Access of an application to a parameter, according to table 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The parameter can only be set.
    Set,
    /// The parameter can only be read.
    Get,
    /// The parameter can be set and read.
    Both,
}

/// A parameter of thesis table 3.2.
///
/// ```
/// # mod dfcp { pub use dfcp_proto::*; pub use dfcp_proto as classic; }
/// use dfcp::Config;
/// use dfcp::classic::Parameter;
///
/// let mut config = Config::danger_classic();
/// config.set(Parameter::WindowSize, 64)?;
/// let by_name: Parameter = "redundancy".parse()?;
/// config.set(by_name, 70_000)?;
/// assert_eq!((config.window_blocks, config.classic.redundancy_bytes), (Some(64), 70_000));
/// # Ok::<(), dfcp::classic::ParameterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    /// Largest size of the sliding window, blocks.
    WindowSize,
    /// Encoded bytes of a block from which the receiver tries to decode it.
    Redundancy,
    /// 1: every block is encoded. 0: offline encoding, the segments of the first block serve for all blocks (§3.12.1).
    Coding,
    /// 1: blocks are decoded. 0: the bytes of blocks are only counted (§3.12.1).
    Decoding,
    /// Capacity of the token bucket, encoded bytes: at least one segment of 1420 bytes, or 0 for no bucket (§3.12.2).
    Maxtokens,
    /// Current tokens in the bucket, encoded bytes.
    Numtokens,
    /// Tokens added per interval, encoded bytes.
    Inctokens,
    /// Interval of the token bucket, in ticks of 4 ms. Default 1.
    Inttokens,
    /// Segments sent.
    OutgoingSegments,
    /// Segments received.
    IncomingSegments,
    /// Segments dropped on arrival.
    DroppedSegments,
    /// Acknowledgements sent.
    AcksSent,
    /// Acknowledgements received.
    AcksReceived,
}

impl FromStr for Parameter {
    type Err = ParameterError;

    /// Parses the name of a parameter in the table, in any case, with or without spaces (`Window size`, `window-size`,
    /// `windowsize`).
    fn from_str(name: &str) -> Result<Self, ParameterError> {
        let letters = |name: &str| -> String {
            let letters = name.chars().filter(|letter| !matches!(letter, ' ' | '-' | '_'));
            letters.map(|letter| letter.to_ascii_lowercase()).collect()
        };
        let wanted = letters(name);
        Self::ALL.into_iter().find(|parameter| letters(parameter.name()) == wanted).ok_or(ParameterError::Unknown)
    }
}

impl Parameter {
    /// All thirteen parameters, in the table's order.
    pub const ALL: [Self; 13] = [
        Self::WindowSize,
        Self::Redundancy,
        Self::Coding,
        Self::Decoding,
        Self::Maxtokens,
        Self::Numtokens,
        Self::Inctokens,
        Self::Inttokens,
        Self::OutgoingSegments,
        Self::IncomingSegments,
        Self::DroppedSegments,
        Self::AcksSent,
        Self::AcksReceived,
    ];

    /// Returns the parameter's name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WindowSize => "Window size",
            Self::Redundancy => "Redundancy",
            Self::Coding => "Coding",
            Self::Decoding => "Decoding",
            Self::Maxtokens => "Maxtokens",
            Self::Numtokens => "Numtokens",
            Self::Inctokens => "Inctokens",
            Self::Inttokens => "Inttokens",
            Self::OutgoingSegments => "Outgoing segments",
            Self::IncomingSegments => "Incoming segments",
            Self::DroppedSegments => "Dropped segments",
            Self::AcksSent => "ACKs sent",
            Self::AcksReceived => "ACKs received",
        }
    }

    /// Returns the access that an application has to the parameter.
    #[must_use]
    pub fn access(self) -> Access {
        match self {
            Self::WindowSize | Self::Redundancy | Self::Coding | Self::Decoding => Access::Set,
            Self::Maxtokens | Self::Numtokens | Self::Inctokens | Self::Inttokens => Access::Both,
            Self::OutgoingSegments
            | Self::IncomingSegments
            | Self::DroppedSegments
            | Self::AcksSent
            | Self::AcksReceived => Access::Get,
        }
    }

    /// Returns true if setting the parameter has an effect on classic connections only: the modern profile has another
    /// code, is paced without a token bucket, and cannot disable its codec.
    #[must_use]
    pub fn is_classic_only(self) -> bool {
        match self.access() {
            Access::Get => false,
            Access::Set | Access::Both => self != Self::WindowSize,
        }
    }

    /// Returns the range of the parameter's values. For *Maxtokens* the range depends on `value`.
    fn range(self, value: u64, window_blocks_max: u32) -> (u64, u64) {
        match self {
            Self::WindowSize => (1, window_blocks_max.into()),
            Self::Redundancy => limits::REDUNDANCY_BYTES,
            Self::Coding | Self::Decoding => (0, 1),
            Self::Inttokens => (1, 15_000),
            // 0 switches the bucket off. A bucket too small for the tokens of one segment would stop the sender for
            // ever.
            Self::Maxtokens if value > 0 => (SEGMENT_BYTES as u64, u32::MAX.into()),
            Self::Maxtokens | Self::Numtokens | Self::Inctokens => (0, u32::MAX.into()),
            Self::OutgoingSegments
            | Self::IncomingSegments
            | Self::DroppedSegments
            | Self::AcksSent
            | Self::AcksReceived => (0, u64::MAX),
        }
    }

    /// Returns the value of a parameter that is a counter, on a connection of either profile.
    pub(crate) fn of_counters(self, counters: &Counters) -> Result<u64, ParameterError> {
        match self {
            Self::OutgoingSegments => Ok(counters.segments_sent),
            Self::IncomingSegments => Ok(counters.segments_received),
            Self::DroppedSegments => Ok(counters.segments_dropped),
            Self::AcksSent => Ok(counters.acks_sent),
            Self::AcksReceived => Ok(counters.acks_received),
            Self::WindowSize | Self::Redundancy | Self::Coding | Self::Decoding => {
                Err(ParameterError::WriteOnly(self.name()))
            }
            Self::Maxtokens | Self::Numtokens | Self::Inctokens | Self::Inttokens => {
                Err(ParameterError::ClassicOnly(self.name()))
            }
        }
    }

    pub(crate) fn check_settable(self, value: u64, profile: Profile) -> Result<(), ParameterError> {
        if self.access() == Access::Get {
            return Err(ParameterError::ReadOnly(self.name()));
        }
        let window_blocks_max = match profile {
            Profile::Modern if self.is_classic_only() => return Err(ParameterError::ClassicOnly(self.name())),
            Profile::Modern => limits::WINDOW_BLOCKS_MAX,
            Profile::Classic => limits::CLASSIC_WINDOW_BLOCKS_MAX,
        };
        let (min, max) = self.range(value, window_blocks_max);
        if (min..=max).contains(&value) {
            Ok(())
        } else {
            Err(ParameterError::OutOfRange { name: self.name(), min, max })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use dfcp_time::Time;

    use super::*;
    use crate::{Config, Endpoint};

    #[test]
    fn a_parameter_is_known_by_its_name_however_that_is_written() {
        for parameter in Parameter::ALL {
            let name = parameter.name();
            for written in [name.to_owned(), name.to_uppercase(), name.replace(' ', "-"), name.replace(' ', "_")] {
                assert_eq!(written.parse(), Ok(parameter));
            }
        }
        assert_eq!("tokens".parse::<Parameter>(), Err(ParameterError::Unknown));
    }

    #[test]
    fn a_configuration_takes_what_a_connection_would_and_starts_with_it() {
        let remote = SocketAddr::from(([192, 0, 2, 7], 4433));
        let mut config = Config::danger_classic();
        for (parameter, value) in [
            (Parameter::Maxtokens, 2_840),
            (Parameter::Numtokens, 1_420),
            (Parameter::Inctokens, 524),
            (Parameter::Inttokens, 3),
        ] {
            config.set(parameter, value).unwrap();
            let mut connection = Endpoint::new(1, None, [0; 32]).connect(Time::ZERO, remote, config.clone()).unwrap().1;
            assert_eq!(connection.parameters().get(parameter), Ok(value));
        }
        config.set(Parameter::Redundancy, 70_000).unwrap();
        config.set(Parameter::Coding, 0).unwrap();
        config.set(Parameter::Decoding, 0).unwrap();
        config.set(Parameter::WindowSize, 7).unwrap();
        assert_eq!((config.window_blocks, config.classic.redundancy_bytes), (Some(7), 70_000));
        assert!(!config.classic.coding && !config.classic.decoding && config.validate().is_ok());
        assert!(config.set(Parameter::Maxtokens, 1_419).is_err() && config.set(Parameter::AcksSent, 1).is_err());
        assert_eq!(Config::modern().set(Parameter::Coding, 0), Err(ParameterError::ClassicOnly("Coding")));
    }

    #[test]
    fn what_has_no_effect_on_a_modern_connection_cannot_be_set_there() {
        use Parameter::{Coding, Decoding, Inctokens, Inttokens, Maxtokens, Numtokens, Redundancy, WindowSize};
        let remote = SocketAddr::from(([192, 0, 2, 7], 4433));
        let open = |config| Endpoint::new(1, None, [0; 32]).connect(Time::ZERO, remote, config).unwrap().1;
        let mut modern = open(Config::danger_unsealed());
        let mut classic = open(Config::danger_classic());
        for parameter in Parameter::ALL {
            // A value in the range of each parameter.
            let value = match parameter {
                Maxtokens | Redundancy => 100_000,
                _ => 1,
            };
            let (on_modern, on_classic) =
                (modern.parameters().set(parameter, value), classic.parameters().set(parameter, value));
            match parameter {
                WindowSize => assert_eq!((on_modern, on_classic), (Ok(()), Ok(()))),
                Redundancy | Coding | Decoding | Maxtokens | Numtokens | Inctokens | Inttokens => {
                    assert_eq!(on_classic, Ok(()), "{parameter:?}");
                    let said = on_modern.map_err(|error| error.to_string());
                    assert!(said.is_err_and(|said| said.contains("classic profile")), "{parameter:?}: {on_modern:?}");
                }
                _ => {
                    let read_only = Err(ParameterError::ReadOnly(parameter.name()));
                    assert_eq!((on_modern, on_classic), (read_only, read_only), "{parameter:?}");
                }
            }
        }
    }
}
