//! Clock of a run, with nanosecond timers.

use std::io;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe;

const NS_PER_S: u64 = 1_000_000_000;

/// Clock that starts with the run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Start on the kernel's monotonic clock, ns.
    start_ns: u64,
}

impl Clock {
    /// Starts the clock.
    pub fn start() -> Self {
        Self { start_ns: monotonic_ns() }
    }

    /// Returns the time since the start, ns.
    pub fn now_ns(self) -> u64 {
        monotonic_ns() - self.start_ns
    }

    /// Creates a timer of this clock.
    ///
    /// # Errors
    /// Fails if the kernel has no timer left.
    pub fn alarm(self) -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // A timerfd is awaited and read like a pipe.
        Ok(Alarm { clock: self, timer: pipe::Receiver::from_owned_fd_unchecked(timer)? })
    }
}

fn monotonic_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec as u64 * NS_PER_S + tv_nsec as u64
}

/// Timer with nanosecond resolution. The runtime's own timers have milliseconds, longer than some RTTs here.
#[derive(Debug)]
pub struct Alarm {
    clock: Clock,
    timer: pipe::Receiver,
}

impl Alarm {
    /// Waits until `at_ns`; returns immediately if that time has passed.
    ///
    /// # Errors
    /// Fails if the kernel refuses the time.
    pub async fn until(&mut self, at_ns: u64) -> io::Result<()> {
        if at_ns <= self.clock.now_ns() {
            return Ok(());
        }
        let at_ns = self.clock.start_ns + at_ns;
        let it_value = Timespec { tv_sec: (at_ns / NS_PER_S) as i64, tv_nsec: (at_ns % NS_PER_S) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        let mut expirations = [0; 8];
        loop {
            self.timer.readable().await?;
            match self.timer.try_read(&mut expirations) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}
