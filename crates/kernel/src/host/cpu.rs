//! The choice of a host CPU for each guest.
//!
//! A guest has one processor, but user-mode Linux and its processes are several host processes, which wake each other at every system call.
//! On one CPU such a call takes 14 µs, on two 62 µs (`docs/decisions/0023-kernel-platform.md`).

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Number of this program's guests on each CPU.
static GUESTS: Mutex<[u32; CpuSet::MAX_CPU]> = Mutex::new([0; CpuSet::MAX_CPU]);

fn guests() -> MutexGuard<'static, [u32; CpuSet::MAX_CPU]> {
    // The counts are consistent even if a lock holder panicked.
    GUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Assignment of a guest to a CPU, for its lifetime.
#[derive(Debug)]
pub(super) struct Seat {
    cpu: usize,
    allowed: CpuSet,
}

impl Seat {
    /// Takes the CPU with the fewest guests, among those that this thread may use. If several have the fewest, prefers
    /// this thread's CPU: the system has placed the thread on the CPU with the least other load.
    ///
    /// # Errors
    /// Fails if the system does not report the permitted CPUs.
    pub(super) fn take() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut guests = guests();
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let here = sched_getcpu();
        let cpu = cpus.min_by_key(|&cpu| (guests[cpu], cpu != here)).ok_or(io::ErrorKind::NotFound)?;
        guests[cpu] += 1;
        Ok(Self { cpu, allowed })
    }

    /// Runs `start`, whose new processes stay on the CPU with all their descendants.
    ///
    /// # Errors
    /// Fails with an error of `start`, or if the system refuses the CPU.
    pub(super) fn start<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut one = CpuSet::new();
        one.set(self.cpu);
        sched_setaffinity(None, &one)?;
        let started = start();
        sched_setaffinity(None, &self.allowed)?;
        started
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        guests()[self.cpu] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_started_stays_on_one_cpu_and_the_thread_does_not() {
        let before = sched_getaffinity(None).unwrap();
        let seat = Seat::take().unwrap();
        let output = seat.start(|| Command::new("cat").arg("/proc/self/status").output()).unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        assert_eq!(cpus.trim(), seat.cpu.to_string());
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn guests_spread_over_the_cpus() {
        let count = sched_getaffinity(None).unwrap().count() as usize;
        let seats: Vec<Seat> = (0..2 * count).map(|_| Seat::take().unwrap()).collect();
        // Other tests may run guests at the same time, but no CPU stays free while another gets a third guest.
        let most = (0..CpuSet::MAX_CPU).map(|cpu| seats.iter().filter(|seat| seat.cpu == cpu).count()).max();
        assert!(count == 1 || most.unwrap() < 2 * count, "{seats:?}");
    }
}
