//! Share of a processor that the ends of flows have.

use std::fs;
use std::time::Instant;

/// The least `nice` value, of threads and of groups of them.
const HIGHEST_PRIORITY: i32 = -20;

/// Puts this process before those of other sessions, and this thread before others, as far as the user may do that: whatever is refused
/// makes the ends wait, which is counted.
///
/// On kernels that group processes by their sessions (autogroups), `nice` acts within a session alone. Measured beside ten busy
/// sessions: a transfer at 100 Mbit/s had a fifth of the processor, and delivered a fifth.
pub(crate) fn prefer() {
    // Without a session of its own, which a leader of a group cannot have, this would be about the caller's other programs, too.
    if rustix::process::setsid().is_ok() {
        // Only where the kernel has autogroups, and for root.
        let _ = fs::write("/proc/self/autogroup", HIGHEST_PRIORITY.to_string());
    }
    let _ = rustix::process::setpriority_process(None, HIGHEST_PRIORITY);
}

/// This thread's part of a processor's time since some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    began: Instant,
    before_ns: [u64; 2],
}

impl Share {
    /// Begins to measure now.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), before_ns: schedule_ns() }
    }

    /// The shares of the time until now in which the thread ran, and in which it waited for a processor.
    pub(crate) fn end(self) -> (f64, f64) {
        let elapsed_ns = self.began.elapsed().as_nanos().max(1) as f64;
        let [ran, waited] = schedule_ns();
        let share = |now_ns: u64, before_ns: u64| now_ns.saturating_sub(before_ns) as f64 / elapsed_ns;
        (share(ran, self.before_ns[0]), share(waited, self.before_ns[1]))
    }
}

/// Running and waiting times of the thread so far, ns; 0 where the kernel does not count them.
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
