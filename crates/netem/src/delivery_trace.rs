//! Delivery traces: recorded times at which a radio link delivered packets, in the format of mahimahi (Netravali et
//! al., USENIX ATC 2015).

use std::sync::Arc;
use std::time::Duration;

use dfcp_time::duration_ns;

/// Bytes per delivery opportunity; each line of a trace is one.
pub const OPPORTUNITY_BYTES: u32 = 1_500;
/// Largest time in a trace, ms: one day.
pub const TRACE_MS_MAX: u32 = 24 * 60 * 60 * 1_000;
/// Maximum number of lines in a trace: half an hour at 100 Mbit/s.
pub const TRACE_LINES_MAX: usize = 16_000_000;
/// Maximum length of a trace's text, bytes. It suffices for the maximum number of lines.
pub const TRACE_TEXT_BYTES_MAX: u64 = 160_000_000;

/// Default width of the bins over which a trace's rate is averaged. Short enough for a queue of ten packets, and long
/// enough for several packets per change of rate.
pub const TRACE_BIN_DEFAULT: Duration = Duration::from_millis(20);

/// Returns the rate of a bin with `packets` opportunities, bit/s. An empty bin has 1 bit/s, since a rate cannot be 0.
#[must_use]
pub fn binned_rate_bps(packets: u64, packet_bits: f64, bin: Duration) -> u64 {
    let per_packet_bps = packet_bits * 1e9 / duration_ns(bin).max(1) as f64;
    (packets as f64 * per_packet_bps).round().max(1.0) as u64
}

/// Trace of times at which packets of [`OPPORTUNITY_BYTES`] may leave; it repeats after the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// Times of opportunities, ms, ascending; the last is above 0.
    times_ms: Arc<[u32]>,
}

/// Error in the text of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DeliveryTraceError {
    /// Line number, from 1.
    pub line: usize,
    /// Sentence that states the fault and the next step.
    pub message: String,
}

impl DeliveryTrace {
    /// Parses a trace of mahimahi (`mm-link`). Each line is the time of an opportunity, ms, in ascending order.
    ///
    /// # Errors
    /// Fails at the first invalid line, or if the trace is empty.
    pub fn parse(text: &str) -> Result<Self, DeliveryTraceError> {
        let mut times_ms: Vec<u32> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let error = |message: String| DeliveryTraceError { line: index + 1, message };
            if index >= TRACE_LINES_MAX {
                return Err(error(format!("a trace has at most {TRACE_LINES_MAX} lines; cut it here")));
            }
            // The line may be the whole of a file that is no trace, so the message quotes its beginning only.
            let digits = line.trim();
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let time_ms = digits.parse().ok().filter(|&ms| is_number && ms <= TRACE_MS_MAX);
            let time_ms: u32 = time_ms.ok_or_else(|| {
                let shown: String = digits.chars().take(20).flat_map(char::escape_default).collect();
                error(format!("`{shown}` is no time in whole milliseconds, up to {TRACE_MS_MAX}; write one on each line, and nothing else"))
            })?;
            if let Some(before) = times_ms.last().filter(|&&before| before > time_ms) {
                return Err(error(format!(
                    "{time_ms} ms comes after {before} ms; times must be in order, so sort the file"
                )));
            }
            times_ms.push(time_ms);
        }
        match times_ms.last() {
            None => Err(DeliveryTraceError {
                line: 1,
                message: "the trace is empty; record one with mm-link, or take another".to_owned(),
            }),
            Some(0) => {
                let message =
                    "a trace must end after 0 ms, as it is repeated from there on; add a later line".to_owned();
                Err(DeliveryTraceError { line: times_ms.len(), message })
            }
            Some(_) => Ok(Self { times_ms: times_ms.into() }),
        }
    }

    /// Returns the length of the trace, after which it repeats.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    fn period_ms(&self) -> u64 {
        self.times_ms.last().copied().unwrap_or(1).max(1).into()
    }

    /// Returns the long-term mean rate, bit/s.
    #[must_use]
    pub fn mean_rate_bps(&self) -> f64 {
        self.times_ms.len() as f64 * f64::from(OPPORTUNITY_BYTES) * 8.0 / self.period().as_secs_f64()
    }

    /// Returns the number of opportunities before `time_ns`.
    fn before(&self, time_ns: u64) -> u64 {
        let period_ns = self.period_ms() * 1_000_000;
        let (round, rest_ns) = (time_ns / period_ns, time_ns % period_ns);
        let lines = self.times_ms.len() as u64;
        let of = |until_ns: u64| self.times_ms.partition_point(|&ms| u64::from(ms) * 1_000_000 < until_ns) as u64;
        // The end of one round and time 0 of the next are the same instant, so opportunities of both count.
        let last_round = if round > 0 { of(period_ns + rest_ns) } else { 0 };
        round.saturating_sub(1).saturating_mul(lines).saturating_add(last_round).saturating_add(of(rest_ns))
    }

    /// Returns the mean rate in bin `number`, from 0, bit/s. The trace repeats forever.
    #[must_use]
    pub fn rate_bps(&self, bin: Duration, number: u64) -> u64 {
        binned_rate_bps(self.in_bin(duration_ns(bin), number), f64::from(OPPORTUNITY_BYTES) * 8.0, bin)
    }

    /// Returns the number of opportunities in bin `number`.
    fn in_bin(&self, bin_ns: u64, number: u64) -> u64 {
        let start_ns = number.saturating_mul(bin_ns);
        self.before(start_ns.saturating_add(bin_ns)) - self.before(start_ns)
    }

    /// Iterates over the number of opportunities in each bin of width `bin` until `end`. Empty if `bin` is zero.
    pub fn bins(&self, bin: Duration, end: Duration) -> impl Iterator<Item = u64> + '_ {
        let bin_ns = duration_ns(bin);
        let count = if bin_ns > 0 { duration_ns(end).div_ceil(bin_ns) } else { 0 };
        (0..count).map(move |number| self.in_bin(bin_ns, number))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bins(text: &str, bin_ms: u64, end_ms: u64) -> Vec<u64> {
        let trace = DeliveryTrace::parse(text).unwrap();
        trace.bins(Duration::from_millis(bin_ms), Duration::from_millis(end_ms)).collect()
    }

    #[test]
    fn a_trace_repeats_from_its_last_line_on() {
        // The repeated trace has opportunities at 0, 3, 3, 10; then 10, 13, 13, 20 ms and so on.
        assert_eq!(bins("0\n3\n3\n10\n", 5, 30), [3, 0, 4, 0, 4, 0]);
        assert_eq!(bins("5", 5, 20), [0, 1, 1, 1]);
        assert_eq!(bins("5", 0, 20), [0; 0]);
        assert_eq!(bins("5", 10, 15), [1, 2]);
        let trace = DeliveryTrace::parse("1\n2\n").unwrap();
        assert_eq!((trace.period(), trace.mean_rate_bps()), (Duration::from_millis(2), 12e6));
        // Rates are 3 packets of 12 000 bits in 5 ms; none; then as in the bins above.
        let trace = DeliveryTrace::parse("0\n3\n3\n10\n").unwrap();
        let rates: Vec<u64> = (0..6).map(|bin| trace.rate_bps(Duration::from_millis(5), bin)).collect();
        assert_eq!(rates, [7_200_000, 1, 9_600_000, 1, 9_600_000, 1]);
    }

    #[test]
    fn what_is_no_trace_is_told_with_its_line() {
        for (text, line, part) in [
            ("", 1, "empty"),
            ("0\n0\n", 2, "after 0 ms"),
            ("1\n2\n1\n", 3, "sort"),
            ("1\n\n2\n", 2, "`` is no time"),
            ("1\n2.5\n", 2, "`2.5` is no time"),
            ("-1\n", 1, "`-1`"),
            ("+1\n", 1, "`+1`"),
            ("1\n86400001\n", 2, "up to 86400000"),
            ("99999999999999999999999999\n", 1, "`99999999999999999999`"),
            ("1\n\u{1b}[2J\n", 2, "u{1b}"),
        ] {
            let error = DeliveryTrace::parse(text).unwrap_err();
            assert!(error.line == line && error.to_string().contains(part), "{text:?}: line {} {error}", error.line);
        }
        assert!(DeliveryTrace::parse("1\r\n2\r\n").is_ok(), "from another system");
    }

    proptest! {
        #[test]
        fn bins_are_those_of_a_trace_that_is_written_out(
            steps in prop::collection::vec(0..20_u32, 1..30), bin_us in 500..30_000_u64, end_us in 0..400_000_u64,
        ) {
            let mut times_ms: Vec<u32> = steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
            *times_ms.last_mut().unwrap() += 1;
            let text: String = times_ms.iter().map(|ms| format!("{ms}\n")).collect();
            let trace = DeliveryTrace::parse(&text).unwrap();
            let period_us = u64::from(*times_ms.last().unwrap()) * 1_000;
            let bins = end_us.div_ceil(bin_us);
            let mut expected = vec![0; bins as usize];
            for round in 0..=bins * bin_us / period_us {
                for ms in &times_ms {
                    let at_us = round * period_us + u64::from(*ms) * 1_000;
                    if let Some(bin) = expected.get_mut((at_us / bin_us) as usize) {
                        *bin += 1;
                    }
                }
            }
            let found: Vec<u64> = trace.bins(Duration::from_micros(bin_us), Duration::from_micros(end_us)).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_text_is_too_strange(text in "(\\PC{0,8}\n|[0-9]{0,12}\r?\n){0,8}") {
            if let Ok(trace) = DeliveryTrace::parse(&text) {
                prop_assert!(trace.mean_rate_bps() > 0.0);
                let _ = trace.bins(Duration::MAX, Duration::MAX).chain(trace.bins(Duration::from_secs(1 << 40), Duration::MAX)).count();
            }
        }
    }
}
