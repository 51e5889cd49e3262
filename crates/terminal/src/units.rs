//! Numbers with units, parsed and formatted: `10%`, `25ms`, `20M`, `100mbit`, `64MiB`.
//!
//! The parsers have the signature of clap's `value_parser`. All are case-insensitive, allow a space before the unit,
//! and refuse ambiguous input.

use std::ops::RangeInclusive;
use std::time::Duration;

pub use dfcp_framing::{human_bytes, human_rate};

/// Range of sending rates, bit/s, that `dfcp::Config::rate` accepts.
pub const SENDING_RATE_BPS: RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// Invalid argument. The message states which values are accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a probability.
    #[error("`{0}` is not a share: write 10% or 0.1, from 0% to 100%")]
    Percent(String),
    /// Not a duration.
    #[error("`{0}` is not a time: write a number with its unit, like 25ms, 2s, 500us or 5min")]
    Duration(String),
    /// Not a rate.
    #[error(
        "`{0}` is not a rate: write 20M, 1G or 500K, or 20mbit, 1gbit, 500kbit (10^6 bits per Mbit), or plain bits per second"
    )]
    Rate(String),
    /// The rate is below the minimum.
    #[error("{} is too slow to send at: {advice}", human_rate(*.rate_bps as f64))]
    TooSlow {
        /// Rate as it was parsed.
        rate_bps: u64,
        /// Next step.
        advice: String,
    },
    /// The rate exceeds the maximum.
    #[error("{} is more than any interface sends: the most is {}", human_rate(*.0 as f64), human_rate(*SENDING_RATE_BPS.end() as f64))]
    TooFast(u64),
    /// Neither a rate nor a word for one.
    #[error(
        "`{0}` is not a rate: write 20M, 1G or 500K (bits per second), `auto` (auto:high, auto:low) for what the path has room \
         for, or `line` for as fast as interface and peer take it"
    )]
    RateOrWord(String),
    /// Not a size.
    #[error(
        "`{0}` is not a size: write bytes, or 64kB, 64MB, 1GB (powers of 1000), or 64K, 64M, 1G, which are 64KiB, 64MiB, 1GiB (of 1024)"
    )]
    Size(String),
}

/// Parses a probability: `10%`, `10 %` or `0.1`. A bare number above 1 is refused, not read as per cent.
///
/// # Errors
/// Fails with [`UnitError::Percent`].
pub fn percent(text: &str) -> Result<f64, UnitError> {
    let probability = match split(text) {
        Some((number, "")) => Some(number),
        Some((number, "%")) => Some(number / 100.0),
        _ => None,
    };
    probability.filter(|p| (0.0..=1.0).contains(p)).ok_or_else(|| UnitError::Percent(text.to_owned()))
}

/// Parses a duration: `25ms`, `2s`, `500us`, `40ns`, `5min`, `1h`; a bare `0` needs no unit.
///
/// # Errors
/// Fails with [`UnitError::Duration`].
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let lower = text.to_lowercase();
    let seconds = match split(&lower) {
        Some((0.0, "")) => Some(0.0),
        Some((number, "ns")) => Some(number / 1e9),
        Some((number, "us" | "µs" | "μs")) => Some(number / 1e6),
        Some((number, "ms")) => Some(number / 1e3),
        Some((number, "s")) => Some(number),
        Some((number, "min" | "m")) => Some(number * 60.0),
        Some((number, "h")) => Some(number * 3600.0),
        _ => None,
    };
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| UnitError::Duration(text.to_owned()))
}

/// Parses a rate in bit/s: `100M` like in iperf3, `100mbit`, `100 Mbit/s`, `100mbps`, `1G`, `500K`, or plain bits per
/// second. All forms count bits, 10⁶ per Mbit; zero is refused.
///
/// # Errors
/// Fails with [`UnitError::Rate`].
pub fn rate(text: &str) -> Result<u64, UnitError> {
    parse_rate(text).ok_or_else(|| UnitError::Rate(text.to_owned()))
}

/// Parses a sending rate in bit/s, in the syntax of [`rate`].
///
/// # Errors
/// Fails with [`UnitError::Rate`], [`UnitError::TooSlow`] or [`UnitError::TooFast`].
pub fn sending_rate(text: &str) -> Result<u64, UnitError> {
    sendable(rate(text)?, text)
}

/// Checks that `rate_bps`, parsed from `text`, is a possible sending rate. For a small number without a unit, the error
/// suggests Mbit/s.
fn sendable(rate_bps: u64, text: &str) -> Result<u64, UnitError> {
    let (least_bps, most_bps) = SENDING_RATE_BPS.into_inner();
    if rate_bps > most_bps {
        return Err(UnitError::TooFast(rate_bps));
    }
    if rate_bps >= least_bps {
        return Ok(rate_bps);
    }
    let text = text.trim();
    let advice = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("did you mean {text}M?"),
        false => format!("the least is {}", human_rate(least_bps as f64)),
    };
    Err(UnitError::TooSlow { rate_bps, advice })
}

fn parse_rate(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let (number, unit) = split(&lower)?;
    let (factor, unit) = match unit.chars().next() {
        Some('k') => (1e3, &unit[1..]),
        Some('m') => (1e6, &unit[1..]),
        Some('g') => (1e9, &unit[1..]),
        Some('t') => (1e12, &unit[1..]),
        _ => (1.0, unit),
    };
    // A prefix alone (`100M`) counts bits, like in iperf3; programs display the parsed rate before sending. Bytes
    // (`100MB/s`) are refused.
    if !matches!(unit, "" | "bit" | "bits" | "bit/s" | "bps") {
        return None;
    }
    whole(number * factor).filter(|&rate_bps| rate_bps > 0)
}

/// Parses a size in bytes: `64MB` is 64·10⁶; `64MiB` and `64M` are 64·2²⁰, like in iperf3, rsync and GNU programs. A
/// bare number counts bytes.
///
/// # Errors
/// Fails with [`UnitError::Size`].
pub fn size_bytes(text: &str) -> Result<u64, UnitError> {
    let lower = text.to_lowercase();
    let factor = |unit: &str| match unit {
        "" | "b" => Some(1.0),
        "kb" => Some(1e3),
        "mb" => Some(1e6),
        "gb" => Some(1e9),
        "tb" => Some(1e12),
        "kib" | "k" => Some((1u64 << 10) as f64),
        "mib" | "m" => Some((1u64 << 20) as f64),
        "gib" | "g" => Some((1u64 << 30) as f64),
        "tib" | "t" => Some((1u64 << 40) as f64),
        _ => None,
    };
    split(&lower)
        .and_then(|(number, unit)| whole(number * factor(unit)?))
        .ok_or_else(|| UnitError::Size(text.to_owned()))
}

/// Splits a non-negative decimal number from its unit. Signs, exponents, `inf` and `nan` are refused.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Rounds to the nearest integer; `None` if it does not fit.
fn whole(value: f64) -> Option<u64> {
    let rounded = value.round();
    // 2⁶⁴ is the first value that does not fit; `u64::MAX as f64` rounds up to it.
    (rounded >= 0.0 && rounded < u64::MAX as f64).then_some(rounded as u64)
}

/// Formats `rate_bps` in the syntax of [`rate`], truncated to two significant digits: `4.9mbit`.
#[must_use]
pub fn rate_argument(rate_bps: u64) -> String {
    let digits = rate_bps.checked_ilog10().unwrap_or_default();
    let step = 10_u64.pow(digits.saturating_sub(1));
    let cut_bps = (rate_bps / step * step) as f64;
    match digits {
        0..3 => format!("{cut_bps}bit"),
        3..6 => format!("{}kbit", cut_bps / 1e3),
        6..9 => format!("{}mbit", cut_bps / 1e6),
        _ => format!("{}gbit", cut_bps / 1e9),
    }
}

/// Formats a duration in its natural unit, with up to three decimals: `25 ms`, `1.5 s`, `500 µs`.
#[must_use]
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = match duration.as_nanos() {
        0 => return "0 ms".to_owned(),
        1..1_000 => (seconds * 1e9, "ns"),
        1_000..1_000_000 => (seconds * 1e6, "µs"),
        1_000_000..1_000_000_000 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    format!("{} {unit}", trimmed(value, 3))
}

/// Formats a probability in per cent, with up to four decimals: `10 %`, `0.1 %`.
#[must_use]
pub fn human_percent(probability: f64) -> String {
    format!("{} %", trimmed(probability * 100.0, 4))
}

/// Formats a number without trailing zeros.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        for (text, expected) in [("10%", 0.1), ("10 %", 0.1), ("0.1", 0.1), ("0", 0.0), ("100%", 1.0), (" 1 ", 1.0)] {
            assert_eq!(percent(text), Ok(expected), "{text}");
        }
        for text in ["", "%", "10", "101%", "-1%", "1e-3", "nan", "inf", "ten", "10%%", "1.2.3"] {
            assert_eq!(percent(text), Err(UnitError::Percent(text.to_owned())));
        }
    }

    #[test]
    fn durations() {
        let cases =
            [("25ms", 25_000_000), ("2s", 2_000_000_000), ("500us", 500_000), ("0.5 ms", 500_000), ("40ns", 40)];
        for (text, ns) in cases.into_iter().chain([("0", 0), ("5min", 300_000_000_000), ("1H", 3_600_000_000_000)]) {
            assert_eq!(duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in ["25", "", "ms", "-5ms", "5 parsecs", "99999999999999999999999s"] {
            assert_eq!(duration(text), Err(UnitError::Duration(text.to_owned())));
        }
    }

    #[test]
    fn rates() {
        let cases = [("100mbit", 100_000_000), ("1gbit", 1_000_000_000), ("500 kbit", 500_000), ("9600", 9600)];
        for (text, rate_bps) in cases.into_iter().chain([("100 Mbit/s", 100_000_000), ("2.5Gbps", 2_500_000_000)]) {
            assert_eq!(rate(text), Ok(rate_bps), "{text}");
        }
        for (text, rate_bps) in [("20M", 20_000_000), ("20m", 20_000_000), ("100K", 100_000), ("1.5 G", 1_500_000_000)]
        {
            assert_eq!(rate(text), Ok(rate_bps), "{text}");
        }
        for text in ["0", "", "M", "100MB", "100MB/s", "100 mbyte", "-1mbit", "line", "99999999999tbit", "0.2"] {
            assert_eq!(rate(text), Err(UnitError::Rate(text.to_owned())));
        }
    }

    #[test]
    fn a_rate_at_which_nothing_can_be_sent_is_refused_with_what_was_meant() {
        for (text, sentence) in [
            ("20", "20 bit/s is too slow to send at: did you mean 20M?"),
            (" 999 ", "999 bit/s is too slow to send at: did you mean 999M?"),
            ("0.5K", "500 bit/s is too slow to send at: the least is 1.00 kbit/s"),
            ("20bit", "20 bit/s is too slow to send at: the least is 1.00 kbit/s"),
            ("2T", "2.00 Tbit/s is more than any interface sends: the most is 1.00 Tbit/s"),
        ] {
            assert_eq!(sending_rate(text).unwrap_err().to_string(), sentence);
            // Emulated links have no minimum rate.
            assert!(rate(text).is_ok(), "{text}");
        }
        for rate_bps in [1_000, 1_000_000_000_000] {
            assert_eq!(sending_rate(&rate_bps.to_string()), Ok(rate_bps));
        }
    }

    #[test]
    fn sizes() {
        let cases = [("64MB", 64_000_000), ("64MiB", 67_108_864), ("1 kB", 1000), ("1KiB", 1024), ("17", 17)];
        for (text, bytes) in cases.into_iter().chain([("1.5GB", 1_500_000_000), ("0", 0), ("3b", 3)]) {
            assert_eq!(size_bytes(text), Ok(bytes), "{text}");
        }
        for (text, bytes) in [("64M", 64 << 20), ("64k", 64 << 10), ("1G", 1 << 30), ("2 T", 2 << 40)] {
            assert_eq!(size_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "64 mbit", "-1", "20000000TiB"] {
            assert_eq!(size_bytes(text), Err(UnitError::Size(text.to_owned())));
        }
    }

    #[test]
    fn errors_say_what_is_accepted() {
        assert!(percent("x").unwrap_err().to_string().contains("10%"));
        assert!(duration("x").unwrap_err().to_string().contains("25ms"));
        assert!(rate("x").unwrap_err().to_string().contains("20mbit"));
        assert!(size_bytes("x").unwrap_err().to_string().contains("64MiB"));
    }

    #[test]
    fn times_and_shares_are_short() {
        let ns = [0, 40, 500_000, 25_000_000, 1_500_000_000];
        let expected = ["0 ms", "40 ns", "500 µs", "25 ms", "1.5 s"];
        assert_eq!(ns.map(|ns| human_duration(Duration::from_nanos(ns))), expected);
        assert_eq!([0.1, 0.07, 0.001, 1.0, 0.0].map(human_percent), ["10 %", "7 %", "0.1 %", "100 %", "0 %"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC*|[0-9.]{0,30} ?[a-zA-Zµ%/]{0,6}") {
            if let Ok(p) = percent(&text) {
                proptest::prop_assert!((0.0..=1.0).contains(&p));
            }
            if let Ok(rate_bps) = rate(&text) {
                proptest::prop_assert!(rate_bps > 0);
            }
            let _ = (duration(&text), size_bytes(&text));
        }

        #[test]
        fn whole_numbers_survive(number in 1u64..1_000_000) {
            proptest::prop_assert_eq!(rate(&format!("{number}kbit")), Ok(number * 1000));
            proptest::prop_assert_eq!(size_bytes(&format!("{number}MiB")), Ok(number << 20));
            proptest::prop_assert_eq!(duration(&format!("{number}ms")), Ok(Duration::from_millis(number)));
        }
    }

    #[test]
    fn a_rate_to_be_given_is_read_as_what_it_says() {
        for (rate_bps, text, read_bps) in [
            (0, "0bit", None),
            (7, "7bit", Some(7)),
            (64_000, "64kbit", Some(64_000)),
            (999_999, "990kbit", Some(990_000)),
            (4_963_000, "4.9mbit", Some(4_900_000)),
            (49_630_000, "49mbit", Some(49_000_000)),
            (1_999_000_000, "1.9gbit", Some(1_900_000_000)),
        ] {
            assert_eq!(rate_argument(rate_bps), text);
            assert_eq!(rate(text).ok(), read_bps, "{text}");
        }
    }
}
