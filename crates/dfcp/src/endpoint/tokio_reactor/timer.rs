//! A timer within a runtime whose own may be 2 ms late.

pub(super) use system::Timer;

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::endpoint::tokio_reactor::watch;

    /// The system's, which is some tens of microseconds late.
    #[derive(Debug)]
    pub(in crate::endpoint::tokio_reactor) struct Timer {
        timer: AsyncFd<OwnedFd>,
        /// When it expires, unless it has.
        expires: Option<Instant>,
    }

    impl Timer {
        pub(in crate::endpoint::tokio_reactor) fn new() -> io::Result<Self> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            Ok(Self { timer: watch(timer, Interest::READABLE)?, expires: None })
        }

        /// Waits for `timeout` at the most. It may end earlier: a timer which is set is left, which spares most of the
        /// setting.
        pub(in crate::endpoint::tokio_reactor) async fn wait(&mut self, timeout: Duration) {
            let now = Instant::now();
            let wanted = now + timeout;
            if !self.expires.is_some_and(|at| now < at && at <= wanted) {
                if self.set(timeout).is_err() {
                    return tokio::time::sleep(timeout).await;
                }
                self.expires = Some(wanted);
            }
            if let Ok(mut guard) = self.timer.readable().await {
                guard.clear_ready();
            }
            self.expires = None;
        }

        fn set(&self, timeout: Duration) -> io::Result<()> {
            // Nothing at all would mean never.
            let it_value = Timespec::try_from(timeout.max(Duration::from_nanos(1))).map_err(io::Error::other)?;
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[tokio::test]
        async fn it_never_waits_longer_and_a_later_time_is_waited_for_in_parts() {
            let mut timer = Timer::new().unwrap();
            let began = Instant::now();
            timer.wait(Duration::ZERO).await;
            timer.wait(Duration::from_micros(200)).await;
            assert!(began.elapsed() >= Duration::from_micros(200));
            let long = Duration::from_secs(3_600);
            tokio::select! {
                biased;
                () = timer.wait(Duration::from_millis(1)) => {}
                () = std::future::ready(()) => {}
            }
            timer.wait(long).await;
            assert_eq!(timer.expires, None, "the earlier time was left, and has passed");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::time::Duration;

    /// The runtime's.
    #[derive(Debug)]
    pub(in crate::endpoint::tokio_reactor) struct Timer;

    impl Timer {
        pub(in crate::endpoint::tokio_reactor) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(in crate::endpoint::tokio_reactor) async fn wait(&mut self, timeout: Duration) {
            tokio::time::sleep(timeout).await;
        }
    }
}
