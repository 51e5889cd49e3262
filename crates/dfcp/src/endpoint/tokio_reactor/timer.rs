//! A precise timer, as the runtime's own timer may be 2 ms late.

pub(super) use system::Timer;

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use dfcp_time::Time;
    use rustix::time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::clock::Clock;
    use crate::endpoint::tokio_reactor::watch;

    /// Timer of the system (timerfd), some tens of microseconds late.
    #[derive(Debug)]
    pub(in crate::endpoint::tokio_reactor) struct Timer {
        timer: AsyncFd<OwnedFd>,
        /// Reading of the system's monotonic clock at [`Time::ZERO`] of the endpoint's clock.
        zero: Duration,
        /// Expiry of the timer, or `None` if it has expired.
        expires: Option<Time>,
    }

    impl Timer {
        pub(in crate::endpoint::tokio_reactor) fn new(clock: Clock) -> io::Result<Self> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            let system = Duration::try_from(clock_gettime(ClockId::Monotonic)).map_err(io::Error::other)?;
            let zero = system.saturating_sub(clock.now().since(Time::ZERO));
            Ok(Self { timer: watch(timer, Interest::READABLE)?, zero, expires: None })
        }

        /// Waits until `until` at the latest; `now` is the current time or slightly earlier. May return early: a timer
        /// that is set to an earlier time is kept, which saves most system calls.
        pub(in crate::endpoint::tokio_reactor) async fn wait(&mut self, now: Time, until: Time) {
            if !self.expires.is_some_and(|at| now < at && at <= until) {
                if self.set(until).is_err() {
                    return tokio::time::sleep(until.since(now)).await;
                }
                self.expires = Some(until);
            }
            if let Ok(mut guard) = self.timer.readable().await {
                guard.clear_ready();
            }
            self.expires = None;
        }

        /// Sets the timer. A time in the past expires immediately.
        fn set(&self, until: Time) -> io::Result<()> {
            let at = self.zero + until.since(Time::ZERO);
            // 0 would disarm the timer.
            let it_value = Timespec::try_from(at.max(Duration::from_nanos(1))).map_err(io::Error::other)?;
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[tokio::test]
        async fn it_never_waits_longer_and_a_later_time_is_waited_for_in_parts() {
            let clock = Clock::start();
            let mut timer = Timer::new(clock).unwrap();
            let now = || clock.now();
            timer.wait(now(), now()).await;
            let until = now() + Duration::from_micros(200);
            timer.wait(now(), until).await;
            assert!(now() >= until);
            let long = Duration::from_secs(3_600);
            tokio::select! {
                biased;
                () = timer.wait(now(), now() + Duration::from_millis(1)) => {}
                () = std::future::ready(()) => {}
            }
            timer.wait(now(), now() + long).await;
            assert_eq!(timer.expires, None, "the earlier time was left, and has passed");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use dfcp_time::Time;

    use crate::clock::Clock;

    /// Timer of the runtime.
    #[derive(Debug)]
    pub(in crate::endpoint::tokio_reactor) struct Timer;

    impl Timer {
        pub(in crate::endpoint::tokio_reactor) fn new(_: Clock) -> io::Result<Self> {
            Ok(Self)
        }

        pub(in crate::endpoint::tokio_reactor) async fn wait(&mut self, now: Time, until: Time) {
            tokio::time::sleep(until.since(now)).await;
        }
    }
}
