//! Amounts formatted for people.

/// Formats a rate with three significant digits and a power-of-1000 prefix: `93.4 Mbit/s`.
#[must_use]
pub fn human_rate(rate_bps: f64) -> String {
    with_prefix(rate_bps, "bit/s")
}

/// Formats a size with three significant digits and a power-of-1000 prefix: `64.0 MB`; below 1000 the exact number.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    with_prefix(bytes as f64, "B")
}

fn with_prefix(value: f64, unit: &str) -> String {
    let mut scaled = value.max(0.0);
    let mut prefixes = ["", "k", "M", "G", "T", "P"].into_iter().peekable();
    let mut prefix = prefixes.next().unwrap_or_default();
    // Without this limit, 999.5 would be shown as 1000.
    while scaled >= 999.5 && prefixes.peek().is_some() {
        scaled /= 1000.0;
        prefix = prefixes.next().unwrap_or_default();
    }
    let decimals = match scaled {
        _ if prefix.is_empty() || scaled >= 99.95 => 0,
        _ if scaled >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits() {
        let rates = [0.0, 850.0, 999.4, 999.6, 1_254_000.0, 93_400_000.0, 99_960_000.0, 999_600_000.0, 4e18];
        let expected = ["0 bit/s", "850 bit/s", "999 bit/s", "1.00 kbit/s", "1.25 Mbit/s", "93.4 Mbit/s"];
        let expected = expected.into_iter().chain(["100 Mbit/s", "1.00 Gbit/s", "4000 Pbit/s"]);
        assert_eq!(rates.map(human_rate).to_vec(), expected.collect::<Vec<_>>());
        assert_eq!([999, 64_000_000].map(human_bytes), ["999 B", "64.0 MB"]);
    }
}
