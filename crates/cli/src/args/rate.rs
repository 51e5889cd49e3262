//! Sending rate on the command line: `--rate`.

use std::fmt;
use std::str::FromStr;

use dfcp::Policy;
use dfcp_terminal::units::{UnitError, human_rate, rate, sending_rate};

/// Sending rate as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateArg {
    /// Fixed rate in bits per second, paced.
    Bps(u64),
    /// As fast as the interface accepts.
    Line,
    /// Automatic rate control.
    Auto(Policy),
}

impl FromStr for RateArg {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "line" => Ok(Self::Line),
            "auto" | "auto:fair" => Ok(Self::Auto(Policy::Fair)),
            "auto:high" => Ok(Self::Auto(Policy::High)),
            "auto:low" => Ok(Self::Auto(Policy::Low)),
            _ if rate(text).is_err() => Err(UnitError::RateOrWord(text.to_owned())),
            _ => sending_rate(text).map(Self::Bps),
        }
    }
}

impl fmt::Display for RateArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bps(rate_bps) => f.write_str(&human_rate(*rate_bps as f64)),
            Self::Line => f.write_str("line"),
            Self::Auto(Policy::Fair) => f.write_str("auto"),
            Self::Auto(Policy::High) => f.write_str("auto:high"),
            Self::Auto(Policy::Low) => f.write_str("auto:low"),
        }
    }
}

#[cfg(test)]
mod tests {
    use dfcp_terminal::units::SENDING_RATE_BPS;

    use super::*;

    #[test]
    fn a_rate_may_be_the_line_rate() {
        assert_eq!("line".parse(), Ok(RateArg::Line));
        for text in ["auto", "auto:high", "auto:low"] {
            assert_eq!(text.parse::<RateArg>().unwrap().to_string(), text);
        }
        assert_eq!("Auto:Fair".parse(), Ok(RateArg::Auto(Policy::Fair)));
        assert_eq!("10mbit".parse(), Ok(RateArg::Bps(10_000_000)));
        assert_eq!("fast".parse::<RateArg>(), Err(UnitError::RateOrWord("fast".to_owned())));
        assert_eq!(format!("{} {}", RateArg::Line, RateArg::Bps(10_000_000)), "line 10.0 Mbit/s");
    }

    #[test]
    fn a_rate_at_which_nothing_can_be_sent_is_refused_with_what_was_meant() {
        for text in ["20", " 999 ", "0.5K", "20bit", "2T"] {
            assert_eq!(text.parse::<RateArg>(), sending_rate(text).map(RateArg::Bps), "{text}");
            assert!(text.parse::<RateArg>().is_err(), "{text}");
        }
        // Boundary values of the protocol's rate limits.
        for (rate_bps, is_valid) in [(999, false), (1_000, true), (1_000_000_000_000, true), (1_000_000_000_001, false)]
        {
            let config = dfcp::Config::danger_unsealed().with_rate(dfcp::Rate::Fixed { rate_bps });
            assert_eq!((config.validate().is_ok(), SENDING_RATE_BPS.contains(&rate_bps)), (is_valid, is_valid));
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_can_be_sent_at_is_a_rate(text in "\\PC*|[0-9.]{0,30} ?[a-zA-Zµ%/]{0,6}") {
            let parsed = text.parse().ok().filter(|arg| matches!(arg, RateArg::Bps(_)));
            proptest::prop_assert_eq!(sending_rate(&text).ok().map(RateArg::Bps), parsed);
        }
    }
}
