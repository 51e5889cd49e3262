//! Deadline and target of messages, on the command line.

use std::time::Duration;

use clap::Args;
use dfcp_framing::limits::{MESSAGE_BYTES_MAX, MESSAGE_INTERVAL_MAX, MESSAGE_WITHIN_MAX};
use dfcp_framing::messages::Worth;

/// Default share of messages that should arrive in time, percent.
const TARGET_DEFAULT_PERCENT: &str = "99.9";

/// Deadline and delivery target of messages.
#[derive(Debug, Clone, Args)]
pub struct MessageArgs {
    /// Time after which a message is worthless, counted from its submission, such as 60ms; at most 1h
    #[arg(long, value_name = "TIME", value_parser = within)]
    pub deadline: Option<Duration>,
    /// Percentage of messages that should arrive in time, 50 to 99.9999: a higher one costs more datagrams
    #[arg(long, value_name = "PERCENT", default_value = TARGET_DEFAULT_PERCENT, value_parser = target_ppm, requires = "deadline")]
    pub target: u32,
}

impl MessageArgs {
    /// Returns deadline and target of the messages; `None` without a deadline.
    pub fn worth(&self) -> Option<Worth> {
        self.deadline.map(|within| Worth { within, target_ppm: self.target })
    }
}

pub(super) fn bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|&bytes| bytes <= MESSAGE_BYTES_MAX);
    bytes.ok_or_else(|| format!("expected a number from 0 to {MESSAGE_BYTES_MAX}"))
}

pub(super) fn every(text: &str) -> Result<Duration, String> {
    time(text, MESSAGE_INTERVAL_MAX).ok_or_else(|| "expected a time such as 4ms, from 1us to 1min".to_owned())
}

/// Parses a message deadline.
///
/// # Errors
/// Fails if the time is invalid or out of range.
pub fn within(text: &str) -> Result<Duration, String> {
    time(text, MESSAGE_WITHIN_MAX).ok_or_else(|| "expected a time such as 60ms, from 1us to 1h".to_owned())
}

fn time(text: &str, most: Duration) -> Option<Duration> {
    crate::units::duration(text).ok().filter(|time| (Duration::from_micros(1)..=most).contains(time))
}

/// Parses a percentage into parts per million.
///
/// # Errors
/// Fails if the percentage is invalid or out of range.
pub fn target_ppm(text: &str) -> Result<u32, String> {
    let percent: Option<f64> = text.trim_end_matches('%').trim_end().parse().ok();
    let percent = percent.filter(|percent| (50.0..=99.9999).contains(percent));
    let ppm = percent.map(|percent| (percent * 1e4).round() as u32);
    ppm.ok_or_else(|| "expected a percentage from 50 to 99.9999".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_travel_is_taken() {
        assert_eq!(
            (target_ppm("99.9"), target_ppm("50 %"), target_ppm("99.9999%")),
            (Ok(999_000), Ok(500_000), Ok(999_999))
        );
        for text in ["49.9", "100", "99.99999", "NaN", "", "inf", "-1"] {
            assert!(target_ppm(text).is_err(), "{text}");
        }
        assert_eq!((within("1h"), every("400us")), (Ok(MESSAGE_WITHIN_MAX), Ok(Duration::from_micros(400))));
        for text in ["0", "61min", "500ns", "60", "1000000h"] {
            assert!(within(text).is_err(), "{text}");
        }
        assert!(every("61s").is_err() && bytes("262145").is_err() && bytes("-1").is_err());
        assert_eq!((bytes("0"), bytes("262144")), (Ok(0), Ok(262_144)));
    }
}
