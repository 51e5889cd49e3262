//! The choice of a host CPU for each guest.
//!
//! A guest has one processor, but user-mode Linux and the processes in it are several of the host's, which wake each other with every
//! system call. On one CPU such a call takes 14 µs, and across two 62 µs (`docs/decisions/0023-kernel-platform.md`).

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Guests of this program on each CPU.
static GUESTS: Mutex<[u32; CpuSet::MAX_CPU]> = Mutex::new([0; CpuSet::MAX_CPU]);

fn guests() -> MutexGuard<'static, [u32; CpuSet::MAX_CPU]> {
    // Numbers are whole whenever a holder panics.
    GUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guest's place on a CPU, as long as it lasts.
#[derive(Debug)]
pub(super) struct Seat {
    cpu: usize,
    allowed: CpuSet,
}

impl Seat {
    /// On the CPU with the fewest guests, of those that this thread may use. Of several, where this thread is: what other
    /// programs do on them only the system knows, and it has put the thread where there was least to do.
    ///
    /// # Errors
    /// The system does not tell which these are.
    pub(super) fn take() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut guests = guests();
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let here = sched_getcpu();
        let cpu = cpus.min_by_key(|&cpu| (guests[cpu], cpu != here)).ok_or(io::ErrorKind::NotFound)?;
        guests[cpu] += 1;
        Ok(Self { cpu, allowed })
    }

    /// Lets `start` start processes, which stay on the CPU with all their descendants.
    ///
    /// # Errors
    /// Those of `start`, or the system does not let the thread go there.
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
        // Other tests may have guests of their own meanwhile, but no CPU is left out for another one's third.
        let most = (0..CpuSet::MAX_CPU).map(|cpu| seats.iter().filter(|seat| seat.cpu == cpu).count()).max();
        assert!(count == 1 || most.unwrap() < 2 * count, "{seats:?}");
    }
}
