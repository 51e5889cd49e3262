//! Processor priority and processor time of the flows' endpoints.

use std::fs;
use std::time::Instant;

/// Nice value of the highest priority, for threads and autogroups.
const HIGHEST_PRIORITY: i32 = -20;

/// Raises the priority of this process above other sessions, and of this thread above others, as far as permitted.
/// Without permission the endpoints may have to wait, and this time is measured.
///
/// With autogroups, `nice` only acts within a session. Measured beside ten busy sessions: a transfer at 100 Mbit/s
/// received 20 % of the processor, and delivered 20 %.
pub(crate) fn prefer() {
    // A group leader cannot create a session. Without a session of its own, the autogroup's priority would affect the
    // caller's other programs.
    if rustix::process::setsid().is_ok() {
        // Succeeds for root only, and on kernels with autogroups.
        let _ = fs::write("/proc/self/autogroup", HIGHEST_PRIORITY.to_string());
    }
    let _ = rustix::process::setpriority_process(None, HIGHEST_PRIORITY);
}

/// Meter of this thread's share of processor time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    began: Instant,
    before_ns: [u64; 2],
}

impl Share {
    /// Starts measuring.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), before_ns: schedule_ns() }
    }

    /// Returns the shares of the elapsed time during which the thread ran, and during which it waited for a processor.
    pub(crate) fn end(self) -> (f64, f64) {
        let elapsed_ns = self.began.elapsed().as_nanos().max(1) as f64;
        let [ran, waited] = schedule_ns();
        let share = |now_ns: u64, before_ns: u64| now_ns.saturating_sub(before_ns) as f64 / elapsed_ns;
        (share(ran, self.before_ns[0]), share(waited, self.before_ns[1]))
    }
}

/// Returns the thread's running and waiting time so far, ns; 0 if the kernel does not count them.
fn schedule_ns() -> [u64; 2] {
    parse(&fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default()).unwrap_or_default()
}

fn parse(text: &str) -> Option<[u64; 2]> {
    let mut numbers = text.split_whitespace().map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_first_two_numbers() {
        assert_eq!(parse("572460676 1839919118 826\n"), Some([572_460_676, 1_839_919_118]));
        assert_eq!(parse(""), None);
        assert_eq!(parse("7 x"), None);
    }

    #[test]
    fn shares_are_those_of_the_time_between() {
        let began = Share::begin();
        let (ran, waited) = began.end();
        assert!(ran >= 0.0 && waited >= 0.0);
    }
}
